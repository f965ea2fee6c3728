"""Confidences in bins: calibration error, the parts of the Brier score, and the reliability diagram.

Sources: ECE and MCE, Naeini et al. 2015; the three parts of the Brier score, Murphy 1973, and the two
that bins add to them, Stephenson, Coelho and Jolliffe 2008.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evals.errors import BadConfig
from evals.intervals import CELLS, DRAWS, Floats, IntervalKind, Units, Whole
from evals.schema import Record
from evals.scores import ratio

Binning = Literal["width", "mass"]


@dataclass(frozen=True)
class Settings:
    """How confidences are binned, and how intervals are made."""

    bins: int = 10
    binning: Binning = "width"
    draws: int = DRAWS
    seed: int = 0
    interval: IntervalKind = "percentile"


class NullEce(Record):
    """The ECE that a perfectly calibrated model with these confidences would show by chance."""

    mean: float
    q95: float


@dataclass(frozen=True)
class BrierParts:
    """The Brier score is reliability - resolution + uncertainty + variance - covariance.

    Variance and covariance are those within bins, and 0 where each bin holds one confidence.
    """

    reliability: Floats
    resolution: Floats
    uncertainty: Floats
    within_variance: Floats
    within_covariance: Floats


@dataclass(frozen=True)
class BinSums:
    """The rows of each draw summed by bin, over the bins that hold a row: shape (draws, bins)."""

    mass: Floats
    c: Floats
    y: Floats
    cc: Floats
    cy: Floats

    def accuracy(self) -> Floats:
        """Return the share correct in each bin; nan where a draw has nothing in a bin."""
        return ratio(self.y, self.mass)

    def ece(self) -> Floats:
        """Return the mean gap of the bins, weighted by how many rows they hold."""
        return ratio(np.abs(self.y - self.c).sum(axis=1), self.mass.sum(axis=1))

    def mce(self) -> Floats:
        """Return the largest gap of a bin that holds a row."""
        gaps = np.divide(
            np.abs(self.y - self.c), self.mass, out=np.zeros_like(self.c), where=self.mass > 0
        )
        return np.where(self.mass.sum(axis=1) > 0, gaps.max(axis=1), np.nan)

    def brier_parts(self) -> BrierParts:
        """Return the five parts that make the Brier score."""
        total = self.mass.sum(axis=1)
        base = ratio(self.y.sum(axis=1), total)
        share = 1 / np.where(self.mass > 0, self.mass, 1)  # sums of an empty bin are 0
        spread = self.y - self.mass * base[:, None]
        return BrierParts(
            reliability=ratio(((self.c - self.y) ** 2 * share).sum(axis=1), total),
            resolution=ratio((spread**2 * share).sum(axis=1), total),
            uncertainty=base * (1 - base),
            within_variance=ratio(np.maximum(self.cc - self.c**2 * share, 0).sum(axis=1), total),
            within_covariance=ratio(2 * (self.cy - self.c * self.y * share).sum(axis=1), total),
        )


def bin_sums(c: Floats, y: Floats, w: Floats, edges: Floats) -> BinSums:
    """Return the rows of each draw summed by bin; bins are those between inner `edges`."""
    onehot = membership(c, edges)
    onehot = onehot[:, onehot.any(axis=0)]
    columns = (np.ones_like(c), c, y, c * c, c * y)
    sums = w @ np.concatenate([onehot * column[:, None] for column in columns], axis=1)
    return BinSums(*np.split(sums, len(columns), axis=1))


def ece(c: Floats, y: Floats, w: Floats, edges: Floats) -> Floats:
    """Return the expected calibration error: sum over bins of n_b/n |accuracy_b - confidence_b|."""
    return bin_sums(c, y, w, edges).ece()


def null_ece(c: Floats, edges: Floats, settings: Settings) -> NullEce:
    """Return mean and 95th percentile of the ECE if every row were right with probability c.

    Rows are independent of each other here, whatever clusters they belong to.
    """
    generator = np.random.default_rng(settings.seed)
    level, counts = np.unique(c, return_counts=True)

    def surplus(draws: int) -> Floats:
        return generator.binomial(counts, level, size=(draws, len(level))) - counts * level

    return _null(surplus, membership(level, edges), settings, len(c))


def null_ece_together(c: Floats, units: Units, edges: Floats, settings: Settings) -> NullEce:
    """Return the same if the rows of a cluster went right and wrong together.

    One uniform number u per cluster makes its rows with c > u right: every row is still right with
    probability c, and rows of one cluster depend on each other as much as that allows.
    """
    generator = np.random.default_rng(settings.seed)

    def surplus(draws: int) -> Floats:
        luck = generator.random((draws, len(units.counts)))[:, units.member]
        return (luck < c) - c

    return _null(surplus, membership(c, edges), settings, len(c))


def bin_edges(c: Floats, settings: Settings) -> Floats:
    """Return the inner edges of the bins.

    "width": i/bins in double precision, so 0.3 falls into the third of ten bins (3 * 0.1 > 0.3).
    "mass": quantiles; equal confidences stay together, so there may be fewer bins.
    """
    if settings.binning == "width":
        return np.arange(1, settings.bins, dtype=np.float64) * (1 / settings.bins)
    inner = np.quantile(c, np.arange(1, settings.bins) / settings.bins)
    return np.unique(inner[(inner > c.min()) & (inner <= c.max())])


def places(c: Floats, edges: Floats) -> Whole:
    """Return the number of the bin that each confidence is in; an edge belongs to the bin above."""
    return np.searchsorted(edges, c, side="right")


def membership(c: Floats, edges: Floats) -> Floats:
    """Return which bin each confidence is in, as 0 and 1 of shape (n, bins)."""
    return np.eye(len(edges) + 1)[places(c, edges)]


def check_settings(settings: Settings) -> None:
    """Return if the settings make sense; BadConfig says which do not."""
    if settings.bins < 1:
        raise BadConfig(f"the number of bins must be 1 or more, found {settings.bins}; 10 is usual")
    if settings.binning not in ("width", "mass"):
        raise BadConfig(f"binning must be width or mass, found {settings.binning!r}")
    if settings.draws < 1:
        raise BadConfig(f"an interval needs draws, found {settings.draws}; 10000 is usual")
    if settings.interval not in ("percentile", "bca"):
        raise BadConfig(f"an interval is percentile or bca, found {settings.interval!r}")


def _null(surplus: Callable[[int], Floats], onehot: Floats, settings: Settings, n: int) -> NullEce:
    """Return the ECE of draws whose correct rows exceed the expected by `surplus` (draws, columns)."""
    step = max(1, CELLS // len(onehot))
    parts = [
        np.abs(surplus(min(step, settings.draws - start)) @ onehot).sum(axis=1) / n
        for start in range(0, settings.draws, step)
    ]
    values = np.concatenate(parts)
    return NullEce(mean=float(values.mean()), q95=float(np.quantile(values, 0.95)))
