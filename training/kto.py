"""Kahneman-Tversky optimisation: answers that people called good become likelier, those they called bad less likely.

    accelerate launch -m training.kto --config training/configs/embedded/kto.yaml

The chain that the run starts from is also the reference, exactly, so the first loss is half of what a row weighs. How far
the policy has moved on the whole is estimated in each batch on answers beside the question of another row (arXiv:2402.01306,
section 4.1), so a batch needs two rows or more. TRL fixes these by the order of the rows, so rows are shuffled once, by the
seed. Such a row may be cut at `max_length`; a row that is learned from never is.
"""

import random
from typing import TYPE_CHECKING, Any

from pydantic import Field

from evals.errors import BadConfig
from training.dpo import PreferenceSettings, say_preferences, tokenize_answers, train_preferences

if TYPE_CHECKING:
    from training.data.tokens import Rows
    from training.run.session import Prepared
    from training.upstream import SafeTrainer


class KtoSettings(PreferenceSettings):
    """Settings of Kahneman-Tversky optimisation."""

    about = "Learn from answers called good or bad: thumbs, votes, annotations."
    example = "--config training/configs/embedded/kto.yaml --data thumbs --output runs/kto"
    starts_from = "that KTO starts from, such as runs/embedded/sft."
    answers = ("completion",)

    loss_type: str = Field("kto", description="one of TRL's losses: kto, apo_zero_unpaired")
    desirable_weight: float = Field(
        0.0, ge=0.0, description="weight of a good answer; 0 = as much as makes both kinds weigh alike in all"
    )
    undesirable_weight: float = Field(1.0, gt=0.0, description="weight of a bad answer")

    def check_batches(self, rows: int, processes: int = 1) -> None:
        """Raise BadConfig for a batch of one row, in which there is no other question."""
        if self.batch < 2 and self.loss_type == "kto":
            raise BadConfig(
                "batch is 1; KTO puts each answer beside the question of another row of its batch to see how far the model"
                " has moved. Use batch 2 or more, with a smaller accumulation, or loss_type apo_zero_unpaired."
            )


def options(settings: KtoSettings) -> dict[str, Any]:
    """Return the stage's own training arguments; tests/training/cases/trl_arguments.yaml has what TRL makes of them."""
    return {
        "beta": settings.beta,
        "loss_type": settings.loss_type,
        "desirable_weight": settings.desirable_weight or 1.0,
        "undesirable_weight": settings.undesirable_weight,
        "max_length": settings.max_length,
        "train_sampling_strategy": "sequential",
        "pad_to_multiple_of": None,
    }


def train(ready: "Prepared[KtoSettings]") -> None:
    """Train an adapter on top of a chain and leave it, with the longer chain, in the run folder."""
    train_preferences(ready, build_trainer)


def build_trainer(ready: "Prepared[KtoSettings]") -> "SafeTrainer":
    """Return the trainer of an adapter on the chain, which is also the reference."""
    from trl import KTOConfig, KTOTrainer

    from training.run.folder import say
    from training.upstream import PairTrainer

    settings = ready.settings
    weight = settings.desirable_weight or balanced_weight(ready.data, settings.undesirable_weight)
    told = KTOConfig(**ready.arguments, **options(settings) | {"desirable_weight": weight})
    say_preferences(ready)
    say(f"a good answer weighs {weight:.3g}, a bad one {settings.undesirable_weight:.3g}")
    rows = tokenize_answers(ready.data, ready.tokenizer)
    random.Random(settings.seed).shuffle(rows)
    return ready.trainer(PairTrainer.before(KTOTrainer), told, with_mismatched(rows, settings.batch))


def balanced_weight(data: "Rows[Any]", undesirable: float) -> float:
    """Return the weight of a good answer with which all of them weigh as much as all bad ones."""
    good = sum(item.label for item in data.items)
    return undesirable * (data.count - good) / good


def with_mismatched(rows: list[dict[str, Any]], batch: int) -> list[dict[str, Any]]:
    """Return the rows with `KL_completion_ids`: the answer of the row before in the batch; of the first, of the last.

    A row that is alone in the last batch has that of the batch before.

    >>> rows = [{"completion_ids": [n]} for n in range(5)]
    >>> [row["KL_completion_ids"] for row in with_mismatched(rows, 2)]
    [[1], [0], [3], [2], [3]]
    """
    found = []
    for at, row in enumerate(rows):
        first, last = at - at % batch, min(at - at % batch + batch, len(rows)) - 1
        other = at - 1 if at > first or first == last else last
        found.append({**row, "KL_completion_ids": rows[other]["completion_ids"]})
    return found


if __name__ == "__main__":
    from training.run.session import run_command

    run_command("kto", KtoSettings, train)
