"""Headings, paragraphs and captions in their order, put together to sections, figures and references."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Literal, cast

from evals.schema import Figure, PageStart, Reference, Section

Role = Literal[
    "abstract",
    "introduction",
    "methods",
    "results",
    "discussion",
    "conclusion",
    "statement",
    "supplement",
    "references",
    "other",
]
NUMBER = re.compile(r"^\s*(?:(?:\d+(?:\.\d+)*|[IVX]+)[.):]?\s+)")
_PATTERNS = tomllib.loads(Path(__file__).with_name("sections.toml").read_text(encoding="utf-8"))
RULES = {cast(Role, role): re.compile(pattern, re.I) for role, pattern in _PATTERNS.items()}


def plain_name(name: str) -> str:
    """Return a section's name without its number and final punctuation: "2.1 Mice." -> "Mice"."""
    return NUMBER.sub("", name.strip()).strip(" .:–—-\t")


def role_of(name: str) -> Role:
    """Return what a section is for; "other" if its name does not tell.

    >>> [role_of(name) for name in ("2. Patients and methods", "RESULTS AND DISCUSSION", "Resulting cohort")]
    ['methods', 'results', 'other']
    """
    plain = plain_name(name)
    return next((role for role, pattern in RULES.items() if pattern.fullmatch(plain)), "other")


CAPTION = re.compile(
    r"(?P<label>(?:(?:Supplementary|Supplemental|Extended Data)\s+)?(?P<word>Figure|Fig\.?|Table|Scheme)"
    r"\s+(?:S\s?)?[A-Z]?\d+[A-Za-z]?)\s*[.:|–—]\s*(?P<text>\S.*)",
    re.S | re.I,
)
LONG_PARAGRAPH = 60
"""Words from which a paragraph before the first heading is taken for the abstract."""
FRONT, UNNAMED = "Front matter", "Main text"


@dataclass(frozen=True)
class Block:
    """A piece of a paper; `level` counts for headings alone, 1 = section, `page` from 1."""

    kind: Literal["heading", "paragraph", "figure"]
    text: str
    level: int = 1
    page: int | None = None
    figure: Figure | None = None


@dataclass(frozen=True)
class Outline:
    """A paper taken apart; no format but JATS gives more than title, abstract, sections, figures and references."""

    title: str
    abstract: str
    sections: tuple[Section, ...]
    figures: tuple[Figure, ...] = ()
    references: tuple[Reference, ...] = ()
    doi: str = ""
    subjects: tuple[str, ...] = ()
    published_date: date | None = None


@dataclass
class Growing:
    """A section while paragraphs are added to it."""

    name: str
    text: str = ""
    pages: list[PageStart] = field(default_factory=list)
    paragraphs: list[str] = field(default_factory=list)

    def add(self, text: str, page: int | None) -> None:
        """Add a paragraph and remember where a page begins."""
        self.text += "\n\n" if self.text else ""
        if page is not None and (not self.pages or self.pages[-1].page != page):
            self.pages.append(PageStart(at=len(self.text), page=page))
        self.text += text
        self.paragraphs.append(text)

    def section(self) -> Section:
        """Return what has grown."""
        return Section(name=self.name, text=self.text, pages=tuple(self.pages))


def caption_of(text: str, page: int | None = None) -> Figure | None:
    """Return the figure or table that a paragraph is the caption of, None if it is running text.

    "Figure 2. Growth." is one, "Figure 2 shows growth." is not.
    """
    match = CAPTION.match(text.strip())
    if match is None:
        return None
    kind: Literal["figure", "table"] = "table" if match["word"].lower().startswith("table") else "figure"
    return Figure(label=" ".join(match["label"].split()), kind=kind, caption=match["text"], page=page)


def outline_of(blocks: Sequence[Block], title: str = "") -> Outline:
    """Return the sections of a paper in its order; names may repeat, captions are figures of their own."""
    parts = [Growing("")]
    figures: list[Figure] = []
    for block in blocks:
        figure = block.figure or (caption_of(block.text, block.page) if block.kind == "paragraph" else None)
        if figure is not None:
            figures.append(figure)
        elif block.kind == "heading" and block.level <= 1:
            parts.append(Growing(block.text.strip()))
        elif block.text.strip():
            parts[-1].add(block.text.strip(), block.page)
    front, *named = parts
    abstract = _taken(named, "abstract")
    references = _taken(named, "references")
    before, sections = _front(front, has_abstract=abstract is not None, is_all=not named)
    return Outline(
        title=title,
        abstract=abstract.text if abstract else before,
        sections=(*sections, *(part.section() for part in named if part.text)),
        figures=tuple(figures),
        references=tuple(Reference(text=text) for text in references.paragraphs) if references else (),
    )


def _taken(parts: list[Growing], role: str) -> Growing | None:
    """Take the first section of this role out of `parts` and return it."""
    found = next((part for part in parts if role_of(part.name) == role), None)
    if found is not None:
        parts.remove(found)
    return found


def _front(front: Growing, *, has_abstract: bool, is_all: bool) -> tuple[str, tuple[Section, ...]]:
    """Return the abstract and the rest of what stands before the first heading: authors and addresses, or all there is."""
    long = [text for text in front.paragraphs if len(text.split()) >= LONG_PARAGRAPH]
    rest = front
    if is_all or has_abstract:
        long = []
    if long:
        rest = Growing("")
        for text in front.paragraphs:
            if text not in long:
                rest.add(text, front.pages[0].page if front.pages else None)
    rest.name = UNNAMED if is_all else FRONT
    return "\n\n".join(long), (rest.section(),) if rest.text else ()
