"""The frame around a stage: read what was asked, open the run folder, train, write how it ended.

A stage file (sft.py, grpo.py) says what is trained; this one says what every training run does.
"""

import errno
import os
import shlex
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, parse_flag_from_env
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.integrations import TensorBoardCallback

from evals.errors import BadConfig, LabError, TrainingStopped
from evals.questions import SYSTEM_PROMPT
from evals.schema import RunRecord
from training.config import Request, StageSettings, describe, read_request
from training.data.tokens import notes_of
from training.launch.accelerate import ASKED_FOR, LAUNCHED_BY, NO_FSDP
from training.launch.equipment import check_equipment
from training.models.base import Base, load_base, load_tokenizer
from training.models.start import Kind, Start, append_stage
from training.run.callbacks import MetricsCallback, StopCallback
from training.run.energy import Meter
from training.run.folder import (
    LISTS_OF_PATHS,
    PATHS,
    PROCESSES,
    STOPPED_BECAUSE,
    RunFolder,
    code_revision,
    host,
    public_config,
    public_path,
    say,
    versions,
)
from training.run.trainer import BetweenRounds, SafeTrainer

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass
class Session:
    """One run while it is training. `result` is what run.json will keep of it."""

    run: RunFolder
    checkpoint: Path | None
    record: RunRecord
    stop: StopCallback = field(default_factory=StopCallback)
    result: dict[str, float | int | str] = field(default_factory=dict)

    def train(self, trainer: SafeTrainer) -> bool:
        """Train, from the last checkpoint if there is one; return whether it came to its end."""
        trainer.keep_checkpoints = int(str(self.record.config["keep_checkpoints"]))
        trainer.meter = _meter()
        if self.checkpoint is not None:
            say(f"going on from {self.checkpoint.name}")
            trainer.take_up(self.checkpoint)
        self._keep_boards_apart(trainer)
        trainer.add_callback(MetricsCallback(self.run))
        trainer.add_callback(self.stop)
        trainer.add_callback(BetweenRounds(trainer, self.stop))
        try:
            with self.stop.listening():
                done = trainer.train(resume_from_checkpoint=str(self.checkpoint) if self.checkpoint else None)
        except BaseException:  # what the other processes used cannot be asked for any more
            self.result |= trainer.spent_before.and_then(trainer.meter.read()).facts()
            raise
        if not done.global_step:
            raise TrainingStopped(
                "training ended without a single step, so nothing was learned; use more rows, or a"
                " smaller batch (GRPO: generation_batch)."
            )
        self.result["steps"] = done.global_step
        losses = trainer.losses_so_far()
        if losses is not None:
            self.result["train_loss"] = round(losses / done.global_step, 6)
        self.result |= trainer.spent_so_far().facts()
        if self.stop.reason:
            self.result[STOPPED_BECAUSE] = self.stop.reason
        return not self.stop.is_asked

    def _keep_boards_apart(self, trainer: SafeTrainer) -> None:
        """Let tensorboard write beside the run folder: its files name the machine and its folders."""
        for each in trainer.callback_handler.callbacks:
            if isinstance(each, TensorBoardCallback) and each.logging_dir is None:
                each.logging_dir = f"{self.run.path}.tensorboard"

    def leave(self, trainer: SafeTrainer, start: Start, base: Base, first_prompt: str = SYSTEM_PROMPT) -> None:
        """Write the adapter and the chain that it ends, with what the new stage computes.

        `first_prompt` is the system prompt of a chain that begins here.
        """
        if trainer.write(self.run.adapter):
            say("measuring what the new stage computes")
            stage = start.stage(self.record.stage, self.run.adapter)
            prompt = start.system_prompt or first_prompt
            append_stage(self.run.path, stage, base, start.chain, prompt)

    @property
    def status(self) -> Literal["finished", "stopped"]:
        """How the run ended, if nothing was raised."""
        return "stopped" if self.stop.is_asked else "finished"


