"""Alarms for a reward that is being gamed: a figure leaves the band it had at the start while reward rises.

The band is that of the first rows of metrics.jsonl, when the policy was still the SFT start: mean plus
and minus three standard deviations and some slack. What an alarm says goes to the terminal and into
metrics.jsonl (`training.run.callbacks`). The slack is a rule of thumb for where people should look.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Literal

import torch
from accelerate.utils import broadcast_object_list
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import (
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from evals.refine.judge import compare_words
from evals.refine.prompt import messages
from evals.refine.score import prepare, settle
from evals.schema.refiner import RefinerRecord, RewardConfig
from training.models.policy import StackedPeftModel
from training.run.callbacks import WINDOW, alert
from training.run.checkpoints import BEST, best_weights, checkpoints, step_of
from training.run.folder import RunFolder, say
from training.run.watch import ROWS, answered, evaluating, whole_model_or_refused

Look = tuple[int, float]
"""A step and the score of the policy after it."""


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
        tensors = {name: weight.detach().cpu().contiguous() for name, weight in _trained(model)}
        file = self._file(step)
        unfinished = file.with_suffix(".part")
        self._folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, unfinished)
        unfinished.replace(file)
        needed = {self._file(each) for each in self._needed(looks)}
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
            for name, weight in _trained(model):
                weight.copy_(tensors[name])
        return True

    def _needed(self, looks: Sequence[Look]) -> set[int]:
        """Return the best steps as each checkpoint, and the run now, knows of them."""
        steps = map(step_of, checkpoints(self._folder))
        known = [[look for look in looks if look[0] <= step] for step in steps]
        return {best_of(each)[0] for each in (*known, looks) if each}

    def _file(self, step: int) -> Path:
        return self._folder / f"{BEST}{step}.safetensors"


def _trained(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, each) for name, each in model.named_parameters() if each.requires_grad]


SCORE, WELLFORMED = "held_out/score", "held_out/wellformed"


@dataclass(frozen=True)
class Glance:
    """What was seen at one moment: the mean reward by words, and the share of well-formed answers."""

    score: float
    wellformed: float


@dataclass(frozen=True)
class HeldOut:
    """Records that are not trained on, how answers are graded, and how long one may be, in tokens."""

    records: Sequence[RefinerRecord]
    reward: RewardConfig
    tokens: int

    def glance(self, policy: StackedPeftModel, tokenizer: PreTrainedTokenizerBase) -> Glance:
        """Return how the policy's greedy answers do now."""
        texts: list[str] = []
        with torch.no_grad(), evaluating(policy):
            for start in range(0, len(self.records), ROWS):
                prompts = [
                    str(
                        tokenizer.apply_chat_template(
                            [turn.model_dump() for turn in messages(record)],
                            tokenize=False,
                            add_generation_prompt=True,
                        )
                    )
                    for record in self.records[start : start + ROWS]
                ]
                batch = answered(policy, tokenizer, prompts, self.tokens)
                texts += tokenizer.batch_decode(batch.tokens(), skip_special_tokens=True)
        return self.graded(texts)

    def graded(self, texts: Sequence[str]) -> Glance:
        """Return how answers do, one to each record."""
        cases = [prepare(record, text, self.reward) for record, text in zip(self.records, texts, strict=True)]
        rewards = [settle(case, compare_words(case.inquiry()) if case.is_judgeable else None).reward for case in cases]
        return Glance(fmean(reward or 0.0 for reward in rewards), fmean(case.is_judgeable for case in cases))


