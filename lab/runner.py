"""Training from the page: may it be done here, what would be done, start it, stop it, go on with it.

Knows nothing of torch: a run is a process of its own, started by the same line as on a terminal.
"""

import os
import shlex
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from filelock import FileLock

from evals.errors import BadConfig, LabError
from lab.launches import SETTINGS, SUFFIX, beside, is_alive, is_from_here, start, stop
from lab.recipes import Recipe, text_of
from lab.services import plan_training
from lab.settings import TrainingSettings
from lab.trainings import Training, find, look
from lab.wording import say
from training.advice import advice
from training.equipment import check_equipment
from training.files import write_whole
from training.launch import Launch
from training.runs import PROCESSES, RunFolder

STARTING = ".starting"
GPUS = (Path("/dev/nvidiactl"), Path("/dev/kfd"))


@dataclass(frozen=True)
class Preview:
    """A run as it would be started: what it lacks here, and what to know of its settings, as sentences."""

    output: Path
    line: tuple[str, ...]
    processes: int
    problems: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The line as it is typed."""
        return shlex.join(self.line)


def refusal(settings: TrainingSettings) -> str:
    """Return why nothing can be trained from this page, in words; "" if it can."""
    if settings.is_allowed is False:
        return say("train.refused.off")
    if settings.is_allowed is None and settings.is_space:
        return say("train.refused.space")
    if settings.is_allowed is None and settings.is_shared:
        return say("train.refused.shared")
    if not _is_writable(settings.runs[0]):
        return say("train.refused.readonly", folder=settings.runs[0])
    return ""


def preview(recipe: Recipe, settings: TrainingSettings) -> Preview:
    """Return what starting a recipe would run; nothing is written. LabError if it would be refused."""
    return _planned(recipe, settings, is_dry=True)


def begin(recipe: Recipe, settings: TrainingSettings, now: datetime) -> Path:
    """Start a run and return its folder; LabError, with what to do, if that cannot be done.

    Its settings are kept beside the folder, so that it can be gone on with.
    """
    _refuse_here(settings)
    planned = _planned(recipe, settings, is_dry=False)
    run = planned.output
    with _alone(settings, now):
        if RunFolder(run).record() is not None:
            raise BadConfig(say("train.refused.unfinished", run=run))
        write_whole(beside(run) / SETTINGS, text_of(recipe, planned.command))
        start(run, planned.line, planned.processes, now)
    return run


def go_on(run: Path, settings: TrainingSettings, now: datetime) -> None:
    """Go on with a run from its last checkpoint, by the line it was started with."""
    _refuse_here(settings)
    training = look(run, now)
    if training.is_live or (training.launched and is_alive(training.launched)):
        raise BadConfig(say("train.refused.alive", run=run))
    line, processes = how_started(training)
    stage, words = _words(line)
    plan_training(stage, words, Launch(), is_dry=False)
    with _alone(settings, now):
        start(run, line, processes, now)


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
        stop(run, launched, now)


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


def _planned(recipe: Recipe, settings: TrainingSettings, *, is_dry: bool) -> Preview:
    """Return what a recipe would run; messages speak of the form and not of a file."""
    launch = Launch(recipe.profile or None)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / SETTINGS
        file.write_text(text_of(recipe, ""), encoding="utf-8")
        try:
            plan = plan_training(recipe.stage, ("--config", str(file)), launch, is_dry=is_dry)
        except LabError as error:
            raise BadConfig(str(error).replace(str(file), say("train.form"))) from None
    check_equipment(plan.settings, has_gpu=has_gpu(), launch=launch)
    run = plan.output.expanduser()
    _refuse_outside(run, settings)
    line = launch.line(recipe.stage, ("--config", str(beside(run) / SETTINGS)))
    return Preview(run, line, launch.processes, plan.problems, advice(plan.settings))


def _refuse_here(settings: TrainingSettings) -> None:
    reason = refusal(settings)
    if reason:
        raise BadConfig(reason)


def _refuse_outside(run: Path, settings: TrainingSettings) -> None:
    """Raise BadConfig for a run folder where this page would not find it again."""
    roots = [root.resolve() for root in settings.runs]
    is_inside = any(root in run.resolve().parents for root in roots)
    if not is_inside or run.name.endswith(SUFFIX):
        places = ", ".join(str(root) for root in settings.runs)
        raise BadConfig(say("train.refused.outside", run=run, places=places))


def _words(line: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the stage of a launch line, and the words that the stage itself is given."""
    at = line.index("-m") + 1
    return line[at].removeprefix("training."), tuple(line[at + 1 :])


def _is_writable(folder: Path) -> bool:
    """Whether a folder can be written to, or made where it is not there yet."""
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
