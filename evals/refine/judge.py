"""Judges of an answer against a rubric and its sources: the protocol, one of rules, one whose verdicts were written down."""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import ClassVar, Literal, Protocol

from pydantic import Field, field_validator

from evals.refine.grammar import (
    SENTENCE_END,
    CitedClaim,
    Evidence,
    Passage,
    content,
    holds,
    is_negated,
    is_opposed,
    is_prefixed,
    numbers,
    split_words,
)
from evals.schema.record import Record
from evals.schema.refiner import BehaviourItem, Polarity, RefinerRecord, RewardConfig


@dataclass(frozen=True, slots=True)
class Item:
    """One behaviour that an answer is graded by. `key` is unique among the items of a record."""

    key: str
    title: str
    description: str
    polarity: Polarity
    weight: float = 1.0
    origin: Literal["instance", "static"] = "instance"


def items_of(record: RefinerRecord, config: RewardConfig) -> tuple[Item, ...]:
    """Return the items of a record: its wanted ones, its unwanted ones, then the static set if it is on."""
    sides: tuple[tuple[str, Polarity, Sequence[BehaviourItem]], ...] = (
        ("+", "positive", record.positive_rubrics),
        ("-", "negative", record.negative_rubrics),
    )
    own = (
        Item(f"{sign}:{each.title}", each.title, each.description, polarity, each.weight)
        for sign, polarity, items in sides
        for each in items
    )
    return (*own, *(static_items() if config.static_rubrics else ()))


@cache
def static_items() -> tuple[Item, ...]:
    """Return the items that every record is graded by, from static.json."""
    rows = json.loads(files("evals.refine").joinpath("static.json").read_text(encoding="utf-8"))
    return tuple(
        Item(f"static:{row['title']}", row["title"], row["description"], row["polarity"], 1.0, "static") for row in rows
    )


def scale_share(raw: float | None, scale: float) -> float | None:
    """Return a judge's number as a share 0..1 of the scale; what is out of range is clamped."""
    return None if raw is None else min(1.0, max(0.0, raw / scale))


def value(item: Item, score: float | None) -> float | None:
    """Return what a score earns: itself, or for an unwanted behaviour what is left of 1."""
    if score is None or item.polarity == "positive":
        return score
    return 1.0 - score


def rubric_score(items: Sequence[Item], raws: Iterable[float | None], scale: float) -> float | None:
    """Return the weighted mean of what the items earn, 0..1; None if a verdict is missing. Needs at least one item."""
    values = [value(item, scale_share(raw, scale)) for item, raw in zip(items, raws, strict=True)]
    known = [each for each in values if each is not None]
    if len(known) < len(values):
        return None
    earned = math.fsum(item.weight * each for item, each in zip(items, known, strict=True))
    return min(1.0, earned / math.fsum(item.weight for item in items))


@dataclass(frozen=True, slots=True)
class Inquiry:
    """All that is asked about one answer. `asks_citations` is false where citations do not count.

    `cited` are, for each claim, the ids that a verdict is wanted for; where none is, nothing is asked about the claim.
    """

    record_id: str
    question: str
    evidence: Evidence
    answer: str
    items: tuple[Item, ...]
    claims: tuple[CitedClaim, ...]
    cited: tuple[tuple[str, ...], ...]
    uncited: tuple[Passage, ...]
    scale: float
    asks_citations: bool = True
    table: object = None
    """Verdicts that were written down beforehand, for the judge that reads them off (`StubJudge`)."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A judge's verdicts in the order of the inquiry, None where one is missing.

    `raws` on 0..scale per item, `quotes` the words of the answer they rest on; `support` 0..1 per
    claim; `relevance` 0..1 per claim and asked id; `needs` 0..1 per uncited sentence. `canary` is the
    verdict on a behaviour that no answer can show; above 0 the judge does what the answer tells it.
    """

    raws: tuple[float | None, ...]
    quotes: tuple[str, ...]
    support: tuple[float | None, ...]
    relevance: tuple[tuple[float | None, ...], ...]
    needs: tuple[float | None, ...]
    necessary: tuple[tuple[bool | None, ...], ...] = ()
    canary: float | None = None
    problems: tuple[str, ...] = field(default=())


class Judge(Protocol):
    """Somebody who gives verdicts. `label` names them wherever their verdicts are used."""

    @property
    def label(self) -> str:
        """Who judges, in a few words."""

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        """Return the verdicts; what could not be judged is None."""


def missing(inquiry: Inquiry, problem: str) -> Verdicts:
    """Return verdicts that are all missing, and why."""
    n = len(inquiry.items)
    return Verdicts(
        raws=(None,) * n,
        quotes=("",) * n,
        support=(None,) * len(inquiry.claims),
        relevance=tuple((None,) * len(ids) for ids in inquiry.cited),
        needs=(None,) * len(inquiry.uncited),
        problems=(problem,),
    )


