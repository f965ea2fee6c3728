"""What happens beside the training itself: metrics go to the run folder, a signal stops it in order."""

import math
import signal
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean
from types import FrameType
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from evals.verifiers import VERIFIERS
from training.run.folder import MetricRow, RunFolder, say

WINDOW = 10
"""Rows of metrics.jsonl that a figure is averaged over."""


@dataclass(frozen=True)
class Rule:
    """A figure that is to stay within limits (ends included), and what to say when it does not.

    With `from_start` the limits are for the figure divided by what it was in the first rows; a figure
    that was 0 there has no such ratio and breaks nothing. `text` may name {now} and {before}.
    """

    metric: str
    text: str
    above: float = float("inf")
    below: float = float("-inf")
    from_start: bool = False

    def complaint(self, now: float, before: float) -> str | None:
        """Return what is to be said about a mean of `now` that was `before` in the first rows."""
        if self.from_start and not before:
            return None
        value = now / before if self.from_start else now
        if self.below <= value <= self.above:
            return None
        return self.text.format(now=now, before=before)


SAMPLING_RULES = (
    Rule(
        "frac_reward_zero_std",
        "{now:.0%} of groups had equal rewards, so nothing was learned from them: raise num_generations"
        " or temperature, or leave out questions that are always answered right or always wrong",
        above=0.5,
    ),
    Rule(
        "completions/clipped_ratio",
        "{now:.0%} of answers were cut and judged unfinished: raise max_completion_length, or set"
        " mask_truncated to keep them out of the loss",
        above=0.1,
    ),
    Rule(
        "kl",
        "answers are {now:.2g} nats per token away from the reference: raise beta or lower"
        " learning_rate before what was known is lost",
        above=0.5,
    ),
    Rule(
        "completions/mean_length",
        "answers went from {before:.0f} to {now:.0f} tokens: read the newest file in completions/ to see"
        " what is left out or padded",
        above=2.0,
        below=0.5,
        from_start=True,
    ),
    Rule(
        "entropy",
        "answers hardly vary any more ({now:.2g} nats per token), so groups will have equal rewards:"
        " raise temperature or beta, or stop here",
        below=0.05,
    ),
)
"""For every kind of GRPO, whatever the reward."""
GRPO_RULES = (
    *SAMPLING_RULES,
    Rule(
        "line/answer",
        "only {now:.0%} of answers have a line `Answer: …`, and the others earn nothing: train the SFT stage"
        " on answers that end with one, or raise max_completion_length if they are cut before it",
        below=0.8,
    ),
    Rule(
        "confidence/stated",
        "only {now:.0%} of answers have a readable line `Confidence: N%`, and the others earn nothing for"
        " theirs: train the SFT stage on answers that end with one",
        below=0.5,
    ),
    Rule(
        "verdict/correct",
        "right answers fell from {before:.0%} to {now:.0%}: the reward is earned elsewhere; read the"
        " best-rewarded answers in completions/",
        below=0.7,
        from_start=True,
    ),
    *(
        Rule(
            f"verifier/{name}",
            f"the mean of {name} fell from {{before:.2f}} to {{now:.2f}}: what it measures is being given"
            " up for something else; compare verifier_weights",
            below=0.7,
            from_start=True,
        )
        for name in VERIFIERS
    ),
)
DPO_RULES = (
    Rule(
        "rewards/chosen",
        "even the chosen answers became less likely than in the reference (rewards/chosen {now:.2f}):"
        " preferences are met by forgetting; raise beta, lower learning_rate or train fewer steps",
        below=-0.5,
    ),
    Rule(
        "rewards/margins",
        "pairs are separated far beyond what a preference needs (rewards/margins {now:.1f}): stop"
        " earlier, or raise beta",
        above=3.0,
    ),
)


class AlertCallback(TrainerCallback):
    """Holds what the trainer logs against rules, and says so when one is broken.

    A rule speaks again only after its figure has been right in between. A resumed run takes up the
    rows that are there.
    """

    def __init__(self, run: RunFolder, rules: Sequence[Rule], window: int = WINDOW) -> None:
        self._run = run
        self._rules = tuple(rules)
        self._first: dict[str, list[float]] = {rule.metric: [] for rule in rules}
        self._last: dict[str, deque[float]] = {rule.metric: deque(maxlen=window) for rule in rules}
        self._window = window
        self._broken: set[Rule] = set()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Take up the rows of the run that is gone on with."""
        for row in self._run.metric_rows():
            self._complaints(row)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **others: Any,
    ) -> None:
        """Say what has gone wrong since the last row."""
        if state.is_world_process_zero:
            for text in self._complaints(logs or {}):
                alert(self._run, state.global_step, text)

    def _complaints(self, row: Mapping[str, Any]) -> list[str]:
        """Return what is to be said now that `row` is there; empty until the window is full."""
        for metric, recent in self._last.items():
            value = row.get(metric)
            if isinstance(value, int | float):
                recent.append(float(value))
                if len(self._first[metric]) < self._window:
                    self._first[metric].append(float(value))
        return [text for rule in self._rules if (text := self._newly_broken(rule, row))]

    def _newly_broken(self, rule: Rule, row: Mapping[str, Any]) -> str | None:
        recent = self._last[rule.metric]
        if rule.metric not in row or len(recent) < self._window:
            return None
        text = rule.complaint(fmean(recent), fmean(self._first[rule.metric]))
        was_broken = rule in self._broken
        (self._broken.add if text else self._broken.discard)(rule)
        return None if was_broken else text


def alert(run: RunFolder, step: int, text: str) -> None:
    """Say what went wrong, on the terminal and in metrics.jsonl."""
    say(f"step {step}: {text}")
    row: MetricRow = {"step": step, "alert": text}
    run.append_metrics(row)


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
