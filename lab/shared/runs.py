"""The training runs that the lab can show: found on disk, whoever started them, with how they stand."""

import json
import platform
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import psutil
from pydantic import ValidationError

from evals.errors import BadConfig, LabError
from evals.io import write_whole
from evals.schema import Record, RunRecord
from evals.schema.runs import RunProgress
from evals.stats.calibration import CalibrationSettings, bin_edges, ece
from lab.services import Services
from lab.ui.text import say
from training.config import StageSettings
from training.grpo import GrpoSettings
from training.launch.accelerate import command_of, environment
from training.models.manifest import FILE_NAME, OURS, chain_file, read_chain
from training.run.folder import (
    COMPLETIONS,
    METRICS,
    PROGRESS,
    RECORD,
    STOPPED_BECAUSE,
    MetricRow,
    RunFolder,
    Sampled,
    checkpoints,
    read_completions,
)
from training.stages import STAGES

STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

LAUNCH, LOG, SETTINGS = "launch.json", "log.txt", "settings.yaml"
SUFFIX = ".lab"
CLOCK_SECONDS = 30.0
"""What the time when a process started may differ by: the clock of the machine is set now and then."""
NICE = 10
"""How far a training stands back, looks included, for answers on the same processors."""
ECHO_SECONDS = 3.0
"""A second signal that comes sooner is taken by the training process for an echo of the first."""


class Launched(Record):
    """launch.json: one start of a training process. `pid` is also the number of its group.

    `host` and `born`, when the process started in seconds since 1970, tell it from another process of the same number.
    """

    line: tuple[str, ...]
    processes: int
    pid: int
    host: str
    born: float
    started_at: datetime
    asked_to_stop_at: datetime | None = None
    who: str = ""


def beside(run: Path) -> Path:
    """Return the folder where the lab keeps what belongs to a run and not into its folder."""
    return run.with_name(run.name + SUFFIX)


def read_launch(run: Path) -> Launched | None:
    """Return the last start of a run from the lab, None if there was none."""
    file = beside(run) / LAUNCH
    if not file.is_file():
        return None
    try:
        return Launched.model_validate_json(file.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        why = str(error).splitlines()[0]
        raise BadConfig(say("train.bad_launch", file=file, why=why, folder=beside(run).name, run=run.name)) from None


def start(run: Path, line: Sequence[str], processes: int, now: datetime, who: str = "") -> Launched:
    """Start `accelerate launch …` in a process group of its own and return what launch.json keeps.

    All it says is added to the log.
    """
    words = command_of(line)
    folder = beside(run)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOG).open("ab") as log:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(line, processes),
            start_new_session=True,
        )
    known = psutil.Process(process.pid)
    known.nice(max(NICE, known.nice()))
    born = known.create_time()
    # Whoever waits for it takes it off the list of processes when it ends.
    threading.Thread(target=process.wait, daemon=True).start()
    launched = Launched(
        line=tuple(line), processes=processes, pid=process.pid, host=platform.node(), born=born, started_at=now, who=who
    )
    _write(run, launched)
    return launched


def stop_run(run: Path, launched: Launched, now: datetime) -> None:
    """Ask a run to finish its step, write a checkpoint and stop; asked again, to stop at once.

    The launcher is spared where that is possible: it waits for the training process and ends with it.
    """
    asked = launched.asked_to_stop_at
    if asked is not None and (now - asked).total_seconds() < ECHO_SECONDS:
        return
    number = signal.SIGINT if asked is None else signal.SIGTERM
    members = _members(launched)
    for process in [each for each in members if each.pid != launched.pid] or members:
        with suppress(psutil.NoSuchProcess):  # it has just ended by itself
            process.send_signal(number)
    _write(run, launched.model_copy(update={"asked_to_stop_at": asked or now}))


def is_from_here(launched: Launched) -> bool:
    """Whether a run was started on this machine."""
    return launched.host == platform.node()


def is_alive(launched: Launched) -> bool:
    """Whether any process of the run is still there, as far as this machine can tell."""
    return bool(_members(launched))


def _members(launched: Launched) -> list[psutil.Process]:
    """Return the processes of a run that have not ended: the launcher and all that it started."""
    if not is_from_here(launched):
        return []
    try:
        launcher = psutil.Process(launched.pid)
        if abs(launcher.create_time() - launched.born) > CLOCK_SECONDS:
            return []
        return [each for each in (launcher, *launcher.children(recursive=True)) if _lives(each)]
    except psutil.NoSuchProcess:
        return []


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _write(run: Path, launched: Launched) -> None:
    write_whole(beside(run) / LAUNCH, launched.model_dump_json(indent=1) + "\n")


