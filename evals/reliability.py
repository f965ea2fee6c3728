"""The reliability diagram: how often rows are right, bin by bin, each with its interval."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from evals.binning import places
from evals.intervals import Floats, Interval, Units, wilson
from evals.schema import Record

BinInterval = Literal["wilson", "bootstrap", "wilson over clusters"]


class Bin(Record):
    """One bar of a reliability diagram; None where the bin is empty.

    `interval` is of the share correct. `interval_by` says how it was made: "wilson" where rows are
    independent; "bootstrap" over clusters where a cluster has several rows here; "wilson over
    clusters" where those are all right or all wrong, so that resampling would show no spread.
    """

    lower: float
    upper: float
    n: int
    n_clusters: int
    confidence: float | None
    accuracy: float | None
    gap: float | None
    interval: Interval | None
    interval_by: BinInterval | None


@dataclass(frozen=True)
class Sample:
    """Rows that state a confidence, and the units they are drawn in.

    Rows that are alike in every way may stand as one: `units` knows how many there are.
    """

    c: Floats
    y: Floats
    units: Units

    @classmethod
    def of(cls, c: Floats, y: Floats, clusters: list[str]) -> "Sample":
        """Return the sample; rows that are alone in their clusters are counted, not repeated."""
        if len(set(clusters)) < len(clusters):
            return cls(c, y, Units.of(clusters))
        cells, counts = np.unique(np.stack([c, y], axis=1), axis=0, return_counts=True)
        return cls(cells[:, 0], cells[:, 1], Units(counts, np.arange(len(counts))))

    @property
    def is_clustered(self) -> bool:
        """Whether some cluster has several rows."""
        return bool(self.n > self.units.n)

    @property
    def n(self) -> int:
        """How many rows there are."""
        return int(self.units.whole().sum())


def reliability_bins(
    sample: Sample, edges: Floats, interval_of: Callable[[int], Interval | None]
) -> tuple[Bin, ...]:
    """Return every bin, the empty ones included.

    `interval_of` gives the bootstrap interval of the share correct in the bin of that number, None
    where there is none or it has no width; it is asked only where a cluster has several rows in the bin.
    """
    bounds = [0.0, *edges.tolist(), 1.0]
    place = places(sample.c, edges)
    counts = sample.units.whole()[0]
    bins = []
    for index, (lower, upper) in enumerate(pairwise(bounds)):
        here = place == index
        n, clusters = int(counts[here].sum()), sample.units.holding(here)
        right = int((counts * sample.y)[here].sum())
        confidence = float((counts * sample.c)[here].sum()) / n if n else None
        accuracy = right / n if n else None
        gap = None if confidence is None or accuracy is None else abs(accuracy - confidence)
        interval, by = wilson(right, n), "wilson"
        if clusters < n:
            interval, by = interval_of(index), "bootstrap"
            if interval is None and accuracy is not None:
                interval, by = wilson(accuracy * clusters, clusters), "wilson over clusters"
        bins.append(
            Bin(
                lower=lower,
                upper=upper,
                n=n,
                n_clusters=clusters,
                confidence=confidence,
                accuracy=accuracy,
                gap=gap,
                interval=interval,
                interval_by=by if n else None,
            )
        )
    return tuple(bins)
