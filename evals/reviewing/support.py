"""Which part of a paper a concern is about, told from the words they share."""

import math
import re
from collections import Counter
from collections.abc import Sequence

WORD = re.compile(r"[a-z][a-z0-9-]{2,}|\d+(?:\.\d+)?")
STEM = 6
"""Letters by which words are compared: "replicate" and "replication" are one."""


def assigned(concerns: Sequence[str], parts: Sequence[str]) -> list[int]:
    """Return, for each concern, the place of the part that supports it best; the first one on ties.

    Support is the weight of a concern's words found in a part; a word that stands in every part weighs
    nothing. Numbers count like words, and are what ties a concern to its place most often.
    """
    found = [words_of(part) for part in parts]
    spread = Counter(word for words in found for word in words)
    places = []
    for concern in concerns:
        words = words_of(concern)
        scores = [
            sum(math.log(len(parts) / spread[word]) for word in words & part) for part in found
        ]
        places.append(max(range(len(parts)), key=lambda at: (scores[at], -at)))
    return places


def words_of(text: str) -> set[str]:
    """Return the beginnings of a text's words, and its numbers, each once."""
    return {word[:STEM] for word in WORD.findall(text.lower())}
