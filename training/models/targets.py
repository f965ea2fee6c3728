"""Which layers of a base an adapter is laid on, asked of the model itself before any weight is read.

A skeleton (`training.models.base.skeleton`) has every layer of a base and no weights, so a run that cannot end is
refused before it begins, and the dry run shows what would be trained. Adapters go to linear layers in the blocks of
the language model. Left out, and said, are picture and sound towers, projectors, output layers, routers, experts that
are bare parameters, and layers whose weights a fused kernel reads past the layer.
"""

import inspect
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from peft import LoraConfig
from peft.utils.transformers_weight_conversion import convert_peft_config_for_transformers
from torch import nn
from transformers import PreTrainedModel
from transformers.conversion_mapping import get_checkpoint_conversion_mapping
from transformers.pytorch_utils import Conv1D

from evals.errors import BadConfig
from training.config import StageSettings
from training.models.stack import is_plain, shape_of

ALL_LINEAR = ("all-linear",)
ROUTERS = {"router", "gate", "shared_expert_gate"}
"""Names of the layers that choose experts, in blocks that have experts."""
ELSEWHERE = "not in the blocks of the language model"
OUTPUT = "the output layer"
EXPERT = "experts"
CONVERTED = "PEFT would turn these names into LoRA on the experts' bare parameters"
NOT_ASKED = "not among lora_targets"


@dataclass(frozen=True)
class Targets:
    """The layers that an adapter is laid on, by full name, and what that comes to.

    `weights` are those of the adapter, `base_weights` those of the whole base. `left_out` has the kinds of layers that
    stay as they are, by reason.
    """

    layers: tuple[str, ...]
    weights: int
    base_weights: int
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """Say how much is adapted: "7 kinds, 224 layers, 168 M weights (2.3 %): q_proj, ..."."""
        kinds = _kinds(self.layers)
        share = 100 * self.weights / max(1, self.base_weights)
        return (
            f"{len(kinds)} {'kind' if len(kinds) == 1 else 'kinds'}, {len(self.layers)} layers,"
            f" {_count(self.weights)} weights ({share:.2g} %): {', '.join(sorted(kinds))}"
        )

    def record(self) -> dict[str, str | int]:
        """Return what run.json keeps of it."""
        left = {f"not adapted, {why}": kinds for why, kinds in self.left_out.items()}
        return {"adapts": self.summary, **left}


def targets_of(model: PreTrainedModel, settings: StageSettings) -> Targets:
    """Return the layers that `lora_targets` means on a model, whose weights are not looked at.

    Raises BadConfig, with the kinds of layers that the base has, for a name that no layer has, and where no layer
    is left. A name that only experts or routers have is left out as long as another names a layer.
    """
    found = _linear_layers(model)
    usable = [name for name, why in found.items() if not why]
    asked = settings.lora_targets
    if asked == ALL_LINEAR:
        chosen, only_experts = usable, []
    else:
        chosen = [name for name in usable if any(_is_called(name, each) for each in asked)]
        unmet = [each for each in asked if not any(_is_called(name, each) for name in chosen)]
        only_experts = [each for each in unmet if _is_expert(each, model, found)]
        if unknown := [each for each in unmet if each not in only_experts]:
            raise BadConfig(_not_found(model, unknown, found))
    if not chosen:
        raise BadConfig(_nothing_left(model, asked, found))
    layers = dict(model.named_modules())
    sizes = sum(sum(shape_of(layers[name])) for name in chosen)
    return Targets(
        layers=tuple(chosen),
        weights=settings.lora_r * sizes,
        base_weights=sum(each.numel() for each in model.parameters()),
        left_out=_left_out(model, found, chosen, only_experts),
    )


def lora_config(settings: StageSettings, model: PreTrainedModel) -> LoraConfig:
    """Return PEFT's configuration of the adapter that the settings ask for; raises as `targets_of`."""
    layers = targets_of(model, settings).layers
    return lora_on(model, layers, settings.lora_r, settings.lora_alpha, settings.lora_dropout)


def lora_on(model: PreTrainedModel, layers: Collection[str], rank: int, alpha: int, dropout: float = 0.0) -> LoraConfig:
    """Return PEFT's configuration of an adapter on exactly these layers."""
    modules, excluded = peft_names(model, layers)
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=list(modules),
        exclude_modules=excluded,
        bias="none",
        fan_in_fan_out=any(isinstance(model.get_submodule(name), Conv1D) for name in layers),
        base_model_name_or_path=model.name_or_path,
    )


def peft_names(model: nn.Module, layers: Iterable[str]) -> tuple[tuple[str, ...], str | None]:
    """Return target_modules and exclude_modules that choose exactly these layers in plain PEFT.

    The last part of a name where that is enough, with towers excluded by a pattern; else as many parts as it takes.
    """
    wanted = set(layers)
    every = [name for name, _ in model.named_modules() if name]
    clashing = {name for name in every if name not in wanted and name.rpartition(".")[2] in _kinds(wanted)}
    towers = {_outside(name, wanted) for name in clashing} - {""}
    inside = [name for name in every if not any(name == tower or name.startswith(f"{tower}.") for tower in towers)]
    excluded = rf"({'|'.join(re.escape(each) for each in sorted(towers))})\..*" if towers else None
    chosen: set[str] = set()
    for name in wanted:
        parts = name.split(".")
        ends = (".".join(parts[-length:]) for length in range(1, len(parts) + 1))
        chosen.add(next(end for end in ends if all(each in wanted for each in inside if _is_called(each, end))))
    return tuple(sorted(chosen)), excluded


