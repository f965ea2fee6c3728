"""PDF to a paper: PDFium reads the words, our own code the columns, paragraphs and sections."""

import ctypes
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise
from math import pi
from statistics import median
from typing import TYPE_CHECKING, Any

import pypdfium2
import pypdfium2.raw as pdfium

from evals.errors import UnreadableArticle
from evals.papers.outline import NUMBER, Block, Outline, caption_of, outline_of, plain_name, role_of
from evals.papers.text import ABSTRACT, LONGEST_HEADING, FileLimits, heading_level, tidy
from evals.schema.articles import Box, PageStart
from evals.worker import Send, read_apart

if TYPE_CHECKING:
    from PIL.Image import Image

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
TINY = 0.002
"""Of the page's height: smaller words cannot be seen."""
FAINT, CONTRAST = 200, 20
"""Of 255: text with a lighter fill may not be seen; it is seen if its place on the page has so much of a contrast."""
LOST = re.compile("[\0\3-\10\16-\37\ufffd\ue000-\uefff\uf100-\uf8e5]")
"""Signs without a letter in the file; those of Adobe's Symbol that only build large brackets are none."""


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


def words_of(text_page: Any) -> list[Word]:
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


Row = tuple[Word, ...]


def _cells(row: Sequence[Word]) -> list[list[Word]]:
    cells: list[list[Word]] = []
    for word in row:
        if cells and word.left - cells[-1][-1].right <= CELL * word.height:
            cells[-1].append(word)
        else:
            cells.append([word])
    return cells


def rows_of(words: Sequence[Word]) -> list[Row]:
    """Return the words of a page by rows from top to bottom, each from left to right over all columns.

    Words that follow each other in the file without a gap stay together.
    """
    pieces: list[list[Word]] = []
    for word in words:
        last = pieces[-1][-1] if pieces else None
        if last and _on_line(last, word) > 0.5 and -word.height < word.left - last.right < CLEAR * word.height:
            pieces[-1].append(word)
        else:
            pieces.append([word])
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
    return [tuple(sorted(row, key=lambda each: each.left)) for row in rows]


def _on_line(one: Word, other: Word) -> float:
    """Return how much of the lower of two words stands on the line of the other, as a share."""
    return (min(one.top, other.top) - max(one.bottom, other.bottom)) / max(min(one.height, other.height), 0.1)


def gutters_of(rows: Sequence[Row]) -> list[float]:
    """Return where running text stands to the left and right of a clear strip (points), the longest strips first."""
    if len(rows) < FEWEST_LINES:
        return []
    start, end = min(row[0].left for row in rows), max(row[-1].right for row in rows)
    strips: list[list[tuple[int, float]]] = []
    count = max(0, int((end - start - 2 * NARROWEST_COLUMN) / STEP) + 1)
    for place in (start + NARROWEST_COLUMN + STEP * step for step in range(count)):
        best = run = left = right = 0
        for row in rows:
            if _crosses(row, place):
                run = left = right = 0
                continue
            one, other = _parted(row, place)
            is_left, is_right = _is_text(one, place - start), _is_text(other, end - place)
            left, right, run = left + is_left, right + is_right, run + (is_left or is_right)
            if min(left, right) >= FEWEST_LINES // 2:
                best = max(best, run)
        if best < FEWEST_LINES:
            continue
        if strips and place - strips[-1][-1][1] <= STEP * 1.5:
            strips[-1].append((best, place))
        else:
            strips.append([(best, place)])
    wide = sorted((strip for strip in strips if len(strip) > 1), key=lambda strip: -max(strip)[0])
    return [median(place for best, place in strip if best == max(strip)[0]) for strip in wide]


def _gutters(pages: Sequence[Sequence[Row]]) -> list[list[float]]:
    """Return the gutters of each page: its own, and those that a good part of the pages have, the commonest first."""
    own = [gutters_of(rows) for rows in pages]
    common: list[list[float]] = []
    for place in sorted(place for places in own for place in places):
        if common and place - common[-1][-1] < 4 * STEP:
            common[-1].append(place)
        else:
            common.append([place])
    common.sort(key=len, reverse=True)

    def of_page(places: Sequence[float]) -> Iterator[float]:
        for group in common:
            near = [place for place in places if group[0] <= place <= group[-1]]
            if near or len(group) > 0.15 * len(pages):
                yield median(near or group)

    return [list(of_page(places)) for places in own]


