"""Plain text to a paper: which lines are headings is told from their names, numbers and surroundings."""

import re
from dataclasses import dataclass

from evals.articles.markup import without_markup
from evals.articles.outline import Block, Outline, outline_of
from evals.articles.roles import NUMBER, plain_name, role_of

LONGEST_HEADING, LONGEST_TITLE = 12, 40
"""Words."""
ENDS = (".", ",", ";", ":", "?", "!")
NUMBERED = re.compile(r"(?P<number>\d+(?:\.\d+)*)\.?\s+[A-Z(]")
ABSTRACT = re.compile(r"(?:abstract|summary)\s*[.:—–-]\s*(?=\S)", re.I)


@dataclass(frozen=True)
class Titled:
    """A paper taken apart, and its title."""

    title: str
    outline: Outline


def read_plain(text: str) -> Titled:
    """Return the title (the first lines, if they read like one) and the sections of a plain text."""
    paragraphs = [part.strip("\n") for part in re.split(r"\n\s*\n", without_markup(text))]
    paragraphs = [part for part in paragraphs if part.strip()]
    title = ""
    if paragraphs and is_title(paragraphs[0]):
        title = " ".join(paragraphs.pop(0).split())
    blocks = [block for part in paragraphs for block in _blocks(part)]
    return Titled(title, outline_of(blocks))


def is_title(paragraph: str) -> bool:
    """Whether the first paragraph of a text reads like a title rather than a heading or a sentence."""
    words = paragraph.split()
    is_heading = role_of(paragraph) != "other" or paragraph.startswith(("- ", "* "))
    return len(words) <= LONGEST_TITLE and not paragraph.rstrip().endswith(".") and not is_heading


def heading_level(line: str) -> int | None:
    """Return 1 for a section's heading, 2 or more for one below, None for running text.

    >>> [heading_level(line) for line in ("METHODS", "2.1 Mice", "Mice were fed.")]
    [1, 2, None]
    """
    line = line.strip()
    if not line or len(line.split()) > LONGEST_HEADING:
        return None
    if role_of(line) != "other" and not line.endswith((".", ",", ";")):
        return 1 if line[:1].isupper() or NUMBER.match(line) else None
    if line.endswith(ENDS) or not any(letter.isalpha() for letter in line):
        return None
    numbered = NUMBERED.match(line)
    if numbered:
        return numbered["number"].count(".") + 1
    letters = [letter for letter in line if letter.isalpha()]
    return 1 if len(letters) > 3 and all(letter.isupper() for letter in letters) else None


def _blocks(paragraph: str) -> list[Block]:
    """Return the blocks of a paragraph: headings on lines of their own come off its start."""
    lines = paragraph.split("\n")
    found: list[Block] = []
    while lines and (level := heading_level(lines[0])) is not None:
        found.append(Block("heading", plain_name(lines.pop(0)), level))
    rest = _joined(lines)
    opening = ABSTRACT.match(rest)
    if opening:
        found.append(Block("heading", "Abstract"))
        rest = rest[opening.end() :]
    return [*found, Block("paragraph", rest)] if rest else found


def _joined(lines: list[str]) -> str:
    """Return lines as one paragraph; items of a list keep their lines."""
    text = ""
    for line in (each.strip() for each in lines):
        is_item = re.match(r"(?:[-*•]|\d+[.)])\s", line)
        text += ("\n" if is_item else " ") + line if text else line
    return text
