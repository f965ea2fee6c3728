"""A paper, from article files of ours and from published split files; what a reviewer said of it, row by row."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from evals.schema.record import Record, StoredDocument
from evals.schema.reviews import Concern, HumanConcern, ParseStatus, ReferenceConcern, Text

ArticleFormat = Literal[
    "split", "hub", "jats", "tei", "markdown", "plain", "pdf", "docx", "odt", "html", "latex", "corpus"
]
Split = Literal["train", "dev", "test"]


Box = tuple[float, float, float, float]
"""Left, top, right and bottom as shares of a page, from its upper left corner."""


class PageStart(Record):
    """Where a section's text stands on the pages, from one character on."""

    at: int = Field(ge=0)
    """the character, from 0"""
    page: int = Field(ge=1)
    """the page, from 1"""
    box: Box | None = None
    """left, top, right and bottom as shares of the page, from its upper left corner"""
    is_heading: bool = False
    """whether a heading begins there"""


class Section(Record):
    """One section under the name the paper gives it; several may have the same name.

    Headings below it stand in the text as lines of their own.
    """

    name: str
    """its heading"""
    text: str
    """its text"""
    pages: tuple[PageStart, ...] = ()
    """where it stands; empty where a file has no pages"""


def start_at(starts: Sequence[PageStart], at: int) -> PageStart | None:
    """Return the last of the starts at or before a character, None if there is none."""
    return next((start for start in reversed(starts) if start.at <= at), None)


class Figure(Record):
    """A figure or table."""

    label: str
    """its number, such as Figure 1"""
    kind: Literal["figure", "table"]
    """which of both"""
    caption: str
    """what stands under or above it"""
    content: str = ""
    """the cells of a table, where they are text"""
    page: int | None = None
    """its page"""


class Reference(Record):
    """One entry of the list of references, as far as it could be taken apart."""

    text: str = ""
    """as printed"""
    authors: str = ""
    """its authors"""
    year: str = ""
    """its year"""
    title: str = ""
    """its title"""
    journal: str = ""
    """its journal"""


class TextOrigin(Record):
    """Which file the text came from and what was noticed on the way."""

    format: ArticleFormat
    """the kind of file"""
    file: str = ""
    """its name without folders"""
    sha256: str = ""
    """checksum of the file; empty for rows of a larger file"""
    pages: int | None = None
    """how many pages it has"""
    notes: tuple[str, ...] = ()
    """sentences for the reader, such as how many pages held no text"""


class Article(Record):
    """A paper as a reviewer reads it, with its sections in the order of the paper."""

    id: str = Field(min_length=1)
    """the paper"""
    source: str = Field(min_length=1)
    """the collection it comes from"""
    doi: str = ""
    """its digital object identifier"""
    title: str
    """its title"""
    abstract: str = ""
    """its abstract"""
    abstract_pages: tuple[PageStart, ...] = ()
    """page and box of each of its paragraphs, where a PDF was read"""
    sections: tuple[Section, ...] = ()
    """its sections in order"""
    figures: tuple[Figure, ...] = ()
    """captions of its figures and the cells of its tables"""
    references: tuple[Reference, ...] = ()
    """its list of references"""
    subjects: tuple[str, ...] = ()
    """its subjects, as its publisher names them"""
    published_date: date | None = None
    """when it was published"""
    origin: TextOrigin
    """the kind of file that the text came from, its checksum, and what was noticed on the way"""

    @property
    def is_title_only(self) -> bool:
        return not self.abstract.strip() and not any(each.text.strip() for each in self.sections)


class PlantedFlaw(Record):
    """A fault put into a paper on purpose."""

    kind: str
    """what kind of fault"""
    quote: str
    """words of the paper that show it"""
    concerns: tuple[str, ...]
    """the concerns that name it, by id"""


class ReviewExample(Article):
    """A paper with the concerns of its reviewers."""

    schema_version: Literal["assay-review-1"] = "assay-review-1"
    """the form of the row"""
    family: str
    """the same for all versions of one manuscript; a split never cuts a family"""
    split: Split | None = None
    """what the paper may be used for"""
    editorial_decision: Literal["accept", "major_revision", "minor_revision", "reject", "unknown"] = "unknown"
    """what the editors decided, where that is known"""
    revision_round: int = Field(default=1, ge=1)
    """which round of review the concerns come from"""
    review_format: Literal["journal", "reviewed_preprint", "unknown"] = "unknown"
    """the kind of review"""
    has_author_response: bool = False
    """whether the authors' reply is known"""
    concerns: tuple[HumanConcern, ...]
    """the objections"""
    synthetic: bool = False
    """whether the paper was written or faults were planted on purpose"""
    licence: str = ""
    """the licence of the paper, where its source tells it"""
    flaws: tuple[PlantedFlaw, ...] = ()
    """faults that were planted on purpose, with the words that show them"""

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
    """who speaks"""
    value: str
    """the text"""


