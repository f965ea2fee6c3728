"""Votes between two answers: how they fell, counts per pair of stages, votes that were not blind."""

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from evals.schema import Answer, Choice, Comparison, StagePairCounts

CHOICES = ("first", "second", "tie", "both_bad")
"""What a rater may choose between two answers, whichever side they stood on."""


@dataclass(frozen=True)
class JudgedPair:
    """One standing vote with the two answers it was cast on."""

    vote: Comparison
    left: Answer
    right: Answer


class Outcome(NamedTuple):
    """So many votes that fell the same way. `winner` is None for a tie and for both bad."""

    first: str
    second: str
    choice: Choice
    winner: str | None
    votes: int


def outcome_of(stages: tuple[str, str], choice: Choice, *, same_text: bool, votes: int = 1) -> Outcome:
    """Return how votes fell between the stages shown left and right; between equal texts no side can win."""
    if same_text and choice != "both_bad":
        choice = "tie"
    first, second = sorted(stages)
    return Outcome(first, second, choice, {"left": stages[0], "right": stages[1]}.get(choice), votes)


def count_pairs(outcomes: Iterable[Outcome]) -> tuple[StagePairCounts, ...]:
    """Return one count per pair of stages, pairs in alphabetical order."""
    pairs: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        pairs.setdefault((outcome.first, outcome.second), []).append(outcome)
    return tuple(
        StagePairCounts(
            first=first,
            second=second,
            first_chosen=sum(one.votes for one in seen if one.winner == first),
            second_chosen=sum(one.votes for one in seen if one.winner == second != first),
            ties=sum(one.votes for one in seen if one.choice == "tie"),
            both_bad=sum(one.votes for one in seen if one.choice == "both_bad"),
        )
        for (first, second), seen in sorted(pairs.items())
    )


def pair_id(pair: JudgedPair) -> str:
    """Return a hash of a question and the two texts, whichever side they stood on and whenever they were written."""
    texts = sorted((pair.left.text, pair.right.text))
    return hashlib.sha256(json.dumps([pair.vote.question, *texts]).encode()).hexdigest()[:32]


def rater_of(vote: Comparison) -> str:
    """Return whom a vote is counted as: browsers without a name may all be one person's, so they are one rater."""
    return "anonymous" if vote.is_anonymous else vote.rater


def names_itself(left: Answer, right: Answer) -> bool:
    """Whether one of two answers tells who wrote it: one of them, or a model that everybody knows; rules: naming.toml."""
    names = {part for each in (left, right) for part in (*each.stage.split("@"), each.chain) if part}
    rule = _rule(frozenset(names))
    return any(rule.search(each.text) for each in (left, right))


@cache
def _rule(names: frozenset[str]) -> re.Pattern[str]:
    told = tomllib.loads(Path(__file__).with_name("naming.toml").read_text(encoding="utf-8"))
    alone = [*told["alone"], *(re.escape(name) for name in names if re.search(r"[\d.-]", name))]
    known = _any([*alone, *map(re.escape, (*told["introduced"], *names))])
    before, behind, an = _any(told["introduces"]), _any(told["followed"]), r"(?:the\s+|an?\s+)?"
    forms = (_any(alone), rf"{before}\s+{an}{known}", rf"as\s+{an}{known}[\s-]+{behind}")
    return re.compile(rf"(?i)(?<![\w-])(?:{'|'.join(forms)})(?![\w-])")


def _any(words: Collection[str]) -> str:
    return f"(?:{'|'.join(sorted(words))})"
