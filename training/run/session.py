"""The frame around a stage: read what was asked, open the run folder, train, write how it ended.

A stage file (sft.py, grpo.py) says what is trained; this one says what every training run does.
"""

import errno
import math
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Generic

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType, broadcast_object_list, parse_flag_from_env
from datasets import Dataset
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.integrations import TensorBoardCallback, is_deepspeed_zero3_enabled, is_fsdp_enabled

from evals.errors import BadConfig, LabError, TrainingStopped
from evals.io import public_path
from evals.schema import RunRecord
from training.config import Request, S_co, StageSettings, read_request
from training.data.tokens import Rows, fitting, notes_of
from training.launch.accelerate import ASKED_FOR, LAUNCHED_BY, NO_FSDP, check_equipment, unused_gpus
from training.models.base import (
    Base,
    check_end_token,
    find_base,
    fits_in_float32,
    has_bfloat16,
    load_model,
    load_tokenizer,
    skeleton,
)
from training.models.generation import end_tokens
from training.models.manifest import read_chain
from training.models.start import Start, append_stage, policy_of, start_of
from training.models.targets import Targets
from training.models.trial import check_base, kernel_notes
from training.run.folder import (
    LISTS_OF_PATHS,
    PATHS,
    PROCESSES,
    STOPPED_BECAUSE,
    ProgressWriter,
    RunFolder,
    announce,
    code_revision,
    host,
    public_config,
    say,
    versions,
)
from training.run.watch import Evaluation
from training.upstream import SafeTrainer, StackedPeftModel

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
ADDRESSES = ("main_process_ip", "main_process_port", "deepspeed_hostfile")
"""Options of the launcher that name machines."""


@dataclass(frozen=True)
class Prepared(Generic[S_co]):
    """A stage with all that was read and checked for it, before the model is loaded and the folder opened."""

    stage: str
    request: Request[S_co]
    base: Base
    tokenizer: PreTrainedTokenizerBase
    start: Start
    data: Rows[Any]
    targets: Targets
    attention: str
    """What the model computes attention with."""
    notes: tuple[str, ...] = ()
    """What is done otherwise than asked, for this processor."""

    @property
    def settings(self) -> S_co:
        """What the stage was told."""
        return self.request.settings

    @property
    def arguments(self) -> dict[str, Any]:
        """The training arguments that every stage shares."""
        return common_arguments(self.settings)

    @property
    def system_prompt(self) -> str:
        """What the chain is told: as before, or as the rows of a chain that begins here."""
        of_chain = self.start.system_prompt
        return self.data.system_prompt if of_chain is None else of_chain

    def model(self) -> PreTrainedModel:
        """Return the base as it is trained on, read straight onto the device of this process.

        What is divided goes through main memory: under FSDP2 one process of a machine reads it, for the others too.
        Answers that are sampled of it end where the chat template ends a turn, as in use.
        """
        settings, state = self.settings, processes()
        is_divided = is_deepspeed_zero3_enabled() or parse_flag_from_env("ACCELERATE_USE_FSDP")
        device = "cpu" if is_divided and settings.weights != "nf4" else str(state.device)
        if is_fsdp_enabled() and not state.is_local_main_process:
            device = "meta"
        model = load_model(self.base, settings.weights, device, self.attention, is_still=settings.scores_twice)
        if model.generation_config:
            model.generation_config.eos_token_id = list(end_tokens(model, self.tokenizer))
        return model

    def policy(self, model: PreTrainedModel | None = None) -> StackedPeftModel:
        """Return what learns: an adapter on the base and the chain, which are also the reference."""
        say(f"loading {', '.join((self.base.public_name, *self.start.record()))}")
        base = model or self.model()
        policy = policy_of(base, self.start, self.settings)
        if self.settings.vllm_mode == "colocate":
            base.name_or_path = str(self.base.folder)  # what vLLM is told to load
        say(f"the adapter: {self.targets.summary}")
        for why, kinds in self.targets.left_out.items():
            say(f"not adapted: {kinds}: {why}")
        say(f"training on {self.data.count} rows of at most {self.settings.longest} tokens")
        for why, count in self.data.left_out.items():
            say(f"{count} rows are left out: {why}")
        for what, value in self.data.facts.items():
            say(f"{what}: {value}")
        return policy

    def trainer(
        self,
        kind: type[SafeTrainer],
        arguments: TrainingArguments,
        rows: Sequence[Mapping[str, Any]],
        held: Sequence[Mapping[str, Any]] = (),
        model: PreTrainedModel | None = None,
        **others: Any,
    ) -> Any:
        """Return the trainer of an adapter on the start, taught by rows; `model` is the base where it was loaded before.

        Its arguments come first: ZeRO-3 then loads a base in parts.
        """
        return kind(
            model=self.policy(model),
            args=arguments,
            train_dataset=Dataset.from_list([*map(dict, rows)]),
            eval_dataset=Dataset.from_list([*map(dict, held)]) if held else None,
            processing_class=self.tokenizer,
            **others,
        )

    @contextmanager
    def session(self, **facts: str | int) -> "Generator[Session]":
        """Open the run folder for one run and write how it ended, whatever happens; run.json keeps `facts` of the data.

        Of several processes only the first writes; the others read the checkpoint it chose.
        """
        output, state = Path(self.settings.output), processes()
        run, record = RunFolder(output), record_of(self, facts)
        with ExitStack() as held:
            checkpoint = _open_run(run, record, held, overwrite=self.request.overwrite)
            current = Session(run, checkpoint, self)
            current.progress.tell("loading")
            if not state.is_main_process:
                yield current
                return
            gpus = 0 if is_cpu() else torch.cuda.device_count()
            for note in (*record.substitutions, *unused_gpus(gpus, state.num_processes)):
                say(f"note: {note}")
            try:
                yield current
            except BaseException as error:
                status = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
                try:
                    run.end(status, {**current.result, "error": type(error).__name__})
                except OSError as second:  # the first error counts
                    say(f"run.json could not be written either ({second.strerror}); it still says running")
                if isinstance(error, OSError) and error.errno in NO_ROOM:
                    raise TrainingStopped(
                        f"{output} is full or not writable ({error.strerror}); checkpoints that were written before are"
                        " kept. Free some space, then run the same command again to resume from there."
                    ) from error
                raise
            status = "stopped" if current.stop.is_asked else "finished"
            run.end(status, current.result)
            say(f"{status}: {output}")


