"""The adapted layers of a policy on a processor, computed in few steps.

PEFT goes through the adapters of a layer one by one, and for each converts the input to the adapter's
type and back, multiplies by its scale and adds. Here the adapters at work lie side by side,

    y = W x + B (A x),   A = [A1; A2; ...],   B = [s1 B1, s2 B2, ...]

so a chain's frozen adapters cost next to nothing beside the one that learns, and while no gradient is
asked for (answers are sampled, the reference is asked) A and B are put together once, not at each token.
"""

import functools
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from peft import PeftModel
from peft.tuners.lora import Linear, LoraLayer
from torch import nn
from torch.nn import functional


def join_adapters(policy: PeftModel) -> None:
    """Let the ordinary linear layers of `policy` compute their adapters together."""
    for layer in policy.modules():
        if type(layer) is Linear and type(layer.get_base_layer()) is nn.Linear:
            layer.forward = _Joined(layer, layer.forward)


def round_frozen(policy: PeftModel) -> None:
    """Hold the base's linear layers in bfloat16, as autocast would round them for each use.

    The same numbers are computed, bit for bit, without a rounded copy of the base at every forward
    pass: half the memory, and far faster where few tokens are read at a time, as in sampling. The
    output layer stays, where it is the embedding too.
    """
    output = policy.get_output_embeddings()
    for name, layer in policy.named_modules():
        if type(layer) is nn.Linear and layer is not output and ".lora_" not in name:
            layer.weight.data = layer.weight.data.to(torch.bfloat16)


@contextmanager
def output_rounded_once(model: nn.Module) -> Generator[None]:
    """Round the output layer for autocast once inside the block, not at each token that is written."""
    head = cast(Any, model).get_output_embeddings()
    low = _type(head.weight)
    if type(head) is not nn.Linear or head.weight.dtype == low or head.weight.requires_grad:
        yield
        return
    weight = head.weight.detach().to(low)
    head.forward = lambda x: functional.linear(x.to(low), weight, head.bias)
    try:
        yield
    finally:
        del head.forward


class _Joined:
    """The forward pass of one adapted layer; `alone` is PEFT's own."""

    def __init__(self, layer: LoraLayer, alone: Any) -> None:
        functools.update_wrapper(self, alone)
        self._layer, self._alone = layer, alone
        self._key: tuple[object, ...] = ()
        self._pair: tuple[torch.Tensor, torch.Tensor] | None = None

    def __call__(self, x: torch.Tensor, *inputs: Any, **options: Any) -> torch.Tensor:
        layer = self._layer
        names = [name for name in layer.active_adapters if name in layer.lora_A]
        if inputs or options or not names or not _is_plain(layer, names):
            return self._alone(x, *inputs, **options)
        low = _type(x)
        a, b = self._adapters(names, low)
        flat = x.reshape(-1, x.shape[-1]).to(low)
        whole = torch.addmm(layer.get_base_layer()(flat), functional.linear(flat, a), b.t())
        return whole.view(*x.shape[:-1], -1)

    def _adapters(
        self, names: Sequence[str], low: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return A (ranks, in) and B (out, ranks), kept between calls that ask for no gradient."""
        if torch.is_grad_enabled():
            return _together(self._layer, names, low)
        weights = [
            cast(Any, pairs)[name].weight
            for name in names
            for pairs in (self._layer.lora_A, self._layer.lora_B)
        ]
        key = (low, *((id(each), each.data_ptr(), each._version) for each in weights))
        if self._pair is None or key != self._key:
            self._key, self._pair = key, _together(self._layer, names, low)
        return self._pair


def _together(
    layer: LoraLayer, names: Sequence[str], low: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    above = [cast(Any, layer.lora_A)[name].weight.to(low) for name in names]
    below = [(cast(Any, layer.lora_B)[name].weight * layer.scaling[name]).to(low) for name in names]
    if len(names) == 1:
        return above[0], below[0]
    return torch.cat(above, 0), torch.cat(below, 1)


def _is_plain(layer: LoraLayer, names: Sequence[str]) -> bool:
    """Whether nothing stands in the way: no dropout, no variant of LoRA, nothing merged or switched off."""
    return not (layer.disable_adapters or layer.merged or layer.lora_variant) and all(
        type(layer.lora_dropout[name]) is nn.Identity for name in names
    )


def _type(tensor: torch.Tensor) -> torch.dtype:
    """Return the type that a product with `tensor` is computed in."""
    device = tensor.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else tensor.dtype