AskJudge = Callable[[Sequence[Inquiry]], Sequence[Verdicts]]
"""A judge as grading needs it: inquiries in, their verdicts out."""


def judge_citations(inquiries: Sequence[Inquiry], judge: AskJudge) -> list[Verdicts]:
    """Return the verdicts on each answer, and which citations are needed by ALCE's leave-one-out.

    A claim that several passages support together is judged again by each passage alone and by the others without it
    (Gao et al. 2023, section 4.3).
    """
    found = [*judge(inquiries)]
    several = [
        [
            (at, name)
            for at, (ids, support) in enumerate(zip(inquiry.cited, verdicts.support, strict=True))
            if support == 1.0 and len(ids) > 1
            for name in ids
        ]
        for inquiry, verdicts in zip(inquiries, found, strict=True)
    ]
    again = [
        replace(
            inquiry,
            items=(),
            uncited=(),
            table=None,
            claims=tuple(inquiry.claims[at] for at, _ in pairs for _ in range(2)),
            cited=tuple(
                ids
                for at, name in pairs
                for ids in ((name,), tuple(other for other in inquiry.cited[at] if other != name))
            ),
        )
        for inquiry, pairs in zip(inquiries, several, strict=True)
        if pairs
    ]
    answers = iter(judge(again) if again else ())
    for place, pairs in enumerate(several):
        support = next(answers).support if pairs else ()
        needed = dict(zip(pairs, map(_is_needed, support[::2], support[1::2]), strict=True))
        necessary = tuple(
            tuple(needed.get((at, name), None if got is None else got == 1.0) for name in ids)
            for at, (ids, got) in enumerate(zip(inquiries[place].cited, found[place].support, strict=True))
        )
        found[place] = replace(found[place], necessary=necessary)
    return found


def _is_needed(alone: float | None, others: float | None) -> bool | None:
    """Return whether a passage supports a claim alone, or the others do not without it; None for want of a verdict."""
    if alone == 1.0 or (others is not None and others < 1.0):
        return True
    return None if alone is None or others is None else False


def number_of(value: object) -> float | None:
    """Return a finite number; None for anything else: true, NaN, a text that is no number.

    >>> number_of("1.5"), number_of(True), number_of("high"), number_of(float("nan"))
    (1.5, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


QUOTED = re.compile(r"[\"“]([^\"“”]+)[\"”]")
GIVEN = frozenset(["passage", "evidence", "snippet", "source", "table", "output"])
SUPPORTED, HALF_SUPPORTED, RELEVANT = 0.6, 0.35, 0.3
"""Shares of a claim's words that the cited texts must hold."""


class HeuristicJudge:
    """Gives verdicts by word overlap, none ever missing; its label says so wherever they are used."""

    label: ClassVar[str] = "heuristic (word overlap, no language model; for smoke tests only)"

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        return compare_words(inquiry)


def compare_words(inquiry: Inquiry) -> Verdicts:
    """Return verdicts by word overlap."""
    support = tuple(
        support_by_words(claim.text, [inquiry.evidence[name] for name in ids])
        for claim, ids in zip(inquiry.claims, inquiry.cited, strict=True)
    )
    known = frozenset().union(*(content(text) for text in inquiry.evidence.values()))
    uncited = [(each.text, content(each.text)) for each in inquiry.uncited]
    # a sentence needs a citation that states a number or talks about what the evidence talks about
    needs = tuple(
        float(not _is_abstention(text) and bool(numbers(said) or len(said & known) >= 3)) for text, said in uncited
    )
    spoken = [part.text for part in (*inquiry.claims, *inquiry.uncited)]
    shares = [_presence(item, inquiry, spoken, support, needs) for item in inquiry.items]
    # the part of the answer that shares most words with the item
    wanted = (content(item.description) for item in inquiry.items)
    nearest = (max(spoken, key=lambda text, said=said: len(content(text) & said), default="") for said in wanted)
    return Verdicts(
        raws=tuple(share * inquiry.scale for share in shares),
        quotes=tuple(text if share else "" for text, share in zip(nearest, shares, strict=True)),
        support=support,
        relevance=tuple(
            tuple(float(_overlap(content(claim.text), content(inquiry.evidence[name])) >= RELEVANT) for name in ids)
            for claim, ids in zip(inquiry.claims, inquiry.cited, strict=True)
        ),
        needs=needs,
    )


