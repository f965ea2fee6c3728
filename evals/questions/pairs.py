"""Preference pairs that part what is said from how sure it is, from a stage's own sampled answers.

A stage that was trained on the pairs of `evals.questions.pairs` became sure of everything: nothing in them holds
down what cannot be known. Here a stated confidence follows from how often the answers are right, as for the
training targets of Lin, Hilton and Evans ("Teaching Models to Express Their Uncertainty in Words", 2022):

1. What may be stated in an answer is how often the answers to the *other* questions of its kind are right,
   of those that claim something: by Laplace's rule of succession, (right + 1) / (claims + 2), in steps of
   5 %, from 5 to 95 %. Where those claim nothing, there are no pairs.
2. A *verdict* pair is one of `evals.questions.pairs`, in which both answers state this confidence: it teaches
   what to say, and nothing of how sure to be.
3. A *calibration* pair is one answer twice, a right or a wrong one: preferred is the one with this
   confidence, the other has the one that was sampled with it, if the two differ by LEAST_GAP or more. Those
   that differ most come first, and there are at most so many per question. An answer that claims nothing,
   or contradicts itself, deserves no confidence and stands in none.
4. Answers that do not end with a line "Confidence: N%" stand in no pair.

Each verdict is that of the text as it stands in the pair, read from its answer line as in training.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Literal, NamedTuple

from pydantic import Field

from evals.errors import BadConfig, LabError
from evals.questions.bank import is_held_out
from evals.questions.pathways import succession
from evals.questions.prompt import with_confidence
from evals.report import instrument
from evals.schema import Example, Message, Record, Verdict
from evals.verifiers import verify
from evals.verifiers.line import read_lines
from evals.verifiers.score import applicable

Rule = Literal["verdict", "confidence", "calibration"]
VerdictName = Literal["correct", "incorrect", "contradictory", "no_claim"]
Reason = Literal[
    "one_answer",
    "all_right",
    "none_right",
    "margin",
    "unknown_question",
    "held_out",
    "not_scored",
    "no_confidence",
    "no_others",
]
Turns = tuple[Message, ...]
LABEL_SOURCE = "synthetic-verifier"
LEAST_GAP = 10
"""Points of confidence between the two answers of a calibration pair."""
LOWEST, HIGHEST = 5, 95
STATED = re.compile(r"(?P<text>.*\S)\s*\nConfidence: (?P<level>\d{1,2}|100)%\s*", re.DOTALL)


class SampleOrigin(Record):
    """Where an answer comes from; null where the source does not say."""

    source: str = Field(description="run folder or chain, by name")
    stage: str = Field(description="stage that wrote it; of a run, the stage in training")
    stage_sha256: str | None = None
    step: int | None = None
    seed: int | None = None
    temperature: float | None = None


@dataclass(frozen=True)
class Sample:
    """One answer to one of our questions. `was_cut`: it ended at the length limit."""

    example: Example
    prompt: Turns
    text: str
    origin: SampleOrigin
    was_cut: bool = False


class PairRow(Record):
    """One line of the data set: TRL's preference columns, then where they come from."""

    prompt: Turns = Field(description="system message and question")
    chosen: Turns = Field(description="the preferred answer, one assistant message")
    rejected: Turns = Field(description="the other answer, one assistant message")
    pair_id: str = Field(description="hash of question and both answers")
    example_id: str = Field(description="the question in the question bank")
    kind: str = Field(description="kind of the question's ground truth")
    label_source: Literal["synthetic-verifier"] = Field(
        default=LABEL_SOURCE, description="a rule over verifier verdicts chose, not a person"
    )
    rule: Rule = Field(
        description="verdict: right against not right; confidence: V4 alone; calibration: one answer with"
        " two confidences"
    )
    margin: float = Field(
        description="difference of the rewards; of V4 in a confidence pair; of the two confidences in a"
        " calibration pair"
    )
    verdict_chosen: VerdictName = Field(description="what the verifiers say of `chosen`")
    verdict_rejected: VerdictName = Field(description="what the verifiers say of `rejected`")
    reward_chosen: float = Field(description="composed reward of `chosen`, 0 to 1")
    reward_rejected: float = Field(description="composed reward of `rejected`, 0 to 1")
    confidence_chosen: float | None = Field(description="stated in `chosen`, null if none")
    confidence_rejected: float | None = Field(description="stated in `rejected`, null if none")
    origin_chosen: SampleOrigin = Field(description="run or chain, stage, step or seed")
    origin_rejected: SampleOrigin = Field(description="the same for `rejected`")


