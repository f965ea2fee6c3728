"""`assay train`: check what a stage would do, print the exact launch line, and run it here or on a cluster."""

import hashlib
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from evals.errors import BadConfig
from evals.io import write_whole
from lab.commands import JsonSettings, SettingsCommand, command
from lab.commands.terminal import as_table, emit, end_progress, notes, plain, table_of
from training.config import as_document
from training.grpo import advice
from training.run.checkpoints import how_to_resume
from training.stages import STAGES, Input, SystemRecipe, system_recipe

if TYPE_CHECKING:
    from psutil import Process

    from training.launch.accelerate import Launch
    from training.launch.plan import Estimate, Plan
    from training.launch.preview import Preview

app = typer.Typer(
    no_args_is_help=True, help="Train a stage of an adapter chain: SFT, then DPO, KTO or GRPO on top of it."
)

LAUNCHER = "launcher"
STOPPED = 3
"""Exit code of a run that was stopped and can be resumed, so that `train && infer` goes no further."""


class TrainSettings(JsonSettings):
    """Settings of `assay train`, beside those of the stage, which stand in its file."""

    file: Annotated[Path, typer.Option("--config")]
    """The settings: a YAML file."""
    profile: str | None = None
    """How to launch: cpu, multi-cpu, single-gpu, multi-gpu, multi-node, zero2, zero3, fsdp2."""
    overwrite: bool = False
    """Train a finished run again, from the start."""
    dry_run: bool = False
    """Show settings, rows, memory and the launch line; run nothing."""
    slurm: bool = False
    """Submit it to SLURM, as a job that resumes itself."""
    slurm_option: list[str] | None = None
    """KEY=VALUE for SLURM, such as partition=gpu; repeatable."""


class LaunchCommand(SettingsCommand):
    """A command that takes the settings of a stage too, and the words after `--` for the launcher."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Set the launcher's words aside and parse the others."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[LAUNCHER] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the options, then what a stage's file may set, with the defaults."""
        super().format_help(ctx, formatter)
        if kind := STAGES.get(str(ctx.info_name)):
            rows = [
                (
                    name,
                    "" if each.is_required() else plain(each.default),
                    f"{each.description} ({', '.join(get_args(each.annotation))})"
                    if get_origin(each.annotation) is Literal
                    else each.description,
                )
                for name, each in kind.model_fields.items()
            ]
            columns = ("of the file, or --key value", "default", "meaning")
            emit(None, as_json=False, table=table_of("Settings", columns, rows))

    def invoke(self, ctx: Any) -> None:
        """Run the function with the settings, the stage, its own settings and the launcher's words."""
        self.function(self.settings(ctx), str(ctx.info_name), tuple(ctx.args), ctx.meta[LAUNCHER])


def _stage(settings: TrainSettings, stage: str, own: tuple[str, ...], launcher: tuple[str, ...]) -> None:
    from training.launch.accelerate import Launch
    from training.launch.plan import plan_of

    words = ("--config", str(settings.file), *own, *(["--overwrite"] if settings.overwrite else []))
    plan = plan_of(stage, words, Launch(settings.profile, launcher), is_dry=settings.dry_run)
    options = tuple(settings.slurm_option or ())
    if settings.dry_run:
        _look(plan, _slurm_request(plan, options) if settings.slurm else None, as_json=settings.as_json)
    elif settings.slurm:
        _submit(plan, options, as_json=settings.as_json)
    else:
        _run(plan, as_json=settings.as_json)


for _name, _kind in STAGES.items():
    command(
        app,
        _name,
        LaunchCommand,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        help=f"{_kind.about} Any setting of the file can be given as --key value. Exit code 3: stopped, run again to resume.",
        epilog=f"Example: assay train {_name} {_kind.example}",
    )(_stage)


