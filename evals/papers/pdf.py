"""PDF to a paper: PDFium finds the characters, our own code the columns, paragraphs and sections."""

import ctypes
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from math import pi
from statistics import median
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

from evals.errors import UnreadableArticle
from evals.papers.outline import Block, Outline, caption_of, outline_of, plain_name, role_of
from evals.papers.text import ABSTRACT, LONGEST_HEADING, FileLimits, heading_level, tidy

HYPHENS = frozenset((0x02, 0xFFFE))
"""What PDFium gives for a hyphen at the end of a line."""
SOFT_HYPHEN = "\u00ad"
LIGATURES = dict(enumerate(("ff", "fi", "fl", "ffi", "ffl", "st", "st"), start=0xFB00))
STRAIGHT = 0.1
"""Radians; characters turned further belong to a stamp at the margin or to the axis of a plot."""
GAP = 0.18
"""Of the height: a wider gap between two characters parts words even without a space."""


@dataclass(frozen=True)
class Word:
    """A word and its box in points from the lower left corner of the page."""

    text: str
    left: float
    right: float
    bottom: float
    top: float
    is_bold: bool = False

    @property
    def height(self) -> float:
        return self.top - self.bottom


class _Character(NamedTuple):
    index: int
    text: str
    left: float
    right: float
    bottom: float
    top: float


def words_of(text_page: Any) -> list[Word]:
    """Return the words of a PDFium text page, in the order of the file, which need not be that of reading."""
    words: list[Word] = []
    current: list[_Character] = []
    for character in [*_characters(text_page), None]:
        if current and (character is None or _is_apart(current[-1], character)):
            words.append(
                Word(
                    text="".join(each.text for each in current).replace(SOFT_HYPHEN, "-"),
                    left=min(each.left for each in current),
                    right=max(each.right for each in current),
                    bottom=min(each.bottom for each in current),
                    top=max(each.top for each in current),
                    is_bold=_is_bold(text_page, current[0].index),
                )
            )
            current = []
        if character is not None:
            current.append(character)
    return words


def _characters(text_page: Any) -> Iterator[_Character | None]:
    """Give each character with its box; None where a word ends."""
    box = pdfium.FS_RECTF()
    for index in range(pdfium.FPDFText_CountChars(text_page)):
        code = pdfium.FPDFText_GetUnicode(text_page, index)
        if code in HYPHENS:
            text = SOFT_HYPHEN
        elif code <= 0x20 or code in (0xA0, 0xAD, 0xFEFF):
            yield None
            continue
        else:
            text = LIGATURES.get(code) or chr(code)
        if not pdfium.FPDFText_GetLooseCharBox(text_page, index, ctypes.byref(box)):
            continue
        angle = pdfium.FPDFText_GetCharAngle(text_page, index)  # -1 where it is not known
        if angle > STRAIGHT and abs(angle - 2 * pi) > STRAIGHT:
            yield None
            continue
        yield _Character(index, text, box.left, box.right, box.bottom, box.top)


def _is_apart(one: _Character, other: _Character) -> bool:
    """Whether `other` begins a new word: on another line, to the left, or beyond a gap."""
    height = max(one.top - one.bottom, 1.0)
    is_on_line = min(one.top, other.top) > max(one.bottom, other.bottom)
    gap = other.left - one.right
    return not is_on_line or gap > GAP * height or gap < -height


def _is_bold(text_page: Any, index: int) -> bool:
    name = ctypes.create_string_buffer(128)
    length = pdfium.FPDFText_GetFontInfo(text_page, index, name, 128, ctypes.byref(ctypes.c_int()))
    called = name.raw[: max(0, min(length, 128) - 1)].decode("utf-8", "replace").lower()
    return any(mark in called for mark in ("bold", "black", "heavy", "-bd"))


CROSSED = 0.15
"""Share of lines that may cross a gutter: titles, wide figures, running heads."""
EACH_SIDE = 0.2
"""Share of lines that each side of a gutter needs."""
NARROWEST_COLUMN = 90.0
"""Points; real columns are 150 and more."""
NARROWEST_GUTTER = 6.0
STEP = 3.0
FEWEST_LINES = 8
"""On a page with fewer lines nothing can be told, and little be lost."""