def prepare(stage: str, request: Request[S_co]) -> Prepared[S_co]:
    """Return a stage ready to be trained; LabError for settings, rows, a base or a chain that cannot be used."""
    settings = request.settings
    chain = read_chain(settings.chain) if settings.chain.strip() else None
    data = settings.read_rows(chain.manifest.system_prompt if chain else None)
    base = replace(find_base(settings.base, announce), tokenizer=chain.tokenizer_folder if chain else None)
    tokenizer = load_tokenizer(base)
    start = start_of(settings, base, tokenizer)
    targets, attention = check_base(skeleton(base.folder), settings, start.continued)
    check_end_token(tokenizer, base.public_name)
    data = fitting(data.as_sequences(tokenizer), settings, tokenizer)
    settings.check_batches(data.count, processes().num_processes)
    request, notes = fit_processor(request, base)
    return Prepared(stage, request, base, tokenizer, start, data, targets, attention, notes)


def fit_processor(request: Request[S_co], base: Base) -> tuple[Request[S_co], tuple[str, ...]]:
    """Return what is computed on a processor without bfloat16: float32, if the base fits; and a note of that."""
    settings = request.settings
    is_settled = settings.autocast == "none" or settings.weights == "nf4"
    if is_settled or not is_cpu() or has_bfloat16() or not fits_in_float32(base):
        return request, ()
    in_float32 = settings.model_copy(update={"autocast": "none", "weights": "float32"})
    return replace(request, settings=in_float32), (
        "this processor only imitates bfloat16, so all is computed in float32",
    )


ECHO_SECONDS = 2.0
"""A launcher passes on the signal that its whole group has had already; that is no second one."""


class RunCallback(TrainerCallback):
    """Appends what the trainer logs to metrics.jsonl, and tells those who watch the run which step it is at.

    Stands before what looks at the policy.
    """

    def __init__(self, run: RunFolder, writer: ProgressWriter) -> None:
        self.run, self.writer = run, writer

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **others: Any,
    ) -> None:
        """Write the numbers; one that is not finite becomes null."""
        if state.is_world_process_zero and logs:
            numbers = {key: math.nan if value is None else float(value) for key, value in logs.items()}
            finite = {key: value if math.isfinite(value) else None for key, value in numbers.items()}
            self.run.append_metrics({"step": state.global_step, **finite})

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Count from the step that the run goes on from."""
        self.writer.step, self.writer.steps = state.global_step, state.max_steps

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Say that a step is being made."""
        self.writer.tell("training")

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any) -> None:
        """Count the step."""
        self.writer.tell("training", steps_made=1)