def _columns(rows: Sequence[Row], gutters: Sequence[float], column: int) -> Iterator[tuple[Row, int]]:
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
        sides = [tuple(part for row in band if (part := _parted(row, gutter)[side])) for side in (0, 1)]
        if is_across:
            yield from _columns(band, others, column)
            continue
        apart = [each for each in others if abs(each - gutter) > NARROWEST_COLUMN]
        yield from _columns(sides[0], [each for each in apart if each < gutter], 2 * column + 1)
        yield from _columns(sides[1], [each for each in apart if each > gutter], 2 * column + 2)


def _crossing(rows: Sequence[Row], gutter: float) -> list[bool]:
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
                one, other = _parted(rows[place], gutter)
                is_end = not (one and other) and len(rows[place]) > 1 and len(_cells(rows[place])) == 1
                is_text = _is_text(one, gutter - start) or _is_text(other, end - gutter) or is_end
                if is_text and not crossing[place]:
                    break
                crossing[place] = True
                place += step
    whole: list[bool] = []
    for is_across, group in groupby(zip(crossing, rows, strict=True), key=lambda each: each[0]):
        parts = [_parted(row, gutter) for _, row in group]
        is_band = len(parts) > 1 and all(any(part[side] for part in parts) for side in (0, 1))
        whole += [is_across or not is_band] * len(parts)
    return whole


def _parted(row: Row, place: float) -> tuple[Row, Row]:
    return tuple(word for word in row if word.right <= place), tuple(word for word in row if word.right > place)


def _is_text(part: Row, width: float) -> bool:
    """Whether a part of a row is a line of running text, in columns of that width together."""
    cells = _cells(part)
    filled = sum(cell[-1].right - cell[0].left for cell in cells)
    return len(part) > 2 * len(cells) and filled > FILLED * width


def _crosses(row: Row, place: float) -> bool:
    """Whether a row runs over `place`: through a word, or with no more than a space around it."""
    for index, word in enumerate(row):
        if word.left < place < word.right:
            return True
        if word.left >= place:
            return index > 0 and word.left - row[index - 1].right < CLEAR * word.height
    return False


EDGE = 0.09
"""Share of a page's height at its top and bottom where running heads and page numbers stand."""
LARGER = 1.12
"""A heading's font is so many times that of the text."""
WIDE = 1.45
"""A gap of so many usual line distances parts paragraphs."""
INDENT = 0.7
"""Of a line's height: a line that begins so much further to the right begins a paragraph."""
SHORT = 0.25
"""Of a line: one that ends so far before the next ends a paragraph."""
NUMBERED_SHARE = 0.6
"""Share of a page's lines that must begin with a line number before the numbers are taken away."""


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


def title_of(pages: Sequence[PageLines], body: float, heads: str, told: str) -> tuple[str, list[PageLines]]:
    """Return the title and the pages without it.

    It is what the file says (`told`), if page 1 has lines with these words; else the largest lines one below the
    other in the upper part of page 1. What a publisher prints above it (the name of the journal, the kind of article),
    names and addresses are no title. Where headings are as large as the title, it ends at the first that names a
    section, as Abstract does.
    """
    first = pages[0]
    if title := _told_title(first.lines, told):
        rest = tuple(line for line in first.lines if line not in title)
        printed = tidy(_joined(title))
        return printed if _letters(printed) == _letters(told) else tidy(told), [replace(first, lines=rest), *pages[1:]]
    groups: list[list[TextLine]] = []
    for line in first.lines:
        if line.bottom < 0.4 * first.height or line.height <= LARGER * body or len(line.text) <= 3:
            continue
        role = role_of(line.text)
        is_section = role == "abstract" or (role != "other" and HEADED.match(line.text) is not None)
        if is_section or PUBLISHERS.search(line.text) or _mark(line) in heads or _is_names(line.text):
            continue
        last = groups[-1][-1] if groups else None
        is_as_large = last is not None and abs(last.height - line.height) < 0.1 * line.height
        if last and is_as_large and 0 < last.bottom - line.bottom < 2.5 * line.height:
            groups[-1].append(line)
        else:
            groups.append([line])
    if not groups:
        return "", list(pages)
    most = max(group[0].height for group in groups)
    phrases = [group for group in groups if group[0].height > 0.7 * most and len(_joined(group).split()) > 2]
    large = phrases[0] if phrases else max(groups, key=lambda group: group[0].height)
    # a heading, and not a title that begins with such a word
    names = [role_of(line.text) != "other" and len(plain_name(line.text).split()) <= 3 for line in large]
    title = large[: names.index(True, 1) if True in names[1:] else None]
    rest = tuple(line for line in first.lines if line not in title)
    kept = (tuple(word for word in line.words if word.height > 0.8 * large[0].height) for line in title)
    return tidy(_joined([TextLine(words) for words in kept if words])), [replace(first, lines=rest), *pages[1:]]


