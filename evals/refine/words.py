"""What a text talks about, for comparing texts by their words: content words, numbers, directions."""

import re
import tomllib
from functools import lru_cache
from importlib.resources import files

from evals.wording import plain

TOKEN = re.compile(r"-?\d+(?:[.,]\d+)*|[a-z][a-z0-9]*(?:-\d+)?")
_WORDS: dict[str, list[str]] = tomllib.loads(files("evals.refine").joinpath("words.toml").read_text(encoding="utf-8"))
STOP = frozenset(_WORDS["stop"])
CONNECTIVES = frozenset(_WORDS["connectives"])
"""Words that join claims and state nothing by themselves."""
DIRECTIONS = {word: way for way in ("up", "down") for word in _WORDS[way]}
OPPOSITE = {"up": "down", "down": "up"}
NEGATION = re.compile(rf"(?<![\w-])(?:{'|'.join(_WORDS['negations'])})(?!\w)|\w+n['’ʼ`´]t\b", re.IGNORECASE)
PREFIXES = tuple(_WORDS["negative_prefixes"])


@lru_cache(maxsize=4096)
def tokens(text: str) -> tuple[str, ...]:
    """Return the words and numbers of a text in order, directions in one spelling, plurals cut."""
    return tuple(_fold(word) for word in TOKEN.findall(plain(text).text))


@lru_cache(maxsize=4096)
def content(text: str) -> frozenset[str]:
    """Return the words and numbers that carry meaning."""
    return frozenset(word for word in tokens(text) if word not in STOP)


def numbers(words: frozenset[str]) -> frozenset[str]:
    """Return those of the words that are numbers or names with a digit in them."""
    return frozenset(word for word in words if any(letter.isdigit() for letter in word))


def is_opposed(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether one text names a direction and the other only the opposite one."""
    ours, theirs = one & OPPOSITE.keys(), other & OPPOSITE.keys()
    return bool(ours and theirs) and not ours & theirs


@lru_cache(maxsize=4096)
def is_negated(text: str) -> bool:
    """Return whether a text denies something: "did not kill", "failed to kill", "isn't killed"."""
    return NEGATION.search(text) is not None


def is_prefixed(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether a word of one text is one of the other with a negative prefix: "ineffective" and "effective"."""
    return any(
        word[len(prefix) :] in other
        for word in one - other
        for prefix in PREFIXES
        if word.startswith(prefix) and len(word) - len(prefix) > 3
    )


def holds(words: tuple[str, ...], phrase: tuple[str, ...]) -> bool:
    """Return whether a phrase stands in a text, word by word. The empty phrase stands in none."""
    n = len(phrase)
    return bool(n) and any(words[at : at + n] == phrase for at in range(len(words) - n + 1))


def _fold(word: str) -> str:
    if word in DIRECTIONS:
        return DIRECTIONS[word]
    if word[0].isdigit() or word[0] == "-":
        return word.replace(",", "") if "." not in word else word
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
