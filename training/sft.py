"""Supervised fine-tuning: the base learns to answer as the examples do, through a new adapter.

    accelerate launch -m training.sft --config training/configs/embedded/sft.yaml

The loss is on the answers alone. Every row is used whole, never cut; of the refiner's records, from
which it learns to cite, passages that nothing rests on may go. On a chain it goes on as `training.models.start`
says.
"""

from typing import Any

import torch
from accelerate import ParallelismConfig, PartialState
from accelerate.utils import DeepSpeedSequenceParallelConfig
from transformers import PreTrainedModel
from trl import SFTConfig, SFTTrainer

from evals.errors import BadConfig
from training.config import Request, SftSettings
from training.run.session import Prepared, common_arguments, prepare, run_command, session
from training.upstream import SafeTrainer


def options(settings: SftSettings) -> dict[str, Any]:
    """Return the training arguments; tests/training/cases/trl_arguments.yaml has what TRL makes of them."""
    return {
        **common_arguments(settings),
        "max_length": settings.max_length if settings.packing or not settings.padding_free else None,
        "completion_only_loss": True,
        "packing": settings.packing,
        "padding_free": settings.packing or settings.padding_free,
        "pad_to_multiple_of": None,
        "use_liger_kernel": settings.liger,
        "parallelism_config": divided_sequences(settings),
    }


def divided_sequences(settings: SftSettings) -> ParallelismConfig | None:
    """Return how GPUs share each sequence; None where each reads whole ones."""
    if settings.sequence_parallel == 1:
        return None
    return ParallelismConfig(
        sp_size=settings.sequence_parallel,
        sp_backend="deepspeed",
        sp_handler=DeepSpeedSequenceParallelConfig(sp_attn_implementation=settings.attention),
        dp_shard_size=max(1, PartialState().num_processes // settings.sequence_parallel),
    )


class SupervisedTrainer(SafeTrainer, SFTTrainer):
    """TRL's SFTTrainer, safe to kill at any moment."""


def train(request: Request) -> None:
    """Train an adapter and leave it, with its chain and its records, in the run folder."""
    ready = prepare("sft", request)
    with session(ready) as current:
        current.train(build_trainer(ready))


def build_trainer(ready: Prepared, model: PreTrainedModel | None = None, **arguments: Any) -> SupervisedTrainer:
    """Return the trainer of an adapter on the start; `arguments` of TRL's go over `options`."""
    settings = ready.settings
    assert isinstance(settings, SftSettings)
    told = SFTConfig(**options(settings) | arguments)  # before the base, which ZeRO-3 then loads in parts
    model = model or ready.model()
    if settings.packing or settings.padding_free:
        check_packing(model, settings.attention)
    return SupervisedTrainer(
        model=ready.policy(model), args=told, train_dataset=ready.dataset(), processing_class=ready.tokenizer
    )


LENGTHS = (7, 9)
LEAK = 0.1
"""Share of the effect of a full leak from which on rows count as seeing each other."""


def check_packing(model: PreTrainedModel, attention: str) -> None:
    """Raise BadConfig if a packed row is not answered as it is alone, rounding apart.

    Packed rows are told apart by their positions alone, which start again at 0 with each row. Kernels for
    variable lengths (flash attention) read them; so do the masks that transformers 5.23 makes for sdpa and
    eager, as long as nothing is cached. A model that does not look at them lets every row see those before
    it, and nothing but the answers would tell.
    """
    first, second = LENGTHS
    ids = torch.arange(1, first + second + 1, device=model.device)[None] % model.config.vocab_size
    restarted = torch.cat([torch.arange(length) for length in LENGTHS]).to(model.device)[None]
    with torch.no_grad():
        alone = _last(model, ids[:, first:], None)
        packed = _last(model, ids, restarted)
        leaking = _last(model, ids, None)
    effect = float((leaking - alone).abs().max())
    apart = float((packed - alone).abs().max())
    if apart > LEAK * effect:
        raise BadConfig(
            f"packing or padding_free is on, but this model with attention {attention} lets packed"
            f" rows see each other (its logits move by {apart:.2g} of {effect:.2g}); use attention"
            " flash_attention_2 on a GPU, or neither of the two."
        )


def _last(model: PreTrainedModel, ids: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
    return model(input_ids=ids, position_ids=positions, use_cache=False).logits[0, -1].float()


if __name__ == "__main__":
    run_command("sft", train)
