"""Runs under several settings, or at several steps, as the rows of one table: scores with their intervals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType

from evals.schema import Metric
from lab.console import table_of

if TYPE_CHECKING:
    from evals.schema import RunRecord
    from evals.schema.reviewscores import ReviewScore
    from training.sweep import Trial

SCORED = ("f1_above_permuted", "f1", "recall", "precision", "recall_major")


@dataclass(frozen=True)
class Tried:
    """What became of a trial: its record, and why it has no result ("" if it has one, or was not run)."""

    record: "RunRecord | None"
    why: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether it was trained to its end."""
        return self.record is not None and self.record.status == "finished"

    @property
    def status(self) -> str:
        """How it ended; a run that was killed still calls itself running, and has failed."""
        known = self.record.status if self.record else "not run"
        return "failed" if self.why and known in ("running", "not run") else known

    def unless(self, why: str) -> "Tried":
        """Return the same, or that it was trained but could not be measured, for this reason."""
        return replace(self, why=f"trained, but not measured: {why}") if why else self


def trial_cells(trial: "Trial", tried: Tried) -> dict[str, object]:
    """Return what the row of a trial begins with: which run it is, its own settings, how it ended."""
    return {
        "run": trial.folder.name,
        "settings": ", ".join(f"{key} {value}" for key, value in trial.changes.items()),
        "status": tried.status,
        "why": tried.why or None,
    }


def trials_table(
    title: str, rows: Sequence[Mapping[str, object]], named: Callable[[str], str]
) -> RenderableType:
    """Return the table of all trials and, where some came to no result, one of those below it."""
    columns = [column for column in rows[0] if column != "why"]
    cells = [[cell(row[column]) for column in columns] for row in rows]
    table = table_of(title, [named(each) for each in columns], cells)
    failed = [
        (row["run"], row["settings"], row["status"], row["why"]) for row in rows if row["why"]
    ]
    if not failed:
        return table
    return Group(table, table_of("came to no result", ("run", "settings", "status", "why"), failed))


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
