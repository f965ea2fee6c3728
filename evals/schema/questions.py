"""Questions with their truths, by kind; what a stage answered, claimed and stated, and the verdict on it."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field, field_validator, model_validator

from evals.errors import BadRow
from evals.schema.record import Direction, Grade, Record, Share

CANNOT_BE_TOLD = "cannot be told from these data"
"""The answer that every question accepts, and that is right where the data cannot answer."""


class Message(Record):
    """One turn of a conversation, in the shape chat templates and TRL take."""

    role: Literal["system", "user", "assistant"]
    content: str


class Enrichment(Record):
    """One gene set in one mission: normalised enrichment score and adjusted p (None = not given)."""

    nes: float
    padj: float | None


class DirectTruth(Record):
    """The consensus direction of a gene set in a tissue."""

    kind: Literal["direct"] = "direct"
    tissue: str
    pathway: str
    direction: Direction
    missions: dict[str, Enrichment] = Field(default_factory=dict)


class MechanismTruth(Record):
    """As direct, but the question names the direction: never counted as direction accuracy."""

    kind: Literal["mechanism"] = "mechanism"
    tissue: str
    pathway: str
    direction: Direction
    missions: dict[str, Enrichment] = Field(default_factory=dict)


class UncertaintyTruth(Record):
    """A gene set that missions disagree about; a right answer says that they disagree."""

    kind: Literal["uncertainty"] = "uncertainty"
    tissue: str
    pathway: str
    missions_up: tuple[str, ...]
    missions_down: tuple[str, ...]
    missions_ns: tuple[str, ...] = ()


class ComparisonTruth(Record):
    """One gene set over several tissues."""

    kind: Literal["comparison"] = "comparison"
    pathway: str
    tissue_directions: dict[str, Direction]
    is_consistent: bool


class ConservationTruth(Record):
    """How well missions agree in a tissue, by mean pairwise correlation of NES."""

    kind: Literal["conservation"] = "conservation"
    tissue: str
    level: Literal["highly conserved", "moderately conserved", "poorly conserved"]
    nes_mean_r: float


class CountTruth(Record):
    """A count of differentially expressed genes, exact up to format."""

    kind: Literal["count"] = "count"
    value: int = Field(ge=0)
    unit: Literal["DEG"] = "DEG"
    subject: str = Field(min_length=1, pattern=r"\S")


class LabelTruth(Record):
    """One name out of several: a class, a tissue, a pattern, yes or no.

    `accept` are other spellings of the right name, `others` the wrong names it competes with.
    """

    kind: Literal["label"] = "label"
    value: str
    subject: str | None = None
    accept: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class AbstainTruth(Record):
    """The data cannot answer; a right answer says so."""

    kind: Literal["abstain"] = "abstain"


class FactsTruth(Record):
    """Facts that a free answer should state: a rubric by its older name."""

    kind: Literal["facts"] = "facts"
    facts: tuple[str, ...]


class OwnTruth(Record):
    """The truth of a question of one's own.

    `answerable` says that the prompt does not offer "cannot be told", because every question of its set has an answer.
    """

    answerable: bool = Field(default=False, exclude_if=lambda value: not value)


class ChoiceTruth(OwnTruth):
    """One right option out of several. `aliases` are other wordings, by option.

    `lettered` says that the source shows its options as A, B, C … in this order, so that a letter is an answer.
    """

    kind: Literal["choice"] = "choice"
    value: str
    options: tuple[str, ...] = Field(min_length=2)
    aliases: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    lettered: bool = Field(default=False, exclude_if=lambda value: not value)

    @model_validator(mode="after")
    def _fits(self) -> "ChoiceTruth":
        if self.value not in self.options and self.value != CANNOT_BE_TOLD:
            raise ValueError(f"value {self.value!r} is none of the options: {', '.join(self.options)}")
        unknown = [name for name in self.aliases if name not in self.options]
        if unknown:
            raise ValueError(f"aliases of {unknown[0]!r}, which is none of the options {list(self.options)}")
        seen: dict[str, str] = {}
        for option in self.options:
            plain = unicodedata.normalize("NFC", option).casefold()
            other = seen.get(plain)
            seen[plain] = option
            if other is not None:
                how = "stands twice" if other == option else f"and {other!r} differ in case or form alone"
                raise ValueError(f"an option stands twice: {option!r} {how}")
        return self


class Tolerance(Record):
    """How far a number may be off: by so much, or by such a share of the true value (0.05 = 5 %)."""

    absolute: float | None = Field(default=None, ge=0)
    relative: float | None = Field(default=None, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, given: object) -> object:
        """Take 0.1 and "5%" for {"absolute": 0.1} and {"relative": 0.05}."""
        if isinstance(given, str) and given.strip().endswith("%"):
            return {"relative": float(given.strip()[:-1]) / 100}
        return {"absolute": float(given)} if isinstance(given, str | int | float) else given

    @model_validator(mode="after")
    def _one(self) -> "Tolerance":
        if (self.absolute is None) == (self.relative is None):
            raise ValueError('give one of {"absolute": x} and {"relative": x}')
        return self


class NumberTruth(OwnTruth):
    """A number; None where the data cannot tell, which the prompt must not show.

    `rounded_credit` is what an answer earns that the value rounds to (0 = nothing).
    """

    kind: Literal["number"] = "number"
    value: float | None = Field(allow_inf_nan=False)
    unit: str | None = None
    tolerance: Tolerance | None = None
    rounded_credit: Share = 0.0


class SetTruth(OwnTruth):
    """Names, scored by F1; correct is the same set. `aliases` are other names, by value.

    No name at all: the data cannot tell.
    """

    kind: Literal["set"] = "set"
    values: tuple[str, ...]
    aliases: dict[str, tuple[str, ...]] = Field(default_factory=dict)


class TermTruth(OwnTruth):
    """A short phrase: wordings that are right, and competing ones that are wrong.

    A wording is met where all its words stand in the answer, in any form and order. No right wording at
    all: the data cannot tell.
    """

    kind: Literal["term"] = "term"
    accept: tuple[str, ...]
    others: tuple[str, ...] = ()


class RubricItem(Record):
    """One thing that a free answer should do, with its weight."""

    title: str = Field(min_length=1)
    description: str = ""
    weight: float = Field(default=1.0, gt=0)


class RubricTruth(OwnTruth):
    """What a free answer should say; only a judge can grade it. An item may be a plain sentence."""

    kind: Literal["rubric"] = "rubric"
    items: tuple[RubricItem, ...] = Field(min_length=1)

    @field_validator("items", mode="before")
    @classmethod
    def _sentences(cls, items: object) -> object:
        if not isinstance(items, list | tuple):
            return items
        return [{"title": item} if isinstance(item, str) else item for item in items]


PathwayTruth = DirectTruth | MechanismTruth | UncertaintyTruth | ComparisonTruth | ConservationTruth
StudyTruth = CountTruth | LabelTruth | AbstainTruth | FactsTruth
GeneralTruth = ChoiceTruth | NumberTruth | SetTruth | TermTruth | RubricTruth
GroundTruth = Annotated[PathwayTruth | StudyTruth | GeneralTruth, Field(discriminator="kind")]


class Example(Record):
    """One question with its own answer and what is known about it.

    `answer` is what a model is taught: an explanation, the line `Answer: …` and the line `Confidence: N%`. `facts` are
    the ids of the facts that the question asks for (the unit of the train/test split), `support` the ids of the figures
    that they are derived from. `cluster` groups questions that are not independent (one gene set in one tissue):
    intervals resample clusters. `subject` names what the question is about, for reading answers without an answer line.
    """

    id: str
    source: str
    kind: str
    prompt: str
    answer: str
    confidence: Share
    ground_truth: GroundTruth
    facts: tuple[str, ...]
    support: tuple[str, ...] = ()
    cluster: str
    tissue: str | None = None
    split: Literal["train", "dev", "test"]
    subject: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    licence: str | None = None


class QuestionRow(Record):
    """One row of a question set. Questions of one `group` share their facts: they belong in one split."""

    id: str = Field(min_length=1)
    prompt: str = Field(min_length=1, pattern=r"\S")
    truth: GroundTruth
    group: str = Field(min_length=1)
    split: Literal["train", "dev", "test"]
    subject: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    explanation: str | None = None
    source: str | None = None
    licence: str | None = None


class RowFault(Record):
    """What is wrong with one row: where, what, and what to do."""

    line: int
    id: str | None = None
    field: str
    problem: str
    remedy: str
    suggestion: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """What was probably meant, as it would stand in the field."""

    def error(self, name: object) -> BadRow:
        """Return it as the error that stops whoever reads the file called `name`."""
        return BadRow(name, self.line, self.field, "; ".join(filter(None, [self.problem, self.remedy])))


class BroughtSheet(Record):
    """The rows of one sheet of a file as it holds them, by line; lines that were no rows, and what is unclear in reading it."""

    rows: tuple[tuple[int, dict[str, Any]], ...]
    faults: tuple[RowFault, ...] = ()
    note: str = ""


class BroughtRows(Record):
    """The rows of a file as it holds them, by line, and how they are read.

    `columns` say which of its columns hold what, and `answers_from` how the answer is given; empty: as names and values
    tell. `cannot_tell` says whether "cannot be told" is an answer; None: as the file tells. `faults` are lines that were no
    rows, and `note` says how the file was read where that is unclear. `sheets` are those of a file with several, `sheet` the
    one that is read.
    """

    rows: tuple[tuple[int, dict[str, Any]], ...]
    columns: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    answers_from: Literal["0", "1", "letter", "text"] | None = None
    cannot_tell: bool | None = None
    faults: tuple[RowFault, ...] = ()
    note: str = ""
    sheet: str = ""
    sheets: dict[str, BroughtSheet] = Field(default_factory=dict)


class KeptQuestions(Record):
    """A draft of a question set: its good rows, what was wrong with the others, and the file that they come from.

    `note` says how the file was read; `columns` which of its columns hold what, as they were read. `version` is the one
    that it was frozen as, None once it was changed.
    """

    id: str
    made_at: datetime
    session: str
    title: str
    source: str
    rows: tuple[QuestionRow, ...]
    faults: tuple[RowFault, ...] = ()
    brought: BroughtRows | None = None
    note: str = ""
    columns: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    version: int | None = None


class FrozenQuestions(Record):
    """A version of a question set that nobody changes any more; `sha256` is that of its questions, as reports have it."""

    id: str
    made_at: datetime
    session: str
    title: str
    version: int
    sha256: str
    rows: tuple[QuestionRow, ...]


class Completion(Record):
    """One stage's answer. `text` is what the model wrote, untouched."""

    stage: str
    text: str
    n_tokens: int = Field(ge=0)
    finish_reason: Literal["stop", "length", "cancelled"]


