"""SPECTER2 as its authors mean it: the base with the bottleneck adapter of a task, without `adapters`.

That package does not work with transformers 5. Its sequential bottleneck ("seq_bn", Pfeiffer et al. 2021,
EACL) is one small network in each layer, after the layer's own feed-forward part: with h what that part
gives and x what it was given, the layer's output is LN(up(f(down(LN(h + x)))) + h + x). A file that says
anything else, lacks a weight or brings one that has no place is refused.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import BertModel
from transformers.activations import ACT2FN
from transformers.models.bert.modeling_bert import BertLayer, BertOutput

from evals.errors import MissingModel

PLAIN: Mapping[str, object] = {
    "mh_adapter": False,
    "output_adapter": True,
    "ln_before": False,
    "ln_after": False,
    "residual_before_ln": True,
    "adapter_residual_before_ln": False,
    "original_ln_before": True,
    "original_ln_after": True,
    "is_parallel": False,
    "use_gating": False,
    "phm_layer": False,
}
"""What the settings of a sequential bottleneck say; one that is not written counts as this."""
WEIGHT_FILES = ("adapter.safetensors", "model.safetensors", "pytorch_adapter.bin")
PARTS = ("adapter_down.0.weight", "adapter_down.0.bias", "adapter_up.weight", "adapter_up.bias")


class AdaptedOutput(nn.Module):
    """The last part of a BERT layer with a bottleneck after it."""

    def __init__(self, output: BertOutput, down: nn.Linear, up: nn.Linear, activation: str) -> None:
        super().__init__()
        self.output, self.down, self.up = output, down, up
        self.activation = ACT2FN[activation]

    def forward(self, hidden_states: torch.Tensor, input_tensor: torch.Tensor) -> torch.Tensor:
        """Return the layer's output (batch, tokens, width)."""
        fed = self.output.dropout(self.output.dense(hidden_states))
        before = self.output.LayerNorm(fed + input_tensor)
        adapted = self.up(self.activation(self.down(before)))
        return self.output.LayerNorm(adapted + fed + input_tensor)


def put_adapter(model: BertModel, folder: Path) -> BertModel:
    """Return the model with the adapter of a folder in every layer; MissingModel if it does not fit."""
    settings = _settings(folder)
    weights = _weights(folder)
    used: set[str] = set()
    for number, layer in enumerate(model.encoder.layer):
        if not isinstance(layer, BertLayer) or not isinstance(layer.output, BertOutput):
            raise MissingModel(
                f"layer {number} is no BERT layer; SPECTER2's adapters fit BERT only"
            )
        names = _names(weights, number, folder)
        used.update(names)
        down, up = (_linear(weights, names[at], names[at + 1]) for at in (0, 2))
        activation = str(settings.get("non_linearity", "relu"))
        layer.register_module("output", AdaptedOutput(layer.output, down, up, activation))
    unused = sorted(name for name in set(weights) - used if "head" not in name.split(".")[0])
    if unused:
        raise MissingModel(
            f"the adapter in {folder} holds weights that have no place in a sequential bottleneck, such"
            f" as {unused[0]}; use the adapter that belongs to the base"
        )
    return model


def _settings(folder: Path) -> dict[str, object]:
    """Return the settings of a plain sequential bottleneck; MissingModel for any other."""
    try:
        read = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MissingModel(
            f"{folder} holds no adapter_config.json that can be read: {error}"
        ) from None
    settings = read.get("config", {})
    if not isinstance(settings, dict):
        settings = {}
    scaling = settings.get("scaling") or 1.0
    odd = {key: settings[key] for key, want in PLAIN.items() if settings.get(key, want) != want}
    if odd or scaling != 1.0:
        shown = odd or {"scaling": scaling}
        raise MissingModel(
            f"the adapter in {folder} is no plain sequential bottleneck: {shown}; only that kind can be"
            " loaded here"
        )
    return settings


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    for name in WEIGHT_FILES:
        file = folder / name
        if file.is_file() and name.endswith(".safetensors"):
            return load_file(file)
        if file.is_file():
            return torch.load(file, map_location="cpu", weights_only=True)
    raise MissingModel(f"{folder} holds no adapter weights; expected one of {WEIGHT_FILES}")


def _names(weights: Mapping[str, torch.Tensor], layer: int, folder: Path) -> list[str]:
    """Return the four weights of one layer's bottleneck; MissingModel unless there is exactly one."""
    pattern = re.compile(rf"layer\.{layer}\.output\.adapters\.[^.]+\.{re.escape(PARTS[0])}$")
    found = [name for name in weights if pattern.search(name)]
    names = [found[0].removesuffix(PARTS[0]) + part for part in PARTS] if len(found) == 1 else []
    if not names or any(name not in weights for name in names):
        raise MissingModel(
            f"the adapter in {folder} should hold one bottleneck for layer {layer}, found {len(found)}"
            f" whole or in part; fetch the adapter again"
        )
    return names


def _linear(weights: Mapping[str, torch.Tensor], weight: str, bias: str) -> nn.Linear:
    width_out, width_in = weights[weight].shape
    linear = nn.Linear(width_in, width_out)
    with torch.no_grad():
        linear.weight.copy_(weights[weight])
        linear.bias.copy_(weights[bias])
    return linear
