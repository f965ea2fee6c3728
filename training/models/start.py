"""Where a stage starts: the chain that it builds on, and what of it stays, goes on or is merged.

| mode | learns | stays as it is | the reference |
|---|---|---|---|
| stack | a new adapter | base and earlier adapters | base + earlier adapters |
| continue | the last adapter | base and the adapters before it | that adapter as it was, and those before |
| merge_then_new | a new adapter | base weights with earlier adapters added | those weights |

In use all three are a sum, W + A1 + A2 + …, so `training.models.stack` answers for every one of them. The trainer sees an
ordinary PeftModel with one adapter, `default`; the adapters before it are always at work, added to the weights in memory
where those can hold the sum. The reference of DPO and GRPO is exactly what the stage starts from: where an adapter is
continued it is TRL's `ref`, a copy made before the first step.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from peft import LoraConfig
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.integrations import is_deepspeed_zero3_enabled, is_fsdp_enabled

from evals.errors import BadConfig, ChainMismatch
from evals.io import write_whole
from evals.schema import BaseIdentity, ChainManifest, ChainStage, Probe
from training.config import StageSettings
from training.models.adapters import read_adapter
from training.models.base import EMBEDDED, Base, identity_of, load_tokenizer, local_base, note_folder, stream_model
from training.models.check import file_findings, measure, probe_of, probe_prompt, refuse_chain
from training.models.manifest import BASE_STAGE, FILE_NAME, Chain, active_adapters, last_adapters, read_chain
from training.models.stack import Stack, is_plain, merge_into, pairs_by_layer
from training.models.targets import lora_config
from training.upstream import TRAINED, StackedPeftModel

Mode = Literal["stack", "continue", "merge_then_new"]


@dataclass(frozen=True)
class NewStage:
    """A stage that was just trained: `adapter` is its PEFT folder, `mode` how it builds on the last."""

    name: str
    kind: str
    adapter: Path
    mode: Mode = "stack"


def append_stage(
    folder: Path, stage: NewStage, base: Base, previous: Chain | None = None, system_prompt: str | None = None
) -> Chain:
    """Write `folder`/chain.json: the previous chain plus one stage, and return it.

    Reads the base in float32, layer by layer, to measure the probe, and its tokenizer again, because trainers change
    the one they are given. The first stage needs a system prompt; later ones keep it. Raises BadConfig for a name
    that is taken or another system prompt, ChainMismatch
    if the previous chain stands on another base or the adapter cannot be stacked.
    """
    stages = previous.manifest.stages if previous else ()
    earlier = [
        each.model_copy(update={"path": _relative(previous.adapter_folder(each), folder)})
        for each in stages
        if previous is not None
    ]
    taken = (BASE_STAGE, *(known.name for known in stages))
    if stage.name in taken:
        raise BadConfig(
            f"the chain has a stage {stage.name!r} already (its stages: {', '.join(taken)}); choose another name."
        )
    prompt = previous.manifest.system_prompt if previous else system_prompt
    if prompt is None:
        raise BadConfig("the first stage of a chain needs a system prompt; none was given.")
    if system_prompt not in (None, prompt):
        raise BadConfig(
            f"the chain was trained with the system prompt {prompt!r}, and {system_prompt!r} was given; all stages"
            " share one. Leave it out to keep the first."
        )
    if previous and not base.has_weights(previous.manifest.base.weights_sha256):
        raise ChainMismatch(
            f"the stage {stage.name!r} was trained on {base.public_name}, but the chain before it stands"
            f" on {previous.manifest.base.source} with other weights; train both on one base."
        )
    tokenizer = load_tokenizer(base)
    identity = identity_of(base, tokenizer)
    if previous and identity.merged is None:  # a published copy of a merged base comes without its merged.json
        identity = identity.model_copy(update={"merged": previous.manifest.base.merged})
    adapter = read_adapter(stage.adapter)
    below = {each.name: read_adapter((folder / each.path).resolve()) for each in earlier}
    # A template may write the day's date: the probe is one text for all stages, whenever they are trained.
    question = previous.manifest.base_probe.prompt if previous else probe_prompt(tokenizer, prompt)
    new = ChainStage.model_construct(name=stage.name, mode=stage.mode)  # its probe is measured below
    rows = [frozenset[str](), active_adapters((*earlier, new))[stage.name]]
    with stream_model(base) as model:
        at_base, at_stage = measure(model, tokenizer, question, Stack(model, {**below, stage.name: adapter}), rows)
    entry = ChainStage(
        name=stage.name,
        kind=stage.kind,
        mode=stage.mode,
        path=_relative(stage.adapter, folder),
        sha256=adapter.sha256,
        config_sha256=adapter.config_sha256,
        probe=probe_of(question, at_stage),
    )
    return _write_chain(folder, base, identity, prompt, probe_of(question, at_base), (*earlier, entry))


def chain_without_stages(folder: Path, base: Base, system_prompt: str) -> Chain:
    """Write `folder`/chain.json of a base alone, such as one with an adapter merged into it, and return the chain."""
    tokenizer = load_tokenizer(base)
    question = probe_prompt(tokenizer, system_prompt)
    with stream_model(base) as model:
        (at_base,) = measure(model, tokenizer, question, Stack(model, {}), [frozenset()])
    return _write_chain(folder, base, identity_of(base, tokenizer), system_prompt, probe_of(question, at_base), ())


def _write_chain(
    folder: Path, base: Base, identity: BaseIdentity, prompt: str, probe: Probe, stages: Sequence[ChainStage]
) -> Chain:
    """Write chain.json and note where a local base lies that will not be found from there."""
    manifest = ChainManifest(
        name=folder.resolve().name,
        system_prompt=prompt,
        base=identity,
        tokenizer=_relative(base.tokenizer, folder) if base.tokenizer else None,
        base_probe=probe,
        stages=tuple(stages),
    )
    write_whole(folder / FILE_NAME, manifest.model_dump_json(indent=1) + "\n")
    is_local = base.hub_id is None and base.source != EMBEDDED
    if is_local and local_base(identity, folder.resolve()) != base.folder:
        with suppress(OSError):  # no cache to note it in: a base that is not found is asked for by --base
            note_folder(base.folder, identity)
    return Chain(manifest, folder.resolve())


def _relative(path: Path, start: Path) -> str:
    return Path(os.path.relpath(path.resolve(), start.resolve())).as_posix()


@dataclass(frozen=True)
class Start:
    """A chain as a new stage takes it up (None = the bare base), with adapter folders by stage, in order."""

    chain: Chain | None = None
    mode: Mode = "stack"
    frozen: Mapping[str, Path] = field(default_factory=dict)
    merged: Mapping[str, Path] = field(default_factory=dict)
    continued: Path | None = None

    @property
    def system_prompt(self) -> str | None:
        """What the chain's stages are told; None where there is no chain."""
        return self.chain.manifest.system_prompt if self.chain else None

    def record(self) -> dict[str, str | int]:
        """Return what run.json keeps: the checksum of each stage that the new one builds on."""
        stages = self.chain.manifest.stages if self.chain else ()
        return {f"stage {stage.name}": stage.sha256 for stage in stages}

    def stage(self, kind: str, adapter: Path) -> NewStage:
        """Return the stage that was trained from here, named by its kind: grpo, grpo-2 and so on."""
        stages = self.chain.manifest.stages if self.chain else ()
        earlier = sum(stage.kind == kind for stage in stages)
        name = f"{kind}-{earlier + 1}" if earlier else kind
        return NewStage(name, kind, adapter, self.mode)


