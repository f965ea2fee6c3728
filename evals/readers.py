"""How answers are read, and how far each way of reading agrees with labels that were given by hand.

A label is the verdict of somebody who saw question, truth and answer, and no reader. Where two verdicts
are acceptable, a reader that gives either agrees. Intervals resample questions, since the answers to one
question are not independent.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, reduce
from operator import getitem
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
from pydantic import ConfigDict, Field

from evals.errors import BadConfig, LabError
from evals.io import group_by
from evals.questions.prompt import answer_form
from evals.schema import (
    CANNOT_BE_TOLD,
    ChoiceTruth,
    FactsTruth,
    GroundTruth,
    Metric,
    Record,
    RubricItem,
    RubricTruth,
    StatedConfidence,
    Verdict,
)
from evals.stats.agreement import Rating, rater_agreement
from evals.stats.calibration import weighted_mean
from evals.stats.intervals import DRAWS, Units, percentile_interval, resample, wilson
from evals.verifiers import READINGS, stated_confidence, verifier_versions, verify_prepared
from evals.verifiers.expected import AnswerReading, expected_answer, normalise, words
from evals.verifiers.faults import false_figures
from evals.verifiers.line import Lines, read_answer_line, without_thought
from evals.verifiers.score import DEFAULT_SCORING, NO_FAULTS, Faults, Scoring, score
from evals.verifiers.text.free_text import read_line
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
    tasks = [judge_question(*each) for each in answers]
    asked = list(dict.fromkeys(task for task in tasks if task.answer))
    readings = dict(zip(asked, read(asked) if asked else (), strict=True))
    return [verdict_of(each, readings.get(task, Reading()), scoring) for each, task in zip(answers, tasks, strict=True)]


def judge_question(truth: GroundTruth, question: str, completion: str) -> ReadRequest:
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
    known = {normalise(word) for each in task.options for word in (each, *words("options").get(each.casefold(), ()))}
    for part in parts or ():
        if known and normalise(part) not in {*known, normalise(task.form)}:
            return f"answer is {part[:80]!r}; it takes {' / '.join(task.options)}, {NONE}, or both: a; b"
    return ""


def verdict_of(answer: GivenAnswer, reading: Reading, scoring: Scoring = DEFAULT_SCORING) -> Verdict:
    """Return the verdict that a reading means."""
    truth, question, completion = answer
    asked, faults = expected_answer(truth), NO_FAULTS
    confidence = _confidence(completion, reading.confidence)
    if isinstance(truth, RubricTruth | FactsTruth):
        answer_reading = _rubric_reading(_items(truth), reading.scores)
        confidence = stated_confidence(completion)
    elif parts := _parts(reading.answer, judge_question(*answer).options):
        also = parts[0] if len(parts) > 1 else None
        answer_reading = read_answer_line(asked, question, Lines(parts[-1], also, 0, 0, MISSING, ""), read_line)
        reason = f"it says {' and '.join(parts)}" if also else answer_reading.reason
        answer_reading = answer_reading._replace(claims=(), reason=reason)
        figures = false_figures(truth, completion) if answer_reading.verdict == "correct" else ()
        faults = Faults(figures) if figures else NO_FAULTS
    else:
        answer_reading = AnswerReading("no_claim", "the judge found no answer in it")
    return score(truth, answer_reading, confidence, "judge", faults, scoring)


def _parts(answer: str, options: tuple[str, ...]) -> list[str] | None:
    """Return the answers that a reading names; None for "none", unless that is an option."""
    if normalise(answer) == NONE and NONE not in map(normalise, options):
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


def _rubric_reading(items: tuple[RubricItem, ...], scores: tuple[float, ...]) -> AnswerReading:
    if not scores:
        return AnswerReading("no_claim", "the answer is empty")
    is_met = [each >= MET for each in scores]
    share = sum(item.weight for item, met in zip(items, is_met, strict=True) if met) / sum(
        item.weight for item in items
    )
    missed = "; ".join(item.title for item, met in zip(items, is_met, strict=True) if not met)
    reason = f"{sum(is_met)} of {len(items)} items met" + (f"; not met: {missed}" if missed else "")
    return AnswerReading("incorrect" if missed else "correct", reason, credit=share)


Way = Literal["auto", "answer", "text", "judge"]
"""As `evals.verifiers.Read`, or by a judge: a model that says what an answer says."""
WAYS: tuple[Way, ...] = get_args(Way)
Label = Literal["correct", "incorrect", "contradictory", "no_claim"]
LABELS: tuple[Label, ...] = get_args(Label)
Labels = Label | Annotated[tuple[Label, ...], Field(min_length=1)]


def check_way(name: str) -> Way:
    """Return a way of reading; BadConfig if there is none of that name."""
    if name not in WAYS:
        raise BadConfig(f"answers cannot be read by {name!r}; choose one of {', '.join(WAYS)}")
    return name


def verdicts_on(
    answers: Sequence[GivenAnswer],
    read: Way = "auto",
    scoring: Scoring | None = None,
    judged_by: AnswerReader | None = None,
) -> list[Verdict]:
    """Return the verdicts on answers, read in one way; `judged_by` is the judge that "judge" needs."""
    scoring = scoring or Scoring()
    if read == "judge":
        if judged_by is None:
            raise BadConfig("answers are to be read by a judge, and none is named; name one, or read auto")
        return judge_answers(answers, judged_by, scoring)
    return [verify_prepared(*answer, scoring, read) for answer in answers]


# ---- labels -----------------------------------------------------------------------------------


class LabelRow(Record):
    """A labelled answer: a row of `assay eval verify` with its label, or where its texts stand.

    Columns of other names are kept.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str
    """the answer"""
    ground_truth: GroundTruth
    """what is known to be true"""
    label: Labels
    """the verdict of a person, or several that are all acceptable"""
    prompt: str | None = None
    """the question"""
    completion: str | None = None
    """the answer's text"""
    file: str | None = None
    """the file of somebody else that holds the text, where `completion` is not given"""
    at: tuple[str | int, ...] = ()
    """where in that file: keys and places of JSON, or first and last character of plain text"""
    labelled_twice: tuple[Labels, Labels] | None = None
    """what two labellers said"""
    question_id: str | None = None
    """answers with the same one, else with the same prompt, answer one question"""
    split: str | None = None
    """what the answer may be used for"""
    source: str | None = None
    """where the answer comes from"""

    @property
    def labels(self) -> tuple[Label, ...]:
        return (self.label,) if isinstance(self.label, str) else self.label

    @property
    def question(self) -> str:
        return self.question_id or self.prompt or self.id


