"""`assay train sweep`: one stage under several settings, compared on questions that none was trained on."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType

from evals.errors import LabError
from evals.schema import Metric
from lab.commands.review import measure_reviewer
from lab.commands.tables import counted, emit, notes, table_of

if TYPE_CHECKING:
    from evals.schema import RunRecord
    from evals.schema.reports import ReviewScore
    from training.launch.sweep import Trial

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


def trials_table(title: str, rows: Sequence[Mapping[str, object]], named: Callable[[str], str]) -> RenderableType:
    """Return the table of all trials and, where some came to no result, one of those below it."""
    columns = [column for column in rows[0] if column != "why"]
    cells = [[cell(row[column]) for column in columns] for row in rows]
    table = table_of(title, [named(each) for each in columns], cells)
    failed = [(row["run"], row["settings"], row["status"], row["why"]) for row in rows if row["why"]]
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


if TYPE_CHECKING:
    from training.launch.sweep import Sweep, Trial
    from training.reviewer.measure import Measured


def review_rows(wanted: "Sweep", tried: Sequence[Tried], *, dry_run: bool) -> list[dict[str, object]]:
    """Return a row for each run of a sweep; finished ones are measured first where they were not yet."""
    rows = []
    for trial, each in zip(wanted.trials, tried, strict=True):
        found, why = None, ""
        if each.is_finished:
            try:
                found = _measured(wanted, trial, dry_run=dry_run)
            except LabError as error:
                why = str(error)
        rows.append(trial_cells(trial, each.unless(why)) | score_cells(found.score if found else None))
    return rows


def review_title(wanted: "Sweep") -> str:
    """Return what stands above the table: how the runs were compared."""
    papers = counted(len(wanted.papers), "development paper")
    return f"{wanted.stage} on {papers}, matched by {wanted.measure.encoder}, 95 % intervals"


def _measured(wanted: "Sweep", trial: "Trial", *, dry_run: bool) -> "Measured | None":
    from lab.settings import from_environment
    from training.reviewer.measure import Reviewer, folder_of, known_score

    reviewer = Reviewer(trial.folder.name, trial.folder, cache=from_environment().cache)
    folder = folder_of(trial.folder, wanted.papers, wanted.measure)
    if dry_run:
        return known_score(reviewer, folder)
    return measure_reviewer(reviewer, wanted.papers, wanted.measure, folder)


if TYPE_CHECKING:
    from evals.schema import EvalReport, Metric, RunRecord
    from training.launch.accelerate import Launch
    from training.launch.sweep import Sweep, Trial

SHOWN = ("accuracy", "reward", "ece", "brier")
DEV = "dev.jsonl"
REPORT = Path("reports") / "dev.json"
MAIN = "from lab.cli import main; main()"


def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep, a YAML file.")],
    profile: Annotated[str | None, typer.Option(help="How to launch, as in assay train sft.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the runs; run nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Train a stage under several settings and put what each does on the dev questions in one table.

    Runs of stage review are compared on development papers: each reviews them, is cleaned and scored
    above its permuted control; test papers are never touched.

    Given again it goes on where it was: finished runs are kept, the others go on from their last
    checkpoint; a finished run with other settings or data is refused. A run that fails stops no other;
    a second table says why, and the exit code is 1. It chooses nothing; look at the intervals.
    docs/training.md shows a sweep file.

    Example: assay train sweep sweep.yaml --dry-run
    """
    from evals.questions import write_examples
    from evals.review.page import named

    pass
    from training.launch.accelerate import Launch
    from training.launch.sweep import read_sweep

    wanted, launch = read_sweep(file), Launch(profile)
    if wanted.dev and not dry_run:
        wanted.output.mkdir(parents=True, exist_ok=True)
        write_examples(wanted.output / DEV, wanted.dev)
    if wanted.papers:
        tried = [_tried(wanted, trial, launch, dry_run=dry_run) for trial in wanted.trials]
        rows = review_rows(wanted, tried, dry_run=dry_run)
        title = f"{file.name}: {review_title(wanted)}"
    else:
        rows = [_row(wanted, trial, launch, dry_run=dry_run) for trial in wanted.trials]
        title = f"{file.name}: {wanted.stage} on {len(wanted.dev)} dev questions, 95 % intervals"
    emit(rows, as_json=as_json, table=trials_table(title, rows, named))
    _tell_failed(rows)


