"""Readable text as words and the gaps between them, and which gaps end a sentence or a clause."""

import re
from typing import Literal

TOKEN = re.compile(r"([0-9]+(?:[.,][0-9]+)*[^\W_]*|[^\W_]+(?:'[a-z]+)?)")
ASCII_TOKEN = re.compile(r"([a-z][a-z0-9]*(?:'[a-z]+)?|[0-9]+(?:[.,][0-9]+)*[a-z0-9]*)")
"""As TOKEN, for text without other letters: a class of ranges is matched twice as fast."""
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
PLAINER_TOKEN = re.compile(r"([a-z][a-z0-9]*|[0-9]+(?:[.,][0-9]+)*[a-z0-9]*)")
"""As ASCII_TOKEN, for text without an apostrophe."""


def tokens(text: str) -> list[str]:
    """Return gap, word, gap, word, …, gap of plain text; joined they are the text again."""
    if not text.isascii():
        return TOKEN.split(text)
    return (ASCII_TOKEN if "'" in text else PLAINER_TOKEN).split(text)


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
