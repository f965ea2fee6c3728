"""`assay train`: check what a stage would do, print the exact launch line, and run it here or on a cluster."""

import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from evals.errors import BadConfig, LabError
from lab.commands.terminal import emit, notes, table_of
from training.config import as_document
from training.grpo import advice
from training.stages import STAGES

if TYPE_CHECKING:
    from hub.checkpoints import CheckpointCopies
    from training.launch.estimate import Estimate
    from training.launch.plan import Plan
    from training.launch.preview import Preview

app = typer.Typer(no_args_is_help=True, help="Train a stage of an adapter chain: SFT, then DPO or GRPO on top of it.")

LAUNCHER = "launcher"
STOPPED = 3
"""Exit code of a run that was stopped and can be gone on with, so that `train && infer` goes no further."""
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
Config = Annotated[Path, typer.Option("--config", help="The settings, a YAML file.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Train a finished run anew.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show settings, rows, needs and line; run nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", help="How to launch: cpu, multi-cpu, single-gpu, multi-gpu, multi-node, zero2, zero3, fsdp2."
    ),
]
Slurm = Annotated[bool, typer.Option("--slurm", help="Submit as a job that resumes itself; no cluster: write it.")]
SlurmOption = Annotated[
    list[str] | None, typer.Option("--slurm-option", help="KEY=VALUE for the job, such as partition=gpu; repeatable.")
]


CheckpointsTo = Annotated[
    str | None,
    typer.Option("--checkpoints-to", help="ORG/NAME: keep the newest checkpoint there, private, while it trains here."),
]
LOOK_SECONDS = 5.0
"""How often a run is looked at for a checkpoint to be sent."""


