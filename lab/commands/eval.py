"""`assay eval` and `assay leaderboard`: run, compare, rescore and rank, for any task; calibration of rows."""

import json
import shlex
from argparse import ArgumentParser
from collections.abc import Generator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import Field
from rich.console import Group as Tables
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from typer.core import TyperCommand
from typer.main import get_command

from evals.compare import Answers, Pairing
from evals.compare import compare as compare_pairs
from evals.errors import BadConfig, LabError
from evals.io import read_rows, write_whole
from evals.leaderboard import standings
from evals.model import Progress, Sampling
from evals.questions.sets import load_questions
from evals.questions.task import Questions
from evals.readers import check_way
from evals.report import build_report, instrument, load_report, save_report, stages_of
from evals.run import RunSettings, baseline_rows, changes_of, run_task
from evals.run import rescore as judge_again
from evals.schema import Record, Share
from evals.schema.reports import Report, ReviewReport
from evals.stats.calibration import CalibrationSettings, calibrate
from evals.task import TASKS
from lab.commands import HostedModels, Json, answers, refiner, review, terminal, verify, with_options
from lab.commands.terminal import counted, emit, notes
from lab.commands.verify import Read, ReadingJudge
from lab.results.batch import training_rows
from lab.results.evaluations import about_run, command_line, public
from lab.services import REPORTS
from lab.settings import EMBEDDED, from_environment
from lab.ui.text import say
from training.models.manifest import chain_file


class OutcomeRow(Record):
    """A row of `assay eval calibration`."""

    id: str
    confidence: Annotated[Share, Field(strict=True)] | None
    correct: bool = Field(strict=True)
    cluster: str | None = None


def calibration(
    rows: Annotated[Path, typer.Argument(help="JSONL: id, confidence 0..1 or null, correct, cluster.")],
    bins: Annotated[int, typer.Option(min=1, max=1000, help="How many bins.")] = 10,
    binning: Annotated[
        Literal["width", "mass"],
        typer.Option(help="width: equal parts of 0..1. mass: equally many rows, ties together."),
    ] = "width",
    bootstrap: Annotated[int, typer.Option(min=1, help="Draws behind each interval.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same intervals.")] = 0,
    as_json: Json = False,
) -> None:
    """Measure how well stated confidences match what was correct.

    A row of the file: {"id": "q1", "confidence": 0.8, "correct": true, "cluster": "thymus E2F"}.
    Rows with the same "cluster" are resampled together; without one, a row stands alone. Rows whose
    confidence is null are counted and enter no metric.

    Compare ece with ece_if_calibrated, which is what chance alone makes of these confidences: an ECE
    below its q95 shows no miscalibration. Compare brier with base_rate_brier, which always stating
    the share correct would get. docs/calibration.md explains every figure.

    Example: assay eval calibration rows.jsonl --bins 10 --json

    Example: assay eval calibration rows.jsonl --binning mass
    """
    read = read_rows(rows, OutcomeRow, key=lambda row: row.id)
    measured = calibrate(
        [row.confidence for row in read],
        [row.correct for row in read],
        [f"cluster {row.cluster}" if row.cluster is not None else f"row {row.id}" for row in read],
        CalibrationSettings(bins, binning, bootstrap, seed),
    )
    if measured.note:
        notes.print(f"nothing to measure: {measured.note}")
    emit(measured, as_json=as_json, table=terminal.calibration_tables(measured))


Group = Annotated[str, typer.Option(help="all, unaided, or a kind such as direct; the task's headline if none.")]
TaskName = Annotated[
    str,
    typer.Option(
        "--task", help="questions, review or refine; where a task has a command of its own, with its options."
    ),
]
OF_TASK = {
    "run": {"refine": (refiner.app, "run"), "review": (review.app, "infer")},
    "rescore": {"refine": (refiner.app, "rescore")},
}
"""Where a task's own command has other options than that for questions: its group and name."""


