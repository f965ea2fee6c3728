"""Verdicts on answers that a language model reads: the pure part. Who the model is comes in as a callable.

    task of "Is adipogenesis up in flown thymus?" and "It rather falls."
        -> options up / down / missions disagree / cannot be told …
    reading {"answer": "down", "confidence": null}
        -> the verdict that the line `Answer: down` would get, read by "judge"

The model is asked what an answer says, never whether it is right, and sees no truth. Of a rubric's items it is asked
whether the answer meets them; the answer is correct if all are met.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from evals.questions.prompt import answer_form
from evals.schema import (
    CANNOT_BE_TOLD,
    ChoiceTruth,
    FactsTruth,
    GroundTruth,
    RubricItem,
    RubricTruth,
    StatedConfidence,
    Verdict,
)
from evals.verifiers import stated_confidence
from evals.verifiers.expected import Finding, expected, normalised, words
from evals.verifiers.faults import false_figures
from evals.verifiers.line import Lines, read_answer_line, without_thought
from evals.verifiers.score import DEFAULT_SCORING, NO_FAULTS, Faults, Scoring, score
from evals.verifiers.text.amounts import read_number
from evals.wording import MISSING

NONE = "none"
"""What a judge replies where an answer says nothing about the question."""
BOTH = re.compile(r"both\s*:\s*(.*)", re.IGNORECASE | re.DOTALL)
MET = 0.5
"""From this score on, 0 to 1, an item of a rubric is met."""


class ReadRequest(NamedTuple):
    """What a judge is shown. `options` are empty where the answer is open, `items` but for a rubric."""

    question: str
    answer: str
    form: str
    options: tuple[str, ...] = ()
    items: tuple[RubricItem, ...] = ()


class Reading(NamedTuple):
    """What a judge read: an option or a few words, "none", or "both: a; b"; and the stated confidence, 0..100.

    `scores` are those of a rubric's items, 0..1, in their order.
    """

    answer: str = NONE
    confidence: float | None = None
    scores: tuple[float, ...] = ()


class GivenAnswer(NamedTuple):
    """An answer with its question and what is known about it."""

    truth: GroundTruth
    question: str
    completion: str


AnswerReader = Callable[[Sequence[ReadRequest]], Sequence[Reading]]
"""A judge: one reading per task, in order. It raises where it has none; a failure is no verdict."""


def judge_answers(
    answers: Sequence[GivenAnswer], read: AnswerReader, scoring: Scoring = DEFAULT_SCORING
) -> list[Verdict]:
    """Return the verdicts on answers that a judge reads; equal ones and empty ones cost it nothing."""
    tasks = [task_of(*each) for each in answers]
    asked = list(dict.fromkeys(task for task in tasks if task.answer))
    readings = dict(zip(asked, read(asked) if asked else (), strict=True))
    return [verdict_of(each, readings.get(task, Reading()), scoring) for each, task in zip(answers, tasks, strict=True)]


def task_of(truth: GroundTruth, question: str, completion: str) -> ReadRequest:
    """Return what a judge is shown of an answer; of the truth only what whoever answers is shown too."""
    answer = without_thought(completion).strip()
    if isinstance(truth, RubricTruth | FactsTruth):
        return ReadRequest(question, answer, "", items=_items(truth))
    form = answer_form(question, truth)
    options: tuple[str, ...] = ()
    if isinstance(truth, ChoiceTruth):
        options = (*truth.options, CANNOT_BE_TOLD)
    elif form.endswith(f" / {CANNOT_BE_TOLD}"):
        options = tuple(form.split(" / "))
    return ReadRequest(question, answer, form, tuple(dict.fromkeys(options)))


def problem_of(task: ReadRequest, answer: str) -> str:
    """Return what is wrong with the answer that a judge read; nothing if it may stand."""
    parts = _parts(answer, task.options)
    if not answer.strip() or (parts is not None and len(parts) == 1 and BOTH.fullmatch(answer)):
        return f"answer is {answer!r}; give one answer, {NONE}, or both: a; b"
    known = {normalised(word) for each in task.options for word in (each, *words("options").get(each.casefold(), ()))}
    for part in parts or ():
        if known and normalised(part) not in {*known, normalised(task.form)}:
            return f"answer is {part[:80]!r}; it takes {' / '.join(task.options)}, {NONE}, or both: a; b"
    return ""


def verdict_of(answer: GivenAnswer, reading: Reading, scoring: Scoring = DEFAULT_SCORING) -> Verdict:
    """Return the verdict that a reading means."""
    truth, question, completion = answer
    asked, faults = expected(truth), NO_FAULTS
    confidence = _confidence(completion, reading.confidence)
    if isinstance(truth, RubricTruth | FactsTruth):
        finding = _graded(_items(truth), reading.scores)
        confidence = stated_confidence(completion)
    elif parts := _parts(reading.answer, task_of(*answer).options):
        also = parts[0] if len(parts) > 1 else None
        finding = read_answer_line(asked, question, Lines(parts[-1], also, 0, 0, MISSING, ""), read_number)
        reason = f"it says {' and '.join(parts)}" if also else finding.reason
        finding = finding._replace(claims=(), reason=reason)
        figures = false_figures(truth, completion) if finding.verdict == "correct" else ()
        faults = Faults(figures) if figures else NO_FAULTS
    else:
        finding = Finding("no_claim", "the judge found no answer in it")
    return score(truth, finding, confidence, "judge", faults, scoring)


def _parts(answer: str, options: tuple[str, ...]) -> list[str] | None:
    """Return the answers that a reading names; None for "none", unless that is an option."""
    if normalised(answer) == NONE and NONE not in map(normalised, options):
        return None
    both = BOTH.fullmatch(answer.strip())
    return [part.strip() for part in both[1].split(";") if part.strip()] if both else [answer]


def _confidence(completion: str, stated: float | None) -> StatedConfidence:
    """Return the confidence that a judge read if its figure stands in the answer; else what we read there.

    So a confidence that a judge makes up from the tone of an answer does not count.
    """
    if stated is None:
        return MISSING
    share = stated if 0 < stated < 1 else stated / 100
    ours = stated_confidence(completion)
    figures = re.findall(r"\d+(?:[.,]\d+)?", without_thought(completion))
    stands = {float(each.replace(",", ".")) for each in figures} & {stated, round(share, 6)}
    if not stands or ours.value in (share, stated / 100):
        return ours
    if not 0 <= share <= 1:
        return StatedConfidence(value=None, status="invalid")
    return StatedConfidence(value=share, status="stated")


def _items(truth: RubricTruth | FactsTruth) -> tuple[RubricItem, ...]:
    if isinstance(truth, RubricTruth):
        return truth.items
    return tuple(RubricItem(title=fact) for fact in truth.facts)


def _graded(items: tuple[RubricItem, ...], scores: tuple[float, ...]) -> Finding:
    if not scores:
        return Finding("no_claim", "the answer is empty")
    is_met = [each >= MET for each in scores]
    share = sum(item.weight for item, met in zip(items, is_met, strict=True) if met) / sum(
        item.weight for item in items
    )
    missed = "; ".join(item.title for item, met in zip(items, is_met, strict=True) if not met)
    reason = f"{sum(is_met)} of {len(items)} items met" + (f"; not met: {missed}" if missed else "")
    return Finding("incorrect" if missed else "correct", reason, credit=share)