def start_of(settings: StageSettings, base: Base, tokenizer: PreTrainedTokenizerBase | None = None) -> Start:
    """Return where the settings start from; an error of ours for a chain that cannot be built on."""
    if not settings.chain.strip():
        return Start()
    chain = read_chain(settings.chain)
    refuse_chain(settings.chain, file_findings(chain, base, tokenizer or load_tokenizer(base)))
    active = {stage.name: chain.adapter_folder(stage) for stage in last_adapters(chain)}
    if settings.mode == "stack":
        return Start(chain, "stack", frozen=active)
    if not active:
        raise BadConfig(
            f"mode is {settings.mode!r}, but the chain {chain.manifest.name!r} has no adapter yet; use"
            " mode stack for the first one."
        )
    if settings.mode == "merge_then_new":
        return Start(chain, "merge_then_new", merged=active)
    _, continued = active.popitem()
    return Start(chain, "continue", frozen=active, continued=continued)


def policy_of(model: PreTrainedModel, start: Start, settings: StageSettings) -> StackedPeftModel:
    """Return the model that learns, built on the start as its mode says; BadConfig where it cannot be.

    Adapters that stay as they are lie beside weights in 4 bits, or divided among processes; to others they are added.
    """
    layers = [name for name, _ in model.named_modules()]
    adapters = {name: read_adapter(folder, layers) for name, folder in {**start.merged, **start.frozen}.items()}
    is_whole = settings.weights != "nf4" and not (is_deepspeed_zero3_enabled() or is_fsdp_enabled())
    is_added = is_whole and all(is_plain(model.get_submodule(name)) for name in pairs_by_layer(model, adapters))
    frozen = {} if is_added else start.frozen
    merge_into(model, {name: each for name, each in adapters.items() if name not in frozen})
    if start.continued is None:
        policy = stacked_policy(model, frozen, lora_config(settings, model), settings.seed)
    else:  # `check_continued` compared it with the settings
        read_adapter(start.continued, layers)
        kept = LoraConfig.from_pretrained(str(start.continued))
        kept.lora_dropout, kept.inference_mode = settings.lora_dropout, False
        kept.base_model_name_or_path = model.name_or_path
        policy = StackedPeftModel(model, kept, adapter_name=TRAINED)
        policy.load_adapter(str(start.continued), TRAINED, is_trainable=True)
        policy.freeze_below(frozen)
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