def with_texts(rows: Sequence[LabelRow], folder: Path | None) -> list[LabelRow]:
    """Return the rows with their texts; LabError names a row whose texts are not in `folder`."""

    @cache
    def read(name: str) -> Any:
        if folder is None:
            raise LabError(
                f"the texts of {missing} rows are not in the file of labels but in files such as {name}; name the"
                " folder that holds them with --texts FOLDER"
            )
        try:
            text = (folder / name).read_text(encoding="utf-8")
            return json.loads(text) if name.endswith(".json") else text
        except (OSError, ValueError) as error:
            raise LabError(f"cannot read {folder / name}: {error}; --texts names a copy of the repository") from None

    def fill(row: LabelRow) -> LabelRow:
        found = read(row.file or "")
        if isinstance(found, str):
            return row.model_copy(update={"completion": found[slice(*row.at)]})
        try:
            texts = reduce(getitem, row.at, found)
            prompt = texts.get("question", texts.get("prompt"))
            said = texts.get("completion", texts.get("response"))
        except (KeyError, IndexError, TypeError, AttributeError):
            raise LabError(
                f"{row.file} holds nothing at {list(row.at)}, where the answer {row.id!r} should stand; use the"
                " version of the repository that the labels were made for"
            ) from None
        return row.model_copy(update={"prompt": prompt, "completion": said})

    missing = sum(row.completion is None for row in rows)
    return [row if row.completion is not None else fill(row) for row in rows]


# ---- agreement --------------------------------------------------------------------------------


class LabelTally(Record):
    """Of `n` answers, on how many reader and label agree: correct or not, and the four verdicts."""

    n: int
    correct: int
    verdicts: int


class Misread(Record):
    """An answer whose verdict is none of its labels."""

    id: str
    labels: tuple[Label, ...]
    verdict: Label
    answer: str | None
    reason: str


