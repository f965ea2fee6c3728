"""Peer review as records: what a reviewer objects to, what a model wrote, what was kept of it.

A concern is one objection to a paper. `Concern` is what a model says, `HumanConcern` what was read
out of a published review with all that is known about it, `ReferenceConcern` the part of that which
scoring needs. Labels that no table can repair are `UNKNOWN`, never guessed.
"""

from datetime import date
from typing import Annotated, Literal, get_args

from pydantic import AliasChoices, ConfigDict, Field, field_validator

from evals.schema.record import Record, Share


class MadeBy(Record):
    """Who answered, as far as the record of the run tells; no key and no path of any machine.

    A chain is known by its checksums. A server is known by its host, by the model that was asked for
    (`name`), and by what it said had answered (`served`), which may be several within one run.
    """

    kind: Literal["chain", "server"]
    name: str
    stage: str = ""
    host: str = ""
    served: tuple[str, ...] = ()
    settings: dict[str, float | int | str]
    constraint: str
    prompt_version: str
    checksums: dict[str, str]
    date: date


Category = Literal[
    "design_flaw",
    "statistical_methodology",
    "missing_experiment",
    "figure_issue",
    "prior_art_novelty",
    "writing_clarity",
    "reagent_method_specificity",
    "interpretation",
    "other",
]
Severity = Literal["major", "minor", "optional"]
Unknown = Literal["unknown"]
Stance = Literal["conceded", "rebutted", "partial", "unclear", "no_response"]
ParseStatus = Literal["ok", "empty", "partial", "failed"]
Linkage = Literal["complete", "single"]
Strategy = Literal["union", "vote", "intersection"]

UNKNOWN: Unknown = "unknown"
CATEGORIES: tuple[Category, ...] = get_args(Category)
MODEL_CATEGORIES: tuple[Category, ...] = tuple(c for c in CATEGORIES if c != "figure_issue")
"""What a model is asked to choose from: it sees no figures."""
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

Text = Annotated[str, Field(min_length=1)]


class Concern(Record):
    """One objection as a model states it."""

    text: Text
    category: Category | Unknown = UNKNOWN
    severity: Severity | Unknown = UNKNOWN


class HumanConcern(Record):
    """One objection of a human reviewer, as article files hold it.

    `resolution_confidence` belongs to the classifier of the author's stance, not to the concern.
    """

    concern_id: str
    reviewer_num: int = Field(ge=1)
    concern_text: str = Field(min_length=10, max_length=2000)
    category: Category
    severity: Severity
    author_response_text: str | None = None
    author_stance: Stance = "no_response"
    evidence_of_change: bool | None = None
    resolution_confidence: Share = 0.0
    resolution: Stance | None = None
    was_valid: bool = False
    raised_by_multiple: bool = False
    requires_figure_reading: bool = False
    extraction_trace_id: str = ""
    extraction_manifest_id: str = ""
    source: str = ""
    article_doi: str = ""


class ReferenceConcern(Record):
    """The part of a human concern that scoring needs; what else a file says of it is not read.

    Labels are taken as written; `evals.review.parse` repairs them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    text: Text = Field(validation_alias=AliasChoices("text", "concern_text"))
    category: str = UNKNOWN
    severity: str = UNKNOWN
    requires_figure_reading: bool = False

    @field_validator("text")
    @classmethod
    def _is_not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("a human concern has no text")
        return text


class ReferenceRow(Record):
    """The human concerns of one article; rows of an article file are read as such too."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    article_id: Text = Field(validation_alias=AliasChoices("article_id", "id"))
    source: str | None = None
    concerns: tuple[ReferenceConcern, ...]


class WrittenConcern(Record):
    """A concern as some tool wrote it, not yet repaired; more than is named here is kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    text: str | None = Field(default=None, validation_alias=AliasChoices("text", "concern_text"))
    category: str | None = None
    severity: str | None = None


class PredictionRow(Record):
    """What a tool says about one article; fields beyond these are kept as they are.

    `structured_concerns`, where there, says the same concerns with labels and is read instead.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    article_id: Text
    concerns: tuple[str | WrittenConcern, ...]
    structured_concerns: tuple[WrittenConcern, ...] | None = None


class RawRow(Record):
    """What a model wrote about one article; a prediction row with its `raw_output` is read too."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: Text = Field(validation_alias=AliasChoices("id", "article_id"))
    raw: str | None = Field(validation_alias=AliasChoices("raw", "raw_output"))


class ParsedReview(Record):
    """The concerns found in a model's output, and what was wrong with it.

    `ok`: all of it was read. `empty`: it says that there are none. `partial`: some of it was lost or
    may be. `failed`: there is no concern in it that can be read.
    """

    id: str
    status: ParseStatus
    concerns: tuple[Concern, ...]
    problems: tuple[str, ...] = ()