def attention_of(skeleton: PreTrainedModel, settings: StageSettings) -> str:
    """Return the attention that a model would compute with; BadConfig for one that it cannot, with those that it can."""
    own = str(skeleton.config._attn_implementation)
    asked = settings.attention
    parts = [each for each in skeleton.modules() if isinstance(each, PreTrainedModel)]
    known = getattr(skeleton, "_compatible_flash_implementations", None)
    able = ["eager"]
    if all(each._supports_sdpa for each in parts):
        able.insert(0, "sdpa")
    if all(each._supports_flash_attn for each in parts):
        able += [each for each in ("flash_attention_2", "flash_attention_3") if known is None or each in known]
    if asked == "auto":
        return own
    if asked not in able:
        raise BadConfig(
            f"attention {asked} is not what {type(skeleton).__name__} can compute with in transformers; it can with"
            f" {', '.join(able)}. Set attention to one of these, or to auto, which is {own} for this model."
        )
    return asked


def _linear_layers(model: PreTrainedModel) -> dict[str, str]:
    """Return the linear layers of a model by full name, with why they are not adapted ("" = they can be)."""
    output, layers = model.get_output_embeddings(), dict(model.named_modules())
    blocks = blocks_of(model)
    converted = _converted_layers(model)
    with_experts = {name for name in blocks if _experts(layers[name])}
    found = {}
    for name, layer in layers.items():
        if not isinstance(layer, nn.Linear | Conv1D):
            continue
        block = next((each for each in blocks if name.startswith(f"{each}.")), "")
        inner, last = name.removeprefix(f"{block}.").split("."), name.rpartition(".")[2]
        parent = layers[name.rpartition(".")[0]]
        if layer is output:
            found[name] = OUTPUT
        elif not block:
            found[name] = ELSEWHERE
        elif block in with_experts and ROUTERS & set(inner):
            found[name] = "routers"
        elif "experts" in inner:
            found[name] = EXPERT
        elif not is_plain(layer):
            found[name] = "they compute something else than W x + b"
        elif isinstance(parent, nn.MultiheadAttention) or _is_read_past(parent, last):
            found[name] = "a fused kernel reads their weights past the adapter"
        elif last in converted:
            found[name] = CONVERTED
        else:
            found[name] = ""
    return found


def blocks_of(model: PreTrainedModel) -> tuple[str, ...]:
    """Return the names of the language model's blocks: the outermost list as long as the model is deep."""
    decoder = model.get_decoder()
    prefix = next((name for name, each in model.named_modules() if each is decoder), "")
    depth = getattr(model.config.get_text_config(decoder=True), "num_hidden_layers", None)
    lists = [
        (name, each) for name, each in decoder.named_modules() if isinstance(each, nn.ModuleList) and len(each) > 0
    ]
    fitting = [(name, each) for name, each in lists if len(each) == depth] or lists

    def rank(entry: tuple[str, nn.ModuleList]) -> tuple[int, int]:
        linear = sum(isinstance(each, nn.Linear | Conv1D) for each in entry[1].modules())
        return (entry[0].count("."), -linear)

    if not fitting:
        return ()
    name, chosen = min(fitting, key=rank)
    whole = ".".join(filter(None, (prefix, name)))
    return tuple(f"{whole}.{at}" for at in range(len(chosen)))


def _experts(block: nn.Module) -> set[str]:
    """Return the names of a block's expert weights: stacked parameters, or whatever stands in `experts`."""
    names = set()
    for name, parameter in block.named_parameters():
        owner, _, last = name.rpartition(".")
        is_convolution = isinstance(block.get_submodule(owner), nn.Conv1d | nn.Conv2d | nn.Conv3d)
        if "experts" in owner.split(".") or (parameter.dim() == 3 and min(parameter.shape) > 1 and not is_convolution):
            names |= {owner.rpartition(".")[2], last} - {"weight", "bias"}
    return names


def _converted_layers(model: PreTrainedModel) -> set[str]:
    """Return the names of layers that PEFT takes for those of experts in an older form of the model.

    Adapters with such a name among their targets are read by PEFT as LoRA on bare parameters.
    """
    last = {name.rpartition(".")[2] for name, each in model.named_modules() if isinstance(each, nn.Linear)}
    converted = _converted(model, sorted(last))
    # None: some of a fused pair's names alone
    return {each for each in last if _converted(model, [each]) != set()} if converted is None else converted


