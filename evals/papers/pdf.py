"""PDF to a paper: PDFium reads the words, our own code the columns, headings, paragraphs, tables and references."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import pypdfium2

from evals.errors import UnreadableArticle
from evals.io import group_by, runs_of
from evals.papers.outline import (
    ABSTRACT,
    LONGEST_ABSTRACT,
    LONGEST_HEADING,
    NUMBER,
    Block,
    Outline,
    caption_of,
    heading_level,
    outline_of,
    plain_name,
    role_of,
    tidy,
)
from evals.papers.pdf_lines import (
    PageLines,
    TableRow,
    TextLine,
    Word,
    body_height,
    columns_of,
    is_at_edge,
    join_lines,
    mark_of,
    page_gutters,
    table_rows,
    without_furniture,
    words_on,
)
from evals.schema.articles import PageStart
from evals.worker import Send, read_apart

if TYPE_CHECKING:
    from PIL.Image import Image

LARGER = 1.12
"""A heading's font is so many times that of the text."""
HEADED = re.compile(r"(?:(?:\d+|[A-H])(?:\.\d+)*\.?|[IVX]+\.)\s+(?:\|\s+)?(?=[A-Z(])")
ROMAN = re.compile(r"[IVX]+\.\s+(?=[A-Z])")
LETTERED = re.compile(r"^(?:Appendix\s+)?(?P<number>[A-H](?:\.\d+)*)[.:]?\s+(?=[A-Z])")
PUBLISHERS = re.compile(
    r"^(?:accepted manuscript|contents lists|open access|preprint)|^(?:(?:(?:original|full[- ]length|regular|short|brief|rapid|mini|systematic|clinical"
    r"|technical|scientific|research|review|case) ?-?)*(?:articles?|research|reviews?|papers?|reports?|communications?|notes?|stud(?:y|ies)|letters?)"
    r"|corrigendum|erratum|editorial|letter to the editor)$"
    r"|ournal of|^proceedings of|^transactions on|@|https?:|www\.|\bdoi\b|\bISSN\b|\bvol(?:ume|\.) ?\d",
    re.I,
)
"""What stands above a title and below it; small capitals part the J of a journal from the rest."""


def title_of(pages: Sequence[PageLines], body: float, heads: Set[str], told: str) -> tuple[str, list[PageLines]]:
    """Return the title and the pages without it.

    It is what the file says (`told`), if page 1 has lines with these words; else the largest lines one below the
    other in the upper part of page 1. What a publisher prints above it (the name of the journal, the kind of article),
    names and addresses are no title. Where headings are as large as the title, it ends at the first that names a
    section, as Abstract does.
    """
    first = pages[0]
    if title := _title_in_metadata(first.lines, told):
        rest = tuple(line for line in first.lines if line not in title)
        printed = tidy(join_lines(title))
        return printed if _letters(printed) == _letters(told) else tidy(told), [replace(first, lines=rest), *pages[1:]]

    def may_be_title(line: TextLine) -> bool:
        if line.bottom < 0.4 * first.height or line.height <= LARGER * body or len(line.text) <= 3:
            return False
        role = role_of(line.text)
        is_section = role == "abstract" or (role != "other" and HEADED.match(line.text) is not None)
        is_above = PUBLISHERS.search(line.text.strip()) or mark_of(line) in heads
        return not (is_section or is_above or _is_names(line.text))

    def goes_on(group: list[TextLine], line: TextLine) -> bool:
        is_as_large = abs(group[-1].height - line.height) < 0.1 * line.height
        return is_as_large and 0 < group[-1].bottom - line.bottom < 2.5 * line.height

    groups = runs_of(filter(may_be_title, first.lines), goes_on)
    cited = [
        _letters(line.text) for line in first.lines
    ]  # the journal's name stands again before the year or the volume
    groups = [
        group
        for group in groups
        if not any(re.match(rf"\d*{re.escape(_letters(join_lines(group)))}(?:\d|vol)", each) for each in cited)
    ]
    if not groups:
        return "", list(pages)
    most = max(group[0].height for group in groups)
    phrases = [group for group in groups if group[0].height > 0.7 * most and len(join_lines(group).split()) > 2]
    large = phrases[0] if phrases else max(groups, key=lambda group: group[0].height)
    # a heading, and not a title that begins with such a word
    names = [role_of(line.text) != "other" and len(plain_name(line.text).split()) <= 3 for line in large]
    title = large[: names.index(True, 1) if True in names[1:] else None]
    rest = tuple(line for line in first.lines if line not in title)
    kept = (tuple(word for word in line.words if _is_of_title(word, large[0].height)) for line in title)
    return tidy(join_lines([TextLine(words) for words in kept if words])), [replace(first, lines=rest), *pages[1:]]


