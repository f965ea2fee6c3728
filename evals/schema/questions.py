"""Questions with their truths, by kind; what a stage answered, claimed and stated, and the verdict on it."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field, field_validator, model_validator

from evals.errors import BadRow
from evals.schema.record import Direction, Grade, Record, Share, StoredDocument

CANNOT_BE_TOLD = "cannot be told from these data"
"""The answer that every question accepts, and that is right where the data cannot answer."""


class Message(Record):
    """One turn of a conversation, in the shape chat templates and TRL take."""

    role: Literal["system", "user", "assistant"]
    """who speaks"""
    content: str
    """the text"""


class Enrichment(Record):
    """One gene set in one mission."""

    nes: float
    """normalised enrichment score"""
    padj: float | None
    """adjusted p; null if not given"""


class DirectTruth(Record):
    """The consensus direction of a gene set in a tissue."""

    kind: Literal["direct"] = "direct"
    tissue: str
    """the tissue"""
    pathway: str
    """the gene set"""
    direction: Direction
    """the consensus of the missions"""
    missions: dict[str, Enrichment] = Field(default_factory=dict)
    """score and adjusted p by mission"""


class MechanismTruth(Record):
    """As direct, but the question names the direction: never counted as direction accuracy."""

    kind: Literal["mechanism"] = "mechanism"
    tissue: str
    """the tissue"""
    pathway: str
    """the gene set"""
    direction: Direction
    """the direction, which the question names"""
    missions: dict[str, Enrichment] = Field(default_factory=dict)
    """score and adjusted p by mission"""


class UncertaintyTruth(Record):
    """A gene set that missions disagree about; a right answer says that they disagree."""

    kind: Literal["uncertainty"] = "uncertainty"
    tissue: str
    """the tissue"""
    pathway: str
    """the gene set"""
    missions_up: tuple[str, ...]
    """missions in which it is up"""
    missions_down: tuple[str, ...]
    """missions in which it is down"""
    missions_ns: tuple[str, ...] = ()
    """missions without a significant direction"""


class ComparisonTruth(Record):
    """One gene set over several tissues."""

    kind: Literal["comparison"] = "comparison"
    pathway: str
    """the gene set"""
    tissue_directions: dict[str, Direction]
    """the direction by tissue"""
    is_consistent: bool
    """whether all tissues have the same direction"""


class ConservationTruth(Record):
    """How well missions agree in a tissue, by mean pairwise correlation of NES."""

    kind: Literal["conservation"] = "conservation"
    tissue: str
    """the tissue"""
    level: Literal["highly conserved", "moderately conserved", "poorly conserved"]
    """the right answer"""
    nes_mean_r: float
    """mean pairwise correlation of the missions' scores"""


class CountTruth(Record):
    """A count of differentially expressed genes, exact up to format."""

    kind: Literal["count"] = "count"
    value: int = Field(ge=0)
    """the number of genes"""
    unit: Literal["DEG"] = "DEG"
    """what is counted: differentially expressed genes"""
    subject: str = Field(min_length=1, pattern=r"\S")
    """what they are counted in"""


class LabelTruth(Record):
    """One name out of several: a class, a tissue, a pattern, yes or no."""

    kind: Literal["label"] = "label"
    value: str
    """the right name"""
    subject: str | None = None
    """what is to be named"""
    accept: tuple[str, ...] = ()
    """other spellings of the right name"""
    others: tuple[str, ...] = ()
    """wrong names that it competes with"""


class AbstainTruth(Record):
    """The data cannot answer; a right answer says so."""

    kind: Literal["abstain"] = "abstain"


class FactsTruth(Record):
    """Facts that a free answer should state: a rubric by its older name."""

    kind: Literal["facts"] = "facts"
    facts: tuple[str, ...]
    """the facts that an answer should state"""


class OwnTruth(Record):
    """The truth of a question of one's own."""

    answerable: bool = Field(default=False, exclude_if=lambda value: not value)
    """every question of the set has an answer, so the prompt does not offer `cannot be told`"""


class ChoiceTruth(OwnTruth):
    """One right option out of several."""

    kind: Literal["choice"] = "choice"
    value: str
    """the right option, or `cannot be told from these data`"""
    options: tuple[str, ...] = Field(min_length=2)
    """the options, in order"""
    aliases: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """other wordings, by option"""
    lettered: bool = Field(default=False, exclude_if=lambda value: not value)
    """the source shows its options as A, B, C … in this order, so a letter is an answer"""

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
    """How far a number may be off. 0.1 and "5%" are short for {"absolute": 0.1} and {"relative": 0.05}."""

    absolute: float | None = Field(default=None, ge=0)
    """the largest difference"""
    relative: float | None = Field(default=None, ge=0)
    """the largest difference, as a share of the true value"""

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
    """A number."""

    kind: Literal["number"] = "number"
    value: float | None = Field(allow_inf_nan=False)
    """the right number; null where the data cannot tell"""
    unit: str | None = None
    """its unit"""
    tolerance: Tolerance | None = None
    """how far an answer may be off; by default not at all"""
    rounded_credit: Share = 0.0
    """what an answer earns that the value rounds to; 0 = nothing"""


