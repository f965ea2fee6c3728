"""Preference pairs that part what is said from how sure it is, from a stage's own sampled answers.

A stage that was trained on pairs of right and wrong answers as they were sampled became sure of everything: nothing
in them holds down what cannot be known. Here a stated confidence follows from how often the answers are right, as for
the training targets of Lin, Hilton and Evans ("Teaching Models to Express Their Uncertainty in Words", 2022):

1. What may be stated in an answer is how often the answers to the *other* questions of its kind are right,
   of those that claim something: by Laplace's rule of succession, (right + 1) / (claims + 2), in steps of
   5 %, from 5 to 95 %. Where those claim nothing, there are no pairs.
2. A *verdict* pair prefers a right answer to one that is not, where both state this confidence: it teaches what to
   say, and nothing of how sure to be.
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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal, NamedTuple

from pydantic import Field

from evals.errors import BadConfig, LabError
from evals.io import group_by, sha256_of_text
from evals.questions.pathways import succession
from evals.questions.prompt import with_confidence_line
from evals.questions.sets import is_held_out
from evals.schema import Example, Message, Record, Verdict
from evals.verifiers import verifier_versions, verify
from evals.verifiers.line import read_lines
from evals.verifiers.score import applicable

Rule = Literal["verdict", "calibration"]
VerdictName = Literal["correct", "incorrect", "contradictory", "no_claim"]
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
    """checksum of the stage's adapter"""
    step: int | None = None
    """optimizer step of the run"""
    seed: int | None = None
    """seed of the answer"""
    temperature: float | None = None
    """temperature of the answer"""


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
    rule: Rule = Field(description="verdict: right against not right; calibration: one answer with two confidences")
    margin: float = Field(description="difference of the rewards; of the two confidences in a calibration pair")
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
    left_out: dict[str, int]
    accuracy: dict[str, Accuracy] = Field(default_factory=dict)


