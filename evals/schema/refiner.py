"""Stored records of the refiner: questions with evidence, graded answers, and what people made of them."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field, field_validator, model_validator

from evals.schema.questions import Message
from evals.schema.record import Grade, Record, Share, StoredDocument, skipping

Gate = Literal["off", "multiply", "require"]
Polarity = Literal["positive", "negative"]
Title = Annotated[str, Field(min_length=1, pattern=r"\S")]
PRESETS: Mapping[str, Mapping[str, object]] = {
    "assay": {},
    "published": {"gate": "off", "empty_answer": "scored", "max_words_per_claim": 0, "max_ids_per_claim": 0},
}
"""Settings by name: those of new runs, and those of the published model's card."""


class BehaviourItem(Record):
    """One behaviour to look for in an answer; which list it stands in says whether it is wanted."""

    title: Title
    """its name, unique within a record"""
    description: str = Field(min_length=1)
    """what to look for"""
    weight: float = Field(default=1.0, gt=0.0, allow_inf_nan=False)
    """how much it counts"""

    _upgrade = skipping("source")


class RefinerRecord(Record):
    """A question with an agent's reasoning and what its search tools returned, and how to grade answers."""

    id: str = Field(min_length=1)
    """the record"""
    prompt: str | tuple[Message, ...]
    """what the user asks, a text or messages"""
    question: str | None = None
    """the question alone; else the prompt, or its last user turn"""
    agent_reasoning: str = ""
    """the agent's reasoning: shown to the model, but no evidence"""
    tool_output: str
    """the passages, the only evidence: `<snippet id=S1>…</snippet>`"""
    positive_rubrics: tuple[BehaviourItem, ...] = ()
    """wanted behaviours"""
    negative_rubrics: tuple[BehaviourItem, ...] = ()
    """unwanted behaviours"""
    answerable: bool = Field(default=True, validate_default=True)
    """false: the evidence does not hold the answer, and saying so is right"""
    sources: dict[str, str] = Field(default_factory=dict)
    """the document of each evidence id"""
    split_group: str | None = None
    """what is kept together when records are split; else the record alone"""
    reference: str | None = None
    """an answer in the output grammar, which SFT learns"""
    origin: str | None = None
    """where the record comes from"""

    @field_validator("prompt")
    @classmethod
    def _asks_something(cls, prompt: str | tuple[Message, ...]) -> str | tuple[Message, ...]:
        said = prompt if isinstance(prompt, str) else "".join(turn.content for turn in prompt)
        if not said.strip():
            raise ValueError("the prompt is empty; it holds the user's question")
        return prompt

    @model_validator(mode="after")
    def _titles_differ(self) -> "RefinerRecord":
        titles = [item.title for item in (*self.positive_rubrics, *self.negative_rubrics)]
        if twice := [title for title in titles if titles.count(title) > 1]:
            raise ValueError(f"two rubric items have the title {twice[0]!r}; titles are unique")
        return self

    @property
    def asked(self) -> str:
        """The text of the question: `question`, else the prompt, of a conversation its last user turn."""
        if self.question is not None:
            return self.question
        if isinstance(self.prompt, str):
            return self.prompt
        turns = [turn.content for turn in self.prompt if turn.role == "user"]
        return turns[-1] if turns else self.prompt[-1].content

    @property
    def group(self) -> str:
        """What is kept together when records are split."""
        return self.split_group or self.id


class RewardConfig(Record):
    """How verdicts become a reward. The defaults are those of new runs; `preset` starts from a named set."""

    static_rubrics: bool = True
    """whether the rubric items of every record are added"""
    score_scale: float = Field(default=2.0, gt=0.0, allow_inf_nan=False)
    """the judge's highest number"""
    citation_level: Literal["snippet", "paper"] = "snippet"
    """what is cited: passages, or their documents"""
    citation_metric: Literal["f1", "precision", "recall"] = "f1"
    """which figure of citations counts"""
    apply_citation: bool = True
    """whether citations count"""
    citation_weight: Share = Field(default=0.2, validation_alias=AliasChoices("citation_weight", "w"))
    """weight of the citations; `w` is read too"""
    combine: Literal["convex", "additive"] = "convex"
    """whether the weights add up to 1, or citations come on top"""
    # off is false to YAML
    gate: Annotated[Gate, BeforeValidator(lambda value: "off" if value is False else value)] = "require"
    """what a format fault costs: nothing, the share of failed soft checks, or everything"""
    empty_answer: Literal["auto", "zero", "scored"] = "auto"
    """what an empty answer earns; auto = zero, except with the gate off, where it is scored like any"""
    verification_reward: float = Field(default=10.0, gt=0.0, allow_inf_nan=False)
    """the highest reward"""
    reasoning_tags: tuple[str, ...] = ()
    """tags of a leading block that is skipped, such as think"""
    max_words_per_claim: int = Field(default=80, ge=0)
    """a longer claim counts as unsupported; 0 = no limit"""
    max_ids_per_claim: int = Field(default=8, ge=0)
    """a claim that cites more counts as unsupported; 0 = no limit"""

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: object) -> object:
        if not isinstance(given, dict) or "preset" not in given:
            return given
        rest = {str(key): value for key, value in given.items() if key != "preset"}
        if given["preset"] not in PRESETS:
            raise ValueError(f"there is no preset {given['preset']!r}; use {', '.join(PRESETS)}")
        return {**PRESETS[given["preset"]], **rest}

    @property
    def zero_if_empty(self) -> bool:
        """Whether an answer without a word earns nothing."""
        return self.empty_answer == "zero" or (self.empty_answer == "auto" and self.gate != "off")


