"""How far a metric would move if other questions had been asked: its interval, and why it has none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evals.binning import Settings
from evals.intervals import (
    Floats,
    Interval,
    Measure,
    bca_interval,
    is_point,
    jackknife,
    percentile_interval,
    resample,
    wilson,
)
from evals.reliability import Sample
from evals.scores import OVERCONFIDENT, UNDERCONFIDENT

SHARES: Mapping[str, Callable[[Floats], npt.NDArray[np.bool_]]] = {
    "mean_accuracy": lambda c: c >= 0,
    "overconfidence_rate": lambda c: c > OVERCONFIDENT,
    "underconfidence_rate": lambda c: c < UNDERCONFIDENT,
}
"""Metrics that are shares, and the rows they are shares of."""
UNDEFINED = {
    "auroc": "undefined: it needs correct and wrong rows",
    "overconfidence_rate": f"undefined: no confidence is above {OVERCONFIDENT}",
    "underconfidence_rate": f"undefined: no confidence is below {UNDERCONFIDENT}",
}
NO_SPREAD = "the same in (nearly) every draw that is defined: resampling shows no spread"
FEW = 10
"""Clusters below which a bootstrap interval is too narrow to be taken at its word."""
NO_BCA = "no BCa interval: draws on one side only, or undefined without some cluster"


@dataclass(frozen=True)
class Spread:
    """Every metric of a sample as it is, in each draw, and (for BCa) with each unit left out."""

    sample: Sample
    whole: Mapping[str, Floats]
    drawn: Mapping[str, Floats]
    left_out: Mapping[str, Floats] | None

    def interval(self, name: str) -> Interval | None:
        """Return the bootstrap interval, None where there is none or it is a point."""
        span = self._span(name)
        return None if span is None or is_point(span) else span

    def reported(self, name: str) -> tuple[Interval | None, str | None]:
        """Return the interval of a metric, and what a reader must know about it or its absence."""
        values, value = self.drawn[name], float(self.whole[name][0])
        if np.isnan(value):
            return None, UNDEFINED.get(name, "undefined for these rows")
        if np.isnan(values).all() or is_point((float(np.nanmin(values)), float(np.nanmax(values)))):
            return self._without_spread(name, value)
        span = self._span(name)
        if span is None:
            return None, NO_BCA
        if is_point(span):
            return self._without_spread(name, value)
        return span, interval_note(values, self.sample.units.n)

    def _span(self, name: str) -> Interval | None:
        if self.left_out is None:
            return percentile_interval(self.drawn[name])
        return bca_interval(float(self.whole[name][0]), self.drawn[name], self.left_out[name])

    def _without_spread(self, name: str, value: float) -> tuple[Interval | None, str]:
        """Return Wilson's interval of a share that is 0 or 1 in every draw, none for the rest."""
        if name in SHARES and value in (0.0, 1.0):
            n = self.sample.units.holding(SHARES[name](self.sample.c))
            return wilson(value * n, n), f"{NO_SPREAD}: Wilson interval over {n} clusters"
        return None, NO_SPREAD


def interval_note(drawn: Floats, n_clusters: int) -> str | None:
    """Return what a reader must know about a bootstrap interval: draws lost, too few clusters.

    interval_note(array([0.5, nan]), 9)  ->  "undefined in 50.0 % of the draws, left out; from 9 ..."
    """
    lost, told = float(np.isnan(drawn).mean()), []
    if lost:
        told.append(f"undefined in {100 * lost:.1f} % of the draws, left out")
    if n_clusters < FEW:
        told.append(f"from {n_clusters} clusters: the interval is too narrow")
    return "; ".join(told) or None


def spread_of(sample: Sample, measure: Measure, settings: Settings) -> Spread:
    """Return every metric of a sample with its draws; the jackknife is taken for BCa only."""
    return Spread(
        sample=sample,
        whole=measure(sample.units.whole()),
        drawn=resample(measure, sample.units, settings.draws, settings.seed),
        left_out=jackknife(measure, sample.units) if settings.interval == "bca" else None,
    )
