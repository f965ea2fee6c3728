"""The model that a stage trains: a base, the frozen adapters of a chain, and one new adapter on top.

Nothing is merged unless asked: base + SFT + new is a sum, so a 4-bit base stays as it is. The trainer
sees an ordinary PeftModel with one adapter, `default`; the adapters before it are always at work.
The reference of DPO and GRPO is what the stage starts from, exactly: TRL's `ref` is a copy of
`default` made before the first step, when a new adapter's lora_B is zero and changes nothing, and a
continued one is what it was. `training.models.start` says what stays, goes on or is merged.
"""

import copy
import functools
import os
import tempfile
from collections import Counter
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from peft import LoraConfig, PeftModel, PeftModelForCausalLM, get_peft_model_state_dict
from peft.tuners.lora import Linear, LoraLayer
from peft.tuners.tuners_utils import BaseTuner
from safetensors.torch import save_file
from torch import nn
from torch.autograd import Function
from torch.nn import functional
from transformers import PreTrainedModel
from trl.trainer.utils import FusedCausalLMOutput

from evals.errors import BadConfig
from evals.io import sha256_of
from training.config import StageSettings
from training.models.adapters import CONFIG_NAME, WEIGHTS_NAME, read_adapter
from training.models.stack import merge_into
from training.models.start import Start


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
        if inputs or options or not names or not _layers_is_plain(layer, names):
            return self._alone(x, *inputs, **options)
        low = _type(x)
        a, b = self._adapters(names, low)
        flat = x.reshape(-1, x.shape[-1]).to(low)
        whole = torch.addmm(layer.get_base_layer()(flat), functional.linear(flat, a), b.t())
        return whole.view(*x.shape[:-1], -1)

    def _adapters(self, names: Sequence[str], low: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Return A (ranks, in) and B (out, ranks), kept between calls that ask for no gradient."""
        if torch.is_grad_enabled():
            return _together(self._layer, names, low)
        weights = [
            cast(Any, pairs)[name].weight for name in names for pairs in (self._layer.lora_A, self._layer.lora_B)
        ]
        key = (low, *((id(each), each.data_ptr(), each._version) for each in weights))
        if self._pair is None or key != self._key:
            self._key, self._pair = key, _together(self._layer, names, low)
        return self._pair


def _together(layer: LoraLayer, names: Sequence[str], low: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    above = [cast(Any, layer.lora_A)[name].weight.to(low) for name in names]
    below = [(cast(Any, layer.lora_B)[name].weight * layer.scaling[name]).to(low) for name in names]
    if len(names) == 1:
        return above[0], below[0]
    return torch.cat(above, 0), torch.cat(below, 1)


def _layers_is_plain(layer: LoraLayer, names: Sequence[str]) -> bool:
    """Whether nothing stands in the way: no dropout, no variant of LoRA, nothing merged or switched off."""
    return not (layer.disable_adapters or layer.merged or layer.lora_variant) and all(
        type(layer.lora_dropout[name]) is nn.Identity for name in names
    )


def _type(tensor: torch.Tensor) -> torch.dtype:
    """Return the type that a product with `tensor` is computed in."""
    device = tensor.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else tensor.dtype


IGNORED = -100
"""The label of a position that nothing is learned from."""
CHUNK = 2**23
"""Scores that are held at a time, whatever the vocabulary: 32 MB in float32."""
CHANGES_SCORES = (
    "final_logit_softcapping",
    "logit_scale",
    "output_multiplier",
    "lm_head_multiplier",
    "logits_scaling",
)
"""What the configuration of a model may do to its scores; such a model is left to TRL."""


class Scores(Function):
    """Log-probabilities of labels, and what describes the distributions they are drawn from.

    `hidden` (n, size), `weight` (vocabulary, size), `labels` (n,). Returns four tensors (n,): log-
    probability (nats; the only one with a gradient, and only towards `hidden`), entropy (nats), mean
    score, and whether the label is the likeliest token.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        labels: torch.Tensor,
        temperature: float,
    ) -> tuple[torch.Tensor, ...]:
        """Score all labels, a chunk of positions at a time."""
        device = hidden.device.type
        low = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        weight = weight.to(low)
        learns = ctx.needs_input_grad[0]
        gradient = torch.empty_like(hidden, dtype=torch.float32) if learns else None
        found = torch.zeros(4, len(labels), dtype=torch.float32, device=hidden.device)
        rows = max(1, CHUNK // len(weight))
        for start in range(0, len(labels), rows):
            part = slice(start, start + rows)
            chosen = labels[part, None]
            scores = torch.mm(hidden[part].to(low), weight.t()).float()
            scores = scores.div_(temperature) if temperature != 1.0 else scores
            found[2, part] = scores.mean(-1)
            logs = scores.log_softmax(-1)
            found[0, part] = logs.gather(-1, chosen)[:, 0]
            found[3, part] = (found[0, part] >= logs.amax(-1)).float()
            shares = torch.exp(logs, out=scores)
            found[1, part] = -torch.linalg.vecdot(shares, logs)
            if gradient is not None:
                shares.scatter_add_(-1, chosen, -torch.ones_like(chosen, dtype=shares.dtype))
                gradient[part] = torch.mm(shares.to(low), weight).float().div_(-temperature)
        ctx.save_for_backward(gradient)
        logprobs, entropy, mean, is_top = found.unbind()
        top = is_top.bool()
        ctx.mark_non_differentiable(entropy, mean, top)
        return logprobs, entropy, mean, top

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradient towards `hidden`."""
        (gradient,) = ctx.saved_tensors
        return gradient * gradients[0][:, None], None, None, None


def score_learned_tokens(model: PreTrainedModel, temperature: float = 1.0) -> None:
    """Let `model`, which TRL has given its fused head, score labelled positions only.

    Nothing changes on an accelerator, for models that rescale their scores, and where the output layer
    learns or has a bias.
    """
    whole, config = model.forward, model.config.get_text_config()
    if any(getattr(config, name, None) not in (None, 1, 1.0) for name in CHANGES_SCORES):
        return

    @functools.wraps(whole)
    def forward(
        *inputs: Any,
        fused_lm_head: bool = False,
        labels: torch.Tensor | None = None,
        **options: Any,
    ) -> Any:
        head = model.get_output_embeddings()
        if fused_lm_head and labels is not None and _is_plain(head, options):
            hidden = model.base_model(*inputs, **{**options, "use_cache": False}).last_hidden_state
            return _output(hidden[:, :-1], head.weight, labels[:, 1:], temperature)
        if labels is not None:
            options["labels"] = labels
        return whole(*inputs, fused_lm_head=fused_lm_head, **options)

    model.forward = forward


def _is_plain(head: Any, options: dict[str, Any]) -> bool:
    """Whether the output layer is an ordinary frozen one on a processor, asked in the ordinary way."""
    weight = head.weight
    return (
        weight.device.type == "cpu"
        and not weight.requires_grad
        and getattr(head, "bias", None) is None
        and not {"shift_labels", "num_items_in_batch", "output_router_logits"} & options.keys()
    )


def _output(
    hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor, temperature: float
) -> FusedCausalLMOutput:
    """Return what TRL's fused head returns: every field (rows, positions), zero where nothing is learned."""
    mask = labels != IGNORED
    logprobs, entropy, mean, is_top = (
        values.new_zeros(mask.shape).masked_scatter(mask, values)
        for values in Scores.apply(hidden[mask], weight, labels[mask], temperature)
    )
    return FusedCausalLMOutput(
        loss=-logprobs.sum() / mask.sum().clamp(min=1),
        log_probs=logprobs,
        entropy=entropy,
        mean_logits=mean,
        is_top1=is_top,
        label_mask=mask,
    )


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
        super().save_pretrained(save_directory, safe_serialization, [TRAINED], save_embedding_layers, *args, **kwargs)

    def merge_adapter(self, adapter_names: list[str] | None = None, safe_merge: bool = False) -> None:
        """Add the active adapters to the base's weights, as TRL does to hand them to vLLM.

        The weights as they were are kept beside, in main memory.
        """
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

    def _activate(self, names: Sequence[str]) -> None:
        self._tuner().set_adapter(list(names))


def policy_of(model: PreTrainedModel, start: Start, settings: StageSettings) -> StackedPeftModel:
    """Return the model that learns, built on the start as its mode says.

    BadConfig where adapters would be merged into quantised weights, or where the adapter to continue
    has another shape than the settings say.
    """
    merge_into(model, start.adapters_to_merge())
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
    """Return `model` with the adapter in the folder `continued` going on over the frozen ones.

    Only the dropout of `lora` is new; BadConfig if its rank, scale or layers are not the adapter's.
    """
    layers = frozenset(read_adapter(continued).pairs)
    kept = LoraConfig.from_pretrained(str(continued))
    wanted = _layers(model, lora.target_modules)
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
    """Load the adapters in the folders of `frozen` to be at work, untrained, under the one that learns."""
    names = {f"earlier_{stage}": folder for stage, folder in frozen.items()}
    for name, folder in names.items():
        policy.load_adapter(str(folder), adapter_name=name)
    policy.frozen = tuple(names)
    _without_dropout(policy, policy.frozen)
    policy.set_adapter(TRAINED)


def _layers(model: PreTrainedModel, targets: str | Collection[str] | None) -> frozenset[str]:
    """Return the names of the layers that PEFT would adapt, "all-linear" without the output."""
    output = model.get_output_embeddings()
    linear = [
        name for name, layer in model.named_modules() if isinstance(layer, torch.nn.Linear) and layer is not output
    ]
    if targets == "all-linear":
        return frozenset(linear)
    return frozenset(name for name in linear if any(f".{name}".endswith(f".{target}") for target in targets or ()))


def _shown(layers: Collection[str]) -> str:
    """Return how many layers there are of each kind: "4 q_proj, 4 v_proj"."""
    kinds = Counter(name.rpartition(".")[2] for name in layers)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no layer"


def _without_dropout(policy: PeftModel, names: Sequence[str]) -> None:
    """Let frozen adapters compute in training what they compute in use."""
    for module in policy.modules():
        if isinstance(module, LoraLayer):
            for name in set(names) & set(module.lora_dropout):
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


def write_adapter(model: PeftModel, folder: Path, weights: dict[str, torch.Tensor] | None = None) -> str:
    """Write the trained adapter in bfloat16 to `folder`, whole, and return the weights' SHA-256.

    Two files, no card, no copy of another adapter. `weights` are the model's where it holds only a
    part of them itself.
    """
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