class Agreement(Record):
    """How far one way of reading agrees with the labels, over the answers that it reads.

    `confusion` counts by label and verdict; of several acceptable labels it takes the one that the
    reader gave, else the first. `n_unread` answers had nothing for it to read: no answer line.
    """

    reader: Way
    n: int
    n_unread: int
    correct: Metric
    verdicts: Metric
    confusion: dict[Label, dict[Label, int]]
    by_kind: dict[str, LabelTally]
    misread: tuple[Misread, ...]


class ReaderReport(Record):
    """Every way of reading held against the labels, and the labellers against each other."""

    n: int
    n_questions: int
    versions: dict[str, str]
    readers: tuple[Agreement, ...]
    labellers: dict[str, Metric]


def compare_readers(
    rows: Sequence[LabelRow],
    ways: Sequence[Way] = READINGS,
    judged_by: AnswerReader | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> ReaderReport:
    """Return the agreement of each way of reading with the labels; rows must hold their texts."""
    answers = [GivenAnswer(row.ground_truth, row.prompt or "", row.completion or "") for row in rows]
    ratings = [  # of several verdicts that a labeller found acceptable, the first one counts
        Rating(row.id, rater, labels if isinstance(labels, str) else labels[0])
        for row in rows
        for rater, labels in zip(("first", "second"), row.labelled_twice or (), strict=False)
    ]
    found = rater_agreement(ratings, LABELS) if ratings else {}
    return ReaderReport(
        n=len(rows),
        n_questions=len({row.question for row in rows}),
        versions=verifier_versions(),
        readers=tuple(
            _agreement(way, rows, verdicts_on(answers, way, judged_by=judged_by), draws, seed) for way in ways
        ),
        labellers={name: found[name] for name in ("percent_agreement", "cohen_kappa") if name in found},
    )


def _agreement(way: Way, rows: Sequence[LabelRow], verdicts: Sequence[Verdict], draws: int, seed: int) -> Agreement:
    judged = [(row, each) for row, each in zip(rows, verdicts, strict=True) if each.read_by is not None]
    clusters = [row.question for row, _ in judged]
    right = [(each.verdict == "correct") in {label == "correct" for label in row.labels} for row, each in judged]
    same = [each.verdict in row.labels for row, each in judged]
    confusion = Counter(
        (each.verdict if ok else row.labels[0], each.verdict) for (row, each), ok in zip(judged, same, strict=True)
    )
    kinds = [row.ground_truth.kind for row, _ in judged]
    by_kind = group_by(zip(kinds, right, same, strict=True), lambda each: each[0])
    return Agreement(
        reader=way,
        n=len(judged),
        n_unread=len(rows) - len(judged),
        correct=_share(right, clusters, draws, seed),
        verdicts=_share(same, clusters, draws, seed),
        confusion={label: {said: confusion[label, said] for said in LABELS} for label in LABELS},
        by_kind={
            kind: LabelTally(
                n=len(found), correct=sum(each[1] for each in found), verdicts=sum(each[2] for each in found)
            )
            for kind, found in by_kind.items()
        },
        misread=tuple(
            Misread(id=row.id, labels=row.labels, verdict=each.verdict, answer=each.answer, reason=each.reason)
            for (row, each), ok in zip(judged, same, strict=True)
            if not ok
        ),
    )


def _share(hits: Sequence[bool], clusters: Sequence[str], draws: int, seed: int) -> Metric:
    """Return a share with its interval: bootstrap over questions, or Wilson's where all rows are alike."""
    if not hits:
        return Metric(value=None, n=0, note="no answer that it can read")
    of = np.array(hits, dtype=np.float64)
    value, note = float(of.mean()), None
    if value in (0.0, 1.0):
        n = len(set(clusters))
        span, note = (wilson(value * n, n), f"the same in every row: Wilson interval over {n} questions")
    else:
        drawn = resample(lambda w: {"share": weighted_mean(of, w)}, Units.of(clusters), draws, seed)
        span = percentile_interval(drawn["share"])
    low, high = span if span else (None, None)
    return Metric(value=value, n=len(of), low=low, high=high, note=note)
