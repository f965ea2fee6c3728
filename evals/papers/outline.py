"""Headings, paragraphs and captions in their order, put together to sections, figures and references."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Literal

from evals.schema import Figure, PageStart, Reference, Section

NUMBER = re.compile(r"^\s*(?:(?:\d+(?:\.\d+)*|[IVX]+)[.):]?\s+)")
_PATTERNS = tomllib.loads(Path(__file__).with_name("sections.toml").read_text(encoding="utf-8"))
ROLES = {role: re.compile(pattern, re.I) for role, pattern in _PATTERNS.items()}
"""What sections are for, by how they are called."""


def plain_name(name: str) -> str:
    """Return a section's name without its number and final punctuation: "2.1 Mice." -> "Mice"."""
    return NUMBER.sub("", name.strip()).strip(" .:–—-\t")


def role_of(name: str) -> str:
    """Return what a section is for; "other" if its name does not tell.

    >>> [role_of(name) for name in ("2. Patients and methods", "RESULTS AND DISCUSSION", "Resulting cohort")]
    ['methods', 'results', 'other']
    """
    plain = plain_name(name)
    return next((role for role, pattern in ROLES.items() if pattern.fullmatch(plain)), "other")


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
    starts: tuple[PageStart, ...] = ()


@dataclass(frozen=True)
class Outline:
    """A paper taken apart; no format but JATS gives more than title, abstract, sections, figures and references."""

    title: str
    abstract: str
    sections: tuple[Section, ...]
    abstract_pages: tuple[PageStart, ...] = ()
    figures: tuple[Figure, ...] = ()
    references: tuple[Reference, ...] = ()
    doi: str = ""
    subjects: tuple[str, ...] = ()
    published_date: date | None = None
    notes: tuple[str, ...] = ()


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
    """Return the sections of a paper in its order; names may repeat, captions are figures of their own.

    What stands before the first heading is the abstract, if it is long and there is no other, and authors and
    addresses; without a heading it is all there is.
    """
    parts: list[tuple[str, list[Block]]] = [("", [])]
    figures: list[Figure] = []
    for block in blocks:
        figure = block.figure or (caption_of(block.text, block.page) if block.kind == "paragraph" else None)
        if figure is not None:
            figures.append(figure)
        elif block.kind == "heading" and block.level <= 1:
            parts.append((block.text.strip(), []))
        elif block.text.strip():
            parts[-1][1].append(replace(block, text=block.text.strip()))
    (_, front), *named = parts
    found: dict[str, list[Block]] = {}
    for role in ("abstract", "references"):
        for place, (name, members) in enumerate(named):
            if role_of(name) == role:
                found[role] = members
                del named[place]
                break
    abstract = found.get("abstract")
    if abstract is None:
        abstract = [each for each in front if named and len(each.text.split()) >= LONG_PARAGRAPH]
        page = front[0].page if front else None
        front = [replace(each, page=page) for each in front if each not in abstract] if abstract else front
    whole = _section("", abstract)
    sections = [(FRONT if named else UNNAMED, front), *named]
    return Outline(
        title=title,
        abstract=whole.text,
        abstract_pages=whole.pages,
        sections=tuple(_section(name, members) for name, members in sections if members),
        figures=tuple(figures),
        references=tuple(Reference(text=each.text) for each in found.get("references", ())),
    )


def _section(name: str, members: Sequence[Block]) -> Section:
    """Return paragraphs as a section that knows where each stands; headings below it are paragraphs of their own."""
    length, places = 0, list[PageStart]()
    for each in members:
        starts = each.starts or (() if each.page is None else (PageStart(at=0, page=each.page),))
        is_heading = each.kind == "heading"
        places += [start.model_copy(update={"at": start.at + length, "is_heading": is_heading}) for start in starts]
        length += len(each.text) + 2
    return Section(name=name, text="\n\n".join(each.text for each in members), pages=tuple(places))
