"""`assay eval` and `assay leaderboard`: run, compare, rescore and rank, for any task; calibration of rows."""

import json
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import AliasChoices, Field
from rich.console import Group as Tables
from typer.core import TyperGroup
from typer.main import get_group

from evals.compare import Answers, Pairing
from evals.compare import compare as compare_pairs
from evals.errors import BadConfig, IncomparableReports, LabError
from evals.io import read_rows, write_whole
from evals.leaderboard import standings
from evals.questions.sets import load_questions
from evals.questions.task import Questions
from evals.readers import check_way
from evals.refine.judge import Inquiry, Judge, Verdicts
from evals.refine.task import Refine
from evals.report import build_report, claims_of, instrument, load_report, save_report, stages_of
from evals.run import RunSettings, baseline_rows, changes_of, grade_answers, run_task
from evals.run import rescore as judge_again
from evals.schema import Record, Share
from evals.schema.questions import Sampling
from evals.schema.refiner import RefinerRecord, RewardConfig
from evals.schema.reports import RefinerReport, Report, ReviewReport
from evals.stats.calibration import CalibrationSettings, calibrate
from evals.task import StageAnswer
from lab.commands import FileSettings, HostedModels, InFile, JsonSettings, command, terminal, verify
from lab.commands.terminal import emit, notes, plural, progress_shown
from lab.commands.verify import LabelledJudge, judge_server, tried_judge
from lab.services import REPORTS
from lab.settings import EMBEDDED, from_environment
from lab.shared.evaluations import about_run, command_line, public, training_rows
from lab.ui.text import say
from training.models.manifest import chain_file

DEADLINE_SECONDS = 3600.0
"""For the verdicts of a judge on all refined answers."""
FIRST = re.compile(r"(?P<name>.+) \(first (?P<count>\d+)\)")
"""What a report on the first examples alone says of its data."""
LONGEST = {"questions": Sampling.max_new_tokens, "refine": 128}
DTYPE: dict[str, Literal["float32"]] = {"refine": "float32"}
"""In float32 an answer does not depend on what else is in the batch."""


class ByTask(TyperGroup):
    """The group `eval`: `run --task review` is `assay review infer`, with --answers `assay review score`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called and its words."""
        name, found, rest = super().resolve_command(ctx, args)
        words = ArgumentParser(add_help=False, allow_abbrev=False)
        for option in ("--task", "--answers", "--data"):
            words.add_argument(option)
        given, left = words.parse_known_args(rest)
        if name != "run" or given.task != "review":
            return name, found, rest
        from lab.commands import review

        commands = get_group(review.app).commands
        papers = [] if given.data is None else ["--data", given.data]
        if given.answers is None:
            return name, commands["infer"], left + papers
        reference = Path(given.data or "")
        reference = reference / "test.jsonl" if reference.is_dir() else reference
        return name, commands["score"], [*left, "--predictions", given.answers, "--reference", str(reference)]


app = typer.Typer(
    cls=ByTask, no_args_is_help=True, help="Run a chain on questions, judge answers, measure calibration."
)
command(app)(verify.verify)
command(app)(verify.readers)


class OutcomeRow(Record):
    """A row of `assay eval calibration`."""

    id: str
    confidence: Annotated[Share, Field(strict=True)] | None
    correct: bool = Field(strict=True)
    cluster: str | None = None


class GivenAnswerRow(Record):
    """An answer to the example `id`; answers of several stages may stand in one file."""

    id: str
    answer: str = Field(validation_alias=AliasChoices("answer", "completion", "text"))
    stage: str = ""


class OutcomeSettings(JsonSettings):
    """Settings of `assay eval calibration`."""

    rows: Path
    """JSONL: id, confidence 0..1 or null, correct, cluster."""
    bins: Annotated[int, typer.Option(min=1, max=1000)] = 10
    """How many bins."""
    binning: Literal["width", "mass"] = "width"
    """width: equal parts of 0..1. mass: equally many rows, ties together."""
    bootstrap: Annotated[int, typer.Option(min=1)] = 10_000
    """Draws behind each interval."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Same seed, same intervals."""