class PlateauWatch(TrainerCallback):
    """Looks before the first step, every `steps` steps and after the last; ends training on a plateau.

    The run is then finished; `patience` 0 only looks. At the end the policy gets the weights of the best
    look back, or keeps those of the last step, as `pace` says. `tell` hears which are kept, and why
    training ended early, under the names that run.json has for it.
    """

    def __init__(self, trainer: Trainer, held: HeldOut, pace: "Pace", tell: Callable[[str, str], None]) -> None:
        """Watch `trainer`; BadConfig where its weights are shared out among processes."""
        whole_model_or_refused(trainer, "held_out_steps")
        self._trainer, self._held, self._pace, self._tell = trainer, held, pace, tell
        self._is_over = False
        self._best = BestWeights(Path(str(trainer.args.output_dir)))

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Look before anything is learned; a resumed run remembers what it saw."""
        if not seen(state):
            self._look(control, state)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any) -> None:
        """Look, and end training if nothing has become better for long."""
        if state.global_step % self._pace.steps and state.global_step < state.max_steps:
            return
        self._look(control, state)
        looks = seen(state)
        if state.global_step < state.max_steps and self._pace.is_over([score for _, score in looks]):
            step, best = best_of(looks)
            text = (
                f"held-out answers have not become better in {self._pace.patience} looks (best {best:.2f} at"
                f" step {step}), so training is over"
            )
            self._tell("ended_early", text)
            say(f"step {state.global_step}: {text}")
            self._is_over = control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Give the policy the weights that are to be kept; a run that was stopped goes on with its own."""
        if not self._is_over and state.global_step < state.max_steps:
            return
        self._trainer.accelerator.wait_for_everyone()
        self._tell("kept_weights", self._kept(seen(state), state.global_step))
        self._trainer.accelerator.wait_for_everyone()

    def _kept(self, looks: Sequence[Look], last: int) -> str:
        """Return which weights the policy has from now on, in words."""
        step, score = best_of(looks)
        of_best = f"best held-out score, {score:.2f}"
        if step == last:
            return f"of step {step}, the last, which has the {of_best}"
        if not self._pace.keeps_best:
            return f"of the last step, {last}; the {of_best}, was at step {step}"
        if not self._best.give_back(self._policy(), step):
            return f"of the last step, {last}: those of step {step} ({of_best}) are no longer on file"
        start = ", the start: every look after it was worse" if step == 0 else ""
        return f"of step {step}, which has the {of_best}{start}"

    def _policy(self) -> StackedPeftModel:
        policy = self._trainer.accelerator.unwrap_model(self._trainer.model)
        assert isinstance(policy, StackedPeftModel)
        return policy

    def _look(self, control: TrainerControl, state: TrainerState) -> None:
        """Log what the first process sees, so that all of them decide alike; keep what is best so far."""
        policy = self._policy()
        tokenizer = self._trainer.processing_class
        assert isinstance(tokenizer, PreTrainedTokenizerBase)
        with self._trainer.accelerator.autocast():
            glances: list[Any] = [self._held.glance(policy, tokenizer)]
        glance = broadcast_object_list(glances)[0]
        log_is_due = control.should_log  # logging here must not take the place of the trainer's own
        Trainer.log(self._trainer, {SCORE: glance.score, WELLFORMED: glance.wellformed})
        control.should_log = log_is_due
        looks = seen(state)
        is_best = best_of(looks) == looks[-1]
        if self._pace.keeps_best and is_best and state.is_world_process_zero:
            self._best.keep(policy, state.global_step, looks)


@dataclass(frozen=True)
class Pace:
    """How often records are looked at, and how many looks without a better score are enough (0 = no end).

    `keeps_best`: the run ends with the weights of the best look, not with those of the last step.
    """

    steps: int
    patience: int = 0
    keeps_best: bool = True

    def is_over(self, scores: Sequence[float]) -> bool:
        """Return whether the last `patience` looks were no better than the best before them.

        >>> Pace(1, 2).is_over([1.0, 2.0, 1.5, 2.0]), Pace(1, 2).is_over([1.0, 2.0, 1.5, 2.1])
        (True, False)
        """
        if not self.patience or len(scores) <= self.patience:
            return False
        return max(scores[-self.patience :]) <= max(scores[: -self.patience])


def seen(state: TrainerState) -> list[Look]:
    """Return the steps that were looked at and the scores there, from the trainer's own log."""
    return [(int(row["step"]), row[SCORE]) for row in state.log_history if SCORE in row]


REWARD = "reward"


@dataclass(frozen=True)
class Band:
    """Where a figure may go. `slack` is in the figure's own unit, `share` of what it was.

    `needs_reward`: leaving the band matters only while the reward rises. `text` may name {now}, {before}.
    """

    metric: str
    text: str
    way: Literal["up", "down", "both"] = "up"
    slack: float = 0.0
    share: float = 0.0
    needs_reward: bool = True

    def complaint(self, first: Sequence[float], last: Sequence[float]) -> str | None:
        """Return what is to be said about the last rows; None if they are inside the band."""
        before, now = fmean(first), fmean(last)
        room = 3 * pstdev(first) + self.slack + self.share * abs(before)
        is_out = (self.way != "down" and now > before + room) or (self.way != "up" and now < before - room)
        return self.text.format(now=now, before=before) if is_out else None


