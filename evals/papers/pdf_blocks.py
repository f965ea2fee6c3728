"""Lines of a PDF as headings, paragraphs, tables and references."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from evals.papers.outline import ABSTRACT, LONGEST_HEADING, Block, caption_of, plain_name, role_of, tidy
from evals.papers.pdf_headings import (
    HEADED,
    LETTERED,
    ROMAN,
    heading_by_words,
    heading_styles,
    level_of,
    plain_level,
    precedes_text,
    style_of,
)
from evals.papers.pdf_lines import PageLines, TextLine, joined
from evals.schema.articles import PageStart

WIDE = 1.45
"""A gap of so many usual line distances parts paragraphs."""
INDENT = 0.7
"""Of a line's height: a line that begins so much further to the right begins a paragraph."""
SHORT = 0.25
"""Of a line: one that ends so far before the next ends a paragraph."""

BESIDE = 0.9
"""Of the height of the lines of an abstract and of the text: what stands in smaller type apart from it is not its text."""


def blocks_of(pages: Sequence[PageLines], body: float) -> list[Block]:
    """Return headings, paragraphs, tables and references; a paragraph that a column or page cuts in two is whole."""
    lines, contents = _tables([line for page in pages for line in page.lines])
    unnamed = _unnamed_list(lines)
    groups = _groups([line for line in lines if line not in unnamed], body)
    tops, has_names, has_roman = heading_styles(groups), False, False
    is_named = any(role_of(group[0].text) in ("abstract", "introduction") for group in groups if len(group) == 1)
    blocks: list[Block] = []
    abstract: TextLine | None = None  # its first line, until the next heading
    front: list[Block] = []  # what stands in a side column beside it, in smaller type: editors, data, funding
    listed: list[TextLine] = []
    opened: TextLine | None = None  # the heading of the list of references, while its entries follow
    running: dict[float, int] = {}  # the last paragraph by the height of its lines, which may go on behind a picture
    for at, group in enumerate(groups):
        page, height = group[0].page, round(group[0].height)
        text = tidy(joined(group))
        start = PageStart(at=0, page=page, box=pages[page - 1].box(group))
        level = (level_of(text, group, body, tops) if precedes_text(groups, at, body) else None) or plain_level(
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
            abstract = groups[at + 1][0] if role_of(text) == "abstract" and groups[at + 1 :] else None
            blocks.append(Block("heading", plain_name(LETTERED.sub("", text)), level, page, starts=(start,)))
        elif opening:
            running = {height: len(blocks) + 1}
            blocks.append(Block("heading", "Abstract", 1, page))
            rest = text[opening.end() :]
            blocks.append(Block("paragraph", rest, page=page, starts=(start,)))
        elif figure is not None:
            content = contents.get(group[0], "")
            blocks.append(Block("figure", "", page=page, figure=figure.model_copy(update={"content": content})))
        elif (
            abstract
            and group[0].height < BESIDE * min(abstract.height, body)
            and abs(group[0].left - abstract.left) > INDENT * body
        ):
            front.append(Block("paragraph", text, page=page, starts=(start,)))
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
    return [*front, *blocks, *(Block("paragraph", each) for each in _references(listed))]


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
    is_same = style_of(last) == style_of(new) and is_marked
    if is_same and HEADED.match(last.text) and not HEADED.match(new.text):
        return False
    if (
        heading_by_words(last.text) is not None and not (_goes_on(last.text, new.text) and len(last.text.split()) > 3)
    ) or (last.is_bold != new.is_bold and len(last.text.split()) <= LONGEST_HEADING and len(group) <= 3):
        return True
    if _goes_on(last.text, new.text) and abs(last.height - new.height) < 0.35 * last.height:
        return False
    return (
        (is_marked and HEADED.match(last.text) is not None)
        or (style_of(last) != style_of(new) and (new.is_bold or new.is_italic) and HEADED.match(new.text) is not None)
        or abs(last.height - new.height) > 0.12 * last.height
        or new.left - min(each.left for each in group) > INDENT * new.height
        or new.right - last.right > SHORT * (new.right - new.left)
    )


def _goes_on(last: str, new: str) -> bool:
    """Whether a line goes on amid the sentence of the one before it."""
    return last.endswith(("-", ",")) or (last[-1:].isalnum() and new[:1].islower())


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
    return [tidy(joined(lines[one:other])) for one, other in pairwise([*starts, len(lines)])]


def _parts(last: TextLine, new: TextLine) -> bool:
    """Whether an entry of a list ends with a full stop and the next begins with a name and initials."""
    return (
        last.text.endswith((".", "/"))
        and re.match(r"[^\W\d_a-z][\w’'-]+,? (?:[A-Z]\.|[A-Z]{1,3}\b|[A-Z]\w+)|(?:[A-Z]\. ?)+[A-Z]\w", new.text)
        is not None
    )