class GroupSettings(JsonSettings):
    """Settings of looking at a group of the answers of reports."""

    group: str = ""
    """all, unaided, or a kind such as direct; the task's headline if none."""
    task: str | None = None
    """questions, review or refine; reports say it themselves."""


class ThresholdSettings(GroupSettings):
    """Settings of `assay eval threshold`."""

    report: Path
    """A report on questions."""
    stage: str = "all"
    """Stages with commas between, or all."""
    wrong_at_most: str = "10%"
    """The share of the answers kept that may be wrong."""
    confidence: str = "95%"
    """How certain that is to hold."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Seed that draws one answer of each cluster, and the folds."""
    out: Path | None = None
    """Keeps the threshold of one stage; threshold.json in its run folder is what Ask goes by."""


class ForgettingSettings(JsonSettings):
    """Settings of `assay eval forgetting`."""

    chain: Annotated[str, typer.Argument()] = EMBEDDED
    """Run folder, chain.json or name of a chain."""
    tasks: Annotated[str, typer.Option()]
    """Tasks of lm-evaluation-harness with commas between."""
    stages: str = "all"
    """Stages with commas between, or all."""
    include_path: str | None = None
    """A folder with tasks of your own."""
    limit: Annotated[int, typer.Option(min=0)] = 0
    """The first questions of each task alone; 0 = all."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Seed of the swaps behind each p."""
    out: Path | None = None
    """Where the table goes as JSON."""


class RecalibrateSettings(GroupSettings):
    """Settings of `assay eval recalibrate`."""

    report: Path
    """A report on questions."""
    fit: str = "dev"
    """What it is fitted on: the dev rows of the report, or of another report."""
    method: Literal["isotonic", "platt", "temperature", "histogram"] = "isotonic"
    """isotonic and histogram follow the answers, platt and temperature have two parameters and one."""
    by: Literal["", "kind"] = ""
    """kind = a curve for each kind of question; else one for all."""
    stage: str = ""
    """The stage; the last of the chain if not given."""
    bootstrap: Annotated[int, typer.Option(min=1)] = 10_000
    """Draws behind each interval."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Same seed, same folds and intervals."""
    out: Path | None = None
    """Where the calibrator goes, and beside it a picture (.svg); calibrator.json in the stage's run folder is what Ask and
    `assay publish` go by."""


class CompareSettings(GroupSettings):
    """Settings of `assay eval compare`."""

    reports: list[Path]
    """Two reports on the same rows, or one to compare within."""
    stages: Annotated[str | None, typer.Option("--stages", "--stage")] = None
    """Stages with commas between. Of one report: all pairs. Of two: one name for both, or first,second."""
    metric: list[str] | None = None
    """A metric; may be given several times."""
    draws: Annotated[int, typer.Option(min=1)] = 10_000
    """Draws behind interval and p."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Same seed, same figures."""


class LeaderboardSettings(GroupSettings):
    """Settings of `assay leaderboard`."""

    reports: Annotated[list[Path] | None, typer.Argument()] = None
    """Reports on the same questions; those of the embedded chain if none."""
    order: str = ""
    """The metric that the table is ordered by; the task's own if none."""
    out: Path | None = None
    """A folder for leaderboard.md and leaderboard.json."""


class RescoreSettings(LabelledJudge):
    """Settings of `assay eval rescore`."""

    report: Path
    """A report with full texts."""
    out: Path | None = None
    """Where the new report goes; the same file if not given."""
    data: str = ""
    """Of refined answers: the records that were answered; as by default those of the report."""
    task: str | None = None
    """questions, review or refine; the report says it itself."""


