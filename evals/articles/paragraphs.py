"""Lines of a PDF to headings and paragraphs: page furniture goes, words broken at line ends come together."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from statistics import median

from evals.articles.columns import Line
from evals.articles.markup import tidy
from evals.articles.outline import Block, caption_of
from evals.articles.plain import ABSTRACT, LONGEST_HEADING, heading_level
from evals.articles.roles import plain_name, role_of

EDGE = 0.09
"""Share of a page's height at its top and bottom where running heads and page numbers stand."""
LARGER = 1.12
"""A heading's font is so many times that of the text."""
WIDE = 1.45
"""A gap of so many usual line distances parts paragraphs."""
INDENT = 0.7
"""Of a line's height: a line that begins so much further to the right begins a paragraph."""
NUMBERED_SHARE = 0.6
"""Share of a page's lines that must begin with a line number before the numbers are taken away."""


@dataclass(frozen=True)
class PageLines:
    """The lines of one page in reading order; `number` counts from 1, `height` in points."""

    number: int
    height: float
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Placed:
    """A line and its page."""

    line: Line
    page: int


def without_furniture(pages: Sequence[PageLines]) -> list[PageLines]:
    """Return pages without running heads, page numbers and the numbers of manuscript lines."""
    pages = [_without_line_numbers(page) for page in pages]
    seen = Counter(
        mark
        for page in pages
        for mark in {_mark(line) for line in page.lines if _is_at_edge(line, page)}
    )
    often = {mark for mark, count in seen.items() if count >= max(2, len(pages) / 3)}
    return [
        PageLines(
            page.number,
            page.height,
            tuple(
                line
                for line in page.lines
                if not (_is_at_edge(line, page) and (_mark(line) in often or _is_number(line.text)))
            ),
        )
        for page in pages
    ]


def body_height(pages: Sequence[PageLines]) -> float:
    """Return the height of lines of running text in points: the one that most characters have."""
    counts: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            counts[round(line.height * 2) / 2] += len(line.text)
    return counts.most_common(1)[0][0] if counts else 0.0


def title_of(pages: Sequence[PageLines], body: float) -> tuple[str, list[PageLines]]:
    """Return the title and the pages without it: the largest lines in the upper part of page 1.

    Where headings are as large as the title, it ends at the first that names a section, as Abstract does.
    """
    first = pages[0]
    upper = [
        line
        for line in first.lines
        if line.bottom > 0.4 * first.height and line.height > LARGER * body and len(line.text) > 3
    ]
    if not upper:
        return "", list(pages)
    largest = max(line.height for line in upper)
    large = [line for line in upper if line.height > 0.93 * largest]
    title = [large[0], *takewhile(lambda line: not _names_section(line.text), large[1:])]
    rest = tuple(line for line in first.lines if line not in title)
    text = tidy(_joined(title))
    return text, [PageLines(first.number, first.height, rest), *pages[1:]]


def _names_section(text: str) -> bool:
    """Whether a line is the heading of a section, and not a title that begins with such a word."""
    return role_of(text) != "other" and len(plain_name(text).split()) <= 3


def blocks_of(pages: Sequence[PageLines], body: float) -> list[Block]:
    """Return headings and paragraphs; a paragraph that a column or page cuts in two is whole again."""
    groups = _groups([Placed(line, page.number) for page in pages for line in page.lines], body)
    blocks: list[Block] = []
    for group in groups:
        for block in _group_blocks(group, body):
            if blocks and _goes_on(blocks[-1], block):
                last = blocks[-1]
                blocks[-1] = Block("paragraph", _together(last.text, block.text), page=last.page)
            else:
                blocks.append(block)
    return blocks


def _groups(placed: Sequence[Placed], body: float) -> list[list[Placed]]:
    """Return lines grouped into paragraphs."""
    gaps = [
        one.line.bottom - other.line.bottom
        for one, other in pairwise(placed)
        if one.page == other.page and one.line.column == other.line.column
    ]
    usual = median([gap for gap in gaps if 0 < gap < 3 * body] or [body * 1.2])
    groups: list[list[Placed]] = []
    for each in placed:
        if groups and not _begins(groups[-1], each, usual):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _begins(group: Sequence[Placed], new: Placed, usual: float) -> bool:
    """Whether a line begins a paragraph after those of `group`."""
    last = group[-1]
    if last.page != new.page or last.line.column != new.line.column:
        return True
    if last.line.bottom - new.line.bottom > WIDE * usual or new.line.bottom > last.line.top:
        return True
    if last.line.is_bold != new.line.is_bold and len(last.line.text.split()) <= LONGEST_HEADING:
        return True
    if abs(last.line.height - new.line.height) > 0.12 * last.line.height:
        return True
    if _heading(last.line.text) is not None or caption_of(new.line.text):
        return True
    return new.line.left - min(each.line.left for each in group) > INDENT * new.line.height


