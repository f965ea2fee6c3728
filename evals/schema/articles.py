"""A paper, from article files of ours and from published split files; what a reviewer said of it, row by row."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from evals.schema.record import Record
from evals.schema.reviews import Concern, HumanConcern, ParseStatus, ReferenceConcern, Text

ArticleFormat = Literal[
    "split", "hub", "jats", "tei", "markdown", "plain", "pdf", "docx", "odt", "html", "latex", "corpus"
]
Split = Literal["train", "dev", "test"]


Box = tuple[float, float, float, float]
"""Left, top, right and bottom as shares of a page, from its upper left corner."""


class PageStart(Record):
    """From the character `at` on (counted from 0), a section's text stands on this page, in this box where it is known."""

    at: int = Field(ge=0)
    page: int = Field(ge=1)
    box: Box | None = None
    is_heading: bool = False


class Section(Record):
    """One section under the name the paper gives it; several sections may have the same name.

    Headings below it stand in the text as lines of their own. `pages` is empty where a file has none.
    """

    name: str
    text: str
    pages: tuple[PageStart, ...] = ()


def start_at(starts: Sequence[PageStart], at: int) -> PageStart | None:
    """Return the last of the starts at or before a character, None if there is none."""
    return next((start for start in reversed(starts) if start.at <= at), None)


class Figure(Record):
    """A figure or table: what stands under or above it, and the cells of a table where they are text."""

    label: str
    kind: Literal["figure", "table"]
    caption: str
    content: str = ""
    page: int | None = None


class Reference(Record):
    """One entry of the list of references, as far as it could be taken apart; `text` = as printed."""

    text: str = ""
    authors: str = ""
    year: str = ""
    title: str = ""
    journal: str = ""


class TextOrigin(Record):
    """Which file the text came from and what was noticed on the way.

    `file` is a name without folders, `sha256` is over the file's bytes (empty for rows of a larger
    file), `notes` are sentences for the reader, such as how many pages held no text.
    """

    format: ArticleFormat
    file: str = ""
    sha256: str = ""
    pages: int | None = None
    notes: tuple[str, ...] = ()


class Article(Record):
    """A paper as a reviewer reads it, with its sections in the order of the paper."""

    id: str = Field(min_length=1)
    source: str = Field(min_length=1)
    doi: str = ""
    title: str
    abstract: str = ""
    abstract_pages: tuple[PageStart, ...] = ()
    sections: tuple[Section, ...] = ()
    figures: tuple[Figure, ...] = ()
    references: tuple[Reference, ...] = ()
    subjects: tuple[str, ...] = ()
    published_date: date | None = None
    origin: TextOrigin

    @property
    def is_title_only(self) -> bool:
        return not self.abstract.strip() and not any(each.text.strip() for each in self.sections)


class PlantedFlaw(Record):
    """A fault put into a paper on purpose: its kind, words of the paper that show it, who names it."""

    kind: str
    quote: str
    concerns: tuple[str, ...]


class ReviewExample(Article):
    """A paper with the concerns of its reviewers. `family` is the same for all versions of a manuscript."""

    schema_version: Literal["assay-review-1"] = "assay-review-1"
    family: str
    split: Split | None = None
    editorial_decision: Literal["accept", "major_revision", "minor_revision", "reject", "unknown"] = "unknown"
    revision_round: int = Field(default=1, ge=1)
    review_format: Literal["journal", "reviewed_preprint", "unknown"] = "unknown"
    has_author_response: bool = False
    concerns: tuple[HumanConcern, ...]
    synthetic: bool = False
    licence: str = ""
    flaws: tuple[PlantedFlaw, ...] = ()

    @model_validator(mode="after")
    def _is_consistent(self) -> "ReviewExample":
        ids = [each.concern_id for each in self.concerns]
        if len(set(ids)) < len(ids):
            raise ValueError(f"concern ids repeat: {sorted(ids)}")
        unknown = {name for flaw in self.flaws for name in flaw.concerns} - set(ids)
        if unknown:
            raise ValueError(f"flaws name concerns that are not there: {sorted(unknown)}")
        return self

    @property
    def article(self) -> Article:
        """The paper alone: what a model may be shown."""
        return Article(**{name: getattr(self, name) for name in Article.model_fields})


