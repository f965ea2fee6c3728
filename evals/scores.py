"""Scores of stated confidences that need no bins: means, proper scores, ranks, rates of extremes.

Every score takes confidences c in 0..1, outcomes y in {0, 1}, both of shape (rows,), and weights of
shape (draws, rows), and gives one value per draw, nan where it is undefined.

Sources: Brier 1950; the area under the curve as a rank statistic, Hanley and McNeil 1982; the bounds
of over- and underconfidence are those of the reference evaluation that published them.
"""

import numpy as np

from evals.intervals import Floats
from evals.levels import levels

OVERCONFIDENT = 0.8
UNDERCONFIDENT = 0.3
TINY = 1e-12
"""The least probability that log loss takes an outcome to have had."""


def mean_confidence(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the mean stated confidence."""
    return mean(c, w)


def mean_accuracy(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the share that is correct."""
    return mean(y, w)


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


def overconfidence_rate(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the share that is wrong among confidences above 0.8; nan where there are none."""
    sure = c > OVERCONFIDENT
    return ratio(w @ (sure * (1 - y)), w @ sure.astype(np.float64))


def underconfidence_rate(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the share that is correct among confidences below 0.3; nan where there are none."""
    unsure = c < UNDERCONFIDENT
    return ratio(w @ (unsure * y), w @ unsure.astype(np.float64))


def mean(values: Floats, w: Floats) -> Floats:
    """Return the weighted mean of the rows' values in each draw; nan for a draw without weight."""
    return ratio(w @ values, w.sum(axis=1))


def ratio(above: Floats, below: Floats) -> Floats:
    """Return above / below, nan where below is not positive."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
