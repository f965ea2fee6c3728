"""Words that PDFium reads on the pages of a PDF, as lines of columns in reading order."""

import ctypes
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from math import pi
from statistics import median
from typing import Any

import pypdfium2.raw as pdfium

from evals.io import runs_of
from evals.papers.outline import caption_of
from evals.schema.articles import Box

WORD = re.compile("[^\\s\x00-\x20\x7f-\xa0\xad\ufeff\ufffe]+[\x02\ufffe]?")
"""In what PDFium reads; \\x02 and \\ufffe are its hyphens at the ends of lines."""
ODD = {2: "-", 0xFFFE: "-", **dict(enumerate(("ff", "fi", "fl", "ffi", "ffl", "st", "st"), start=0xFB00))}
ODD |= {0xF000 + ord(code): letter for code, letter in zip("=+<>()[]-", "=+<>()[]−", strict=True)}
ODD |= dict(enumerate("αβχδεφγηιϕκλμνοπθρστυϖωξψζ", start=0xF061)) | {
    0xF044: "Δ",
    0xF057: "Ω",
    0xF0B1: "±",
    0xF0B4: "×",
}
"""Hyphens and ligatures; F0xx is the font Symbol, as Word names its signs."""
ACCENT = re.compile("([´`ˆ˜¨ˇ¸])([A-Za-zı])")
COMBINED = dict(zip("´`ˆ˜¨ˇ¸", "\u0301\u0300\u0302\u0303\u0308\u030c\u0327", strict=True))
STRAIGHT = 0.1
"""Radians; words turned further than this from a quarter turn are a stamp across the page."""
FAINT = 200
"""Of 255: text with a lighter fill may not be seen."""


@dataclass(frozen=True)
class Word:
    """A word and its box in points from the lower left corner of the page."""

    text: str
    left: float
    right: float
    bottom: float
    top: float
    style: str = ""
    quarter: int | None = 0
    is_drawn: bool = True
    is_faint: bool = False

    @property
    def height(self) -> float:
        return self.top - self.bottom


def words_on(text_page: Any) -> list[Word]:
    """Return the words that PDFium reads, in the order of the file, which need not be that of reading.

    `quarter` counts quarter turns against the clock, None for a word askew; a word is not drawn in render mode 3,
    as in the layer that text recognition puts over a scan.
    """
    box = pdfium.FS_RECTF()
    codes = range(pdfium.FPDFText_CountChars(text_page))
    text = "".join(chr(pdfium.FPDFText_GetUnicode(text_page, index)) for index in codes)
    inks: dict[int | None, tuple[str, bool, bool]] = {}
    words: list[Word] = []
    for match in WORD.finditer(text):
        edges: list[tuple[float, float, float, float]] = []
        for index in {match.start(), match.end() - 1}:
            if pdfium.FPDFText_GetLooseCharBox(text_page, index, ctypes.byref(box)):
                edges.append((box.left, box.right, box.bottom, box.top))
        if not edges:
            continue
        lefts, rights, bottoms, tops = zip(*edges, strict=True)
        drawn = pdfium.FPDFText_GetTextObject(text_page, match.start())
        ink = ctypes.cast(drawn, ctypes.c_void_p).value
        if ink not in inks:
            inks[ink] = _ink(text_page, match.start(), drawn)
        style, is_drawn, is_faint = inks[ink]
        turns = pdfium.FPDFText_GetCharAngle(text_page, match.start()) / (pi / 2)
        is_askew = abs(turns - round(turns)) > STRAIGHT and turns > 0
        words.append(
            Word(
                text=_spelt(match[0]),
                left=min(lefts),
                right=max(rights),
                bottom=min(bottoms),
                top=max(tops),
                style=style,
                quarter=None if is_askew else round(max(turns, 0)) % 4,
                is_drawn=is_drawn,
                is_faint=is_faint,
            )
        )
    return words


def _spelt(text: str) -> str:
    """Return a word with letters beyond U+FFFF whole, which PDFium gives in halves, and with its accents on them.

    Some files name only the second half of a mathematical letter, whose first half is always the same.
    """
    text = re.sub("(?<![\ud800-\udbff])(?=[\udc00-\udfff])", "\ud835", text.translate(ODD))
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return ACCENT.sub(lambda found: unicodedata.normalize("NFC", found[2].replace("ı", "i") + COMBINED[found[1]]), text)


BOLD = re.compile(r"bold|black|heavy|demi|-bd|bx\d|medi(?!um)|\.b$|tb$")
ITALIC = re.compile(r"ital|obli|cmti|\.i$|-it$")