class StopCallback(TrainerCallback):
    """Turns the first Ctrl-C (or SIGTERM) into: finish the step, write a checkpoint, stop.

    A checkpoint, and a stop that was asked for, wait for the next step that can be gone on from. `reason`
    says why where it was no person who asked. Stands last of a trainer's callbacks.
    """

    trainer: SafeTrainer

    def __init__(self) -> None:
        self.is_asked = False
        self.reason: str | None = None
        self._asked_at = -math.inf
        self._save_is_due = False

    def ask(self, reason: str) -> None:
        """Stop after this step, because of `reason`."""
        self.is_asked, self.reason = True, reason

    @contextmanager
    def listening(self) -> Generator[None]:
        """Listen inside the block; a second signal interrupts at once."""
        before = {each: signal.signal(each, self._signalled) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any) -> None:
        """Save and stop if asked to, but not in the middle of a round; processes agree on the step to stop at."""
        asked = torch.tensor(float(self.is_asked), device=args.device)
        if float(self.trainer.accelerator.reduce(asked, "sum")):
            self.is_asked = control.should_save = control.should_training_stop = True
        self._save_is_due |= control.should_save
        if state.global_step >= state.max_steps:
            return
        if self.trainer.is_between_rounds():
            control.should_save |= self._save_is_due
            self._save_is_due = False
        else:
            control.should_save = control.should_training_stop = False

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.is_asked and now - self._asked_at > ECHO_SECONDS:
            raise KeyboardInterrupt
        if not self.is_asked:
            self.is_asked, self._asked_at = True, now
            say("stopping after this step; once more to stop at once")


@dataclass
class Session:
    """One run while it is training. `result` is what run.json will keep of it."""

    run: RunFolder
    checkpoint: Path | None
    ready: Prepared[StageSettings]
    stop: StopCallback = field(default_factory=StopCallback)
    result: dict[str, float | int | str] = field(default_factory=dict)
    progress: ProgressWriter = field(init=False)

    def __post_init__(self) -> None:
        self.progress = ProgressWriter(self.run.progress, self.ready.settings.eval_steps)

    def train(self, trainer: SafeTrainer) -> None:
        """Train, from the last whole checkpoint if there is one; at the end write the adapter and its chain.

        From a checkpoint `trainer.train` (transformers) restores weights, optimizer, schedule and random numbers.
        """
        trainer.keep_checkpoints = self.ready.settings.keep_checkpoints
        if self.checkpoint is not None:
            say(f"going on from {self.checkpoint.name}")
            trainer.restore_totals(self.checkpoint)
        for each in trainer.callback_handler.callbacks:  # its files name the machine and its folders
            if isinstance(each, TensorBoardCallback) and each.logging_dir is None:
                each.logging_dir = f"{self.run.path}.tensorboard"
        data = self.ready.data
        trainer.add_callback(RunCallback(self.run, self.progress))
        has_held = bool(data.held and self.ready.settings.eval_steps)
        for dev in (*filter(None, [data.dev]), *[None] * has_held):
            trainer.add_callback(Evaluation(trainer, self.ready.settings, dev, self.result.__setitem__, self.progress))
        self.stop.trainer = trainer
        trainer.add_callback(self.stop)
        try:
            with self.stop.listening():
                done = trainer.train(resume_from_checkpoint=str(self.checkpoint) if self.checkpoint else None)
        finally:
            self.result["train_seconds"] = round(trainer.seconds, 1)
        if not done.global_step:
            raise TrainingStopped(
                "training ended without a single step, so nothing was learned; use more rows, or a"
                " smaller batch (GRPO: generation_batch)."
            )
        self.result["steps"] = done.global_step
        losses = trainer.losses_so_far()
        if losses is not None:
            self.result["train_loss"] = round(losses / done.global_step, 6)
        if self.stop.reason:
            self.result[STOPPED_BECAUSE] = self.stop.reason
        self.progress.tell("saving")
        if not self.stop.is_asked and trainer.write(self.run.adapter):
            self.progress.tell("checking")
            say("measuring what the new stage computes")
            ready = self.ready
            stage = ready.start.stage(ready.stage, self.run.adapter)
            append_stage(self.run.path, stage, ready.base, ready.start.chain, ready.system_prompt)