class RecipeSettings(JsonSettings):
    """Settings of `assay train recipe`; any other --key value goes to every stage, --STAGE.key value to one."""

    name: Annotated[str, typer.Argument()]
    """biorlhf, biorlhf-80gb, reviewer, reviewer-9b, reviewer-union, refiner, refiner-api, refiner-31b, embedded, or a YAML
    file of your own."""
    output: Path | None = None
    """Folder of stages, data and reports; the same one resumes. Default: runs/NAME."""
    input: list[str] | None = None
    """An input of the recipe, such as judge=http://127.0.0.1:8000/v1; repeatable."""
    base: str | None = None
    """Another base than the recipe's: a folder or a Hub id."""
    profile: str | None = None
    """How to launch: cpu, multi-cpu, single-gpu, multi-gpu, multi-node, zero2, zero3, fsdp2."""
    dry_run: bool = False
    """Show every line with its rows, steps and memory; run nothing."""


@command(
    app,
    "recipe",
    LaunchCommand,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    help="Train a known system, stage by stage, and end with its published figures beside yours. Run again, it resumes.",
    epilog="Example: assay train recipe biorlhf --profile single-gpu --dry-run",
)
def recipe(settings: RecipeSettings, _: str, own: tuple[str, ...], launcher: tuple[str, ...]) -> None:
    """Run the steps of a recipe that are not done, then print the table."""
    from training.launch.accelerate import Launch

    known = system_recipe(settings.name)
    out = settings.output or Path("runs") / Path(settings.name).stem
    given = dict(each.partition("=")[::2] for each in settings.input or ())
    if unknown := given.keys() - known.inputs.keys():
        raise BadConfig(f"the recipe takes no {', '.join(unknown)}; it takes {', '.join(known.inputs) or 'nothing'}")
    notes.print(f"{known.title}\n{known.about}\nTime: {known.hours}", soft_wrap=True)
    values = {
        name: given.get(name) or each.default or _input(name, each, out, is_dry=settings.dry_run)
        for name, each in known.inputs.items()
    }
    stood_in = [
        f"{name}: {values[name]} instead of {each.about}."
        for name, each in known.inputs.items()
        if values[name] == each.instead and not (settings.dry_run and each.url)
    ]
    known = known.model_copy(update={"differs": (*known.differs, *stood_in)})
    values |= {"out": str(out), "base": settings.base or known.base}
    launch = Launch(settings.profile, launcher)
    lines = []
    for number, step in enumerate(known.steps, 1):
        words = step.words(values)
        if step.stage:
            words += [*(("--base", settings.base) if settings.base else ()), *known.settings_of(step.stage, own)]
        is_done = step.is_done(out)
        state = ", done" if is_done else ""
        launched = [
            *(("--profile", launch.profile) if launch.profile else ()),
            *(("--", *launcher) if launcher else ()),
        ]
        line = [*words, *(launched if step.stage else ())]
        notes.print(f"[{number} of {len(known.steps)}{state}] assay {shlex.join(line)}", soft_wrap=True)
        if settings.dry_run:
            needs = _needs(step.stage, words[2:], launch, as_json=settings.as_json) if step.stage else {}
            lines.append({"command": shlex.join(["assay", *line]), "done": is_done, **needs})
        elif not is_done:
            _step(line)
    if settings.dry_run:
        document = {"recipe": known.title, "hours": known.hours, "steps": lines, "differs": known.differs}
        emit(document, as_json=settings.as_json)
        _differences(known)
    else:
        _figures(known, out, as_json=settings.as_json)


def _input(name: str, wanted: Input, out: Path, *, is_dry: bool) -> str:
    """Return where a published file lies, fetched once, or what stands in for it; BadConfig if nothing can."""
    file = out / "inputs" / Path(wanted.url).name
    if wanted.url and file.is_file():
        return str(file)
    why = "not given"
    if wanted.url and not is_dry:
        import httpx2

        try:
            content = httpx2.get(wanted.url, follow_redirects=True, timeout=60).raise_for_status().content
            if hashlib.sha256(content).hexdigest() == wanted.sha256:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(file, content.decode())
                return str(file)
            why = f"{wanted.url} holds another file than was published"
        except httpx2.HTTPError as error:
            why = f"{wanted.url} cannot be reached ({error})"
    elif wanted.url:
        why = f"fetched from {wanted.url} when the recipe runs, so what follows is counted otherwise"
    if not wanted.instead and not is_dry:
        raise BadConfig(f"the recipe needs {name}, {wanted.about} ({why}); give it with --input {name}=…")
    instead = wanted.instead or wanted.example
    notes.print(f"{name}, {wanted.about}: {why}; {instead} is used instead", style="yellow", soft_wrap=True)
    return instead