class ByTask(TyperCommand):
    """A command that hands over to the task's own one where `--task` names one."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the command that is to run."""
        chosen = ArgumentParser(add_help=False, allow_abbrev=False)
        chosen.add_argument("--task", default="questions")
        given, rest = chosen.parse_known_args(args)
        if given.task not in TASKS:
            raise typer.BadParameter(f"{given.task!r} is none of {', '.join(TASKS)}.", param_hint="--task")
        if self.name == "run" and any(word.partition("=")[0] == "--answers" for word in rest):
            group, name = answered, "run"
            rest += ["--task", given.task]
        else:
            group, name = OF_TASK.get(str(self.name), {}).get(given.task, (None, ""))
        if group is None:
            return super().make_context(info_name, args, parent, **extra)
        own: Any = get_command(group)
        return own.commands[name].make_context(info_name, rest, parent, **extra)


def compare(
    reports: Annotated[list[Path], typer.Argument(help="Two reports on the same rows, or one to compare within.")],
    stages: Annotated[
        str | None,
        typer.Option(
            "--stages",
            "--stage",
            help="Stages with commas between. Of one report: all pairs. Of two: one name for both, or first,second.",
        ),
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(help="A metric; may be given several times.")] = None,
    group: Group = "",
    draws: Annotated[int, typer.Option(min=1, help="Draws behind interval and p.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same figures.")] = 0,
    task: TaskName = "questions",
    as_json: Json = False,
) -> None:
    """Compare stages or models on the same rows: difference, 95 % interval, p.

    Differences are second minus first. Whole clusters of questions are resampled and swapped together;
    "p, Holm" is corrected for every figure in the table. Reports of different verifiers or questions
    are refused. The table says how the answers were read; a note marks two reports that were read in
    different ways.

    Example: assay eval compare before.json after.json --stage grpo --metric accuracy --metric ece

    Example: assay eval compare report.json --stages sft,grpo
    """
    if len(reports) > 2:
        raise BadConfig(f"compare takes one report or two, found {len(reports)}; leave some out")
    named = [name.strip() for name in stages.split(",")] if stages else []
    read = [load_report(path, Report) for path in reports]
    pairs = _within(read[0], named) if len(read) == 1 else _between(read[0], read[1], named)
    pairing = Pairing(metrics=metric or (), group=group, draws=draws, seed=seed)
    found = compare_pairs(pairs, pairing)
    for each in found.comparisons:
        for note in each.notes:
            notes.print(f"note: the two reports differ in {note}")
    emit(found, as_json=as_json, table=terminal.comparison_table(found))


@with_options(ReadingJudge, "asked")
def rescore(
    report: Annotated[Path, typer.Argument(help="A report with full texts.")],
    asked: ReadingJudge,
    out: Annotated[Path | None, typer.Option(help="Where the new report goes; the same file if not given.")] = None,
    read: Read = "auto",
    task: TaskName = "questions",
    as_json: Json = False,
) -> None:
    """Judge the answers of a report again, with today's verifiers, and write it whole.

    Nothing is generated: questions and texts are the stored ones. The versions that judged before are
    kept in the report. Answers without an answer line are read from their text, and marked so. Of a report on
    reviews, the concerns are cleaned and matched again with the human ones of its corpus, which must be at hand.
    --json lists every answer that is judged otherwise.

    Example: assay eval rescore reports/kmp-test.json --out reports/kmp-test.new.json
    """
    tried = verify.tried_judge(read, asked)
    if task == "review":
        old = load_report(report, ReviewReport)
        found = changes_of(old, review.infer.rescore_review(old, report))
    else:
        found = judge_again(load_report(report), check_way(read), tried)
    if tried is not None:
        found = found.model_copy(update={"report": tried.marked(found.report)})
    target = out or report
    save_report(found.report, target)
    changed = sum(change.is_of_verdict for change in found.changes)
    more = {"verdicts": counted(changed, "verdict"), "answers": counted(len(found.changes) - changed, "answer")}
    notes.print(say("command.rescored", out=target, n=len(found.report.rows), **more))
    if tried is not None:
        tried.tell()
    document = {
        "out": str(target),
        "before": found.before,
        "after": found.report.instrument,
        "n": len(found.report.rows),
        "n_changed": changed,
        "read_by": {s.stage: s.read_by for s in found.report.summaries if s.group == "all"},
        **found.model_dump(mode="json", include={"counts", "changes", "shifts"}),
    }
    emit(document, as_json=as_json, table=terminal.rescored_tables(found))


