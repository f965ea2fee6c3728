"""Training runs as processes of their own that can be killed, started quickly from a warm server."""

import multiprocessing
import os
import pkgutil
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from safetensors.torch import load_file

from training.run.folder import RunFolder
from training.run.session import run_command
from training.stages import STAGES

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        *(f"trl.trainer.{each}_trainer" for each in ("sft", "dpo", "kto", "reward", "grpo")),
        "training.run.watch",
        __name__,
    ]
)
PATIENCE_SECONDS = 120
DYING = {"--dies_before_the_chain": "append_stage", "--dies_before_the_record": "RunFolder.end"}
"""Words for a run that is killed when all is learned: before its chain is written, or before run.json tells its end."""


def start(stage: str, settings: Path, *words: str) -> BaseProcess:
    """Start a stage on a settings file; what it says goes to said.txt beside the file."""
    process = CONTEXT.Process(target=_train, args=(stage, str(settings), words, {}))
    process.start()
    return process


def surroundings_of_two(**more: str) -> list[dict[str, str]]:
    """Return what a launcher would tell each of two processes that train together."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
    meeting |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", **more}
    return [{**meeting, "RANK": rank, "LOCAL_RANK": rank} for rank in ("0", "1")]


def start_two(stage: str, settings: Path, *words: str) -> list[BaseProcess]:
    """Start a stage in two processes that train together."""
    told = surroundings_of_two(ACCELERATE_USE_CPU="true")
    both = [CONTEXT.Process(target=_train, args=(stage, str(settings), words, at)) for at in told]
    for process in both:
        process.start()
    return both


def run_two(stage: str, settings: Path, *words: str) -> list[int]:
    """Train in two processes to the end and return their exit codes."""
    return _ended(start_two(stage, settings, *words))


def kill_two_after(step: int, stage: str, settings: Path, output: Path, *words: str) -> None:
    """Start a stage in two processes and kill both as soon as `step` is in the metrics."""
    both = start_two(stage, settings, *words)
    wait_for(both[0], step, output)
    for process in both:
        process.kill()
    assert _ended(both) == [-9, -9], f"they ended by themselves: {said(settings)}"


def kill_while_leaving(word: str, stage: str, settings: Path, *words: str) -> None:
    """Train to the last step and be killed then, at what `word` of DYING stands for."""
    codes = _ended([start(stage, settings, *words, word)])
    assert codes == [-9], f"it ended by itself ({codes}): {said(settings)}"


def _ended(processes: Sequence[BaseProcess]) -> list[int]:
    """Return the exit codes of processes, once they are there."""
    for process in processes:
        process.join(PATIENCE_SECONDS)
    codes = [process.exitcode for process in processes if process.exitcode is not None]
    assert len(codes) == len(processes), "the run did not end in time"
    return codes


def kill_after(step: int, stage: str, settings: Path, output: Path, *words: str, seconds: float = 0.0) -> None:
    """Start a stage and kill it without warning as soon as `step` is in its metrics, or `seconds` later."""
    process = start(stage, settings, *words)
    wait_for(process, step, output)
    time.sleep(seconds)
    process.kill()
    process.join(PATIENCE_SECONDS)
    assert process.exitcode == -9, f"it ended by itself ({process.exitcode}): {said(settings)}"


def wait_for(process: BaseProcess, step: int, output: Path) -> None:
    """Wait until `step` is in the metrics of a run, or the run is over."""
    metrics, deadline = RunFolder(output), time.monotonic() + PATIENCE_SECONDS
    while process.exitcode is None and time.monotonic() < deadline:
        if any(row["step"] >= step for row in metrics.metric_rows()):
            return
        time.sleep(0.005)


def said(settings: Path) -> str:
    """Return what the runs of a settings file wrote to standard error."""
    return settings.with_name("said.txt").read_text(encoding="utf-8")


def differing(one: Path, other: Path) -> list[str]:
    """Return the names of the adapter weights that are not bit for bit the same in two run folders."""
    first, second = (load_file(run / "adapter" / "adapter_model.safetensors") for run in (one, other))
    assert first.keys() == second.keys()
    return [name for name in first if not torch.equal(first[name], second[name])]


def _train(stage: str, settings: str, words: tuple[str, ...], surroundings: Mapping[str, str]) -> None:
    os.environ.update(surroundings)
    log = os.open(Path(settings).with_name("said.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    module = import_module(f"training.{stage}")
    if stage == "grpo":
        module.VerifierReward = lambda *_: length_of_answer
    for word in DYING.keys() & set(words):
        owner, _, name = f"training.run.session.{DYING[word]}".rpartition(".")
        setattr(pkgutil.resolve_name(owner), name, _die)
    words = tuple(word for word in words if word not in DYING)
    run_command(stage, STAGES[stage], module.train, ["--config", settings, *words])


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def length_of_answer(completions: list[list[dict[str, str]]], **_: object) -> list[float]:
    """A reward that a random model earns in different amounts; of verifiers it earns none."""
    return [float(len(each[0]["content"]) % 7) for each in completions]