def _step(words: list[str]) -> None:
    """Run one line as its own process; its exit code ends the recipe, which resumes with that step when run again."""
    end_progress()
    line = [sys.executable, "-c", "from lab.cli import main; main()", *words]
    if code := run_to_end(line, lambda command: [command]):
        notes.print("the recipe stopped here; run the same command to resume", style="yellow")
        raise typer.Exit(STOPPED if code == STOPPED else 1)


def _needs(stage: str, words: list[str], launch: "Launch", *, as_json: bool) -> dict[str, object]:
    """Return rows, steps and memory of a stage, as far as they are known before those below it are trained."""
    from lab.shared.runner import has_gpu
    from training.launch.accelerate import gpus_here, missing
    from training.launch.plan import plan_of
    from training.launch.preview import preview

    plan = plan_of(stage, tuple(words), launch, is_dry=True)
    seen, settings = preview(plan), plan.settings
    needs = plan.needs(seen.kept, trained=seen.targets.weights if seen.targets else None)
    found: dict[str, object] = {"rows": seen.kept or "known once the lines above have run"}
    if needs:
        share = getattr(settings, "vllm_memory", 0.0) if settings.vllm_mode == "colocate" else 0.0
        beside = f", and {share:.0%} of the GPU for vLLM" if share else ""
        found |= {"optimizer steps": needs.steps or "unknown without the rows"}
        found |= {"memory": f"{needs.total / 1e9:.1f} GB{beside}"}
    found |= {"base": f"{settings.base}, {settings.weights}"}
    if lacking := missing(settings, has_gpu=has_gpu(), launch=launch, gpus=gpus_here()):
        found |= {"not here": " ".join(lacking)}
    emit(found, as_json=False, table=None if as_json else f"{stage}, for each process")
    return found


def _figures(known: SystemRecipe, out: Path, *, as_json: bool) -> None:
    """Print what was published beside what the reports of this output say, and what was not the same."""
    from evals.report import load_report
    from evals.schema.reports import Report

    rows = []
    for each in known.figures:
        ours = each.found(load_report(out / each.report, Report))
        value = ours.value if ours else None
        difference = None if value is None or each.published is None else value - each.published
        rows.append({"figure": each.name, "published": each.published, "ours": ours, "difference": difference})
    table = as_table(f"{known.title}, 95 % intervals", rows)
    emit({"figures": rows, "differs": known.differs}, as_json=as_json, table=table)
    _differences(known)


def _differences(known: SystemRecipe) -> None:
    for sentence in known.differs:
        notes.print(f"Not the same: {sentence}", soft_wrap=True)


def _run(plan: "Plan", *, as_json: bool) -> None:
    """Run the line with this Python and print what it left; a first Ctrl-C lets training end in order."""
    from lab.shared.runner import has_gpu
    from training.launch.accelerate import check_equipment, gpus_here
    from training.run.folder import RunFolder

    check_equipment(plan.settings, has_gpu=has_gpu(), launch=plan.launch, gpus=gpus_here())
    if run_line(plan):
        notes.print("training did not finish; if there was an error, it stands above", style="red")
        if unfinished := how_to_resume(plan.output):
            notes.print(unfinished, style="yellow", soft_wrap=True)
        raise typer.Exit(1)
    record = RunFolder(plan.output).record()
    if record is not None:
        shown = record if as_json else {"status": record.status, **record.result}
        emit(shown, as_json=as_json, table=str(plan.output))
        if record.status == "stopped":
            notes.print(f"not finished: {how_to_resume(plan.output)}", style="yellow", soft_wrap=True)
            raise typer.Exit(STOPPED)


def run_line(plan: "Plan") -> int:
    """Run a plan's line with this Python and return its exit code; a first Ctrl-C or SIGTERM lets training end in order."""
    from training.launch.accelerate import command_of, environment

    end_progress()
    notes.print(f"$ {plan.command}", soft_wrap=True)
    line, told = command_of(plan.line), environment(plan.line, plan.launch.processes)
    return run_to_end(line, lambda launcher: launcher.children(), told)


