"""`assay train`: check what a stage would do, print the exact launch line, and run it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from lab.console import emit, notes, table_of

if TYPE_CHECKING:
    from training.plan import Plan

app = typer.Typer(
    no_args_is_help=True,
    help="Train a stage of an adapter chain: supervised fine-tuning, then GRPO on top of it.",
)

LAUNCHER = "launcher"
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
Config = Annotated[Path, typer.Option("--config", help="The settings, a YAML file.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Train a finished run anew.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show settings, rows and line; run nothing.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


class LaunchCommand(TyperCommand):
    """A command whose words after `--` belong to the launcher."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Set the launcher's words aside and parse the others."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[LAUNCHER] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


@app.command(
    cls=LaunchCommand,
    context_settings=PASSED_ON,
    epilog="Example: assay train sft --config training/configs/embedded/sft.yaml --epochs 2 --dry-run",
)
def sft(
    context: typer.Context,
    config: Config,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Fine-tune on questions and answers. Any setting of the file can be given as --key value."""
    words = _words(context, config, overwrite=overwrite)
    _train("sft", words, context.meta[LAUNCHER], dry_run=dry_run, as_json=as_json)


@app.command(
    cls=LaunchCommand,
    context_settings=PASSED_ON,
    epilog="Example: assay train grpo --config training/configs/embedded/grpo.yaml -- --num_processes 2",
)
def grpo(
    context: typer.Context,
    config: Config,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Reward a chain's own answers by the verifiers. Any setting can be given as --key value."""
    words = _words(context, config, overwrite=overwrite)
    _train("grpo", words, context.meta[LAUNCHER], dry_run=dry_run, as_json=as_json)


def _words(context: typer.Context, config: Path, *, overwrite: bool) -> tuple[str, ...]:
    """Return what the stage itself is told."""
    return ("--config", str(config), *context.args, *(["--overwrite"] if overwrite else []))


def _train(
    stage: str, words: tuple[str, ...], launcher: tuple[str, ...], *, dry_run: bool, as_json: bool
) -> None:
    from training.plan import plan_of

    plan = plan_of(stage, words, launcher)
    if dry_run:
        _show(plan, as_json=as_json)
        return
    notes.print(f"$ {plan.command}", soft_wrap=True)
    code = _launch(plan)
    if code:
        raise typer.Exit(1)
    _report(plan, as_json=as_json)


def _launch(plan: "Plan") -> int:
    """Run the line with the Python that runs this and return its exit code.

    Its standard output joins standard error. A first Ctrl-C reaches the training process, which
    ends in order; this one waits for it.
    """
    line = [sys.executable, "-m", "accelerate.commands.launch", *plan.line[2:]]
    environment = {"HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false", **os.environ}
    process = subprocess.Popen(line, env=environment, stdout=sys.stderr.fileno())
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def _show(plan: "Plan", *, as_json: bool) -> None:
    """Print what would be done."""
    document = {
        "stage": plan.stage,
        "command": plan.command,
        "settings": plan.settings,
        "data": plan.rows,
        "examples": plan.examples,
    }
    if as_json:
        emit(document, as_json=True)
        return
    settings = [(key, _cell(value)) for key, value in plan.settings.items()]
    emit(None, as_json=False, table=table_of("settings", ("setting", "value"), settings))
    emit(None, as_json=False, table=table_of("data", ("what", "value"), [*plan.rows.items()]))
    for number, row in enumerate(plan.examples, start=1):
        cells = [(key, _cell(value)) for key, value in row.items()]
        emit(None, as_json=False, table=table_of(f"row {number}", ("column", "value"), cells))
    notes.print(f"would run: {plan.command}", soft_wrap=True)


def _report(plan: "Plan", *, as_json: bool) -> None:
    """Print what the run left, from its record."""
    from training.runs import RunFolder

    record = RunFolder(plan.output).record()
    if record is None:
        return
    rows = [("status", record.status), *record.result.items()]
    table = table_of(str(plan.output), ("what", "value"), rows)
    emit(record, as_json=as_json, table=table)


def _cell(value: object) -> object:
    """Return messages as "role: text" lines and lists with commas."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "\n".join(f"{message['role']}: {message['content']}" for message in value)
    return ", ".join(map(str, value)) if isinstance(value, list) else value
