"""From which stated confidence on answers may be relied on: a threshold with a promise of how many are wrong.

Learn then Test (Angelopoulos, Bates, Candès, Jordan & Lei 2021, arXiv:2110.01052): every threshold is a hypothesis that
more than the promised share of the answers above it is wrong, tested by an exact binomial test, in fixed sequences from
the highest threshold down. Where a sequence begins depends on the confidences alone, never on what was right.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import binom

from evals.errors import BadConfig
from evals.schema import Record, Share
from evals.stats.intervals import Interval, wilson

SEQUENCES = 4
"""Sequences of tests, each with its part of what may go wrong: one that begins at few answers is stopped by one error."""
FOLDS = 5


class Kept(Record):
    """How many of `n` answers stay at or above a threshold, and how many of those are wrong, with Wilson's interval."""

    n: int
    kept: int
    wrong: int
    interval: Interval | None


class Promise(Record):
    """The lowest threshold that keeps the promise; None where `n` answers, one of each cluster, can promise nothing.

    `chosen_on` is what it does on the answers that it was chosen on; `elsewhere` on others: the answers of each of five
    folds of clusters, kept by the threshold that the other four choose.
    """

    wrong_at_most: Share
    confidence: Share
    threshold: Share | None
    n: int
    n_needed: int
    chosen_on: Kept
    elsewhere: Kept


def promise(
    stated: Sequence[float | None],
    correct: Sequence[bool],
    clusters: Sequence[str],
    wrong_at_most: float = 0.1,
    confidence: float = 0.95,
    seed: int = 0,
) -> Promise:
    """Return the lowest threshold above which, with probability `confidence`, at most `wrong_at_most` is wrong.

    An answer without a stated confidence is never kept. The test needs answers that are independent: it is made on one
    of each cluster, drawn by `seed`, and the promise is about such answers. BadConfig for shares outside 0..1.
    """
    for name, value in (("wrong-at-most", wrong_at_most), ("confidence", confidence)):
        if not 0 < value < 1:
            raise BadConfig(f"{name} is {value}; give a share between 0 and 1, or a percentage such as 10%")
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(correct))
    first = {clusters[at]: at for at in order[::-1]}
    chosen = np.array(sorted(first.values()), dtype=int)
    c = np.array([-1.0 if stated[at] is None else stated[at] for at in chosen], dtype=np.float64)
    wrong = ~np.array([correct[at] for at in chosen], dtype=bool)
    threshold = lowest_threshold(c, wrong, wrong_at_most, 1 - confidence)
    fold = generator.permutation(len(c)) % FOLDS
    others = np.full(len(c), math.inf)
    for each in range(FOLDS):
        found = lowest_threshold(c[fold != each], wrong[fold != each], wrong_at_most, 1 - confidence)
        others[fold == each] = math.inf if found is None else found
    return Promise(
        wrong_at_most=wrong_at_most,
        confidence=confidence,
        threshold=threshold,
        n=len(c),
        n_needed=fewest(wrong_at_most, 1 - confidence),
        chosen_on=_kept(c, wrong, np.full(len(c), math.inf if threshold is None else threshold)),
        elsewhere=_kept(c, wrong, others),
    )


def fewest(wrong_at_most: float, delta: float) -> int:
    """Return how many answers, all right, it takes to promise anything: 29 for 10 % with 95 % certainty."""
    return math.ceil(math.log(delta) / math.log1p(-wrong_at_most))


def lowest_threshold(c: np.ndarray, wrong: np.ndarray, wrong_at_most: float, delta: float) -> float | None:
    """Return the lowest threshold at which no more than `wrong_at_most` is wrong but with probability `delta`, or None.

    `c` are confidences 0..1, negative where none is stated.
    """
    levels = np.unique(c[c >= 0])[::-1]
    kept = np.array([(c >= level).sum() for level in levels])
    p = binom.cdf([wrong[c >= level].sum() for level in levels], kept, wrong_at_most)
    starts = {n: np.flatnonzero(kept >= fewest(wrong_at_most, delta / n)) for n in range(1, SEQUENCES + 1)}
    n_starts = max((n for n, able in starts.items() if len(able) >= n), default=0)  # that begin with enough answers
    found = []
    for start in (starts[n_starts][len(starts[n_starts]) * n // n_starts] for n in range(n_starts)):
        passed = np.cumprod(p[start:] <= delta / n_starts).sum()
        found += [float(levels[start + passed - 1])] if passed else []
    return min(found, default=None)


def _kept(c: np.ndarray, wrong: np.ndarray, threshold: np.ndarray) -> Kept:
    stays = (c >= threshold) & (c >= 0)
    kept, errors = int(stays.sum()), int(wrong[stays].sum())
    return Kept(n=len(c), kept=kept, wrong=errors, interval=wilson(errors, kept))