class EvalRunSettings(LabelledJudge, FileSettings):
    """Settings of `assay eval run`."""

    out: Annotated[Path, typer.Option()]
    """Where the report goes, a .json file."""
    task: Literal["questions", "refine"] = "questions"
    """questions or refine; with review, options and answers are those of `assay review infer` and `assay review score`."""
    data: str = ""
    """pathways-heldout, kmp-test, refiner-test, …, or a set of your own: a file, a name, hub:owner/name. Of its rows the
    test rows are asked; [dev], [train] or [all] behind it asks others."""
    chain: str = "embedded"
    """embedded, refiner, a run folder or a chain.json."""
    stage: str = "all"
    """Stages with commas between, or all."""
    answers: Path | None = None
    """In place of a chain, answers made elsewhere. JSONL: id, answer and, for several systems, stage; of reviews article_id,
    concerns."""
    limit: Annotated[int | None, typer.Option(min=1)] = None
    """Only the first so many questions."""
    max_new_tokens: Annotated[int | None, typer.Option(min=1)] = None
    """Maximum answer length, in tokens; 96 of questions, 128 of refined answers if not given."""
    dtype: Literal["bfloat16", "float32"] | None = None
    """float32 repeats exactly. Default: bfloat16, or float32 on a processor that only imitates it; of refined answers
    float32."""
    judge: str = ""
    """For --read judge: a server that says what answers say, URL or URL#MODEL. Of refined answers who judges them: heuristic
    (word overlap) or a server. Its key: ASSAY_JUDGE_KEY."""
    hosted: HostedModels = None
    """A model on a server, as a stage: NAME=URL#MODEL, or a TOML file with prices and budgets. Questions are sent there. Its
    key: ASSAY_KEY_NAME."""
    calibrator: Annotated[list[Path] | None, InFile()] = None
    """Files of `assay eval recalibrate`: a stage with recalibrated confidences stands beside its own."""
    abstain_below: Annotated[str | None, InFile()] = None
    """Leaves out answers that state less, such as 90%."""
    confidence: Annotated[str, InFile()] = "stated"
    """stated, likelihood, samples:8: where confidences come from, each beside the stage it is of."""
    base: Annotated[str | None, InFile()] = None
    """The base model, if it is not where chain.json says."""
    batch_size: Annotated[int, InFile()] = 8
    """Questions answered at the same time."""
    allow_remote: Annotated[bool, InFile()] = False
    """Let a server on another machine read what is sent."""
    any_judge: Annotated[bool, InFile()] = False
    """Continue with a judge that reads known answers wrong."""
    labels: Annotated[Path | None, InFile()] = None
    """For --read judge: labelled answers, of which some are read too; the agreement stands beside the result."""
    preset: Annotated[str, InFile()] = "assay"
    """How refined answers are rewarded: assay, or published as on the card of the published model."""
    name: Annotated[str, InFile()] = ""
    """What the answers of --answers are called."""


@command(app)
def calibration(settings: OutcomeSettings) -> None:
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
    read = read_rows(settings.rows, OutcomeRow, key=lambda row: row.id)
    measured = calibrate(
        [row.confidence for row in read],
        [row.correct for row in read],
        [f"cluster {row.cluster}" if row.cluster is not None else f"row {row.id}" for row in read],
        CalibrationSettings(settings.bins, settings.binning, settings.bootstrap, settings.seed),
    )
    if measured.note:
        notes.print(f"nothing to measure: {measured.note}")
    emit(measured, as_json=settings.as_json, table=terminal.calibration_tables(measured))


@command(app)
def threshold(settings: ThresholdSettings) -> None:
    """Find the lowest stated confidence above which, with a promised certainty, few enough answers are wrong.

    The promise is an exact one (Learn then Test), for answers to questions like these. "Elsewhere" is what thresholds do on
    answers that they were not chosen on. Where no threshold can promise it, none is named.

    Example: assay eval threshold reports/kmp-test.json --wrong-at-most 10% --confidence 95%
    """
    from evals.confidence import StagePromise, about_stage, promise

    report = load_report(settings.report)
    shares = {name: _share(name, getattr(settings, name)) for name in ("wrong_at_most", "confidence")}
    named = stages_of(report) if settings.stage == "all" else [name.strip() for name in settings.stage.split(",")]
    found = {
        stage: promise(*claims_of(report, stage, settings.group or None), **shares, seed=settings.seed)
        for stage in named
    }
    if settings.out is not None:
        if len(named) > 1:
            raise BadConfig(f"--out keeps the threshold of one stage, found {', '.join(named)}; name it with --stage")
        _, about = about_stage(report, named[0], settings.group or None)
        kept = StagePromise.model_validate({**about, "promise": found[named[0]]})
        write_whole(settings.out, kept.model_dump_json(indent=1) + "\n")
        notes.print(f"wrote {settings.out}")
    emit(found, as_json=settings.as_json, table=terminal.promises_table(found, report.data_name))