class Accuracy(Record):
    """How many answers to the questions of one kind were right, of those that claim something."""

    right: int = Field(ge=0)
    claims: int = Field(ge=0)


class PairStatistics(Record):
    """statistics.json: the rule's settings, what came of it and what was left out, by question."""

    schema_version: Literal[1] = 1
    label_source: Literal["synthetic-verifier"] = LABEL_SOURCE
    settings: dict[str, str | int | float]
    versions: dict[str, str]
    rows_file: str
    rows_sha256: str
    rows: int = Field(ge=1)
    by_rule: dict[str, int]
    by_kind: dict[str, int]
    samples: int = Field(ge=1)
    questions: int = Field(ge=1)
    questions_paired: int = Field(ge=1)
    left_out: dict[Reason, int]
    accuracy: dict[str, Accuracy] = Field(default_factory=dict)


@dataclass(frozen=True)
class PairSet:
    """The pairs of all questions, and how many questions or answers gave none, and why."""

    rows: tuple[PairRow, ...]
    samples: int
    questions: int
    left_out: Mapping[Reason, int]
    accuracy: Mapping[str, Accuracy] = field(default_factory=dict)

    def statistics(self, settings: Mapping[str, str | int | float], rows_file: str, content: bytes) -> PairStatistics:
        """Return the record beside the rows; `content` are the bytes of their file."""
        return PairStatistics(
            settings=dict(settings),
            versions=instrument(),
            rows_file=rows_file,
            rows_sha256=hashlib.sha256(content).hexdigest(),
            rows=len(self.rows),
            by_rule=dict(Counter(row.rule for row in self.rows)),
            by_kind=dict(Counter(row.kind for row in self.rows)),
            samples=self.samples,
            questions=self.questions,
            questions_paired=len({row.example_id for row in self.rows}),
            left_out=dict(self.left_out),
            accuracy=dict(self.accuracy),
        )


class _Stated(NamedTuple):
    """An answer in two: what it says, and the percent that its last line states."""

    sample: Sample
    text: str
    level: int


class Judged(NamedTuple):
    """An answer and what the verifiers say of it."""

    sample: Sample
    verdict: Verdict

    @property
    def is_right(self) -> bool:
        """Whether the answer is correct."""
        return self.verdict.verdict == "correct"


Found = tuple[list[PairRow], Reason | None]
"""The pairs of one question, or why there are none."""


def make_pairs(samples: Iterable[Sample], margin: float, per_question: int, unknown_questions: int = 0) -> PairSet:
    """Return the pairs that the plain rule finds, by question id.

    `unknown_questions` are answers whose question nobody knows, counted as left out. BadConfig for a
    margin outside 0..1 or no pair per question; LabError if there is no pair at all.
    """
    _check_rule(margin, per_question)
    groups = _by_question(samples)
    return _collected(groups, lambda group: _verdict_pairs(group, margin, per_question), unknown_questions)


