"""One LoRA adapter, read from a PEFT folder without PEFT: plain pairs of matrices, nothing that can run.

Only what can be stacked exactly is accepted: y = W x + scale * B (A x) on linear layers. Anything
else (DoRA, trained biases, modules saved whole, per-layer alphas, initialisations that change the
base) is refused by name, because ignoring it would give wrong answers that look right.
"""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from evals.errors import ChainMismatch, MissingModel
from evals.io import sha256_of

WEIGHTS_NAME = "adapter_model.safetensors"
CONFIG_NAME = "adapter_config.json"
TENSOR_NAME = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight")

REFUSED = {
    "use_dora": "DoRA (use_dora)",
    "use_qalora": "QA-LoRA (use_qalora)",
    "use_bdlora": "block-diagonal LoRA (use_bdlora)",
    "lora_bias": "trained LoRA biases (lora_bias)",
    "modules_to_save": "whole modules saved with the adapter (modules_to_save)",
    "trainable_token_indices": "trained token embeddings (trainable_token_indices)",
    "target_parameters": "LoRA on bare parameters (target_parameters)",
    "layer_replication": "repeated layers (layer_replication)",
    "alpha_pattern": "a different alpha per layer (alpha_pattern)",
    "alora_invocation_tokens": "activated LoRA (alora_invocation_tokens)",
    "arrow_config": "routing between adapters (arrow_config)",
    "kasa_config": "base weights that were cut down (kasa_config)",
    "monteclora_config": "Monte Carlo LoRA (monteclora_config)",
    "fan_in_fan_out": "transposed layers (fan_in_fan_out)",
}
PLAIN_STARTS = (None, True, False, "gaussian", "orthogonal", "eva")
"""Initialisations of lora_A and lora_B that leave the base weights as they are."""


@dataclass(frozen=True)
class LoraPair:
    """What an adapter adds to a layer, up @ (down @ x): (rank, inputs), and (outputs, rank) with the scale."""

    down: torch.Tensor
    up: torch.Tensor


@dataclass(frozen=True)
class Adapter:
    """An adapter's pairs by the name of the layer they belong to, and the checksums of its files."""

    folder: Path
    pairs: dict[str, LoraPair]
    sha256: str
    config_sha256: str


def read_adapter(folder: Path) -> Adapter:
    """Return the adapter in a PEFT folder; MissingModel without its files, ChainMismatch if it cannot be stacked."""
    weights, config = adapter_files(folder)
    try:
        settings = json.loads(config.read_text(encoding="utf-8"))
        tensors = load_file(weights)
    except (ValueError, SafetensorError) as error:
        raise ChainMismatch(
            f"the adapter in {folder} cannot be read ({error}); the file is damaged. Fetch it again, or"
            " train the stage again."
        ) from error
    _refuse_other_than_plain_lora(settings, folder)
    sides: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        match = TENSOR_NAME.fullmatch(name)
        if match is None:
            raise ChainMismatch(
                f"the adapter in {folder} holds {name!r}, which is not a LoRA matrix of a linear layer;"
                " only lora_A and lora_B are stacked. Train the stage again with plain LoRA."
            )
        sides.setdefault(match["module"], {})[match["side"]] = tensor
    pairs = {module: _pair(module, found, settings, folder) for module, found in sides.items()}
    return Adapter(folder, pairs, sha256_of(weights), sha256_of(config))


def adapter_files(folder: Path) -> tuple[Path, Path]:
    """Return the weights file and the configuration file of an adapter; MissingModel if absent."""
    weights, config = folder / WEIGHTS_NAME, folder / CONFIG_NAME
    if not folder.is_dir():
        raise MissingModel(
            f"the adapter folder {folder} is missing; put the stage's run folder back beside the chain,"
            " or train the stage again."
        )
    if not weights.is_file() and any(folder.glob("adapter_model.bin")):
        raise MissingModel(
            f"{folder} holds its adapter as a pickle (adapter_model.bin), which can run code and is not"
            f" loaded; save it as {WEIGHTS_NAME} (PEFT's `save_pretrained` does)."
        )
    for file in (weights, config):
        if not file.is_file():
            raise MissingModel(
                f"{folder} holds no {file.name}, so it is not a whole adapter; expected {WEIGHTS_NAME} and"
                f" {CONFIG_NAME}. Copy the folder again, or train the stage again."
            )
    return weights, config


def _refuse_other_than_plain_lora(settings: dict[str, object], folder: Path) -> None:
    kind = settings.get("peft_type")
    found = [f"an adapter of type {kind}"] if kind != "LORA" else []
    found += [words for name, words in REFUSED.items() if settings.get(name)]
    if settings.get("bias", "none") != "none":
        found.append(f"trained biases (bias={settings['bias']!r})")
    start = settings.get("init_lora_weights")
    if start not in PLAIN_STARTS:
        found.append(f"an initialisation that changes the base weights (init_lora_weights={start!r})")
    if found:
        raise ChainMismatch(
            f"the adapter in {folder} uses {', '.join(found)}; only plain LoRA on linear layers can be"
            " stacked exactly. Train the stage again without it, or merge it into a base model of its"
            " own and name that as the base."
        )


def _pair(module: str, sides: dict[str, torch.Tensor], settings: dict[str, object], folder: Path) -> LoraPair:
    down, up = sides.get("A"), sides.get("B")
    is_sound = (
        down is not None
        and up is not None
        and down.dim() == 2
        and up.dim() == 2
        and down.shape[0] == up.shape[1]
        and bool(torch.isfinite(down).all() and torch.isfinite(up).all())
    )
    if down is None or up is None or not is_sound:
        raise ChainMismatch(
            f"the adapter in {folder} has no sound pair of matrices for {module} (one is missing, has"
            " the wrong shape, or holds infinities); the file is damaged. Train the stage again."
        )
    rank, alpha = down.shape[0], float(str(settings.get("lora_alpha", 8)))
    scale = alpha / math.sqrt(rank) if settings.get("use_rslora") else alpha / rank  # Kalajdzievski 2023, eq. 4
    return LoraPair(down=down, up=up.float() * scale)
