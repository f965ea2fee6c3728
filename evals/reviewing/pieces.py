"""A paper as a model reads it: whole where it fits, else in parts that overlap, shortened only beyond them.

Title and abstract head every part. Sections stand in the paper's own order under their own names, also
where names repeat; captions of figures are not given, because no picture is.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from evals.articles.roles import role_of
from evals.errors import BadConfig
from evals.reviewing.allocation import RANKS, allot
from evals.reviewing.budget import Counter
from evals.schema import Article

CUT = "[… shortened]"
"""Stands where the rest of a section was left out."""
GOES_ON = "(continued)"
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(\"“])|\n+")
HEADING = 12
"""Tokens set aside for a section's heading and what parts it from the one before."""
LONGEST = 120
"""Tokens of a piece of a sentence; a text without a full stop is divided between words."""
LEAST = 32
SLACK = 0.97
"""A try that turns out too long, because tokens join across pieces, is made again with so much room."""


@dataclass(frozen=True)
class Piece:
    """The text of a part (from 1) of a paper, its tokens, and the tokens of the paper that no part has."""

    text: str
    part: int
    parts: int
    tokens: int
    lost: int
    whole: int
    """Tokens of the whole paper, before anything was left out."""


@dataclass(frozen=True)
class Unit:
    """A sentence of a section with its tokens; `section` counts from 0."""

    section: int
    text: str
    tokens: int
    is_paragraph_start: bool


def pieces_of(
    article: Article, room: int, counter: Counter, overlap: int, max_parts: int
) -> list[Piece]:
    """Return a paper in parts of at most `room` tokens each, as few as it takes and at most `max_parts`."""
    head = head_of(article)
    tries = room
    while True:
        pieces = _tried(article, head, tries, (counter, overlap, max_parts))
        if all(piece.tokens <= room for piece in pieces):
            return pieces
        tries = int(tries * SLACK)
        if tries < LEAST:
            raise BadConfig(
                f"{article.id} cannot be put into parts of {room} tokens; use a larger context."
            )


def head_of(article: Article) -> str:
    """Return title and abstract as every part begins."""
    parts = [f"# {article.title.strip()}"] if article.title.strip() else []
    parts += [f"## Abstract\n{article.abstract.strip()}"] if article.abstract.strip() else []
    return "\n\n".join(parts)


def sections_of(article: Article) -> list[tuple[str, str]]:
    """Return names and texts of the sections that have text, in order."""
    return [
        (each.name.strip() or "Main text", each.text.strip())
        for each in article.sections
        if each.text.strip()
    ]


