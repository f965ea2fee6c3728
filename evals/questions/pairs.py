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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    return collected(samples, lambda group: pairs_of(group, margin, per_question), unknown_questions)


def check_rule(margin: float, per_question: int) -> None:
    """Raise BadConfig for a margin outside 0..1 or no pair per question."""
    if not 0.0 < margin <= 1.0 or per_question < 1:
        raise BadConfig(
            f"margin is {margin} and pairs per question {per_question}; the margin is a difference of"
            " rewards above 0 and up to 1, and there is one pair per question at least."
        )


def pairs_of(group: Sequence[Sample], margin: float, per_question: int) -> tuple[list[PairRow], Reason | None]:
    """Return the pairs of one question, or why there are none."""
    if is_kept_apart(group[0].example):
        return [], "held_out"
    example = group[0].example
    if not applicable(example.ground_truth):
        return [], "not_scored"
    different = {sample.text.strip(): sample for sample in reversed(group)}
    judged = [Judged(each, verify(example, each.text, read="answer")) for each in different.values()]
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
        if not better.sample.was_cut and ((better.is_right and not worse.is_right) or _fits_better(better, worse)):
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
        behind = _sum(tally for name, tally in tallies.items() if kinds[name] == kinds[own] and name != own)
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
    return Accuracy(right=verdicts.count("correct"), claims=len(verdicts) - verdicts.count("no_claim"))


def _sum(tallies: Iterable[Accuracy]) -> Accuracy:
    found = tuple(tallies)
    return Accuracy(right=sum(each.right for each in found), claims=sum(each.claims for each in found))


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
    judged = [Judged(each, verify(each.example, each.text, read="answer")) for each in (better, stated.sample)]
    return pair_row(judged[0], judged[1], "calibration", abs(stated.level - level) / 100)
