"""10,000 bootstrap draws of every calibration metric for the 107 held-out questions: time and memory.

The reference, measured in the same run, does what most scripts do: it draws rows one draw at a time and
calls scikit-learn, for three metrics of the sixteen; 200 draws are timed and counted fifty times.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from evals.questions import pathway_heldout
from evals.stats.calibration import CalibrationSettings, calibrate
from evals.stats.intervals import DRAWS
from tests.bench._measure import SMALL, Way, Ways, compare

REFERENCE_DRAWS = 2 if SMALL else 200
LIMIT = 0.5
CLUSTERS = [example.cluster for example in pathway_heldout()]


def rows(is_distinct: bool) -> tuple[list[float], list[bool], list[str]]:
    """Return confidences, outcomes and clusters of 107 rows; confidences all differ or step by 5 %."""
    generator = np.random.default_rng(0)
    c = generator.random(len(CLUSTERS))
    c = c if is_distinct else np.rint(20 * c) / 20
    return c.tolist(), (generator.random(len(CLUSTERS)) < 0.8 * c).tolist(), CLUSTERS


def ours(is_distinct: bool) -> Callable[[], object]:
    """Return the work of this repository: every metric, intervals over clusters, null ECE, bins."""
    return lambda: calibrate(*rows(is_distinct), CalibrationSettings())


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
        **{
            told: Way(partial(ours, is_distinct), seconds=LIMIT)
            for told, is_distinct in (("confidences in steps of 5 %", False), ("all confidences differ", True))
        },
    }
}


def main() -> None:
    """Print the table."""
    sizes = f"{len(CLUSTERS)} rows in {len(set(CLUSTERS))} clusters"
    compare(__name__, f"{DRAWS:,} draws of all 16 metrics, {sizes}, one core", 5)
