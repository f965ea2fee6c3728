"""Looks at a model while it is trained: greedy answers to what it is not trained on, graded again and again.

A look draws nothing at random, so a run that is watched learns the same weights as one that is not. What
follows from looks: an end where nothing is learned any more, the best weights. Alarms hold what a trainer logs against limits.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal, TypeVar

import torch
import yaml
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import (
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from evals.errors import BadConfig
from evals.report import tally
from evals.run import grade_answers
from evals.task import StageAnswer
from training.config import LOSS, StageSettings
from training.data.tokens import TEMPLATE_TOLD, DataRow, DevSet, question_text
from training.models.generation import end_tokens
from training.run.checkpoints import BEST, best_weights, checkpoints, step_of
from training.run.folder import MetricRow, ProgressWriter, RunFolder, say
from training.upstream import StackedPeftModel


@dataclass(frozen=True)
class Answers:
    """Answers as tokens (rows, prompt + answer); `written` (rows, answer) marks an answer's own, its end too."""

    ids: torch.Tensor
    attended: torch.Tensor
    written: torch.Tensor

    @property
    def lengths(self) -> list[int]:
        """How many tokens each answer has."""
        return self.written.sum(dim=1).tolist()

    def texts(self, tokenizer: PreTrainedTokenizerBase) -> list[str]:
        """Return each answer as text."""
        new = self.ids[:, -self.written.shape[1] :]
        tokens = [row[kept] for row, kept in zip(new, self.written, strict=True)]
        return tokenizer.batch_decode(tokens, skip_special_tokens=True)


def greedy_answers(
    policy: StackedPeftModel, tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], most: int
) -> Answers:
    """Return the policy's greedy answers of at most `most` tokens to prompts that a template has written."""
    encoded = tokenizer(
        list(prompts), add_special_tokens=False, padding=True, padding_side="left", return_tensors="pt"
    ).to(policy.device)
    model = policy.get_base_model()
    assert isinstance(model, PreTrainedModel)
    ends = end_tokens(model, tokenizer)
    settings = GenerationConfig(
        max_new_tokens=most,
        do_sample=False,
        eos_token_id=list(ends),
        pad_token_id=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else ends[0],
    )
    ids = policy.generate(**encoded, generation_config=settings)
    new = ids[:, encoded["input_ids"].shape[1] :]
    is_end = torch.isin(new, torch.tensor(ends, device=new.device))
    written = is_end.cumsum(dim=1) - is_end.long() == 0
    attended = torch.cat([encoded["attention_mask"], written.long()], dim=1)
    return Answers(ids, attended, written)


def answers_to(
    policy: StackedPeftModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[DataRow], tokens: int, batch: int
) -> Iterator[Answers]:
    """Yield greedy answers of at most `tokens` tokens to the prompts of rows, `batch` at a time, without dropout."""
    with policy.without_dropout(), torch.no_grad():
        for start in range(0, len(rows), batch):
            some = rows[start : start + batch]
            prompts = [question_text(row["prompt"], tokenizer, **row.get(TEMPLATE_TOLD, {})) for row in some]
            yield greedy_answers(policy, tokenizer, prompts, tokens)


T = TypeVar("T")


