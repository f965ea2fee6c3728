"""Whether a model keeps rows apart that are packed into one sequence; tried on it before training.

Packed rows are told apart by their positions alone, which start again at 0 with each row. Kernels for
variable lengths (flash attention) read them; so do the masks that transformers 5.23 makes for sdpa and
eager, as long as nothing is cached. A model that does not look at them lets every row see those before
it, and nothing but the answers would tell.
"""

import torch
from transformers import PreTrainedModel

from evals.errors import BadConfig

LENGTHS = (7, 9)
LEAK = 0.1
"""Share of the effect of a full leak from which on rows count as seeing each other."""


def check_packing(model: PreTrainedModel) -> None:
    """Raise BadConfig if a packed row is not answered as it is alone, rounding apart."""
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
            f"packing is on, but this model with attention {model.config._attn_implementation} lets packed"
            f" rows see each other (its logits move by {apart:.2g} of {effect:.2g}); use attention"
            " flash_attention_2 on a GPU, or packing false."
        )


def _last(model: PreTrainedModel, ids: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
    return model(input_ids=ids, position_ids=positions, use_cache=False).logits[0, -1].float()
