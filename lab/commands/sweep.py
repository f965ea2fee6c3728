"""`assay train sweep`: one stage under several settings, compared on questions that none was trained on."""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.console import emit, notes, table_of
from lab.trials import cell, trial_cells

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
    checkpoint; a finished run with other settings or data is refused. It chooses nothing; look at the
    intervals. docs/training.md shows a sweep file.

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
        records = [_trained(wanted, trial, launch, dry_run=dry_run) for trial in wanted.trials]
        rows = review_rows(wanted, records, dry_run=dry_run)
        title = f"{file.name}: {review_title(wanted)}"
    else:
        rows = [_row(wanted, trial, launch, dry_run=dry_run) for trial in wanted.trials]
        title = f"{file.name}: {wanted.stage} on {len(wanted.dev)} dev questions, 95 % intervals"
    columns = tuple(rows[0])
    cells = [[cell(row[column]) for column in columns] for row in rows]
    emit(rows, as_json=as_json, table=table_of(title, [named(each) for each in columns], cells))


def _trained(
    wanted: "Sweep", trial: "Trial", launch: "Launch", *, dry_run: bool
) -> "RunRecord | None":
    """Return the record of a trial, trained first where it was not yet."""
    record = _record(trial)
    if record is not None and record.status == "finished":
        wanted.refuse_other(trial, launch, record)
    else:
        plan = wanted.plan(trial, launch)
        notes.print(f"{'would run' if dry_run else '$'} {plan.command}", soft_wrap=True)
        if not dry_run:
            _train(plan.line, launch)
            record = _record(trial)
    return record


def _row(wanted: "Sweep", trial: "Trial", launch: "Launch", *, dry_run: bool) -> dict[str, object]:
    """Return the row of a trial in the table, trained and measured first where it was not yet."""
    record = _trained(wanted, trial, launch, dry_run=dry_run)
    report = None
    if record is not None and record.status == "finished":
        report = _report(wanted, trial)
        if report is None and not dry_run:
            _measure(wanted, trial)
            report = _report(wanted, trial)
    metrics = _metrics(report) if report else {}
    n = metrics["accuracy"].n if metrics else None
    return trial_cells(trial, record) | {"n": n} | {name: metrics.get(name) for name in SHOWN}


def _record(trial: "Trial") -> "RunRecord | None":
    from training.runs import RunFolder

    return RunFolder(trial.folder).record()


def _train(line: tuple[str, ...], launch: "Launch") -> None:
    """Train one run; one that fails is named and the others go on."""
    from training.launch import environment

    words = [sys.executable, "-m", "accelerate.commands.launch", *line[2:]]
    done = subprocess.run(
        words,
        env=environment(line, launch.processes),
        stdout=sys.stderr.fileno(),
        check=False,
    )
    if done.returncode:
        notes.print(f"this run ended with exit code {done.returncode}; the next one follows")


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


def _measure(wanted: "Sweep", trial: "Trial") -> None:
    """Ask the trained stage the dev questions."""
    from training.manifest import read_chain

    out = trial.folder / REPORT
    stage = read_chain(trial.folder).manifest.stages[-1].name
    out.parent.mkdir(exist_ok=True)
    words = ["--chain", str(trial.folder), "--stage", stage, "--data", str(wanted.output / DEV)]
    subprocess.run(
        [sys.executable, "-c", MAIN, "eval", "run", *words, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _metrics(report: "EvalReport") -> "dict[str, Metric]":
    """Return what the trained stage did on all dev questions."""
    stages = [each for each in report.summaries if not each.is_baseline and each.group == "all"]
    return stages[-1].metrics