def _told_title(lines: Sequence[TextLine], told: str) -> Sequence[TextLine]:
    """Return the lines of page 1 that are the title which the file gives itself, none where no lines are."""
    wanted = _letters(told)
    if len(told.split()) < 3 or PUBLISHERS.search(told):
        return ()
    for at in range(len(lines)):
        for end in range(at + 1, min(at + 7, len(lines) + 1)):
            found = _letters(_joined(lines[at:end]))
            if found.startswith(wanted) and len(wanted) > 0.8 * len(found):
                return lines[at:end]
            if not wanted.startswith(found):
                break
    return ()


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text).lower())


def _is_names(text: str) -> bool:
    """Whether a line lists people: pieces of two to four words with capitals, marked as notes are or with initials."""
    names = re.split(r"\s*(?:,|;|&|\band\b)\s*", re.sub(r"[\d†‡§¶*∗□⋄⋆,\s]+(?=,|;|$|\band\b)", "", text))
    people = [name for name in names if re.fullmatch(r"(?:[A-Z][\w.’'-]*\s?){2,4}", name)]
    is_marked = re.search(r"[†‡§¶*∗□⋄⋆]|[a-z]\d|\b[A-Z]\.", text) is not None
    return is_marked and len(people) > 0.5 * len(names)


def blocks_of(pages: Sequence[PageLines], body: float) -> list[Block]:
    """Return headings, paragraphs, tables and references; a paragraph that a column or page cuts in two is whole."""
    lines, contents = _tables([line for page in pages for line in page.lines])
    unnamed = _unnamed_list(lines)
    groups = _groups([line for line in lines if line not in unnamed], body)
    tops, has_names, has_roman = _styles(groups), False, False
    is_named = any(role_of(group[0].text) in ("abstract", "introduction") for group in groups if len(group) == 1)
    blocks: list[Block] = []
    listed: list[TextLine] = []
    opened: TextLine | None = None  # the heading of the list of references, while its entries follow
    running: dict[float, int] = {}  # the last paragraph by the height of its lines, which may go on behind a picture
    for at, group in enumerate(groups):
        page, height = group[0].page, round(group[0].height)
        text = tidy(_joined(group))
        start = PageStart(at=0, page=page, box=pages[page - 1].box(group))
        level = (_level(text, group, body, tops) if _precedes_text(groups, at, body) else None) or _plain_level(
            groups, at, body
        )
        opening = ABSTRACT.match(text)
        has_names = has_names or (level is not None and role_of(text) != "other") or opening is not None
        if (is_named and not has_names and page <= 2) or (opened and not _ends_list(group, text, opened, listed)):
            level = None  # names of authors and places; names of books
        figure = caption_of(text, page)
        if level is None and opened and figure is None:
            listed += group
            continue
        if level is not None:
            has_roman = has_roman or ROMAN.match(text) is not None
            if has_roman and not listed and LETTERED.match(text):
                level += 1
            blocks += [Block("paragraph", each) for each in _references(listed)]
            listed, opened, running = [], group[0] if role_of(text) == "references" else None, {}
            blocks.append(Block("heading", plain_name(LETTERED.sub("", text)), level, page, starts=(start,)))
        elif opening:
            running = {height: len(blocks) + 1}
            blocks.append(Block("heading", "Abstract", 1, page))
            rest = text[opening.end() :]
            blocks.append(Block("paragraph", rest, page=page, starts=(start,)))
        elif figure is not None:
            content = contents.get(group[0], "")
            blocks.append(Block("figure", "", page=page, figure=figure.model_copy(update={"content": content})))
        elif height in running and _goes_on((last := blocks[running[height]]).text, text) and text[:1].islower():
            whole = last.text[:-1] + text if last.text.endswith("-") else f"{last.text} {text}"
            moved = start.model_copy(update={"at": len(whole) - len(text)})
            blocks[running[height]] = replace(last, text=whole, starts=(*last.starts, moved))
        elif text:
            running[height] = len(blocks)
            blocks.append(Block("paragraph", text, page=page, starts=(start,)))
    if unnamed:
        blocks.append(Block("heading", "References"))
        listed = unnamed
    return [*blocks, *(Block("paragraph", each) for each in _references(listed))]


