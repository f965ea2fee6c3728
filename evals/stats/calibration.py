"""Does a stated confidence mean what it says? Every metric over (confidence, correct) pairs.

Rows without a confidence are counted apart and enter no metric; without any row that has one, every
metric is None and `note` says so. docs/calibration.md explains each metric, with formula and source.

The smooth calibration error is an ECE without a choice of bins. Residuals y - c are smoothed over c by a Gaussian of
width s, reflected at 0 and 1; E(s) is the integral of the absolute value, and smECE the width that equals its own error,
E(s) = s (Blasiok and Nakkiran 2023, "Smooth ECE"). The reflected Gaussian is the heat kernel on 0..1: with a_m the
cosine sums of the residuals, the smoothed residual at t is sum over m of a_m exp(-(pi m s)^2 / 2) cos(pi m t).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evals.errors import BadConfig
from evals.schema import Record, Share
from evals.stats.intervals import (
    CELLS,
    DRAWS,
    LEVEL,
    Floats,
    Interval,
    Units,
    Whole,
    is_point,
    percentile_interval,
    resample,
    wilson,
)


class Levels(NamedTuple):
    """Each confidence that occurs, ascending (levels,), and how much weight is right and wrong there (draws, levels)."""

    confidence: Floats
    right: Floats
    wrong: Floats


def levels(c: Floats, y: Floats, w: Floats) -> Levels:
    """Return the rows by level; one row or more."""
    order = np.argsort(c, kind="stable")
    ordered = c[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] > ordered[:-1]]))
    weights = w if (order[1:] > order[:-1]).all() else w[:, order]
    both = np.add.reduceat(weights, starts, axis=1)
    right = np.add.reduceat(weights * y[order], starts, axis=1)
    return Levels(ordered[starts], right, both - right)


OVERCONFIDENT = 0.8
UNDERCONFIDENT = 0.3
TINY = 1e-12
"""The least probability that log loss takes an outcome to have had."""


def mean_confidence(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the mean stated confidence."""
    return weighted_mean(c, w)


