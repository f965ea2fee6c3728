"""Preference pairs made by a rule instead of people: their rows, their statistics, and where answers come from.

`label_source` says synthetic in each. The rules are `evals.preferred` and `evals.calibrated`.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from evals.errors import LabError
from evals.questions import is_held_out
from evals.report import instrument
from evals.schema import Example, Message, Record, Verdict

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

    def statistics(
        self, settings: Mapping[str, str | int | float], rows_file: str, content: bytes
    ) -> PairStatistics:
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


@dataclass(frozen=True)
class Judged:
    """An answer and what the verifiers say of it."""

    sample: Sample
    verdict: Verdict

    @property
    def is_right(self) -> bool:
        """Whether the answer is correct."""
        return self.verdict.verdict == "correct"


def collected(
    samples: Iterable[Sample],
    rule: Callable[[Sequence[Sample]], tuple[list[PairRow], Reason | None]],
    unknown_questions: int,
) -> PairSet:
    """Return the pairs that `rule` finds among the answers to each question; LabError for none."""
    left_out: Counter[Reason] = Counter()
    if unknown_questions:
        left_out["unknown_question"] = unknown_questions
    groups = by_question(samples)
    rows: list[PairRow] = []
    for group in groups.values():
        found, why = rule(group)
        rows += found
        if why is not None:
            left_out[why] += 1
    if not rows:
        raise LabError(_nothing(len(groups), left_out))
    count = sum(len(group) for group in groups.values())
    return PairSet(tuple(rows), count, len(groups), dict(left_out))


def by_question(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Return the answers to each question, in the order of the questions' ids."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.example.id, []).append(sample)
    return dict(sorted(groups.items()))


def is_kept_apart(example: Example) -> bool:
    """Return whether a question is held out, by its own mark or by the standard hold-out."""
    return example.split == "test" or is_held_out(example.prompt, example.id)


def pair_row(better: Judged, worse: Judged, rule: Rule, margin: float) -> PairRow:
    """Return one line of the data set."""
    example = better.sample.example
    return PairRow(
        prompt=better.sample.prompt,
        chosen=(Message(role="assistant", content=better.sample.text),),
        rejected=(Message(role="assistant", content=worse.sample.text),),
        pair_id=pair_id(better, worse),
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


def pair_id(better: Judged, worse: Judged) -> str:
    """Return the hash of question and both answers, 16 hexadecimal digits."""
    text = "\0".join((better.sample.example.id, better.sample.text, worse.sample.text))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _nothing(questions: int, left_out: Mapping[Reason, int]) -> str:
    listed = ", ".join(f"{count} {why.replace('_', ' ')}" for why, count in left_out.items())
    return (
        f"the rule finds no pair among the answers to {questions} questions ({listed or 'no answers'})."
        " Sample more answers, at a higher temperature, to training questions; or lower the margin."
    )
