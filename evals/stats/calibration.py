"""Does a stated confidence mean what it says? Every metric over (confidence, correct) pairs.

Rows without a confidence are counted apart and enter no metric; without any row that has one, every
metric is None and `note` says so. docs/calibration.md explains each metric, with formula and source.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evals.errors import BadConfig
from evals.schema import Record
from evals.stats.intervals import (
    CELLS,
    DRAWS,
    LEVEL,
    Floats,
    Interval,
    IntervalKind,
    Measure,
    Units,
    Whole,
    bca_interval,
    is_point,
    jackknife,
    percentile_interval,
    resample,
    wilson,
)
from evals.stats.scores import (
    OVERCONFIDENT,
    UNDERCONFIDENT,
    RiskPoint,
    aurc,
    auroc,
    base_rate_brier,
    brier,
    log_loss,
    mean_accuracy,
    mean_confidence,
    optimal_aurc,
    overconfidence_rate,
    ratio,
    risk_coverage,
    smooth_ece,
    underconfidence_rate,
)

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
        gaps = np.divide(np.abs(self.y - self.c), self.mass, out=np.zeros_like(self.c), where=self.mass > 0)
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


def reliability_bins(sample: Sample, edges: Floats, interval_of: Callable[[int], Interval | None]) -> tuple[Bin, ...]:
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


class Method(Record):
    """How metrics were binned and intervals made: the same method gives the same figures again."""

    bins: int
    binning: str
    interval: str
    level: float
    draws: int
    seed: int


class Calibration(Record):
    """How well stated confidences match outcomes. Everything is over the rows with a confidence.

    `n` counts all rows, `n_clusters` the clusters that hold a row with a confidence. A metric that
    has no interval, or one that was made otherwise, has a sentence in `interval_notes`.
    """

    n: int
    n_missing_confidence: int
    n_clusters: int = 0
    ece: float | None = None
    mce: float | None = None
    smece: float | None = None
    brier: float | None = None
    brier_reliability: float | None = None
    brier_resolution: float | None = None
    brier_uncertainty: float | None = None
    brier_within_variance: float | None = None
    brier_within_covariance: float | None = None
    base_rate_brier: float | None = None
    log_loss: float | None = None
    auroc: float | None = None
    aurc: float | None = None
    aurc_optimal: float | None = None
    e_aurc: float | None = None
    overconfidence_rate: float | None = None
    underconfidence_rate: float | None = None
    mean_confidence: float | None = None
    mean_accuracy: float | None = None
    ece_if_calibrated: NullEce | None = None
    ece_if_dependent: NullEce | None = None
    intervals: dict[str, Interval] = Field(default_factory=dict)
    interval_notes: dict[str, str] = Field(default_factory=dict)
    bins: tuple[Bin, ...] = ()
    risk_coverage: tuple[RiskPoint, ...] = ()
    method: Method | None = None
    note: str | None = None


def calibrate(
    confidence: Sequence[float | None],
    correct: Sequence[bool],
    clusters: Sequence[str] | None = None,
    settings: Settings | None = None,
) -> Calibration:
    """Return all calibration metrics; rows whose confidence is None are only counted.

    `clusters` names what each row belongs to (None: every row is its own). BadConfig for settings
    that make no sense; ValueError for a confidence outside 0..1 or lists of different length.
    """
    settings = settings or Settings()
    check_settings(settings)
    names = [str(i) for i in range(len(correct))] if clusters is None else list(clusters)
    stated = [
        (value, outcome, name)
        for value, outcome, name in zip(confidence, correct, names, strict=True)
        if value is not None
    ]
    missing = len(correct) - len(stated)
    if not stated:
        note = "no row states a confidence" if missing else "no rows"
        return Calibration(n=len(correct), n_missing_confidence=missing, note=note)
    c = np.array([value for value, _, _ in stated], dtype=np.float64)
    y = np.array([outcome for _, outcome, _ in stated], dtype=np.float64)
    inside = (c >= 0) & (c <= 1)
    if not inside.all():
        raise ValueError(f"a confidence is a share 0..1, found {c[~inside][0]}")
    sample = Sample.of(c, y, [name for _, _, name in stated])
    return _measured(sample, bin_edges(c, settings), settings).model_copy(
        update={"n": len(correct), "n_missing_confidence": missing}
    )


def measure(c: Floats, y: Floats, w: Floats, edges: Floats) -> dict[str, Floats]:
    """Return every metric by name for weights (draws, rows), nan where it is undefined.

    `edges` are the inner edges of the bins. Weights count rows: whole numbers.
    """
    return _measure(c, y, w, bin_sums(c, y, w, edges))


def _measured(sample: Sample, edges: Floats, settings: Settings) -> Calibration:
    """Return the calibration of a sample; who calls fills in how many rows there were at first."""
    c, y, whole = sample.c, sample.y, sample.units.whole()
    columns = {place: i for i, place in enumerate(np.unique(places(c, edges)).tolist())}

    def in_draws(w: Floats) -> dict[str, Floats]:
        binned = bin_sums(c, y, w, edges)
        shares = binned.accuracy().T if sample.is_clustered else ()
        return _measure(c, y, w, binned) | {_bin(i): each for i, each in enumerate(shares)}

    spread = spread_of(sample, in_draws, settings)
    values = measure(c, y, whole, edges)
    reported = {name: spread.reported(name) for name in values}
    return Calibration(
        n=sample.n,
        n_missing_confidence=0,
        n_clusters=sample.units.n,
        ece_if_calibrated=null_ece(np.repeat(c, whole[0].astype(int)), edges, settings),
        ece_if_dependent=(null_ece_together(c, sample.units, edges, settings) if sample.is_clustered else None),
        intervals={name: span for name, (span, _) in reported.items() if span is not None},
        interval_notes={name: note for name, (_, note) in reported.items() if note is not None},
        bins=reliability_bins(sample, edges, lambda place: spread.interval(_bin(columns[place]))),
        risk_coverage=risk_coverage(c, y, whole),
        method=Method(
            bins=settings.bins,
            binning=settings.binning,
            interval=settings.interval,
            level=LEVEL,
            draws=settings.draws,
            seed=settings.seed,
        ),
    ).model_copy(update={name: _number(value) for name, value in values.items()})


def _bin(column: int) -> str:
    """Return what the share correct of a bin that holds rows is called among the draws."""
    return f"accuracy of bin {column}"


def _measure(c: Floats, y: Floats, w: Floats, binned: BinSums) -> dict[str, Floats]:
    parts = binned.brier_parts()
    area, best = aurc(c, y, w), optimal_aurc(c, y, w)
    return {
        "ece": binned.ece(),
        "mce": binned.mce(),
        "smece": smooth_ece(c, y, w),
        "brier": brier(c, y, w),
        "brier_reliability": parts.reliability,
        "brier_resolution": parts.resolution,
        "brier_uncertainty": parts.uncertainty,
        "brier_within_variance": parts.within_variance,
        "brier_within_covariance": parts.within_covariance,
        "base_rate_brier": base_rate_brier(c, y, w),
        "log_loss": log_loss(c, y, w),
        "auroc": auroc(c, y, w),
        "aurc": area,
        "aurc_optimal": best,
        "e_aurc": area - best,
        "overconfidence_rate": overconfidence_rate(c, y, w),
        "underconfidence_rate": underconfidence_rate(c, y, w),
        "mean_confidence": mean_confidence(c, y, w),
        "mean_accuracy": mean_accuracy(c, y, w),
    }


def _number(values: Floats) -> float | None:
    return None if np.isnan(values[0]) else float(values[0])
