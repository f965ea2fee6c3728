"""What is gained by answering only where confidence is high: the risk-coverage curve and its area.

Risk is the share that is wrong among the rows answered, coverage the share of rows that is. Sources:
El-Yaniv and Wiener 2010 (the curve); Geifman, Uziel and El-Yaniv 2019 (the area AURC, the mean of the
risks at coverage 1/n, 2/n, ..., 1, and E-AURC, its excess over the best order of the same answers).
"""

import numpy as np

from evals.intervals import Floats, Whole
from evals.levels import levels
from evals.schema import Record, Share


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
    return tuple(
        RiskPoint(threshold=float(at), coverage=float(share), risk=float(risk))
        for at, share, risk in curve
    )


def aurc(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the mean risk over the coverages 1/n, ..., 1, rows answered by falling confidence.

    Rows that tie come in random order; the value is the mean over all orders, which has a closed
    form: after N rows with E wrong, a tie of m rows, e of them wrong, adds
    sum over j of (E + j e/m) / (N + j) = (E - N e/m) (H(N + m) - H(N)) + e, with H the harmonic
    numbers. nan for a draw without weight; ValueError for weights that are not whole numbers.
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
    total = answered[:, -1]
    return _per_row((excess * steps + wrong).sum(axis=1), total)


def optimal_aurc(c: Floats, y: Floats, w: Floats) -> Floats:
    """Return the AURC if every correct row stated more than every wrong one.

    With R rows right of n: the mean over i > R of (i - R) / i.
    """
    right = w @ y
    total = w.sum(axis=1)
    harmonic = _harmonic(np.stack([right, total], axis=1))
    return _per_row(total - right - right * (harmonic[:, 1] - harmonic[:, 0]), total)


def _harmonic(counts: Floats) -> Floats:
    """Return 1 + 1/2 + ... + 1/k for each count k; 0 for 0."""
    whole: Whole = np.rint(counts).astype(np.intp)
    if not np.array_equal(whole, counts):
        raise ValueError("risk and coverage count rows: weights must be whole numbers")
    known = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, whole.max(initial=0) + 1))])
    return known[whole]


def _per_row(sums: Floats, total: Floats) -> Floats:
    return np.divide(sums, total, out=np.full_like(sums, np.nan), where=total > 0)
