"""Alarms: what a trainer logs, held against limits; a broken one is told on the terminal and in metrics.jsonl."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal

import yaml
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from training.run.folder import MetricRow, RunFolder, say

WINDOW = 10
"""Rows of metrics.jsonl that a figure is averaged over."""
REWARD = "reward"
ALARMS = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True)
class Alarm:
    """When the mean of a logged figure over the last rows is out of limits, and what is said then.

    The limits are `above` and `below`; with `from_start` for the mean divided by that of the first rows (one
    that was 0 there has no ratio). With `way` they are instead a band around the first rows: three standard
    deviations, `slack` and `share` of the mean wide; `needs_reward`: it counts only while the reward rises.
    `text` may name {now}, {before} and {name}, the last part of the metric.
    """

    metric: str
    text: str
    above: float = inf
    below: float = -inf
    from_start: bool = False
    way: Literal["up", "down", "both"] | None = None
    slack: float = 0.0
    share: float = 0.0
    needs_reward: bool = False

    def complaint(self, first: Sequence[float], last: Sequence[float]) -> str | None:
        """Return what is to be said about the last rows, given the first ones; None if all is well."""
        before, now = fmean(first), fmean(last)
        low, high = self.below, self.above
        if self.way:
            room = 3 * pstdev(first) + self.slack + self.share * abs(before)
            low = -inf if self.way == "up" else before - room
            high = inf if self.way == "down" else before + room
        elif self.from_start:
            low, high = (low * before, high * before) if before > 0 else (-inf, inf)
        if low <= now <= high:
            return None
        return self.text.format(now=now, before=before, name=self.metric.rpartition("/")[2])


@cache
def alarms_of(*kinds: str) -> tuple[Alarm, ...]:
    """Return the alarms of these kinds of runs, from alarms.yaml."""
    document = yaml.safe_load(ALARMS.read_text(encoding="utf-8"))
    return tuple(Alarm(**row) for kind in kinds for row in document[kind])


class AlarmCallback(TrainerCallback):
    """Holds what the trainer logs against alarms; `stop` is called with each complaint, on every process.

    An alarm speaks again only after its figure has been right in between. A resumed run takes up the rows
    that are there.
    """

    def __init__(
        self, run: RunFolder, alarms: Sequence[Alarm], stop: Callable[[str], None] | None = None, window: int = WINDOW
    ) -> None:
        self.run, self._alarms, self._stop, self._window = run, tuple(alarms), stop, window
        self._seen: dict[str, list[float]] = {metric: [] for metric in (REWARD, *(each.metric for each in alarms))}
        self._broken: set[Alarm] = set()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Take up the rows of the run that is gone on with."""
        for row in self.run.metric_rows():
            self.complaints(row)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **others: Any,
    ) -> None:
        """Say what has gone wrong since the last row."""
        for text in self.complaints(logs or {}):
            if state.is_world_process_zero:
                alert(self.run, state.global_step, text)
            if self._stop is not None:
                self._stop(text)

    def complaints(self, row: Mapping[str, Any]) -> list[str]:
        """Return what is to be said now that `row` is there; nothing until enough rows are."""
        for metric, seen in self._seen.items():
            if isinstance(row.get(metric), int | float):
                seen.append(float(row[metric]))
        found = []
        for alarm in self._alarms:
            seen = self._seen[alarm.metric]
            if alarm.metric not in row or len(seen) < self._window * (2 if alarm.way else 1):
                continue
            text, rewards, window = None, self._seen[REWARD], self._window
            rises = len(rewards) >= 2 * window and fmean(rewards[-window:]) > fmean(rewards[:window])
            if rises or not alarm.needs_reward:
                text = alarm.complaint(seen[:window], seen[-window:])
            if text and alarm not in self._broken:
                found.append(text)
            (self._broken.add if text else self._broken.discard)(alarm)
        return found


def alert(run: RunFolder, step: int, text: str) -> None:
    """Say what went wrong, on the terminal and in metrics.jsonl."""
    say(f"step {step}: {text}")
    row: MetricRow = {"step": step, "alert": text}
    run.append_metrics(row)
