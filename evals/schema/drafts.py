"""A review being worked on: what a model wrote about a paper, and what a person made of it."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from evals.schema.articles import Article
from evals.schema.record import Record
from evals.schema.reviews import Concern, ParseStatus, Text

Decision = Literal["open", "accepted", "rejected"]
ReviewForm = Literal["json", "markdown", "letter", "sft", "dpo"]
"""What a review can be exported as."""
ABSTRACT = -1
"""The section number of the abstract in a `Place`."""


class Place(Record):
    """Where a concern's words stand in the paper: characters of a section (from 0; ABSTRACT = -1).

    `is_quoted`: the concern puts them in quotation marks; else it merely uses the same words.
    """

    section: int = Field(ge=ABSTRACT)
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    quote: str
    page: int | None = None
    is_quoted: bool


class DraftConcern(Concern):
    """A concern on the desk; `before` holds a model's own words where a person changed them."""

    id: Text
    by: Literal["model", "person"]
    decision: Decision = "open"
    before: Concern | None = None
    place: Place | None = None

    @property
    def concern(self) -> Concern:
        """What it says, without what is known about it."""
        return Concern(text=self.text, category=self.category, severity=self.severity)


class ReviewAnswer(Record):
    """What a model wrote about a paper, word for word, and how that went.

    `requests` are what it was asked, a part of the paper each; `seconds` is all it took.
    """

    requests: tuple[str, ...]
    raw: str
    status: ParseStatus
    problems: tuple[str, ...] = ()
    finish_reason: str
    n_tokens: int = Field(default=0, ge=0)
    seconds: float = Field(ge=0)
    tokens_lost: int = Field(default=0, ge=0)


class Reviewer(Record):
    """Who wrote a review: a stage of a chain, or a model on a server; `checksums` where they are known."""

    name: str
    kind: Literal["chain", "server"]
    stage: str = ""
    checksums: dict[str, str] = Field(default_factory=dict)
    constraint: str = "none"
    system_prompt: str
    seed: int
    max_new_tokens: int
    temperature: float


class KeptReview(Record):
    """A review as it came from the model, with the paper; changes of people are versions of it.

    `session` is the salted hash of the person whose desk it lies on.
    """

    id: Text
    made_at: datetime
    session: str
    article: Article
    reviewer: Reviewer
    answer: ReviewAnswer
    concerns: tuple[DraftConcern, ...]


class ReviewVersion(Record):
    """The concerns of a review after one change, and what the change was."""

    id: Text
    review_id: Text
    number: int = Field(ge=1)
    made_at: datetime
    action: str
    concerns: tuple[DraftConcern, ...]
    voided_at: datetime | None = None
