"""The training runs that the lab can show: found on disk, whoever started them, with how they stand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Literal

from evals.errors import BadConfig
from evals.schema import RunRecord
from lab.launches import LAUNCH, LOG, SUFFIX, Launched, beside, is_alive, is_from_here, read_launch
from lab.watching import Watched
from lab.wording import say
from training.checkpoints import checkpoints, step_of
from training.runs import COMPLETIONS, METRICS, RECORD, STOPPED_BECAUSE, RunFolder

State = Literal["starting", "running", "stopping", "finished", "failed", "stopped", "stalled"]
LIVE: tuple[State, ...] = ("starting", "running", "stopping")
DEEPEST = 3
"""Folders below a root that are looked into: a sweep keeps its runs in folders of their own."""
PATIENCE_SECONDS = 600.0
PATIENCE_STEPS = 10
"""A run without a sign of life for so long, and for so many of its logged steps, is called stalled."""
RECENT = 10


@dataclass(frozen=True)
class Training:
    """One run as it stands on disk. `record` is None before its process has opened the folder.

    `name` is what it is called on the page; `problem` says why a file of it cannot be read, "" if all can.
    """

    path: Path
    state: State
    begun: datetime
    record: RunRecord | None = None
    launched: Launched | None = None
    problem: str = ""
    name: str = ""

    @property
    def is_live(self) -> bool:
        """Whether a process is at work on it, as far as can be told from here."""
        return self.state in LIVE

    @property
    def can_go_on(self) -> bool:
        """Whether the same command would take the run up again."""
        is_over = self.state in ("failed", "stopped", "stalled")
        return is_over and not self.problem and not self.stopped_because

    @property
    def stopped_because(self) -> str:
        """Why the run stopped itself, in words; "" if it did not. It is gone on with by other limits only."""
        result = self.record.result if self.record and self.state == "stopped" else {}
        return str(result.get(STOPPED_BECAUSE, ""))


@dataclass(frozen=True)
class Progress:
    """How far a run is; None for what is not known (yet)."""

    step: int
    steps: int | None
    seconds_left: float | None

    @property
    def share(self) -> float:
        """Part of the steps that is done, 0..1; 0 where it is not known how many there are."""
        return min(1.0, self.step / self.steps) if self.steps else 0.0


def find(roots: Sequence[Path], now: datetime) -> tuple[Training, ...]:
    """Return the runs below the roots, the newest first, each with a name of its own.

    A run in runs/rates/1 is "runs/rates/1", wherever the root runs/ lies.
    """
    found: dict[str, Training] = {}
    for root in roots:
        for folder in _folders(root):
            name = (Path(root.resolve().name) / folder.relative_to(root)).as_posix()
            name = str(folder) if name in found else name
            found[name] = replace(look(folder, now), name=name)
    return tuple(sorted(found.values(), key=lambda one: one.begun, reverse=True))


def first_to_show(found: Sequence[Training], shipped: Path) -> Training:
    """Return the run to show to somebody who has chosen none; `found` has one at least, newest first.

    That is the newest at work, else the newest of one's own. Of those that came with Assay, below `shipped`,
    it is the newest that has sampled answers, by which most can be seen; GRPO goes before the refiner, whose
    answers have no confidence.
    """
    own = [each for each in found if not each.path.resolve().is_relative_to(shipped)]
    live = [each for each in found if each.is_live]
    sampled = [each for each in found if (each.path / COMPLETIONS).is_dir()]
    verified = [each for each in sampled if each.record and each.record.stage == "grpo"]
    return [*live, *own, *verified, *sampled, *found][0]


def look(run: Path, now: datetime) -> Training:
    """Return one run as it stands."""
    try:
        record, launched = RunFolder(run).record(), read_launch(run)
    except BadConfig as error:
        return Training(run, "failed", last_sign(run) or now, problem=str(error))
    if launched is None and record is None:
        return Training(run, "failed", now, problem=say("train.gone", run=run.name))
    begun = launched.started_at if launched else record.started_at if record else now
    return Training(run, _state(run, record, launched, now), begun, record, launched)


def progress_of(training: Training, watched: Watched, now: datetime) -> Progress:
    """Return how far a run is, and how long it will take if it goes on as in its last steps."""
    steps = _steps(training.record, watched)
    pace = _seconds_per_step(training, watched)
    if not training.is_live or steps is None or pace is None or watched.step >= steps:
        return Progress(watched.step, steps, None)
    waited = (now - (last_sign(training.path) or now)).total_seconds()
    return Progress(watched.step, steps, max(0.0, (steps - watched.step) * pace - waited))


def last_sign(run: Path) -> datetime | None:
    """Return when a run last wrote anything; None if it has written nothing."""
    names = (RECORD, METRICS, COMPLETIONS)
    places = [*(run / name for name in names), beside(run) / LOG, *checkpoints(run)]
    times = [place.stat().st_mtime for place in places if place.exists()]
    return datetime.fromtimestamp(max(times), UTC) if times else None


def _folders(root: Path, depth: int = 0) -> Iterator[Path]:
    """Yield the run folders at and below `root`, those too that a process is only about to open."""
    if (root / RECORD).is_file():
        yield root
        return
    if depth > DEEPEST or not root.is_dir():
        return
    for folder in sorted(root.iterdir()):
        if folder.name.endswith(SUFFIX) and (folder / LAUNCH).is_file():
            run = folder.with_name(folder.name.removesuffix(SUFFIX))
            # One that is open already is found under its own name.
            if not (run / RECORD).is_file():
                yield run
        elif folder.is_dir():
            yield from _folders(folder, depth + 1)


def _state(run: Path, record: RunRecord | None, launched: Launched | None, now: datetime) -> State:
    if record is not None and (launched is None or not is_from_here(launched)):
        return _heard_of(run, now) if record.status == "running" else record.status
    if launched is None:
        return "failed"
    is_opened = record is not None and _written(run) >= launched.started_at.timestamp()
    if is_opened and record.status == "finished":
        return "finished"
    if is_alive(launched):
        is_ending = is_opened and record.status != "running"
        if is_ending or launched.asked_to_stop_at:
            return "stopping"
        return _heard_of(run, now) if is_opened else "starting"
    if is_opened and record.status != "running":
        return record.status
    return "stopped" if launched.asked_to_stop_at else "failed"


def _heard_of(run: Path, now: datetime) -> State:
    """Return whether a run that says it is running has lately shown any sign of it."""
    rows = RunFolder(run).metrics
    logged = rows.read_bytes().count(b"\n") if rows.is_file() else 0
    interval = (rows.stat().st_mtime - _written(run)) / logged if logged else 0.0
    silence = (now - (last_sign(run) or now)).total_seconds()
    return "stalled" if silence > max(PATIENCE_SECONDS, PATIENCE_STEPS * interval) else "running"


def _steps(record: RunRecord | None, watched: Watched) -> int | None:
    """Return how many steps the run takes in all: as set, or as its passes over the data tell."""
    if record is None:
        return None
    if record.status == "finished":
        return watched.step
    wanted, passes = record.config.get("max_steps"), record.config.get("epochs")
    if isinstance(wanted, int) and wanted > 0:
        return wanted
    seen = watched.points("epoch")
    if not seen or not seen[-1][1] or not isinstance(passes, int | float):
        return None
    step, epoch = seen[-1]
    return max(step, round(step * passes / epoch))


def _seconds_per_step(training: Training, watched: Watched) -> float | None:
    """Return how long a step took lately: as logged, or from when the files were written."""
    logged = [seconds for _, seconds in watched.points("step_time")[-RECENT:]]
    if logged:
        return fmean(logged)
    metrics = training.path / METRICS
    if not watched.step or training.record is None or not metrics.is_file():
        return None
    begun = _written(training.path)
    resumed = [step_of(each) for each in checkpoints(training.path) if each.stat().st_mtime < begun]
    if not resumed and begun - training.record.started_at.timestamp() > RESUMED_SECONDS:
        return None
    steps = watched.step - max(resumed, default=0)
    return (metrics.stat().st_mtime - begun) / steps if steps > 0 else None


RESUMED_SECONDS = 60.0
"""run.json of a run that was not resumed is as old as the run, but for the time it takes to open it."""


def _written(run: Path) -> float:
    """Return when run.json was last written: at the start of a process, and at its end."""
    return (run / RECORD).stat().st_mtime
