"""Readable text as words and the gaps between them, and which gaps end a sentence or a clause."""

import re
from itertools import chain
from typing import Literal

TOKEN = re.compile(r"([0-9]+(?:[.,][0-9]+)*[^\W_]*|[^\W_]+(?:'[a-z]+)?)")
INSIDE = frozenset(("", " ", "-", ", ", " (", ") ", "), "))
END = re.compile(r"[.!?](?=[\s\"')\]])|[\n;]")
CLAUSE = re.compile(r"[,:()\[\]|]| -+ ")
ABBREVIATIONS = frozenset(("vs", "e", "g", "i", "s", "approx", "fig", "ca", "cf", "al"))


def word_set(listed: str) -> frozenset[str]:
    """Return the words of a list that is written as one text."""
    return frozenset(listed.split())


UNFINISHED = word_set(
    "a an the is are was were be been being not never that of in to by for from with and or no than as at on has have"
    " does did it its"
)
"""No line of its own ends with one of these."""
FOLLOWING = word_set("that which than of")
"""No line of its own begins with one of these."""
MOST_CHUNKS, LONGEST_CHUNK = 32768, 32
"""So many pieces of text between two blanks, and none of more characters, are remembered."""


class Chunks(dict[str, tuple[str, ...]]):
    """What stands between two blanks, as word, gap, word, gap, …; the last gap holds the blank.

    What begins with a gap has an empty word before it. Most of a text is looked up here in C.
    """

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        lead, *rest = TOKEN.split(f"{chunk} ")
        parts = ("", lead, *rest) if lead else tuple(rest)
        if len(chunk) < LONGEST_CHUNK:
            if len(self) >= MOST_CHUNKS:
                self.clear()
            self[chunk] = parts
        return parts


CHUNKS = Chunks()


def split(text: str) -> tuple[list[str], list[str]]:
    """Return the words of plain text, and the gaps before each of them and after the last."""
    parts = list(chain.from_iterable(map(CHUNKS.__getitem__, text.split(" "))))
    words, gaps = parts[::2], ["", *parts[1::2]]
    gaps[-1] = gaps[-1][:-1]
    return _joined(words, gaps) if "" in words else (words, gaps)


def _joined(words: list[str], gaps: list[str]) -> tuple[list[str], list[str]]:
    """Return words and gaps without the empty words: the gaps around those are one."""
    kept: list[str] = []
    between: list[str] = []
    pending = [gaps[0]]
    done = 0
    for place in [place for place, word in enumerate(words) if not word]:
        if place > done:
            kept += words[done:place]
            between.append("".join(pending))
            between += gaps[done + 1 : place]
            pending = [gaps[place]]
        pending.append(gaps[place + 1])
        done = place + 1
    between.append("".join(pending))
    kept += words[done:]
    return kept, between + gaps[done + 1 :]


def is_wrap(gap: str, word: str, following: str) -> bool:
    """Say whether a gap is only where a line was wrapped: "is not↵reduced", "is false↵that …"."""
    return gap.strip(" ") == "\n" and (word in UNFINISHED or following in FOLLOWING)


def is_end(gap: str, word: str) -> bool:
    """Say whether a gap ends the sentence of the word before it."""
    kind = kind_of(gap)
    return kind == "end" or (kind == "dot" and word not in ABBREVIATIONS)


Kind = Literal["end", "dot", "clause", ""]
"""What a gap ends; "dot" ends a sentence unless an abbreviation stands before it."""
MOST_KINDS, LONGEST_KIND = 4096, 32
"""So many gaps, and none of more characters, are remembered; real texts have some hundred."""


class Kinds(dict[str, Kind]):
    """What each gap ends, worked out when a gap is first met. One look-up in C for most gaps."""

    def __missing__(self, gap: str) -> Kind:
        kind: Kind = "clause" if CLAUSE.search(gap) else ""
        if gap not in INSIDE and END.search(gap):
            kind = "dot" if gap.strip() == "." else "end"
        if len(self) < MOST_KINDS and len(gap) < LONGEST_KIND:
            self[gap] = kind
        return kind


KINDS = Kinds()
kind_of = KINDS.__getitem__
