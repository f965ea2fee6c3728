"""How an answer may name a gene set or a tissue."""

import re
from functools import lru_cache

from evals.facts import pathway_names
from evals.plain import plain
from evals.verifiers.lexicon import MUSCLES

WORD = re.compile(r"[^\W_]+")


def pathway_phrases() -> list[tuple[tuple[str, ...], str]]:
    """Return (words, Hallmark id) for the id, the readable name and the synonyms of every set."""
    return [
        (words(name), pathway)
        for pathway, names in pathway_names().items()
        for name in (pathway.removeprefix("HALLMARK_"), *names)
    ]


def words(name: str) -> tuple[str, ...]:
    """Return the words of a name as they come out of an answer: "NF-κB" -> ("nf", "kb")."""
    return tuple(WORD.findall(plain(name).text))


@lru_cache(maxsize=256)
def readable(pathway: str) -> str:
    """Return the name people know a gene set by; an id that we do not hold is spelled out."""
    known = pathway_names().get(pathway)
    return known[0] if known else pathway.removeprefix("HALLMARK_").replace("_", " ").lower()


def same_tissue(named: str, asked: str) -> bool:
    """Say whether a tissue named in an answer means the one that was asked about."""
    return named == asked.lower() or (named == "muscle" and asked.lower() in MUSCLES)