BANDS = (
    Band(
        "answer/words",
        "answers went from {before:.0f} to {now:.0f} words while the reward rose: read the best-rewarded"
        " ones in completions/ for padding or for what is left out",
        way="both",
        share=0.5,
    ),
    Band(
        "answer/claims",
        "claims per answer went from {before:.1f} to {now:.1f} while the reward rose: look for one giant"
        " claim, or for sentences cut into many",
        way="both",
        slack=0.5,
        share=0.5,
    ),
    Band(
        "answer/ids_per_claim",
        "a claim cites {now:.1f} ids, {before:.1f} at the start, while the reward rose: ids are being added"
        " for their own sake; lower max_ids_per_claim or use citation_metric precision",
        slack=0.5,
        share=0.5,
    ),
    Band(
        "answer/unknown_ids",
        "{now:.0%} of cited ids are in no passage, {before:.0%} at the start, while the reward rose: use gate"
        " require, which gives such answers nothing",
        slack=0.05,
    ),
    Band(
        "answer/copied",
        "{now:.0%} of the words are copied from passages in long runs, {before:.0%} at the start, while the"
        " reward rose: answers are being pasted; lower max_words_per_claim, or add an item against it",
        slack=0.2,
    ),
    Band(
        "score/from_negatives",
        "{now:.0%} of the rubric score comes from what answers do not do, {before:.0%} at the start, while"
        " the reward rose: silence is being paid; use gate require and add wanted items",
        slack=0.1,
    ),
    Band(
        "judge/over_words",
        "the judge sees {now:+.2f} more support for claims than their words show, {before:+.2f} at the"
        " start, while the reward rose: it is being talked into it; read such claims",
        slack=0.15,
    ),
    Band(
        "items/group_spread",
        "items tell the answers of a group apart less and less (spread {now:.2f}, {before:.2f} at the start)"
        " while the reward rose: they are saturated; write harder ones, or set retire_after",
        way="down",
        share=0.5,
    ),
    Band(
        "judge/canary",
        "in {now:.1%} of answers the judge said yes to what no answer shows, {before:.1%} at the start: it"
        " obeys what it reads; use another judge, and read these answers",
        needs_reward=False,
    ),
    Band(
        "judge/none_rate",
        "the judge gives no verdict on {now:.0%} of answers, {before:.0%} at the start: look at its server",
        slack=0.05,
        needs_reward=False,
    ),
    Band(
        "judge/apart",
        "the judge's votes on an item lie {now:.0%} of the scale apart, {before:.0%} at the start: its verdicts"
        " on these answers are noise; use another judge",
        slack=0.1,
        needs_reward=False,
    ),
)  # fmt: skip


@dataclass
class HackingWatch(TrainerCallback):
    """Holds what the trainer logs against the bands; `stop` is called with the first complaint.

    An alarm speaks again only after its figure has been inside in between. A resumed run takes up the
    rows that are there.
    """

    run: RunFolder
    stop: Callable[[str], None] | None = None
    bands: Sequence[Band] = BANDS
    window: int = WINDOW
    _rows: dict[str, list[float]] = field(default_factory=dict)
    _ringing: set[str] = field(default_factory=set)

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
            if self.stop is not None:
                self.stop(text)

    def complaints(self, row: Mapping[str, Any]) -> list[str]:
        """Return what is to be said now that `row` is there; nothing until there is a window after the first."""
        for metric in (REWARD, *(band.metric for band in self.bands)):
            value = row.get(metric)
            if isinstance(value, int | float):
                self._rows.setdefault(metric, []).append(float(value))
        found = []
        for band in self.bands:
            text = self._complaint(band) if band.metric in row else None
            was_ringing = band.metric in self._ringing
            if band.metric in row:
                (self._ringing.add if text else self._ringing.discard)(band.metric)
            if text and not was_ringing:
                found.append(text)
        return found

    def _complaint(self, band: Band) -> str | None:
        rows = self._rows[band.metric]
        if len(rows) < 2 * self.window or (band.needs_reward and not self._reward_rises()):
            return None
        return band.complaint(rows[: self.window], rows[-self.window :])

    def _reward_rises(self) -> bool:
        rows = self._rows.get(REWARD, [])
        return len(rows) >= 2 * self.window and fmean(rows[-self.window :]) > fmean(rows[: self.window])
