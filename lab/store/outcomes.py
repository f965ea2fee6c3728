"""How votes fell: counts per pair of stages, ratings for the statistics of agreement, votes that were not blind."""

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evals.schema import Answer, Choice, Comparison, StagePairCounts

if TYPE_CHECKING:
    from evals.stats.agreement import Rating

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


EXPLORED = 0.1
"""Share of matches that are drawn among all, whatever they would teach."""


def next_match(
    stages: Sequence[str],
    fell: Mapping[tuple[str, str, Choice], int],
    mine: Mapping[tuple[str, str], int],
    chance: Random,
) -> tuple[str, str]:
    """Return which two of the stages to compare next, left and right.

    The two on whom a vote would lower the variances of the ratings most; of equals those with fewest votes, then by chance.
    The first stands on the side where the rater (`mine`: votes by left and right) saw it less often beside the other.
    """
    from evals.stats.ranking import gains

    pairs = list(combinations(stages, 2))
    if chance.random() >= EXPLORED and len(pairs) > 1:
        counts = np.zeros((len(pairs), 3))
        for k, (one, other) in enumerate(pairs):
            for (left, right), column in (((one, other), 0), ((other, one), 1)):
                counts[k, column] += fell.get((left, right, "left"), 0)
                counts[k, 1 - column] += fell.get((left, right, "right"), 0)
                counts[k, 2] += fell.get((left, right, "tie"), 0) + fell.get((left, right, "both_bad"), 0)
        gained = gains(stages, pairs, counts, pairs)
        order = [(round(-gain / gained.max(), 9), n) for gain, n in zip(gained, counts.sum(axis=1), strict=True)]
        pairs = [pair for pair, each in zip(pairs, order, strict=True) if each == min(order)]
    one, other = chance.choice(pairs)
    seen = mine.get((one, other), 0) - mine.get((other, one), 0)
    return (one, other) if seen < 0 or (seen == 0 and chance.random() < 0.5) else (other, one)


def rater_of(vote: Comparison) -> str:
    """Return whom a vote is counted as: browsers without a name may all be one person's, so they are one rater."""
    return "anonymous" if vote.is_anonymous else vote.rater


def ratings_of(pairs: Iterable[JudgedPair]) -> "Iterator[Rating]":
    """Yield each vote as a rating of two texts, in a fixed order, on a question; equal texts hold no choice."""
    from evals.stats.agreement import Rating  # late: the arena goes without

    for pair in pairs:
        if pair.left.text == pair.right.text:
            continue
        texts = sorted((pair.left.text, pair.right.text))
        chosen = {"left": pair.left.text, "right": pair.right.text}.get(pair.vote.choice)
        choice = pair.vote.choice if chosen is None else CHOICES[texts.index(chosen)]
        yield Rating(pair_id(pair), rater_of(pair.vote), choice)


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
