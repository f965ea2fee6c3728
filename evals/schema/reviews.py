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
    """Who answered, as far as the record of the run tells; no key and no path of any machine."""

    kind: Literal["chain", "server"]
    """what answered"""
    name: str
    """the chain, or the model that a server was asked for"""
    stage: str = ""
    """the stage of the chain"""
    host: str = ""
    """host of the server"""
    served: tuple[str, ...] = ()
    """what the server said had answered; may be several within one run"""
    settings: dict[str, float | int | str]
    """settings of the run"""
    constraint: str
    """how replies were held to the format"""
    prompt_version: str
    """version of the instructions"""
    checksums: dict[str, str]
    """checksums of base and adapters, where they are known"""
    date: date
    """the day of the answers"""


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
    """the objection"""
    category: Category | Unknown = UNKNOWN
    """what it is about"""
    severity: Severity | Unknown = UNKNOWN
    """how much hangs on it"""


class HumanConcern(Record):
    """One objection of a human reviewer, as article files hold it."""

    concern_id: str
    """the objection"""
    reviewer_num: int = Field(ge=1)
    """which reviewer of this paper raised it; not the same person in other papers"""
    concern_text: str = Field(min_length=10, max_length=2000)
    """the objection"""
    category: Category
    """what it is about"""
    severity: Severity
    """how much hangs on it"""
    author_response_text: str | None = None
    """what the authors replied"""
    author_stance: Stance = "no_response"
    """what the reply amounts to"""
    evidence_of_change: bool | None = None
    """whether the authors changed the paper"""
    resolution_confidence: Share = 0.0
    """how sure the classifier of the reply was, 0 to 1"""
    resolution: Stance | None = None
    """how it was resolved"""
    was_valid: bool = False
    """whether it was held to be justified"""
    raised_by_multiple: bool = False
    """whether several reviewers raised it"""
    requires_figure_reading: bool = False
    """whether a figure has to be seen to know it"""
    extraction_trace_id: str = ""
    """the step that read it out of the review"""
    extraction_manifest_id: str = ""
    """the run of that step"""
    source: str = ""
    """the collection it comes from"""
    article_doi: str = ""
    """the paper's digital object identifier"""


class ReferenceConcern(Record):
    """The part of a human concern that scoring needs; what else a file says of it is not read.

    Labels are taken as written; `evals.review.parse` repairs them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    text: Text = Field(validation_alias=AliasChoices("text", "concern_text"))
    """the objection; `concern_text` is read too"""
    category: str = UNKNOWN
    """what it is about"""
    severity: str = UNKNOWN
    """how much hangs on it"""
    requires_figure_reading: bool = False
    """whether a figure has to be seen to know it"""

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
    """the paper; `id` is read too"""
    source: str | None = None
    """the collection it comes from"""
    concerns: tuple[ReferenceConcern, ...]
    """the human concerns"""


class WrittenConcern(Record):
    """A concern as some tool wrote it, not yet repaired; more than is named here is kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    text: str | None = Field(default=None, validation_alias=AliasChoices("text", "concern_text"))
    """the objection; `concern_text` is read too"""
    category: str | None = None
    """what it is about"""
    severity: str | None = None
    """how much hangs on it"""


class PredictionRow(Record):
    """What a tool says about one article; fields beyond these are kept as they are."""

    model_config = ConfigDict(frozen=True, extra="allow")

    article_id: Text
    """the paper"""
    concerns: tuple[str | WrittenConcern, ...]
    """the objections"""
    structured_concerns: tuple[WrittenConcern, ...] | None = None
    """the same objections with labels, read instead where they are there"""


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
