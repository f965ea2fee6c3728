"""How much of an answer is copied from the passages in long runs of words."""

from collections.abc import Sequence
from functools import lru_cache

from evals.refiner.evidence import Evidence
from evals.refiner.grammar import WORD

RUN = 12
"""Words in a row that stand so in a passage: fewer are a name or a turn of speech."""


def copied(texts: Sequence[str], evidence: Evidence) -> float | None:
    """Return the share of an answer's words in runs of twelve or more of one passage; None without words."""
    known = [_known_runs(text) for text in evidence.values()]
    total = taken = 0
    for text in texts:
        words = _words(text)
        marked = [False] * len(words)
        for at, run in enumerate(_runs(words)):
            if any(run in passage for passage in known):
                marked[at : at + RUN] = [True] * RUN
        total, taken = total + len(words), taken + sum(marked)
    return taken / total if total else None


@lru_cache(maxsize=1024)
def _known_runs(passage: str) -> frozenset[tuple[str, ...]]:
    """Return the runs of a passage, which many answers are held against."""
    return frozenset(_runs(_words(passage)))


def _words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]


def _runs(words: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(words[at : at + RUN]) for at in range(max(0, len(words) - RUN + 1))]
