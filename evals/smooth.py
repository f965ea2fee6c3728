"""Smooth calibration error: an ECE without bins, so without a choice of bins.

Residuals y - c are smoothed over c by a Gaussian of width s, reflected at 0 and 1; E(s) is the
integral of the absolute value. E falls with s, and smECE is the width that equals its own error,
E(s) = s (Blasiok and Nakkiran 2023, "Smooth ECE").

The reflected Gaussian is the heat kernel on 0..1: with a_m the cosine sums of the residuals, the
smoothed residual at t is sum over m of a_m exp(-(pi m s)^2 / 2) cos(pi m t). A width s needs about
1/s of these, so widths are searched from wide to narrow, octave by octave, and every draw stops in
its own octave.
"""

import math

import numpy as np
import numpy.typing as npt

from evals.intervals import Floats
from evals.levels import levels

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
        """Take confidences (rows,) and residuals (draws, rows)."""
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

    def keep(self, draws: npt.NDArray[np.bool_]) -> None:
        """Go on with these draws only."""
        self.sums = self.sums[draws]


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
        waves.keep(inside)
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
