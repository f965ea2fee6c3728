"""p-values for paired differences: from bootstrap draws, from swapping labels, from discordant pairs.

Sources: p by inverting the percentile interval, Efron and Tibshirani 1993, An Introduction to the
Bootstrap, section 15.4 and exercise 16.4; p of a sampled permutation test, Phipson and Smyth 2010,
Stat. Appl. Genet. Mol. Biol. 9:39; discordant pairs, McNemar 1947, Psychometrika 12:153, in its exact
binomial form; many tests at once, Holm 1979, Scand. J. Statist. 6:65.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evals.stats.intervals import CELLS, Floats

ALPHA = 0.05
KEPT = 2_000_000
"""Zeros and ones that are kept in memory for the next comparison."""
ROUNDING = 1e-9
"""Differences closer than this are equal: sums in another order differ in the last digits."""


@dataclass(frozen=True)
class Swaps:
    """Which clusters change sides: every arrangement if they are at most `draws`, else that many.

    The same clusters, draws and seed give the same arrangements.
    """

    clusters: int
    draws: int
    seed: int

    @property
    def is_exact(self) -> bool:
        """Whether these are all 2^clusters arrangements, the untouched one among them."""
        return 2**self.clusters <= self.draws

    def flips(self) -> Iterator[Floats]:
        """Yield the arrangements as 0 and 1 of shape (some, clusters), a bounded part at a time."""
        generator = np.random.default_rng(self.seed)
        n = 2**self.clusters if self.is_exact else self.draws
        step = max(1, CELLS // self.clusters)
        for start in range(0, n, step):
            end = min(start + step, n)
            if self.is_exact:
                part = (np.arange(start, end)[:, None] >> np.arange(self.clusters)) & 1
            else:
                part = generator.integers(0, 2, size=(end - start, self.clusters))
            yield part.astype(np.float64)

    def moved(self, sums: Floats) -> Floats:
        """Return what changes sides in each arrangement, from what each cluster has (clusters, sums)."""
        return np.concatenate([part @ sums for part in self._kept or self.flips()])

    @cached_property
    def _kept(self) -> tuple[Floats, ...]:
        """The arrangements, if they are few enough to be kept for the next comparison; else none."""
        return tuple(self.flips()) if self.clusters * self.draws <= KEPT else ()


def permutation_p(observed: float, swapped: Floats, is_exact: bool) -> float:
    """Return the two-sided p of a difference among those with sides swapped; nan ones are left out.

    Of all arrangements: the share at least as far from zero. Of a sample: (1 + their number) /
    (1 + draws), which is never 0.
    """
    kept = swapped[~np.isnan(swapped)]
    as_far = int((np.abs(kept) >= abs(observed) - ROUNDING).sum())
    if is_exact and len(kept):
        return as_far / len(kept)
    return (1 + as_far) / (1 + len(kept))


def bootstrap_p(drawn: Floats) -> float:
    """Return twice the smaller share of draws on one side of zero, draws at zero on both; at most 1.

    Below 0.05 the percentile interval excludes zero, up to the one draw that keeps p above 0.
    """
    kept = drawn[~np.isnan(drawn)]
    beyond = min(int((kept <= ROUNDING).sum()), int((kept >= -ROUNDING).sum()))
    return min(1.0, 2 * (1 + beyond) / (1 + len(kept)))


def mcnemar_p(only_first: int, only_second: int) -> float:
    """Return the exact two-sided p that rows right on one side only fall equally often on both.

    Counts are whole numbers, so this is exact: mcnemar_p(1, 7) -> 0.0703125. No such row: 1.
    """
    n, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(n, count) for count in range(fewer + 1))
    return min(1.0, 2 * tail / 2**n)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return each p adjusted for having made all these tests, in the order given.

    holm([0.01, 0.04, 0.03])  ->  [0.03, 0.06, 0.06]; nan is a test that was not made, and stays nan.
    """
    adjusted = [math.nan] * len(p_values)
    made = sorted((i for i, p in enumerate(p_values) if not math.isnan(p)), key=lambda i: p_values[i])
    highest = 0.0
    for rank, index in enumerate(made):
        highest = max(highest, min(1.0, (len(made) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted
