"""Does a stated confidence mean what it says? Metrics over (confidence, correct) pairs.

Every metric takes confidences c in 0..1, outcomes y in {0, 1}, and weights of shape (draws, n), and
gives one value per draw, nan where it is undefined. Rows without a confidence are counted apart and
enter no metric; without any row that has one, every metric is None and `note` says so.

Sources: ECE and MCE, Naeini et al. 2015; Brier score and its three parts, Murphy 1973; the area under
the curve as a rank statistic, Hanley and McNeil 1982; smooth ECE, Błasiok and Nakkiran 2023.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from pydantic import Field

from evals.binning import (
    Bin,
    NullEce,
    Settings,
    bin_edges,
    check_settings,
    membership,
    null_ece,
    reliability_bins,
)
from evals.intervals import Floats, Interval, bootstrap
from evals.schema import Record

OVERCONFIDENT = 0.8
UNDERCONFIDENT = 0.3
TINY = 1e-12
SMOOTH_CELLS = 4000

WeightedMetric = Callable[[Floats, Floats, Floats], Floats]


class Calibration(Record):
    """How well stated confidences match outcomes. Everything is over the rows with a confidence."""

    n: int
    n_missing_confidence: int
    ece: float | None = None
    mce: float | None = None
    brier: float | None = None
    brier_reliability: float | None = None
    brier_resolution: float | None = None
    brier_uncertainty: float | None = None
    log_loss: float | None = None
    auroc: float | None = None
    smece: float | None = None
    overconfidence_rate: float | None = None
    underconfidence_rate: float | None = None
    mean_confidence: float | None = None
    mean_accuracy: float | None = None
    base_rate_brier: float | None = None
    ece_if_calibrated: NullEce | None = None
    intervals: dict[str, Interval] = Field(default_factory=dict)
    bins: tuple[Bin, ...] = ()
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
    edges = bin_edges(c, settings)
    metrics = _metrics(edges)
    kept = [name for _, _, name in stated]
    drawn = {name: partial(metric, c, y) for name, metric in metrics.items()}
    ones = np.ones((1, len(c)))
    measured = Calibration(
        n=len(correct),
        n_missing_confidence=missing,
        smece=smooth_ece(c, y),
        ece_if_calibrated=null_ece(c, edges, settings),
        intervals=bootstrap(drawn, kept, settings.draws, settings.seed),
        bins=reliability_bins(c, y, edges),
    )
    values = {name: _number(metric(c, y, ones)) for name, metric in metrics.items()}
    return measured.model_copy(update=values)


# ---- metrics: (confidences, outcomes, weights) -> one value per draw --------------------------


def mean_confidence(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the mean stated confidence."""
    return _mean(c, w)