def _ink(text_page: Any, index: int, drawn: Any) -> tuple[str, bool, bool]:
    """Return "bold" and "italic" as the name of a character's font tells them, if it is drawn, and if faintly."""
    name = ctypes.create_string_buffer(128)
    length = pdfium.FPDFText_GetFontInfo(text_page, index, name, 128, ctypes.byref(ctypes.c_int()))
    called = name.raw[: max(0, min(length, 128) - 1)].decode("utf-8", "replace").lower()
    is_bold = BOLD.search(called)
    style = ("bold " if is_bold else "") + ("italic" if ITALIC.search(called) else "")
    *colours, opacity = fill = [ctypes.c_uint() for _ in range(4)]
    pdfium.FPDFText_GetFillColor(text_page, index, *map(ctypes.byref, fill))
    is_faint = min(colour.value for colour in colours) > FAINT or opacity.value < 255 - FAINT
    is_drawn = pdfium.FPDFTextObj_GetTextRenderMode(drawn) not in (
        pdfium.FPDF_TEXTRENDERMODE_INVISIBLE,
        pdfium.FPDF_TEXTRENDERMODE_CLIP,
    )
    return style, is_drawn, is_faint


NARROWEST_COLUMN = 90.0
"""Points; real columns are 150 and more."""
STEP = 3.0
FEWEST_LINES = 8
"""Lines one below the other that a gutter parts before it is believed; then it holds for the whole paper."""
CLEAR, CELL = 0.6, 1.2
"""Of the height: a gap around a gutter is at least so wide; one between cells of a table, so wide."""
FILLED = 0.55
"""Share of a column's width that a line of running text fills in one piece."""


@dataclass(frozen=True)
class TextLine:
    """Words on one line of one column, from left to right; `column` counts from 0 on each page, `page` from 1."""

    words: tuple[Word, ...]
    column: int = 0
    page: int = 1

    @cached_property
    def text(self) -> str:
        return " ".join(self.cells)

    @property
    def left(self) -> float:
        return self.words[0].left

    @property
    def right(self) -> float:
        return self.words[-1].right

    @cached_property
    def top(self) -> float:
        return max(word.top for word in self.words)

    @cached_property
    def bottom(self) -> float:
        return min(word.bottom for word in self.words)

    @cached_property
    def height(self) -> float:
        return median(word.height for word in self.words)

    @cached_property
    def is_bold(self) -> bool:
        return self._mostly("bold")

    @cached_property
    def is_italic(self) -> bool:
        return self._mostly("italic")

    def _mostly(self, style: str) -> bool:
        letters = sum(len(word.text) for word in self.words if style in word.style)
        return letters > 0.85 * sum(len(word.text) for word in self.words)

    @cached_property
    def cells(self) -> list[str]:
        """The pieces of the line that wide gaps part: more than one in a table."""
        return [" ".join(word.text for word in cell) for cell in _cells(self.words)]


TableRow = tuple[Word, ...]
LABEL = re.compile(r"(?:Fig(?:ure|\.)?|Table|Scheme) S?\d+[A-Z]?", re.I)


def _cells(row: Sequence[Word]) -> list[list[Word]]:
    cells: list[list[Word]] = []
    for word in row:
        if cells and word.left - cells[-1][-1].right <= CELL * word.height:
            cells[-1].append(word)
        else:
            cells.append([word])
    return cells