@command(app)
def forgetting(settings: ForgettingSettings) -> None:
    """Ask each stage of a chain the tasks of lm-evaluation-harness and show what it gained or lost against the stage before.

    Differences are paired: the same questions, with the 95 % interval and the p of swapping the two stages. The harness has to be
    installed (pip install lm_eval); the local chain answers, without a server.

    Example: assay eval forgetting embedded --tasks arc_easy --limit 200 --out forgetting.json
    """
    from training.models.chain import load_chain
    from training.serve import harness

    harness.model_class()
    chain = load_chain(settings.chain)
    stages = chain.stages if settings.stages == "all" else [name.strip() for name in settings.stages.split(",")]
    tasks = [name.strip() for name in settings.tasks.split(",") if name.strip()]
    found = harness.forgetting(chain, stages, tasks, settings.include_path, settings.limit or None, settings.seed)
    document = [each._asdict() for each in found]
    if settings.out:
        write_whole(settings.out, json.dumps({"chain": chain.manifest.name, "scores": document}, indent=1) + "\n")
    emit(document, as_json=settings.as_json, table="against the stage before, 95 % intervals from low to high")


@command(app)
def recalibrate(settings: RecalibrateSettings) -> None:
    """Fit a map from the confidence that a stage states to an honest one, and show what it makes of other answers.

    It is fitted on the dev rows and shown on the others; without dev rows it is cross-fitted, so that no answer is shown
    by a curve that was fitted on it or its cluster. Where no curve is shown to better the Brier score, confidences stay
    as they are stated.

    Example: assay eval recalibrate reports/kmp-all.json --method platt --out runs/grpo/calibrator.json

    Example: assay eval recalibrate reports/kmp-test.json --fit reports/kmp-dev.json --stage grpo
    """
    from evals.confidence import fit_calibrator

    report = load_report(settings.report)
    dev = None if settings.fit == "dev" else load_report(Path(settings.fit))
    found = fit_calibrator(
        report,
        settings.stage or stages_of(report)[-1],
        settings.method,
        dev,
        settings.group or None,
        by_kind=settings.by == "kind",
        settings=CalibrationSettings(draws=settings.bootstrap, seed=settings.seed),
    )
    notes.print(say(f"command.fitted.{found.fitted_on}", n=found.n, stage=found.stage), soft_wrap=True)
    if found.changes_nothing:
        notes.print(say("command.as_stated", stage=found.stage), soft_wrap=True)
    if settings.out is not None:
        write_whole(settings.out, found.model_dump_json(indent=1) + "\n")
        write_whole(settings.out.with_suffix(".svg"), terminal.reliability_picture(found))
        notes.print(f"wrote {settings.out} and {settings.out.with_suffix('.svg').name}")
    emit(found, as_json=settings.as_json, table=terminal.recalibrated_table(found))


def _share(name: str, text: str) -> float:
    """Return "10%" or "0.1" as a share."""
    try:
        return float(text.rstrip("% ")) / (100 if text.rstrip().endswith("%") else 1)
    except ValueError as error:
        raise BadConfig(f"--{name.replace('_', '-')} is {text!r}; give a percentage such as 10%, or 0.1") from error


@command(app)
def compare(settings: CompareSettings) -> None:
    """Compare stages or models on the same rows: difference, 95 % interval, p.

    Differences are second minus first. Whole clusters of questions are resampled and swapped together;
    "p, Holm" is corrected for every figure in the table. Reports of different verifiers or questions
    are refused. The table says how the answers were read; a note marks two reports that were read in
    different ways.

    Example: assay eval compare before.json after.json --stage grpo --metric accuracy --metric ece

    Example: assay eval compare report.json --stages sft,grpo
    """
    reports, stages = settings.reports, settings.stages
    if len(reports) > 2:
        raise BadConfig(f"compare takes one report or two, found {len(reports)}; leave some out")
    named = [name.strip() for name in stages.split(",")] if stages else []
    read = [_report(path, settings.task) for path in reports]
    pairs = _within(read[0], named) if len(read) == 1 else _between(read[0], read[1], named)
    pairing = Pairing(metrics=settings.metric or (), group=settings.group, draws=settings.draws, seed=settings.seed)
    found = compare_pairs(pairs, pairing)
    for each in found.comparisons:
        for note in each.notes:
            notes.print(f"note: the two reports differ in {note}")
    emit(found, as_json=settings.as_json, table=terminal.comparison_table(found))


