"""Training processes that the lab has started: a pid file and a log beside each run folder.

    runs/mine/           the run folder, which the training process alone writes to
    runs/mine.lab/       launch.json, settings.yaml, log.txt

A run is a process group of its own, so it survives the page and the lab; what is known about it is
read from these files, never remembered.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from evals.errors import BadConfig
from evals.schema import Record
from training.files import write_whole
from training.launch import environment

LAUNCH, LOG, SETTINGS = "launch.json", "log.txt", "settings.yaml"
SUFFIX = ".lab"
PROCESSES = Path("/proc")
BOOT = PROCESSES / "sys" / "kernel" / "random" / "boot_id"
ECHO_SECONDS = 3.0
"""A second signal that comes sooner is taken by the training process for an echo of the first."""


class Launched(Record):
    """launch.json: one start of a training process. `pid` is also the number of its group.

    `boot` and `born` (clock ticks since) tell it from a later process of the same number; they are ""
    and 0 where the system does not say.
    """

    line: tuple[str, ...]
    processes: int
    pid: int
    boot: str
    born: int
    started_at: datetime
    asked_to_stop_at: datetime | None = None


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
        raise BadConfig(
            f"{file} is not what the lab writes there ({str(error).splitlines()[0]}); remove the folder"
            f" {beside(run).name} if no training runs in {run.name}."
        ) from None


def start(run: Path, line: Sequence[str], processes: int, now: datetime) -> Launched:
    """Start `accelerate launch …` in a process group of its own and return what launch.json keeps.

    All it says is added to the log.
    """
    words = [sys.executable, "-m", "accelerate.commands.launch", *line[2:]]
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
    # Whoever waits for it takes it off the list of processes when it ends.
    threading.Thread(target=process.wait, daemon=True).start()
    launched = Launched(
        line=tuple(line),
        processes=processes,
        pid=process.pid,
        boot=_boot(),
        born=_members(process.pid).get(process.pid, 0),
        started_at=now,
    )
    _write(run, launched)
    return launched


def stop(run: Path, launched: Launched, now: datetime) -> Launched:
    """Ask a run to finish its step, write a checkpoint and stop; asked again, to stop at once.

    The launcher is spared where that is possible: it waits for the training process and ends with it.
    """
    asked = launched.asked_to_stop_at
    if asked is not None and (now - asked).total_seconds() < ECHO_SECONDS:
        return launched
    number = signal.SIGINT if asked is None else signal.SIGTERM
    members = _members(launched.pid).keys() - {launched.pid} if is_alive(launched) else set()
    try:
        for pid in members:
            os.kill(pid, number)
        if not members and is_alive(launched):
            os.killpg(launched.pid, number)
    except ProcessLookupError:
        pass  # it has just ended by itself
    changed = launched.model_copy(update={"asked_to_stop_at": asked or now})
    _write(run, changed)
    return changed


def is_from_here(launched: Launched) -> bool:
    """Whether a run was started on this machine, and since it was last switched on."""
    return launched.boot == _boot()


def is_alive(launched: Launched) -> bool:
    """Whether any process of the run is still there, as far as this machine can tell."""
    if not is_from_here(launched):
        return False
    if launched.boot:
        return any(born >= launched.born for born in _members(launched.pid).values())
    try:
        os.killpg(launched.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _members(group: int) -> dict[int, int]:
    """Return when each process of a group was born, by number; {} where the system keeps no list.

    A process that has ended and only waits to be taken off the list is left out.
    """
    found = {}
    for folder in PROCESSES.glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it ended while we looked
        state, _, its_group, *rest = text.rpartition(")")[2].split()
        if int(its_group) == group and state not in "ZX":
            found[int(folder.name)] = int(rest[16])
    return found


def _boot() -> str:
    return BOOT.read_text(encoding="utf-8").strip() if BOOT.is_file() else ""


def _write(run: Path, launched: Launched) -> None:
    write_whole(beside(run) / LAUNCH, launched.model_dump_json(indent=1) + "\n")