def table_rows(words: Sequence[Word]) -> list[TableRow]:
    """Return the words of a page by rows from top to bottom, each from left to right over all columns.

    Words that follow each other in the file without a gap stay together.
    """

    def is_near(piece: list[Word], word: Word) -> bool:
        gap = word.left - piece[-1].right
        return _on_line(piece[-1], word) > 0.5 and -word.height < gap < CLEAR * word.height

    pieces = runs_of(words, is_near)
    rows: list[list[Word]] = []
    for piece in sorted(pieces, key=lambda each: (-median(word.top + word.bottom for word in each), each[0].left)):
        usual = sorted(piece, key=lambda word: word.height)[len(piece) // 2]
        near = [  # a raised or lowered figure stands on the line, too; what stands above another word does not
            (max(_on_line(word, usual) for word in row), row)
            for row in rows[-3:]
            if all(min(word.right, piece[-1].right) - max(word.left, piece[0].left) < word.height for word in row)
        ]
        share, row = max(near, key=lambda each: each[0], default=(0, []))
        if share > 0.5:
            row += piece
        else:
            rows.append(piece)
    return [_with_stops(sorted(row, key=lambda each: each.left)) for row in rows]


def _with_stops(row: Sequence[Word]) -> TableRow:
    """Return a row with a full stop behind each bold label that has none: "Table 1 Sample" begins a caption as "Table 1. Sample" does."""
    words = list(row)
    for at, (word, number, after) in enumerate(zip(row, row[1:], row[2:], strict=False)):
        is_first = not at or word.left - row[at - 1].right > CELL * word.height
        is_bold = "bold" in word.style and "bold" in number.style and after.text[:1].isupper()
        if is_first and is_bold and LABEL.fullmatch(f"{word.text} {number.text}"):
            words[at + 1] = replace(number, text=f"{number.text}.")
    return tuple(words)


def _on_line(one: Word, other: Word) -> float:
    """Return how much of the lower of two words stands on the line of the other, as a share."""
    return (min(one.top, other.top) - max(one.bottom, other.bottom)) / max(min(one.height, other.height), 0.1)


def gutters_of(rows: Sequence[TableRow]) -> list[float]:
    """Return where running text stands to the left and right of a clear strip (points), the longest strips first."""
    if len(rows) < FEWEST_LINES:
        return []
    start, end = min(row[0].left for row in rows), max(row[-1].right for row in rows)
    clear: list[tuple[int, float]] = []
    count = max(0, int((end - start - 2 * NARROWEST_COLUMN) / STEP) + 1)
    for place in (start + NARROWEST_COLUMN + STEP * step for step in range(count)):
        best = run = left = right = 0
        for row in rows:
            if _crosses(row, place):
                run = left = right = 0
                continue
            one, other = _split_row(row, place)
            is_left, is_right = _is_text(one, place - start), _is_text(other, end - place)
            left, right, run = left + is_left, right + is_right, run + (is_left or is_right)
            if min(left, right) >= FEWEST_LINES // 2:
                best = max(best, run)
        if best >= FEWEST_LINES:
            clear.append((best, place))
    strips = runs_of(clear, lambda strip, each: each[1] - strip[-1][1] <= STEP * 1.5)
    wide = sorted((strip for strip in strips if len(strip) > 1), key=lambda strip: -max(strip)[0])
    return [median(place for best, place in strip if best == max(strip)[0]) for strip in wide]


def page_gutters(pages: Sequence[Sequence[TableRow]]) -> list[list[float]]:
    """Return the gutters of each page: its own, and those that a good part of the pages have, the commonest first."""
    own = [gutters_of(rows) for rows in pages]
    every = sorted(place for places in own for place in places)
    common = runs_of(every, lambda run, place: place - run[-1] < 4 * STEP)
    common.sort(key=len, reverse=True)

    def of_page(places: Sequence[float]) -> Iterator[float]:
        for group in common:
            middle = median(group)
            near = [place for place in places if group[0] <= place <= group[-1]]
            if near or len(group) > 0.15 * len(pages):
                yield min(near, key=lambda place: abs(place - middle), default=middle)

    return [list(of_page(places)) for places in own]


def columns_of(rows: Sequence[TableRow], gutters: Sequence[float], column: int) -> Iterator[tuple[TableRow, int]]:
    """Yield rows with the number of their column, in reading order.

    A row across a gutter ends the columns above it: they are read before it, from left to right.
    """
    if not gutters or not rows:
        yield from ((row, column) for row in rows)
        return
    gutter, *others = gutters
    crossing = _crossing(rows, gutter)
    for is_across, group in groupby(zip(crossing, rows, strict=True), key=lambda each: each[0]):
        band = [row for _, row in group]
        sides = [tuple(part for row in band if (part := _split_row(row, gutter)[side])) for side in (0, 1)]
        if is_across:
            yield from columns_of(band, others, column)
            continue
        apart = [each for each in others if abs(each - gutter) > NARROWEST_COLUMN]
        yield from columns_of(sides[0], [each for each in apart if each < gutter], 2 * column + 1)
        yield from columns_of(sides[1], [each for each in apart if each > gutter], 2 * column + 2)


def _crossing(rows: Sequence[TableRow], gutter: float) -> list[bool]:
    """Return which rows go across a gutter: those with words over it, and a table or picture with such a caption."""
    start, end = min(row[0].left for row in rows), max(row[-1].right for row in rows)
    crossing = [_crosses(row, gutter) for row in rows]
    texts = [" ".join(word.text for word in row) for row in rows]
    captions = [at for at, is_across in enumerate(crossing) if is_across and caption_of(f"{texts[at]} x")]
    for at in captions:
        last = next((n for n in range(at, len(rows)) if not crossing[n]), len(rows)) - 1
        for step, first in ((-1, at), (1, last)):
            place = first + step
            while 0 <= place < len(rows):
                one, other = _split_row(rows[place], gutter)
                is_end = not (one and other) and len(rows[place]) > 1 and len(_cells(rows[place])) == 1
                is_text = _is_text(one, gutter - start) or _is_text(other, end - gutter) or is_end
                if is_text and not crossing[place]:
                    break
                crossing[place] = True
                place += step
    whole: list[bool] = []
    for is_across, group in groupby(zip(crossing, rows, strict=True), key=lambda each: each[0]):
        parts = [_split_row(row, gutter) for _, row in group]
        is_band = len(parts) > 1 and all(any(part[side] for part in parts) for side in (0, 1))
        whole += [is_across or not is_band] * len(parts)
    return whole


def _split_row(row: TableRow, place: float) -> tuple[TableRow, TableRow]:
    return tuple(word for word in row if word.right <= place), tuple(word for word in row if word.right > place)


def _is_text(part: TableRow, width: float) -> bool:
    """Whether a part of a row is a line of running text, in columns of that width together."""
    cells = _cells(part)
    filled = sum(cell[-1].right - cell[0].left for cell in cells)
    return len(part) > 2 * len(cells) and filled > FILLED * width


def _crosses(row: TableRow, place: float) -> bool:
    """Whether a row runs over `place`: through a word, or with no more than a space around it."""
    for index, word in enumerate(row):
        if word.left < place < word.right:
            return True
        if word.left >= place:
            return index > 0 and word.left - row[index - 1].right < CLEAR * word.height
    return False


EDGE = 0.09
"""Share of a page's height at its top and bottom where running heads and page numbers stand."""
NUMBERED_SHARE = 0.6
"""Share of a page's lines that must begin with a line number before the numbers are taken away."""
PAGE_NUMBER = re.compile(r"(?:page\s+)?[ivxlc\d]+(?:\s*(?:of|/)\s*\d+)?", re.I)


@dataclass(frozen=True)
class PageLines:
    """The lines of one page in reading order; `number` counts from 1, width and height in points.

    `turn` counts the quarter turns with the clock from the page as it is read to the page as it is shown.
    """

    number: int
    width: float
    height: float
    lines: tuple[TextLine, ...]
    turn: int = 0

    def box(self, lines: Sequence[TextLine]) -> Box:
        """Return what encloses lines, as shares of the page: left, top, right, bottom, from the upper left corner."""
        left, right = min(line.left for line in lines) / self.width, max(line.right for line in lines) / self.width
        top, bottom = max(line.top for line in lines) / self.height, min(line.bottom for line in lines) / self.height
        left, top, right, bottom = (round(min(max(x, 0.0), 1.0), 4) for x in (left, 1 - top, right, 1 - bottom))
        for _ in range(self.turn):
            left, top, right, bottom = round(1 - bottom, 4), left, round(1 - top, 4), right
        return left, top, right, bottom


def without_furniture(pages: Sequence[PageLines]) -> list[PageLines]:
    """Return pages without running heads, page numbers and the numbers of manuscript lines."""
    pages = [_without_line_numbers(page) for page in pages]
    seen = Counter(mark for page in pages for mark in {mark_of(line) for line in page.lines if is_at_edge(line, page)})
    often = {mark for mark, count in seen.items() if count >= max(2, len(pages) / 3)}
    return [
        replace(
            page,
            lines=tuple(
                line
                for line in page.lines
                if not (is_at_edge(line, page) and (mark_of(line) in often or PAGE_NUMBER.fullmatch(line.text.strip())))
            ),
        )
        for page in pages
    ]


def _without_line_numbers(page: PageLines) -> PageLines:
    """Return a page without the numbers that journals print beside the lines of a manuscript."""
    is_number = [re.fullmatch(r"[0-9]{1,5}", line.words[0].text) is not None for line in page.lines]
    numbers = [int(line.words[0].text) for line, is_so in zip(page.lines, is_number, strict=True) if is_so]
    rising = sum(0 < b - a <= 5 for a, b in pairwise(numbers))
    if len(numbers) < NUMBERED_SHARE * len(page.lines) or rising < 0.8 * (len(numbers) - 1):
        return page
    kept = [replace(line, words=line.words[is_so:]) for line, is_so in zip(page.lines, is_number, strict=True)]
    return replace(page, lines=tuple(line for line in kept if line.words))


def is_at_edge(line: TextLine, page: PageLines) -> bool:
    if line.bottom > (1 - EDGE) * page.height or line.top < EDGE * page.height:
        return True
    return PAGE_NUMBER.fullmatch(line.text) is not None and line.bottom <= min(each.bottom for each in page.lines)


def mark_of(line: TextLine) -> str:
    """Return a line with its digits alike, so that "Page 3 of 9" is the same on every page."""
    return re.sub(r"\d+", "#", line.text.lower())


def body_height(pages: Sequence[PageLines]) -> float:
    """Return the height of lines of running text in points: the one that most characters have."""
    counts: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            counts[round(line.height * 2) / 2] += len(line.text)
    return counts.most_common(1)[0][0] if counts else 0.0


def join_lines(lines: Sequence[TextLine]) -> str:
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