def _ends_list(group: Sequence[TextLine], text: str, opened: TextLine, listed: Sequence[TextLine]) -> bool:
    """Whether a group below references is a heading like theirs: as large and bold, or in capitals, or all of a name."""
    line, entry = group[0], listed[0] if listed else None
    is_alike = line.height > 0.93 * opened.height and line.is_bold >= opened.is_bold
    if entry is None or opened.height > 1.07 * entry.height or opened.is_bold > entry.is_bold:
        return is_alike
    is_name = role_of(text) != "other" and len(plain_name(text).split()) <= 3
    return is_alike and text.isupper() == opened.text.isupper() and (is_name or text.isupper())


def _unnamed_list(lines: Sequence[TextLine]) -> list[TextLine]:
    """Return the references that end a paper without a heading: five numbered ones or more, in type of one size."""
    if any(role_of(line.text) == "references" for line in lines):
        return []
    firsts = [at for at, line in enumerate(lines) if re.match(r"\[1\]|\(1\)|1\.", line.text)]
    for first in reversed(firsts):
        listed = [line for line in lines[first:] if abs(line.height - lines[first].height) < 0.07 * line.height]
        entries = _references(listed)
        dated = sum(re.search(r"(?:19|20)\d\d", entry) is not None for entry in entries)
        if len(entries) >= 5 and dated > 0.7 * len(entries):
            return listed
    return []


def _tables(lines: Sequence[TextLine]) -> tuple[list[TextLine], dict[TextLine, str]]:
    """Return the lines without the rows of tables, and those rows by the first line of their caption."""
    taken: set[int] = set()
    contents: dict[TextLine, str] = {}
    for at, line in enumerate(lines):
        figure = caption_of(line.text + " x")
        if figure is None or figure.kind != "table":
            continue
        for step, first in ((1, at + 1), (-1, at - 1)):
            place, rows = first, list[int]()
            while 0 <= place < len(lines) and lines[place].page == line.page and place not in taken:
                if len(lines[place].cells) > 1:
                    rows.append(place)
                elif (rows or step < 0 or place - at > 4) and len(rows) <= 3 * (abs(place - first) - len(rows)):
                    break
                place += step
            if len(rows) >= 2:
                whole = range(min(rows), max(rows) + 1)
                taken.update(whole if step < 0 else set(whole) - set(range(at, min(rows))))
                contents[line] = "\n".join(" | ".join(lines[n].cells) for n in sorted(whole))
                break
    return [line for at, line in enumerate(lines) if at not in taken], contents


Style = tuple[float, bool, bool]


def _style_of(line: TextLine) -> Style:
    return round(line.height * 2) / 2, line.is_bold, line.is_italic


def _styles(groups: Sequence[Sequence[TextLine]]) -> frozenset[Style]:
    """Return the styles in which the paper prints the headings whose names tell a section."""
    named = (group[0] for group in groups if len(group) == 1 and _heading(group[0].text) == 1)
    return frozenset(
        _style_of(line) for line in named if role_of(line.text) not in ("other", "supplement", "statement")
    )


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


