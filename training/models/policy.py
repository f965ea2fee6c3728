"""The model that a stage trains: a base, the frozen adapters of a chain, and one new adapter on top.

Nothing is merged unless asked: base + SFT + new is a sum, so a 4-bit base stays as it is. The trainer
sees an ordinary PeftModel with one adapter, `default`; the adapters before it are always at work.
The reference of DPO and GRPO is what the stage starts from, exactly: TRL's `ref` is a copy of
`default` made before the first step, when a new adapter's lora_B is zero and changes nothing, and a
continued one is what it was. `training.models.start` says what stays, goes on or is merged.
"""

import copy
import os
import tempfile
from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, PeftModelForCausalLM, get_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from peft.tuners.tuners_utils import BaseTuner
from safetensors.torch import save_file
from transformers import PreTrainedModel

from evals.errors import BadConfig
from evals.io import sha256_of
from training.config import StageSettings
from training.models.adapters import CONFIG_NAME, WEIGHTS_NAME, read_adapter
from training.models.speedups import join_adapters, output_rounded_once, round_frozen
from training.models.stack import merge_into
from training.models.start import Start

TRAINED = "default"
"""PEFT's and TRL's name for the adapter that learns."""
REFERENCE = "ref"
"""TRL's name for its frozen copy of the adapter as it was before the first step."""
ALL_LINEAR = ("all-linear",)


class StackedPeftModel(PeftModelForCausalLM):
    """A PeftModel whose `frozen` adapters stay active and untrained, whichever other one is chosen."""

    frozen: tuple[str, ...] = ()
    is_rounded: bool = False
    """Whether the base's linear layers are held in bfloat16, so that only autocast can compute them."""
    _unmerged: Mapping[str, torch.Tensor] = {}

    def set_adapter(self, adapter_name: str | Sequence[str], inference_mode: bool = False) -> None:
        """Activate it on top of the frozen adapters; it comes first (Trainer resumes that); only `default` learns."""
        chosen = [adapter_name] if isinstance(adapter_name, str) else list(adapter_name)
        self.active_adapter = chosen[0]
        others = [name for name in chosen if name not in self.frozen]
        self._tuner().set_adapter([*others, *self.frozen])
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

    def take_back(self) -> None:
        """Undo what TRL did to the policy: its own adapter was chosen, and that of a 4-bit base rounded.

        In bfloat16 a weight keeps 8 bits, so that a step below 1/512 of it is lost: all of them at the
        learning rates of preference training.
        """
        for name, parameter in self.named_parameters():
            if ".lora_" in name:
                parameter.data = parameter.data.float()
        self.set_adapter(TRAINED)

    def generate(self, *inputs: Any, **options: Any) -> Any:
        """Write answers in the arithmetic that they are scored in, doing once what each token needs."""
        rounded = torch.autocast("cpu", torch.bfloat16) if self.is_rounded else nullcontext()
        with rounded, output_rounded_once(self):
            return super().generate(*inputs, **options)

    @contextmanager
    def disable_adapter(self) -> Generator[None]:
        """Answer as base + frozen adapters inside the block."""
        chosen = self.active_adapter
        self._tuner().set_adapter([*self.frozen])
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
        """Save `default` alone, no embeddings: the frozen adapters and TRL's `ref` have their own places."""
        super().save_pretrained(save_directory, safe_serialization, [TRAINED], save_embedding_layers, *args, **kwargs)

    def merge_adapter(self, adapter_names: list[str] | None = None, safe_merge: bool = False) -> None:
        """Add the active adapters to the base's weights, as TRL does for vLLM; the weights are kept in main memory."""
        self._unmerged = {
            name: module.get_base_layer().weight.detach().to("cpu", copy=True)
            for name, module in self.named_modules()
            if isinstance(module, LoraLayer)
        }
        self._tuner().merge_adapter(adapter_names, safe_merge)

    def unmerge_adapter(self) -> None:
        """Put the base's weights back as they were, bit for bit; subtracting would round them each time."""
        self._tuner().unmerge_adapter()
        modules = dict(self.named_modules())
        with torch.no_grad():
            for name, weight in self._unmerged.items():
                layer = modules[name]
                assert isinstance(layer, LoraLayer)
                layer.get_base_layer().weight.copy_(weight)
        self._unmerged = {}

    def _tuner(self) -> BaseTuner:
        tuner = self.base_model
        assert isinstance(tuner, BaseTuner)
        return tuner


