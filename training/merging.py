"""Adapters made part of the weights they change: W + B A, for a stage that is trained on the result."""

from collections.abc import Mapping

import torch
from torch import nn

from evals.errors import BadConfig
from training.adapter import Adapter
from training.stack import pairs_by_layer

WHOLE = (torch.float32, torch.bfloat16, torch.float16)
"""Types of weights that an adapter can be added to."""


def merge_into(model: nn.Module, adapters: Mapping[str, Adapter]) -> None:
    """Add adapters to the weights of `model`, in place: summed in float32, rounded once to its type.

    BadConfig if a layer holds quantised weights; ChainMismatch if an adapter belongs to another
    model. Nothing is changed then.
    """
    targets = pairs_by_layer(model, adapters)
    for name in targets:
        layer = model.get_submodule(name)
        weight = layer.weight
        if type(layer) is not nn.Linear or weight.dtype not in WHOLE:
            raise BadConfig(
                f"the layer {name} holds quantised weights ({type(layer).__name__}, {weight.dtype}): adding"
                " an adapter would round most of it away. Use mode stack, which is exact over quantised"
                " weights, or load the base in float32 or bfloat16."
            )
    with torch.no_grad():
        for name, pairs in targets.items():
            layer = model.get_submodule(name)
            assert isinstance(layer, nn.Linear)
            total = layer.weight.float()
            for pair in pairs.values():
                total = total + (pair.up @ pair.down.float()).to(total.device)
            layer.weight.data = total.to(layer.weight.dtype)