def mean_accuracy(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the share that is correct."""
    return _mean(y, w)


def brier(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the mean of (c - y)^2."""
    return _mean((c - y) ** 2, w)


def base_rate_brier(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the Brier score of always stating the share that is correct."""
    accuracy = _mean(y, w)
    return accuracy * (1 - accuracy)


def log_loss(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the mean of -log(probability given to what happened), natural log, c cut at 1e-12."""
    given = np.clip(np.where(y > 0, c, 1 - c), TINY, 1.0)
    return _mean(-np.log(given), w)


def auroc(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the chance that a correct row has the higher confidence, ties one half.

    nan where a draw holds only correct or only wrong rows.
    """
    order = np.argsort(c, kind="stable")
    ordered = c[order]
    ties = np.flatnonzero(np.concatenate([[True], ordered[1:] > ordered[:-1]]))
    right = np.add.reduceat((w * y)[:, order], ties, axis=1)
    wrong = np.add.reduceat((w * (1 - y))[:, order], ties, axis=1)
    below = np.cumsum(wrong, axis=1) - wrong
    pairs = right.sum(axis=1) * wrong.sum(axis=1)
    return _ratio((right * (below + wrong / 2)).sum(axis=1), pairs)


def overconfidence_rate(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the share that is wrong among confidences above 0.8."""
    sure = w * (c > OVERCONFIDENT)
    return _ratio(sure @ (1 - y), sure.sum(axis=1))


def underconfidence_rate(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the share that is correct among confidences below 0.3."""
    unsure = w * (c < UNDERCONFIDENT)
    return _ratio(unsure @ y, unsure.sum(axis=1))


def ece(c: Floats, y: Floats, w: Floats, edges: Floats) -> Floats:
    """Return the expected calibration error: sum over bins of n_b/n |accuracy_b - confidence_b|."""
    return _ratio(np.abs(w @ (membership(c, edges) * (y - c)[:, None])).sum(axis=1), w.sum(axis=1))


def mce(c: Floats, y: Floats, w: Floats, edges: Floats) -> Floats:
    """Return the largest gap of a bin that holds a row."""
    onehot = membership(c, edges)
    gaps = _ratio(np.abs(w @ (onehot * (y - c)[:, None])), w @ onehot)
    return np.nanmax(gaps, axis=1, initial=0.0)


def brier_parts(c: Floats, y: Floats, w: Floats, edges: Floats) -> tuple[Floats, Floats, Floats]:
    """Return reliability, resolution and uncertainty; Brier = 1st - 2nd + 3rd if bins hold one c each."""
    onehot = membership(c, edges)
    mass = w @ onehot
    total = w.sum(axis=1)
    confidence, accuracy = (
        _ratio(w @ (onehot * c[:, None]), mass),
        _ratio(w @ (onehot * y[:, None]), mass),
    )
    base = _mean(y, w)
    reliability = np.nansum(mass * (confidence - accuracy) ** 2, axis=1) / total
    resolution = np.nansum(mass * (accuracy - base[:, None]) ** 2, axis=1) / total
    return reliability, resolution, base * (1 - base)


# ---- over all rows, without draws -------------------------------------------------------------


def smooth_ece(c: Floats, y: Floats) -> float:
    """Return smECE: the kernel-smoothed calibration error at the width that equals the error itself.

    Residuals are smoothed with a Gaussian reflected at 0 and 1, on a grid of 4,000 cells.
    """
    cell = np.minimum((c * SMOOTH_CELLS).astype(int), SMOOTH_CELLS - 1)
    residual = np.bincount(cell, weights=y - c, minlength=SMOOTH_CELLS) / len(c)
    spectrum = np.fft.rfft(np.concatenate([residual, residual[::-1]]))
    frequency = np.pi * np.arange(len(spectrum))

    def error(width: float) -> float:
        damped = spectrum * np.exp(-((frequency * width) ** 2) / 2)
        return float(np.abs(np.fft.irfft(damped, 2 * SMOOTH_CELLS)[:SMOOTH_CELLS]).sum())

    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if error(middle) < middle else (middle, high)
    return high


def _metrics(edges: Floats) -> dict[str, WeightedMetric]:
    def part(index: int) -> WeightedMetric:
        return lambda c, y, w: brier_parts(c, y, w, edges)[index]

    return {
        "ece": lambda c, y, w: ece(c, y, w, edges),
        "mce": lambda c, y, w: mce(c, y, w, edges),
        "brier": brier,
        "brier_reliability": part(0),
        "brier_resolution": part(1),
        "brier_uncertainty": part(2),
        "log_loss": log_loss,
        "auroc": auroc,
        "overconfidence_rate": overconfidence_rate,
        "underconfidence_rate": underconfidence_rate,
        "mean_confidence": mean_confidence,
        "mean_accuracy": mean_accuracy,
        "base_rate_brier": base_rate_brier,
    }


def _mean(values: Floats, w: Floats) -> Floats:
    return _ratio(w @ values, w.sum(axis=1))


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)


def _number(values: Floats) -> float | None:
    return None if np.isnan(values[0]) else float(values[0])