class StatedConfidence(Record):
    """The confidence that an answer states about itself, never one that was guessed from its tone."""

    value: Share | None
    status: Literal["stated", "missing", "invalid"]
    quote: str | None = None


class Claim(Record):
    """What an answer asserts, at which character offsets; "not up" says "UP" and `is_denied`."""

    subject: str
    says: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    about: str = "answer"
    is_denied: bool = False


class Verdict(Record):
    """What the verifiers thought of one completion. Correctness stands apart from reward.

    `answer` is what was read, in the words of the question's options, and `read_by` how: from the answer
    line, from free text, by the letter of an option (right or wrong where the question has letters, else no claim), or
    by a judge; None where nothing was read (and in reports of before verifiers-6).
    `scores` holds each verifier's score in 0..1, None where it does not apply. `reward` is None where
    nothing scores the answer: a rubric without a judge.
    """

    verdict: Literal["correct", "incorrect", "contradictory", "no_claim"]
    reason: str
    claims: tuple[Claim, ...] = ()
    confidence: StatedConfidence
    scores: dict[str, Share | None]
    reward: Share | None
    answer: str | None = None
    read_by: Literal["answer", "text", "letter", "judge"] | None = None

    @property
    def grade(self) -> Grade:
        return Grade.model_construct(
            verdict=self.verdict,
            reward=self.reward,
            parts=self.scores,
            counts={},  # pydantic would look up the signature of the default for each of many rows
            confidence=self.confidence.value,
            read_by=self.read_by,
            reason=self.reason,
            detail=self,
        )


# ---- what answers --------------------------------------------------------------------------------


Progress = Callable[[float, str], None]
"""Called with the share that is done (0..1) and a few plain words about what is being done."""


@dataclass(frozen=True)
class Sampling:
    """How an answer is drawn. Temperature 0 is greedy; the seed matters only above 0."""

    max_new_tokens: int = 96
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


class Model(Protocol):
    """Something that answers prompts, stage by stage."""

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages, base first."""

    def generate(
        self, prompts: Sequence[Sequence[Message]], stages: Sequence[str], sampling: Sampling
    ) -> list[list[Completion]]:
        """Return one row per prompt, in it one completion per stage, in the order asked."""


class TokenScore(NamedTuple):
    """A token of an answer with its log-probability (nats), and the likeliest tokens in its place with theirs."""

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...]
