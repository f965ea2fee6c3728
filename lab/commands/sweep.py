"""`assay train sweep`: one stage under several settings, compared on questions that none was trained on."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType

from evals.errors import LabError
from lab.commands.review import cell, measure_reviewer, score_cells
from lab.commands.tables import counted, emit, notes, table_of

if TYPE_CHECKING:
    from evals.schema import EvalReport, RunRecord
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
    from training.launch.accelerate import Launch
    from training.launch.sweep import read_sweep

    wanted, launch = read_sweep(file), Launch(profile)
    if wanted.dev and not dry_run:
        wanted.output.mkdir(parents=True, exist_ok=True)
        write_examples(wanted.output / DEV, wanted.dev)
    tried = [(trial, *_tried(wanted, trial, launch, dry_run=dry_run)) for trial in wanted.trials]
    measure = _reviewed if wanted.papers else _asked
    rows = []
    for trial, record, why in tried:
        cells: dict[str, object] = {}
        if record is not None and record.status == "finished":
            try:
                cells = measure(wanted, trial, dry_run=dry_run)
            except LabError as error:
                why = f"trained, but not measured: {error}"
        rows.append(
            _trial_cells(trial, record, why) | (cells or (score_cells(None) if wanted.papers else _metrics(None)))
        )
    on = f"{len(wanted.dev)} dev questions"
    if wanted.papers:
        on = f"{counted(len(wanted.papers), 'development paper')}, matched by {wanted.measure.encoder}"
    title = f"{file.name}: {wanted.stage} on {on}, 95 % intervals"
    emit(rows, as_json=as_json, table=trials_table(title, rows, named))
    failed = [str(row["run"]) for row in rows if row["why"]]
    if failed:
        raise LabError(
            f"{len(failed)} of {len(rows)} runs ({', '.join(failed)}) came to no result, and the table says"
            " why; the others are kept. Mend the cause, then give the same command again: it trains and"
            " measures only what is missing."
        )


def _tried(wanted: "Sweep", trial: "Trial", launch: "Launch", *, dry_run: bool) -> "tuple[RunRecord | None, str]":
    """Return the record of a trial, trained first where it was not yet, and why it has not finished."""
    from lab.train.runs import heard
    from training.launch.accelerate import environment
    from training.run.folder import STOPPED_BECAUSE, RunFolder

    record = RunFolder(trial.folder).record()
    if record is not None and record.status == "finished":
        wanted.refuse_other(trial, launch, record)
        return record, ""
    plan = wanted.plan(trial, launch)
    notes.print(f"{'would run' if dry_run else '$'} {plan.command}", soft_wrap=True)
    if dry_run:
        return record, ""
    line = [sys.executable, "-m", "accelerate.commands.launch", *plan.line[2:]]
    ending = heard(line, environment(plan.line, launch.processes))
    if ending.code:
        notes.print(f"this run ended with exit code {ending.code}; the next one follows")
    record = RunFolder(trial.folder).record()
    if record is not None and record.status == "finished":
        return record, ""
    reason = record.result.get(STOPPED_BECAUSE) if record else None
    return record, ending.why or (f"stopped itself: {reason}" if reason else "was stopped before its end")


def _trial_cells(trial: "Trial", record: "RunRecord | None", why: str) -> dict[str, object]:
    """Return which run it is, its own settings, how it ended; a killed run calls itself running, and has failed."""
    status = record.status if record else "not run"
    return {
        "run": trial.folder.name,
        "settings": ", ".join(f"{key} {value}" for key, value in trial.changes.items()),
        "status": "failed" if why and status in ("running", "not run") else status,
        "why": why or None,
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


def _asked(wanted: "Sweep", trial: "Trial", *, dry_run: bool) -> dict[str, object]:
    """Return what a trained stage does on the dev questions, asked in a process of its own where it was not yet."""
    from lab.train.runs import heard
    from training.models.manifest import read_chain

    report = _report(wanted, trial)
    if report is None and not dry_run:
        out = trial.folder / REPORT
        stage = read_chain(trial.folder).manifest.stages[-1].name
        out.parent.mkdir(exist_ok=True)
        words = ["--chain", str(trial.folder), "--stage", stage, "--data", str(wanted.output / DEV)]
        line = [sys.executable, "-c", MAIN, "eval", "run", *words, "--out", str(out)]
        why = heard(line, os.environ, is_quiet=True).why
        if why:
            raise LabError(why)
        report = _report(wanted, trial)
    return _metrics(report)


def _report(wanted: "Sweep", trial: "Trial") -> "EvalReport | None":
    from evals.questions import data_sha256
    from evals.report import load_report
    from training.models.manifest import read_chain

    if not (trial.folder / REPORT).is_file():
        return None
    report = load_report(trial.folder / REPORT)
    stage = read_chain(trial.folder).manifest.stages[-1]
    is_this = report.data_sha256 == data_sha256(wanted.dev) and report.stage_checksums.get(stage.name) == stage.sha256
    return report if is_this else None


def _metrics(report: "EvalReport | None") -> dict[str, object]:
    stages = [each for each in report.summaries if not each.is_baseline and each.group == "all"] if report else []
    metrics = stages[-1].metrics if stages else {}
    n = metrics["accuracy"].n if metrics else None
    return {"n": n} | {name: metrics.get(name) for name in SHOWN}


def _reviewed(wanted: "Sweep", trial: "Trial", *, dry_run: bool) -> dict[str, object]:
    """Return how a trained reviewer does on the development papers, measured first where it was not yet."""
    from lab.settings import from_environment
    from training.reviewer.measure import Reviewer, folder_of, known_score

    reviewer = Reviewer(trial.folder.name, trial.folder, cache=from_environment().cache)
    folder = folder_of(trial.folder, wanted.papers, wanted.measure)
    if dry_run:
        found = known_score(reviewer, folder)
    else:
        found = measure_reviewer(reviewer, wanted.papers, wanted.measure, folder)
    return score_cells(found.report if found else None)
