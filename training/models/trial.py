"""A base tried before a run begins: what trainers, the end of a run and answers compute, on weights that mean nothing.

A copy of the base, as wide as it is and with as few blocks as show every kind, is given random weights, one tensor for each
shape, so that a 7B base takes seconds and no file of it is read. On it an adapter is made by PEFT, written, read by our reader and
laid over the model as at the end of a run, whose weights come and go with the layers. A base is refused where
that cannot be computed, or is something else than PEFT computes: nothing would be left of its training.
"""

import copy
import inspect
import json
import math
import re
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch
from accelerate.hooks import attach_align_device_hook_on_blocks
from peft import LoraConfig
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from evals.errors import BadConfig
from training.config import StageSettings
from training.models.adapters import Adapter, read_adapter
from training.models.base import class_for, context_of, first_line, hold_embeddings
from training.models.check import logprobs
from training.models.stack import Stack
from training.models.targets import Targets, attention_of, blocks_of, layer_summary, lora_config, targets_of
from training.upstream import TRAINED, StackedPeftModel, write_adapter

KERNELS = {"fla": "flash-linear-attention", "causal_conv1d": "causal-conv1d", "mamba_ssm": "mamba-ssm"}
"""Packages whose kernels transformers takes for linear attention and state-space layers, by what they are installed as."""
TOKENS = 8
WORDS = 1024
CHOICES = 32
"""Words and experts of the copy: enough for groups of experts, and as many as are chosen at a time."""
MANY = re.compile(r"(moe_)?(num|n)_(local_|routed_)?experts")
PERIOD = 1_000_003
"""Numbers that are drawn for the weights of a shape, and then repeated: a prime, so that no two rows are alike."""
ANOTHER = "Choose a base of another family."
APART = 0.05
"""Share of an adapter's effect by which two ways to compute it may differ, and of a token's on those before it."""


def check_base(
    skeleton: PreTrainedModel, settings: StageSettings, continued: Path | None = None
) -> tuple[Targets, str]:
    """Return what would be adapted on a base and its attention; BadConfig where the run could not begin or end."""
    kind = type(skeleton).__name__
    needed = [
        name
        for name, each in inspect.signature(skeleton.forward).parameters.items()
        if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD and name != "input_ids"
    ]
    if needed:
        raise BadConfig(
            f"{kind} goes on with no text alone: it needs {' and '.join(needed)} beside it. Choose a decoder of text."
        )
    if skeleton.base_model is skeleton:  # transformers 5.23: Llama 4 and Llama 3.2 Vision
        raise BadConfig(
            f"{kind} does not hand out what its output layer reads, from which TRL computes losses, so it cannot be"
            " trained here. Choose a base of another family."
        )
    check_length(skeleton.config, settings)
    attention = attention_of(skeleton, settings)
    if settings.is_packed and missing_kernels(skeleton.config.to_dict()):
        raise BadConfig(not_packed(skeleton, "its kernels are not installed"))
    targets = targets_of(skeleton, settings) if continued is None else check_continued(skeleton, settings, continued)
    if fault := _fault(skeleton.config, settings):
        raise BadConfig(f"{kind} cannot be trained to a chain that answers: {fault}")
    return targets, attention


def not_packed(model: "PreTrainedModel", why: str) -> str:
    """Say why rows of this model cannot be packed, and what to do."""
    config, kind = model.config.get_text_config(), type(model).__name__
    layers = sorted({each for each in getattr(config, "layer_types", None) or () if recurrent_kind(str(each))})
    instead = "use packing false and padding_free false"
    if layers:
        why = f"the state of its {', '.join(layers)} layers passes from one packed row to the next, with any attention"
        if lacking := " ".join(missing_kernels(config.to_dict())):
            instead += f"; kernels for GPUs keep the rows of some models apart (pip install {lacking})"
    elif model._supports_flash_attn:
        instead += ", or attention flash_attention_2 on a GPU"
    return f"packing or padding_free is on, but not with {kind}: {why}. Instead, {instead}."