LOG_BYTES, LOG_LINES = 16_384, 14
"""How much of the end of a log is read, and shown."""


@dataclass(frozen=True)
class Batch:
    """The answers of one logging step: their table, and what they say together.

    `ece` is None where none of them states a confidence that can be judged.
    """

    file: Path
    step: int
    n: int
    ece: float | None


@dataclass(frozen=True)
class Watched:
    """What has been read of a run so far; `changed`: when metrics.jsonl was last changed, and its size."""

    run: Path
    changed: tuple[int, int] = (0, 0)
    rows: tuple[MetricRow, ...] = ()
    unreadable: int = 0
    batches: tuple[Batch, ...] = ()

    @property
    def step(self) -> int:
        """The last step that was logged; 0 before the first."""
        return int(self.rows[-1]["step"] or 0) if self.rows else 0

    @property
    def alerts(self) -> tuple[tuple[int, str], ...]:
        """What the run itself found wrong, with the step it said so at."""
        return tuple((int(row["step"] or 0), str(row["alert"])) for row in self.rows if row.get("alert"))

    def points(self, metric: str) -> list[tuple[int, float]]:
        """Return step and value of a figure wherever it was logged as a number."""
        return [
            (int(row["step"] or 0), float(value))
            for row in self.rows
            if isinstance(value := row.get(metric), int | float)
        ]


def follow(seen: Watched) -> Watched:
    """Return what is known after one more look; `seen` itself if there is nothing new."""
    return _follow_tables(read_metrics(seen))


def last_lines(log: Path) -> str:
    """Return the end of a log as a terminal shows it; "" if there is none.

    Of a line that was written over itself, as a progress bar is, its last state counts.
    """
    if not log.is_file():
        return ""
    with log.open("rb") as content:
        content.seek(max(0, log.stat().st_size - LOG_BYTES))
        text = content.read().decode("utf-8", errors="replace")
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    clean = [STYLE.sub("", line) for line in shown]
    return "\n".join([line for line in clean if line.strip()][-LOG_LINES:])


def read_metrics(seen: Watched) -> Watched:
    """Return the rows of metrics.jsonl, read again where it has changed; a last line that is not whole is left for later."""
    try:
        status = (seen.run / METRICS).stat()
        if (changed := (status.st_mtime_ns, status.st_size)) == seen.changed:
            return seen
        lines = (seen.run / METRICS).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return seen if not seen.rows else Watched(seen.run)
    rows: list[MetricRow] = []
    for line in lines:
        with suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict) and isinstance(row.get("step"), int):
                rows.append(row)
    return replace(seen, changed=changed, rows=tuple(rows), unreadable=len(lines) - len(rows))


def _follow_tables(seen: Watched) -> Watched:
    files = sorted((seen.run / COMPLETIONS).glob("*.parquet"))
    found = (_batch(file, file.stat().st_mtime_ns) for file in files)
    batches = tuple(each for each in found if each is not None)
    return seen if batches == seen.batches else replace(seen, batches=batches)


@lru_cache(maxsize=10_000)
def _batch(file: Path, changed_ns: int) -> Batch | None:
    """Return what a table holds, read once for each time it was written; None while it is not whole."""
    answers = read_completions(file)
    return Batch(file, answers[0].step, len(answers), batch_ece(answers)) if answers else None


def batch_ece(answers: Sequence[Sampled]) -> float | None:
    """Return the calibration error of answers that were scored and state a confidence; None of none.

    Few answers make it large by chance: its course tells more than its height.
    """
    judged = [
        (answer.confidence, answer.verdict == "correct")
        for answer in answers
        if answer.confidence is not None and answer.reward is not None
    ]
    if not judged:
        return None
    c, y = (np.array(column, dtype=np.float64) for column in zip(*judged, strict=True))
    return float(ece(c, y, np.ones((1, len(c))), bin_edges(c, CalibrationSettings()))[0])


State = Literal["starting", "running", "stopping", "finished", "failed", "stopped", "stalled"]
LIVE: tuple[State, ...] = ("starting", "running", "stopping")
DEEPEST = 3
"""Folders below a root that are looked into: runs that belong together have a folder of their own."""
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
    verified = [each for each in sampled if each.record and STAGES.get(each.record.stage) is GrpoSettings]
    return [*live, *own, *verified, *sampled, *found][0]


def look(run: Path, now: datetime) -> Training:
    """Return one run as it stands."""
    try:
        record, launched = RunFolder(run).record(), read_launch(run)
    except BadConfig as error:
        return Training(run, "failed", last_sign(run) or now, problem=str(error))
    if launched is None and record is None:
        return Training(run, "failed", now, problem=say("train.folder.gone", run=run.name))
    begun = launched.started_at if launched else record.started_at if record else now
    return Training(run, _state(run, record, launched, now), begun, record, launched)


