"""Words of a page to lines in the order of reading: down each column, across what spans them.

A gutter is a strip that almost no word crosses although lines stand on both sides of it. Words of a
page in one column cross every strip in most lines, so the two cases are far apart. Gutters are
looked for again inside each column, which finds three.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from evals.articles.words import Word

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
class Line:
    """Words on one line of one column, from left to right. `column` counts from 0 on each page."""

    words: tuple[Word, ...]
    column: int = 0

    @property
    def text(self) -> str:
        """The words with spaces between."""
        return " ".join(word.text for word in self.words)

    @property
    def left(self) -> float:
        """Where the line begins, points from the left."""
        return self.words[0].left

    @property
    def right(self) -> float:
        """Where the line ends."""
        return self.words[-1].right

    @property
    def top(self) -> float:
        """Its upper edge, points from the bottom of the page."""
        return max(word.top for word in self.words)

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return min(word.bottom for word in self.words)

    @property
    def height(self) -> float:
        """The height of most of its words."""
        return median(word.height for word in self.words)

    @property
    def is_bold(self) -> bool:
        """Whether most of its letters are bold."""
        bold = sum(len(word.text) for word in self.words if word.is_bold)
        return 2 * bold > sum(len(word.text) for word in self.words)


def reading_order(words: Sequence[Word]) -> list[Line]:
    """Return the lines of a page as they are read.

    A line across a gutter ends the columns above it: they are read before it, from left to right.
    """
    return _ordered(_rows(words), column=0)


def _rows(words: Sequence[Word]) -> list[tuple[Word, ...]]:
    """Return words grouped by height on the page, from top to bottom, each group from left to right."""
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda each: (-each.middle, each.left)):
        row = next((row for row in rows[-3:] if _is_beside(row[0], word)), None)
        if row is None:
            rows.append([word])
        else:
            row.append(word)
    return [tuple(sorted(row, key=lambda each: each.left)) for row in rows]


def _is_beside(one: Word, other: Word) -> bool:
    """Whether two words stand on one line; a raised or lowered figure does."""
    shared = min(one.top, other.top) - max(one.bottom, other.bottom)
    return shared > 0.5 * min(one.height, other.height)


def _ordered(rows: Sequence[tuple[Word, ...]], column: int) -> list[Line]:
    gutter = gutter_of(rows)
    if gutter is None:
        return [Line(row, column) for row in rows]
    ordered: list[Line] = []
    left: list[tuple[Word, ...]] = []
    right: list[tuple[Word, ...]] = []

    def flush() -> None:
        ordered.extend(_ordered(left, 2 * column + 1))
        ordered.extend(_ordered(right, 2 * column + 2))
        left.clear()
        right.clear()

    for row in rows:
        if _crosses(row, gutter):
            flush()
            ordered.append(Line(row, column))
            continue
        first = tuple(word for word in row if word.right <= gutter)
        second = tuple(word for word in row if word.right > gutter)
        if first:
            left.append(first)
        if second:
            right.append(second)
    flush()
    return ordered


def gutter_of(rows: Sequence[tuple[Word, ...]]) -> float | None:
    """Return the middle of the widest strip that parts two columns (points from the left), or None."""
    if len(rows) < FEWEST_LINES:
        return None
    start = min(row[0].left for row in rows) + NARROWEST_COLUMN
    end = max(row[-1].right for row in rows) - NARROWEST_COLUMN
    places = [start + STEP * step for step in range(max(0, int((end - start) / STEP) + 1))]
    free = [place for place in places if _is_free(rows, place)]
    strips: list[list[float]] = []
    for place in free:
        if strips and place - strips[-1][-1] <= STEP * 1.5:
            strips[-1].append(place)
        else:
            strips.append([place])
    wide = [strip for strip in strips if strip[-1] - strip[0] + STEP >= NARROWEST_GUTTER]
    if not wide:
        return None
    widest = max(wide, key=lambda strip: strip[-1] - strip[0])
    return (widest[0] + widest[-1]) / 2


def _is_free(rows: Sequence[tuple[Word, ...]], place: float) -> bool:
    """Whether hardly any row has a word at `place` and enough rows stand on each side of it."""
    crossed = on_left = on_right = 0
    for row in rows:
        if _crosses(row, place):
            crossed += 1
            if crossed > CROSSED * len(rows):
                return False
            continue
        on_left += row[0].right <= place
        on_right += row[-1].right > place
    least = EACH_SIDE * len(rows)
    return on_left >= least and on_right >= least


def _crosses(row: Sequence[Word], place: float) -> bool:
    """Whether a row runs over `place`: through a word, or with no more than a space around it."""
    for index, word in enumerate(row):
        if word.left < place < word.right:
            return True
        if word.left >= place:
            gap = word.left - row[index - 1].right if index else None
            return gap is not None and gap < 0.45 * word.height
    return False