def check_length(config: PreTrainedConfig, settings: StageSettings) -> None:
    """Raise BadConfig if rows may be longer than the model reads."""
    limit = context_of(config)
    if limit is None or settings.context <= limit:
        return
    names = [settings.limit, *(["max_completion_length"] if settings.context != settings.longest else [])]
    values = " + ".join(f"{name} {getattr(settings, name):,}" for name in names)
    is_sum = f" = {settings.context:,}" if len(names) > 1 else ""
    raise BadConfig(
        f"{values}{is_sum} is more than the {limit:,} tokens that the base reads (max_position_embeddings in its"
        f" config.json, with the scaling of rope where there is one). Set {' and '.join(names)} to {limit:,} or less"
        f"{' together' * bool(is_sum)}, or choose a base that reads more."
    )


def check_continued(skeleton: PreTrainedModel, settings: StageSettings, continued: Path) -> Targets:
    """Return the targets; BadConfig if the adapter that is to be trained further has other ones, or another size."""
    targets = targets_of(skeleton, settings)
    kept, layers = LoraConfig.from_pretrained(str(continued)), read_adapter(continued).pairs
    if (kept.r, kept.lora_alpha, set(layers)) != (settings.lora_r, settings.lora_alpha, set(targets.layers)):
        raise BadConfig(
            f"mode continue trains an adapter of rank {kept.r}, alpha {kept.lora_alpha} on {layer_summary(layers)} further (of"
            f" the run {continued.parent.name!r}), but the settings ask for rank {settings.lora_r}, alpha"
            f" {settings.lora_alpha} on {layer_summary(targets.layers)}. Set lora_r, lora_alpha and lora_targets to the"
            " adapter's own, or use mode stack for a new one."
        )
    return targets


def _policy(model: PreTrainedModel, settings: StageSettings) -> StackedPeftModel:
    """Return the model with an adapter of rank 1 that PEFT made, small random numbers in it, held on the processor."""
    lora = lora_config(settings.model_copy(update={"lora_r": 1, "lora_alpha": 1, "lora_dropout": 0.0}), model)
    policy = StackedPeftModel(model, lora, adapter_name=TRAINED, low_cpu_mem_usage=True)
    source = torch.Generator().manual_seed(0)
    for name, parameter in policy.named_parameters():
        if ".lora_" in name:
            owner, _, last = name.rpartition(".")
            drawn = torch.randn(parameter.shape, generator=source, device="cpu") / math.sqrt(parameter.shape[-1])
            setattr(policy.get_submodule(owner), last, nn.Parameter(drawn.bfloat16().float()))
    return policy


