"""Where in a paper a concern belongs, and a review in words: a list with what each concern quotes, or a letter.

A place is words of the concern that stand in the paper literally, found by string match.

A passage in quotation marks counts first, however short; else the longest run of words that concern and
paper share, if it is long enough to be no accident. Case, blanks and the shape of quotes do not count.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from evals.schema import Article
from evals.schema.articles import ABSTRACT, Place, start_at
from evals.schema.reviews import Concern

WORD = re.compile(r"\w+(?:[.'’-]\w+)*", re.UNICODE)
QUOTED = re.compile(r"[\"“”«»](.{3,400}?)[\"“”«»]|(?<!\w)['‘](.{8,400}?)['’](?!\w)", re.S)
SENTENCE = re.compile(r"(?<=[.!?])[\"”)]?\s+(?=[\"“(]?[A-ZÀ-Þ0-9])|\n+")
ABBREVIATED = re.compile(
    r"(?:\b(?:Fig|Figs|Tab|Eq|Ref|Refs|No|Nos|Dr|Prof|vs|ca|cf|al|approx|resp|e\.g|i\.e|[A-Z]))\.$"
)
SHORTEST_RUN = 4
"""Words that a concern and a paper share by chance less often than once in a few papers."""
TELLING = 2
"""Words of a run that say something; a run of little words alone places nothing."""
LITTLE = frozenset(Path(__file__).with_name("stopwords.txt").read_text(encoding="utf-8").split())


@dataclass(frozen=True)
class _Words:
    """The words of one section in lower case with where each begins and ends; `runs` finds those of another text."""

    section: int
    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    runs: SequenceMatcher[str]


class Map:
    """A paper indexed once, to place many concerns in it."""

    def __init__(self, article: Article) -> None:
        self._article = article
        texts = [(ABSTRACT, article.abstract), *enumerate(each.text for each in article.sections)]
        self._sections = []
        for section, text in texts:
            found = list(WORD.finditer(text))
            words = tuple(word[0].lower() for word in found)
            runs = SequenceMatcher(None, (), words, autojunk=False)
            self._sections.append(_Words(section, text, words, tuple(word.span() for word in found), runs))

    def place(self, text: str) -> Place | None:
        """Return where a concern's words stand in the paper; None if they do not."""
        for found in QUOTED.finditer(text):
            quoted = self._longest(found[1] or found[2], is_whole=True)
            if quoted is not None:
                return quoted
        return self._longest(text, is_whole=False)

    def _longest(self, text: str, *, is_whole: bool) -> Place | None:
        """Return the longest run of words that text and paper share, the first of several; all words if `is_whole`."""
        words = tuple(word[0].lower() for word in WORD.finditer(text))
        best: tuple[int, _Words, int] | None = None
        for section in self._sections:
            section.runs.set_seq1(words)
            run = section.runs.find_longest_match()
            telling = sum(word not in LITTLE for word in words[run.a : run.a + run.size])
            is_enough = run.size == len(words) > 0 if is_whole else run.size >= SHORTEST_RUN and telling >= TELLING
            if is_enough and (run.size > 1 or telling) and (best is None or run.size > best[0]):
                best = run.size, section, run.b
        if best is None:
            return None
        length, section, at = best
        start, end = section.spans[at][0], section.spans[at + length - 1][1]
        is_abstract = section.section == ABSTRACT
        starts = self._article.abstract_pages if is_abstract else self._article.sections[section.section].pages
        there = start_at(starts, start)
        return Place(
            section=section.section,
            start=start,
            end=end,
            quote=section.text[start:end],
            page=there.page if there else None,
            box=there.box if there else None,
            is_quoted=is_whole,
        )


def sentences(text: str) -> list[tuple[int, int]]:
    """Return where each sentence of a text begins and ends, the blanks after it not counted."""
    found, start = list[tuple[int, int]](), 0
    for gap in SENTENCE.finditer(text):
        if ABBREVIATED.search(text[start : gap.start()]):
            continue
        end = gap.start() + len(gap[0]) - len(gap[0].lstrip('"”)'))
        found.append((start, end))
        start = gap.end()
    return [span for span in (*found, (start, len(text.rstrip()))) if text[slice(*span)].strip()]


HEADINGS = {
    "major": "Major concerns",
    "minor": "Minor concerns",
    "optional": "Suggestions",
    "unknown": "Further concerns",
}
JOINERS = "\u200c\u200d"


def as_markdown(title: str, concerns: Sequence[tuple[Concern, Place | None]], by: str) -> str:
    """Return concerns as a numbered list, each with its place in the paper where it has one; `by` says who wrote it."""
    lines = [f"# Review of “{line(title)}”", ""]
    for number, (each, place) in enumerate(concerns, 1):
        lines.append(f"{number}. **{each.severity}, {each.category.replace('_', ' ')}.** {line(each.text)}")
        if place is not None:
            page = f" (page {place.page})" if place.page else ""
            lines.append(f"   > {line(place.quote)}{page}")
    return "\n".join([*lines, "", line(by), ""])


def as_letter(title: str, concerns: Sequence[Concern]) -> str:
    """Return concerns as a letter to the authors, by severity."""
    opening = "These are my concerns." if concerns else "I have no concerns."
    lines = ["Dear authors,", "", f"thank you for “{line(title)}”. {opening}", ""]
    number = 0
    for severity, heading in HEADINGS.items():
        found = [each for each in concerns if each.severity == severity]
        lines += [f"## {heading}", ""] if found else []
        for each in found:
            number += 1
            lines += [f"{number}. {line(each.text)}", ""]
    return "\n".join(lines)


def line(text: str) -> str:
    r"""Return a text on one line, without characters that nobody sees: marks of direction, controls, zero-width blanks.

    Joiners of letters and emoji stay.

    >>> line("p\u202e50.0 = a\n\x1b[2J b")
    'p50.0 = a [2J b'
    """
    words = " ".join(text.split())
    return "".join(each for each in words if each in JOINERS or unicodedata.category(each) not in ("Cc", "Cf", "Cs"))