def run_command(
    stage: str, kind: type[S_co], train: Callable[[Prepared[S_co]], None], arguments: Sequence[str] | None = None
) -> None:
    """Run a stage as a command: what a person can fix becomes one line and exit code 1."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on it is told in words
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        request = read_request(kind, words)
        check_equipment(request.settings, has_gpu=torch.cuda.is_available())
        train(prepare(stage, request))
    except LabError as error:
        say(f"error: {error}")
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        say("stopped at once; the same command resumes from the last checkpoint, if there is one")
        raise SystemExit(130) from None


def _open_run(run: RunFolder, record: RunRecord, held: ExitStack, *, overwrite: bool) -> Path | None:
    """Return the checkpoint to go on from, once the first process has locked the folder; where it may not, all end."""
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


def is_cpu() -> bool:
    """Whether to train on processors, as the launcher may say; what divides a model finds out by itself (DS_ACCELERATOR)."""
    if parse_flag_from_env("ACCELERATE_USE_CPU"):
        return True
    is_divided = any(parse_flag_from_env(f"ACCELERATE_USE_{engine}") for engine in ("DEEPSPEED", "FSDP"))
    return not (torch.cuda.is_available() or is_divided)


def processes() -> PartialState:
    """Return the processes that train together; BadConfig if they are not as many, or not what, was asked for.

    Accelerate starts a single one where it cannot start more, and copies where it cannot divide weights,
    and says nothing.
    """
    state = PartialState(cpu=is_cpu())
    wanted = int(os.environ.get(ASKED_FOR) or os.environ.get("WORLD_SIZE") or "1")
    if wanted != state.num_processes:
        raise BadConfig(
            f"{wanted} processes were asked for, but {state.num_processes} came together"
            f" ({state.distributed_type}); start them with `assay train … --profile multi-cpu`, or"
            " `--profile multi-gpu` where there are GPUs, and -- --num_processes N."
        )
    if state.distributed_type is not DistributedType.MULTI_GPU and parse_flag_from_env("ACCELERATE_USE_FSDP"):
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
        "lr_scheduler_kwargs": schedule_options(settings),
        "warmup_steps": settings.warmup,
        "weight_decay": settings.weight_decay,
        "max_grad_norm": settings.max_grad_norm,
        "optim": optimizer_of(settings),
        "per_device_train_batch_size": settings.batch,
        "gradient_accumulation_steps": settings.accumulation,
        "activation_checkpointing": settings.activation_checkpointing,
        "gradient_checkpointing": settings.activation_checkpointing,
        "seed": settings.seed,
        "data_seed": settings.seed,
        "bf16": settings.autocast == "bfloat16",
        "use_cpu": is_cpu(),
        "dataloader_pin_memory": torch.cuda.is_available() and not is_cpu(),
        "logging_steps": settings.log_steps,
        "save_steps": settings.save_steps,
        "save_total_limit": None,  # old ones go when the new one is sealed: training.upstream
        "logging_nan_inf_filter": False,
        "report_to": settings.report_to,
        "run_name": Path(settings.output).name,
        "project": "assay",
    }


def optimizer_of(settings: StageSettings) -> str:
    """Return transformers' name of the optimizer."""
    if settings.optimizer != "auto":
        return settings.optimizer
    return "adamw_torch" if is_cpu() or not torch.cuda.is_available() else "adamw_torch_fused"


def schedule_options(settings: StageSettings) -> dict[str, float] | None:
    """Return what a schedule is told besides its name; a share of all steps is counted by `SafeTrainer`."""
    if settings.schedule == "cosine_with_min_lr":
        return {"min_lr_rate": settings.min_rate}
    if settings.schedule == "warmup_stable_decay":
        return {"num_decay_steps": settings.decay, "min_lr_ratio": settings.min_rate}
    return None


def record_of(ready: Prepared[StageSettings], facts: Mapping[str, str | int]) -> RunRecord:
    """Return the record that a run starts with; paths in it start from here or are left out."""
    settings, base = ready.settings, ready.base
    accelerator = torch.cuda.get_device_name() if torch.cuda.is_available() and not is_cpu() else None
    return RunRecord(
        name=Path(settings.output).name,
        stage=ready.stage,
        command=command_line(ready.stage, ready.request),
        config=public_config(settings),
        seed=settings.seed,
        data={
            **ready.data.record(),
            **ready.start.record(),
            **ready.targets.record(),
            **facts,
            "base_sha256": base.weights_sha256,
        },
        versions=versions(),
        code_revision=code_revision(),
        host={**host(accelerator), PROCESSES: processes().num_processes},
        started_at=datetime.now(UTC),
        substitutions=(*base.substitutions, *ready.notes, *notes_of(ready.tokenizer), *kernel_notes(base.folder)),
    )


def command_line(stage: str, request: Request[StageSettings]) -> str:
    """Return the line that runs this again, without the folders and names of this machine."""
    words: list[str] = []
    given = shlex.split(os.environ.get(LAUNCHED_BY) or "accelerate launch")
    while given:
        key, equals, value = given.pop(0).partition("=")
        if key.removeprefix("--").replace("-", "_") in ADDRESSES:
            given = given if equals else given[1:]
        else:
            words.append(f"{key}={public_path(value)}" if equals else public_path(key))
    words += ["-m", f"training.{stage}", "--config", public_path(str(request.config))]
    for override in request.overrides:
        key, _, value = override.partition("=")
        name = key.removeprefix("--")
        if name in LISTS_OF_PATHS:
            value = ",".join(public_path(each.strip()) for each in value.split(","))
        words += [key, public_path(value) if name in PATHS else value]
    return shlex.join(words)
