"""95 % intervals: Wilson for a share, percentile bootstrap over clusters for anything else.

Questions about one gene set in one tissue are not independent, so draws take whole clusters. A draw is
a row of weights: how often each question occurs in it. Metrics take weights, so the estimate (all
weights 1) and its draws come from the same code.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]

LEVEL = 0.95
DRAWS = 10_000
CELLS = 2_000_000
"""Weights held in memory at once."""


def wilson(successes: int, n: int, level: float = LEVEL) -> Interval | None:
    """Return the score interval of a share, None for n = 0 (Wilson 1927, JASA 22:209).

    wilson(18, 20)  ->  (0.699, 0.972)
    """
    if n == 0:
        return None
    z = NormalDist().inv_cdf((1 + level) / 2)
    share = successes / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def cluster_draws(clusters: Sequence[str], draws: int, generator: np.random.Generator) -> Floats:
    """Return weights of shape (draws, questions): clusters drawn with replacement, all or none of each."""
    names, member = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    counts = generator.multinomial(len(names), np.full(len(names), 1 / len(names)), size=draws)
    return counts[:, member].astype(np.float64)


def bootstrap(
    metrics: Mapping[str, Callable[[Floats], Floats]],
    clusters: Sequence[str],
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Interval]:
    """Return the percentile interval of each metric of weights, all from the same draws.

    Draws in which a metric is undefined (nan) are left out; a metric undefined in all of them, or
    an empty list of clusters, gives no entry.
    """
    if not clusters:
        return {}
    generator = np.random.default_rng(seed)
    step = max(1, CELLS // len(clusters))
    values: dict[str, list[Floats]] = {name: [] for name in metrics}
    for start in range(0, draws, step):
        weights = cluster_draws(clusters, min(step, draws - start), generator)
        for name, metric in metrics.items():
            values[name].append(metric(weights))
    spans = {name: percentile_interval(np.concatenate(parts)) for name, parts in values.items()}
    return {name: span for name, span in spans.items() if span is not None}


def percentile_interval(values: Floats, level: float = LEVEL) -> Interval | None:
    """Return the middle `level` share of the values, leaving out nan; None if nothing is left."""
    kept = values[~np.isnan(values)]
    if not len(kept):
        return None
    low, high = np.quantile(kept, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
