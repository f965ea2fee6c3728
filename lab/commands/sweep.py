"""`assay train sweep`: one stage under several settings, compared on questions that none was trained on."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import LabError
from lab.console import emit, notes
from lab.trials import Tried, trial_cells, trials_table

if TYPE_CHECKING:
    from evals.schema import EvalReport, Metric, RunRecord
    from training.launch import Launch
    from training.sweep import Sweep, Trial

SHOWN = ("accuracy", "reward", "ece", "brier")
DEV = "dev.jsonl"
REPORT = Path("reports") / "dev.json"
MAIN = "from lab.cli import main; main()"


def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep, a YAML file.")],
    profile: Annotated[
        str | None, typer.Option(help="How to launch, as in assay train sft.")
    ] = None,
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
    from evals.concerns.page import named
    from evals.questions import write_examples
    from lab.commands.sweep_review import review_rows, review_title
    from training.launch import Launch
    from training.sweep import read_sweep

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
    from training.runs import STOPPED_BECAUSE

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
    from training.runs import RunFolder

    return RunFolder(trial.folder).record()


def _train(line: tuple[str, ...], launch: "Launch") -> str:
    """Train one run and return why it failed, "" if it did not."""
    from lab.ending import heard
    from training.launch import environment

    words = [sys.executable, "-m", "accelerate.commands.launch", *line[2:]]
    ending = heard(words, environment(line, launch.processes))
    if ending.code:
        notes.print(f"this run ended with exit code {ending.code}; the next one follows")
    return ending.why


def _report(wanted: "Sweep", trial: "Trial") -> "EvalReport | None":
    """Return the report of a trained stage; None if there is none of these questions and weights."""
    from evals.questions import data_sha256
    from evals.report import load_report
    from training.manifest import read_chain

    if not (trial.folder / REPORT).is_file():
        return None
    report = load_report(trial.folder / REPORT)
    stage = read_chain(trial.folder).manifest.stages[-1]
    is_this = (
        report.data_sha256 == data_sha256(wanted.dev)
        and report.stage_checksums.get(stage.name) == stage.sha256
    )
    return report if is_this else None


def _measure(wanted: "Sweep", trial: "Trial") -> str:
    """Ask the trained stage the dev questions and return why that failed, "" if it did not."""
    from lab.ending import heard
    from training.manifest import read_chain

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