def _report(path: Path, task: str | None) -> Report[Any]:
    """Return the report in a file; BadConfig for one on another task than the one that is named."""
    found = load_report(path, Report)
    if task not in (None, found.task):
        raise BadConfig(f"{path} is a report on the task {found.task}, not {task}; leave --task out")
    return found


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


@command(app)
def rescore(settings: RescoreSettings) -> None:
    """Judge the answers of a report again, with today's verifiers, and write it whole.

    Nothing is generated: questions and texts are the stored ones. The versions that judged before are
    kept in the report. Answers without an answer line are read from their text, and marked so. Of a report on
    reviews, the concerns are cleaned and matched again with the human ones of its corpus, which must be at hand; of one on
    refined answers, --judge (heuristic, or a server) judges them again, with the reward of the report.
    --json lists every answer that is judged otherwise.

    Example: assay eval rescore reports/kmp-test.json --out reports/kmp-test.new.json

    Example: assay eval rescore report.json --judge http://127.0.0.1:8000/v1 --out again.json
    """
    old: Any = _report(settings.report, settings.task)
    tried = None
    if isinstance(old, ReviewReport):
        from lab.commands.review.infer import rescore_review

        found = changes_of(old, rescore_review(old, settings.report))
    elif isinstance(old, RefinerReport):
        found = changes_of(old, _rejudge(old, settings))
    else:
        tried = tried_judge(settings)
        found = judge_again(old, check_way(settings.read), tried)
    if tried is not None:
        found = found.model_copy(update={"report": tried.noted_in(found.report)})
    target = settings.out or settings.report
    save_report(found.report, target)
    changed = sum(change.is_of_verdict for change in found.changes)
    more = {"verdicts": plural(changed, "verdict"), "answers": plural(len(found.changes) - changed, "answer")}
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
    emit(document, as_json=settings.as_json, table=terminal.rescored_tables(found))


def _rejudge(old: RefinerReport, settings: RescoreSettings) -> RefinerReport:
    """Return a report on refined answers, judged by another judge; IncomparableReports for other records."""
    from evals.refine.cases import records_sha256

    first = FIRST.fullmatch(old.data_name)
    source = settings.data or (first["name"] if first else old.data_name)
    records = records_named(source)[: int(first["count"]) if first else None]
    if records_sha256(records) != old.data_sha256:
        raise IncomparableReports(say("command.other_records", source=source, sha256=old.data_sha256))
    task, own = refine_by(settings.judge, settings.allow_remote, old.reward)
    by_id = {record.id: record for record in records}
    answers = [StageAnswer(row.stage, row.completion, row.finish_reason) for row in old.rows]
    words = ["assay", "eval", "rescore", "REPORT.json", "--judge", _public_judge(settings.judge)]
    kept = {
        name: getattr(old, name) for name in ("data_name", "chain_name", "stage_checksums", "settings", "libraries")
    }
    return build_report(
        records,
        grade_answers(task, [by_id[row.id] for row in old.rows], answers),
        Refine,
        created_at=datetime.now(UTC),
        command=f"{old.command.partition(' && ')[0]} && {shlex.join(words)}",
        **kept,
        **own,
    )


# ---- runs ---------------------------------------------------------------------------------------


