"""What happens beside the training itself: metrics go to the run folder, a signal stops it in order."""

import math
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from training.run.folder import RunFolder, say

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
        logs: dict[str, float] | None = None,
        **others: Any,
    ) -> None:
        """Write the numbers; one that is not finite becomes null."""
        if not state.is_world_process_zero or not logs:
            return
        numbers = {key: _number(value) for key, value in logs.items()}
        self.run.append_metrics({"step": state.global_step, **numbers})


class StopCallback(TrainerCallback):
    """Turns the first Ctrl-C (or SIGTERM) into: finish the step, write a checkpoint, stop.

    `reason` says why where it was no person who asked.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self.reason: str | None = None
        self.asked_at = -math.inf

    def ask(self, reason: str) -> None:
        """Stop after this step, because of `reason`."""
        self.is_asked, self.reason = True, reason

    @contextmanager
    def listening(self) -> Generator[None]:
        """Listen inside the block; a second signal interrupts at once."""
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {each: signal.signal(each, self._ask) for each in signals}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any) -> None:
        """Save and stop if asked to."""
        if self.is_asked:
            control.should_save = True
            control.should_training_stop = True

    def _ask(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.is_asked and now - self.asked_at > ECHO_SECONDS:
            raise KeyboardInterrupt
        if self.is_asked:
            return
        self.is_asked, self.asked_at = True, now
        say("stopping after this step; once more to stop at once")


def _number(value: Any) -> float | None:
    number = float(value) if value is not None else math.nan
    return number if math.isfinite(number) else None