@dataclass(frozen=True)
class TextLine:
    """Words on one line of one column, from left to right; `column` counts from 0 on each page, `page` from 1."""

    words: tuple[Word, ...]
    column: int = 0
    page: int = 1

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def left(self) -> float:
        return self.words[0].left

    @property
    def top(self) -> float:
        return max(word.top for word in self.words)

    @property
    def bottom(self) -> float:
        return min(word.bottom for word in self.words)

    @property
    def height(self) -> float:
        return median(word.height for word in self.words)

    @property
    def is_bold(self) -> bool:
        bold = sum(len(word.text) for word in self.words if word.is_bold)
        return 2 * bold > sum(len(word.text) for word in self.words)


Row = tuple[Word, ...]


def reading_order(words: Sequence[Word], page: int) -> list[TextLine]:
    """Return the lines of a page as they are read.

    A line across a gutter ends the columns above it: they are read before it, from left to right.
    """
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda each: (-(each.top + each.bottom) / 2, each.left)):
        for row in rows[-3:]:  # a raised or lowered figure stands on the line, too
            if min(row[0].top, word.top) - max(row[0].bottom, word.bottom) > 0.5 * min(row[0].height, word.height):
                row.append(word)
                break
        else:
            rows.append([word])
    sorted_rows = [tuple(sorted(row, key=lambda each: each.left)) for row in rows]
    return [TextLine(row, column, page) for row, column in _columns(sorted_rows, column=0)]


def _columns(rows: Sequence[Row], column: int) -> Iterator[tuple[Row, int]]:
    """Yield rows with the number of their column, in reading order."""
    gutter = gutter_of(rows)
    if gutter is None:
        yield from ((row, column) for row in rows)
        return
    left: list[Row] = []
    right: list[Row] = []
    for row in [*rows, None]:
        if row is None or _crosses(row, gutter):
            yield from _columns(left, 2 * column + 1)
            yield from _columns(right, 2 * column + 2)
            left, right = [], []
            if row is not None:
                yield row, column
            continue
        first = tuple(word for word in row if word.right <= gutter)
        second = tuple(word for word in row if word.right > gutter)
        left += [first] if first else []
        right += [second] if second else []


def gutter_of(rows: Sequence[Row]) -> float | None:
    """Return the middle of the widest strip that parts two columns (points from the left), or None."""
    if len(rows) < FEWEST_LINES:
        return None
    start = min(row[0].left for row in rows) + NARROWEST_COLUMN
    end = max(row[-1].right for row in rows) - NARROWEST_COLUMN
    strips: list[list[float]] = []
    for place in (start + STEP * step for step in range(max(0, int((end - start) / STEP) + 1))):
        clear = [row for row in rows if not _crosses(row, place)]
        sides = sum(row[0].right <= place for row in clear), sum(row[-1].right > place for row in clear)
        if len(rows) - len(clear) > CROSSED * len(rows) or min(sides) < EACH_SIDE * len(rows):
            continue
        if strips and place - strips[-1][-1] <= STEP * 1.5:
            strips[-1].append(place)
        else:
            strips.append([place])
    widest = max(strips, key=lambda strip: strip[-1] - strip[0], default=None)
    if widest is None or widest[-1] - widest[0] + STEP < NARROWEST_GUTTER:
        return None
    return (widest[0] + widest[-1]) / 2


def _crosses(row: Sequence[Word], place: float) -> bool:
    """Whether a row runs over `place`: through a word, or with no more than a space around it."""
    for index, word in enumerate(row):
        if word.left < place < word.right:
            return True
        if word.left >= place:
            gap = word.left - row[index - 1].right if index else None
            return gap is not None and gap < 0.45 * word.height
    return False


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
    lines: tuple[TextLine, ...]