def run_command(
    stage: str,
    kind: type[StageSettings],
    stage_main: Callable[[Request], None],
    arguments: Sequence[str] | None = None,
) -> None:
    """Run a stage as a command: what a person can fix becomes one line and exit code 1."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words or "--help" in words or "-h" in words:
        say(f"accelerate launch -m training.{stage} --config FILE [--key value ...] [--overwrite]")
        for name in kind.model_fields:
            say(f"  --{describe(kind, name)}")
        raise SystemExit(0 if words else 2)
    try:
        request = read_request(kind, words)
        check_equipment(request.settings, has_gpu=torch.cuda.is_available())
        stage_main(request)
    except LabError as error:
        say(f"error: {error}")
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        say("stopped")
        raise SystemExit(130) from None


@contextmanager
def session(record: RunRecord, output: Path, *, overwrite: bool) -> Generator[Session]:
    """Open the run folder for one run and write how it ended, whatever happens.

    Of several processes only the first writes; the others read the checkpoint it chose.
    """
    run, state = RunFolder(output), processes()
    with ExitStack() as held:
        current = Session(run, _opened(run, record, held, overwrite=overwrite), record)
        if not state.is_main_process:
            yield current
            return
        for note in record.substitutions:
            say(f"note: {note}")
        try:
            yield current
        except BaseException as error:
            stopped = isinstance(error, KeyboardInterrupt)
            _end_badly(run, "stopped" if stopped else "failed", current.result, error)
            if isinstance(error, OSError) and error.errno in NO_ROOM:
                raise TrainingStopped(
                    f"{output} takes no more ({error.strerror}); checkpoints that were written before are"
                    " kept. Make room, then give the same command again to go on from there."
                ) from error
            raise
        run.end(current.status, current.result)
        say(f"{current.status}: {output}")


def _opened(run: RunFolder, record: RunRecord, held: ExitStack, *, overwrite: bool) -> Path | None:
    """Return the checkpoint to go on from, once the first process has opened and locked the folder.

    If it may not, it says why, and the others end with it; `held` lets go of the lock in the end.
    """
    refusal: LabError | None = None
    chosen: str | None = None
    if processes().is_main_process:
        try:
            held.enter_context(run.lock())
            checkpoint = run.begin(record, overwrite=overwrite)
            chosen = checkpoint.name if checkpoint else ""
        except LabError as error:
            refusal = error
    (chosen,) = broadcast_object_list([chosen])
    if refusal:
        raise refusal
    if chosen is None:
        raise SystemExit(1)
    return run.path / chosen if chosen else None


def processes() -> PartialState:
    """Return the processes that train together; BadConfig if they are not as many, or not what, was asked for.

    Accelerate starts a single one where it cannot start more, and copies where it cannot divide weights,
    and says nothing.
    """
    state = PartialState(cpu=not torch.cuda.is_available())
    wanted = int(os.environ.get(ASKED_FOR) or os.environ.get("WORLD_SIZE") or "1")
    if wanted != state.num_processes:
        raise BadConfig(
            f"{wanted} processes were asked for, but {state.num_processes} came together"
            f" ({state.distributed_type}); start them with `assay train … --profile multi-cpu`, or"
            " `--profile multi-gpu` where there are GPUs, and -- --num_processes N."
        )
    if str(state.device) == "cpu" and parse_flag_from_env("ACCELERATE_USE_FSDP"):
        raise BadConfig(f"FSDP was asked for on the CPU: {NO_FSDP}")
    return state


def common_arguments(settings: StageSettings) -> dict[str, Any]:
    """Return the training arguments that every stage shares; what TRL changed is set outright."""
    return {
        "output_dir": settings.output,
        "num_train_epochs": settings.epochs,
        "max_steps": settings.max_steps or -1,
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": settings.schedule,
        "warmup_steps": settings.warmup,
        "weight_decay": settings.weight_decay,
        "max_grad_norm": settings.max_grad_norm,
        "optim": "adamw_torch",
        "per_device_train_batch_size": settings.batch,
        "gradient_accumulation_steps": settings.accumulation,
        "activation_checkpointing": settings.activation_checkpointing,
        "gradient_checkpointing": settings.activation_checkpointing,
        "seed": settings.seed,
        "data_seed": settings.seed,
        "bf16": settings.autocast == "bfloat16",
        "use_cpu": not torch.cuda.is_available(),
        "dataloader_pin_memory": torch.cuda.is_available(),
        "logging_strategy": "steps",
        "logging_steps": settings.log_steps,
        "save_strategy": "steps",
        "save_steps": settings.save_steps,
        "save_total_limit": None,  # old ones go when the new one is sealed: training.run.trainer
        "logging_nan_inf_filter": False,
        "report_to": settings.report_to,
        "run_name": Path(settings.output).name,
        "project": "assay",
        "eval_strategy": "no",
    }


def load_base_for(settings: StageSettings, base: Base) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the base as it is trained on, and its tokenizer.

    4-bit weights are made on the accelerator; others follow it there later.
    """
    device = str(processes().device) if settings.weights == "nf4" else "cpu"
    model, tokenizer = load_base(base, settings.weights, device)
    if settings.attention != model.config._attn_implementation:
        model.set_attn_implementation(settings.attention)
    return model, tokenizer


