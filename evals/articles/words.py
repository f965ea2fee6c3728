"""The words of a PDF page with their places, as PDFium finds them. Knows nothing of lines or columns."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pypdfium2.raw as pdfium

HYPHENS = frozenset((0x02, 0xFFFE))
"""What PDFium gives for a hyphen at the end of a line."""
SOFT_HYPHEN = "\u00ad"
LIGATURES = {
    0xFB00: "ff",
    0xFB01: "fi",
    0xFB02: "fl",
    0xFB03: "ffi",
    0xFB04: "ffl",
    0xFB05: "st",
    0xFB06: "st",
}
STRAIGHT = 0.1
"""Radians; characters turned further belong to a stamp at the margin or to the axis of a plot."""
GAP = 0.18
"""Of the height: a wider gap between two characters parts words even without a space."""


@dataclass(frozen=True)
class Word:
    """A word and its box in points from the lower left corner of the page.

    `is_broken`: it ends with a hyphen that only the end of the line has put there, perhaps.
    """

    text: str
    left: float
    right: float
    bottom: float
    top: float
    is_bold: bool = False
    is_broken: bool = False

    @property
    def height(self) -> float:
        """The height of the line in points: close to the size of the font."""
        return self.top - self.bottom

    @property
    def middle(self) -> float:
        """The height in the middle of the word."""
        return (self.top + self.bottom) / 2


@dataclass(frozen=True)
class _Character:
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
    for character in _characters(text_page):
        if character is None:
            _finish(text_page, current, words)
        else:
            if current and _is_apart(current[-1], character):
                _finish(text_page, current, words)
            current.append(character)
    _finish(text_page, current, words)
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
        if _is_turned(pdfium.FPDFText_GetCharAngle(text_page, index)):
            yield None
            continue
        yield _Character(index, text, box.left, box.right, box.bottom, box.top)


def _is_turned(angle: float) -> bool:
    """Whether a character's angle (radians, -1 where it is not known) is not that of a level line."""
    return angle > STRAIGHT and abs(angle - 2 * 3.141592653589793) > STRAIGHT


def _is_apart(one: _Character, other: _Character) -> bool:
    """Whether `other` begins a new word: on another line, to the left, or beyond a gap."""
    height = max(one.top - one.bottom, 1.0)
    is_on_line = min(one.top, other.top) > max(one.bottom, other.bottom)
    gap = other.left - one.right
    return not is_on_line or gap > GAP * height or gap < -height


def _finish(text_page: Any, current: list[_Character], words: list[Word]) -> None:
    """Make a word of the characters collected so far."""
    if not current:
        return
    text = "".join(each.text for each in current)
    is_broken = text.endswith((SOFT_HYPHEN, "-", "\u2010"))
    words.append(
        Word(
            text=text.replace(SOFT_HYPHEN, "-"),
            left=min(each.left for each in current),
            right=max(each.right for each in current),
            bottom=min(each.bottom for each in current),
            top=max(each.top for each in current),
            is_bold=_is_bold(text_page, current[0].index),
            is_broken=is_broken and len(text) > 1,
        )
    )
    current.clear()


def _is_bold(text_page: Any, index: int) -> bool:
    """Whether the font of a character calls itself bold."""
    size = 128
    name = ctypes.create_string_buffer(size)
    flags = ctypes.c_int()
    length = pdfium.FPDFText_GetFontInfo(text_page, index, name, size, ctypes.byref(flags))
    called = name.raw[: max(0, min(length, size) - 1)].decode("utf-8", "replace").lower()
    return any(mark in called for mark in ("bold", "black", "heavy", "semibold", "-bd"))