def _within(report: Report[Any], named: list[str]) -> list[tuple[Answers, Answers]]:
    """Return all pairs of the stages named in one report; of the chain's own if none is."""
    chosen = named or list(stages_of(report))
    if len(chosen) < 2:
        raise BadConfig(say("command.one_stage", stages=", ".join(chosen) or "none"))
    return [((report, one), (report, other)) for one, other in combinations(chosen, 2)]


def _between(first: Report[Any], second: Report[Any], named: list[str]) -> list[tuple[Answers, Answers]]:
    """Return the pairs of stages to compare between two reports; those in both if none is named."""
    if len(named) > 2:
        raise BadConfig(f"between two reports name one stage, or first,second; found {', '.join(named)}")
    if named:
        return [((first, named[0]), (second, named[-1]))]
    ours, theirs = stages_of(first), stages_of(second)
    if (ours, theirs) == ((first.chain_name,), (second.chain_name,)):
        return [((first, first.chain_name), (second, second.chain_name))]
    shared = [stage for stage in ours if stage in theirs]
    if not shared:
        raise BadConfig(say("command.no_shared", ours=", ".join(ours), theirs=", ".join(theirs)))
    return [((first, stage), (second, stage)) for stage in shared]


answered = typer.Typer()
answered.callback()(lambda: None)
answered.command("run")(answers.run)

app = typer.Typer(no_args_is_help=True, help="Run a chain on questions, judge answers, measure calibration.")
app.command("calibration")(calibration)
app.command("verify")(verify.verify)
app.command("readers")(verify.readers)
app.command("compare", cls=ByTask)(compare)
refiner.app.command("compare", epilog="Example: assay refiner compare report.json --stages sft,refiner")(compare)
app.command("rescore", cls=ByTask)(rescore)


@app.command("run", cls=ByTask)
@with_options(ReadingJudge, "asked")
def run(
    out: Annotated[Path, typer.Option(help="Where the report goes, a .json file.")],
    asked: ReadingJudge,
    data: Annotated[
        str,
        typer.Option(
            help="pathways-heldout, kmp-test, …, or a question set of your own: a file, a name, hub:owner/name."
            " Of its rows the test rows are asked; [dev], [train] or [all] behind it asks others."
        ),
    ] = "pathways-heldout",
    chain: Annotated[str, typer.Option(help="embedded, a run folder or a chain.json.")] = "embedded",
    base: Annotated[
        str | None, typer.Option("--base", help="The base model, if it is not where the chain says.")
    ] = None,
    stage: Annotated[str, typer.Option(help="Stages with commas between, or all.")] = "all",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many questions.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Questions answered at a time.")] = 8,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 96,
    dtype: Annotated[
        Literal["bfloat16", "float32"], typer.Option(help="float32 is slower and repeats exactly.")
    ] = "bfloat16",
    read: Read = "auto",
    hosted: HostedModels = None,
    task: TaskName = "questions",
    as_json: Json = False,
) -> None:
    """Answer every question with every stage and write a report with all rows in full.

    With --answers ROWS.jsonl in place of a chain, answers that were made elsewhere are graded, for any task
    (`assay eval run --answers x --help`). Trivial baselines are judged beside the stages. A run that was stopped goes on where it was when
    the same command is given again.

    Example: assay eval run --chain embedded --data kmp-test --out reports/kmp-test.json

    Example: assay eval run --chain embedded --data my-questions.yaml --out reports/mine.json

    Example: assay eval run --hosted gpt=https://api.openai.com/v1#gpt-4.1-mini --out reports/beside-gpt.json
    """
    from training.data.tables import from_hub
    from training.models.chain import load_chain
    from training.serve.hosted import with_hosted

    way = check_way(read)
    tried = verify.tried_judge(read, asked)
    examples = load_questions(data, from_hub, part="test")[:limit]  # of a set of one's own its test rows
    partial = out.with_name(out.name + ".partial.jsonl")
    with progress_bar("loading the chain", 100) as progress:
        loaded = load_chain(chain, dtype, progress, base=base, cache=from_environment().cache)
    loaded = with_hosted(loaded, hosted or ())
    stages = loaded.stages if stage == "all" else tuple(name.strip() for name in stage.split(","))
    settings = RunSettings(
        sampling=Sampling(max_new_tokens=max_new_tokens),
        batch_size=batch_size,
        stage_checksums=loaded.stage_checksums,
        dtype=loaded.dtype,
        partial=partial,
    )
    questions = Questions((), loaded.manifest.system_prompt, "auto" if way == "judge" else way)
    if behind := sum(questions.prompt(each)[-1].content != each.prompt for each in examples):
        told = "the chain's system prompt has no place for options"
        notes.print(f"note: {told}, so they stand behind {counted(behind, 'question')} of {len(examples)}")
    with progress_bar("answering", len(examples)) as progress:
        rows = run_task(questions, loaded, examples, stages, settings, progress)
    options = {"batch_size": batch_size, "dtype": dtype, "limit": limit}
    for name, each in (loaded.hosted or {}).items():
        if name in stages:
            notes.print(each.told)
    for substitution in loaded.substitutions:
        notes.print(f"note: {substitution}")
    name = public(data)
    about: dict[str, Any] = {
        "data_name": name if limit is None else f"{name} (first {len(examples)})",
        **about_run(loaded, stages, settings.sampling, **options, read=way),
        "command": command_line(
            chain=chain,
            base=base,
            stage=stage,
            data=data,
            out=out,
            max_new_tokens=max_new_tokens,
            read=None if way == "auto" else way,
            judge="URL" if tried else None,
            judge_model=asked.judge_model or None,
            **options,
        )
        + "".join(f" --hosted {shlex.quote(each if '://' in each else public(each))}" for each in hosted or ()),
    }
    baselines = baseline_rows(questions, examples, training_rows(data))
    report = build_report(examples, (*rows, *baselines), **about)
    if tried is not None:
        report = tried.marked(judge_again(report, way, tried).report)
    save_report(report, out)
    partial.unlink(missing_ok=True)
    notes.print(f"wrote {out}: {len(rows)} answers to {len(examples)} questions")
    if tried is not None:
        tried.tell()
    emit(report, as_json=as_json, table=terminal.summary_table(report))