def brier(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the mean of (c - y)^2: 0 is best, 0.25 is what "50 %" always gets."""
    return weighted_mean((c - y) ** 2, w)


def base_rate_brier(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the Brier score of always stating the share that is correct."""
    accuracy = weighted_mean(y, w)
    return accuracy * (1 - accuracy)


def log_loss(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the mean of -log(probability given to what happened), natural log, c cut at 1e-12."""
    given = np.clip(np.where(y > 0, c, 1 - c), TINY, 1.0)
    return weighted_mean(-np.log(given), w)


def auroc(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the chance that a correct row has the higher confidence than a wrong one, ties one half.

    nan where a draw holds only correct or only wrong rows.
    """
    by = levels(c, y, w)
    below = np.cumsum(by.wrong, axis=1) - by.wrong
    pairs = by.right.sum(axis=1) * by.wrong.sum(axis=1)
    return ratio_or_nan((by.right * (below + by.wrong / 2)).sum(axis=1), pairs)


def rate(here: npt.NDArray[np.bool_], counted: Floats, w: Floats) -> Floats:
    """Return the share of the rows `here` that is counted, such as wrong ones above 0.8; nan where there are none."""
    return ratio_or_nan(w @ (here * counted), w @ here.astype(np.float64))


def weighted_mean(values: Floats, w: Floats) -> Floats:
    """Return the weighted mean of the rows' values in each draw; nan for a draw without weight."""
    return ratio_or_nan(w @ values, w.sum(axis=1))


def ratio_or_nan(above: Floats, below: Floats) -> Floats:
    """Return above / below, nan where below is not positive."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


class RiskPoint(Record):
    """What happens if only rows that state `threshold` or more are answered."""

    threshold: Share
    coverage: Share
    risk: Share


def risk_coverage(c: Floats, y: Floats, w: Floats) -> tuple[RiskPoint, ...]:
    """Return the curve of one draw (1, rows), from the highest confidence to the lowest.

    There is one point per confidence that occurs: rows that state the same are answered together.
    """
    by = levels(c, y, w)
    wrong = np.cumsum(by.wrong[0, ::-1])
    answered = np.cumsum((by.right + by.wrong)[0, ::-1])
    curve = zip(by.confidence[::-1], answered / answered[-1], wrong / answered, strict=True)
    return tuple(RiskPoint(threshold=float(at), coverage=float(share), risk=float(risk)) for at, share, risk in curve)


def aurc(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the mean risk over the coverages 1/n, ..., 1, rows answered by falling confidence.

    Rows that tie come in random order; the value is the mean over all orders: after N rows with E wrong, a tie of m
    rows, e of them wrong, adds sum over j of (E + j e/m) / (N + j) = (E - N e/m) (H(N + m) - H(N)) + e, with H the
    harmonic numbers. nan for a draw without weight; ValueError for weights that are not whole numbers.
    """
    by = levels(c, y, w)
    wrong = by.wrong[:, ::-1]
    tied = by.right[:, ::-1] + wrong
    answered = np.cumsum(tied, axis=1)
    harmonic = _harmonic(answered)
    before = answered - tied
    share = np.divide(wrong, tied, out=np.zeros_like(wrong), where=tied > 0)
    steps = np.diff(harmonic, axis=1, prepend=0.0)
    excess = np.cumsum(wrong, axis=1) - wrong - before * share
    return ratio_or_nan((excess * steps + wrong).sum(axis=1), answered[:, -1])


def _harmonic(counts: Floats) -> Floats:
    """Return 1 + 1/2 + ... + 1/k for each count k; 0 for 0."""
    whole: Whole = np.rint(counts).astype(np.intp)
    if not np.array_equal(whole, counts):
        raise ValueError("risk and coverage count rows: weights must be whole numbers")
    known = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, whole.max(initial=0) + 1))])
    return known[whole]


FINEST = 2.0**-8
"""No narrower width is tried: below it the smoothed error at this width is the answer."""
DAMPED = 5.5
"""Cosines whose damping exponent passes DAMPED^2 / 2 are left out: less than 3e-7 each."""
HALVINGS = 30


def smooth_ece(c: Floats, y: Floats, w: Floats) -> float:
    """Return smECE of the rows as they are, weights of shape (1, rows), in 0..1, to about 1e-4.

    It never lies below |mean confidence - mean accuracy|, and equals it where all levels of confidence err to the same
    side.
    """
    by = levels(c, y, w)
    at_level = (by.right + by.wrong)[0]
    residual = (by.right[0] - at_level * by.confidence) / at_level.sum()
    order = math.pi * np.arange(math.ceil(DAMPED / (math.pi * FINEST)) + 1)
    sums = residual @ np.cos(np.outer(by.confidence, order))
    sums[1:] *= 2
    points = (np.arange(2 * len(order)) + 0.5) / (2 * len(order))
    cosines = np.cos(np.outer(order, points))

    def error(width: float) -> float:
        return float(np.abs((sums * np.exp(-((width * order) ** 2) / 2)) @ cosines).mean())

    low, high = FINEST, 1.0
    if error(low) <= low:
        return error(low)
    for _ in range(HALVINGS):
        width = (low + high) / 2
        low, high = (width, high) if error(width) > width else (low, width)
    return high


# ---- the calibration of a sample --------------------------------------------------------------

Binning = Literal["width", "mass"]


@dataclass(frozen=True)
class CalibrationSettings:
    """How confidences are binned, and how intervals are made; BadConfig for what makes no sense."""

    bins: int = 10
    binning: Binning = "width"
    draws: int = DRAWS
    seed: int = 0

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise BadConfig(f"the number of bins must be 1 or more, found {self.bins}; 10 is usual")
        if self.binning not in ("width", "mass"):
            raise BadConfig(f"binning must be width or mass, found {self.binning!r}")
        if self.draws < 1:
            raise BadConfig(f"an interval needs draws, found {self.draws}; 10000 is usual")