def _heading(text: str) -> int | None:
    """Return the level of a line that is a heading by its words alone."""
    level = heading_level(text)
    return level if level is not None and (role_of(text) != "other" or text[:1].isdigit()) else None


def _group_blocks(group: Sequence[Placed], body: float) -> list[Block]:
    """Return a paragraph, or a heading if its font or words are those of one."""
    text = tidy(_joined([each.line for each in group]))
    page = group[0].page
    if not text:
        return []
    level = _level(text, group, body)
    if level is not None:
        return [Block("heading", plain_name(text), level, page)]
    opening = ABSTRACT.match(text)
    if opening:
        return [
            Block("heading", "Abstract", 1, page),
            Block("paragraph", text[opening.end() :], page=page),
        ]
    return [Block("paragraph", text, page=page)]


def _level(text: str, group: Sequence[Placed], body: float) -> int | None:
    by_words = heading_level(text)
    if by_words is not None and (role_of(text) != "other" or text[:1].isdigit()):
        return by_words
    if len(text.split()) > LONGEST_HEADING or text.endswith((".", ",", ";", ":")) or len(text) < 3:
        return None
    if group[0].line.height > LARGER * body or by_words == 1:
        return 1 if by_words == 1 else 2
    return 2 if all(each.line.is_bold for each in group) and text[:1].isupper() else None


def _goes_on(last: Block, block: Block) -> bool:
    """Whether a paragraph is the rest of the one before it."""
    if last.kind != "paragraph" or block.kind != "paragraph" or caption_of(block.text):
        return False
    is_open = last.text.endswith(("-", ",")) or last.text[-1:].isalnum()
    return is_open and block.text[:1].islower() and caption_of(last.text) is None


def _together(one: str, other: str) -> str:
    return one[:-1] + other if one.endswith("-") else f"{one} {other}"


def _joined(lines: Sequence[Line]) -> str:
    """Return lines as one text; a word that the line's end has broken is whole again.

    A hyphen stays before a capital or a digit, where it belongs to the word: "IL-" + "6".
    """
    text = ""
    for line in lines:
        if text.endswith("-") and line.text[:1].islower():
            text = text[:-1] + line.text
        elif text.endswith("-"):
            text += line.text
        else:
            text = f"{text} {line.text}" if text else line.text
    return text


def _without_line_numbers(page: PageLines) -> PageLines:
    """Return a page without the numbers that journals print beside the lines of a manuscript."""
    starts = [_as_number(line) for line in page.lines]
    numbers = [number for number in starts if number is not None]
    rising = sum(0 < b - a <= 5 for a, b in pairwise(numbers))
    if len(numbers) < NUMBERED_SHARE * len(page.lines) or rising < 0.8 * (len(numbers) - 1):
        return page
    kept = []
    for line, number in zip(page.lines, starts, strict=True):
        words = line.words if number is None else line.words[1:]
        if words:
            kept.append(Line(words, line.column))
    return PageLines(page.number, page.height, tuple(kept))


def _as_number(line: Line) -> int | None:
    first = line.words[0].text
    return int(first) if first.isascii() and first.isdigit() and len(first) < 6 else None


def _is_at_edge(line: Line, page: PageLines) -> bool:
    return line.bottom > (1 - EDGE) * page.height or line.top < EDGE * page.height


def _mark(line: Line) -> str:
    """Return a line with its digits alike, so that "Page 3 of 9" is the same on every page."""
    return re.sub(r"\d+", "#", line.text.lower())


def _is_number(text: str) -> bool:
    return (
        re.fullmatch(r"(?:page\s+)?[ivxlc\d]+(?:\s*(?:of|/)\s*\d+)?", text.strip(), re.I)
        is not None
    )