def _tried(article: Article, head: str, room: int, how: tuple[Counter, int, int]) -> list[Piece]:
    counter, overlap, max_parts = how
    names = [name for name, _ in sections_of(article)]
    sections = [
        list(_units(at, text, counter)) for at, (_, text) in enumerate(sections_of(article))
    ]
    sizes = [sum(unit.tokens for unit in section) + HEADING for section in sections]
    head_tokens = len(counter.ends(head))
    head, head_kept = (
        _shortened(head, room // 2, counter) if head_tokens > room // 2 else (head, head_tokens)
    )
    each = room - head_kept - HEADING
    fits = sum(sizes) <= each
    total = (
        each if fits or max_parts == 1 else max_parts * each - (max_parts - 1) * (overlap + HEADING)
    )
    given = allot(sizes, [RANKS[role_of(name)] for name in names], total)
    units = [
        unit
        for at, section in enumerate(sections)
        for unit in _kept(section, sizes[at], given[at], counter)
    ]
    packed = _packed(units, each, 0 if fits else overlap)[:max_parts]
    bodies = [_written(part, names, units) for part in packed] or [""]
    whole = head_tokens + sum(sizes)
    lost = head_tokens - head_kept + sum(sizes) - sum(given) + _left_over(packed, units)
    texts = ["\n\n".join(filter(None, (head, body))) for body in bodies]
    return [
        Piece(text, part, len(texts), len(counter.ends(text)), lost, whole)
        for part, text in enumerate(texts, start=1)
    ]


def _units(section: int, text: str, counter: Counter) -> Iterator[Unit]:
    """Give the sentences of a section, long ones in pieces of whole words; its tokens are counted once."""
    ends = counter.ends(text)
    at, is_start = 0, True
    for found in [*SENTENCE_END.finditer(text), None]:
        stop, after = found.span() if found else (len(text), len(text))
        while at < stop:
            first = bisect_right(ends, at)
            last = first + LONGEST - 1
            until = stop if last >= len(ends) or ends[last] >= stop else ends[last]
            until = until if until == stop else max(text.rfind(" ", at, until), at) or until
            until = until if until > at else ends[last]
            yield Unit(
                section, text[at:until].strip(), max(1, bisect_right(ends, until) - first), is_start
            )
            at, is_start = until, False
        is_start = "\n" in text[stop:after]
        at = after


def _kept(section: list[Unit], size: int, given: int, counter: Counter) -> Iterator[Unit]:
    """Give the sentences of a section that fit in what it was given, with a mark where the rest is left out."""
    if given >= size:
        yield from section
        return
    mark = Unit(section[0].section, CUT, len(counter.ends(CUT)) + 1, False)
    left = given - HEADING - mark.tokens
    for unit in section:
        if unit.tokens > left:
            text, tokens = _shortened(unit.text, left, counter)
            if text:
                yield Unit(unit.section, text, tokens, unit.is_paragraph_start)
            break
        left -= unit.tokens
        yield unit
    yield mark


def _shortened(text: str, tokens: int, counter: Counter) -> tuple[str, int]:
    """Return the words at the start of a text that have at most so many tokens, and how many they have."""
    ends = counter.ends(text)
    if tokens <= 0:
        return "", 0
    if len(ends) <= tokens:
        return text, len(ends)
    start = text[: ends[tokens - 1]]
    words = start.rpartition(" ")[0] or start
    return words, sum(end <= len(words) for end in ends)


def _packed(units: Sequence[Unit], room: int, overlap: int) -> list[list[int]]:
    """Return places of units by part: parts are filled in turn, each begins with the end of the one before."""
    parts: list[list[int]] = [[]]
    used, section = 0, -1
    for at, unit in enumerate(units):
        cost = unit.tokens + (HEADING if unit.section != section else 0)
        if parts[-1] and used + cost > room:
            again = _tail(units, parts[-1], min(overlap, max(0, room - unit.tokens - 2 * HEADING)))
            parts.append(again)
            headings = len({units[place].section for place in again} | {unit.section})
            used = sum(units[place].tokens for place in again) + headings * HEADING
            cost = unit.tokens
        parts[-1].append(at)
        used += cost
        section = unit.section
    return parts


def _tail(units: Sequence[Unit], part: Sequence[int], overlap: int) -> list[int]:
    """Return the last places of a part that have at most `overlap` tokens together, headings counted."""
    tail: list[int] = []
    left = overlap
    for place in reversed(part):
        is_new = not tail or units[tail[0]].section != units[place].section
        left -= units[place].tokens + (HEADING if is_new else 0)
        if left < 0:
            break
        tail.insert(0, place)
    return tail


def _left_over(packed: Sequence[Sequence[int]], units: Sequence[Unit]) -> int:
    """Return the tokens of units that stand in no part."""
    placed = {place for part in packed for place in part}
    return sum(unit.tokens for at, unit in enumerate(units) if at not in placed)


def _written(part: Sequence[int], names: Sequence[str], units: Sequence[Unit]) -> str:
    """Return a part's sections under their names; one that began in an earlier part says so."""
    blocks = []
    for section, places in groupby(part, key=lambda place: units[place].section):
        found = list(places)
        first = next(at for at, unit in enumerate(units) if unit.section == section)
        heading = f"## {names[section]}" + (f" {GOES_ON}" if found[0] != first else "")
        text = ""
        for place in found:
            unit = units[place]
            text += ("\n" if unit.is_paragraph_start else " ") + unit.text if text else unit.text
        blocks.append(f"{heading}\n{text}")
    return "\n\n".join(blocks)