def _read_back(policy: StackedPeftModel) -> Adapter:
    """Return the adapter of a policy as it is read from the files that a run leaves."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "adapter"
        write_adapter(policy, folder)
        return read_adapter(folder)


# ---- what is computed --------------------------------------------------------------------------


def _drawn_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return weights for a model by name: random numbers, the same ones for every weight of a shape."""
    shapes = {name: each.shape for name, each in model.named_parameters(remove_duplicate=False)}
    of_shape: dict[torch.Size, torch.Tensor] = {}
    for number, shape in enumerate(dict.fromkeys(shapes.values())):
        source, count = torch.Generator().manual_seed(number), math.prod(shape)
        block = torch.randn(min(count, PERIOD), generator=source)
        drawn = block.repeat(-(-count // PERIOD))[:count].view(shape)
        is_vector = len(shape) < 2  # such as the weights of a norm, which are about 1
        of_shape[shape] = drawn.mul_(0.1).add_(1) if is_vector else drawn.div_(math.sqrt(shape[-1]))
    return {name: of_shape[shape] for name, shape in shapes.items()}


def _bare(config: PreTrainedConfig) -> PreTrainedModel:
    """Return a model without weights, in evaluation mode, whose buffers hold what they start with."""
    with torch.device("meta"):
        model = cast(PreTrainedModel, class_for(config).from_config(copy.deepcopy(config), dtype=torch.float32))
    for module in model.modules():
        for name, each in module.named_buffers(recurse=False):
            setattr(module, name, torch.zeros_like(each, device="cpu"))
    model.initialize_weights()
    return model.eval()


def _fault(config: PreTrainedConfig, settings: StageSettings) -> str:
    """Return why a run on a base of this configuration could not end well, and what to do; "" where it could."""
    key = (config.to_json_string(use_diff=False), settings.lora_targets)
    if key not in _KNOWN:
        small = _small(config)
        _KNOWN[key] = _try_training(config, settings) if small is None or _try_training(small, settings) else ""
    return _KNOWN[key]


_KNOWN: dict[tuple[str, tuple[str, ...]], str] = {}
"""What was found of a configuration and targets: a session prepares one base several times."""


def _small(config: PreTrainedConfig) -> PreTrainedConfig | None:
    """Return a configuration of few blocks that show every kind, few words and few experts; None if it has to stay whole."""
    small = copy.deepcopy(config)
    told = small.get_text_config(decoder=True)
    try:
        for name, value in list(vars(told).items()):
            limit = WORDS if name.startswith("vocab_size") else CHOICES if MANY.fullmatch(name) else None
            if isinstance(value, int) and limit and value > limit:
                setattr(told, name, limit)
        for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
            setattr(told, name, None)
        kinds = _kinds_of_blocks(small)
        count = max(2, 1 + max((kinds.index(each) for each in set(kinds)), default=0))
        if count < len(kinds):
            for name, value in list(vars(told).items()):
                if isinstance(value, list | tuple) and len(value) == len(kinds):
                    setattr(told, name, value[:count])
            told.num_hidden_layers = count
        return small if set(_kinds_of_blocks(small)) == set(kinds) else None
    except Exception:  # whatever a configuration raises that tells of its parts in another way
        return None


def _kinds_of_blocks(config: PreTrainedConfig) -> list[tuple[object, ...]]:
    """Return what each block of the language model is made of, and its kind of layer where the configuration tells it."""
    with torch.device("meta"):
        model = cast(PreTrainedModel, class_for(config).from_config(copy.deepcopy(config)))
    types = getattr(config.get_text_config(decoder=True), "layer_types", None) or ()
    found = []
    for at, name in enumerate(blocks_of(model)):
        block = model.get_submodule(name)
        parts = tuple((each, type(part)) for each, part in block.named_modules())
        sizes = tuple((each, part.shape) for each, part in block.named_parameters())
        found.append((parts, sizes, types[at] if at < len(types) else None))
    return found


@torch.no_grad()
def _try_training(config: PreTrainedConfig, settings: StageSettings) -> str:
    """Return what goes wrong when a model of this configuration is trained, read again and asked; "" where nothing does."""
    held, first = _bare(config), "it cannot go on with a text"
    drawn = _drawn_weights(held)
    for name, each in held.named_modules():
        for last, _ in each.named_parameters(recurse=False):
            setattr(each, last, nn.Parameter(drawn[f"{name}.{last}".lstrip(".")], False))
    ids = torch.arange(1, TOKENS + 1)[None] % config.get_text_config(decoder=True).vocab_size
    other = ids.clone()
    other[0, -1] += 1
    try:
        plain, moved = held(input_ids=torch.cat((ids, other)), use_cache=False).logits.log_softmax(-1)
        if _gap(plain[:-1], moved[:-1]) > APART * _gap(plain[-1], moved[-1]):
            return (
                "it reads the words behind the one that it is to write, as encoders and models that fill gaps do."
                f" {ANOTHER}"
            )
        first = "TRL cannot compute its loss"
        if fault := _routing_problem(held, ids):
            return fault
        first = "an adapter could be trained, but no chain could take it up"
        policy = _policy(held, settings)
        learned = policy(input_ids=ids, use_cache=False).logits[0, -1].log_softmax(-1)
        adapter = _read_back(policy)
        policy.unload()
        if strange := sorted({*adapter.pairs} ^ {*targets_of(held, settings).layers}):
            return f"PEFT lays the adapter on other layers than lora_targets names ({strange[0]}); name them in full."
        first = "it cannot write the answers of several stages together"
        _answers(Stack(held, {TRAINED: adapter}), ids)
        first = "the end of a run cannot compute it with an adapter, its weights read as they are needed"
        found = _at_the_end(config, drawn, adapter, ids)
    except Exception as error:  # whatever a model of another kind raises
        return f"{first} ({first_line(error).partition('. ')[0]}). {ANOTHER}"
    effect = _gap(plain[-1], learned)
    gap = max(_gap(plain[-1], found[0]), _gap(learned, found[1]))
    if math.isfinite(effect) and not gap <= max(APART * effect, 1e-3):
        return (
            "at the end of a run, with an adapter beside its layers and its weights read as they are needed, it computes"
            f" something else than PEFT trains (log-probabilities {gap:.2g} apart, where the adapter moves them by"
            f" {effect:.2g}). {ANOTHER}"
        )
    return ""


def _gap(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())


def _routing_problem(model: PreTrainedModel, ids: torch.Tensor) -> str:
    """Return why TRL cannot compute the load-balancing loss that a configuration asks for; "" where it can or need not."""
    told = model.config.get_text_config()
    if not hasattr(told, "output_router_logits") or not getattr(told, "router_aux_loss_coef", 0.0):
        return ""
    routed = model.base_model(input_ids=ids, use_cache=False, output_router_logits=True)
    if getattr(routed, "router_logits", None):
        return ""
    return (
        f"its config.json has a router_aux_loss_coef of {told.router_aux_loss_coef:g}, and it hands out no router logits,"
        " from which TRL computes that loss. Set router_aux_loss_coef to 0 there."
    )


def _answers(stack: Stack, ids: torch.Tensor) -> None:
    """Write two answers with the base and the stage in one batch, whose questions are of different lengths."""
    both = ids.repeat(2, 1)
    seen = torch.ones_like(both)
    seen[0, 0] = 0
    with torch.inference_mode(), stack.rows([frozenset(), frozenset({TRAINED})]):
        cast(Any, stack.model).generate(
            input_ids=both, attention_mask=seen, max_new_tokens=2, min_new_tokens=2, do_sample=False, pad_token_id=0
        )


def _at_the_end(
    config: PreTrainedConfig, weights: Mapping[str, torch.Tensor], adapter: Adapter, ids: torch.Tensor
) -> torch.Tensor:
    """Return the log-probabilities of base and stage after `ids` as the end of a run measures them."""
    model = _bare(config)
    skipped = [*(model._skip_keys_device_placement or ())]
    attach_align_device_hook_on_blocks(
        model, execution_device={"": torch.device("cpu")}, offload={"": True}, weights_map=weights, skip_keys=skipped
    )
    hold_embeddings(model)
    stack = Stack(model, {TRAINED: adapter}, "cpu")
    return logprobs(model, ids, stack, [frozenset(), frozenset({TRAINED})])


# ---- kernels of linear attention and state-space layers ------------------------------------------


def missing_kernels(config: Mapping[str, Any], has: Callable[[str], object] | None = None) -> tuple[str, ...]:
    """Return what to install for the linear attention or state-space layers of a base, by its configuration.

    Read from transformers' own code of the model; empty for a base without such layers, or with all that it wants.
    """
    told = config.get("text_config") or config
    kinds = told.get("layer_types") or told.get("layers_block_type") or ["linear_attention"]
    if not any(recurrent_kind(str(each)) for each in kinds):
        return ()
    family, spec = str(told.get("model_type", "")).removesuffix("_text"), find_spec("transformers")
    file = Path(str(spec and spec.origin)).parent / "models" / family / f"modeling_{family}.py"
    code = file.read_text(encoding="utf-8") if file.is_file() else ""
    return tuple(
        name for package, name in KERNELS.items() if f'"{package}"' in code and not (has or find_spec)(package)
    )


def kernel_notes(folder: Path) -> tuple[str, ...]:
    """Return what to install for a base in a folder that would be computed slowly without; empty for most."""
    file = folder / "config.json"
    lacking = missing_kernels(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else ()
    if not lacking:
        return ()
    return (
        f"the base has linear attention or state-space layers, which PyTorch computes slowly without the kernels of"
        f" {' and '.join(lacking)}; on a machine with a GPU: pip install {' '.join(lacking)}.",
    )


def recurrent_kind(kind: str) -> bool:
    """Whether layers of a kind, as configurations name them, pass a state from token to token."""
    return kind == "linear_attention" or "attention" not in kind