class Turn(Record):
    """One turn of a conversation in ShareGPT's form; the key is `from`."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    role: Literal["system", "human", "gpt"] = Field(alias="from")
    value: str


class Conversation(Record):
    """A training row: the instructions, a paper or a part of one, and the concerns to be found in it.

    `part` counts from 1 to `parts`. `prompt_sha256` is the checksum of the system prompt.
    """

    id: str
    article_id: str
    source: str
    family: str
    part: int = Field(default=1, ge=1)
    parts: int = Field(default=1, ge=1)
    synthetic: bool = False
    prompt_version: str
    prompt_sha256: str
    conversations: tuple[Turn, Turn, Turn]

    @model_validator(mode="after")
    def _is_in_order(self) -> "Conversation":
        roles = tuple(turn.role for turn in self.conversations)
        if roles != ("system", "human", "gpt"):
            raise ValueError(f"turns are {roles}; they have to be system, human, gpt")
        return self


class NamedText(Record):
    """A section; what else a file says of it is not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = ""
    text: str = ""


class PaperRow(Record):
    """Title, abstract, sections and human concerns of a paper; more than that is not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    article_id: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("article_id", "id"))]
    title: str = ""
    abstract: str = ""
    family: str = ""
    sections: tuple[NamedText, ...] | dict[str, str | None] = Field(
        default=(), validation_alias=AliasChoices("sections", "paper_text_sections")
    )
    concerns: tuple[ReferenceConcern, ...] = ()

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """Names and texts of the sections."""
        if isinstance(self.sections, dict):
            return tuple((name, text or "") for name, text in self.sections.items())
        return tuple((section.name, section.text) for section in self.sections)

    @property
    def text(self) -> str:
        """Title, abstract and sections, one after another; empty if there is nothing but ids."""
        return "\n".join(part for part in (self.title, self.abstract, *(text for _, text in self.named)) if part)


# ---- runs of a reviewer --------------------------------------------------------------------------


class Spread(Record):
    """How values lie: fewest, mean, middle, 90th percentile (nearest rank) and most; zeros for none."""

    low: float
    mean: float
    median: float
    p90: float
    high: float


class PartReply(Record):
    """What was answered about one part of a paper; `name` says which stage this is of a review in stages.

    `finish_reason` is the engine's own word: stop, length, or what a server says; "error" if there was
    no answer, and `error` says why. Tokens are None where a server does not count them.
    """

    part: int = Field(ge=1)
    name: str = ""
    status: ParseStatus
    finish_reason: str
    n_concerns: int = Field(ge=0)
    tokens_read: int | None = None
    tokens_written: int | None = None
    error: str = ""


class DroppedConcern(Concern):
    """A concern that was taken out of a review: the `sentence` of the paper that contradicts it, as `by` says."""

    sentence: str
    by: str


PAPER_NOTE = "paper: "
"""How a row's problems begin that the reader of the paper noticed."""


class ReviewedRow(Record):
    """The concerns that a reviewer has about one paper, and what they were read from.

    `dropped` are concerns that a review in stages raised and found contradicted by the paper.
    `raw_output` joins the answers to the parts by newlines, untouched; in stages it is the list that they led to, or what was answered
    where nothing could be read. `finish_reason` is stop if every part's is, else the first that is not. `asked_sha256` is over what was asked, so another text of the
    paper is told from this one. `tokens_lost` counts what no part of the paper could hold. `seconds` is
    the paper's share of its batch, by tokens.
    """

    article_id: str
    source: str = ""
    status: ParseStatus
    concerns: tuple[Concern, ...]
    dropped: tuple[DroppedConcern, ...] = ()
    problems: tuple[str, ...] = ()
    finish_reason: str
    parts: tuple[PartReply, ...]
    tokens_lost: int = Field(default=0, ge=0)
    seconds: float = Field(ge=0.0)
    asked_sha256: str
    raw_output: str

    @property
    def is_good(self) -> bool:
        """Whether the row can stand: every part was answered and something could be read."""
        return self.status != "failed" and not any(part.error for part in self.parts)


