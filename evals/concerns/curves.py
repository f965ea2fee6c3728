"""Precision and recall over thresholds and over list lengths: what one number hides."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evals.concerns.controls import Rule, permuted
from evals.concerns.counts import counts_of, rates_of
from evals.concerns.match import Matching, match
from evals.concerns.panel import Lists, Panel
from evals.concerns.similarity import Similarity
from evals.schema.reviewscores import CurvePoint, Curves

THRESHOLDS = 9
LENGTHS = (1, 3, 5, 8, 10, 12, 15, 20, 30)
ROUNDS = 2
"""Rounds of permuting at each point."""


class Shortened:
    """Similarities of the first concerns of each list."""

    def __init__(self, whole: Similarity, length: int) -> None:
        self._whole = whole
        self._length = length
        self.is_crossing = whole.is_crossing

    def block(self, predicted: int, human: int) -> np.ndarray:
        """Return the first rows of a block."""
        return self._whole.block(predicted, human)[: self._length]


def curves_of(
    panel: Panel, similarity: Similarity, rule: Rule, found: Matching, seed: int
) -> Curves:
    """Return the score over thresholds around those that matter, and over caps on list length."""
    return Curves(
        thresholds=tuple(
            _point(panel, similarity, Rule(each, rule.assignment), each, seed)
            for each in thresholds_of(found, rule.threshold)
        ),
        lengths=tuple(
            _point(first(panel, n), Shortened(similarity, n), rule, n, seed)
            for n in lengths_of(panel)
        ),
    )


def thresholds_of(found: Matching, used: float) -> list[float]:
    """Return thresholds at which between all and few best similarities pass, and the one in use."""
    best = found.best[~np.isnan(found.best)]
    shares = np.linspace(0.0, 0.95, THRESHOLDS - 1)
    spread = [round(float(each), 4) for each in np.quantile(best, shares)] if len(best) else []
    return sorted({*spread, round(used, 4)})


def lengths_of(panel: Panel) -> list[int]:
    """Return the caps that change something, and the length of the longest list."""
    longest = int(panel.predicted.sizes.max(initial=0))
    return [n for n in LENGTHS if n < longest] + ([longest] if longest else [])


def first(panel: Panel, length: int) -> Panel:
    """Return a panel with only the first concerns of each predicted list."""
    lists = panel.predicted
    place = np.arange(len(lists.texts)) - np.repeat(lists.start[:-1], lists.sizes)
    kept = np.flatnonzero(place < length)
    shorter = Lists(
        texts=tuple(lists.texts[i] for i in kept.tolist()),
        start=np.concatenate([[0], np.cumsum(np.minimum(lists.sizes, length))]).astype(np.intp),
        category=lists.category[kept],
        severity=lists.severity[kept],
        place=lists.place[kept],
    )
    return replace(panel, predicted=shorter)


def _point(panel: Panel, similarity: Similarity, rule: Rule, at: float, seed: int) -> CurvePoint:
    found = match(panel, similarity, rule.threshold, rule.assignment)
    rates = rates_of(counts_of(panel, found).table.sum(axis=0), len(panel.article_ids))
    by_chance = permuted(panel, similarity, rule, ROUNDS, seed)
    return CurvePoint(
        at=at,
        precision=rates.precision,
        recall=rates.recall,
        f1=rates.f1,
        f1_permuted=None if by_chance is None else by_chance.control.f1,
        n_predicted=round(rates.n_predicted),
    )


def best_length(points: Sequence[CurvePoint]) -> CurvePoint | None:
    """Return the point with the greatest F1 above its permuted control, None where there is none."""
    known = [point for point in points if point.f1_permuted is not None]
    return max(known, key=lambda point: point.f1 - (point.f1_permuted or 0.0), default=None)