@command(app)
def run(settings: EvalRunSettings) -> None:
    r"""Answer every question with every stage and write a report with all rows in full.

    With --answers ROWS.jsonl in place of a chain, answers that were made elsewhere are graded. A row: {"id": "kmp-1",
    "answer": "Answer: liver\nConfidence: 80%", "stage": "gpt"}; `completion` or `text` in place of `answer` is taken as
    well. Every example needs an answer of every stage, "" for none; answers to other examples are refused. Of reviews, a
    row is {"article_id": "elife:1", "concerns": ["..."]}: --task review --answers clean.jsonl --data test.jsonl takes the
    options of `assay review score`.

    Trivial baselines are judged beside the stages. A run that was stopped goes on where it was when the same command is
    given again.

    Three more settings act on confidences: --calibrator, a file of `assay eval recalibrate`, adds each stage as it is
    recalibrated; --abstain-below 90% leaves out what states less; --confidence stated,likelihood,samples:8 sets what an answer
    states beside its likelihood and the agreement of 8 samples, and says which knows best when it is wrong.

    Example: assay eval run --chain embedded --data kmp-test --out reports/kmp-test.json

    Example: assay eval run --hosted gpt=https://api.openai.com/v1#gpt-4.1-mini --out reports/beside-gpt.json

    Example: assay eval run --task refine --chain refiner --judge heuristic --out report.json

    Example: assay eval run --answers answers.jsonl --data kmp-test --out reports/other.json

    Example: assay eval run --stage grpo --confidence stated,likelihood,samples:8 --limit 40 --out reports/sources.json
    """
    way = check_way(settings.read)
    if settings.abstain_below and settings.confidence != "stated":
        raise BadConfig("sources of confidence are compared on all answers; leave --abstain-below or --confidence out")
    tried, own, task = None, {}, Questions(read="auto" if way == "judge" else way)
    if settings.task == "refine":
        task, own = refine_by(
            settings.judge, settings.allow_remote, RewardConfig.model_validate({"preset": settings.preset})
        )
    else:
        tried = tried_judge(settings)
    data = settings.data or {"questions": "pathways-heldout", "refine": "refiner-test"}[settings.task]
    examples, train = _examples(settings.task, data)
    examples = examples[: settings.limit]
    partial = settings.out.with_name(settings.out.name + ".partial.jsonl")
    if settings.answers is not None:
        rows, about = _grade_file(settings, task, examples)
    else:
        rows, about = _answer(settings, task, examples, partial)
    if settings.task == "questions":
        rows = _with_confidences(settings, rows, about)
    name = public(data)
    words: dict[str, object] = {"chain": settings.chain, "stage": settings.stage}
    if settings.answers is not None:
        words = {"answers": settings.answers}
    words |= {"task": None if settings.task == "questions" else settings.task, "data": data, "out": settings.out}
    words |= settings.model_dump(include={"limit", "max_new_tokens", "dtype", "config", "abstain_below"})
    words |= {"confidence": None if settings.confidence == "stated" else settings.confidence}
    words |= {"read": None if way == "auto" else way, "judge": _public_judge(settings.judge) or None}
    hosted = "".join(f" --calibrator {shlex.quote(public(str(each)))}" for each in settings.calibrator or ())
    hosted += "".join(
        f" --hosted {shlex.quote(each if '://' in each else public(each))}" for each in settings.hosted or ()
    )
    about |= {
        "data_name": name if settings.limit is None else f"{name} (first {len(examples)})",
        "created_at": datetime.now(UTC),
        "command": command_line(**words) + hosted,
        **own,
    }
    report = build_report(examples, (*rows, *baseline_rows(task, examples, train)), type(task), **about)
    if tried is not None:
        report = tried.noted_in(judge_again(report, way, tried).report)
    save_report(report, settings.out)
    partial.unlink(missing_ok=True)
    by = f", judged by {own['judge']}" if own else ""
    notes.print(
        f"wrote {settings.out}: {plural(len(rows), 'answer')} to {plural(len(examples), task.noun.removesuffix('s'))}{by}",
        soft_wrap=True,
    )
    if tried is not None:
        tried.tell()
    emit(report, as_json=settings.as_json, table=terminal.summary_table(report))
    if settings.confidence != "stated" and not settings.as_json:
        emit(None, as_json=False, table=terminal.sources_table(report))


