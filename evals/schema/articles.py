"""A paper as retrieval reads it, from article files of ours and from published split files."""

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Literal

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from evals.schema.record import Record
from evals.schema.reviews import HumanConcern, ReferenceConcern

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
