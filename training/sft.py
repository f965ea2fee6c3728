"""Supervised fine-tuning: the base learns to answer as the examples do, through a new adapter.

    accelerate launch -m training.sft --config training/configs/embedded/sft.yaml

The loss is on the answers alone. Every row is used whole, never cut; of the refiner's records, from
which it learns to cite, passages that nothing rests on may go. On a chain it goes on as `training.models.start`
says. Left out on purpose: evaluation while training (`assay eval run`).
"""

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedModel
from trl import SFTConfig, SFTTrainer

from training.config import Request, SftSettings
from training.data.packing import check_packing
from training.run.session import Prepared, common_arguments, prepare, run_command, session
from training.run.trainer import SafeTrainer


class SupervisedTrainer(SafeTrainer, SFTTrainer):
    """TRL's SFTTrainer, safe to kill at any moment."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    run_command("sft", train, arguments)


def train(request: Request) -> None:
    """Train an adapter and leave it, with its chain and its records, in the run folder."""
    ready = prepare("sft", request)
    with session(ready) as current:
        current.train(build_trainer(ready))


def build_trainer(ready: Prepared, model: PreTrainedModel | None = None, **arguments: Any) -> SupervisedTrainer:
    """Return the trainer of an adapter on the start; `arguments` of TRL's go over `options`."""
    settings, model = ready.settings, model or ready.model()
    assert isinstance(settings, SftSettings)
    if settings.packing:
        check_packing(model)
    return SupervisedTrainer(
        model=ready.policy(model),
        args=SFTConfig(**options(settings) | arguments),
        train_dataset=ready.dataset(),
        processing_class=ready.tokenizer,
    )


def options(settings: SftSettings) -> dict[str, Any]:
    """Return every training argument of TRL's that has an effect; none is left to its default."""
    return {
        **common_arguments(settings),
        "max_length": settings.max_length,
        "truncation_mode": "keep_start",
        "completion_only_loss": True,
        "assistant_only_loss": False,
        "packing": settings.packing,
        "packing_strategy": "bfd",
        "eval_packing": False,
        "padding_free": settings.packing,
        "pad_to_multiple_of": None,
        "shuffle_dataset": False,
        "loss_type": "nll",
        "router_aux_loss_coef": None,
        "activation_offloading": False,
    }


if __name__ == "__main__":
    main()
