"""10,000 bootstrap draws of every calibration metric for the 107 held-out questions: time and memory.

The reference, measured in the same run, does what most scripts do: it draws rows one draw at a time and
calls scikit-learn, for three metrics of the nineteen; 200 draws are timed and counted fifty times.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from evals.questions import pathway_heldout
from evals.stats.calibration import Settings, calibrate
from evals.stats.intervals import DRAWS, IntervalKind
from tests.bench._measure import SMALL, Way, Ways, compare

REFERENCE_DRAWS = 2 if SMALL else 200
LIMIT = 0.5


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


WAYS: Ways = {
    "calibrate": {
        "scikit-learn draw by draw, 3 metrics": Way(reference, DRAWS / REFERENCE_DRAWS),
        "percentile, confidences in steps of 5 %": Way(partial(ours, False, "percentile"), seconds=LIMIT),
        "percentile, all confidences differ": Way(partial(ours, True, "percentile"), seconds=LIMIT),
        "BCa, confidences in steps of 5 %": Way(partial(ours, False, "bca"), seconds=LIMIT),
        "BCa, all confidences differ": Way(partial(ours, True, "bca"), seconds=LIMIT),
    }
}


def main() -> None:
    """Print the table."""
    clusters = rows(is_distinct=True)[2]
    sizes = f"{len(clusters)} rows in {len(set(clusters))} clusters"
    compare(__name__, f"{DRAWS:,} draws of all 19 metrics, {sizes}, one core", 5)