def _meter() -> Meter:
    """Return the meter of the GPUs of this process."""
    state, gpus = processes(), []
    if torch.cuda.is_available():
        is_alone = state.num_processes == 1
        used = range(torch.cuda.device_count()) if is_alone else [state.local_process_index]
        gpus = [f"GPU-{torch.cuda.get_device_properties(each).uuid}" for each in used]
    return Meter(gpus)


def _end_badly(
    run: RunFolder,
    status: Literal["failed", "stopped"],
    result: dict[str, float | int | str],
    error: BaseException,
) -> None:
    """Write how the run ended; on a disk that takes nothing more, say so and keep the first error."""
    try:
        run.end(status, {**result, "error": type(error).__name__})
    except OSError as second:
        say(f"run.json could not be written either ({second.strerror}); it still says running")


ADDRESSES = ("main_process_ip", "main_process_port", "deepspeed_hostfile")
"""Options of the launcher that name machines."""


def record_of(stage: Kind, request: Request, base: Base, data: dict[str, str | int]) -> RunRecord:
    """Return the record that a run starts with; paths in it start from here or are left out."""
    settings = request.settings
    accelerator = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    return RunRecord(
        name=Path(settings.output).name,
        stage=stage,
        command=command_line(stage, request),
        config=public_config(settings),
        seed=settings.seed,
        data={**data, "base_sha256": base.weights_sha256},
        versions=versions(),
        code_revision=code_revision(),
        host={**host(accelerator), PROCESSES: processes().num_processes},
        started_at=datetime.now(UTC),
        substitutions=(*base.substitutions, *notes_of(load_tokenizer(base))),
    )


def command_line(stage: str, request: Request) -> str:
    """Return the line that runs this again, without the folders of this machine."""
    words = [*_launcher(), "-m", f"training.{stage}", "--config", public_path(str(request.config))]
    for override in request.overrides:
        key, _, value = override.partition("=")
        name = key.removeprefix("--")
        if name in LISTS_OF_PATHS:
            value = ",".join(public_path(each.strip()) for each in value.split(","))
        words += [key, public_path(value) if name in PATHS else value]
    return shlex.join(words)


def _launcher() -> list[str]:
    """Return the launcher and its options as they were given, without names of machines."""
    words: list[str] = []
    given = shlex.split(os.environ.get(LAUNCHED_BY) or "accelerate launch")
    while given:
        key, equals, value = given.pop(0).partition("=")
        if key.removeprefix("--").replace("-", "_") in ADDRESSES:
            given = given if equals else given[1:]
        else:
            words.append(f"{key}={public_path(value)}" if equals else public_path(key))
    return words
