"""The part of `assay train sweep` that compares reviewers: every run reviews the development papers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evals.errors import LabError
from lab.commands.review_measure import measure_reviewer
from lab.console import counted
from lab.trials import Tried, score_cells, trial_cells

if TYPE_CHECKING:
    from training.reviewing.measured import Measured
    from training.sweep import Sweep, Trial


def review_rows(
    wanted: "Sweep", tried: Sequence[Tried], *, dry_run: bool
) -> list[dict[str, object]]:
    """Return a row for each run of a sweep; finished ones are measured first where they were not yet."""
    rows = []
    for trial, each in zip(wanted.trials, tried, strict=True):
        found, why = None, ""
        if each.is_finished:
            try:
                found = _measured(wanted, trial, dry_run=dry_run)
            except LabError as error:
                why = str(error)
        rows.append(
            trial_cells(trial, each.unless(why)) | score_cells(found.score if found else None)
        )
    return rows


def review_title(wanted: "Sweep") -> str:
    """Return what stands above the table: how the runs were compared."""
    papers = counted(len(wanted.papers), "development paper")
    return f"{wanted.stage} on {papers}, matched by {wanted.measure.encoder}, 95 % intervals"


def _measured(wanted: "Sweep", trial: "Trial", *, dry_run: bool) -> "Measured | None":
    from lab.settings import from_environment
    from training.reviewing.development import folder_of
    from training.reviewing.measured import Reviewer, known_score

    reviewer = Reviewer(trial.folder.name, trial.folder, cache=from_environment().cache)
    folder = folder_of(trial.folder, wanted.papers, wanted.measure)
    if dry_run:
        return known_score(reviewer, folder)
    return measure_reviewer(reviewer, wanted.papers, wanted.measure, folder)