def _with_confidences(settings: EvalRunSettings, rows: Sequence[Any], about: dict[str, Any]) -> Sequence[Any]:
    """Return the rows with those of recalibrated stages, without what states too little; `about` says what was done."""
    from evals.confidence import Calibrator, keep_from, read_of_stage, recalibrate

    calibrators = [read_of_stage(path, Calibrator) for path in settings.calibrator or ()]
    rows = (*rows, *recalibrate(rows, calibrators, about["stage_checksums"]))
    if settings.abstain_below is None:
        return rows
    kept = keep_from(rows, _share("abstain_below", settings.abstain_below))
    about["settings"] = {**about["settings"], "abstain_below": settings.abstain_below}
    for stage in dict.fromkeys(row.stage for row in rows):
        n, of = (sum(row.stage == stage for row in each) for each in (kept, rows))
        notes.print(say("command.abstained", stage=stage, n=n, of=of, at=settings.abstain_below), soft_wrap=True)
    if not kept:
        raise BadConfig(f"no answer states {settings.abstain_below} or more; choose a lower --abstain-below")
    return kept


def _examples(task: str, data: str) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the examples of a data set, and the training rows that belong to it."""
    if task == "refine":
        return records_named(data), ()
    from training.data.tables import from_hub

    return load_questions(data, from_hub, part="test"), training_rows(data)


def _answer(
    settings: EvalRunSettings, task: Any, examples: Sequence[Any], partial: Path
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the graded answers of a chain, and what a report says of the chain."""
    from training.models.chain import load_chain
    from training.serve.hosted import with_hosted

    dtype = settings.dtype or DTYPE.get(settings.task)
    with progress_shown("loading the chain") as progress:
        loaded = load_chain(settings.chain, dtype, progress, base=settings.base, cache=from_environment().cache)
    sources = [each.strip() for each in settings.confidence.split(",") if each.strip() != "stated"]
    loaded = with_hosted(loaded, settings.hosted or (), is_scored="likelihood" in sources)
    stages = loaded.stages if settings.stage == "all" else tuple(name.strip() for name in settings.stage.split(","))
    sampling = Sampling(max_new_tokens=settings.max_new_tokens or LONGEST[settings.task])
    if settings.task == "questions":
        task.system_prompt = loaded.manifest.system_prompt
        if behind := sum(task.prompt(each)[-1].content != each.prompt for each in examples):
            told = "the chain's system prompt has no place for options"
            notes.print(f"note: {told}, so they stand behind {plural(behind, 'question')} of {len(examples)}")
    how = RunSettings(sampling, settings.batch_size, loaded.stage_checksums, loaded.dtype, partial)
    with progress_shown("answering", len(examples)) as progress:
        rows: tuple[Any, ...] = run_task(task, loaded, examples, stages, how, progress)
    if sources:
        from evals.confidence import more_confidences

        with progress_shown("measuring confidences") as progress:
            rows = (*rows, *more_confidences(task, loaded, rows, sources, how, progress))
    for name, each in (loaded.hosted or {}).items():
        if name in stages:
            notes.print(each.spending)
    for substitution in loaded.substitutions:
        notes.print(f"note: {substitution}")
    options: dict[str, Any] = {"batch_size": settings.batch_size, "dtype": loaded.dtype, "limit": settings.limit}
    options |= {"read": settings.read} if settings.task == "questions" else {}
    return rows, about_run(loaded, stages, sampling, **options)