def _edges(lines: Sequence[TextLine]) -> dict[tuple[int, int], float]:
    """Return where the lines of each page and column begin, at the left."""
    edges: dict[tuple[int, int], float] = {}
    for line in lines:
        edges[line.page, line.column] = min(line.left, edges.get((line.page, line.column), line.left))
    return edges


def _begins(group: Sequence[TextLine], new: TextLine, usual: float) -> bool:
    """Whether a line begins a paragraph: by its place to the lines of the group before it, by its font or words."""
    last = group[-1]
    if (last.page, last.column) != (new.page, new.column) or new.bottom > last.top:
        return True
    if last.bottom - new.bottom > WIDE * usual or caption_of(new.text) is not None:
        return True
    is_marked = last.is_bold or last.is_italic or (last.text.isupper() and new.text.isupper())
    is_same = _style_of(last) == _style_of(new) and is_marked
    if is_same and HEADED.match(last.text) and not HEADED.match(new.text):
        return False
    if (_heading(last.text) is not None and not (_goes_on(last.text, new.text) and len(last.text.split()) > 3)) or (
        last.is_bold != new.is_bold and len(last.text.split()) <= LONGEST_HEADING and len(group) <= 3
    ):
        return True
    if _goes_on(last.text, new.text) and abs(last.height - new.height) < 0.35 * last.height:
        return False
    return (
        (is_marked and HEADED.match(last.text) is not None)
        or (_style_of(last) != _style_of(new) and (new.is_bold or new.is_italic) and HEADED.match(new.text) is not None)
        or abs(last.height - new.height) > 0.12 * last.height
        or new.left - min(each.left for each in group) > INDENT * new.height
        or new.right - last.right > SHORT * (new.right - new.left)
    )


def _goes_on(last: str, new: str) -> bool:
    """Whether a line goes on amid the sentence of the one before it."""
    return last.endswith(("-", ",")) or (last[-1:].isalnum() and new[:1].islower())


HEADED = re.compile(r"(?:(?:\d+|[A-H])(?:\.\d+)*\.?|[IVX]+\.)\s+(?=[A-Z(])")
ROMAN = re.compile(r"[IVX]+\.\s+(?=[A-Z])")
LETTERED = re.compile(r"^(?:Appendix\s+)?(?P<number>[A-H](?:\.\d+)*)[.:]?\s+(?=[A-Z])")
PUBLISHERS = re.compile(
    r"^(?:accepted manuscript|(?:original|research|review)? ?(?:article|research)$|contents lists|open access|preprint)"
    r"|ournal of|^proceedings of|^transactions on|@|https?:|www\.|\bdoi\b|\bISSN\b|\bvol(?:ume|\.) ?\d",
    re.I,
)
"""What stands above a title and below it; small capitals part the J of a journal from the rest."""


def _precedes_text(groups: Sequence[Sequence[TextLine]], at: int, body: float) -> bool:
    """Whether running text stands below a group, perhaps after more headings.

    Below the words of a picture it does not, nor below lines of a table of contents, which end with a page.
    """
    if all(re.search(r"[^\d.] ?\d+$", group[-1].text) for group in groups[at : at + 2]):
        return False
    for group in groups[at + 1 : at + 4]:
        if abs(group[0].height - body) < 0.07 * body and len(" ".join(line.text for line in group).split()) > 8:
            return True
    return at + 1 >= len(groups) or role_of(groups[at][0].text) != "other"


def _heading(text: str) -> int | None:
    """Return the level of a line that is a heading by its words alone."""
    level = heading_level(text)
    is_so = role_of(text) != "other" or text[:1].isdigit() or (ROMAN.match(text) and text.isupper())
    return level if level is not None and is_so else None