class SetTruth(OwnTruth):
    """Names, scored by F1; correct is the same set."""

    kind: Literal["set"] = "set"
    values: tuple[str, ...]
    """the right names; none where the data cannot tell"""
    aliases: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """other names, by value"""


class TermTruth(OwnTruth):
    """A short phrase. A wording is met where all its words stand in the answer, in any form and order."""

    kind: Literal["term"] = "term"
    accept: tuple[str, ...]
    """right wordings; none where the data cannot tell"""
    others: tuple[str, ...] = ()
    """competing wordings, which are wrong"""


class RubricItem(Record):
    """One thing that a free answer should do, with its weight."""

    title: str = Field(min_length=1)
    """the thing, in a few words"""
    description: str = ""
    """more about it"""
    weight: float = Field(default=1.0, gt=0)
    """how much it counts"""


class RubricTruth(OwnTruth):
    """What a free answer should say; only a judge can grade it. An item may be a plain sentence."""

    kind: Literal["rubric"] = "rubric"
    items: tuple[RubricItem, ...] = Field(min_length=1)
    """what the answer should say; an item may be a plain sentence"""

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
    """One question with its own answer and what is known about it."""

    id: str
    """the question"""
    source: str
    """the question bank"""
    kind: str
    """the kind of question, which says what a right answer has to claim"""
    prompt: str
    """the question as it is asked"""
    answer: str
    """what a model is taught: an explanation, the line `Answer: …` and the line `Confidence: N%`"""
    confidence: Share
    """the confidence that the answer states"""
    ground_truth: GroundTruth
    """what is known to be true"""
    facts: tuple[str, ...]
    """ids of the facts that the question asks for; these are divided into training and test"""
    support: tuple[str, ...] = ()
    """ids of the figures that the facts are derived from"""
    cluster: str
    """questions of one cluster are not independent; intervals resample clusters"""
    tissue: str | None = None
    """the tissue, where there is one"""
    split: Literal["train", "dev", "test"]
    """what the question may be used for"""
    subject: tuple[str, ...] = ()
    """names of what the question is about, for reading answers in free text"""
    tags: tuple[str, ...] = ()
    """what the question belongs to"""
    licence: str | None = None
    """the licence of the question"""


class QuestionRow(Record):
    """One row of a question set."""

    id: str = Field(min_length=1)
    """a unique name"""
    prompt: str = Field(min_length=1, pattern=r"\S")
    """the question; the system prompt adds options, unit and how to answer"""
    truth: GroundTruth
    """the right answer"""
    group: str = Field(min_length=1)
    """questions of one group share their facts: a group stays in one split, and intervals resample groups"""
    split: Literal["train", "dev", "test"]
    """what the question may be used for; validation is read as dev"""
    subject: tuple[str, ...] = ()
    """names of what the question is about, for reading answers in free text"""
    tags: tuple[str, ...] = ()
    """what the question belongs to"""
    explanation: str | None = None
    """one or two sentences that SFT teaches before the answer line"""
    source: str | None = None
    """where the question comes from"""
    licence: str | None = None
    """the licence of the question"""


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


class KeptQuestions(StoredDocument):
    """A draft of a question set: its good rows, what was wrong with the others, and the file that they come from.

    `note` says how the file was read; `columns` which of its columns hold what, as they were read. `version` is the one
    that it was frozen as, None once it was changed.
    """

    title: str
    source: str
    rows: tuple[QuestionRow, ...]
    faults: tuple[RowFault, ...] = ()
    brought: BroughtRows | None = None
    note: str = ""
    columns: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    version: int | None = None


class FrozenQuestions(StoredDocument):
    """A version of a question set that nobody changes any more; `sha256` is that of its questions, as reports have it."""

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
    """the confidence, null unless one is stated"""
    status: Literal["stated", "missing", "invalid"]
    """whether a valid one is stated"""
    quote: str | None = None
    """the words that state it"""


class Claim(Record):
    """What an answer asserts."""

    subject: str
    """what it is said of"""
    says: str
    """what is said; "not up" says "UP" and is denied"""
    start: int = Field(ge=0)
    """first character"""
    end: int = Field(ge=0)
    """character behind the last"""
    about: str = "answer"
    """what the claim answers"""
    is_denied: bool = False
    """whether the answer denies it"""


class Verdict(Record):
    """What the verifiers thought of one completion. Correctness stands apart from reward."""

    verdict: Literal["correct", "incorrect", "contradictory", "no_claim"]
    """whether the answer is right"""
    reason: str
    """why the verifiers say so"""
    claims: tuple[Claim, ...] = ()
    """what the answer asserts"""
    confidence: StatedConfidence
    """the confidence that the answer states about itself"""
    scores: dict[str, Share | None]
    """each verifier's score; null where it does not apply"""
    reward: Share | None
    """the composed reward; null where only a judge could grade the answer"""
    answer: str | None = None
    """what was read as the answer, in the words of the question's options; null if nothing was"""
    read_by: Literal["answer", "text", "letter", "judge"] | None = None
    """how it was read: from the answer line, free text, an option's letter, or by a judge; null in older reports, and
    where nothing was read"""

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
