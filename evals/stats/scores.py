"""Scores of stated confidences: Brier, log loss, AUROC, risk and coverage, and the smooth calibration error.

The smooth calibration error is an ECE without a choice of bins. Residuals y - c are smoothed over c by a Gaussian of
width s, reflected at 0 and 1; E(s) is the integral of the absolute value, and smECE the width that equals its own error,
E(s) = s (Blasiok and Nakkiran 2023, "Smooth ECE"). The reflected Gaussian is the heat kernel on 0..1: with a_m the
cosine sums of the residuals, the smoothed residual at t is sum over m of a_m exp(-(pi m s)^2 / 2) cos(pi m t).
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evals.schema import Record, Share
from evals.stats.intervals import Floats, Whole


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
