"""Rows summed by the confidence they state: what rank metrics and smoothing work on.

Rows that state the same confidence cannot be told apart by it, so ties are one level.
"""

from dataclasses import dataclass

import numpy as np

from evals.intervals import Floats


@dataclass(frozen=True)
class Levels:
    """Each confidence that occurs, ascending, and how much weight is right and wrong there.

    `confidence` has shape (levels,), `right` and `wrong` (draws, levels). A level that a draw does
    not hold has no weight in it.
    """

    confidence: Floats
    right: Floats
    wrong: Floats


def levels(c: Floats, y: Floats, w: Floats) -> Levels:
    """Return the rows by level; one row or more."""
    order = np.argsort(c, kind="stable")
    ordered = c[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] > ordered[:-1]]))
    is_sorted = bool((order[1:] > order[:-1]).all())
    weights = w if is_sorted else w[:, order]
    both = np.add.reduceat(weights, starts, axis=1)
    right = np.add.reduceat(weights * y[order], starts, axis=1)
    return Levels(ordered[starts], right, both - right)
