"""A paper as retrieval reads it, from article files of ours and from published split files."""

from typing import Annotated

from pydantic import AliasChoices, ConfigDict, Field

from evals.schema.record import Record
from evals.schema.reviews import ReferenceConcern


class NamedText(Record):
    """A section; what else a file says of it is not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = ""
    text: str = ""


class PaperRow(Record):
    """Title, abstract, sections and human concerns of a paper; more than that is not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    article_id: Annotated[
        str, Field(min_length=1, validation_alias=AliasChoices("article_id", "id"))
    ]
    title: str = ""
    abstract: str = ""
    family: str = ""
    sections: tuple[NamedText, ...] | dict[str, str | None] = Field(
        default=(), validation_alias=AliasChoices("sections", "paper_text_sections")
    )
    concerns: tuple[ReferenceConcern, ...] = ()

    @property
    def text(self) -> str:
        """Title, abstract and sections, one after another; empty if there is nothing but ids."""
        if isinstance(self.sections, dict):
            parts = [text or "" for text in self.sections.values()]
        else:
            parts = [section.text for section in self.sections]
        return "\n".join(part for part in (self.title, self.abstract, *parts) if part)