# ---- what a person sees -----------------------------------------------------------------------


@contextmanager
def progress_bar(title: str, total: int) -> Generator[Progress]:
    """Show a progress bar on standard error."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=notes, transient=True) as bars:
        task = bars.add_task(title, total=total)
        yield lambda share, message: bars.update(task, completed=round(share * total), description=message)


def leaderboard(
    reports: Annotated[
        list[Path] | None, typer.Argument(help="Reports on the same questions; those of the embedded chain if none.")
    ] = None,
    order: Annotated[str, typer.Option(help="The metric that the table is ordered by; the task's own if none.")] = "",
    group: Group = "",
    out: Annotated[Path | None, typer.Option(help="A folder for leaderboard.md and leaderboard.json.")] = None,
    task: TaskName = "questions",
    as_json: Json = False,
) -> None:
    """Show models and baselines in one table per set of questions, with n, intervals and ranks.

    A rank is one more than the number of entries that are shown to be better: the paired 95 % interval
    excludes zero and p, corrected for all pairs, is below 0.05. Reports of different verifiers are
    not mixed.

    Example: assay leaderboard reports/*.json --order accuracy --out board
    """
    folder = chain_file(EMBEDDED).parent / REPORTS
    paths = [each for each in reports or sorted(folder.glob("*.json")) if not each.name.endswith(".run.json")]
    if not paths:
        raise LabError(say("command.no_report"))
    read = [load_report(path, Report) for path in paths]
    for path, report in zip(paths, read, strict=True):
        if report.task == "questions" and report.versions != instrument():
            notes.print(say("command.outdated", path=path))
    found = standings(read, group, order)
    if out is not None:
        rows = json.dumps(terminal.plain(found), ensure_ascii=False, indent=1) + "\n"
        for name, text in {"leaderboard.md": terminal.standings_markdown(found), "leaderboard.json": rows}.items():
            write_whole(out / name, text)
            notes.print(f"wrote {out / name}")
    emit(found, as_json=as_json, table=Tables(*map(terminal.standings_table, found)))


app.command("leaderboard", cls=ByTask)(leaderboard)
