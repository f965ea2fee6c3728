"""95 % intervals: Wilson for a share, percentile bootstrap over clusters or Student's t for anything else; paired tests with theirs.

Questions about one gene set in one tissue are not independent, so draws take whole clusters. A draw is
a row of weights: how often each question occurs in it. Metrics take weights, so the estimate (all
weights 1) and its draws come from the same code.

Sources: Wilson 1927; percentile intervals, Efron and Tibshirani 1993, chapter 13; t with the jackknife's standard
error, Tukey 1958; quantiles of t, Cornish and Fisher 1937 (`scipy.stats.t` takes 0.7 s to import: the page shows
intervals and starts without it).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.intp]
Interval = tuple[float, float]
Measure = Callable[[Floats], Mapping[str, Floats]]
"""Weights (draws, rows) -> each metric by name, one value per draw, nan where it is undefined."""

LEVEL = 0.95
DRAWS = 10_000
CELLS = 250_000
"""Weights held in memory at once; small enough to stay in the processor's cache."""
POINT = 1e-12
"""An interval narrower than this is one value, up to rounding."""
NORMAL = NormalDist()


@dataclass(frozen=True)
class Units:
    """What a draw takes with replacement: as many units as there are, each a cluster of rows, all or none of it.

    `counts` (kinds) says how many units are alike, `member` (rows) which kind a row belongs to. Units that are alike
    need only be held once: their number in a draw is the row's weight.
    """

    counts: Whole
    member: Whole

    @classmethod
    def of(cls, clusters: Sequence[str]) -> "Units":
        """Return one unit per cluster name; rows with equal names belong together."""
        names, member = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
        return cls(np.ones(len(names), dtype=np.intp), member)

    @cached_property
    def n(self) -> int:
        """How many units there are."""
        return int(self.counts.sum())

    def whole(self) -> Floats:
        """Return the weights of all rows as they are, shape (1, rows)."""
        return self.counts[self.member].astype(np.float64)[None, :]

    def holding(self, rows: npt.NDArray[np.bool_]) -> int:
        """Return how many units hold one of these rows."""
        return int(self.counts[np.unique(self.member[rows])].sum())

    def draw(self, draws: int, generator: np.random.Generator) -> Floats:
        """Return weights of shape (draws, rows): units drawn with replacement, all or none of each."""
        kinds = len(self.counts)
        if self.n > 4 * kinds:
            taken = generator.multinomial(self.n, self.counts / self.n, size=draws)
        else:
            kind = np.repeat(np.arange(kinds), self.counts)
            drawn = kind[generator.integers(self.n, size=(draws, self.n))]
            place = drawn + kinds * np.arange(draws)[:, None]
            taken = np.bincount(place.ravel(), minlength=draws * kinds).reshape(draws, kinds)
        return taken[:, self.member].astype(np.float64)


def wilson(successes: float, n: int) -> Interval | None:
    """Return the score interval of a share, (0.699, 0.972) for 18 of 20, None for n = 0 (Wilson 1927, JASA 22:209).

    `successes` need not be whole where n counts clusters and a share is over their rows.
    """
    if n == 0:
        return None
    z = NORMAL.inv_cdf((1 + LEVEL) / 2)
    share = successes / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def resample(measure: Measure, units: Units, draws: int, seed: int) -> dict[str, Floats]:
    """Return every metric in every draw, shape (draws,) each; units must not be empty."""
    generator = np.random.default_rng(seed)
    step = max(1, CELLS // len(units.member))
    parts = [measure(units.draw(min(step, draws - start), generator)) for start in range(0, draws, step)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def percentile_interval(values: Floats) -> Interval | None:
    """Return the middle 95 % of the values, leaving out nan; None if nothing is left."""
    kept = values[~np.isnan(values)]
    if not len(kept):
        return None
    low, high = np.quantile(kept, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def student(share: float, degrees: int) -> float:
    """Return a quantile of Student's t, within 1 % from 2 degrees of freedom on: 2.365 for 0.975 and 7."""
    z = NORMAL.inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, start=1))


def jackknife_interval(estimate: float, left_out: Floats) -> Interval | None:
    """Return estimate ± t · standard error, from the values with each unit left out once, shape (units,).

    None for one unit, and where leaving out some unit leaves the metric undefined.
    """
    n = len(left_out)
    if n < 2 or np.isnan(left_out).any():
        return None
    error = math.sqrt((n - 1) / n * float(((left_out - left_out.mean()) ** 2).sum()))
    half = student((1 + LEVEL) / 2, n - 1) * error
    return estimate - half, estimate + half


def is_point(span: Interval) -> bool:
    """Return whether resampling showed no spread at all (up to rounding): that is no certainty."""
    return span[1] - span[0] < POINT


# ---- paired differences --------------------------------------------------------------------------


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


def invert_test(observed: float, swapped: Floats, is_exact: bool, left_out: Floats) -> Interval | None:
    """Return the differences that the test of `permutation_p` does not reject: 0 is one of them where p >= ALPHA, and only there.

    For a difference d the clusters' parts are u + (observed - d) / n, with u from the metric without each cluster
    (`left_out`, jackknife); swaps turn their signs. The test's critical value is taken to be as many of their standard
    errors for every d as it is for none, which is solved for d. None where even the rarest swap is no evidence: up to five clusters.
    """
    far, n = np.sort(np.abs(swapped[~np.isnan(swapped)]))[::-1], len(left_out)
    needed = math.ceil(ALPHA * len(far)) if is_exact else math.ceil(ALPHA * (1 + len(far))) - 1
    if needed < 1 or (is_exact and 2 / len(far) >= ALPHA):
        return None
    half = critical = float(far[needed - 1]) + ROUNDING
    if not np.isnan(left_out).any():
        spread = float((((n - 1) / n * (left_out.mean() - left_out)) ** 2).sum())
        errors = critical**2 / max(spread + observed**2 / n, POINT**2)
        if errors >= n:
            return None
        half = math.sqrt(errors * spread / (1 - errors / n))
    return round(observed - half, 8) + 0.0, round(observed + half, 8) + 0.0


def paired_mean(first: Floats, second: Floats, seed: int) -> tuple[float, Interval | None, float]:
    """Return how far the mean of `second` is above that of `first` on the same rows, with interval and p of one test."""
    apart, n = np.asarray(second) - np.asarray(first), len(first)
    observed, swaps = float(apart.mean()), Swaps(n, DRAWS, seed)
    swapped = observed - 2 * swaps.moved(apart[:, None])[:, 0] / n
    left_out = (apart.sum() - apart) / (n - 1) if n > 1 else np.full(n, np.nan)
    span = None if not apart.any() else invert_test(observed, swapped, swaps.is_exact, left_out)
    return observed, span, permutation_p(observed, swapped, swaps.is_exact)


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