def make_calibrated_pairs(
    samples: Iterable[Sample], margin: float, per_question: int, unknown_questions: int = 0
) -> PairSet:
    """Return the pairs that the calibrated rule finds, by question id; up to `per_question` of either sort each.

    Arguments and errors are those of `make_pairs`.
    """
    _check_rule(margin, per_question)
    groups = _by_question(samples)
    tallies = {name: _tally(group) for name, group in groups.items()}
    kinds = {name: group[0].example.ground_truth.kind for name, group in groups.items()}

    def rule(group: Sequence[Sample]) -> Found:
        stated = [parted for sample in group if (parted := _parted(sample)) is not None]
        if not stated:
            return [], "no_confidence"
        own = group[0].example.id
        behind = _sum(tally for name, tally in tallies.items() if kinds[name] == kinds[own] and name != own)
        if not behind.claims:
            return [], "no_others"
        level = may_state(behind)
        restated = [replace(each.sample, text=with_confidence(each.text, level)) for each in stated]
        rows, why = _verdict_pairs(restated, margin, per_question)
        rows += _calibration_pairs(stated, level, per_question)
        return rows, None if rows else why

    accuracy = {
        kind: _sum(tally for name, tally in tallies.items() if kinds[name] == kind)
        for kind in sorted(set(kinds.values()))
    }
    made = _collected(groups, rule, unknown_questions)
    return replace(made, accuracy={kind: tally for kind, tally in accuracy.items() if tally.claims})


def may_state(accuracy: Accuracy) -> int:
    """Return the confidence that answers so often right may state, percent."""
    return min(HIGHEST, max(LOWEST, succession(accuracy.right, accuracy.claims)))


# ---- both rules --------------------------------------------------------------------------------


def _check_rule(margin: float, per_question: int) -> None:
    if not 0.0 < margin <= 1.0 or per_question < 1:
        raise BadConfig(
            f"margin is {margin} and pairs per question {per_question}; the margin is a difference of"
            " rewards above 0 and up to 1, and there is one pair per question at least."
        )


