"""Training from the page: may it be done here, what would be done, start it, stop it, go on with it.

A run is a process of its own, started by the same line as on a terminal.
"""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from filelock import FileLock

from evals.errors import BadConfig, LabError
from evals.io import write_whole
from lab.settings import EMBEDDED, EMBEDDED_RUNS, TrainingSettings
from lab.shared.runs import SETTINGS, SUFFIX, Training, beside, find, is_alive, is_from_here, look, start, stop_run
from lab.ui.text import say
from training.config import written_settings
from training.launch.accelerate import Launch, check_equipment, gpus_here
from training.models.manifest import BARE, read_chain
from training.run.folder import PROCESSES, RunFolder
from training.stages import STAGES

if TYPE_CHECKING:
    from lab.services import Services
    from training.launch.plan import Plan

SHIPPED = Path(__file__).resolve().parents[2] / "training" / "configs"
STAGE_IN_COMMAND = re.compile(rf"\b(?:training\.|assay train )({'|'.join(STAGES)})\b")
PROFILE_IN_COMMAND = re.compile(r"--config_file \S*accelerate/([\w-]+)\.yaml")


@dataclass(frozen=True)
class Recipe:
    """What a run is started with: its stage, its settings as YAML, and how it is launched ("" = as accelerate finds best)."""

    stage: str
    text: str
    profile: str = ""


def recipes(own: Path) -> dict[str, Path]:
    """Return the settings files that can be started from, by name: those shipped, then one's own."""
    shipped = (file for file in sorted(SHIPPED.rglob("*.yaml")) if file.parent.name != "accelerate")
    found = {file.relative_to(SHIPPED).with_suffix("").as_posix(): file for file in shipped}
    mine = sorted(own.glob("*.yaml")) if own.is_dir() else []
    return found | {say("train.mine", name=file.stem): file for file in mine}