class Conversation(Record):
    """A training row: the instructions, a paper or a part of one, and the concerns to be found in it."""

    id: str
    """the row"""
    article_id: str
    """the paper"""
    source: str
    """the collection it comes from"""
    family: str
    """the same for all versions of one manuscript; a split never cuts a family"""
    part: int = Field(default=1, ge=1)
    """which part of the paper this is, from 1"""
    parts: int = Field(default=1, ge=1)
    """how many parts the paper has"""
    synthetic: bool = False
    """whether the paper was written or faults were planted on purpose"""
    prompt_version: str
    """version of the instructions"""
    prompt_sha256: str
    """checksum of the instructions"""
    conversations: tuple[Turn, Turn, Turn]
    """system, human and gpt turn in ShareGPT's form"""

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
    """How values lie; zeros for none."""

    low: float
    """the lowest"""
    mean: float
    """the mean"""
    median: float
    """the middle"""
    p90: float
    """the 90th percentile (nearest rank)"""
    high: float
    """the highest"""


class PartReply(Record):
    """What was answered about one part of a paper."""

    part: int = Field(ge=1)
    """the part, from 1"""
    name: str = ""
    """the stage, of a review in stages"""
    status: ParseStatus
    """how well the reply could be read"""
    finish_reason: str
    """the engine's own word: stop, length, or what a server says; error = no answer"""
    n_concerns: int = Field(ge=0)
    """concerns in it"""
    tokens_read: int | None = None
    """tokens that were asked with; null where a server does not count"""
    tokens_written: int | None = None
    """tokens of the reply; null where a server does not count"""
    error: str = ""
    """why there was no answer"""


class DroppedConcern(Concern):
    """A concern that was taken out of a review."""

    sentence: str
    """the sentence of the paper that contradicts it"""
    by: str
    """who says so"""


PAPER_NOTE = "paper: "
"""How a row's problems begin that the reader of the paper noticed."""


class ReviewedRow(Record):
    """The concerns that a reviewer has about one paper, and what they were read from."""

    article_id: str
    """the paper"""
    source: str = ""
    """the collection it comes from"""
    status: ParseStatus
    """how well the model's reply could be read: ok, empty, partial or failed"""
    concerns: tuple[Concern, ...]
    """the objections"""
    dropped: tuple[DroppedConcern, ...] = ()
    """objections that a review in stages raised and found contradicted by the paper"""
    problems: tuple[str, ...] = ()
    """what was wrong with the reply"""
    finish_reason: str
    """stop if that of every part is, else the first that is not"""
    parts: tuple[PartReply, ...]
    """what was answered about each part of the paper"""
    tokens_lost: int = Field(default=0, ge=0)
    """tokens of the paper that no part could hold"""
    seconds: float = Field(ge=0.0)
    """the paper's share of its batch's time, by tokens"""
    asked_sha256: str
    """checksum of what was asked, which tells another text of the paper from this one"""
    raw_output: str
    """what the model wrote, untouched, the parts joined by line breaks; in stages the list that they led to, or what
    was answered where nothing could be read"""

    @property
    def is_good(self) -> bool:
        """Whether the row can stand: every part was answered and something could be read."""
        return self.status != "failed" and not any(part.error for part in self.parts)


class EngineRecord(Record):
    """Who answered."""

    kind: Literal["chain", "server"]
    """what answered"""
    name: str
    """the chain, or the model that a server was asked for"""
    host: str = ""
    """where the server was reached"""
    served: tuple[str, ...] = ()
    """the models that the server said had answered"""
    stage: str = ""
    """the stage of the chain"""
    dtype: str = ""
    """type of the weights"""
    tokenizer: str
    """what counted the tokens"""
    constraint: str
    """how replies were held to the format"""
    prompt_sha256: str
    """checksum of the instructions"""
    checksums: dict[str, str] = Field(default_factory=dict)
    """checksums of the base and of the adapters at work, where they are here"""
    substitutions: tuple[str, ...] = ()
    """what was used instead of what was asked for"""


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
    """How rows came about, beside them as NAME.run.json."""

    schema_version: Literal[1] = 1
    """version of the format"""
    prompt_version: str
    """version of the instructions"""
    engine: EngineRecord
    """who answered"""
    settings: dict[str, float | int | str]
    """settings of the run"""
    fingerprint: str
    """checksum of all that decides the rows; with another one a run does not resume"""
    started_at: datetime
    """when it started"""
    ended_at: datetime | None = None
    """when it ended; null while it runs"""
    status: Literal["running", "stopped", "finished"] = "running"
    """how it stands"""
    articles: int = 0
    """papers to review"""
    reviewed_before: int = 0
    """papers that stood there when it was resumed"""
    by_status: dict[str, int] = Field(default_factory=dict)
    """how many rows have which status"""
    finish_reasons: dict[str, int] = Field(default_factory=dict)
    """how many replies ended how"""
    concerns: int = 0
    """concerns in all rows"""
    seconds: float = 0.0
    """how long it took"""
    seconds_per_article: Spread | None = None
    """seconds a paper took, over rows of this run"""
    paper_notes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """by article, what the reader of the file could not read or left out"""


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


class AskedReview(StoredDocument):
    """A review that is being written: the paper, who was asked and how; it goes when the review of its id is there."""

    article: Article
    reader: str
    seed: int
    max_new_tokens: int
    temperature: float
    is_staged: bool = False


class KeptReview(StoredDocument):
    """A review as it came from the model, with the paper; changes of people are versions of it.

    `session` is the salted hash of the person who asked for it.
    """

    article: Article
    reviewer: Reviewer
    answer: ReviewAnswer
    concerns: tuple[DraftConcern, ...]