def run_to_end(
    line: list[str], listeners: "Callable[[Process], list[Process]]", env: Mapping[str, str] | None = None
) -> int:
    """Run a line until it ends, whatever interrupts, and return its exit code.

    A terminal sends Ctrl-C to all processes; SIGTERM, which `docker stop` sends to this one alone, goes on to `listeners`.
    """
    from psutil import Process

    process = subprocess.Popen(line, env=env, stdout=sys.stderr.fileno())

    def pass_on(number: int, frame: object) -> None:
        for each in listeners(Process(process.pid)):
            each.terminate()

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        while True:
            with suppress(KeyboardInterrupt):
                return process.wait()
    finally:
        signal.signal(signal.SIGTERM, before)


def _slurm_request(plan: "Plan", options: tuple[str, ...]) -> dict[str, Any]:
    """Return what SLURM is asked for, and say why so much memory."""
    from training.launch.plan import memory_of, parameters_of
    from training.launch.preview import folder_here

    memory, why = memory_of(plan, folder_here(plan.settings.base))
    parameters = parameters_of(plan.launch, plan.output.name, options, memory)
    if parameters["mem"] == memory:
        notes.print(f"mem={memory} of each machine: {why}", soft_wrap=True)
    return parameters


def _submit(plan: "Plan", options: tuple[str, ...], *, as_json: bool) -> None:
    from training.launch.plan import ClusterJob, has_cluster, submit

    parameters = _slurm_request(plan, options)
    job = ClusterJob(plan.line, str(Path.cwd()), plan.launch.processes, plan.launch.machines)
    folder = plan.output.with_name(f"{plan.output.name}.slurm")
    if not has_cluster():
        raise BadConfig(
            "there is no SLURM here (no sbatch, no srun), so nothing was submitted; run the same command on a login node"
            " of the cluster. --dry-run shows what the job would ask for."
        )
    number = submit(job, folder, parameters)
    notes.print(f"submitted as job {number}; its log and state are in {folder}", soft_wrap=True)
    document = {"job": number, "folder": str(folder), "command": plan.command}
    emit(document, as_json=as_json, table="slurm")


def _look(plan: "Plan", asked: Mapping[str, Any] | None, *, as_json: bool) -> None:
    """Print what would be run, or as a job `asked` for of SLURM."""
    from lab.shared.runner import has_gpu
    from training.launch.accelerate import gpus_here, missing, unused_gpus
    from training.launch.preview import preview

    seen = preview(plan)
    needs = plan.needs(seen.kept, trained=seen.targets.weights if seen.targets else None)
    lacking = missing(plan.settings, has_gpu=has_gpu(), launch=plan.launch, gpus=gpus_here())
    known = advice(plan.settings)
    if asked is None and plan.launch.gpus_per_machine:
        known += unused_gpus(gpus_here(), plan.launch.processes)
    document = _document(plan, seen, needs, lacking, known) | {"slurm": asked}
    emit(document, as_json=as_json)
    if not as_json:
        _print_tables(document, seen, needs)
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


def _print_tables(document: Mapping[str, Any], seen: "Preview", needs: "Estimate | None") -> None:
    for title in ("settings", "data", "rows", "lengths", "adapter"):
        if document[title]:
            emit(
                document[title] if isinstance(document[title], Mapping) else {title: document[title]},
                as_json=False,
                table=title,
            )
    if needs:
        rows = {
            "optimizer steps": needs.steps or "unknown without the rows",
            "trained weights": f"{needs.trained_weights:,}",
            **{f"memory: {what}": f"{size / 1e9:.2f} GB" for what, size in needs.memory.items()},
            "memory in all": f"{needs.total / 1e9:.2f} GB",
            "main memory at the end": f"{needs.ending / 1e9:.2f} GB",
        }
        emit(rows, as_json=False, table="steps and memory, estimated for each process")
    for each in seen.examples:
        title = f"row {each.name}, {each.column}: the loss is on the text in ⟦ ⟧"
        emit(None, as_json=False, table=table_of(title, ("tokens",), [(each.with_marks(),)]))
