"""Training as a SLURM job that resumes itself, submitted through submitit.

submitit sends a warning signal before a time limit or a pre-emption ends the job; the job then lets
training write a checkpoint and puts itself back into the queue, to go on from there. Knows nothing of
torch. The folder of the jobs lies beside the run folder, so that nothing of it is published.
"""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submitit import JobEnvironment, SlurmExecutor
from submitit.core.utils import DelayedSubmission
from submitit.slurm.slurm import _get_default_parameters

from evals.errors import BadConfig
from training.launch.accelerate import Launch, environment
from training.launch.plan import Plan, shape_of, weights_in

MAX_REQUEUES = 1000
SECONDS_TO_SAVE = 120
MASTER_PORT = "29500"
TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>\d+(?::\d+){0,2})")
DEFAULTS: Mapping[str, Any] = {
    "time": 24 * 60,
    "cpus_per_task": 8,
    "mem": "64GB",  # or more: `memory_of`
    "signal_delay_s": SECONDS_TO_SAVE + 60,
    "stderr_to_stdout": True,
}
"""What a job asks for unless told otherwise: minutes, cores, memory and seconds of warning."""
GB = 2**30
"""SLURM's."""
FLOOR, EACH = 64 * GB, 8 * GB
"""Bytes of main memory: of a job at least, and of each process for Python, the libraries and what drives a GPU."""


@dataclass(frozen=True)
class ClusterJob:
    """A command that trains, as submitit runs it on each machine of a job."""

    line: tuple[str, ...]
    folder: str
    processes: int
    machines: int = 1

    def __call__(self) -> int:
        """Train to the end; RuntimeError if training fails."""
        process = subprocess.Popen(
            self._line_here(), cwd=self.folder, env=environment(self.line, self.processes), start_new_session=True
        )
        _RUNNING.append(process)
        code = process.wait()
        if code:
            raise RuntimeError(f"training ended with exit code {code}; its messages stand above")
        return code

    def checkpoint(self) -> DelayedSubmission:
        """Let training save and stop, and return what the next turn runs: the same again."""
        for process in _RUNNING:
            stop_in_order(process.pid)
        return DelayedSubmission(self)

    def _line_here(self) -> list[str]:
        words = [sys.executable, "-m", "accelerate.commands.launch", *self.line[2:]]
        if self.machines == 1:
            return words
        here = JobEnvironment()
        rank = ["--machine_rank", str(here.node), "--main_process_ip", here.hostnames[0]]
        at = words.index("-m", 3)
        return [*words[:at], *rank, "--main_process_port", MASTER_PORT, *words[at:]]


_RUNNING: list[subprocess.Popen[bytes]] = []
"""The training of this process; a job may be asked to stop while it waits for it."""


def stop_in_order(group: int, seconds: float = SECONDS_TO_SAVE) -> None:
    """Ask the processes of a group to save and stop, and wait for them so long at most."""
    deadline = time.monotonic() + seconds
    try:
        os.killpg(group, signal.SIGTERM)
        while time.monotonic() < deadline:
            os.waitpid(group, os.WNOHANG)
            os.killpg(group, 0)
            time.sleep(0.1)
    except (ProcessLookupError, ChildProcessError):
        return


def memory_of(plan: Plan, folder: Path | None = None) -> tuple[str, str]:
    """Return the main memory that a machine of a job needs, as SLURM is asked for it, and why.

    `folder` is where the base lies, if it is here. A base whose size nobody knows gets the default.
    """
    settings, launch = plan.settings, plan.launch
    here, copies = max(1, launch.processes // launch.machines), launch.copies_in_main_memory
    shape, needs = shape_of(settings.base), plan.needs(plan.data.count if plan.data else 0)
    weights = weights_in(folder) if folder else None
    if weights is None and shape:
        weights = shape.linear_weights + shape.other_weights
    if weights is None:
        return str(DEFAULTS["mem"]), f"the size of {settings.base} is not known here; --slurm-option mem= asks for more"
    base = weights * (4 if settings.weights == "float32" else 2)
    if not launch.gpus_per_machine and needs:  # each trains in main memory
        wanted = here * needs.total
        why = f"{here} x {needs.total / GB:.1f} GB to train on the CPU"
    else:
        wanted = copies * base + here * EACH + (needs.ending if needs else 0)
        why = f"{copies} x {base / GB:.1f} GB of the base" if copies else "each GPU reads the base itself"
        why += f", {here} x {EACH / GB:.0f} GB for the processes"
    if launch.offloads_optimizer and needs:
        wanted += 16 * needs.trained_weights
        why += f", {16 * needs.trained_weights / GB:.1f} GB for the optimizer"
    return f"{math.ceil(max(FLOOR, 1.1 * wanted) / GB)}GB", f"{why}; {FLOOR / GB:.0f} GB at least"


def parameters_of(launch: Launch, name: str, options: Sequence[str], memory: str = DEFAULTS["mem"]) -> dict[str, Any]:
    """Return what SLURM is asked for; `options` are `key=value` in submitit's names, and go over `memory`.

    BadConfig for a key that submitit does not know, a value that is none, or another shape of the job
    than the launch has: every task of it would start the whole run.
    """
    wanted: dict[str, Any] = {**DEFAULTS, "mem": memory, "job_name": name, "nodes": launch.machines}
    wanted |= {"ntasks_per_node": 1, "gpus_per_node": launch.gpus_per_machine or None}
    shape = {key: wanted[key] for key in ("nodes", "ntasks_per_node", "gpus_per_node")}
    known = _get_default_parameters()
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or key not in known:
            raise BadConfig(
                f"--slurm-option {option!r} is not understood; write key=value with one of"
                f" {', '.join(sorted(known))}, such as partition=gpu or time=1440 (minutes)."
            )
        if key in shape and value != str(shape[key] or 0):
            raise BadConfig(
                f"--slurm-option {option} is not what is launched ({key}={shape[key] or 0}); say it to the"
                " launcher: --profile multi-node -- --num_machines 2, or --profile multi-gpu --"
                " --num_processes 2."
            )
        wanted[key] = int(value) if value.isdigit() else value
    wanted["time"] = minutes(str(wanted["time"]))
    return {key: value for key, value in wanted.items() if value is not None}


def minutes(text: str) -> int:
    """Return a time limit in SLURM's forms in minutes, rounded up: 90, 90:00, 1:30:00, 1-12, 1-12:00:00."""
    match = TIME.fullmatch(text)
    if match is None:
        raise BadConfig(
            f"--slurm-option time={text} is no time limit; write minutes, such as time=1440, or a form of"
            " SLURM's, such as time=1-00:00:00."
        )
    parts = [int(each) for each in match["clock"].split(":")]
    if match["days"] is not None:
        hours, rest, seconds = (*parts, 0, 0)[:3]
    else:
        hours, rest, seconds = parts if len(parts) == 3 else (0, *parts, 0)[:3]
    return math.ceil((int(match["days"] or 0) * 24 + hours) * 60 + rest + seconds / 60)


def has_cluster() -> bool:
    """Whether jobs can be submitted from this machine."""
    return shutil.which("sbatch") is not None and shutil.which("srun") is not None


def submit(job: ClusterJob, folder: Path, parameters: Mapping[str, Any]) -> str:
    """Submit a job and return its number; submitit keeps script, log and state in `folder`."""
    executor = SlurmExecutor(folder=folder, max_num_timeout=MAX_REQUEUES)
    executor.update_parameters(**parameters)
    return executor.submit(job).job_id
