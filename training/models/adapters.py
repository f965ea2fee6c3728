"""One LoRA adapter, read from a PEFT folder without PEFT: plain pairs of matrices, nothing that can run.

Only what can be stacked exactly is accepted: y = W x + scale * B (A x) on linear layers, each with a rank and an
alpha of its own where the adapter says so. Anything else (DoRA, trained biases, modules saved whole, initialisations
that change the base) is refused by name, because ignoring it would give wrong answers that look right;
`training.models.imported` merges it into a base.
"""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from evals.errors import ChainMismatch, MissingModel
from evals.io import sha256_of
from evals.schema.runs import check_patterns, read_adapter_config

WEIGHTS_NAME = "adapter_model.safetensors"
CONFIG_NAME = "adapter_config.json"
TENSOR_NAME = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight")

REFUSED: dict[str, str] = tomllib.loads(files("training.models").joinpath("refused.toml").read_text(encoding="utf-8"))
"""By setting of an adapter: what it stands for, which cannot be stacked."""
EMBEDDINGS = re.compile(r"(embed\w*|wte|lm_head|output_layer)(\.base_layer)?\.weight$")
EXPERT = ".experts."
"""In the names of layers that a router gives tokens to."""
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


def read_adapter(folder: Path, layers: Iterable[str] = ()) -> Adapter:
    """Return the adapter in a PEFT folder; MissingModel without its files, ChainMismatch if it cannot be stacked.

    `layers` are names of a model's layers that PEFT will match with its regular expressions, beside those that it changes.
    """
    weights, config = adapter_files(folder)
    try:
        settings = read_adapter_config(config)
        tensors = load_file(weights)
        check_patterns(settings, {*layers, *(name.partition(".lora_")[0] for name in tensors)})
    except (ValueError, SafetensorError) as error:
        raise ChainMismatch(
            f"the adapter in {folder} cannot be read ({error}). If the file is damaged, fetch it again, or"
            " train the stage again."
        ) from error
    if found := unstackable(settings, tensors):
        raise ChainMismatch(
            f"the adapter in {folder} uses {', '.join(found)}; only plain LoRA on linear layers can be"
            " stacked exactly. Train the stage again without it, or let `assay chain import` merge it into a base of"
            " its own."
        )
    sides: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        match = TENSOR_NAME.fullmatch(name)
        assert match is not None  # else it is unstackable
        sides.setdefault(match["module"], {})[match["side"]] = tensor
    pairs = {module: _pair(module, found, settings, folder) for module, found in sides.items()}
    return Adapter(folder, pairs, sha256_of(weights), sha256_of(config))


def unstackable(settings: Mapping[str, Any], tensors: Iterable[str]) -> list[str]:
    """Return what keeps an adapter from being stacked, in words; empty for plain LoRA.

    `settings` are of its adapter_config.json, `tensors` the names in its weights file.
    """
    kind = settings.get("peft_type")
    found = [f"an adapter of type {kind}"] if kind != "LORA" else []
    found += [words for name, words in REFUSED.items() if settings.get(name)]
    if settings.get("bias") not in (None, "none"):
        found.append(f"trained biases (bias={settings['bias']!r})")
    start = settings.get("init_lora_weights")
    if start not in PLAIN_STARTS:
        found.append(f"an initialisation that changes the base weights (init_lora_weights={start!r})")
    routed = sorted({match["module"] for name in tensors if (match := TENSOR_NAME.fullmatch(name)) and EXPERT in name})
    if routed:
        found.append(f"LoRA on experts, which are given some tokens of each row ({routed[0]} and so on)")
    others = [name.removeprefix("base_model.model.") for name in tensors if not TENSOR_NAME.fullmatch(name)]
    if others and not found:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        what = "weights other than lora_A and lora_B, saved whole or of no linear layer"
        if any(".lora_embedding_" in name for name in others):
            what = "LoRA on embeddings"
        elif all(EMBEDDINGS.search(name) for name in others):
            what = "embeddings saved whole, as PEFT does when they were resized or with save_embedding_layers"
        found.append(f"{what} ({others[0]}{more})")
    return found


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


def _pair(module: str, sides: Mapping[str, torch.Tensor], settings: Mapping[str, Any], folder: Path) -> LoraPair:
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
    rank, wanted = down.shape[0], _for_layer(settings.get("rank_pattern"), module, settings.get("r", 8))
    if rank != wanted:
        raise ChainMismatch(
            f"the adapter in {folder} has matrices of rank {rank} for {module}, and its {CONFIG_NAME} says {wanted}"
            " (r, rank_pattern), by which they are scaled; the two files do not belong together. Copy both again."
        )
    alpha = float(_for_layer(settings.get("alpha_pattern"), module, settings.get("lora_alpha", 8)))
    scale = alpha / math.sqrt(rank) if settings.get("use_rslora") else alpha / rank  # Kalajdzievski 2023, eq. 4
    return LoraPair(down=down, up=up.float() * scale)


def _for_layer(pattern: Mapping[str, Any] | None, module: str, default: Any) -> Any:
    """Return a layer's rank or alpha: of the first key that ends its name as PEFT matches them (get_pattern_key)."""
    values = (value for key, value in (pattern or {}).items() if re.match(rf"(.*\.)?({key})$", module))
    return next(values, default)