def _tell_failed(rows: list[dict[str, object]]) -> None:
    """Raise LabError if any run has no result, after the table of all of them was shown."""
    failed = [str(row["run"]) for row in rows if row["why"]]
    if failed:
        raise LabError(
            f"{len(failed)} of {len(rows)} runs ({', '.join(failed)}) came to no result, and the table says"
            " why; the others are kept. Mend the cause, then give the same command again: it trains and"
            " measures only what is missing."
        )


def _tried(wanted: "Sweep", trial: "Trial", launch: "Launch", *, dry_run: bool) -> Tried:
    """Return what became of a trial, trained first where it was not yet; one that fails stops no other."""
    record = _record(trial)
    if record is not None and record.status == "finished":
        wanted.refuse_other(trial, launch, record)
        return Tried(record)
    plan = wanted.plan(trial, launch)
    notes.print(f"{'would run' if dry_run else '$'} {plan.command}", soft_wrap=True)
    if dry_run:
        return Tried(record)
    why = _train(plan.line, launch)
    record = _record(trial)
    if record is not None and record.status == "finished":
        return Tried(record)
    return Tried(record, why or _stopped(record))


def _stopped(record: "RunRecord | None") -> str:
    """Return why a run that did not fail has not finished either."""
    from training.run.folder import STOPPED_BECAUSE

    reason = record.result.get(STOPPED_BECAUSE) if record else None
    return f"stopped itself: {reason}" if reason else "was stopped before its end"


def _row(wanted: "Sweep", trial: "Trial", launch: "Launch", *, dry_run: bool) -> dict[str, object]:
    """Return the row of a trial in the table, trained and measured first where it was not yet."""
    tried = _tried(wanted, trial, launch, dry_run=dry_run)
    report = None
    if tried.is_finished:
        report = _report(wanted, trial)
        if report is None and not dry_run:
            tried = tried.unless(_measure(wanted, trial))
            report = _report(wanted, trial)
    metrics = _metrics(report) if report else {}
    n = metrics["accuracy"].n if metrics else None
    return trial_cells(trial, tried) | {"n": n} | {name: metrics.get(name) for name in SHOWN}


def _record(trial: "Trial") -> "RunRecord | None":
    from training.run.folder import RunFolder

    return RunFolder(trial.folder).record()


def _train(line: tuple[str, ...], launch: "Launch") -> str:
    """Train one run and return why it failed, "" if it did not."""
    from lab.train.runs import heard
    from training.launch.accelerate import environment

    words = [sys.executable, "-m", "accelerate.commands.launch", *line[2:]]
    ending = heard(words, environment(line, launch.processes))
    if ending.code:
        notes.print(f"this run ended with exit code {ending.code}; the next one follows")
    return ending.why


def _report(wanted: "Sweep", trial: "Trial") -> "EvalReport | None":
    """Return the report of a trained stage; None if there is none of these questions and weights."""
    from evals.questions import data_sha256
    from evals.report import load_report
    from training.models.manifest import read_chain

    if not (trial.folder / REPORT).is_file():
        return None
    report = load_report(trial.folder / REPORT)
    stage = read_chain(trial.folder).manifest.stages[-1]
    is_this = report.data_sha256 == data_sha256(wanted.dev) and report.stage_checksums.get(stage.name) == stage.sha256
    return report if is_this else None


def _measure(wanted: "Sweep", trial: "Trial") -> str:
    """Ask the trained stage the dev questions and return why that failed, "" if it did not."""
    from lab.train.runs import heard
    from training.models.manifest import read_chain

    out = trial.folder / REPORT
    stage = read_chain(trial.folder).manifest.stages[-1].name
    out.parent.mkdir(exist_ok=True)
    words = ["--chain", str(trial.folder), "--stage", stage, "--data", str(wanted.output / DEV)]
    line = [sys.executable, "-c", MAIN, "eval", "run", *words, "--out", str(out)]
    return heard(line, os.environ, is_quiet=True).why


def _metrics(report: "EvalReport") -> "dict[str, Metric]":
    """Return what the trained stage did on all dev questions."""
    stages = [each for each in report.summaries if not each.is_baseline and each.group == "all"]
    return stages[-1].metrics
