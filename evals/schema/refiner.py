"""Stored records of the refiner: questions with evidence, graded answers, and what people made of them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AliasChoices, BeforeValidator, Field, field_validator, model_validator

from evals.schema.questions import Message
from evals.schema.record import Grade, Record, Share, skipping

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
    description: str = Field(min_length=1)
    weight: float = Field(default=1.0, gt=0.0, allow_inf_nan=False)

    _upgrade = skipping("source")


class RefinerRecord(Record):
    """A question with an agent's reasoning and what its search tools returned, and how to grade answers.

    `tool_output` alone is evidence; the reasoning is shown to the policy but proves nothing.
    `answerable` false: the evidence does not hold the answer, and saying so is right. `sources` gives
    the document of each evidence id. `reference` is an answer in the output grammar that SFT learns.
    """

    id: str = Field(min_length=1)
    prompt: str | tuple[Message, ...]
    question: str | None = None
    agent_reasoning: str = ""
    tool_output: str
    positive_rubrics: tuple[BehaviourItem, ...] = ()
    negative_rubrics: tuple[BehaviourItem, ...] = ()
    answerable: bool = Field(default=True, validate_default=True)
    sources: dict[str, str] = Field(default_factory=dict)
    split_group: str | None = None
    reference: str | None = None
    origin: str | None = None

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
    """How verdicts become a reward. The defaults are those of new runs; `preset` starts from a named set.

    `gate` decides what a format fault costs: nothing, the share of failed soft checks, or everything.
    `empty_answer` is "auto": zero, except with the gate off, where an empty answer is scored like any.
    A claim over `max_words_per_claim` or `max_ids_per_claim` (0 = no limit) counts as unsupported.
    """

    static_rubrics: bool = True
    score_scale: float = Field(default=2.0, gt=0.0, allow_inf_nan=False)
    citation_level: Literal["snippet", "paper"] = "snippet"
    citation_metric: Literal["f1", "precision", "recall"] = "f1"
    apply_citation: bool = True
    citation_weight: Share = Field(default=0.2, validation_alias=AliasChoices("citation_weight", "w"))
    combine: Literal["convex", "additive"] = "convex"
    gate: Annotated[Gate, BeforeValidator(lambda value: "off" if value is False else value)] = "require"
    """"off" is false to YAML."""
    empty_answer: Literal["auto", "zero", "scored"] = "auto"
    verification_reward: float = Field(default=10.0, gt=0.0, allow_inf_nan=False)
    reasoning_tags: tuple[str, ...] = ()
    max_words_per_claim: int = Field(default=80, ge=0)
    max_ids_per_claim: int = Field(default=8, ge=0)

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
    """One id that a claim cites: is it in the evidence, and does it bear on the claim (None = missing).

    `necessary` is ALCE's leave-one-out: the claim is supported, by this passage alone or not without it.
    """

    id: str
    is_known: bool
    relevant: Share | None
    necessary: bool | None = None


class CheckedClaim(Record):
    """A claim of an answer, its place in the text, and what became of its citations.

    `start` and `end` are characters of the whole answer. `support` is 0, 0.5 or 1, None if a verdict is
    missing; `note` says why no judge was asked.
    """

    text: str
    ids: tuple[str, ...]
    start: int
    end: int
    support: Share | None
    citations: tuple[Relevance, ...]
    note: str | None = None


class UncitedPassage(Record):
    """A sentence outside all claims; `needs_citation` is 1 for a checkable statement, None = missing."""

    text: str
    start: int
    end: int
    needs_citation: Share | None


class JudgedItem(Record):
    """A rubric item with its verdict: the judge's number, its quote from the answer, and what it earns.

    `value` is what enters the mean: `score`, inverted for an unwanted behaviour. None = missing.
    """

    title: str
    description: str
    polarity: Polarity
    origin: Literal["instance", "static"]
    weight: float
    raw: float | None
    score: Share | None
    value: Share | None
    quote: str = ""

    _upgrade = skipping("source")


PARTS = (
    *("rubric", "citation_f1", "citation_precision", "citation_recall", "alce_precision", "alce_recall"),
    "format_bonus",
)


class ScoredAnswer(Record):
    """Everything that was made of one answer; a figure is None where a verdict that it needs is missing.

    `is_judged` is false where no verdict was needed. `problems` say what the judge failed at. `citation_precision` is the
    share of citations whose passage bears on the claim, `alce_precision` that of citations that a supported claim needs.
    """

    record_id: str
    completion: str
    judge: str
    is_judged: bool
    format_checks: dict[str, bool]
    format_bonus: Share
    claims: tuple[CheckedClaim, ...]
    uncited: tuple[UncitedPassage, ...]
    items: tuple[JudgedItem, ...]
    rubric: Share | None
    citation_precision: Share | None
    citation_recall: Share | None
    citation_f1: Share | None
    alce_precision: Share | None = None
    alce_recall: Share | None = None
    quality: float | None
    reward: float | None
    reason: str
    problems: tuple[str, ...] = ()

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


class KeptRefinement(Record):
    """A record with its answers as they were written and graded; ratings and corrections are versions.

    `session` is the salted hash of the person who asked for it.
    """

    id: str = Field(min_length=1)
    made_at: datetime
    session: str
    record: RefinerRecord
    reward: RewardConfig
    answers: tuple[RefinedAnswer, ...]

    def answer(self, answer_id: str) -> RefinedAnswer | None:
        """Return one of the answers; None if it is not among them."""
        return next((each for each in self.answers if each.id == answer_id), None)
