"""The model that a stage trains: a base, the frozen adapters of a chain, and one new adapter on top.

Nothing is merged unless asked: base + SFT + new is a sum, so a 4-bit base stays as it is. The trainer
sees an ordinary PeftModel with one adapter, `default`; the adapters before it are always at work.
The reference of DPO and GRPO is what the stage starts from, exactly: base and frozen adapters where
the one that learns is new, and where it is continued TRL's `ref`, a copy made before the first step. `training.models.start` says what stays, goes on or is merged.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from peft import LoraConfig
from transformers import PreTrainedModel

from training.config import StageSettings
from training.models.adapters import read_adapter
from training.models.stack import merge_into
from training.models.start import Start
from training.models.targets import lora_config
from training.upstream import TRAINED, StackedPeftModel


def policy_of(model: PreTrainedModel, start: Start, settings: StageSettings) -> StackedPeftModel:
    """Return the model that learns, built on the start as its mode says; BadConfig where it cannot be."""
    merge_into(model, {name: read_adapter(folder) for name, folder in start.merged.items()})
    if start.continued is None:
        policy = stacked_policy(model, start.frozen, lora_config(settings, model), settings.seed)
    else:
        policy = continued_policy(model, start.frozen, start.continued, settings)
    policy.is_rounded = settings.autocast == "bfloat16"
    return policy


def stacked_policy(
    model: PreTrainedModel, frozen: Mapping[str, Path], lora: LoraConfig, seed: int = 0
) -> StackedPeftModel:
    """Return `model` with the adapters in the folders of `frozen` under a new one that changes nothing.

    Without frozen adapters it is an ordinary model with one adapter that learns. ValueError if the new
    adapter would not start at zero: the reference would then be another model.
    """
    torch.manual_seed(seed)
    policy = StackedPeftModel(model, lora, adapter_name=TRAINED)
    policy.freeze_below(frozen)
    for name, parameter in policy.named_parameters():
        if f".lora_B.{TRAINED}." in name and bool(parameter.any()):
            raise ValueError(f"{name} does not start at zero (init {lora.init_lora_weights!r})")
    policy.starts_at_zero = True
    return policy


def continued_policy(
    model: PreTrainedModel, frozen: Mapping[str, Path], continued: Path, settings: StageSettings
) -> StackedPeftModel:
    """Return `model` with an adapter going on over the frozen ones, which `check_continued` compared with the settings."""
    kept = LoraConfig.from_pretrained(str(continued))
    kept.lora_dropout, kept.inference_mode = settings.lora_dropout, False
    kept.base_model_name_or_path = model.name_or_path
    policy = StackedPeftModel(model, kept, adapter_name=TRAINED)
    policy.load_adapter(str(continued), TRAINED, is_trainable=True)
    policy.freeze_below(frozen)
    return policy
