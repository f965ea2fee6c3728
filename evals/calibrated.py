"""Preference pairs that part what is said from how sure it is, from a stage's own sampled answers.

A stage that was trained on the pairs of `evals.preferred` became sure of everything: nothing in them holds
down what cannot be known. Here a stated confidence follows from how often the answers are right, as for the
training targets of Lin, Hilton and Evans ("Teaching Models to Express Their Uncertainty in Words", 2022):

1. What may be stated in an answer is how often the answers to the *other* questions of its kind are right,
   of those that claim something: by Laplace's rule of succession, (right + 1) / (claims + 2), in steps of
   5 %, from 5 to 95 %. Where those claim nothing, there are no pairs.
2. A *verdict* pair is one of `evals.preferred`, in which both answers state this confidence: it teaches
   what to say, and nothing of how sure to be.
3. A *calibration* pair is one answer twice, a right or a wrong one: preferred is the one with this
   confidence, the other has the one that was sampled with it, if the two differ by LEAST_GAP or more. Those
   that differ most come first, and there are at most so many per question. An answer that claims nothing,
   or contradicts itself, deserves no confidence and stands in none.
4. Answers that do not end with a line "Confidence: N%" stand in no pair.

Each verdict is that of the text as it stands in the pair, read from its answer line as in training.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from evals.pairs import (
    Accuracy,
    Judged,
    PairRow,
    PairSet,
    Reason,
    Sample,
    by_question,
    collected,
    is_kept_apart,
    pair_row,
)
from evals.preferred import check_rule, pairs_of
from evals.questions.levels import succession, with_confidence
from evals.verifiers import applicable, verify
from evals.verifiers.line import read_lines

LEAST_GAP = 10
"""Points of confidence between the two answers of a calibration pair."""
LOWEST, HIGHEST = 5, 95
STATED = re.compile(r"(?P<text>.*\S)\s*\nConfidence: (?P<level>\d{1,2}|100)%\s*", re.DOTALL)


class _Stated(NamedTuple):
    """An answer in two: what it says, and the percent that its last line states."""

    sample: Sample
    text: str
    level: int


def make_calibrated_pairs(
    samples: Iterable[Sample],
    margin: float,
    per_question: int,
    unknown_questions: int = 0,
) -> PairSet:
    """Return the pairs that the rule finds, by question id; up to `per_question` of either sort each.

    `unknown_questions` are answers whose question nobody knows, counted as left out. BadConfig for a
    margin outside 0..1 or no pair per question; LabError if there is no pair at all.
    """
    check_rule(margin, per_question)
    groups = by_question(samples)
    tallies = {name: _tally(group) for name, group in groups.items()}
    kinds = {name: group[0].example.ground_truth.kind for name, group in groups.items()}

    def rule(group: Sequence[Sample]) -> tuple[list[PairRow], Reason | None]:
        if is_kept_apart(group[0].example):
            return [], "held_out"
        if not applicable(group[0].example.ground_truth):
            return [], "not_scored"
        stated = [parted for sample in group if (parted := _parted(sample)) is not None]
        if not stated:
            return [], "no_confidence"
        own = group[0].example.id
        behind = _sum(
            tally for name, tally in tallies.items() if kinds[name] == kinds[own] and name != own
        )
        if not behind.claims:
            return [], "no_others"
        level = may_state(behind)
        restated = [replace(each.sample, text=with_confidence(each.text, level)) for each in stated]
        rows, why = pairs_of(restated, margin, per_question)
        rows += _calibration(stated, level, per_question)
        return rows, None if rows else why

    made = collected((each for group in groups.values() for each in group), rule, unknown_questions)
    return replace(made, accuracy=_by_kind(kinds, tallies))


def may_state(accuracy: Accuracy) -> int:
    """Return the confidence that answers so often right may state, percent."""
    return min(HIGHEST, max(LOWEST, succession(accuracy.right, accuracy.claims)))


def _tally(group: Sequence[Sample]) -> Accuracy:
    """Return how many of the answers to one question are right; none of a question that is held out."""
    example = group[0].example
    if is_kept_apart(example):
        return Accuracy(right=0, claims=0)
    verdicts = [verify(example, each.text, read="answer").verdict for each in group]
    return Accuracy(
        right=verdicts.count("correct"), claims=len(verdicts) - verdicts.count("no_claim")
    )


def _sum(tallies: Iterable[Accuracy]) -> Accuracy:
    found = tuple(tallies)
    return Accuracy(
        right=sum(each.right for each in found), claims=sum(each.claims for each in found)
    )


def _by_kind(kinds: Mapping[str, str], tallies: Mapping[str, Accuracy]) -> dict[str, Accuracy]:
    found = {
        kind: _sum(tally for name, tally in tallies.items() if kinds[name] == kind)
        for kind in sorted(set(kinds.values()))
    }
    return {kind: tally for kind, tally in found.items() if tally.claims}


def _parted(sample: Sample) -> _Stated | None:
    """Return what an answer says and how sure it is; None if it does not end with its one confidence."""
    match = STATED.fullmatch(sample.text)
    if match is None or read_lines(sample.text).confidence.status != "stated":
        return None
    return _Stated(sample, match["text"], int(match["level"]))


def _calibration(group: Sequence[_Stated], level: int, count: int) -> list[PairRow]:
    """Return up to `count` pairs of one answer with two confidences, the widest first."""
    widest: dict[str, _Stated] = {}
    for each in sorted(group, key=lambda each: (-abs(each.level - level), each.text)):
        if not each.sample.was_cut and abs(each.level - level) >= LEAST_GAP:
            widest.setdefault(each.text, each)
    rows = [_twice(each, level) for each in widest.values()]
    return [row for row in rows if row.verdict_chosen in ("correct", "incorrect")][:count]


def _twice(stated: _Stated, level: int) -> PairRow:
    """Return one answer as a pair: with the confidence `level`, and as it was sampled."""
    better = replace(stated.sample, text=with_confidence(stated.text, level))
    judged = [
        Judged(each, verify(each.example, each.text, read="answer"))
        for each in (better, stated.sample)
    ]
    return pair_row(judged[0], judged[1], "calibration", abs(stated.level - level) / 100)