def without_furniture(pages: Sequence[PageLines]) -> list[PageLines]:
    """Return pages without running heads, page numbers and the numbers of manuscript lines."""
    pages = [_without_line_numbers(page) for page in pages]
    seen = Counter(mark for page in pages for mark in {_mark(line) for line in page.lines if _is_at_edge(line, page)})
    often = {mark for mark, count in seen.items() if count >= max(2, len(pages) / 3)}
    return [
        replace(
            page,
            lines=tuple(
                line
                for line in page.lines
                if not (_is_at_edge(line, page) and (_mark(line) in often or PAGE_NUMBER.fullmatch(line.text.strip())))
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
    large = [line for line in upper if line.height > 0.93 * max(line.height for line in upper)]
    # a heading, and not a title that begins with such a word
    names = [role_of(line.text) != "other" and len(plain_name(line.text).split()) <= 3 for line in large]
    title = large[: names.index(True, 1) if True in names[1:] else None]
    rest = tuple(line for line in first.lines if line not in title)
    return tidy(_joined(title)), [replace(first, lines=rest), *pages[1:]]


def blocks_of(pages: Sequence[PageLines], body: float) -> list[Block]:
    """Return headings and paragraphs; a paragraph that a column or page cuts in two is whole again."""
    blocks: list[Block] = []
    for group in _groups([line for page in pages for line in page.lines], body):
        text, page = tidy(_joined(group)), group[0].page
        level, opening = _level(text, group, body), ABSTRACT.match(text)
        if level is not None:
            blocks.append(Block("heading", plain_name(text), level, page))
        elif opening:
            blocks.append(Block("heading", "Abstract", 1, page))
            blocks.append(Block("paragraph", text[opening.end() :], page=page))
        elif blocks and text and _goes_on(blocks[-1], text):
            last = blocks[-1]
            whole = last.text[:-1] + text if last.text.endswith("-") else f"{last.text} {text}"
            blocks[-1] = replace(last, text=whole)
        elif text:
            blocks.append(Block("paragraph", text, page=page))
    return blocks


def _groups(lines: Sequence[TextLine], body: float) -> list[list[TextLine]]:
    gaps = [
        one.bottom - other.bottom
        for one, other in pairwise(lines)
        if (one.page, one.column) == (other.page, other.column)
    ]
    usual = median([gap for gap in gaps if 0 < gap < 3 * body] or [body * 1.2])
    groups: list[list[TextLine]] = []
    for line in lines:
        if groups and not _begins(groups[-1], line, usual):
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def _begins(group: Sequence[TextLine], new: TextLine, usual: float) -> bool:
    last = group[-1]
    return (
        (last.page, last.column) != (new.page, new.column)
        or last.bottom - new.bottom > WIDE * usual
        or new.bottom > last.top
        or (last.is_bold != new.is_bold and len(last.text.split()) <= LONGEST_HEADING)
        or abs(last.height - new.height) > 0.12 * last.height
        or _heading(last.text) is not None
        or caption_of(new.text) is not None
        or new.left - min(each.left for each in group) > INDENT * new.height
    )


def _heading(text: str) -> int | None:
    """Return the level of a line that is a heading by its words alone."""
    level = heading_level(text)
    return level if level is not None and (role_of(text) != "other" or text[:1].isdigit()) else None


def _level(text: str, group: Sequence[TextLine], body: float) -> int | None:
    """Return the level of a heading, told by its font or words; None for a paragraph."""
    by_words = heading_level(text)
    if _heading(text) is not None:
        return by_words
    if len(text.split()) > LONGEST_HEADING or text.endswith((".", ",", ";", ":")) or len(text) < 3:
        return None
    if group[0].height > LARGER * body or by_words == 1:
        return 1 if by_words == 1 else 2
    return 2 if all(each.is_bold for each in group) and text[:1].isupper() else None


def _goes_on(last: Block, text: str) -> bool:
    """Whether a paragraph is the rest of the one before it."""
    is_open = last.text.endswith(("-", ",")) or last.text[-1:].isalnum()
    is_rest = last.kind == "paragraph" and is_open and text[:1].islower()
    return is_rest and caption_of(text) is None and caption_of(last.text) is None


def _joined(lines: Sequence[TextLine]) -> str:
    """Return lines as one text; a word that the line's end has broken is whole again.

    A hyphen stays before a capital or a digit, where it belongs to the word: "IL-" + "6".
    """
    text = ""
    for line in lines:
        if text.endswith("-"):
            text = (text[:-1] if line.text[:1].islower() else text) + line.text
        else:
            text = f"{text} {line.text}" if text else line.text
    return text


def _without_line_numbers(page: PageLines) -> PageLines:
    """Return a page without the numbers that journals print beside the lines of a manuscript."""
    is_number = [re.fullmatch(r"[0-9]{1,5}", line.words[0].text) is not None for line in page.lines]
    numbers = [int(line.words[0].text) for line, is_so in zip(page.lines, is_number, strict=True) if is_so]
    rising = sum(0 < b - a <= 5 for a, b in pairwise(numbers))
    if len(numbers) < NUMBERED_SHARE * len(page.lines) or rising < 0.8 * (len(numbers) - 1):
        return page
    kept = [replace(line, words=line.words[is_so:]) for line, is_so in zip(page.lines, is_number, strict=True)]
    return replace(page, lines=tuple(line for line in kept if line.words))


def _is_at_edge(line: TextLine, page: PageLines) -> bool:
    return line.bottom > (1 - EDGE) * page.height or line.top < EDGE * page.height


def _mark(line: TextLine) -> str:
    """Return a line with its digits alike, so that "Page 3 of 9" is the same on every page."""
    return re.sub(r"\d+", "#", line.text.lower())


PAGE_NUMBER = re.compile(r"(?:page\s+)?[ivxlc\d]+(?:\s*(?:of|/)\s*\d+)?", re.I)
FEWEST_WORDS = 12
"""A page with fewer words is a picture, a scan or a divider."""
ONE_AT_A_TIME = threading.Lock()
"""PDFium may not be called from two threads at once."""


def read_pdf(
    data: bytes, name: str, limits: FileLimits, progress: Callable[[int, int], None] | None = None
) -> tuple[Outline, int, list[int]]:
    """Return what stands in a PDF, how many pages it has, and those without text, counted from 1.

    `progress` is told pages done and in all. UnreadableArticle for a file that is broken, locked with a
    password, too long, or a scan.
    """
    with ONE_AT_A_TIME:
        found = _page_lines(data, name, limits, progress)
    empty = [page.number for page in found if sum(len(line.words) for line in page.lines) < FEWEST_WORDS]
    if len(empty) > len(found) / 2:
        raise UnreadableArticle(
            f"{name} holds hardly any text: {len(empty)} of {len(found)} pages are pictures, as in a scan."
            " Recognise the text first (`ocrmypdf in.pdf out.pdf`), or give the publisher's PDF or XML."
        )
    pages = without_furniture(found)
    body = body_height(pages)
    title, pages = title_of(pages, body)
    return outline_of(blocks_of(pages, body), title), len(found), empty


def _page_lines(
    data: bytes, name: str, limits: FileLimits, progress: Callable[[int, int], None] | None
) -> list[PageLines]:
    try:
        with closing(pypdfium2.PdfDocument(data)) as document:
            count = len(document)
            limits.check_pages(count, name)
            if not count:
                raise pypdfium2.PdfiumError("it has no pages")
            found = []
            for number in range(1, count + 1):
                with closing(document[number - 1]) as page, closing(page.get_textpage()) as text_page:
                    lines = reading_order(words_of(text_page), number)
                    found.append(PageLines(number, page.get_height(), tuple(lines)))
                if progress is not None:
                    progress(number, count)
            return found
    except pypdfium2.PdfiumError as error:
        problem = str(error)
        if "password" in problem.lower() or "security" in problem.lower():
            raise UnreadableArticle(
                f"{name} is locked with a password; save a copy without one (print it to PDF, or"
                " `qpdf --decrypt --password=… in.pdf out.pdf`) and give that."
            ) from None
        raise UnreadableArticle(
            f"{name} cannot be read as a PDF ({problem.rstrip('.')}); it is broken or was not downloaded whole."
            " Download it again, or open it in a viewer and print it to a new PDF."
        ) from None
