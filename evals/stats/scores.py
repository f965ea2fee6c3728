"""Scores of stated confidences: Brier, log loss, AUROC, risk and coverage, and the smooth calibration error.

The smooth calibration error is an ECE without a choice of bins. Residuals y - c are smoothed over c by a Gaussian of
width s, reflected at 0 and 1; E(s) is the integral of the absolute value, and smECE the width that equals its own error,
E(s) = s (Blasiok and Nakkiran 2023, "Smooth ECE"). The reflected Gaussian is the heat kernel on 0..1: with a_m the
cosine sums of the residuals, the smoothed residual at t is sum over m of a_m exp(-(pi m s)^2 / 2) cos(pi m t). A width s
needs about 1/s of these, so widths are searched from wide to narrow, and every draw stops in its own octave.
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
    return mean(c, w)


def brier(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the mean of (c - y)^2: 0 is best, 0.25 is what "50 %" always gets."""
    return mean((c - y) ** 2, w)


def base_rate_brier(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the Brier score of always stating the share that is correct."""
    accuracy = mean(y, w)
    return accuracy * (1 - accuracy)


def log_loss(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the mean of -log(probability given to what happened), natural log, c cut at 1e-12."""
    given = np.clip(np.where(y > 0, c, 1 - c), TINY, 1.0)
    return mean(-np.log(given), w)


def auroc(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the chance that a correct row has the higher confidence than a wrong one, ties one half.

    nan where a draw holds only correct or only wrong rows.
    """
    by = levels(c, y, w)
    below = np.cumsum(by.wrong, axis=1) - by.wrong
    pairs = by.right.sum(axis=1) * by.wrong.sum(axis=1)
    return ratio((by.right * (below + by.wrong / 2)).sum(axis=1), pairs)


def rate(here: npt.NDArray[np.bool_], counted: Floats, w: Floats) -> Floats:
    """Return the share of the rows `here` that is counted, such as wrong ones above 0.8; nan where there are none."""
    return ratio(w @ (here * counted), w @ here.astype(np.float64))


def mean(values: Floats, w: Floats) -> Floats:
    """Return the weighted mean of the rows' values in each draw; nan for a draw without weight."""
    return ratio(w @ values, w.sum(axis=1))


def ratio(above: Floats, below: Floats) -> Floats:
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
    return ratio((excess * steps + wrong).sum(axis=1), answered[:, -1])


def optimal_aurc(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the AURC if every correct row stated more than every wrong one: mean of (i - R) / i over i > R, R right."""
    right, total = w @ y, w.sum(axis=1)
    harmonic = _harmonic(np.stack([right, total], axis=1))
    return ratio(total - right - right * (harmonic[:, 1] - harmonic[:, 0]), total)


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
STEPS = 6
"""Steps of the root search in an octave; the error falls by more than ten in each."""
SAME = 1e-12
GRID = 2048
"""More levels than these are moved to a grid of 1/2048, each shared out to its two neighbours."""


def smooth_ece(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return smECE of each draw, in 0..1, to about 1e-4; nan for a draw without weight.

    It never lies below |mean confidence - mean accuracy|, and equals it where all levels of
    confidence err to the same side.
    """
    by = levels(c, y, w)
    total = (by.right + by.wrong).sum(axis=1)
    residual = by.right - (by.right + by.wrong) * by.confidence
    residual /= np.where(total > 0, total, np.nan)[:, None]
    low, high = np.abs(residual.sum(axis=1)), np.abs(residual).sum(axis=1)
    found = high.copy()
    mixed = np.flatnonzero(high - low > SAME)
    if len(mixed):
        found[mixed] = _search(*_thinned(by.confidence, residual[mixed]))
    return found


def smoothed_error(c: Floats, y: Floats, w: Floats, width: float) -> Floats:
    """Return E(width) of each draw, the integral of the absolute smoothed residual."""
    residual = w / w.sum(axis=1, keepdims=True) * (y - c)
    return _Waves(c, residual, width).error(np.full(len(w), width))


class _Waves:
    """Residuals as cosines, enough of them for widths down to `narrowest`."""

    def __init__(self, c: Floats, residual: Floats, narrowest: float) -> None:
        count = math.ceil(DAMPED / (math.pi * narrowest)) + 1
        self.order = math.pi * np.arange(count)
        self.sums = residual @ np.cos(np.outer(c, self.order))
        self.sums[:, 1:] *= 2
        half = max(32, 2 * count)
        at = (np.arange(half) + 0.5) / (2 * half)
        self.cosines = np.cos(np.outer(self.order, at))

    def error(self, width: Floats) -> Floats:
        """Return E at one width per draw.

        Even cosines are symmetric about 1/2 and odd ones antisymmetric, and |a + b| + |a - b| is
        twice the larger of |a| and |b|: half the points are enough.
        """
        damped = self.sums * np.exp(-((width[:, None] * self.order) ** 2) / 2)
        even = damped[:, ::2] @ self.cosines[::2]
        odd = damped[:, 1::2] @ self.cosines[1::2]
        return np.maximum(np.abs(even), np.abs(odd)).mean(axis=1)


def _thinned(c: Floats, residual: Floats) -> tuple[Floats, Floats]:
    """Return levels and residuals (draws, levels), on the grid if there are too many."""
    if len(c) <= GRID:
        return c, residual
    cell = np.minimum((c * GRID).astype(np.intp), GRID - 1)
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    upper = c * GRID - cell
    sums = [np.add.reduceat(residual * share, starts, axis=1) for share in (1 - upper, upper)]
    nodes = cell[starts]
    return np.concatenate([nodes, nodes + 1]) / GRID, np.concatenate(sums, axis=1)


def _search(c: Floats, residual: Floats) -> Floats:
    """Return the width that equals its error, for residuals (draws, levels) of both signs."""
    found = np.empty(len(residual))
    left = np.arange(len(residual))
    upper = 1.0
    above = _Waves(c, residual, upper).error(np.full(len(left), upper)) - upper
    while len(left) and upper > FINEST:
        lower = upper / 2
        waves = _Waves(c, residual[left], lower)
        below = waves.error(np.full(len(left), lower)) - lower
        inside = below > 0
        waves.sums = waves.sums[inside]
        found[left[inside]] = _root(waves, (lower, upper), (below[inside], above[inside]))
        left, above, upper = left[~inside], below[~inside], lower
    found[left] = above + upper
    return found


def _root(waves: _Waves, octave: tuple[float, float], excess: tuple[Floats, Floats]) -> Floats:
    """Return where E(s) - s crosses 0 in an octave, by regula falsi (Illinois).

    `excess` is E(s) - s at the lower bound, above 0, and at the upper one, 0 or less.
    """
    high, low = (bound.copy() for bound in excess)
    start, end = (np.full(len(high), bound) for bound in octave)
    side = np.zeros(len(high))
    width = start
    for _ in range(STEPS):
        width = (end * high - start * low) / (high - low)
        excess_here = waves.error(width) - width
        up = excess_here > 0
        low = np.where(up, np.where(side > 0, low / 2, low), excess_here)
        high = np.where(up, excess_here, np.where(side < 0, high / 2, high))
        start, end = np.where(up, width, start), np.where(up, end, width)
        side = np.where(up, 1.0, -1.0)
    return width
