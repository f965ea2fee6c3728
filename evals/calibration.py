"""Does a stated confidence mean what it says? Every metric over (confidence, correct) pairs.

Rows without a confidence are counted apart and enter no metric; without any row that has one, every
metric is None and `note` says so. docs/calibration.md explains each metric, with formula and source.
"""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from evals.binning import (
    BinSums,
    NullEce,
    Settings,
    bin_edges,
    bin_sums,
    check_settings,
    null_ece,
    null_ece_together,
    places,
)
from evals.intervals import LEVEL, Floats, Interval
from evals.reliability import Bin, Sample, reliability_bins
from evals.risk import RiskPoint, aurc, optimal_aurc, risk_coverage
from evals.schema import Record
from evals.scores import (
    auroc,
    base_rate_brier,
    brier,
    log_loss,
    mean_accuracy,
    mean_confidence,
    overconfidence_rate,
    underconfidence_rate,
)
from evals.smooth import smooth_ece
from evals.spread import spread_of


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
        ece_if_dependent=(
            null_ece_together(c, sample.units, edges, settings) if sample.is_clustered else None
        ),
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
