"""What the documents claim about chance, counted on simulated data sets where the truth is known.

Every simulated row is right with exactly the probability it states, so each model is calibrated. What each function
returns is the share of data sets.
"""

from collections.abc import Callable

import numpy as np

from evals.compare import Resampled, difference, swap
from evals.report import MEASURES, Cell, Tally
from evals.stats.calibration import CalibrationSettings, calibrate
from evals.stats.intervals import ALPHA, Floats, Swaps, permutation_p

DRAWS, SEED, BAND_ROWS = 1_000, 0, 107
LEVELS = np.arange(5, 100, 5) / 100
"""Stated confidences, all equally likely: 5 %, 10 % … 95 %."""
CELLS: tuple[Cell, ...] = tuple((float(c), y) for c in LEVELS for y in (False, True))
COVERED = {"mean_accuracy": float(LEVELS.mean()), "brier": float((LEVELS * (1 - LEVELS)).mean()), "ece": 0.0}
"""Metrics whose true value is known, over questions drawn as the simulation draws them."""
Generator = np.random.Generator
Stating = Callable[[Generator, int], Floats]


def always_half(generator: Generator, n: int) -> Floats:
    """Return confidences of a model that always states 50 %."""
    return np.full(n, 0.5)


def anything(generator: Generator, n: int) -> Floats:
    """Return confidences of a model that states all of LEVELS equally often."""
    return generator.choice(LEVELS, n)


def swapped(metric: str, models: tuple[Stating, Stating], rows: int, sets: int) -> float:
    """Return how often swapping two calibrated models gives p < 0.05 for a metric's difference."""
    generator, arranged = np.random.default_rng(SEED), Swaps(rows, DRAWS, SEED)
    hits = 0
    for _ in range(sets):
        one, other = (_stage(generator, states(generator, rows)) for states in models)
        apart = other.metric(metric, other.totals()) - one.metric(metric, one.totals())
        hits += permutation_p(float(apart[0]), swap(metric, one, other, arranged), arranged.is_exact) < ALPHA
    return hits / sets


def apart(metric: str, models: tuple[Stating, Stating], rows: int, sets: int) -> float:
    """Return how often the interval of the difference of two calibrated models excludes zero."""
    generator = np.random.default_rng(SEED)
    hits = 0
    for _ in range(sets):
        one, other = (Resampled(_stage(generator, states(generator, rows)), DRAWS, SEED) for states in models)
        hits += difference(metric, one, other).excludes_zero
    return hits / sets


def above_band(sets: int, *, together: bool) -> dict[str, float]:
    """Return how often the ECE of 107 calibrated rows in pairs lies above each of the two bands.

    `together`: one number u decides a pair, whose rows with c > u are right; else rows are independent.
    """
    generator = np.random.default_rng(SEED)
    clusters = [str(row // 2) for row in range(BAND_ROWS)]
    hits = {"independent": 0, "dependent": 0}
    for _ in range(sets):
        c = anything(generator, BAND_ROWS)
        luck = generator.random(BAND_ROWS)
        luck = luck[np.arange(BAND_ROWS) // 2] if together else luck
        found = calibrate(c.tolist(), (luck < c).tolist(), clusters, CalibrationSettings(draws=DRAWS))
        for name, band in zip(hits, (found.ece_if_calibrated, found.ece_if_dependent), strict=True):
            hits[name] += band is not None and found.ece is not None and found.ece > band.q95
    return {name: n / sets for name, n in hits.items()}


def coverage(rows: int, sets: int) -> dict[str, float]:
    """Return how often the 95 % interval of each metric, where there is one, holds the true value."""
    generator = np.random.default_rng(SEED)
    held: dict[str, list[bool]] = {name: [] for name in COVERED}
    for _ in range(sets):
        c = anything(generator, rows)
        y = generator.random(rows) < c
        spans = calibrate(c.tolist(), y.tolist(), settings=CalibrationSettings(draws=DRAWS)).intervals
        for name, truth in COVERED.items():
            held[name] += [spans[name][0] <= truth <= spans[name][1]] if name in spans else []
    return {name: sum(each) / max(len(each), 1) for name, each in held.items()}


def _stage(generator: Generator, c: Floats) -> Tally:
    """Return the tally of a calibrated stage that states these confidences, every row its own cluster."""
    right = generator.random(len(c)) < c
    sums = np.zeros((len(c), len(CELLS)))
    sums[np.arange(len(c)), 2 * np.abs(c[:, None] - LEVELS).argmin(axis=1) + right] = 1
    metrics = {name: MEASURES[name] for name in ("brier", "ece")}
    return Tally(metrics, tuple(f"{row:05d}" for row in range(len(c))), CELLS, {}, sums)
