"""Training runs as processes of their own that can be killed, started quickly from a warm server."""

import multiprocessing
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

from training.config import STAGES
from training.run.folder import RunFolder
from training.run.trainer import SafeTrainer

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([f"training.{stage}" for stage in STAGES] + [__name__])
PATIENCE_SECONDS = 120
DYING = "--dies_while_leaving"
"""A word for a run that is killed when all is learned, while its first process writes the chain."""


def start(stage: str, settings: Path, *words: str) -> BaseProcess:
    """Start a stage on a settings file; what it says goes to said.txt beside the file."""
    process = CONTEXT.Process(target=_train, args=(stage, str(settings), words, {}))
    process.start()
    return process


def start_two(stage: str, settings: Path, *words: str) -> list[BaseProcess]:
    """Start a stage in two processes that train together, as a launcher would."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(probe.getsockname()[1])}
    meeting |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
    told = [{**meeting, "RANK": rank, "LOCAL_RANK": rank} for rank in ("0", "1")]
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


def kill_two_while_leaving(stage: str, settings: Path, *words: str) -> None:
    """Train in two processes; the first is killed while it writes the chain, the other comes to its end."""
    codes = _ended(start_two(stage, settings, *words, DYING))
    assert codes[0] == -9, f"it ended by itself ({codes}): {said(settings)}"


def _ended(processes: Sequence[BaseProcess]) -> list[int]:
    """Return the exit codes of processes, once they are there."""
    for process in processes:
        process.join(PATIENCE_SECONDS)
    codes = [process.exitcode for process in processes if process.exitcode is not None]
    assert len(codes) == len(processes), "the run did not end in time"
    return codes


def run(stage: str, settings: Path, *words: str) -> int:
    """Train to the end and return the exit code."""
    return _ended([start(stage, settings, *words)])[0]


def kill_after(step: int, stage: str, settings: Path, output: Path, *words: str) -> None:
    """Start a stage and kill it without warning as soon as `step` is in its metrics."""
    process = start(stage, settings, *words)
    wait_for(process, step, output)
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
    torch.set_num_threads(1)
    module = import_module(f"training.{stage}")
    if stage == "grpo":
        module.VerifierReward = lambda *_: length_of_answer
    if DYING in words:
        import_module("training.run.session").append_stage = _die
        words = tuple(word for word in words if word != DYING)
    trouble = [word for word in words if word in TROUBLE]
    if trouble:
        at = words.index(trouble[0])
        module.build_trainer = _troubled(module.build_trainer, trouble[0], int(words[at + 1]))
        words = words[:at] + words[at + 2 :]
    module.main(["--config", settings, *words])


def _die(*_: object, **__: object) -> None:
    time.sleep(2)  # what the other process does after training is done by then
    os.kill(os.getpid(), signal.SIGKILL)


def _troubled(build: Callable[..., SafeTrainer], trouble: str, step: int) -> Callable[..., Any]:
    """Return what builds a trainer that meets with `trouble` after `step`."""

    def troubled(*inputs: Any) -> SafeTrainer:
        trainer = build(*inputs)
        trainer.add_callback(TROUBLE[trouble](step))
        return trainer

    return troubled


class Broken(TrainerCallback):
    """Turns the frozen weights into no numbers after a step, as an overflow would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args, state, control, model=None, **others) -> None:
        if state.global_step == self.step:
            model.get_input_embeddings().weight.data.fill_(float("nan"))


class Overshot(TrainerCallback):
    """Turns a trained weight into no number at the end of a step, as too large a step would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, model=None, **others) -> None:
        if state.global_step == self.step:
            next(each for each in model.parameters() if each.requires_grad).data[0] = float("nan")


class Drifting(TrainerCallback):
    """Changes a trained weight after a step, in one of the processes alone."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, model=None, **others) -> None:
        if state.global_step == self.step and not state.is_world_process_zero:
            next(each for each in model.parameters() if each.requires_grad).data[0] += 1.0


class Full(TrainerCallback):
    """Lets the system refuse any file over 4 kB after a step, as a full disk refuses it."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_begin(self, args, state, control, **others) -> None:
        if state.global_step == self.step:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


TROUBLE = {"--broken_after": Broken, "--overshot_at": Overshot, "--drifting_at": Drifting, "--full_after": Full}


def length_of_answer(completions: list[list[dict[str, str]]], **_: object) -> list[float]:
    """A reward that a random model earns in different amounts; of verifiers it earns none."""
    return [float(len(each[0]["content"]) % 7) for each in completions]
