"""10,000 bootstrap draws of every calibration metric for the 107 held-out questions: time and memory.

The reference, measured in the same run, does what most scripts do: it draws rows one draw at a time and
calls scikit-learn, for three metrics of the sixteen; 200 draws are timed and counted fifty times.
"""

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from rich.table import Table
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from evals.questions import pathway_heldout
from evals.stats.calibration import CalibrationSettings, calibrate
from evals.stats.intervals import DRAWS
from tests.bench._measure import ONE_THREAD, SMALL, apart, in_turns, resident, seconds, show, spread

REFERENCE_DRAWS = 2 if SMALL else 200
LIMIT = 0.5
CLUSTERS = [example.cluster for example in pathway_heldout()]


def rows(is_distinct: bool) -> tuple[list[float], list[bool], list[str]]:
    """Return confidences, outcomes and clusters of 107 rows; confidences all differ or step by 5 %."""
    generator = np.random.default_rng(0)
    c = generator.random(len(CLUSTERS))
    c = c if is_distinct else np.rint(20 * c) / 20
    return c.tolist(), (generator.random(len(CLUSTERS)) < 0.8 * c).tolist(), CLUSTERS


def ours(is_distinct: bool) -> object:
    """Every metric, intervals over clusters, null ECE, bins."""
    return calibrate(*rows(is_distinct), CalibrationSettings())


def reference() -> None:
    """Draw rows one draw after another, each with three metrics of scikit-learn."""
    c, y, _ = (np.array(column) for column in rows(is_distinct=True))
    generator = np.random.default_rng(0)
    for _ in range(REFERENCE_DRAWS):
        drawn = generator.integers(len(c), size=len(c))
        for metric in (brier_score_loss, log_loss, roc_auc_score):
            metric(y[drawn], c[drawn])


WAYS: dict[str, tuple[Callable[[], object], float]] = {
    "scikit-learn draw by draw, 3 metrics": (reference, DRAWS / REFERENCE_DRAWS),
    "confidences in steps of 5 %": (partial(ours, False), 1.0),
    "all confidences differ": (partial(ours, True), 1.0),
}
"""The work of each way, and how many times it would have to be done."""


def cost(way: str) -> tuple[float, float]:
    """Return process time in seconds and growth of memory in MB of one way; call it in a process of its own."""
    work, factor = WAYS[way]
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before, taken = resident("VmRSS"), seconds(work)
    return taken * factor, resident("VmHWM") - before


def main() -> None:
    """Print the table, all ways measured in turns on one thread each."""
    title = f"{DRAWS:,} draws of all 16 metrics, {len(CLUSTERS)} rows in {len(set(CLUSTERS))} clusters, one core"
    table, reference = Table("way", "seconds", "ratio", "memory MB", title=f"{title}; limit {LIMIT} s"), 0.0
    for way, costs in in_turns(5, {way: partial(apart, __name__, "cost", way, **ONE_THREAD) for way in WAYS}).items():
        times, megabytes = zip(*costs, strict=True)
        reference = reference or statistics.median(times)
        table.add_row(way, spread(list(times)), f"{reference / statistics.median(times):.0f}", f"{max(megabytes):.0f}")
    show(table)
