"""A judge without a language model: it compares words. For smoke tests and small machines only.

It knows no meaning: a denial, a paraphrase or a wrong subject escapes it. An item whose description
puts phrases in double quotes is present when all of them stand in the answer; "a|b" means one of them.
Other items are present as far as their words are.
"""

import re
from collections.abc import Sequence
from typing import ClassVar

from evals.refiner.judging import Inquiry, Verdicts
from evals.refiner.rubric import Item
from evals.refiner.words import content, holds, is_opposed, numbers, tokens

QUOTED = re.compile(r"[\"“]([^\"“”]+)[\"”]")
DENIALS = frozenset(["not", "no", "none", "nothing", "neither", "cannot"])
GIVEN = frozenset(["passage", "evidence", "snippet", "source", "table", "output"])
SUPPORTED, HALF_SUPPORTED, RELEVANT = 0.6, 0.35, 0.3
"""Shares of a claim's words that the cited texts must hold."""


class HeuristicJudge:
    """Gives verdicts by word overlap; its label says so wherever they are used."""

    label: ClassVar[str] = "heuristic (word overlap, no language model; for smoke tests only)"

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        """Return verdicts; none is ever missing."""
        return compare_words(inquiry)


def compare_words(inquiry: Inquiry) -> Verdicts:
    """Return verdicts by word overlap."""
    support = tuple(
        support_by_words(claim.text, [inquiry.evidence[name] for name in ids])
        for claim, ids in zip(inquiry.claims, inquiry.cited, strict=True)
    )
    needs = tuple(_need(each.text, inquiry) for each in inquiry.uncited)
    spoken = [part.text for part in (*inquiry.claims, *inquiry.uncited)]
    shares = [_presence(item, inquiry, spoken, support, needs) for item in inquiry.items]
    return Verdicts(
        raws=tuple(share * inquiry.scale for share in shares),
        quotes=tuple(
            _quote(item, spoken) if share else ""
            for item, share in zip(inquiry.items, shares, strict=True)
        ),
        support=support,
        relevance=tuple(
            tuple(
                float(_overlap(content(claim.text), content(inquiry.evidence[name])) >= RELEVANT)
                for name in ids
            )
            for claim, ids in zip(inquiry.claims, inquiry.cited, strict=True)
        ),
        needs=needs,
    )


def support_by_words(claim: str, cited: Sequence[str]) -> float:
    """Return 1, 0.5 or 0: how far the words of a claim, and all its numbers, stand in the cited texts."""
    if not cited:
        return 0.0
    said = content(claim)
    union = frozenset().union(*(content(text) for text in cited))
    if not said or not numbers(said) <= union or is_opposed(said, union):
        return 0.0
    share = _overlap(said, union)
    return 1.0 if share >= SUPPORTED else 0.5 if share >= HALF_SUPPORTED else 0.0


def _need(passage: str, inquiry: Inquiry) -> float:
    """Return 1 for a sentence that states a number or talks about what the evidence talks about."""
    said = content(passage)
    if _is_abstention(passage):
        return 0.0
    if numbers(said):
        return 1.0
    known = frozenset().union(*(content(text) for text in inquiry.evidence.values()))
    return float(len(said & known) >= 3)


def _presence(
    item: Item,
    inquiry: Inquiry,
    spoken: Sequence[str],
    support: Sequence[float],
    needs: Sequence[float],
) -> float:
    """Return how far a behaviour is present, 0..1."""
    if item.origin == "static":
        return _static(item.title, inquiry, spoken, support, needs)
    answer = tokens(" . ".join(spoken))
    wanted = QUOTED.findall(item.description)
    if wanted:
        found = (any(holds(answer, tokens(way)) for way in each.split("|")) for each in wanted)
        return float(all(found))
    share = _overlap(content(item.description), frozenset(answer))
    return min(1.0, max(0.0, (share - 0.2) / 0.6))


def _static(
    title: str,
    inquiry: Inquiry,
    spoken: Sequence[str],
    support: Sequence[float],
    needs: Sequence[float],
) -> float:
    """Return how far a behaviour of the static set is present, by the nearest thing words can show."""
    if title == "Citation Discipline":
        stated = len(support) + sum(needs)
        return sum(support) / stated if stated else float(any(map(_is_abstention, spoken)))
    if not spoken:
        return 0.0
    if title == "Off-Query Padding":
        asked = content(inquiry.question)
        aside = sum(not (content(text) & asked or _is_abstention(text)) for text in spoken)
        repeated = len(spoken) - len({tokens(text) for text in spoken})
        return min(1.0, (aside + repeated) / len(spoken))
    strangers = [
        numbers(content(claim.text))
        - frozenset().union(*(content(inquiry.evidence[name]) for name in ids))
        for claim, ids in zip(inquiry.claims, inquiry.cited, strict=True)
    ]
    return sum(map(bool, strangers)) / len(strangers) if strangers else 0.0


def _is_abstention(passage: str) -> bool:
    """Return whether a sentence says that something is not in what was given."""
    words = set(tokens(passage))
    return bool(words & DENIALS and words & GIVEN)


def _quote(item: Item, spoken: Sequence[str]) -> str:
    """Return the part of the answer that shares most words with an item; empty if there is none."""
    wanted = content(item.description)
    return max(spoken, key=lambda text: len(content(text) & wanted), default="")


def _overlap(said: frozenset[str], known: frozenset[str]) -> float:
    return len(said & known) / len(said) if said else 0.0
