"""What happens beside the training itself: metrics go to the run folder, a signal stops it in order."""

import math
import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from training.runs import RunFolder
from training.terminal import say


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
    """Turns the first Ctrl-C (or SIGTERM) into: finish the step, write a checkpoint, stop."""

    def __init__(self) -> None:
        self.is_asked = False

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

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Save and stop if asked to."""
        if self.is_asked:
            control.should_save = True
            control.should_training_stop = True

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True
        say("stopping after this step; once more to stop at once")


def _number(value: Any) -> float | None:
    number = float(value) if value is not None else math.nan
    return number if math.isfinite(number) else None
