"""What every trainer here does beyond TRL's: it can be killed at any moment and goes on exactly.

What TRL 1.16 and transformers 5.23 lose on the way through a checkpoint, and what is done about it:

- GRPO keeps the answers it has sampled in memory only. A checkpoint between two updates on the same
  answers would sample others after a resume, so checkpoints wait for the step that uses up the answers.
- GRPO's sampler draws a new order for each pass from one generator that starts anew after a resume;
  it is moved on by the passes that are done.
- A loss that is no number is replaced in the log by an average, and training goes on. Here it stops.
"""

import gc
import json
import math
import shutil
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from accelerate.utils import gather_object
from peft import PeftModel
from safetensors import SafetensorError
from torch.distributed.tensor import DTensor
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl.trainer.utils import RepeatSampler

from evals.errors import TrainingStopped
from evals.io import write_whole
from training.models.policy import StackedPeftModel, write_adapter
from training.models.speedups import score_learned_tokens
from training.run.checkpoints import PREFIX, check_room, drop_old, seal, writing_failed
from training.run.energy import Meter, Spent
from training.run.folder import RunFolder, say

BYTES_PER_TRAINED_WEIGHT = 12
"""Of a checkpoint: the weight and AdamW's two moments, in float32."""

TOTALS = "totals.json"
"""In a checkpoint: the sum of the losses so far, which the log has means of, and what the run has used."""

TORCH_COULD_NOT_WRITE = "PytorchStreamWriter"
"""In the message of the RuntimeError that torch.save raises when the disk refuses."""