def _is_of_title(word: Word, height: float) -> bool:
    """Whether a word in a line of the title is none of the marks of notes, or of names beside it, in smaller type.

    Another font, as of names of species, may be lower.
    """
    is_other_font = word.height > 0.7 * height or "italic" in word.style
    return word.height > 0.8 * height or (is_other_font and re.search(r"[^\W\d_]{2}", word.text) is not None)


def _title_in_metadata(lines: Sequence[TextLine], told: str) -> Sequence[TextLine]:
    """Return the lines of page 1 that are the title which the file gives itself, none where no lines are."""
    wanted = _letters(told)
    if len(told.split()) < 3 or PUBLISHERS.search(told):
        return ()
    for at in range(len(lines)):
        for end in range(at + 1, min(at + 7, len(lines) + 1)):
            found = _letters(join_lines(lines[at:end]))
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


Style = tuple[float, bool, bool]


def style_of(line: TextLine) -> Style:
    return round(line.height * 2) / 2, line.is_bold, line.is_italic


def heading_styles(groups: Sequence[Sequence[TextLine]]) -> frozenset[Style]:
    """Return the styles in which the paper prints the headings whose names tell a section.

    Statistical analysis, a part of Methods in most papers, tells none.
    """
    named = (group[0] for group in groups if len(group) == 1 and heading_by_words(group[0].text) == 1)
    return frozenset(
        style_of(line)
        for line in named
        if role_of(line.text) not in ("other", "supplement", "statement")
        and not plain_name(line.text).lower().startswith("statistical")
    )


def precedes_text(groups: Sequence[Sequence[TextLine]], at: int, body: float) -> bool:
    """Whether running text stands below a group, perhaps after more headings.

    Below the words of a picture it does not, nor below lines of a table of contents, which end with a page.
    """
    if all(re.search(r"[^\d.] ?\d+$", group[-1].text) for group in groups[at : at + 2]):
        return False
    for group in groups[at + 1 : at + 4]:
        if abs(group[0].height - body) < 0.07 * body and len(" ".join(line.text for line in group).split()) > 8:
            return True
    return at + 1 >= len(groups) or role_of(groups[at][0].text) != "other"


def heading_by_words(text: str) -> int | None:
    """Return the level of a line that is a heading by its words alone."""
    level = heading_level(text)
    is_so = role_of(text) != "other" or text[:1].isdigit() or (ROMAN.match(text) and text.isupper())
    return level if level is not None and is_so else None


def level_of(text: str, group: Sequence[TextLine], body: float, tops: frozenset[Style]) -> int | None:
    """Return the level of a heading, told by its font or words; None for a paragraph.

    Letters of a chart and equations are none: a heading is made of words.
    """
    words = NUMBER.sub("", text)
    is_words = sum(map(str.isalpha, words)) > 0.6 * len(words.replace(" ", "")) and re.search(r"[^\W\d_]{3}", text)
    role = role_of(text)
    if not is_words or len(text.split()) > LONGEST_HEADING or text.endswith((".", ",", ";")):
        return None
    if role in ("other", "statement") and text.endswith(":"):
        return None
    is_sentence = re.search(r"[a-z]\.\s+[A-Z]", text) or caption_of(text)
    if is_sentence or any(
        len(each.cells) > 1 + bool(HEADED.match(each.text) or LETTERED.match(each.text)) for each in group
    ):
        return None
    line, by_words = group[0], heading_level(text)
    is_marked = line.height > LARGER * body or all(each.is_bold for each in group) or all(e.is_italic for e in group)
    if role != "other" and by_words is not None and (is_marked or len(text.split()) <= 5):
        return 2 if not (text[:1].isdigit() or style_of(line) in tops) and by_words == 1 and is_marked else by_words
    if ROMAN.match(text) and (text.isupper() or is_marked):
        return 1
    if lettered := LETTERED.match(text):
        return lettered["number"].count(".") + 1 if is_marked else None
    if HEADED.match(text) and by_words is not None and (is_marked or by_words > 1):
        return by_words
    if not text[:1].isupper() or len(group) > 3:
        return None
    if style_of(line) in tops and is_marked:
        return 1
    return 2 if line.height > LARGER * body or all(each.is_bold for each in group) else None


