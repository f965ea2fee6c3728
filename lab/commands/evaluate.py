"""`assay eval`: run a chain on questions, judge answers that are on file, measure calibration."""

import re
import shlex
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from evals.model import Progress, Sampling
from lab.commands import answer_judge, calibration, compare, readers, verify
from lab.commands.verify import Read
from lab.console import emit, notes
from lab.figures import summary_table

if TYPE_CHECKING:
    from evals.schema import Example

app = typer.Typer(
    no_args_is_help=True, help="Run a chain on questions, judge answers, measure calibration."
)
app.command("calibration")(calibration.calibration)
app.command("verify")(verify.verify)
app.command("readers")(readers.readers)
app.command("compare")(compare.compare)
app.command("rescore")(compare.rescore)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


TRAINING = {"pathways-heldout": "pathways-train", "kmp-test": "kmp-train"}
"""The training rows that belong to a set of test questions."""
PART = re.compile(r"\[(?:train|dev|test|all)\]\s*$")


class Dtype(StrEnum):
    """The number formats a chain can be loaded in."""

    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"


@app.command()
def run(
    out: Annotated[Path, typer.Option(help="Where the report goes, a .json file.")],
    data: Annotated[
        str,
        typer.Option(
            help="pathways-heldout, kmp-test, …, or a question set of your own: a file, a name, hub:owner/name."
            " Of its rows the test rows are asked; [dev], [train] or [all] behind it asks others."
        ),
    ] = "pathways-heldout",
    chain: Annotated[
        str, typer.Option(help="embedded, a run folder or a chain.json.")
    ] = "embedded",
    base: Annotated[
        str | None,
        typer.Option("--base", help="The base model, if it is not where the chain says."),
    ] = None,
    stage: Annotated[str, typer.Option(help="Stages with commas between, or all.")] = "all",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many questions.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Questions answered at a time.")] = 8,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest answer, in tokens.")] = 96,
    dtype: Annotated[Dtype, typer.Option(help="float32 is slower and repeats exactly.")] = (
        Dtype.BFLOAT16
    ),
    read: Read = "auto",
    judge: answer_judge.Url = "",
    judge_model: answer_judge.Model = "",
    key_env: answer_judge.KeyEnv = "",
    allow_remote: answer_judge.Remote = False,
    labels: answer_judge.Labels = None,
    any_judge: answer_judge.AnyJudge = False,
    as_json: Json = False,
) -> None:
    """Answer every question with every stage and write a report with all rows in full.

    Trivial baselines are judged beside the stages. A run that was stopped goes on where it was when
    the same command is given again.

    Example: assay eval run --chain embedded --data kmp-test --out reports/kmp-test.json

    Example: assay eval run --chain embedded --data my-questions.yaml --out reports/mine.json
    """
    from evals.questions import SYSTEM_PROMPT
    from evals.readers import check_way
    from evals.report import Origin, build_report, instrument, save_report
    from evals.rescore import rescore
    from evals.run import RunSettings, baseline_rows, run_evaluation
    from lab.settings import from_environment
    from training.chain import load_chain
    from training.surroundings import versions

    way = check_way(read)
    tried = answer_judge.tried_judge(
        read, judge, judge_model, key_env, allow_remote, labels, any_judge
    )
    examples = _examples(data)[:limit]
    partial = out.with_name(out.name + ".partial.jsonl")
    with _bar("loading the chain", 100) as progress:
        loaded = load_chain(chain, dtype.value, progress, base=base, cache=from_environment().cache)
    stages = loaded.stages if stage == "all" else tuple(name.strip() for name in stage.split(","))
    settings = RunSettings(
        system_prompt=loaded.manifest.system_prompt or SYSTEM_PROMPT,
        sampling=Sampling(max_new_tokens=max_new_tokens),
        batch_size=batch_size,
        stage_checksums=loaded.stage_checksums,
        dtype=loaded.dtype,
        read="auto" if way == "judge" else way,
        partial=partial,
    )
    with _bar("answering", len(examples)) as progress:
        rows = run_evaluation(loaded, examples, stages, settings, progress)
    options = {"batch_size": batch_size, "dtype": dtype.value, "limit": limit}
    told = {"substitutions": "; ".join(loaded.substitutions)} if loaded.substitutions else {}
    for substitution in loaded.substitutions:
        notes.print(f"note: {substitution}")
    name = _public(data)
    origin = Origin(
        data_name=name if limit is None else f"{name} (first {len(examples)})",
        chain_name=loaded.manifest.name,
        stage_checksums={name: loaded.stage_checksums[name] for name in stages},
        settings={**asdict(settings.sampling), **options, "read": way, **told},
        created_at=datetime.now(UTC),
        command=_command(
            chain=chain,
            base=base,
            stage=stage,
            data=data,
            out=out,
            max_new_tokens=max_new_tokens,
            read=None if way == "auto" else way,
            judge="URL" if tried else None,
            judge_model=judge_model or None,
            **options,
        ),
        libraries={name: each for name, each in versions().items() if name not in instrument()},
    )
    baselines = baseline_rows(examples, settings.system_prompt, _training_rows(data), settings.read)
    report = build_report(examples, (*rows, *baselines), origin)
    if tried is not None:
        report = tried.marked(rescore(report, way, tried).report)
    save_report(report, out)
    partial.unlink(missing_ok=True)
    notes.print(f"wrote {out}: {len(rows)} answers to {len(examples)} questions")
    if tried is not None:
        tried.tell()
    emit(report, as_json=as_json, table=summary_table(report))


def _examples(data: str) -> "tuple[Example, ...]":
    """Return the questions to ask: of a set of one's own its test rows, if it has any."""
    from evals.questions.sets import load_questions
    from training.questions import from_hub

    return load_questions(data, from_hub, part="test")


def _training_rows(data: str) -> "tuple[Example, ...]":
    """Return the training rows that belong to a set, none where they are not known."""
    from evals.questions import DATASETS
    from evals.questions.sets import load_questions
    from training.questions import from_hub

    if data in DATASETS:
        return DATASETS[TRAINING[data]]() if data in TRAINING else ()
    rows = load_questions(f"{PART.sub('', data)}[all]", from_hub)
    return tuple(row for row in rows if row.split == "train")


def _command(**options: object) -> str:
    """Return the command line that makes the same report again, without this machine's folders."""
    words = ["assay", "eval", "run"]
    for name, value in options.items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", _public(str(value))]
    return shlex.join(words)


def _public(value: str) -> str:
    """Return an option's value as reports keep it: a path from here, or only its last part."""
    from training.manifest import BARE
    from training.runs import public_path

    prefix = BARE if value.startswith(BARE) else ""
    return prefix + public_path(value.removeprefix(prefix))


# ---- what a person sees -----------------------------------------------------------------------


@contextmanager
def _bar(title: str, total: int) -> Generator[Progress]:
    """Show a progress bar on standard error."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=notes, transient=True) as bars:
        task = bars.add_task(title, total=total)
        yield lambda share, message: bars.update(
            task, completed=round(share * total), description=message
        )
