"""What shows a reward being gamed: figures of one answer and their means over a step.

None of them enters the reward. A figure that does not apply to an answer is None and stays out of means.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import fsum, sqrt
from statistics import fmean

from evals.refiner.copying import copied
from evals.refiner.grammar import WORD
from evals.refiner.heuristic import support_by_words
from evals.refiner.judging import Verdicts
from evals.refiner.rubric import share, value
from evals.refiner.score import Prepared, Settled

Figures = Mapping[str, float | None]


def figures_of(prepared: Prepared, verdicts: Verdicts | None, settled: Settled) -> Figures:
    """Return the figures of one answer by the name they are logged under."""
    reading = prepared.reading
    ids = [name for claim in reading.claims for name in claim.ids]
    texts = [part.text for part in (*reading.claims, *reading.uncited)]
    return {
        "answer/words": float(sum(len(WORD.findall(text)) for text in texts)),
        "answer/claims": float(len(reading.claims)),
        "answer/ids_per_claim": len(ids) / len(reading.claims) if reading.claims else None,
        "answer/unknown_ids": (
            sum(name not in prepared.evidence for name in ids) / len(ids) if ids else None
        ),
        "answer/copied": copied(texts, prepared.evidence),
        "score/format": prepared.bonus,
        "score/rubric": settled.rubric,
        "score/citation_f1": settled.citation.f1,
        "score/from_negatives": from_negatives(prepared, verdicts),
        "judge/over_words": over_words(prepared, verdicts),
        "judge/apart": fmean(verdicts.apart) if verdicts is not None and verdicts.apart else None,
        "judge/canary": None if verdicts is None or verdicts.canary is None
        else float(verdicts.canary > 0),
    }  # fmt: skip


def means(rows: Iterable[Figures]) -> dict[str, float]:
    """Return the mean of each figure over the answers that it applies to; what applies to none is left out."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, each in row.items():
            if each is not None:
                columns.setdefault(name, []).append(each)
    return {name: fmean(column) for name, column in columns.items()}


def from_negatives(prepared: Prepared, verdicts: Verdicts | None) -> float | None:
    """Return the share of the rubric score that is earned by what an answer does not do."""
    if verdicts is None or any(raw is None for raw in verdicts.raws):
        return None
    earned = {"positive": 0.0, "negative": 0.0}
    for item, raw in zip(prepared.items, verdicts.raws, strict=True):
        got = value(item, share(raw, prepared.config.score_scale))
        earned[item.polarity] += item.weight * (got or 0.0)
    total = sum(earned.values())
    return earned["negative"] / total if total else None


def over_words(prepared: Prepared, verdicts: Verdicts | None) -> float | None:
    """Return how much more support the judge sees for the claims than a comparison of words, -1..1."""
    if verdicts is None:
        return None
    gaps = [
        got - support_by_words(claim.text, [prepared.evidence[name] for name in ids])
        for claim, ids, got in zip(
            prepared.reading.claims, prepared.cited, verdicts.support, strict=True
        )
        if ids and got is not None
    ]
    return fmean(gaps) if gaps else None


def group_spread(rows: Mapping[str, Mapping[str, Sequence[float]]]) -> float | None:
    """Return the mean standard deviation of an item's scores inside a group; None without a group."""
    spreads = [
        spread(scores) for items in rows.values() for scores in items.values() if len(scores) > 1
    ]
    return fmean(spreads) if spreads else None


def spread(scores: Sequence[float]) -> float:
    """Return the standard deviation with n; ten times as fast as `statistics.pstdev`, which is exact."""
    mean = fmean(scores)
    return sqrt(fsum((score - mean) ** 2 for score in scores) / len(scores))