class EngineRecord(Record):
    """Who answered. `checksums` are of the base and of the adapters at work, where they are here.

    Of a server, `host` is where it was reached and `served` the models that it said had answered.
    """

    kind: Literal["chain", "server"]
    name: str
    host: str = ""
    served: tuple[str, ...] = ()
    stage: str = ""
    dtype: str = ""
    tokenizer: str
    constraint: str
    prompt_sha256: str
    checksums: dict[str, str] = Field(default_factory=dict)
    substitutions: tuple[str, ...] = ()


class ReviewStep(Record):
    """How far a review is: which part of how many is read, in which `stage`, and the concerns that are whole so far.

    `tokens_lost` of the paper fit in no part and are not read, which the first step says already.
    The last step has the `row`, whose order may differ where a paper has several parts, the `requests` that
    the paper was cut into, and the `engine` that answered.
    """

    part: int = 1
    parts: int = 1
    stage: str = ""
    n_tokens: int = 0
    tokens_lost: int = 0
    concerns: tuple[Concern, ...] = ()
    row: ReviewedRow | None = None
    requests: tuple[str, ...] = ()
    engine: EngineRecord | None = None


class ReviewRun(Record):
    """How rows came about, beside them as <name>.run.json. `seconds_per_article` is over rows of this run.

    `paper_notes` are, by article, what the reader of the file could not read or left out.
    """

    schema_version: Literal[1] = 1
    prompt_version: str
    engine: EngineRecord
    settings: dict[str, float | int | str]
    fingerprint: str
    started_at: datetime
    ended_at: datetime | None = None
    status: Literal["running", "stopped", "finished"] = "running"
    articles: int = 0
    reviewed_before: int = 0
    by_status: dict[str, int] = Field(default_factory=dict)
    finish_reasons: dict[str, int] = Field(default_factory=dict)
    concerns: int = 0
    seconds: float = 0.0
    seconds_per_article: Spread | None = None
    paper_notes: dict[str, tuple[str, ...]] = Field(default_factory=dict)


Decision = Literal["open", "accepted", "rejected"]
ReviewForm = Literal["json", "markdown", "letter", "sft", "dpo"]
"""What a review can be exported as."""
ABSTRACT = -1
"""The section number of the abstract in a `Place`."""


class Place(Record):
    """Where a concern's words stand in the paper: characters of a section (from 0; ABSTRACT = -1).

    `page` and `box` (of the paragraph) where the file has pages. `is_quoted`: the concern puts them in quotation marks; else it merely uses the same words.
    """

    section: int = Field(ge=ABSTRACT)
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    quote: str
    page: int | None = None
    box: Box | None = None
    is_quoted: bool


class DraftConcern(Concern):
    """A concern that people work on; `before` holds a model's own words where a person changed them.

    `contradiction` is the sentence of the paper for which a review in stages dropped it; such a concern is rejected at first.
    """

    id: Text
    by: Literal["model", "person"]
    decision: Decision = "open"
    before: Concern | None = None
    place: Place | None = None
    contradiction: str = ""

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
    is_staged: bool = False


class AskedReview(Record):
    """A review that is being written: the paper, who was asked and how; it goes when the review of its id is there."""

    id: Text
    made_at: datetime
    session: str
    article: Article
    reader: str
    seed: int
    max_new_tokens: int
    temperature: float
    is_staged: bool = False


class KeptReview(Record):
    """A review as it came from the model, with the paper; changes of people are versions of it.

    `session` is the salted hash of the person who asked for it.
    """

    id: Text
    made_at: datetime
    session: str
    article: Article
    reviewer: Reviewer
    answer: ReviewAnswer
    concerns: tuple[DraftConcern, ...]