class NullEce(Record):
    """The ECE that a perfectly calibrated model with these confidences would show by chance."""

    mean: float
    q95: float


# ---- bins ------------------------------------------------------------------------------------


def bin_edges(c: Floats, settings: CalibrationSettings) -> Floats:
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


def bin_sums(c: Floats, y: Floats, w: Floats, edges: Floats) -> list[Floats]:
    """Return n, c, y, c * c and c * y of each draw summed by bin that holds a row, shape (draws, bins) each."""
    onehot = np.eye(len(edges) + 1)[places(c, edges)]
    onehot = onehot[:, onehot.any(axis=0)]
    columns = (np.ones_like(c), c, y, c * c, c * y)
    sums = w @ np.concatenate([onehot * column[:, None] for column in columns], axis=1)
    return np.split(sums, len(columns), axis=1)


def ece(c: Floats, y: Floats, w: Floats, edges: Floats) -> Floats:
    """Return the expected calibration error: sum over bins of n_b/n |accuracy_b - confidence_b|."""
    mass, stated, right, *_ = bin_sums(c, y, w, edges)
    return ratio_or_nan(np.abs(right - stated).sum(axis=1), mass.sum(axis=1))


def null_ece(c: Floats, edges: Floats, settings: CalibrationSettings, units: Units | None = None) -> NullEce:
    """Return mean and 95th percentile of the ECE if every row were right with probability c.

    Rows are independent of each other; with `units`, those of a cluster go right and wrong together: one uniform
    number u per cluster makes its rows with c > u right, so that rows of one cluster depend on each other as much as
    their confidences allow.
    """
    generator = np.random.default_rng(settings.seed)
    level, counts = np.unique(c, return_counts=True)
    onehot = np.eye(len(edges) + 1)[places(level if units is None else c, edges)]

    def surplus(draws: int) -> Floats:
        """Return by how much correct rows exceed the expected, shape (draws, columns)."""
        if units is None:
            return generator.binomial(counts, level, size=(draws, len(level))) - counts * level
        return (generator.random((draws, len(units.counts)))[:, units.member] < c) - c

    step = max(1, CELLS // len(onehot))
    sizes = (min(step, settings.draws - start) for start in range(0, settings.draws, step))
    values = np.concatenate([np.abs(surplus(size) @ onehot).sum(axis=1) / len(c) for size in sizes])
    return NullEce(mean=float(values.mean()), q95=float(np.quantile(values, 0.95)))


BinInterval = Literal["wilson", "bootstrap", "wilson over clusters"]


class Bin(Record):
    """One bar of a reliability diagram; None where the bin is empty.

    `interval` is of the share correct, by Wilson where rows are independent; by bootstrap where a cluster has several
    rows here; by Wilson over clusters where those are all right or all wrong, so that resampling would show no spread.
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


def drawn_rows(c: Floats, y: Floats, clusters: Sequence[str]) -> tuple[Floats, Floats, Units]:
    """Return confidences, outcomes, and the units they are drawn in; rows that are alone in their clusters are counted, not repeated."""
    if len(set(clusters)) < len(clusters):
        return c, y, Units.of(clusters)
    cells, counts = np.unique(np.stack([c, y], axis=1), axis=0, return_counts=True)
    return cells[:, 0], cells[:, 1], Units(counts, np.arange(len(counts)))


def reliability_bins(c: Floats, y: Floats, units: Units, edges: Floats, drawn: Mapping[str, Floats]) -> tuple[Bin, ...]:
    """Return every bin, the empty ones included; `drawn` holds what `measure` gives of bins where clusters have several rows."""
    place, counts = places(c, edges), units.whole()[0]
    filled = np.unique(place).tolist()
    bins = []
    for index, (lower, upper) in enumerate(pairwise([0.0, *edges.tolist(), 1.0])):
        here = place == index
        n, clusters = int(counts[here].sum()), units.holding(here)
        right = int((counts * y)[here].sum())
        confidence = float((counts * c)[here].sum()) / n if n else None
        accuracy = right / n if n else None
        gap = None if confidence is None or accuracy is None else abs(accuracy - confidence)
        interval, by = wilson(right, n), "wilson"
        if clusters < n:
            interval, by = percentile_interval(drawn[f"accuracy of bin {filled.index(index)}"]), "bootstrap"
            if interval is None or is_point(interval):
                interval, by = wilson(right / n * clusters, clusters), "wilson over clusters"
        about = {"lower": lower, "upper": upper, "n": n, "n_clusters": clusters, "confidence": confidence}
        about |= {"accuracy": accuracy, "gap": gap, "interval": interval, "interval_by": by if n else None}
        bins.append(Bin.model_validate(about))
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
NOISIER = "no interval: drawing again adds noise, so draws lie above the value, {:.3f} to {:.3f}"
"""Said of a small ECE; what it means is told by the ECE that chance alone would show."""
NO_DRAWS = "no interval: it is not computed in draws"


def bootstrap_interval(value: float, drawn: Floats, n_clusters: int) -> tuple[Interval | None, str | None]:
    """Return the interval of a metric from its draws, and what a reader must know about it; two times None without spread.

    Drawing rows again adds noise, which raises an error that is never below 0, such as ECE: draws that lie above the value
    itself give no interval.
    """
    span = percentile_interval(drawn)
    if span is None or is_point(span):
        return None, None
    if value < span[0]:
        return None, NOISIER.format(*span)
    return span, interval_note(drawn, n_clusters)


def interval_note(drawn: Floats, n_clusters: int) -> str | None:
    """Return what a reader must know about a bootstrap interval: draws lost, too few clusters."""
    lost, told = float(np.isnan(drawn).mean()), []
    if lost:
        told.append(f"undefined in {100 * lost:.1f} % of the draws, left out")
    if n_clusters < FEW:
        told.append(f"from {n_clusters} clusters: the interval is too narrow")
    return "; ".join(told) or None


class Method(Record):
    """How metrics were binned and intervals made: the same method gives the same figures again."""

    bins: int
    binning: str
    level: float
    draws: int
    seed: int


class Calibration(Record):
    """How well stated confidences match outcomes. Everything is over the rows with a confidence.

    `n` counts all rows, `n_clusters` the clusters that hold a row with a confidence. `interval_notes` says why a metric
    has no interval, or one that was made otherwise.
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
    settings: CalibrationSettings | None = None,
) -> Calibration:
    """Return all calibration metrics; rows whose confidence is None are only counted.

    `clusters` names what each row belongs to (None: every row is its own). ValueError for a confidence outside 0..1
    or lists of different length.
    """
    settings = settings or CalibrationSettings()
    names = [str(i) for i in range(len(correct))] if clusters is None else list(clusters)
    stated = [each for each in zip(confidence, correct, names, strict=True) if each[0] is not None]
    missing = len(correct) - len(stated)
    if not stated:
        note = "no row states a confidence" if missing else "no rows"
        return Calibration(n=len(correct), n_missing_confidence=missing, note=note)
    found, outcomes, groups = zip(*stated, strict=True)
    c, y = np.array(found, dtype=np.float64), np.array(outcomes, dtype=np.float64)
    inside = (c >= 0) & (c <= 1)
    if not inside.all():
        raise ValueError(f"a confidence is a share 0..1, found {c[~inside][0]}")
    edges = bin_edges(c, settings)
    c, y, units = drawn_rows(c, y, groups)
    whole, is_clustered = units.whole(), units.n < len(stated)
    in_draws = partial(measure, c, y, edges=edges, by_bin=is_clustered)
    values, drawn = measure(c, y, whole, edges), resample(in_draws, units, settings.draws, settings.seed)
    reported = {name: _interval_with_note(name, c, units, float(values[name][0]), drawn[name]) for name in values}
    reported["smece"] = None, NO_DRAWS
    return Calibration(
        n=len(correct),
        n_missing_confidence=missing,
        n_clusters=units.n,
        smece=smooth_ece(c, y, whole),
        ece_if_calibrated=null_ece(np.repeat(c, whole[0].astype(int)), edges, settings),
        ece_if_dependent=null_ece(c, edges, settings, units) if is_clustered else None,
        intervals={name: span for name, (span, _) in reported.items() if span is not None},
        interval_notes={name: note for name, (_, note) in reported.items() if note is not None},
        bins=reliability_bins(c, y, units, edges, drawn),
        risk_coverage=risk_coverage(c, y, whole),
        method=Method(**asdict(settings), level=LEVEL),
    ).model_copy(update={name: None if np.isnan(each[0]) else float(each[0]) for name, each in values.items()})


