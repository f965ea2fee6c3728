"""10,000 bootstrap draws of every calibration metric for the 107 held-out questions: time and memory.

The reference, measured in the same run, does what most scripts do: it draws rows one draw at a time and
calls scikit-learn, for three metrics of the nineteen; 200 draws are timed and counted fifty times. Each
measurement is a process of its own on one thread; the ways take turns, A B C A B C …, and medians of
process time are compared. Memory is the growth of the resident set over the process before the work.
Run it alone:

    python -m tests.bench.bootstrap
"""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from evals.questions import pathway_heldout
from evals.stats.calibration import Settings, calibrate
from evals.stats.intervals import DRAWS, IntervalKind

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
LIMIT = 0.5
REFERENCE_DRAWS = 200
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}


def rows(is_distinct: bool) -> tuple[list[float], list[bool], list[str]]:
    """Return confidences, outcomes and clusters of 107 rows; confidences all differ or step by 5 %."""
    generator = np.random.default_rng(0)
    clusters = [example.cluster for example in pathway_heldout()]
    c = generator.random(len(clusters))
    if not is_distinct:
        c = np.rint(20 * c) / 20
    return c.tolist(), (generator.random(len(clusters)) < 0.8 * c).tolist(), clusters


def ours(is_distinct: bool, interval: IntervalKind) -> Callable[[], object]:
    """Return the work of this repository: every metric, intervals over clusters, null ECE, bins."""
    settings = Settings(interval=interval)
    return lambda: calibrate(*rows(is_distinct), settings)


def reference() -> Callable[[], object]:
    """Return draws one after another, each with three metrics of scikit-learn."""
    from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

    c, y, _ = (np.array(column) for column in rows(is_distinct=True))
    generator = np.random.default_rng(0)

    def work() -> None:
        for _ in range(REFERENCE_DRAWS):
            drawn = generator.integers(len(c), size=len(c))
            for metric in (brier_score_loss, log_loss, roc_auc_score):
                metric(y[drawn], c[drawn])

    return work


WAYS: dict[str, Callable[[], Callable[[], object]]] = {
    "scikit-learn draw by draw, 3 metrics": reference,
    "percentile, confidences in steps of 5 %": lambda: ours(False, "percentile"),
    "percentile, all confidences differ": lambda: ours(True, "percentile"),
    "BCa, confidences in steps of 5 %": lambda: ours(False, "bca"),
    "BCa, all confidences differ": lambda: ours(True, "bca"),
}


def measure(name: str) -> None:
    """Print process time in seconds and growth of memory in MB of one way; run in its own process."""
    work = WAYS[name]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    work()
    seconds = time.process_time() - started
    if name == next(iter(WAYS)):
        seconds *= DRAWS / REFERENCE_DRAWS
    print(seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def main() -> float:
    """Print the table and return the slowest median of this repository, in seconds."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, each in found.items():
            seconds, megabytes = map(float, _apart(name).split())
            each.append((seconds, megabytes))
    clusters = rows(is_distinct=True)[2]
    sizes = f"{len(clusters)} rows in {len(set(clusters))} clusters"
    title = f"{DRAWS:,} draws of all 19 metrics, {sizes}, one core, median of {ROUNDS}"
    table = Table("way", "seconds", "ratio", "limit", "memory MB", title=title)
    medians = {name: statistics.median(s for s, _ in each) for name, each in found.items()}
    first, *others = medians
    for name, each in found.items():
        table.add_row(
            name,
            f"{medians[name]:.3f} ({min(each)[0]:.3f}-{max(each)[0]:.3f})",
            f"{medians[name] / medians[first]:.4f}",
            "" if name == first else f"{LIMIT} s",
            f"{max(megabytes for _, megabytes in each):.0f}",
        )
    Console(width=120).print(table)
    return max(medians[name] for name in others)


def _apart(name: str) -> str:
    code = f"from tests.bench.bootstrap import measure; measure({name!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | ONE_THREAD,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


if __name__ == "__main__":
    main()
