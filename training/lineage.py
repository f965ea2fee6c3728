"""The end of a training run: its adapter becomes a stage of a chain, with all that is needed to check it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evals.errors import BadConfig, ChainMismatch
from evals.schema import ChainManifest, ChainStage, Probe
from training.adapter import read_adapter
from training.base import Base, identity_of, load_base
from training.files import write_whole
from training.manifest import BASE_STAGE, FILE_NAME, Chain, active_adapters
from training.probe import measure, probe_of, probe_prompt
from training.stack import Stack

Kind = Literal["sft", "dpo", "grpo", "review", "refiner"]
Mode = Literal["stack", "continue", "merge_then_new"]


@dataclass(frozen=True)
class NewStage:
    """A stage that was just trained: `adapter` is its PEFT folder, `mode` how it builds on the last."""

    name: str
    kind: Kind
    adapter: Path
    mode: Mode = "stack"


def append_stage(
    folder: Path,
    stage: NewStage,
    base: Base,
    previous: Chain | None = None,
    system_prompt: str | None = None,
) -> Chain:
    """Write `folder`/chain.json: the previous chain plus one stage, and return it.

    Loads the base in float32 to measure the probe. The first stage needs a system prompt; later
    ones keep it. Raises BadConfig for a name that is taken or another system prompt, ChainMismatch
    if the previous chain stands on another base or the adapter cannot be stacked.
    """
    earlier = _earlier(previous, folder)
    _check_name(stage, earlier)
    prompt = _system_prompt(previous, system_prompt)
    model, tokenizer = load_base(base, "float32")
    identity = identity_of(base, tokenizer)
    _check_base(stage, base, previous)
    entry = _entry(stage, folder)
    stages = (*earlier, entry)
    stack = Stack(
        model, {each.name: read_adapter((folder / each.path).resolve()) for each in stages}
    )
    question = probe_prompt(tokenizer, prompt)
    rows = [frozenset[str](), active_adapters(stages)[stage.name]]
    at_base, at_stage = measure(model, tokenizer, question, stack, rows)
    manifest = ChainManifest(
        name=folder.resolve().name,
        system_prompt=prompt,
        base=identity,
        base_probe=probe_of(question, at_base),
        stages=(*earlier, entry.model_copy(update={"probe": probe_of(question, at_stage)})),
    )
    write_whole(folder / FILE_NAME, manifest.model_dump_json(indent=1) + "\n")
    return Chain(manifest, folder.resolve())


def _earlier(previous: Chain | None, folder: Path) -> tuple[ChainStage, ...]:
    """Return the stages before, their paths told from the new folder."""
    if previous is None:
        return ()
    return tuple(
        stage.model_copy(update={"path": _relative(previous.adapter_folder(stage), folder)})
        for stage in previous.manifest.stages
    )


def _entry(stage: NewStage, folder: Path) -> ChainStage:
    """Return the new stage with an empty probe, which is measured once it is stacked."""
    adapter = read_adapter(stage.adapter)
    return ChainStage(
        name=stage.name,
        kind=stage.kind,
        mode=stage.mode,
        path=_relative(stage.adapter, folder),
        sha256=adapter.sha256,
        config_sha256=adapter.config_sha256,
        probe=Probe(prompt="", token_ids=(), logprobs=()),
    )


def _check_name(stage: NewStage, earlier: Sequence[ChainStage]) -> None:
    taken = (BASE_STAGE, *(known.name for known in earlier))
    if stage.name in taken:
        raise BadConfig(
            f"the chain has a stage {stage.name!r} already (its stages: {', '.join(taken)}); choose"
            " another name."
        )


def _check_base(stage: NewStage, base: Base, previous: Chain | None) -> None:
    if previous and not base.has_weights(previous.manifest.base.weights_sha256):
        raise ChainMismatch(
            f"the stage {stage.name!r} was trained on {base.public_name}, but the chain before it stands"
            f" on {previous.manifest.base.source} with other weights; train both on one base."
        )


def _system_prompt(previous: Chain | None, given: str | None) -> str:
    """Return the prompt that all stages of a chain share; BadConfig if there is none, or two."""
    kept = previous.manifest.system_prompt if previous else None
    if kept is None and given is None:
        raise BadConfig("the first stage of a chain needs a system prompt; none was given.")
    if kept is not None and given not in (None, kept):
        raise BadConfig(
            f"the chain was trained with the system prompt {kept!r}, and {given!r} was given; all stages"
            " share one. Leave it out to keep the first."
        )
    return kept if kept is not None else str(given)


def _relative(path: Path, start: Path) -> str:
    return Path(os.path.relpath(path.resolve(), start.resolve())).as_posix()
