"""Records that are not trained on, looked at again and again: when to stop, and which weights to keep."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PreTrainedTokenizerBase, Trainer, TrainerControl, TrainerState, TrainingArguments

from evals.refine.judge import compare_words
from evals.refine.prompt import messages
from evals.refine.score import prepare, settle
from evals.schema.refiner import RefinerRecord, RewardConfig
from training.models.policy import StackedPeftModel
from training.run.checkpoints import BEST, best_weights, checkpoints, step_of
from training.run.folder import say
from training.run.watch import Looks, answers_to

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
        file = self._file(step)
        unfinished = file.with_suffix(".part")
        self._folder.mkdir(parents=True, exist_ok=True)
        save_file({name: weight.detach().cpu().contiguous() for name, weight in _trained(model)}, unfinished)
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
            for name, weight in _trained(model):
                weight.copy_(tensors[name])
        return True

    def _file(self, step: int) -> Path:
        return self._folder / f"{BEST}{step}.safetensors"


def _trained(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    return [(name, each) for name, each in model.named_parameters() if each.requires_grad]


SCORE, WELLFORMED = "held_out/score", "held_out/wellformed"


@dataclass(frozen=True)
class HeldOut:
    """Records that are not trained on, how answers are graded, and how long one may be, in tokens."""

    records: Sequence[RefinerRecord]
    reward: RewardConfig
    tokens: int

    def figures(self, policy: StackedPeftModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, float]:
        """Return how the policy's greedy answers do now."""
        conversations = [[turn.model_dump() for turn in messages(record)] for record in self.records]
        batches = answers_to(policy, tokenizer, conversations, self.tokens)
        texts = [text for each in batches for text in tokenizer.batch_decode(each.tokens(), skip_special_tokens=True)]
        return self.graded(texts)

    def graded(self, texts: Sequence[str]) -> dict[str, float]:
        """Return the mean reward by words of answers, one to each record, and the share of well-formed ones."""
        cases = [prepare(record, text, self.reward) for record, text in zip(self.records, texts, strict=True)]
        rewards = [settle(case, compare_words(case.inquiry()) if case.is_judgeable else None).reward for case in cases]
        return {SCORE: fmean(each or 0.0 for each in rewards), WELLFORMED: fmean(case.is_judgeable for case in cases)}


class PlateauWatch(Looks):
    """Looks at held-out records; ends training on a plateau.

    The run is then finished; `patience` 0 only looks. At the end the policy gets the weights of the best
    look back, or keeps those of the last step, as `pace` says. `tell` hears which are kept, and why
    training ended early, under the names that run.json has for it.
    """

    figure = SCORE

    def __init__(self, trainer: Trainer, held: HeldOut, pace: "Pace", tell: Callable[[str, str], None]) -> None:
        super().__init__(trainer, pace.steps, "held_out_steps")
        self._held, self._pace, self._tell = held, pace, tell
        self._is_over = False
        self._best = BestWeights(Path(str(trainer.args.output_dir)))

    def measure(self, policy: StackedPeftModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, float]:
        """Return how the held-out records are answered now."""
        return self._held.figures(policy, tokenizer)

    def looked(self, figures: dict[str, float], state: TrainerState, control: TrainerControl) -> None:
        """Keep what is best so far, and end training if nothing has become better for long."""
        looks = self.seen(state)
        is_best = best_of(looks) == looks[-1]
        if self._pace.keeps_best and is_best and state.is_world_process_zero:
            self._best.keep(self.policy, state.global_step, looks)
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
        self.trainer.accelerator.wait_for_everyone()
        self._tell("kept_weights", self._kept(self.seen(state), state.global_step))
        self.trainer.accelerator.wait_for_everyone()

    def _kept(self, looks: Sequence[Look], last: int) -> str:
        """Return which weights the policy has from now on, in words."""
        step, score = best_of(looks)
        of_best = f"best held-out score, {score:.2f}"
        if step == last:
            return f"of step {step}, the last, which has the {of_best}"
        if not self._pace.keeps_best:
            return f"of the last step, {last}; the {of_best}, was at step {step}"
        if not self._best.give_back(self.policy, step):
            return f"of the last step, {last}: those of step {step} ({of_best}) are no longer on file"
        start = ", the start: every look after it was worse" if step == 0 else ""
        return f"of step {step}, which has the {of_best}{start}"


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