def _grade_file(settings: EvalRunSettings, task: Any, examples: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the graded answers of a file, and what a report says of them."""
    path = Path(str(settings.answers))
    name = settings.name or path.stem
    rows = read_rows(path, GivenAnswerRow, key=lambda row: f"{row.id} {row.stage}")
    said = answers_of(rows, [task.id_of(each) for each in examples], name, path)
    found = grade_answers(
        task, [each for _ in said for each in examples], [each for one in said.values() for each in one]
    )
    about = {"chain_name": name, "stage_checksums": {}, "settings": {"answers": path.name}, "versions": instrument()}
    return found, about


def answers_of(
    rows: Sequence[GivenAnswerRow], ids: Sequence[str], name: str, path: Path
) -> Mapping[str, Sequence[StageAnswer]]:
    """Return the answers of each stage in the order of `ids`; BadConfig for ids that were not asked and for missing ones."""
    if unknown := [row.id for row in rows if row.id not in set(ids)]:
        raise BadConfig(
            f"{path} answers {unknown[0]!r} ({len(unknown)} such rows), which --data does not ask; name its data set"
        )
    found: dict[str, dict[str, StageAnswer]] = {}
    for row in rows:
        stage = row.stage or name
        found.setdefault(stage, {})[row.id] = StageAnswer(stage, row.answer, "stop")
    for stage, said in found.items():
        if missing := [each for each in ids if each not in said]:
            raise BadConfig(
                f"{path} has no answer of {stage!r} to {missing[0]!r} ({len(missing)} of {len(ids)} are missing);"
                ' write a row for each, "" where nothing was answered'
            )
    return {stage: [said[each] for each in ids] for stage, said in found.items()}


def records_named(data: str) -> tuple[RefinerRecord, ...]:
    """Return the records of a data set or a file; BadConfig for a name that is neither."""
    from evals.refine.bank import DATASETS, refiner_bank
    from evals.refine.cases import SUFFIXES, read_records

    if data in DATASETS:
        return refiner_bank().test if data == "refiner-test" else refiner_bank().train
    if not data.endswith(SUFFIXES):
        raise BadConfig(
            f"no data set is called {data!r}; known are {', '.join(DATASETS)}, or name a file ({', '.join(SUFFIXES)})."
        )
    return read_records(Path(data))


def refine_by(judge: str, allow_remote: bool, reward: RewardConfig) -> tuple[Refine, dict[str, Any]]:
    """Return the task of refined answers with a judge, and what a report keeps of it; BadConfig for the stub."""
    from training.judge.judge import judge_of
    from training.judge.prompts import VERSION
    from training.run.folder import versions

    server = judge_server(judge or "heuristic", allow_remote)
    if server.base_url == "stub":
        raise BadConfig(say("command.stub"))
    found = judge_of(server)
    mode = "no language model" if server.base_url == "heuristic" else server.mode
    task = Refine(lambda asked: verdicts_on(found, asked, DEADLINE_SECONDS), found.label, reward)
    made = {**versions(), "judge prompt": VERSION}
    return task, {"judge": found.label, "judge_mode": mode, "reward": reward, "versions": made}


def verdicts_on(judge: Judge, inquiries: Sequence[Inquiry], deadline_seconds: float) -> list[Verdicts]:
    """Return a judge's verdicts, counting on standard error how many answers are judged."""
    from training.judge.judge import collect_verdicts

    of = plural(len(inquiries), "answer")
    with progress_shown(f"judging {of}") as progress:
        return collect_verdicts(
            judge, inquiries, deadline_seconds, lambda n: progress(n / len(inquiries), f"{n} of {of} judged")
        )


def _public_judge(judge: str) -> str:
    """Return a judge as reports keep it: never an address."""
    address, _, model = judge.partition("#")
    return ("URL" + (f"#{public(model)}" if model else "")) if address.startswith("http") else judge


@command(app)
def leaderboard(settings: LeaderboardSettings) -> None:
    """Show models and baselines in one table per set of questions, with n, intervals and ranks.

    A rank is one more than the number of entries that are shown to be better: the paired 95 % interval
    excludes zero and p, corrected for all pairs, is below 0.05. Reports of different verifiers are
    not mixed.

    Example: assay leaderboard reports/*.json --order accuracy --out board
    """
    folder, out = chain_file(EMBEDDED).parent / REPORTS, settings.out
    paths = [each for each in settings.reports or sorted(folder.glob("*.json")) if not each.name.endswith(".run.json")]
    if not paths:
        raise LabError(say("command.no_report"))
    read = [_report(path, settings.task) for path in paths]
    for path, report in zip(paths, read, strict=True):
        if report.task == "questions" and report.versions != instrument():
            notes.print(say("command.outdated", path=path))
    found = standings(read, settings.group, settings.order)
    if out is not None:
        rows = json.dumps(terminal.plain(found), ensure_ascii=False, indent=1) + "\n"
        for name, text in {"leaderboard.md": terminal.standings_markdown(found), "leaderboard.json": rows}.items():
            write_whole(out / name, text)
            notes.print(f"wrote {out / name}")
    emit(found, as_json=settings.as_json, table=Tables(*map(terminal.standings_table, found)))