class SafeTrainer(Trainer):
    """Stands before TRL's trainer in a class: sealed checkpoints, exact resume, silence to the Hub."""

    keep_checkpoints: int = 2
    passes_done: int = 0
    """How often the data had been used up when the checkpoint was written that training goes on from."""
    loss_sum: float | None = 0.0
    """Of the losses of all steps of the run; None where a checkpoint did not tell those before it."""
    meter: Meter | None = None
    spent_before: Spent = Spent()
    """What was used up to the checkpoint that training goes on from."""

    def __init__(self, *inputs: Any, **options: Any) -> None:
        super().__init__(*inputs, **options)
        policy = self.accelerator.unwrap_model(self.model)
        if isinstance(policy, StackedPeftModel):
            policy.take_back()
        model = policy.get_base_model() if isinstance(policy, PeftModel) else policy
        score_learned_tokens(model, getattr(self, "temperature", 1.0))

    def _send_telemetry(self) -> None:
        """Tell nobody."""

    def create_model_card(self, *names: Any, **options: Any) -> None:
        """Write nothing: the card is written from the run folder, when the run is over."""

    def is_between_rounds(self) -> bool:
        """Whether the next step needs nothing that is in memory alone."""
        return True

    def training_step(self, *inputs: Any, **options: Any) -> torch.Tensor:
        """Return the loss; TrainingStopped if it is not a finite number."""
        loss = super().training_step(*inputs, **options)
        value = float(loss)
        if not math.isfinite(value):
            raise TrainingStopped(
                f"the loss at step {self.state.global_step + 1} is {value}; nothing was learned"
                " from it, and the last checkpoint is kept. Lower learning_rate or max_grad_norm, look"
                " at the rows, or use autocast none, and train anew with --overwrite."
            )
        if self.loss_sum is not None:
            self.loss_sum += value
        return loss

    def take_up(self, checkpoint: Path) -> None:
        """Remember what was done before `checkpoint`: passes over the data, losses, energy and time."""
        state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        self.passes_done = int((state.epoch or 0.0) + 1e-6)
        if (checkpoint / TOTALS).is_file():
            known = json.loads((checkpoint / TOTALS).read_text(encoding="utf-8"))
            self.loss_sum = known["loss_sum"]
            self.spent_before = Spent.of(known)
        else:
            self.loss_sum = None

    def losses_so_far(self) -> float | None:
        """Return the sum of the losses of all steps, the mean over the processes; every process has to ask."""
        if self.loss_sum is None:
            return None
        here = torch.tensor(self.loss_sum, dtype=torch.float64, device=self.args.device)
        return float(self.accelerator.reduce(here, "mean"))

    def spent_so_far(self) -> Spent:
        """Return what the run has used on all processes; every process has to ask."""
        here = self.meter.read() if self.meter else Spent()
        return self.spent_before.and_then(Spent.together(gather_object([here])))

    def gathered_weights(self) -> dict[str, torch.Tensor] | None:
        """Return the weights from processes that hold a part each; None if all hold all. Every one has to ask."""
        if not (self.is_fsdp_enabled or self.is_deepspeed_enabled):
            return None
        return self.accelerator.get_state_dict(self.model_wrapped)

    def check_agreement(self) -> None:
        """Raise TrainingStopped if the processes no longer hold the same weights; every process has to ask.

        Only one of them is ever written. Weights that are divided among them are not compared.
        """
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            return
        policy = self.accelerator.unwrap_model(self.model)
        trained = [each.detach().contiguous() for each in policy.parameters() if each.requires_grad]
        sums = torch.stack([each.view(torch.uint8).sum(dtype=torch.int64) for each in trained])  # of bytes: exact
        of_all = self.accelerator.gather(sums[None])
        if not bool((of_all == of_all[0]).all()):
            raise TrainingStopped(
                f"the processes hold different weights after step {self.state.global_step}, so they no"
                " longer train one model; nothing more is saved, and the checkpoint before is kept. Train"
                " in one process (--profile cpu or single-gpu), and report this with the run's run.json."
            )

    def write(self, folder: Path) -> bool:
        """Write the adapter to `folder` and let go of the model; return whether this process did.

        Every process has to ask. The trainer is of no use afterwards: measuring the new stage takes a
        base of its own, and two would not fit where one just does.
        """
        self.check_agreement()
        weights = self.gathered_weights()
        if self.is_world_process_zero():
            write_adapter(self.accelerator.unwrap_model(self.model), folder, weights)
        self.accelerator.free_memory()
        self.optimizer = self.lr_scheduler = None
        self.callback_handler.model = self.callback_handler.optimizer = None
        self.callback_handler.lr_scheduler = self.callback_handler.train_dataloader = None
        self.model = self.model_wrapped = None
        del weights
        gc.collect()
        return self.is_world_process_zero()

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Write a checkpoint and seal it; the ones before it go only then.

        Raises TrainingStopped, the checkpoints before it being kept, if it cannot be written whole, a
        weight in it is not a finite number, or the processes do not agree on it.
        """
        self.check_agreement()
        run = Path(str(self.args.output_dir))
        checkpoint = run / f"{PREFIX}{self.state.global_step}"
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        here = (each.to_local() if isinstance(each, DTensor) else each for each in trained)
        if not all(bool(torch.isfinite(each).all()) for each in here):
            raise TrainingStopped(
                f"a trained weight is not a finite number after step {self.state.global_step}, so it is"
                " not saved; the checkpoint before it is kept. Lower learning_rate and train anew with"
                " --overwrite."
            )
        try:
            if self.args.should_save:
                shutil.rmtree(checkpoint, ignore_errors=True)
                check_room(run, BYTES_PER_TRAINED_WEIGHT * sum(each.numel() for each in trained))
            super()._save_checkpoint(model, trial)
            losses, spent = self.losses_so_far(), self.spent_so_far()
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                totals = {"loss_sum": losses, "joules": spent.joules, "seconds": spent.seconds}
                write_whole(checkpoint / TOTALS, json.dumps(totals))
                seal(checkpoint)
        except (OSError, SafetensorError) as error:
            raise writing_failed(run, checkpoint, error) from error
        except RuntimeError as error:
            if TORCH_COULD_NOT_WRITE not in str(error):
                raise
            raise writing_failed(run, checkpoint, error) from error
        if self.args.should_save:
            drop_old(run, self.keep_checkpoints)

    def _get_train_sampler(self, *inputs: Any, **options: Any) -> Any:
        """Return TRL's sampler, moved on by the passes that a resumed run has behind it."""
        sampler = super()._get_train_sampler(*inputs, **options)
        if isinstance(sampler, RepeatSampler) and sampler.shuffle:
            for _ in range(self.passes_done):
                torch.randperm(sampler.num_samples, generator=sampler.generator)
        return sampler


ECHO_SECONDS = 2.0
"""A launcher passes on the signal that its whole group has had already; that is no second one."""


class MetricsCallback(TrainerCallback):
    """Appends what the trainer logs to metrics.jsonl, one line per logging step."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run

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