def _level(text: str, group: Sequence[TextLine], body: float, tops: frozenset[Style]) -> int | None:
    """Return the level of a heading, told by its font or words; None for a paragraph.

    Letters of a chart and equations are none: a heading is made of words.
    """
    words = NUMBER.sub("", text)
    is_words = sum(map(str.isalpha, words)) > 0.6 * len(words.replace(" ", "")) and re.search(r"[^\W\d_]{3}", text)
    if not is_words or len(text.split()) > LONGEST_HEADING or text.endswith((".", ",", ";", ":")):
        return None
    is_sentence = re.search(r"[a-z]\.\s+[A-Z]", text) or caption_of(text)
    if is_sentence or any(
        len(each.cells) > 1 + bool(HEADED.match(each.text) or LETTERED.match(each.text)) for each in group
    ):
        return None
    line, by_words = group[0], heading_level(text)
    is_marked = line.height > LARGER * body or all(each.is_bold for each in group) or all(e.is_italic for e in group)
    if role_of(text) != "other" and by_words is not None and (is_marked or len(text.split()) <= 5):
        return 2 if not (text[:1].isdigit() or _style_of(line) in tops) and by_words == 1 and is_marked else by_words
    if ROMAN.match(text) and (text.isupper() or is_marked):
        return 1
    if lettered := LETTERED.match(text):
        return lettered["number"].count(".") + 1 if is_marked else None
    if HEADED.match(text) and by_words is not None and (is_marked or by_words > 1):
        return by_words
    if not text[:1].isupper() or len(group) > 3:
        return None
    if _style_of(line) in tops and is_marked:
        return 1
    return 2 if line.height > LARGER * body or all(each.is_bold for each in group) else None


def _plain_level(groups: Sequence[Sequence[TextLine]], at: int, body: float) -> int | None:
    """Return 2 for a short line in the font of the text that stands alone above a paragraph; None for anything else."""
    group, after = groups[at], groups[at + 1] if at + 1 < len(groups) else ()
    line, words = group[0], group[0].text.split()
    is_alone = len(group) == 1 and len(words) <= 6 and line.text[0].isupper() and line.text[-1].isalpha()
    if not is_alone or not after or abs(line.height - body) > 0.05 * body or len(line.cells) > 1:
        return None
    follows = (line.page, line.column) == (after[0].page, after[0].column)
    is_text = (
        len(after) > 2 - (len(words) < 2) and abs(after[0].height - body) < 0.05 * body and after[0].text[0].isupper()
    )
    is_words = (
        all(word.isalpha() for word in words)
        and at > 0
        and (groups[at - 1][-1].text.endswith((".", ")")) or _heading(groups[at - 1][-1].text) is not None)
    )
    near = 0 < line.bottom - after[0].bottom < 2.2 * line.height
    return 2 if follows and is_text and is_words and near and not line.is_italic else None


NUMBERED_ENTRY = re.compile(r"[\[(]?(?P<number>\d{1,3})[\]).]\s*(?=\S)")


def _references(lines: Sequence[TextLine]) -> list[str]:
    """Return the entries of a list of references: told by rising numbers, else by lines that hang out, else by gaps."""
    starts: list[int] = []
    for at, line in enumerate(lines):
        number = NUMBERED_ENTRY.match(line.text)
        if number and int(number["number"]) == len(starts) + 1:
            starts.append(at)
    if len(starts) < 3:
        edges = _edges(lines)
        hanging = [line.left - edges[line.page, line.column] < 0.4 * line.height for line in lines]
        if 0.1 < sum(hanging) / max(len(lines), 1) < 0.75:
            starts = [at for at, hangs in enumerate(hanging) if hangs]
        else:
            starts = [at for at in range(len(lines)) if at == 0 or _parts(lines[at - 1], lines[at])]
    starts = [0, *starts] if lines and (not starts or starts[0] > 0) else starts
    return [tidy(_joined(lines[one:other])) for one, other in pairwise([*starts, len(lines)])]


def _parts(last: TextLine, new: TextLine) -> bool:
    """Whether an entry of a list ends with a full stop and the next begins with a name and initials."""
    return (
        last.text.endswith((".", "/"))
        and re.match(r"[^\W\d_a-z][\w’'-]+,? (?:[A-Z]\.|[A-Z]{1,3}\b|[A-Z]\w+)|(?:[A-Z]\. ?)+[A-Z]\w", new.text)
        is not None
    )


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
    if line.bottom > (1 - EDGE) * page.height or line.top < EDGE * page.height:
        return True
    return PAGE_NUMBER.fullmatch(line.text) is not None and line.bottom <= min(each.bottom for each in page.lines)