def _converted(model: PreTrainedModel, names: list[str]) -> set[str] | None:
    """Return which of these targets PEFT gives other names; None where it refuses them."""
    lora = LoraConfig(target_modules=names)
    try:
        convert_peft_config_for_transformers(lora, model, get_checkpoint_conversion_mapping(model.config.model_type))
    except ValueError:
        return None
    return {*names} - set(lora.target_modules or ())


def _is_read_past(parent: nn.Module, name: str) -> bool:
    """Whether a convolutional mixer (Mamba's) hands the weights of its layer `name` to a kernel itself."""
    return any(isinstance(each, nn.Conv1d) for each in parent.children()) and name in _read_past(type(parent))


@cache
def _read_past(kind: type[nn.Module]) -> set[str]:
    return set(re.findall(r"\bself\.(\w+)\.weight\b(?!\.(?:dtype|device))", inspect.getsource(kind)))


def _is_called(layer: str, name: str) -> bool:
    """Whether PEFT takes `name` for this layer."""
    return layer == name or layer.endswith(f".{name}")


def _is_expert(name: str, model: PreTrainedModel, found: Mapping[str, str]) -> bool:
    """Whether only what a mixture of experts chooses among, or chooses with, is called so, now or in its files."""
    hits = [why for layer, why in found.items() if _is_called(layer, name)]
    if hits:
        return all(why in (EXPERT, CONVERTED, "routers") for why in hits)
    layers = dict(model.named_modules())
    known = set[str]().union(*(_experts(layers[block]) for block in blocks_of(model)))
    if not known:
        return False
    if "gate_up_proj" in known:
        known |= {"gate_proj", "up_proj"}
    for rule in get_checkpoint_conversion_mapping(model.config.model_type) or ():
        if "experts" in "".join(rule.target_patterns):
            known |= {part for pattern in rule.source_patterns for part in re.findall(r"\w+", pattern)}
    return name.rpartition(".")[2] in known | ROUTERS


def _outside(name: str, wanted: set[str]) -> str:
    """Return the outermost module around `name` that holds none of the wanted layers; "" if only itself."""
    parts = name.split(".")
    for length in range(1, len(parts)):
        place = ".".join(parts[:length])
        if not any(each.startswith(f"{place}.") for each in wanted):
            return "" if re.search(r"\.\d+(\.|$)", place) else place
    return ""


def _kinds(layers: Iterable[str]) -> Counter[str]:
    return Counter(name.rpartition(".")[2] for name in layers)


def layer_summary(layers: Iterable[str]) -> str:
    return ", ".join(f"{kind} ({count})" for kind, count in sorted(_kinds(layers).items()))


def _count(weights: int) -> str:
    for size, unit in ((1e9, " B"), (1e6, " M"), (1e3, " k")):
        if weights >= size:
            return f"{weights / size:.3g}{unit}"
    return str(weights)


def _left_out(
    model: PreTrainedModel, found: Mapping[str, str], chosen: Iterable[str], only_experts: Iterable[str]
) -> dict[str, str]:
    by_reason: dict[str, list[str]] = {}
    for name, why in found.items():
        by_reason.setdefault(why, []).append(name)
    taken = set(chosen)
    told = {}
    if rest := [name for name in by_reason.pop("", []) if name not in taken]:
        told[NOT_ASKED] = layer_summary(rest)
    by_reason.pop(OUTPUT, None)
    if outside := by_reason.pop(ELSEWHERE, []):
        tops = {_outside(name, set(chosen)) or name for name in outside}
        told[ELSEWHERE] = ", ".join(sorted(tops))
    told |= {why: layer_summary(names) for why, names in by_reason.items()}
    layers = dict(model.named_modules())
    bare = set[str]().union(*(_experts(layers[block]) for block in blocks_of(model))) - {"experts"}
    if named := sorted(bare | set(only_experts)):
        told[f"{EXPERT}, which are no linear layers"] = ", ".join(named)
    return told


def _not_found(model: PreTrainedModel, unknown: Iterable[str], found: Mapping[str, str]) -> str:
    usable = layer_summary(name for name, why in found.items() if not why) or "none that can be adapted"
    names = list(unknown)
    others = {found[layer] for layer in found for each in names if _is_called(layer, each)}
    where = f" (there it is: {'; '.join(sorted(others))})" if others else ""
    return (
        f"lora_targets names {', '.join(names)}, and no layer of the language model in {type(model).__name__} is called"
        f" so{where}; it has {usable}. Name some of these, or all-linear for all of them."
    )


def _nothing_left(model: PreTrainedModel, asked: tuple[str, ...], found: Mapping[str, str]) -> str:
    reasons: dict[str, list[str]] = {}
    for name, why in found.items():
        if why not in (OUTPUT, ELSEWHERE):
            reasons.setdefault(why, []).append(name)
    usable = reasons.pop("", [])
    told = "; ".join(f"{layer_summary(names)}: {why}" for why, names in reasons.items()) or "it has no linear layers"
    instead = f"Name some of {layer_summary(usable)}." if usable else "Choose another base."
    return (
        f"lora_targets {', '.join(asked)} leaves no layer of {type(model).__name__} that an adapter can be laid on"
        f" ({told}). {instead}"
    )
