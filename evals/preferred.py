"""The rule by which verifiers prefer one sampled answer to another, instead of people.

The rule, for each question, over the different answers that were sampled to it:

1. A *verdict* pair prefers a right answer to one that is wrong, contradicts itself or claims nothing.
2. A *confidence* pair prefers, of two answers of one verdict (both right or both wrong), the one whose
   stated confidence fits better, by V4's proper score.
3. The two differ by the margin at least: verdict pairs in reward, confidence pairs in V4. First come
   pairs whose lesser answer claims something wrong, then those where it claims nothing, then confidence
   pairs, each by falling margin; no answer stands in two pairs of a question, and there are at most so
   many pairs per question.
4. An answer that was cut off is never preferred. Nothing is paired for a question that is held out, or that
   only a judge can score (a rubric).

Verdicts are read from the answer line alone, as in training: an answer without one claims nothing.
So the pairs say what the verifiers say, no more: they carry the verifiers' mistakes, and no person has
looked at them.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from evals.errors import BadConfig
from evals.pairs import (
    Judged,
    PairRow,
    PairSet,
    Reason,
    Rule,
    Sample,
    collected,
    is_kept_apart,
    pair_id,
    pair_row,
)
from evals.verifiers import applicable, verify


def make_pairs(
    samples: Iterable[Sample],
    margin: float,
    per_question: int,
    unknown_questions: int = 0,
) -> PairSet:
    """Return the pairs that the rule finds, by question id.

    `unknown_questions` are answers whose question nobody knows, counted as left out. BadConfig for a
    margin outside 0..1 or no pair per question; LabError if there is no pair at all.
    """
    check_rule(margin, per_question)
    return collected(
        samples, lambda group: pairs_of(group, margin, per_question), unknown_questions
    )


def check_rule(margin: float, per_question: int) -> None:
    """Raise BadConfig for a margin outside 0..1 or no pair per question."""
    if not 0.0 < margin <= 1.0 or per_question < 1:
        raise BadConfig(
            f"margin is {margin} and pairs per question {per_question}; the margin is a difference of"
            " rewards above 0 and up to 1, and there is one pair per question at least."
        )


def pairs_of(
    group: Sequence[Sample], margin: float, per_question: int
) -> tuple[list[PairRow], Reason | None]:
    """Return the pairs of one question, or why there are none."""
    if is_kept_apart(group[0].example):
        return [], "held_out"
    example = group[0].example
    if not applicable(example.ground_truth):
        return [], "not_scored"
    different = {sample.text.strip(): sample for sample in reversed(group)}
    judged = [
        Judged(each, verify(example, each.text, read="answer")) for each in different.values()
    ]
    if len(judged) < 2:
        return [], "one_answer"
    wide = [pair for pair in _candidates(judged) if _gap(*pair) >= margin]
    wide.sort(key=lambda pair: (_turn(*pair), -_gap(*pair), pair_id(*pair)))
    rows: list[PairRow] = []
    used: set[str] = set()
    for better, worse in wide:
        texts = {better.sample.text, worse.sample.text}
        if len(rows) < per_question and not texts & used:
            rows.append(pair_row(better, worse, _rule(better, worse), _gap(better, worse)))
            used |= texts
    return rows, None if rows else _why_none(judged)


def _candidates(judged: Sequence[Judged]) -> Iterator[tuple[Judged, Judged]]:
    """Yield each pair that the rule allows, the better answer first."""
    for better, worse in product(judged, judged):
        if not better.sample.was_cut and (
            (better.is_right and not worse.is_right) or _fits_better(better, worse)
        ):
            yield better, worse


def _fits_better(better: Judged, worse: Judged) -> bool:
    """Return whether two answers of one verdict state confidences, and the first is nearer the truth."""
    verdict = better.verdict.verdict
    if verdict not in ("correct", "incorrect") or verdict != worse.verdict.verdict:
        return False
    stated = (better.verdict.confidence.value, worse.verdict.confidence.value)
    one, other = better.verdict.scores.get("V4"), worse.verdict.scores.get("V4")
    return None not in stated and one is not None and other is not None and one > other


def _rule(better: Judged, worse: Judged) -> Rule:
    return "verdict" if better.is_right != worse.is_right else "confidence"


def _turn(better: Judged, worse: Judged) -> int:
    """Return 0 for a pair with a wrong claim, 1 for one with an empty answer, 2 for confidence alone."""
    if _rule(better, worse) == "confidence":
        return 2
    return int(worse.verdict.verdict == "no_claim")


def _gap(better: Judged, worse: Judged) -> float:
    """Return by how much the first is better: in reward, or in V4 where the verdicts are alike."""
    if _rule(better, worse) == "verdict":
        return (better.verdict.reward or 0.0) - (worse.verdict.reward or 0.0)
    return (better.verdict.scores["V4"] or 0.0) - (worse.verdict.scores["V4"] or 0.0)


def _why_none(judged: Sequence[Judged]) -> Reason:
    right = sum(answer.is_right for answer in judged)
    if not right:
        return "none_right"
    return "all_right" if right == len(judged) else "margin"