def _mark(line: TextLine) -> str:
    """Return a line with its digits alike, so that "Page 3 of 9" is the same on every page."""
    return re.sub(r"\d+", "#", line.text.lower())


PAGE_NUMBER = re.compile(r"(?:page\s+)?[ivxlc\d]+(?:\s*(?:of|/)\s*\d+)?", re.I)
FEWEST_WORDS = 12
"""A page with fewer words is a picture, a scan or a divider."""
LONGEST_ABSTRACT = 3000
"""Characters; a longer one has swallowed what stands below it."""
MOST_CHARACTERS = 200_000
"""Of a page; a full one of a journal has some 8,000."""


@dataclass(frozen=True)
class PageWords:
    """The rows of a page as it is read upright, and what was left out of them: hidden words, how many turned ones."""

    rows: list[Row]
    width: float
    height: float
    turn: int
    hidden: str
    turned: int
    lost: int


def page_words(page: Any, called: str) -> PageWords:
    """Return what stands on a PDFium page, turned as most of its words are; UnreadableArticle for too many letters."""
    left, bottom, right, top = page.get_cropbox()
    width, height = right - left, top - bottom
    with closing(page.get_textpage()) as text_page:
        if (count := text_page.count_chars()) > MOST_CHARACTERS:
            raise UnreadableArticle(
                f"{called} has {count:,} characters; up to {MOST_CHARACTERS:,} are read. Give the article without its"
                " data, or export it to PDF again."
            )
        words = [
            replace(w, left=w.left - left, right=w.right - left, bottom=w.bottom - bottom, top=w.top - bottom)
            for w in words_of(text_page)
        ]
        lost = len(LOST.findall(text_page.get_text_range(errors="replace")))
    hidden = _hidden(page, words, width, height)
    seen = [word for word in words if word not in hidden]
    quarters = Counter(word.quarter for word in seen if word.quarter is not None)
    quarter = quarters.most_common(1)[0][0] if quarters else 0
    kept = [word for word in seen if word.quarter == quarter]
    for _ in range(-quarter % 4):
        kept = [replace(w, left=w.bottom, right=w.top, bottom=width - w.right, top=width - w.left) for w in kept]
        width, height = height, width
    turn = (page.get_rotation() // 90 + quarter) % 4
    quote = " ".join(word.text for word in words if word in hidden)
    return PageWords(rows_of(kept), width, height, turn, quote, len(seen) - len(kept), lost)


def _hidden(page: Any, words: Sequence[Word], width: float, height: float) -> set[Word]:
    """Return the words that nobody sees: tiny, beside the page, in its colour, or not drawn.

    Where most words are not drawn, they are the layer that text recognition puts over a scan: those over a picture
    stay.
    """
    hidden = {
        word
        for word in words
        if word.height < TINY * height or not (word.right > 0 and word.left < width and 0 < word.top < height * 1.02)
    }
    doubtful = [word for word in words if word.is_faint or not word.is_drawn]
    if not doubtful:
        return hidden
    is_layer = sum(not word.is_drawn for word in words) > len(words) / 2
    shown = page.render(scale=1, grayscale=True, rotation=-page.get_rotation() % 360).to_pil()
    for word in doubtful:
        margin = word.height / 4 if word.is_drawn else -word.height / 2  # recognised words are not quite in place
        place = (word.left, height - word.top + margin, word.right + 1, height - word.bottom - margin + 1)
        lowest, highest = shown.crop(tuple(map(int, place))).getextrema()
        if highest - lowest < CONTRAST or not (word.is_drawn or is_layer):
            hidden.add(word)
    return hidden


def read_pdf(
    data: bytes, name: str, limits: FileLimits, progress: Callable[[int, int], None] | None = None
) -> tuple[Outline, int, tuple[str, ...]]:
    """Return what stands in a PDF, how many pages it has, and notes on what could not be read, by page.

    `progress` is told pages done and in all. UnreadableArticle for a file that is broken, locked with a
    password, too long, or a scan.
    """
    read, told = _pages(data, name, limits, progress)
    empty = [n for n, page in enumerate(read, start=1) if sum(map(len, page.rows)) < FEWEST_WORDS]
    if len(empty) > len(read) / 2:
        raise UnreadableArticle(
            f"{name} holds hardly any text: {len(empty)} of {len(read)} pages have fewer than {FEWEST_WORDS} words,"
            " as in a scan. Recognise the text first (`ocrmypdf in.pdf out.pdf`), or give the publisher's PDF or XML."
        )
    gutters = _gutters([page.rows for page in read])
    found = [
        PageLines(n, page.width, page.height, tuple(TextLine(*e, n) for e in _columns(page.rows, places, 0)), page.turn)
        for n, (page, places) in enumerate(zip(read, gutters, strict=True), start=1)
    ]
    pages = without_furniture(found)
    body = body_height(pages)
    heads = "\n".join(_mark(line) for page in found[1:] for line in page.lines if _is_at_edge(line, page))
    title, pages = title_of(pages, body, heads, told)
    outline = outline_of(blocks_of(pages, body), title)
    hidden: dict[str, list[int]] = {}  # the pages by what is hidden on them, page numbers in it aside
    for n, page in enumerate(read, start=1):
        if re.search(r"\w{3}", page.hidden):
            hidden.setdefault(re.sub(r"\d+", "#", page.hidden), []).append(n)
    notes = [
        *(
            f"hidden text on page{'s' if ns[1:] else ''} {', '.join(map(str, ns))} was left out:"
            f" “{read[ns[0] - 1].hidden[:200]}”"
            for ns in hidden.values()
        ),
        _note(read, lambda page: page.turned >= FEWEST_WORDS, "turned text was left out on"),
        _note(read, lambda page: page.lost, "letters without a name in the file are missing or wrong on"),
        _note(read, lambda page: sum(map(len, page.rows)) < FEWEST_WORDS, "hardly any text was found on"),
    ]
    if len(outline.abstract) > LONGEST_ABSTRACT:
        notes.append(f"the abstract may be wrong: it has {len(outline.abstract):,} characters")
    return outline, len(found), tuple(filter(None, notes))


def _note(read: Sequence[PageWords], is_so: Callable[[PageWords], object], what: str) -> str:
    """Return a sentence that names the pages of which something is so; "" if there is none."""
    pages = [str(n) for n, page in enumerate(read, start=1) if is_so(page)]
    shown = ", ".join(pages[:10]) + (" …" if len(pages) > 10 else "")
    return f"{what} {len(pages)} of {len(read)} pages ({shown})" if pages else ""


def picture(data: bytes, number: int, scale: float) -> "Image":
    """Return a page (from 1) as a picture with so many pixels per point; UnreadableArticle if it is not there."""
    (drawn,) = read_apart(_draw, data, number, scale, what=lambda: f"page {number}", error=UnreadableArticle)
    return drawn


def _draw(send: Send, data: bytes, number: int, scale: float) -> None:
    try:
        with closing(pypdfium2.PdfDocument(data)) as document, closing(document[number - 1]) as page:
            send(page.render(scale=scale).to_pil())
    except (pypdfium2.PdfiumError, IndexError) as error:
        raise UnreadableArticle(f"page {number} cannot be drawn ({error}); drop the file again.") from None


def _pages(
    data: bytes, name: str, limits: FileLimits, progress: Callable[[int, int], None] | None
) -> tuple[list[PageWords], str]:
    """Return the pages of a PDF and the title that it gives itself."""
    try:
        with closing(pypdfium2.PdfDocument(data)) as document:
            count = len(document)
            limits.check_pages(count, name)
            if not count:
                raise pypdfium2.PdfiumError("it has no pages")
            read: list[PageWords] = []
            for number in range(count):
                with closing(document[number]) as page:
                    read.append(page_words(page, f"page {number + 1} of {name}"))
                if progress is not None:
                    progress(number + 1, count)
            return read, document.get_metadata_value("Title")
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
