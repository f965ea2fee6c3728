"""Is anything still being learned? Records that are not trained on, answered again and again in training.

Each look has the policy answer them greedily and grades the answers by comparing words, by all items and
without a judge, so it is the same yardstick whoever judges, and a policy that only learned to please its
judge does not move it. It draws nothing at random: a run that looks learns the same weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from transformers import (
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from evals.refiner.heuristic import compare_words
from evals.refiner.prompt import messages
from evals.refiner.score import prepare, settle
from evals.schema.refining import RefinerRecord, RewardConfig
from training.greedy import ROWS, answered, evaluating, whole_model_or_refused
from training.policy import StackedPeftModel
from training.refining.best import BestWeights, Look, best_of
from training.terminal import say

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
        cases = [
            prepare(record, text, self.reward)
            for record, text in zip(self.records, texts, strict=True)
        ]
        rewards = [
            settle(case, compare_words(case.inquiry()) if case.is_judgeable else None).reward
            for case in cases
        ]
        return Glance(
            fmean(reward or 0.0 for reward in rewards), fmean(case.is_judgeable for case in cases)
        )


class PlateauWatch(TrainerCallback):
    """Looks before the first step, every `steps` steps and after the last; ends training on a plateau.

    The run is then finished; `patience` 0 only looks. At the end the policy gets the weights of the best
    look back, or keeps those of the last step, as `pace` says. `tell` hears which are kept, and why
    training ended early, under the names that run.json has for it.
    """

    def __init__(
        self, trainer: Trainer, held: HeldOut, pace: "Pace", tell: Callable[[str, str], None]
    ) -> None:
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

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Look, and end training if nothing has become better for long."""
        if state.global_step % self._pace.steps and state.global_step < state.max_steps:
            return
        self._look(control, state)
        looks = seen(state)
        if state.global_step < state.max_steps and self._pace.is_over(
            [score for _, score in looks]
        ):
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
            return (
                f"of the last step, {last}: those of step {step} ({of_best}) are no longer on file"
            )
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