def share_rows(rows: Sequence[DataRow], work: Callable[[Sequence[DataRow]], Iterable[T]]) -> list[T]:
    """Return what `work` makes of each row, in order, on every process; each does a share of the rows."""
    state = PartialState()
    of_each = gather_object([list(work(rows[state.process_index :: state.num_processes]))])
    return [of_each[at % state.num_processes][at // state.num_processes] for at in range(len(rows))]


Look = tuple[int, float]
"""A step and what its look saw."""


def _divergence(policy: StackedPeftModel, batch: Answers) -> torch.Tensor:
    """Return KL(policy || reference) of the next token at each place of the answers, in nats."""
    ours = _logits(policy, batch)
    with policy.as_reference():
        theirs = _logits(policy, batch)
    rows = []
    for mine, other in zip(ours, theirs, strict=True):  # one at a time: a vocabulary is wide
        log_p, log_q = mine.float().log_softmax(-1), other.float().log_softmax(-1)
        rows.append((log_p.exp() * (log_p - log_q)).sum(-1))
    return torch.stack(rows)


def _logits(policy: StackedPeftModel, batch: Answers) -> torch.Tensor:
    places = (batch.attended.cumsum(dim=1) - 1).clamp(min=0)
    kept = batch.written.shape[1] + 1
    outputs = policy(
        input_ids=batch.ids, attention_mask=batch.attended, position_ids=places, use_cache=False, logits_to_keep=kept
    )
    return outputs.logits[:, :-1]


EVALUATED, KL = "eval/length", "eval/kl"
"""Mean tokens of an answer to the dev set, which every evaluation has; mean distance from the reference."""


class Evaluation(TrainerCallback):
    """Measures the policy before the first step, every `eval_steps` and after the last, and logs the figures.

    With a dev set the policy's answers are graded by the task's metrics; without one TRL's own evaluation tells the loss
    (`eval_loss`) on rows that are held out. Where `best_metric` is one of these figures the policy gets the weights of
    its best look back at the end, and training is over, and the run finished, when `patience` looks saw nothing better.
    `tell` hears which weights are kept, and why training ended early, under the names that run.json has for it; `progress`
    how far a look is.

    Every process measures; what the first one finds counts for all of them. A resumed run does not look again before
    its first step: what was seen stands in the trainer's own log. BadConfig where weights are divided among processes,
    so that none could answer, or hold the best ones, by itself.
    """

    def __init__(
        self,
        trainer: Trainer,
        settings: StageSettings,
        dev: DevSet | None,
        tell: Callable[[str, str], None],
        progress: ProgressWriter | None = None,
    ) -> None:
        self.trainer, self._settings, self._dev, self._tell = trainer, settings, dev, tell
        self._progress = progress
        best = settings.best_metric if (settings.best_metric == LOSS) == (dev is None) else ""
        self._figure = EVALUATED if dev else "eval_loss"
        self._by = (f"eval/{best}" if dev else self._figure) if best else ""
        self._sign = -1.0 if dev is None or (best and dev.task.metrics[best].better == "lower") else 1.0
        self._is_over = False
        self._best = BestWeights(Path(str(trainer.args.output_dir)))
        deepspeed = trainer.accelerator.state.deepspeed_plugin
        is_divided = trainer.is_fsdp_enabled or (deepspeed is not None and deepspeed.zero_stage == 3)
        if is_divided and (dev or best):
            setting = "eval_steps" if dev else "best_metric"
            raise BadConfig(
                f"{setting} needs a whole model on each process, and FSDP and ZeRO-3 share one out; leave"
                f" {setting} at its default, or use a profile that does not (single, multi-gpu, zero2)."
            )

    @property
    def policy(self) -> StackedPeftModel:
        """The model that learns."""
        policy = self.trainer.accelerator.unwrap_model(self.trainer.model)
        assert isinstance(policy, StackedPeftModel)
        return policy

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Look before anything is learned."""
        if not self.scores(state):
            self._look(state, control)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any) -> None:
        """Look where it is time."""
        if state.global_step % self._settings.eval_steps == 0 or state.global_step >= state.max_steps:
            self._look(state, control)

    def _look(self, state: TrainerState, control: TrainerControl) -> None:
        log_is_due, was_training = control.should_log, self.policy.training
        if self._dev:
            tokenizer = self.trainer.processing_class
            assert isinstance(tokenizer, PreTrainedTokenizerBase)
            with self.trainer.accelerator.autocast():
                found: list[Any] = [evaluate(self.policy, tokenizer, self._dev, self._settings, self._progress)]
            Trainer.log(self.trainer, dict(broadcast_object_list(found)[0]))
        else:
            if self._progress:
                self._progress.tell("measuring", 0, 1)
            with torch.random.fork_rng():
                self.trainer.evaluate()
            self.policy.train(was_training)
        control.should_log = log_is_due  # logging here must not take the place of the trainer's own
        if self._by:
            self._choose(state, control)

    def scores(self, state: TrainerState) -> list[Look]:
        """Return the looks so far, a higher score being better; one without the figure is the worst."""
        looked = (row for row in state.log_history if self._figure in row)
        return [(int(row["step"]), self._sign * row[self._by] if self._by in row else -inf) for row in looked]

    def _choose(self, state: TrainerState, control: TrainerControl) -> None:
        """Keep what is best so far, and end training if nothing has become better for long."""
        looks, patience = self.scores(state), self._settings.patience
        if looks[-1][1] == -inf and state.is_world_process_zero:
            say(f"step {state.global_step}: {self._by} has no value for these answers, so they choose no weights")
        elif best_of(looks) == looks[-1] and state.is_world_process_zero:
            self._best.keep(self.policy, state.global_step, looks)
        if state.global_step < state.max_steps and is_plateau([score for _, score in looks], patience):
            step, best = best_of(looks)
            text = (
                f"{self._by} has not become better in {patience} evaluations (best {self._sign * best:.3g} at"
                f" step {step}), so training is over"
            )
            self._tell("ended_early", text)
            say(f"step {state.global_step}: {text}")
            self._is_over = control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Give the policy its best weights; a run that was stopped goes on with its own."""
        if not self._by or (not self._is_over and state.global_step < state.max_steps):
            return
        self.trainer.accelerator.wait_for_everyone()
        self._tell("kept_weights", self._kept(self.scores(state), state.global_step))
        self.trainer.accelerator.wait_for_everyone()

    def _kept(self, looks: Sequence[Look], last: int) -> str:
        """Return which weights the policy has from now on, in words."""
        step, score = best_of(looks)
        if score == -inf:
            return f"of the last step, {last}: {self._by} had no value in any evaluation"
        of_best = f"best {self._by}, {self._sign * score:.3g}"
        if step == last:
            return f"of step {step}, the last, which has the {of_best}"
        if not self._best.give_back(self.policy, step):
            return f"of the last step, {last}: those of step {step} ({of_best}) are no longer on file"
        start = ", the start: every look after it was worse" if step == 0 else ""
        return f"of step {step}, which has the {of_best}{start}"


def evaluate(
    policy: StackedPeftModel,
    tokenizer: PreTrainedTokenizerBase,
    dev: DevSet,
    settings: StageSettings,
    progress: ProgressWriter | None = None,
) -> dict[str, float]:
    """Return the metrics of a dev set's task on greedy answers, as `eval/NAME`, and their mean length in tokens.

    Where the stage `keeps_to_reference`, `eval/kl` is the mean over the answers' tokens of KL(policy || reference) of the
    next token, exact over the vocabulary, in nats.
    """

    def answers(rows: Sequence[DataRow]) -> Iterator[tuple[str, int, float]]:
        done, of = 0, dev.rows.count
        if progress:
            progress.tell("measuring", 0, of)
        for batch in answers_to(policy, tokenizer, rows, settings.longest_answer, settings.eval_batch):
            distances = [0.0] * len(batch.lengths)
            if settings.keeps_to_reference:
                distances = (_divergence(policy, batch) * batch.written).sum(dim=1).tolist()
            yield from zip(batch.texts(tokenizer), batch.lengths, distances, strict=True)
            done += len(distances)
            if progress:
                progress.tell("measuring", round(done * of / len(rows)), of)

    texts, lengths, distances = zip(*share_rows(list(dev.rows.trl_rows().values()), answers), strict=True)
    given = [StageAnswer("now", text) for text in texts]
    table = tally(grade_answers(dev.task, dev.rows.items, given), dev.task.metrics)
    values = {f"eval/{name}": float(table.metric(name, table.totals())[0]) for name in table.metrics}
    values[EVALUATED] = sum(lengths) / dev.rows.count
    if settings.keeps_to_reference:
        values[KL] = sum(distances) / max(sum(lengths), 1)
    return {name: value for name, value in values.items() if isfinite(value)}


def is_plateau(scores: Sequence[float], patience: int) -> bool:
    """Return whether the last `patience` looks were no better than the best before them, if any had a score; 0 = never.

    >>> is_plateau([1.0, 2.0, 1.5, 2.0], 2), is_plateau([1.0, 2.0, 1.5, 2.1], 2), is_plateau([-inf, -inf], 1)
    (True, False, False)
    """
    return bool(patience) and len(scores) > patience and -inf < max(scores[:-patience]) >= max(scores[-patience:])


def best_of(looks: Sequence[Look]) -> Look:
    """Return the best look, of equals the first after the start; needs at least one.

    >>> best_of([(0, 2.0), (5, 2.0), (10, 2.0)])
    (5, 2.0)
    """
    return max(looks, key=lambda look: (look[1], look[0] > 0))


class BestWeights:
    """Trained weights in a run folder, by the step that they were learned in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, model: nn.Module, step: int, looks: Sequence[Look]) -> None:
        """Write the weights of `step`, whole, and let go of those that no resumed run can need."""
        file = self._file(step)
        unfinished = file.with_suffix(".part")
        self._folder.mkdir(parents=True, exist_ok=True)
        save_file({name: weight.detach().cpu().contiguous() for name, weight in _trained_weights(model)}, unfinished)
        unfinished.replace(file)
        steps = map(step_of, checkpoints(self._folder))
        known = [[look for look in looks if look[0] <= step] for step in steps]  # as each checkpoint knows of them
        needed = {self._file(best_of(each)[0]) for each in (*known, looks) if each}
        for other in best_weights(self._folder):
            if other not in needed:
                other.unlink(missing_ok=True)

    def give_back(self, model: nn.Module, step: int) -> bool:
        """Put the weights of `step` into the model; return whether they were there."""
        file = self._file(step)
        if not file.is_file():
            return False
        tensors = load_file(file)
        with torch.no_grad():
            for name, weight in _trained_weights(model):
                weight.copy_(tensors[name])
        return True

    def _file(self, step: int) -> Path:
        return self._folder / f"{BEST}{step}.safetensors"


def _trained_weights(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, each) for name, each in model.named_parameters() if each.requires_grad]


# ---- alarms --------------------------------------------------------------------------------------


WINDOW = 10
"""Rows of metrics.jsonl that a figure is averaged over."""
REWARD = "reward"
ALARMS = Path(__file__).with_name("alarms.yaml")


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


class StoppingAlarmCallback(AlarmCallback):
    """Alarms that may end the run, beside the others: transformers warns of two callbacks of one class."""


def alert(run: RunFolder, step: int, text: str) -> None:
    """Say what went wrong, on the terminal and in metrics.jsonl."""
    say(f"step {step}: {text}")
    row: MetricRow = {"step": step, "alert": text}
    run.append_metrics(row)
