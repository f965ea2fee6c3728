"""The difference of one metric between two sides on the same rows, and what it shows.

Clusters are resampled (interval, p of the bootstrap) and their labels swapped (p of the permutation)
for both sides together. `Difference.is_shown` is the one rule for what is more than chance.
"""

import numpy as np

from evals.intervals import Floats, is_point, percentile_interval
from evals.measures import LOWER_IS_BETTER, MEASURES, Tally
from evals.report import CONSTANT
from evals.schema import Metric, Share
from evals.significance import ALPHA, Swaps, bootstrap_p, permutation_p
from evals.spread import interval_note


class Difference(Metric):
    """metric(second) - metric(first) with its 95 % interval and its p-values.

    `n` is the smaller number of rows that either side's metric is over. `p_permutation` is exact if
    `is_exact`. `p_holm` is `p_permutation` corrected for every difference that was asked for at once.
    `p_mcnemar` takes rows for independent and stands beside accuracy only. None where undefined. The
    ECE has no p: its difference and interval are for reading (`evals.measures.Measure.is_tested`).
    """

    metric: str
    first: float | None
    second: float | None
    p_bootstrap: Share | None = None
    p_permutation: Share | None = None
    is_exact: bool = False
    p_holm: Share | None = None
    p_mcnemar: Share | None = None

    @property
    def excludes_zero(self) -> bool:
        """Return whether the interval lies on one side of zero."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    @property
    def is_tested(self) -> bool:
        """Return whether a p can tell if this metric's difference is more than chance."""
        return MEASURES[self.metric].is_tested

    @property
    def is_shown(self) -> bool:
        """Return whether the difference is more than chance: by interval and by corrected p."""
        tested = self.is_tested and self.excludes_zero
        return tested and self.p_holm is not None and self.p_holm < ALPHA

    @property
    def is_better(self) -> bool:
        """Return whether the second side has the better value; a difference of 0 is not better."""
        if self.value is None:
            return False
        return self.value < 0 if self.metric in LOWER_IS_BETTER else self.value > 0


class Resampled:
    """A tally with its bootstrap draws; every metric is computed once."""

    def __init__(self, table: Tally, draws: int, seed: int) -> None:
        self.table = table
        self._totals = table.drawn(draws, seed)
        self._drawn: dict[str, Floats] = {}

    def value(self, name: str) -> float | None:
        """Return a metric of the rows as they are, None where it is undefined."""
        value = float(self.table.metric(name, self.table.totals())[0])
        return None if np.isnan(value) else value

    def drawn(self, name: str) -> Floats:
        """Return a metric of every draw, nan where it is undefined."""
        if name not in self._drawn:
            self._drawn[name] = self.table.metric(name, self._totals)
        return self._drawn[name]


def difference(name: str, first: Resampled, second: Resampled) -> Difference:
    """Return one metric's difference between two sides that were resampled alike, with its interval."""
    before, after = first.value(name), second.value(name)
    n = min(first.table.n(name), second.table.n(name))
    bare = Difference(metric=name, n=n, first=before, second=after, value=None)
    if before is None or after is None:
        sides = (("first", before), ("second", after))
        which = " and ".join(f"the {order} side" for order, value in sides if value is None)
        return bare.model_copy(update={"note": f"{which}: {MEASURES[name].undefined}"})
    apart = second.drawn(name) - first.drawn(name)
    span = percentile_interval(apart)
    if span is None or is_point(span):
        return bare.model_copy(update={"value": after - before, "note": CONSTANT})
    found: dict[str, object] = {"value": after - before, "low": span[0], "high": span[1]}
    found["note"] = interval_note(apart, len(first.table.clusters))
    found["p_bootstrap"] = bootstrap_p(apart) if MEASURES[name].is_tested else None
    return bare.model_copy(update=found)


def with_permutation(found: Difference, first: Tally, second: Tally, arranged: Swaps) -> Difference:
    """Return the difference with its p if the labels of each cluster could as well be the other way.

    Both must have been tallied with the same cells. Exact for the null hypothesis that the two
    sides' answers to a cluster are exchangeable.
    """
    moved = arranged.moved(second.sums - first.sums)
    before, after = first.totals(), second.totals()
    name = found.metric
    observed = second.metric(name, after) - first.metric(name, before)
    swapped = second.metric(name, after - moved) - first.metric(name, before + moved)
    p = permutation_p(float(observed[0]), swapped, arranged.is_exact)
    return found.model_copy(update={"p_permutation": p, "is_exact": arranged.is_exact})