def support_by_words(claim: str, cited: Sequence[str]) -> float:
    """Return 1, 0.5 or 0: how far the words of a claim, and all its numbers, stand in the cited texts.

    0 for a claim that denies something, and of the cited texts only sentences count that deny nothing: words that match
    say nothing of what is denied.
    """
    said = content(claim)
    sentences = (each for text in cited for each in SENTENCE_END.split(text.replace(";", "\n")) if not is_negated(each))
    union = frozenset[str]().union(*map(content, sentences))
    if not said or is_negated(claim) or not numbers(said) <= union:
        return 0.0
    if is_opposed(said, union) or is_prefixed(said, union) or is_prefixed(union, said):
        return 0.0
    share = _overlap(said, union)
    return 1.0 if share >= SUPPORTED else 0.5 if share >= HALF_SUPPORTED else 0.0


def _presence(
    item: Item, inquiry: Inquiry, spoken: Sequence[str], support: Sequence[float], needs: Sequence[float]
) -> float:
    """Return how far a behaviour is present, 0..1; one of the static set by the nearest thing words can show."""
    if item.origin != "static":
        told = spoken if is_negated(item.description) else [text for text in spoken if not is_negated(text)]
        answer = split_words(" . ".join(told))
        wanted = QUOTED.findall(item.description)
        if wanted:
            found = (any(holds(answer, split_words(way)) for way in each.split("|")) for each in wanted)
            return float(all(found))
        share = _overlap(content(item.description), frozenset(answer))
        return min(1.0, max(0.0, (share - 0.2) / 0.6))
    if item.title == "Citation Discipline":
        stated = len(support) + sum(needs)
        return sum(support) / stated if stated else float(any(map(_is_abstention, spoken)))
    if not spoken:
        return 0.0
    if item.title == "Off-Query Padding":
        asked = content(inquiry.question)
        aside = sum(not (content(text) & asked or _is_abstention(text)) for text in spoken)
        repeated = len(spoken) - len({split_words(text) for text in spoken})
        return min(1.0, (aside + repeated) / len(spoken))
    strangers = [
        numbers(content(claim.text)) - frozenset().union(*(content(inquiry.evidence[name]) for name in ids))
        for claim, ids in zip(inquiry.claims, inquiry.cited, strict=True)
    ]
    return sum(map(bool, strangers)) / len(strangers) if strangers else 0.0


def _is_abstention(passage: str) -> bool:
    """Return whether a sentence says that something is not in what was given."""
    return is_negated(passage) and not GIVEN.isdisjoint(split_words(passage))


def _overlap(said: frozenset[str], known: frozenset[str]) -> float:
    return len(said & known) / len(said) if said else 0.0


SUPPORT = (0.0, 0.5, 1.0)
"""A claim is unsupported, supported in part, or supported."""


class Attribution(Record):
    """Whether an id bears on a claim; `claim` is its position in the answer, the first is 0."""

    claim: int = Field(ge=0)
    id: str
    relevant: object = None


class StubTable(Record):
    """Verdicts on one answer. null, or anything that is no finite number, is a missing verdict.

    `rubric_raw` by title on 0..score_scale; `claim_support` 0, 0.5 or 1 by position; `uncited_needs_citation` 1 for
    each uncited sentence that needs one: sentences that are not listed need none.
    """

    rubric_raw: dict[str, object] = Field(default_factory=dict)
    claim_support: tuple[object, ...] = ()
    attribution_relevant: tuple[Attribution, ...] = ()
    uncited_needs_citation: tuple[object, ...] = ()

    @field_validator("claim_support")
    @classmethod
    def _is_on_the_scale(cls, support: tuple[object, ...]) -> tuple[object, ...]:
        for each in support:
            if _share(each) not in (None, *SUPPORT):
                raise ValueError(f"a claim's support is 0, 0.5 or 1 (null = missing), not {each}")
        return support


class StubJudge:
    """Reads verdicts off the table that comes with each inquiry; without one, all are missing."""

    label: ClassVar[str] = "stub (verdicts from a table)"

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        """Return what the table says, shares clamped to 0..1."""
        table = inquiry.table if isinstance(inquiry.table, StubTable) else StubTable()
        relevant = {(row.claim, row.id): row.relevant for row in table.attribution_relevant}
        support = dict(enumerate(table.claim_support))
        return Verdicts(
            raws=tuple(number_of(table.rubric_raw.get(item.title)) for item in inquiry.items),
            quotes=("",) * len(inquiry.items),
            support=tuple(_share(support.get(place)) for place in range(len(inquiry.claims))),
            relevance=tuple(
                tuple(_share(relevant.get((place, name))) for name in ids) for place, ids in enumerate(inquiry.cited)
            ),
            needs=tuple(_share(each) for each in table.uncited_needs_citation),
        )


def _share(value: object) -> float | None:
    return scale_share(number_of(value), 1.0)
