"""Which lines of a PDF are its title and its headings, told by their fonts, places and words."""

import re
import unicodedata
from collections.abc import Sequence, Set
from dataclasses import replace

from evals.papers.outline import LONGEST_HEADING, NUMBER, caption_of, heading_level, plain_name, role_of, tidy
from evals.papers.pdf_lines import PageLines, TextLine, joined, mark_of

LARGER = 1.12
"""A heading's font is so many times that of the text."""
HEADED = re.compile(r"(?:(?:\d+|[A-H])(?:\.\d+)*\.?|[IVX]+\.)\s+(?=[A-Z(])")
ROMAN = re.compile(r"[IVX]+\.\s+(?=[A-Z])")
LETTERED = re.compile(r"^(?:Appendix\s+)?(?P<number>[A-H](?:\.\d+)*)[.:]?\s+(?=[A-Z])")
PUBLISHERS = re.compile(
    r"^(?:accepted manuscript|(?:original|research|review)? ?(?:article|research)$|contents lists|open access|preprint)"
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
        printed = tidy(joined(title))
        return printed if _letters(printed) == _letters(told) else tidy(told), [replace(first, lines=rest), *pages[1:]]
    groups: list[list[TextLine]] = []
    for line in first.lines:
        if line.bottom < 0.4 * first.height or line.height <= LARGER * body or len(line.text) <= 3:
            continue
        role = role_of(line.text)
        is_section = role == "abstract" or (role != "other" and HEADED.match(line.text) is not None)
        if is_section or PUBLISHERS.search(line.text) or mark_of(line) in heads or _is_names(line.text):
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
    phrases = [group for group in groups if group[0].height > 0.7 * most and len(joined(group).split()) > 2]
    large = phrases[0] if phrases else max(groups, key=lambda group: group[0].height)
    # a heading, and not a title that begins with such a word
    names = [role_of(line.text) != "other" and len(plain_name(line.text).split()) <= 3 for line in large]
    title = large[: names.index(True, 1) if True in names[1:] else None]
    rest = tuple(line for line in first.lines if line not in title)
    kept = (tuple(word for word in line.words if word.height > 0.8 * large[0].height) for line in title)
    return tidy(joined([TextLine(words) for words in kept if words])), [replace(first, lines=rest), *pages[1:]]


def _title_in_metadata(lines: Sequence[TextLine], told: str) -> Sequence[TextLine]:
    """Return the lines of page 1 that are the title which the file gives itself, none where no lines are."""
    wanted = _letters(told)
    if len(told.split()) < 3 or PUBLISHERS.search(told):
        return ()
    for at in range(len(lines)):
        for end in range(at + 1, min(at + 7, len(lines) + 1)):
            found = _letters(joined(lines[at:end]))
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
    """Return the styles in which the paper prints the headings whose names tell a section."""
    named = (group[0] for group in groups if len(group) == 1 and heading_by_words(group[0].text) == 1)
    return frozenset(style_of(line) for line in named if role_of(line.text) not in ("other", "supplement", "statement"))


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
