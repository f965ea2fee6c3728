"""How much of an answer is copied from the passages in long runs of words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from evals.refine.grammar import WORD, Claim, Evidence
from evals.refine.judge import Verdicts
from evals.schema.refiner import RewardConfig


@dataclass(frozen=True, slots=True)
class CitationScores:
    """Three shares 0..1; all None if a verdict that they need is missing."""

    precision: float | None
    recall: float | None
    f1: float | None


NO_SCORES = CitationScores(None, None, None)


def asked_ids(claim: Claim, evidence: Evidence, config: RewardConfig) -> tuple[str, ...]:
    """Return the ids of a claim that a judge is asked about; none if the claim breaks a limit."""
    if broken_limit(claim, config) is not None:
        return ()
    return tuple(name for name in claim.ids if name in evidence)


def broken_limit(claim: Claim, config: RewardConfig) -> str | None:
    """Return which limit a claim breaks, in words; None if it keeps to both."""
    most_ids, most_words = config.max_ids_per_claim, config.max_words_per_claim
    if most_ids and len(claim.ids) > most_ids:
        return f"cites {len(claim.ids)} ids, more than {most_ids}"
    if most_words and len(WORD.findall(claim.text)) > most_words:
        return f"has more than {most_words} words"
    return None


def citation_scores(
    claims: Sequence[Claim],
    cited: Sequence[Sequence[str]],
    verdicts: Verdicts,
    sources: Mapping[str, str] | None,
    answerable: bool,
) -> CitationScores:
    """Return precision, recall and F1; `sources` counts per document instead of per snippet.

    `cited` are the ids that were asked about, claim by claim.
    """
    support = [got if ids else 0.0 for got, ids in zip(verdicts.support, cited, strict=True)]
    relevance = [
        _relevance(claim, dict(zip(ids, got, strict=True)), sources)
        for claim, ids, got in zip(claims, cited, verdicts.relevance, strict=True)
    ]
    needed = (*support, *verdicts.needs, *(each for row in relevance for each in row))
    if any(each is None for each in needed):
        return NO_SCORES
    need = math.fsum(each or 0.0 for each in verdicts.needs)
    if not claims and not need:
        score = 0.0 if answerable else 1.0
        return CitationScores(score, score, score)
    cells = [each or 0.0 for row in relevance for each in row]
    precision = math.fsum(cells) / len(cells) if cells else 0.0
    recall = math.fsum(each or 0.0 for each in support) / (len(claims) + need)
    both = precision + recall
    return CitationScores(precision, recall, 2 * precision * recall / both if both else 0.0)


def _relevance(claim: Claim, got: Mapping[str, float | None], sources: Mapping[str, str] | None) -> list[float | None]:
    """Return the relevance of each attribution of a claim; unknown ids and ids not asked about have 0.

    Counted per document, a document is as relevant as its best snippet.
    """
    if sources is None:
        return [got.get(name, 0.0) for name in claim.ids]
    best: dict[str, float | None] = {}
    for name in claim.ids:
        document, now = sources.get(name, name), got.get(name, 0.0)
        before = best.get(document, 0.0)
        best[document] = None if now is None or before is None else max(now, before)
    return list(best.values())


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