def plain_level(groups: Sequence[Sequence[TextLine]], at: int, body: float) -> int | None:
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
        and (groups[at - 1][-1].text.endswith((".", ")")) or heading_by_words(groups[at - 1][-1].text) is not None)
    )
    near = 0 < line.bottom - after[0].bottom < 2.2 * line.height
    return 2 if follows and is_text and is_words and near and not line.is_italic else None


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
        text = tidy(join_lines(group))
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
    return runs_of(lines, lambda group, line: not _begins(group, line, usual))


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
    return [tidy(join_lines(lines[one:other])) for one, other in pairwise([*starts, len(lines)])]


def _parts(last: TextLine, new: TextLine) -> bool:
    """Whether an entry of a list ends with a full stop and the next begins with a name and initials."""
    return (
        last.text.endswith((".", "/"))
        and re.match(r"[^\W\d_a-z][\w’'-]+,? (?:[A-Z]\.|[A-Z]{1,3}\b|[A-Z]\w+)|(?:[A-Z]\. ?)+[A-Z]\w", new.text)
        is not None
    )


TINY = 0.002
"""Of the page's height: smaller words cannot be seen."""
CONTRAST = 20
"""Of 255: faint text is seen if its place on the page has so much of a contrast."""
LOST = re.compile("[\0\3-\10\16-\37\ufffd\ue000-\uefff\uf100-\uf8e5]")
"""Signs without a letter in the file; those of Adobe's Symbol that only build large brackets are none."""
FEWEST_WORDS = 12
"""A page with fewer words is a picture, a scan or a divider."""
MOST_PAGES = 400
MOST_CHARACTERS = 200_000
"""Of a page; a full one of a journal has some 8,000."""


@dataclass(frozen=True)
class PageWords:
    """The rows of a page as it is read upright, and what was left out of them: hidden words, how many turned ones."""

    rows: list[TableRow]
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
            for w in words_on(text_page)
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
    return PageWords(table_rows(kept), width, height, turn, quote, len(seen) - len(kept), lost)


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


def read_pdf(data: bytes, name: str, progress: Callable[[int, int], None]) -> tuple[Outline, int, tuple[str, ...]]:
    """Return what stands in a PDF, how many pages it has, and notes on what could not be read, by page.

    `progress` is told pages done and in all. UnreadableArticle for a file that is broken, locked with a
    password, too long, or a scan.
    """
    read, told = _pages(data, name, progress)
    empty = [n for n, page in enumerate(read, start=1) if sum(map(len, page.rows)) < FEWEST_WORDS]
    if len(empty) > len(read) / 2:
        raise UnreadableArticle(
            f"{name} holds hardly any text: {len(empty)} of {len(read)} pages have fewer than {FEWEST_WORDS} words,"
            " as in a scan. Recognise the text first (`ocrmypdf in.pdf out.pdf`), or give the publisher's PDF or XML."
        )
    gutters = page_gutters([page.rows for page in read])
    found = [
        PageLines(
            n, page.width, page.height, tuple(TextLine(*e, n) for e in columns_of(page.rows, places, 0)), page.turn
        )
        for n, (page, places) in enumerate(zip(read, gutters, strict=True), start=1)
    ]
    pages = without_furniture(found)
    body = body_height(pages)
    heads = {mark_of(line) for page in found[1:] for line in page.lines if is_at_edge(line, page)}
    title, pages = title_of(pages, body, heads, told)
    outline = outline_of(blocks_of(pages, body), title)
    hiding = [n for n, page in enumerate(read, start=1) if re.search(r"\w{3}", page.hidden)]
    hidden = group_by(hiding, lambda n: re.sub(r"\d+", "#", read[n - 1].hidden))  # page numbers in it aside
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


def _pages(data: bytes, name: str, progress: Callable[[int, int], None]) -> tuple[list[PageWords], str]:
    """Return the pages of a PDF and the title that it gives itself."""
    try:
        with closing(pypdfium2.PdfDocument(data)) as document:
            count = len(document)
            if count > MOST_PAGES:
                raise UnreadableArticle(
                    f"{name} has {count} pages; up to {MOST_PAGES} are read. Give one article rather than a whole issue,"
                    " thesis or book."
                )
            if not count:
                raise pypdfium2.PdfiumError("it has no pages")
            read: list[PageWords] = []
            for number in range(count):
                with closing(document[number]) as page:
                    read.append(page_words(page, f"page {number + 1} of {name}"))
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
