"""Confidences in bins: the reliability diagram, and how large its error is by chance alone."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from evals.errors import BadConfig
from evals.intervals import CELLS, DRAWS, Floats, Interval, wilson
from evals.schema import Record

Binning = Literal["width", "mass"]


@dataclass(frozen=True)
class Settings:
    """How confidences are binned and how many draws an interval takes."""

    bins: int = 10
    binning: Binning = "width"
    draws: int = DRAWS
    seed: int = 0


class Bin(Record):
    """One bar of a reliability diagram; None where the bin is empty. `interval` is Wilson's."""

    lower: float
    upper: float
    n: int
    confidence: float | None
    accuracy: float | None
    gap: float | None
    interval: Interval | None


class NullEce(Record):
    """The ECE that a perfectly calibrated model with these confidences would show by chance."""

    mean: float
    q95: float


def bin_edges(c: Floats, settings: Settings) -> Floats:
    """Return the inner edges of the bins.

    "width": i/bins in double precision, so 0.3 falls into the third of ten bins (3 * 0.1 > 0.3).
    "mass": quantiles; equal confidences stay together, so there may be fewer bins.
    """
    if settings.binning == "width":
        return np.arange(1, settings.bins, dtype=np.float64) * (1 / settings.bins)
    inner = np.quantile(c, np.arange(1, settings.bins) / settings.bins)
    return np.unique(inner[(inner > c.min()) & (inner <= c.max())])


def null_ece(c: Floats, edges: Floats, settings: Settings) -> NullEce:
    """Return mean and 95th percentile of the ECE if every row were correct with probability c."""
    generator = np.random.default_rng(settings.seed)
    onehot = membership(c, edges)
    step = max(1, CELLS // len(c))
    parts = []
    for start in range(0, settings.draws, step):
        outcomes = generator.random((min(step, settings.draws - start), len(c))) < c
        parts.append(np.abs((outcomes - c) @ onehot).sum(axis=1) / len(c))
    values = np.concatenate(parts)
    return NullEce(mean=float(values.mean()), q95=float(np.quantile(values, 0.95)))


def reliability_bins(c: Floats, y: Floats, edges: Floats) -> tuple[Bin, ...]:
    """Return every bin with its Wilson interval, the empty ones included."""
    bounds = [0.0, *edges.tolist(), 1.0]
    place = np.searchsorted(edges, c, side="right")
    bins = []
    for index, (lower, upper) in enumerate(pairwise(bounds)):
        here = place == index
        n, right = int(here.sum()), int(y[here].sum())
        confidence = float(c[here].mean()) if n else None
        accuracy = right / n if n else None
        gap = None if confidence is None or accuracy is None else abs(accuracy - confidence)
        bins.append(
            Bin(
                lower=lower,
                upper=upper,
                n=n,
                confidence=confidence,
                accuracy=accuracy,
                gap=gap,
                interval=wilson(right, n),
            )
        )
    return tuple(bins)


def membership(c: Floats, edges: Floats) -> Floats:
    """Return which bin each confidence is in, as 0 and 1 of shape (n, bins)."""
    return np.eye(len(edges) + 1)[np.searchsorted(edges, c, side="right")]


def check_settings(settings: Settings) -> None:
    """Return if the settings make sense; BadConfig says which do not."""
    if settings.bins < 1:
        raise BadConfig(f"the number of bins must be 1 or more, found {settings.bins}; 10 is usual")
    if settings.binning not in ("width", "mass"):
        raise BadConfig(f"binning must be width or mass, found {settings.binning!r}")
    if settings.draws < 1:
        raise BadConfig(f"an interval needs draws, found {settings.draws}; 10000 is usual")