class Relevance(Record):
    """One id that a claim cites."""

    id: str
    """the id"""
    is_known: bool
    """whether it is in the evidence"""
    relevant: Share | None
    """whether it bears on the claim; null = missing"""
    necessary: bool | None = None
    """ALCE's leave-one-out: the claim is supported, by this passage alone or not without it"""


class CheckedClaim(Record):
    """A claim of an answer, its place in the text, and what became of its citations."""

    text: str
    """the claim"""
    ids: tuple[str, ...]
    """the ids that it cites"""
    start: int
    """first character in the whole answer"""
    end: int
    """character behind the last"""
    support: Share | None
    """0, 0.5 or 1; null if a verdict is missing"""
    citations: tuple[Relevance, ...]
    """what became of each id"""
    note: str | None = None
    """why no judge was asked"""


class UncitedPassage(Record):
    """A sentence outside all claims."""

    text: str
    """the sentence"""
    start: int
    """first character in the whole answer"""
    end: int
    """character behind the last"""
    needs_citation: Share | None
    """1 for a checkable statement; null = missing"""


class JudgedItem(Record):
    """A rubric item with its verdict."""

    title: str
    """its name"""
    description: str
    """what to look for"""
    polarity: Polarity
    """whether it is wanted"""
    origin: Literal["instance", "static"]
    """whether it is the record's own or of every record"""
    weight: float
    """how much it counts"""
    raw: float | None
    """the judge's number; null = missing"""
    score: Share | None
    """the same as a share of the scale"""
    value: Share | None
    """what enters the mean: the score, inverted for an unwanted behaviour"""
    quote: str = ""
    """the judge's quote from the answer"""

    _upgrade = skipping("source")


PARTS = (
    *("rubric", "citation_f1", "citation_precision", "citation_recall", "alce_precision", "alce_recall"),
    "format_bonus",
)


class ScoredAnswer(Record):
    """Everything that was made of one answer; a figure is null where a verdict that it needs is missing."""

    record_id: str
    """the record"""
    completion: str
    """the answer, untouched"""
    judge: str
    """who gave the verdicts"""
    is_judged: bool
    """false where no verdict was needed"""
    format_checks: dict[str, bool]
    """whether each rule of the format is kept"""
    format_bonus: Share
    """share of the soft rules that are kept"""
    claims: tuple[CheckedClaim, ...]
    """its claims"""
    uncited: tuple[UncitedPassage, ...]
    """its sentences outside claims"""
    items: tuple[JudgedItem, ...]
    """the rubric items with their verdicts"""
    rubric: Share | None
    """weighted mean of the items"""
    citation_precision: Share | None
    """share of citations whose passage bears on the claim"""
    citation_recall: Share | None
    """share of claims, and of sentences that need a citation, that the cited passages support"""
    citation_f1: Share | None
    """harmonic mean of both"""
    alce_precision: Share | None = None
    """share of citations that a supported claim needs"""
    alce_recall: Share | None = None
    """share of claims and whole uncited sentences that the cited passages support fully"""
    quality: float | None
    """rubric and citations together"""
    reward: float | None
    """the reward"""
    reason: str
    """what decided it"""
    problems: tuple[str, ...] = ()
    """what the judge failed at"""

    @property
    def grade(self) -> Grade:
        """The answer as every task's grader gives it; the quality, 0..1 unless parts add up, is the reward."""
        return Grade.model_construct(
            reward=None if self.quality is None else min(1.0, self.quality),
            parts={name: getattr(self, name) for name in PARTS},
            read_by="judge" if self.is_judged else None,
            reason=self.reason,
            detail=self,
        )


class Origin(Record):
    """Which stage of which chain wrote an answer, and with which settings."""

    chain: str
    stage_sha256: str
    seed: int
    max_new_tokens: int
    temperature: float
    dtype: str


class RefinedAnswer(Record):
    """One answer to a record, graded. `origin` is None for an answer that a person gave.

    `name` is the stage, or who gave it: `yours`.
    """

    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    finish_reason: Literal["stop", "length", "cancelled", "given"]
    scored: ScoredAnswer
    origin: Origin | None = None


class KeptRefinement(StoredDocument):
    """A record with its answers as they were written and graded; ratings and corrections are versions.

    `session` is the salted hash of the person who asked for it.
    """

    record: RefinerRecord
    reward: RewardConfig
    answers: tuple[RefinedAnswer, ...]

    def answer(self, answer_id: str) -> RefinedAnswer | None:
        """Return one of the answers; None if it is not among them."""
        return next((each for each in self.answers if each.id == answer_id), None)