class LaunchCommand(TyperCommand):
    """A command whose words after `--` belong to the launcher."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Set the launcher's words aside and parse the others."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[LAUNCHER] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


def _stage(
    context: typer.Context,
    config: Config,
    profile: Profile = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    slurm: Slurm = False,
    slurm_option: SlurmOption = None,
    checkpoints_to: CheckpointsTo = None,
    as_json: Json = False,
) -> None:
    from training.launch.accelerate import Launch
    from training.launch.plan import plan_of

    words = ("--config", str(config), *context.args, *(["--overwrite"] if overwrite else []))
    launch = Launch(profile, context.meta[LAUNCHER])
    plan = plan_of(str(context.info_name), words, launch, is_dry=dry_run)
    if checkpoints_to and slurm:
        raise LabError(
            f"--checkpoints-to {checkpoints_to} goes with a run on this machine; on a cluster `hf upload` sends a run folder."
        )
    if dry_run:
        _look(plan, _asked(plan, tuple(slurm_option or ())) if slurm else None, as_json=as_json)
        if checkpoints_to:
            notes.print(f"would keep the newest checkpoint in {checkpoints_to} on the Hub, private", soft_wrap=True)
    elif slurm:
        _submit(plan, tuple(slurm_option or ()), as_json=as_json)
    else:
        _run(plan, checkpoints_to, as_json=as_json)


for _name, _kind in STAGES.items():
    app.command(
        _name,
        cls=LaunchCommand,
        context_settings=PASSED_ON,
        help=f"{_kind.about} Any setting of the file can be given as --key value. Exit code 3: stopped, to be gone on with.",
        epilog=f"Example: assay train {_name} {_kind.example}",
    )(_stage)


def _run(plan: "Plan", checkpoints_to: str | None, *, as_json: bool) -> None:
    """Run the line with this Python and print what it left; a first Ctrl-C lets training end in order."""
    from lab.train.runner import has_gpu
    from training.launch.accelerate import check_equipment, gpus_here
    from training.run.folder import RunFolder

    check_equipment(plan.settings, has_gpu=has_gpu(), launch=plan.launch, gpus=gpus_here())
    copies = None
    if checkpoints_to:
        from hub.checkpoints import CheckpointCopies
        from hub.client import connect

        copies = CheckpointCopies(
            connect(), checkpoints_to, plan.output, lambda words: notes.print(words, soft_wrap=True)
        )
    if run_line(plan, copies):
        notes.print("training did not finish: see the first error above", style="red")
        raise typer.Exit(1)
    record = RunFolder(plan.output).record()
    if record is not None:
        rows = [("status", record.status), *record.result.items()]
        emit(record, as_json=as_json, table=table_of(str(plan.output), ("what", "value"), rows))
        if record.status == "stopped":
            notes.print(f"not finished: {RunFolder(plan.output).unfinished()}", style="yellow", soft_wrap=True)
            raise typer.Exit(STOPPED)


def run_line(plan: "Plan", copies: "CheckpointCopies | None" = None) -> int:
    """Run a plan's line with this Python and return its exit code; a first Ctrl-C lets training end in order.

    `copies` sends its checkpoints, the last of a run that was stopped too.
    """
    from training.launch.accelerate import command_of, environment

    notes.print(f"$ {plan.command}", soft_wrap=True)
    line, told = command_of(plan.line), environment(plan.line, plan.launch.processes)
    process = subprocess.Popen(line, env=told, stdout=sys.stderr.fileno())
    code = None
    while code is None:
        with suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
            code = process.wait(LOOK_SECONDS if copies else None)
        if copies:
            copies.look()
    return code


def _asked(plan: "Plan", options: tuple[str, ...]) -> dict[str, Any]:
    """Return what SLURM is asked for, and say why so much memory."""
    from training.launch import slurm
    from training.launch.preview import folder_here

    memory, why = slurm.memory_of(plan, folder_here(plan.settings.base))
    parameters = slurm.parameters_of(plan.launch, plan.output.name, options, memory)
    if parameters["mem"] == memory:
        notes.print(f"mem={memory} of each machine: {why}", soft_wrap=True)
    return parameters


def _submit(plan: "Plan", options: tuple[str, ...], *, as_json: bool) -> None:
    from training.launch import slurm

    parameters = _asked(plan, options)
    job = slurm.ClusterJob(plan.line, str(Path.cwd()), plan.launch.processes, plan.launch.machines)
    folder = plan.output.with_name(f"{plan.output.name}.slurm")
    if not slurm.has_cluster():
        raise BadConfig(
            "there is no SLURM here (no sbatch, no srun), so nothing was submitted; give the same command on a login node"
            " of the cluster. --dry-run shows what the job would ask for."
        )
    number = slurm.submit(job, folder, parameters)
    notes.print(f"submitted as job {number}; its log and state are in {folder}", soft_wrap=True)
    document = {"job": number, "folder": str(folder), "command": plan.command}
    emit(document, as_json=as_json, table=table_of("slurm", ("what", "value"), [*document.items()]))


def _look(plan: "Plan", asked: Mapping[str, Any] | None, *, as_json: bool) -> None:
    """Print what would be run, or as a job `asked` for of SLURM."""
    from lab.train.runner import has_gpu
    from training.launch.accelerate import gpus_here, missing, unused_gpus
    from training.launch.preview import preview

    seen = preview(plan)
    needs = plan.needs(seen.kept, trained=seen.targets.weights if seen.targets else None)
    lacking = missing(plan.settings, has_gpu=has_gpu(), launch=plan.launch, gpus=gpus_here())
    known = advice(plan.settings)
    if asked is None and plan.launch.gpus_per_machine:
        known += unused_gpus(gpus_here(), plan.launch.processes)
    if as_json:
        emit(_document(plan, seen, needs, lacking, known) | {"slurm": asked}, as_json=True)
    else:
        _print_tables(plan, seen, needs)
    refused = (*plan.problems, *(seen.problems if seen.is_refused else ()))
    for problem in refused:
        notes.print(f"would be refused: {problem}", style="red", soft_wrap=True)
    for note in (*(() if seen.is_refused else seen.problems), *known, *lacking):
        notes.print(f"note: {note}", style="yellow", soft_wrap=True)
    if asked:
        wanted = " ".join(f"{key}={value}" for key, value in asked.items())
        notes.print(f"would ask SLURM for: {wanted}", soft_wrap=True)
    notes.print(f"would run: {plan.command}", soft_wrap=True)
    if refused:
        raise typer.Exit(1)


def _document(
    plan: "Plan", seen: "Preview", needs: "Estimate | None", lacking: tuple[str, ...], known: tuple[str, ...]
) -> dict[str, object]:
    tokens = [
        {"row": each.name, "column": each.column, "tokens": each.tokens, "loss_mask": [*map(int, each.learned)]}
        for each in seen.examples
    ]
    return {
        "stage": plan.stage,
        "command": plan.command,
        "settings": as_document(plan.settings),
        "data": plan.data and plan.data.record(),
        "examples": list(plan.data.trl_rows().values())[:2] if plan.data else [],
        "tokens": tokens,
        "lengths": seen.lengths,
        "rows": {"read": seen.rows, "kept": seen.kept, **seen.left_out},
        "adapter": seen.adapter(),
        "needs": needs
        and {
            "steps": needs.steps or None,
            "trained_weights": needs.trained_weights,
            "memory_bytes": {**needs.memory, "total": needs.total},
            "memory_bytes_at_the_end": needs.ending,
        },
        "problems": [*plan.problems, *seen.problems, *lacking],
        "advice": [*known],
    }


def _print_tables(plan: "Plan", seen: "Preview", needs: "Estimate | None") -> None:
    settings = [
        (key, ", ".join(map(str, value)) if isinstance(value, list) else value)
        for key, value in as_document(plan.settings).items()
    ]
    rows: list[tuple[object, object]] = [*plan.data.record().items()] if plan.data else []
    rows += [("rows used", f"{seen.kept} of {seen.rows}"), *seen.left_out.items()]
    if seen.lengths:
        rows.append(("tokens: shortest, median, longest", ", ".join(map(str, seen.lengths))))
    tables = {"settings": settings, "data": rows}
    if seen.targets:
        tables["adapter"] = [*seen.adapter().items()]
    if needs:
        tables["needs, estimated for each process"] = [
            ("optimizer steps", needs.steps or "not known without the rows"),
            ("trained weights", f"{needs.trained_weights:,}"),
            *((f"memory: {what}", f"{size / 1e9:.2f} GB") for what, size in needs.memory.items()),
            ("memory in all", f"{needs.total / 1e9:.2f} GB"),
            ("main memory at the end", f"{needs.ending / 1e9:.2f} GB"),
        ]
    for title, cells in tables.items():
        emit(None, as_json=False, table=table_of(title, ("what", "value"), cells))
    for each in seen.examples:
        title = f"row {each.name}, {each.column}: learned from what stands in ⟦ ⟧"
        emit(None, as_json=False, table=table_of(title, ("tokens",), [(each.marked(),)]))
