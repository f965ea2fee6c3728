"""How far a score would move if other papers had been reviewed, and whether two systems differ.

Articles are resampled with replacement and all counts pooled anew (percentile intervals); between two
systems each article's counts change sides: all arrangements for up to 16 articles that differ, else a
seeded sample of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.concerns.counts import f1_of, ratio
from evals.intervals import Floats, Interval, Units, is_point, percentile_interval, resample
from evals.schema.record import Record, Share
from evals.significance import Swaps, bootstrap_p, permutation_p

DRAWS = 1000
EXACT_UP_TO = 16
SAMPLED = 10_000


def intervals_of(
    table: Floats, permuted: Floats | None, draws: int, seed: int
) -> dict[str, Interval | None]:
    """Return 95 % intervals of pooled rates from the counts of articles (articles, 6).

    `permuted` (articles,) are matches by chance, for the interval of F1 above them. None where an
    interval is a point: then resampling showed no spread, which is no certainty.
    """
    columns = table if permuted is None else np.column_stack([table, permuted])
    units = Units(np.ones(len(table), dtype=np.intp), np.arange(len(table)))

    def measure(weights: Floats) -> dict[str, Floats]:
        sums = (weights @ columns).T
        f1 = f1_of(sums[0], sums[1], sums[2])
        found = {
            "recall": ratio(sums[0], sums[1]),
            "precision": ratio(sums[0], sums[2]),
            "f1": f1,
            "recall_major": ratio(sums[4], sums[5]),
        }
        if permuted is not None:
            found["f1_above_permuted"] = f1 - f1_of(sums[6], sums[1], sums[2])
        return found

    spans = {
        name: percentile_interval(values)
        for name, values in resample(measure, units, draws, seed).items()
    }
    return {name: None if span is None or is_point(span) else span for name, span in spans.items()}


class PairedTest(Record):
    """One rate of two systems on the same articles: second minus first, its interval and its p.

    `n_informative` articles differ between the two; None where none does, and p is 1.
    """

    metric: str
    first: float
    second: float
    difference: float
    interval: tuple[float, float] | None
    p_permutation: Share
    p_bootstrap: Share
    is_exact: bool
    n_informative: int
    n_articles: int


@dataclass(frozen=True)
class Paired:
    """Counts of two systems on the same articles in the same order, shape (articles, 6).

    A seventh column, matches on permuted papers, allows "f1_above_permuted" too.
    """

    first: Floats
    second: Floats

    def test(self, metric: str, draws: int = DRAWS, seed: int = 0) -> PairedTest:
        """Return the difference of one of "precision", "recall", "f1", "recall_major", or above permuted."""
        informative = np.flatnonzero((self.first != self.second).any(axis=1))
        before, after = (
            float(_rate(metric, side.sum(axis=0)[None])[0]) for side in (self.first, self.second)
        )
        spread = self._drawn(metric, draws, seed)
        span = percentile_interval(spread)
        p, is_exact = self._permuted(metric, informative, after - before, seed)
        return PairedTest(
            metric=metric,
            first=before,
            second=after,
            difference=after - before,
            interval=None if span is None or is_point(span) else span,
            p_permutation=p,
            p_bootstrap=bootstrap_p(spread),
            is_exact=is_exact,
            n_informative=len(informative),
            n_articles=len(self.first),
        )

    def _drawn(self, metric: str, draws: int, seed: int) -> Floats:
        units = Units(np.ones(len(self.first), dtype=np.intp), np.arange(len(self.first)))

        def measure(weights: Floats) -> dict[str, Floats]:
            return {
                metric: _rate(metric, weights @ self.second) - _rate(metric, weights @ self.first)
            }

        return resample(measure, units, draws, seed)[metric]

    def _permuted(
        self, metric: str, informative: np.ndarray, observed: float, seed: int
    ) -> tuple[float, bool]:
        if not len(informative):
            return 1.0, True
        n = len(informative)
        swaps = Swaps(n, 2**n if n <= EXACT_UP_TO else SAMPLED, seed)
        moved = swaps.moved((self.second - self.first)[informative])
        swapped = _rate(metric, self.second.sum(axis=0) - moved) - _rate(
            metric, self.first.sum(axis=0) + moved
        )
        is_exact = n <= EXACT_UP_TO
        return permutation_p(observed, swapped, is_exact), is_exact


def _rate(metric: str, sums: Floats) -> Floats:
    """Return one rate of pooled counts, shape (draws, 6 or 7) -> (draws,)."""
    matched, human, predicted = sums[:, 0], sums[:, 1], sums[:, 2]
    if metric == "f1":
        return f1_of(matched, human, predicted)
    if metric == "f1_above_permuted":
        return f1_of(matched, human, predicted) - f1_of(sums[:, 6], human, predicted)
    if metric == "recall_major":
        return ratio(sums[:, 4], sums[:, 5])
    return ratio(matched, human if metric == "recall" else predicted)


def tests_of(paired: Paired, metrics: Sequence[str], draws: int, seed: int) -> list[PairedTest]:
    """Return one test per metric."""
    return [paired.test(metric, draws, seed) for metric in metrics]