@dataclass(frozen=True)
class PairSet:
    """The pairs of all questions, and how many questions or answers gave none, and why."""

    rows: tuple[PairRow, ...]
    samples: int
    questions: int
    left_out: Mapping[str, int]
    accuracy: Mapping[str, Accuracy] = field(default_factory=dict)

    def statistics(self, settings: Mapping[str, str | int | float], rows_file: str, content: bytes) -> PairStatistics:
        """Return the record beside the rows; `content` are the bytes of their file."""
        return PairStatistics(
            settings=dict(settings),
            versions=verifier_versions(),
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


class Judged(NamedTuple):
    """An answer and what the verifiers say of it, read from its answer line as in training."""

    sample: Sample
    verdict: Verdict


Found = tuple[list[PairRow], str | None]
"""The pairs of one question, or why there are none."""


def make_pairs(samples: Iterable[Sample], margin: float, per_question: int, unknown_questions: int = 0) -> PairSet:
    """Return the pairs that the rule finds by question id, up to `per_question` of either sort.

    `unknown_questions` are answers whose question nobody knows, counted as left out. BadConfig for a margin outside
    0..1 or no pair per question; LabError if there is no pair at all.
    """
    if not 0.0 < margin <= 1.0 or per_question < 1:
        raise BadConfig(
            f"margin is {margin} and pairs per question {per_question}; the margin is a difference of"
            " rewards above 0 and up to 1, and there is one pair per question at least."
        )
    groups = group_by(sorted(samples, key=lambda each: each.example.id), lambda each: each.example.id)
    tallies = {name: _tally(group) for name, group in groups.items()}
    kinds: dict[str, str] = {name: group[0].example.ground_truth.kind for name, group in groups.items()}
    left_out: Counter[str] = Counter({"unknown_question": unknown_questions} if unknown_questions else {})
    rows: list[PairRow] = []
    for name, group in groups.items():
        why: str | None = None
        if _is_kept_apart(group[0].example):
            why = "held_out"
        elif not applicable(group[0].example.ground_truth):
            why = "not_scored"
        else:
            others = _sum(tally for other, tally in tallies.items() if kinds[other] == kinds[name] and other != name)
            found, why = _pairs(group, others, margin, per_question)
            rows += found
        left_out.update([why] if why else [])
    if not rows:
        listed = ", ".join(f"{count} {why.replace('_', ' ')}" for why, count in left_out.items())
        raise LabError(
            f"the rule finds no pair among the answers to {len(groups)} questions ({listed or 'no answers'})."
            " Sample more answers, at a higher temperature, to training questions; or lower the margin."
        )
    by_kind = {
        kind: _sum(tally for name, tally in tallies.items() if kinds[name] == kind)
        for kind in sorted(set(kinds.values()))
    }
    accuracy = {kind: tally for kind, tally in by_kind.items() if tally.claims}
    return PairSet(tuple(rows), sum(map(len, groups.values())), len(groups), dict(left_out), accuracy)


def may_state(accuracy: Accuracy) -> int:
    """Return the confidence that answers so often right may state, percent."""
    return min(HIGHEST, max(LOWEST, succession(accuracy.right, accuracy.claims)))


def _is_kept_apart(example: Example) -> bool:
    return example.split == "test" or is_held_out(example.prompt, example.id)


def _judge(sample: Sample) -> Judged:
    return Judged(sample, verify(sample.example, sample.text, read="answer"))


def _pair_row(better: Judged, worse: Judged, rule: Rule, margin: float) -> PairRow:
    example = better.sample.example
    made: dict[str, Any] = {"prompt": better.sample.prompt, "pair_id": _pair_id(better, worse)}
    made |= {"example_id": example.id, "kind": example.ground_truth.kind, "rule": rule, "margin": round(margin, 6)}
    for side, (sample, verdict) in (("chosen", better), ("rejected", worse)):
        made[side] = (Message(role="assistant", content=sample.text),)
        made[f"verdict_{side}"] = verdict.verdict
        made[f"reward_{side}"] = verdict.reward or 0.0
        made[f"confidence_{side}"] = verdict.confidence.value
        made[f"origin_{side}"] = sample.origin
    return PairRow.model_validate(made)


def _pair_id(better: Judged, worse: Judged) -> str:
    text = "\0".join((better.sample.example.id, better.sample.text, worse.sample.text))
    return sha256_of_text(text)[:16]


# ---- verdict pairs -----------------------------------------------------------------------------


def _verdict_pairs(group: Sequence[Sample], margin: float, per_question: int) -> Found:
    different = {sample.text.strip(): sample for sample in reversed(group)}
    judged = [_judge(each) for each in different.values()]
    if len(judged) < 2:
        return [], "one_answer"
    right = [each for each in judged if each.verdict.verdict == "correct"]
    others = [each for each in judged if each.verdict.verdict != "correct"]
    gaps = [
        (better, worse, (better.verdict.reward or 0.0) - (worse.verdict.reward or 0.0))
        for better, worse in product(right, others)
        if not better.sample.was_cut
    ]
    wide = [pair for pair in gaps if pair[2] >= margin]
    # first pairs with a wrong claim, then those with an empty answer
    wide.sort(key=lambda pair: (pair[1].verdict.verdict == "no_claim", -pair[2], _pair_id(pair[0], pair[1])))
    rows: list[PairRow] = []
    used: set[str] = set()
    for better, worse, gap in wide:
        texts = {better.sample.text, worse.sample.text}
        if len(rows) < per_question and not texts & used:
            rows.append(_pair_row(better, worse, "verdict", gap))
            used |= texts
    if rows:
        return rows, None
    return [], "margin" if right and others else "all_right" if right else "none_right"


# ---- calibration pairs -------------------------------------------------------------------------


def _tally(group: Sequence[Sample]) -> Accuracy:
    """Return how many of the answers to one question are right; none of a question that is held out."""
    if _is_kept_apart(group[0].example):
        return Accuracy(right=0, claims=0)
    verdicts = [_judge(each).verdict.verdict for each in group]
    return Accuracy(right=verdicts.count("correct"), claims=len(verdicts) - verdicts.count("no_claim"))


def _sum(tallies: Iterable[Accuracy]) -> Accuracy:
    found = tuple(tallies)
    return Accuracy(right=sum(each.right for each in found), claims=sum(each.claims for each in found))


def _pairs(group: Sequence[Sample], others: Accuracy, margin: float, per_question: int) -> Found:
    """Return the pairs of one question, where answers to the others of its kind are so often right."""
    stated = [  # sample, what it says, and the one percent that its last line states
        (sample, match["text"], int(match["level"]))
        for sample in group
        if (match := STATED.fullmatch(sample.text)) and read_lines(sample.text).confidence.status == "stated"
    ]
    if not stated or not others.claims:
        return [], "no_others" if stated else "no_confidence"
    level = may_state(others)
    restated = [replace(sample, text=with_confidence_line(text, level)) for sample, text, _ in stated]
    rows, why = _verdict_pairs(restated, margin, per_question)
    widest: dict[str, tuple[Sample, int]] = {}
    for sample, text, said in sorted(stated, key=lambda each: (-abs(each[2] - level), each[1])):
        if not sample.was_cut and abs(said - level) >= LEAST_GAP:
            widest.setdefault(text, (sample, abs(said - level)))
    made: list[PairRow] = []
    for text, (sample, gap) in widest.items():
        better = _judge(replace(sample, text=with_confidence_line(text, level)))
        if len(made) < per_question and better.verdict.verdict in ("correct", "incorrect"):
            made.append(_pair_row(better, _judge(sample), "calibration", gap / 100))
    rows += made
    return rows, None if rows else why