def duration(seconds: float) -> str:
    """Return a time as people say it.

    >>> duration(42), duration(200), duration(9000)
    ('42 s', '3 min', '2 h 30 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def progress_of(training: Training, watched: Watched, now: datetime) -> RunProgress:
    """Return what a run is doing and how far it is, with the time left as of now."""
    try:
        told = RunProgress.model_validate_json((training.path / PROGRESS).read_bytes())
    except (OSError, ValidationError):
        told = None
    if told is None or training.state == "starting":
        wanted = training.record.config.get("max_steps") if training.record else None
        steps = watched.step if training.state == "finished" else wanted if isinstance(wanted, int) else None
        doing = "training" if watched.step else "loading"
        return RunProgress(doing=doing, at=now, step=watched.step, steps=steps or None)
    left = told.seconds_left if training.is_live else None
    left = left and max(0.0, left - (now - told.at).total_seconds())
    return told.model_copy(update={"seconds_left": left, "step": max(told.step, watched.step)})


def course(training: Training, progress: RunProgress) -> str:
    """Return what a run is doing in words, how far it is and how long it will still take."""
    doing, far = progress.doing if training.is_live else "training", {"step": progress.step, "steps": progress.steps}
    if doing == "training":
        words = [say("train.steps", **far) if progress.steps else say("train.step", **far)]
    elif doing == "measuring":
        when = "before" if not progress.step else "after" if progress.step == progress.steps else "between"
        asked = say("train.measuring.asked", done=progress.done, of=progress.of) if progress.of > 1 else ""
        words = [say(f"train.measuring.{when}", asked=asked, **far)]
    else:
        words = [say(f"train.{doing}")]
    if progress.seconds_left is not None:
        words.append(say("train.left", time=duration(progress.seconds_left)))
    return " · ".join(words)


def last_sign(run: Path) -> datetime | None:
    """Return when a run last wrote anything; None if it has written nothing."""
    names = (RECORD, METRICS, PROGRESS, COMPLETIONS)
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
    is_opened = record is not None and _last_written(run) >= launched.started_at.timestamp()
    if is_opened and record.status == "finished":
        return "finished"
    if is_alive(launched):
        is_ending = is_opened and record.status != "running"
        if is_ending or launched.asked_to_stop_at:
            return "stopping"
        return "running" if is_opened else "starting"
    if is_opened and record.status != "running":
        return record.status
    return "stopped" if launched.asked_to_stop_at else "failed"


def _heard_of(run: Path, now: datetime) -> State:
    """Return whether a run that says it is running has lately shown any sign of it."""
    rows = RunFolder(run).metrics
    logged = rows.read_bytes().count(b"\n") if rows.is_file() else 0
    interval = (rows.stat().st_mtime - _last_written(run)) / logged if logged else 0.0
    silence = (now - (last_sign(run) or now)).total_seconds()
    return "stalled" if silence > max(PATIENCE_SECONDS, PATIENCE_STEPS * interval) else "running"


def _last_written(run: Path) -> float:
    """Return when run.json was last written: at the start of a process, and at its end."""
    return (run / RECORD).stat().st_mtime


# ---- chains that can be asked --------------------------------------------------------------------


def chains_of_runs(services: Services) -> Mapping[str, Path]:
    """Return the folders of finished runs that hold a chain, by the name that Train lists them under, newest first."""
    found = find(services.settings.training.runs, services.now())
    return {each.name: each.path for each in found if each.state == "finished" and is_asked(each)}


def is_asked(training: Training) -> bool:
    """Whether a run left a chain whose last stage writes answers."""
    stage = training.record.stage if training.record else ""
    return (training.path / FILE_NAME).is_file() and STAGES.get(stage, StageSettings).is_asked


def chain_of(services: Services, name: str | None) -> str:
    """Return what the engine calls a chain of the page: "" for the lab's own, else its folder; LabError if there is none."""
    if not name:
        return ""
    if (folder := chains_of_runs(services).get(name)) is None:
        raise LabError(say("chain.gone", name=name))
    return str(folder)


def choices_of_chains(services: Services) -> list[tuple[str, str]]:
    """Return the chains as a list to choose from, the lab's own first; one that cannot be read is left out."""
    chain = services.settings.chain
    choices = [(say("chain.own", name=chain if chain in OURS else Path(chain).name), "")]
    for name, folder in chains_of_runs(services).items():
        if folder.resolve() == chain_file(chain).parent.resolve():
            continue
        try:
            stages = read_chain(folder).manifest.stages
        except LabError:
            continue
        choices.append((say("chain.run", name=name, stages=" → ".join(each.name for each in stages)), name))
    return choices