def _interval_with_note(
    name: str, c: Floats, units: Units, value: float, drawn: Floats
) -> tuple[Interval | None, str | None]:
    """Return the interval of a metric, and what a reader must know about it or its absence."""
    if np.isnan(value):
        return None, UNDEFINED.get(name, "undefined for these rows")
    span, note = bootstrap_interval(value, drawn, units.n)
    if span or note:
        return span, note
    if name in SHARES and value in (0.0, 1.0):  # Wilson's interval of a share that is the same in every draw
        n = units.holding(SHARES[name](c))
        return wilson(value * n, n), f"{NO_SPREAD}: Wilson interval over {n} clusters"
    return None, NO_SPREAD


def measure(c: Floats, y: Floats, w: Floats, edges: Floats, *, by_bin: bool = False) -> dict[str, Floats]:
    """Return every metric by name for weights (draws, rows), nan where it is undefined.

    `edges` are the inner edges of the bins; `by_bin` adds the share correct of each that holds a row. Weights are whole
    numbers. The Brier score is reliability - resolution + uncertainty + variance - covariance; the last two are those
    within bins, and 0 where each bin holds one confidence.
    """
    mass, stated, right, cc, cy = bin_sums(c, y, w, edges)
    total = mass.sum(axis=1)
    base = ratio_or_nan(right.sum(axis=1), total)
    each = 1 / np.where(mass > 0, mass, 1)  # sums of an empty bin are 0
    gaps = np.abs(right - stated)
    return {
        "ece": ratio_or_nan(gaps.sum(axis=1), total),
        "mce": np.where(total > 0, np.divide(gaps, mass, out=np.zeros_like(gaps), where=mass > 0).max(axis=1), np.nan),
        "brier": brier(c, y, w),
        "brier_reliability": ratio_or_nan(((stated - right) ** 2 * each).sum(axis=1), total),
        "brier_resolution": ratio_or_nan(((right - mass * base[:, None]) ** 2 * each).sum(axis=1), total),
        "brier_uncertainty": base * (1 - base),
        "brier_within_variance": ratio_or_nan(np.maximum(cc - stated**2 * each, 0).sum(axis=1), total),
        "brier_within_covariance": ratio_or_nan(2 * (cy - stated * right * each).sum(axis=1), total),
        "base_rate_brier": base_rate_brier(c, y, w),
        "log_loss": log_loss(c, y, w),
        "auroc": auroc(c, y, w),
        "aurc": aurc(c, y, w),
        "overconfidence_rate": rate(c > OVERCONFIDENT, 1 - y, w),
        "underconfidence_rate": rate(c < UNDERCONFIDENT, y, w),
        "mean_confidence": mean_confidence(c, y, w),
        "mean_accuracy": weighted_mean(y, w),
        **{f"accuracy of bin {i}": each for i, each in enumerate(ratio_or_nan(right, mass).T) if by_bin},
    }