def _by_question(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Return the answers to each question, in the order of the questions' ids."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.example.id, []).append(sample)
    return dict(sorted(groups.items()))


def _collected(
    groups: Mapping[str, Sequence[Sample]], rule: Callable[[Sequence[Sample]], Found], unknown_questions: int
) -> PairSet:
    """Return the pairs that `rule` finds among the answers to each question; LabError for none."""
    left_out: Counter[Reason] = Counter({"unknown_question": unknown_questions} if unknown_questions else {})
    rows: list[PairRow] = []
    for group in groups.values():
        example = group[0].example
        why: Reason | None = "held_out" if _is_kept_apart(example) else None
        if not why and not applicable(example.ground_truth):
            why = "not_scored"
        found, why = ([], why) if why else rule(group)
        rows += found
        left_out.update([why] if why else [])
    if not rows:
        listed = ", ".join(f"{count} {why.replace('_', ' ')}" for why, count in left_out.items())
        raise LabError(
            f"the rule finds no pair among the answers to {len(groups)} questions ({listed or 'no answers'})."
            " Sample more answers, at a higher temperature, to training questions; or lower the margin."
        )
    return PairSet(tuple(rows), sum(map(len, groups.values())), len(groups), dict(left_out))


def _is_kept_apart(example: Example) -> bool:
    """Return whether a question is held out, by its own mark or by the standard hold-out."""
    return example.split == "test" or is_held_out(example.prompt, example.id)


def _judged(sample: Sample) -> Judged:
    return Judged(sample, verify(sample.example, sample.text, read="answer"))


def _pair_row(better: Judged, worse: Judged, rule: Rule, margin: float) -> PairRow:
    example = better.sample.example
    return PairRow(
        prompt=better.sample.prompt,
        chosen=(Message(role="assistant", content=better.sample.text),),
        rejected=(Message(role="assistant", content=worse.sample.text),),
        pair_id=_pair_id(better, worse),
        example_id=example.id,
        kind=example.ground_truth.kind,
        rule=rule,
        margin=round(margin, 6),
        verdict_chosen=better.verdict.verdict,
        verdict_rejected=worse.verdict.verdict,
        reward_chosen=better.verdict.reward or 0.0,
        reward_rejected=worse.verdict.reward or 0.0,
        confidence_chosen=better.verdict.confidence.value,
        confidence_rejected=worse.verdict.confidence.value,
        origin_chosen=better.sample.origin,
        origin_rejected=worse.sample.origin,
    )


def _pair_id(better: Judged, worse: Judged) -> str:
    text = "\0".join((better.sample.example.id, better.sample.text, worse.sample.text))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ---- verdict and confidence pairs --------------------------------------------------------------


def _verdict_pairs(group: Sequence[Sample], margin: float, per_question: int) -> Found:
    different = {sample.text.strip(): sample for sample in reversed(group)}
    judged = [_judged(each) for each in different.values()]
    if len(judged) < 2:
        return [], "one_answer"
    wide = [
        (better, worse, rule, gap)
        for better, worse in product(judged, judged)
        if not better.sample.was_cut and (rule := _rule(better, worse)) and (gap := _gap(better, worse, rule)) >= margin
    ]
    # first pairs with a wrong claim, then those with an empty answer, then confidence alone
    wide.sort(
        key=lambda pair: (
            2 if pair[2] == "confidence" else int(pair[1].verdict.verdict == "no_claim"),
            -pair[3],
            _pair_id(pair[0], pair[1]),
        )
    )
    rows: list[PairRow] = []
    used: set[str] = set()
    for better, worse, rule, gap in wide:
        texts = {better.sample.text, worse.sample.text}
        if len(rows) < per_question and not texts & used:
            rows.append(_pair_row(better, worse, rule, gap))
            used |= texts
    if rows:
        return rows, None
    right = sum(answer.is_right for answer in judged)
    return [], "margin" if 0 < right < len(judged) else "all_right" if right else "none_right"


def _rule(better: Judged, worse: Judged) -> Rule | None:
    """Return by which rule the first is preferred: for its verdict, or as of equal verdicts it is nearer the truth."""
    verdict = better.verdict.verdict
    if better.is_right and not worse.is_right:
        return "verdict"
    if verdict not in ("correct", "incorrect") or verdict != worse.verdict.verdict:
        return None
    stated = (better.verdict.confidence.value, worse.verdict.confidence.value)
    one, other = better.verdict.scores.get("V4"), worse.verdict.scores.get("V4")
    return "confidence" if None not in (*stated, one, other) and (one or 0) > (other or 0) else None


def _gap(better: Judged, worse: Judged, rule: Rule) -> float:
    """Return by how much the first is better: in reward, or in V4 where the verdicts are alike."""
    if rule == "verdict":
        return (better.verdict.reward or 0.0) - (worse.verdict.reward or 0.0)
    return (better.verdict.scores["V4"] or 0.0) - (worse.verdict.scores["V4"] or 0.0)


# ---- calibration pairs -------------------------------------------------------------------------


def _tally(group: Sequence[Sample]) -> Accuracy:
    """Return how many of the answers to one question are right; none of a question that is held out."""
    if _is_kept_apart(group[0].example):
        return Accuracy(right=0, claims=0)
    verdicts = [_judged(each).verdict.verdict for each in group]
    return Accuracy(right=verdicts.count("correct"), claims=len(verdicts) - verdicts.count("no_claim"))


def _sum(tallies: Iterable[Accuracy]) -> Accuracy:
    found = tuple(tallies)
    return Accuracy(right=sum(each.right for each in found), claims=sum(each.claims for each in found))


def _parted(sample: Sample) -> _Stated | None:
    """Return what an answer says and how sure it is; None if it does not end with its one confidence."""
    match = STATED.fullmatch(sample.text)
    if match is None or read_lines(sample.text).confidence.status != "stated":
        return None
    return _Stated(sample, match["text"], int(match["level"]))


def _calibration_pairs(group: Sequence[_Stated], level: int, count: int) -> list[PairRow]:
    """Return up to `count` pairs of one answer with two confidences, the widest first."""
    widest: dict[str, _Stated] = {}
    for each in sorted(group, key=lambda each: (-abs(each.level - level), each.text)):
        if not each.sample.was_cut and abs(each.level - level) >= LEAST_GAP:
            widest.setdefault(each.text, each)
    rows: list[PairRow] = []
    for text, each in widest.items():
        better = _judged(replace(each.sample, text=with_confidence(text, level)))
        if better.verdict.verdict in ("correct", "incorrect"):
            gap = abs(each.level - level) / 100
            rows.append(_pair_row(better, _judged(each.sample), "calibration", gap))
    return rows[:count]
