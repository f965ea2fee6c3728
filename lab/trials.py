"""Runs under several settings, or at several steps, as the rows of one table: scores with their intervals."""

from typing import TYPE_CHECKING

from evals.schema import Metric

if TYPE_CHECKING:
    from evals.schema import RunRecord
    from evals.schema.reviewscores import ReviewScore
    from training.sweep import Trial

SCORED = ("f1_above_permuted", "f1", "recall", "precision", "recall_major")


def trial_cells(trial: "Trial", record: "RunRecord | None") -> dict[str, object]:
    """Return what the row of a trial begins with: which run it is, its own settings, how it ended."""
    return {
        "run": trial.folder.name,
        "settings": ", ".join(f"{key} {value}" for key, value in trial.changes.items()),
        "status": record.status if record else "not run",
    }


def score_cells(score: "ReviewScore | None") -> dict[str, object]:
    """Return a reviewer's score as cells, the headline first; empty ones for a run without a score.

    `n` counts papers, of which `answered` were; `permuted` is what the same lists get on other papers.
    """
    metrics = {name: None if score is None else _metric(score, name) for name in SCORED}
    return {
        "n": score and score.coverage.n_articles,
        **metrics,
        "permuted": score and score.headline.f1_permuted,
        "predicted": score and round(score.micro.n_predicted),
        "matched": score and round(score.micro.n_matched),
        "answered": score and score.coverage.n_answered,
    }


def cell(value: object) -> object:
    """Return a metric as "0.42 [0.30, 0.55]", a dash for what is not known."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}"
    if not isinstance(value, Metric):
        return value
    if value.value is None:
        return value.note or "undefined"
    span = "" if value.low is None else f" [{value.low:.2f}, {value.high:.2f}]"
    return f"{value.value:.3f}{span}"


def _metric(score: "ReviewScore", name: str) -> Metric:
    head = score.headline
    n = score.coverage.n_articles
    if name == "f1_above_permuted" and head.f1_above_permuted is None:
        return Metric(value=None, n=n, note="no permuted control")
    value = head.f1_above_permuted if name == "f1_above_permuted" else getattr(score.micro, name)
    low, high = score.intervals.get(name) or (None, None)
    return Metric(value=value, n=n, low=low, high=high)