def read_recipe(file: Path) -> Recipe:
    """Return a settings file, without the lines that name its command; BadConfig if it cannot be read.

    The stage is the one that these lines name, SFT where there are none.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{file.name} cannot be read ({type(error).__name__}); choose another settings file.") from None
    head = "\n".join(line for line in lines if line.startswith("#"))
    stage, profile = STAGE_IN_COMMAND.search(head), PROFILE_IN_COMMAND.search(head)
    body = [line for line in lines if not (line.startswith("#") and STAGE_IN_COMMAND.search(line))]
    text = "\n".join(body).strip() + "\n"
    if re.search(r"(?m)^extends:", text):
        text = yaml.safe_dump(written_settings(file), sort_keys=False, allow_unicode=True)
    return Recipe(stage[1] if stage else "sft", text, profile[1] if profile else "")


def with_values(text: str, values: Mapping[str, str | list[str]]) -> str:
    """Return YAML settings with these values, "" = left out; all other lines and comments stay as they are."""
    for name, value in values.items():
        line = yaml.safe_dump({name: value}, allow_unicode=True, width=1000) if value else ""
        found = re.search(rf"(?m)^{name}:.*\n(?:[ \t-].*\n)*", text)
        start, end = found.span() if found else (0, 0)
        text = text[:start] + line + text[end:]
    return text


def propose_recipe(stage: str, data: str, chain: str, settings: TrainingSettings) -> Recipe:
    """Return a recipe for a stage on data, on top of a chain, with the settings that the embedded stage was trained with.

    BadConfig for a stage that has none, LabError for a chain that is not here.
    """
    from training.models.chain import base_source

    if not (file := SHIPPED / EMBEDDED / f"{stage}.yaml").is_file():
        raise BadConfig(say("train.no_proposal", stage=stage))
    recipe, is_bare = read_recipe(file), chain.startswith(BARE)
    values = {
        "base": chain.removeprefix(BARE) if is_bare else base_source(read_chain(chain)),
        "chain": "" if is_bare else chain,
        "data": [data],
        "output": str(free_output(settings.runs[0], stage)),
    }
    plain = "".join(line for line in recipe.text.splitlines(keepends=True) if not line.startswith("#"))
    return replace(recipe, stage=stage, text=with_values(plain, values))


def free_output(root: Path, stage: str) -> Path:
    number = 1
    while (folder := root / f"{stage}-{number}").exists() or folder.with_name(f"{folder.name}.lab").exists():
        number += 1
    return folder


STARTING = ".starting"
GPUS = (Path("/dev/nvidiactl"), Path("/dev/kfd"))


def why_not_here(settings: TrainingSettings) -> str:
    """Return why nothing can be trained from this page, in words; "" if it can."""
    if settings.is_allowed is False:
        return say("train.refused.off")
    if settings.is_allowed is None and settings.is_space:
        return say("train.refused.space")
    if settings.is_allowed is None and settings.is_shared:
        return say("train.refused.shared")
    place = settings.runs[0].resolve()
    while not place.exists():
        place = place.parent
    is_writable = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    return "" if is_writable else say("train.refused.readonly", folder=settings.runs[0])


def preview(recipe: Recipe, settings: TrainingSettings, *, is_dry: bool = True) -> "Plan":
    """Return what starting a recipe would run; nothing is written. LabError, speaking of the form, if it is refused."""
    launch = Launch(recipe.profile or None)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / SETTINGS
        file.write_text(recipe.text, encoding="utf-8")
        try:
            plan = _plan(recipe.stage, ("--config", str(file)), launch, is_dry=is_dry)
        except LabError as error:
            raise BadConfig(str(error).replace(str(file), say("train.form"))) from None
    check_equipment(plan.settings, has_gpu=has_gpu(), launch=launch, gpus=gpus_here())
    run = plan.output.expanduser()
    is_inside = any(root.resolve() in run.resolve().parents for root in settings.runs)
    if not is_inside or run.name.endswith(SUFFIX):  # this page would not find it again
        places = ", ".join(str(root) for root in settings.runs)
        raise BadConfig(say("train.refused.outside", run=run, places=places))
    return replace(plan, words=("--config", str(beside(run) / SETTINGS)))


def begin(recipe: Recipe, settings: TrainingSettings, now: datetime, who: str = "") -> Path:
    """Start a run and return its folder; LabError, with what to do, if that cannot be done.

    Its settings, and who began it, are kept beside the folder, so that it can be gone on with.
    """
    _refuse_here(settings)
    plan = preview(recipe, settings, is_dry=False)
    run = plan.output.expanduser()
    with _alone(settings, now):
        if RunFolder(run).record() is not None:
            raise BadConfig(say("train.refused.unfinished", run=run))
        write_whole(beside(run) / SETTINGS, f"# {plan.command}\n{recipe.text}")
        start(run, plan.line, plan.launch.processes, now, who)
    return run


def go_on(run: Path, settings: TrainingSettings, now: datetime) -> None:
    """Go on with a run from its last checkpoint, by the line it was started with."""
    _refuse_here(settings)
    training = look(run, now)
    if training.is_live or (training.launched and is_alive(training.launched)):
        raise BadConfig(say("train.refused.alive", run=run))
    line, processes = how_started(training)
    at = line.index("-m") + 1
    _plan(line[at].removeprefix("training."), line[at + 1 :], Launch(), is_dry=False)
    with _alone(settings, now):
        start(run, line, processes, now, training.launched.who if training.launched else "")


def _plan(stage: str, words: Sequence[str], launch: Launch, *, is_dry: bool) -> "Plan":
    from training.launch.plan import plan_of  # late: it takes two seconds

    return plan_of(stage, words, launch, is_dry=is_dry)


def how_started(training: Training) -> tuple[tuple[str, ...], int]:
    """Return the line that a run was started by, and how many processes that were; BadConfig if it is lost."""
    if training.launched is not None:
        return training.launched.line, training.launched.processes
    if training.record is None:
        raise BadConfig(training.problem)
    line = tuple(shlex.split(training.record.command))
    return line, int(training.record.host.get(PROCESSES, 1))


def halt(run: Path, settings: TrainingSettings, now: datetime) -> None:
    """Ask a run to stop after its step, or at once if it was asked before."""
    _refuse_here(settings)
    launched = look(run, now).launched
    if launched is None or not is_from_here(launched):
        raise BadConfig(say("train.refused.elsewhere"))
    if is_alive(launched):
        stop_run(run, launched, now)


def has_gpu() -> bool:
    """Whether this machine looks as if it had a GPU that training would use."""
    return shutil.which("nvidia-smi") is not None or any(place.exists() for place in GPUS)


@contextmanager
def _alone(settings: TrainingSettings, now: datetime) -> Generator[None]:
    """Keep two visitors from starting at the same moment; BadConfig if this would be a run too many."""
    root = settings.runs[0]
    root.mkdir(parents=True, exist_ok=True)
    limit = settings.at_once or (0 if has_gpu() else 1)
    with FileLock(root / STARTING):
        live = [each for each in find(settings.runs, now) if each.is_live]
        if limit and len(live) >= limit:
            names = ", ".join(each.name for each in live)
            raise BadConfig(say("train.refused.crowd", runs=names, limit=limit))
        yield


def _refuse_here(settings: TrainingSettings) -> None:
    reason = why_not_here(settings)
    if reason:
        raise BadConfig(reason)


# ---- renamed and deleted ---------------------------------------------------------------------------

PLAIN = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")


def run_to_change(services: "Services", name: str) -> Training:
    """Return a run of one's own that may be renamed or deleted; LabError where something is at work on it or rests on it."""
    _refuse_here(services.settings.training)
    found = {each.name: each for each in find(services.settings.training.runs, services.now())}
    run = found.get(name)
    if run is None or run.path.resolve().is_relative_to(EMBEDDED_RUNS):
        raise LabError(say("manage.not_own", name=name))
    jobs = (job for job in services.jobs.all() if not job.is_over and job.settings.get("run") == str(run.path))
    if run.is_live or any(jobs):
        raise LabError(say("manage.busy", name=name))
    places = {each.name: each.path for each in found.values() if each is not run}
    for called, place in {**places, say("chain.own", name=services.settings.chain): services.settings.chain}.items():
        try:
            chain = read_chain(place)
        except LabError:  # it holds no chain, or none that can be read
            continue
        folders = (chain.adapter_folder(stage) for stage in chain.manifest.stages)
        if any(each.is_relative_to(run.path.resolve()) for each in folders):
            raise LabError(say("manage.rests", name=name, other=called))
    return run


def rename_run(services: "Services", name: str, title: str) -> Path:
    """Give a finished run's folder another name, and return it; LabError for a name that is taken or no plain one."""
    run = run_to_change(services, name)
    if run.can_go_on:
        raise LabError(say("manage.unfinished", name=name))
    title = title.strip()
    if not PLAIN.fullmatch(title) or title.endswith(SUFFIX) or (target := run.path.parent / title).exists():
        raise LabError(say("manage.no_name", title=title))
    run.path.rename(target)
    if beside(run.path).is_dir():
        beside(run.path).rename(beside(target))
    return target


def delete_run(services: "Services", name: str) -> None:
    """Delete a run's folder and what the lab keeps beside it."""
    run = run_to_change(services, name)
    for folder in (run.path, beside(run.path)):
        if folder.is_dir():
            shutil.rmtree(folder)
