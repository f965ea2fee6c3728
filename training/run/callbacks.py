"""What happens beside the training itself: metrics go to the run folder, a signal stops it in order."""

import math
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from training.run.folder import RunFolder, say
from training.run.trainer import SafeTrainer

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
        """Save and stop if asked to, but not in the middle of a round.

        A signal reaches several processes at different steps, so they agree on the step to stop at.
        """
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