def policy_of(model: PreTrainedModel, start: Start, settings: StageSettings) -> StackedPeftModel:
    """Return the model that learns, built on the start as its mode says; BadConfig where it cannot be."""
    merge_into(model, {name: read_adapter(folder) for name, folder in start.merged.items()})
    lora = lora_of(settings, model)
    if start.continued is None:
        policy = stacked_policy(model, start.frozen, lora, settings.seed)
    else:
        policy = continued_policy(model, start.frozen, start.continued, lora)
    if policy.device.type == "cpu" and not torch.cuda.is_available():  # else it only waits there
        join_adapters(policy)
        if settings.autocast == "bfloat16":
            round_frozen(policy)
            policy.is_rounded = True
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
    _freeze_below(policy, frozen)
    for name, parameter in policy.named_parameters():
        if f".lora_B.{TRAINED}." in name and bool(parameter.any()):
            raise ValueError(f"{name} does not start at zero (init {lora.init_lora_weights!r})")
    return policy


def continued_policy(
    model: PreTrainedModel, frozen: Mapping[str, Path], continued: Path, lora: LoraConfig
) -> StackedPeftModel:
    """Return `model` with an adapter going on over the frozen ones; BadConfig if `lora` has another shape."""
    layers = frozenset(read_adapter(continued).pairs)
    kept = LoraConfig.from_pretrained(str(continued))
    output, targets = model.get_output_embeddings(), lora.target_modules
    linear = [name for name, each in model.named_modules() if isinstance(each, torch.nn.Linear) and each is not output]
    wanted = frozenset(
        name
        for name in linear
        if targets == "all-linear" or any(f".{name}".endswith(f".{target}") for target in targets or ())
    )
    if (kept.r, kept.lora_alpha, layers) != (lora.r, lora.lora_alpha, wanted):
        raise BadConfig(
            f"mode continue trains an adapter of rank {kept.r}, alpha {kept.lora_alpha} on"
            f" {_shown(layers)} further (of the run {continued.parent.name!r}), but the settings ask for rank"
            f" {lora.r}, alpha {lora.lora_alpha} on {_shown(wanted)}. Set lora_r, lora_alpha and"
            " lora_targets to the adapter's own, or use mode stack for a new one."
        )
    kept.lora_dropout, kept.inference_mode = lora.lora_dropout, False
    kept.base_model_name_or_path = model.name_or_path
    policy = StackedPeftModel(model, kept, adapter_name=TRAINED)
    policy.load_adapter(str(continued), TRAINED, is_trainable=True)
    _freeze_below(policy, frozen)
    return policy


def _freeze_below(policy: StackedPeftModel, frozen: Mapping[str, Path]) -> None:
    names = {f"earlier_{stage}": folder for stage, folder in frozen.items()}
    for name, folder in names.items():
        policy.load_adapter(str(folder), adapter_name=name)
    policy.frozen = tuple(names)
    for module in policy.modules():  # in training they compute what they do in use
        if isinstance(module, LoraLayer):
            for name in set(names) & set(module.lora_dropout):
                module.lora_dropout[name] = torch.nn.Identity()
    policy.set_adapter(TRAINED)


def _shown(layers: Collection[str]) -> str:
    """Return how many layers there are of each kind: "4 q_proj, 4 v_proj"."""
    kinds = Counter(name.rpartition(".")[2] for name in layers)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no layer"


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


def write_adapter(model: PeftModel, folder: Path, weights: dict[str, torch.Tensor] | None = None) -> str:
    """Write the trained adapter (or gathered `weights`) in bfloat16, whole, to `folder`; return its SHA-256."""
    tensors = get_peft_model_state_dict(model, state_dict=weights, adapter_name=TRAINED, save_embedding_layers=False)
    rounded = {name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    config = copy.copy(model.peft_config[TRAINED])  # training may go on
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
