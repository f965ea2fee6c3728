"""The model that a stage trains: a base, the frozen adapters of a chain, and one new adapter on top.

Nothing is merged: base + SFT + new is computed as a sum, so a 4-bit base stays as it is. The trainer
sees an ordinary PeftModel with one adapter, `default`; the adapters before it are always at work.
The reference of GRPO is base + frozen adapters exactly, because TRL's `ref` is a copy of `default`
made before the first step, when its lora_B is zero and it changes nothing.
"""

import os
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, PeftModelForCausalLM, get_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from peft.tuners.tuners_utils import BaseTuner
from safetensors.torch import save_file
from transformers import PreTrainedModel

from training.adapter import CONFIG_NAME, WEIGHTS_NAME
from training.config import StageSettings
from training.files import sha256_of

TRAINED = "default"
"""PEFT's and TRL's name for the adapter that learns."""
ALL_LINEAR = ("all-linear",)


class StackedPeftModel(PeftModelForCausalLM):
    """A PeftModel whose `frozen` adapters stay active and untrained, whichever other one is chosen."""

    frozen: tuple[str, ...] = ()

    def set_adapter(self, adapter_name: str | Sequence[str], inference_mode: bool = False) -> None:
        """Activate `adapter_name` on top of the frozen adapters; only `default` may learn.

        The chosen one comes first: Trainer resumes the first active adapter.
        """
        chosen = [adapter_name] if isinstance(adapter_name, str) else list(adapter_name)
        self.active_adapter = chosen[0]
        others = [name for name in chosen if name not in self.frozen]
        self._activate([*others, *self.frozen])
        learns = chosen[0] == TRAINED and not inference_mode
        for name, parameter in self.named_parameters():
            if ".lora_" in name:
                parameter.requires_grad_(learns and f".{TRAINED}." in name)

    def load_adapter(
        self,
        model_id: str | os.PathLike[str],
        adapter_name: str = TRAINED,
        is_trainable: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Load weights as PEFT does; only `default` is ever trainable, whatever a caller asks."""
        learns = is_trainable and adapter_name == TRAINED
        result = super().load_adapter(model_id, adapter_name, learns, *args, **kwargs)
        if set(self.frozen) <= set(self.peft_config):
            self.set_adapter(TRAINED)
        return result

    @contextmanager
    def disable_adapter(self) -> Generator[None]:
        """Answer as base + frozen adapters inside the block."""
        chosen = self.active_adapter
        self._activate(self.frozen)
        try:
            yield
        finally:
            self.set_adapter(chosen)

    def save_pretrained(
        self,
        save_directory: str,
        safe_serialization: bool = True,
        selected_adapters: list[str] | None = None,
        save_embedding_layers: str | bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Save `default` alone; the frozen adapters and TRL's `ref` have their own places.

        Embeddings are never trained here, so PEFT need not ask the Hub whether they were.
        """
        super().save_pretrained(
            save_directory, safe_serialization, [TRAINED], save_embedding_layers, *args, **kwargs
        )

    def _activate(self, names: Sequence[str]) -> None:
        tuner = self.base_model
        assert isinstance(tuner, BaseTuner)
        tuner.set_adapter(list(names))


def stacked_policy(
    model: PreTrainedModel, frozen: Mapping[str, Path], lora: LoraConfig, seed: int = 0
) -> StackedPeftModel:
    """Return `model` with the adapters in the folders of `frozen` under a new one that changes nothing.

    Without frozen adapters it is an ordinary model with one adapter that learns. ValueError if the new adapter would not start at zero: the reference would then be another model.
    """
    torch.manual_seed(seed)
    policy = StackedPeftModel(model, lora, adapter_name=TRAINED)
    names = {f"earlier_{stage}": folder for stage, folder in frozen.items()}
    for name, folder in names.items():
        policy.load_adapter(str(folder), adapter_name=name)
    policy.frozen = tuple(names)
    _without_dropout(policy, policy.frozen)
    policy.set_adapter(TRAINED)
    for name, parameter in policy.named_parameters():
        if f".lora_B.{TRAINED}." in name and bool(parameter.any()):
            raise ValueError(f"{name} does not start at zero (init {lora.init_lora_weights!r})")
    return policy


def _without_dropout(policy: PeftModel, names: Sequence[str]) -> None:
    """Let frozen adapters compute in training what they compute in use."""
    for module in policy.modules():
        if isinstance(module, LoraLayer):
            for name in names:
                if name in module.lora_dropout:
                    module.lora_dropout[name] = torch.nn.Identity()


def lora_of(settings: StageSettings, model: PreTrainedModel) -> LoraConfig:
    """Return PEFT's configuration of the adapter that the settings ask for."""
    targets = settings.lora_targets
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules="all-linear" if targets == ALL_LINEAR else list(targets),
        bias="none",
        base_model_name_or_path=model.name_or_path,
    )


def write_adapter(model: PeftModel, folder: Path) -> str:
    """Write the trained adapter in bfloat16 to `folder`, whole, and return the weights' SHA-256.

    Two files, no card, no copy of another adapter.
    """
    tensors = get_peft_model_state_dict(model, adapter_name=TRAINED, save_embedding_layers=False)
    rounded = {
        name: tensor.detach().to("cpu", torch.bfloat16).contiguous()
        for name, tensor in tensors.items()
    }
    config = model.peft_config[TRAINED]
    config.inference_mode = True
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".adapter-") as place:
        whole = Path(place) / folder.name
        config.save_pretrained(str(whole))
        save_file(rounded, whole / WEIGHTS_NAME, metadata={"format": "pt"})
        for name in (CONFIG_NAME, WEIGHTS_NAME):
            (whole / name).chmod(0o644)
        if folder.exists():
            folder.rename(Path(place) / "replaced")
        whole.rename(folder)
    return sha256_of(folder / WEIGHTS_NAME)
