"""Where in a paper a concern belongs: words of it that stand there literally, found by string match.

A passage in quotation marks counts first, however short; else the longest run of words that concern and
paper share, if it is long enough to be no accident. Case, blanks and the shape of quotes do not count.
"""

import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from evals.schema import Article
from evals.schema.reviewruns import ABSTRACT, Place

WORD = re.compile(r"\w+(?:[.'’-]\w+)*", re.UNICODE)
QUOTED = re.compile(r"[\"“”«»](.{3,400}?)[\"“”«»]|(?<!\w)['‘](.{8,400}?)['’](?!\w)", re.S)
SHORTEST_RUN = 4
"""Words that a concern and a paper share by chance less often than once in a few papers."""
TELLING = 2
"""Words of a run that say something; a run of little words alone places nothing."""
LITTLE = frozenset(
    tomllib.loads(Path(__file__).with_name("stopwords.toml").read_text(encoding="utf-8"))["places"].split()
)
SEEDS = 3
"""Words of a run that are looked up at once."""


@dataclass(frozen=True)
class _Words:
    """The words of one section in lower case with where each begins and ends."""

    section: int
    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


class Map:
    """A paper indexed once, to place many concerns in it."""

    def __init__(self, article: Article) -> None:
        self._article = article
        texts = [(ABSTRACT, article.abstract), *enumerate(each.text for each in article.sections)]
        self._sections = []
        for section, text in texts:
            found = list(WORD.finditer(text))
            words = tuple(word[0].lower() for word in found)
            if text.strip():
                self._sections.append(_Words(section, text, words, tuple(word.span() for word in found)))
        self._seeds: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
        for number, section in enumerate(self._sections):
            for at in range(len(section.words) - SEEDS + 1):
                self._seeds[section.words[at : at + SEEDS]].append((number, at))

    def place(self, text: str) -> Place | None:
        """Return where a concern's words stand in the paper; None if they do not."""
        for found in QUOTED.finditer(text):
            quoted = self._exact(found.group(1) or found.group(2))
            if quoted is not None:
                return quoted
        return self._shared(text)

    def _exact(self, quote: str) -> Place | None:
        wanted = tuple(word.group().lower() for word in WORD.finditer(quote))
        if not wanted or (len(wanted) == 1 and wanted[0] in LITTLE):
            return None
        for section in self._sections:
            for at in range(len(section.words) - len(wanted) + 1):
                if section.words[at : at + len(wanted)] == wanted:
                    return self._placed(section, at, len(wanted), is_quoted=True)
        return None

    def _shared(self, text: str) -> Place | None:
        """Return the longest run of words that text and paper share; the first of several."""
        words = tuple(word.group().lower() for word in WORD.finditer(text))
        best: tuple[int, int, int] | None = None
        for start in range(len(words) - SEEDS + 1):
            for number, at in self._seeds.get(words[start : start + SEEDS], ()):
                pairs = zip(words[start:], self._sections[number].words[at:], strict=False)
                length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
                run = words[start : start + length]
                if length >= SHORTEST_RUN and sum(word not in LITTLE for word in run) >= TELLING:
                    best = max(best or (0, 0, 0), (length, -number, -at))
        if best is None:
            return None
        length, number, at = best
        return self._placed(self._sections[-number], -at, length, is_quoted=False)

    def _placed(self, section: _Words, at: int, length: int, *, is_quoted: bool) -> Place:
        start, end = section.spans[at][0], section.spans[at + length - 1][1]
        page = None
        if section.section != ABSTRACT:
            page = self._article.sections[section.section].page_at(start)
        return Place(
            section=section.section, start=start, end=end, quote=section.text[start:end], page=page, is_quoted=is_quoted
        )
