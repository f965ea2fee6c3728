"""Where a stage starts: the chain that it builds on, and what of it stays, goes on or is merged.

| mode | learns | stays as it is | the reference |
|---|---|---|---|
| stack | a new adapter | base and earlier adapters, unmerged | base + earlier adapters |
| continue | the last adapter | base and the adapters before it | that adapter as it was, and those before |
| merge_then_new | a new adapter | base weights with earlier adapters added | those weights |

In use all three are a sum, W + A1 + A2 + …, so `training.stack` answers for every one of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evals.errors import BadConfig
from training.adapter import Adapter, read_adapter
from training.base import Base, load_tokenizer
from training.config import StageSettings
from training.findings import file_findings, refuse
from training.lineage import Kind, Mode, NewStage
from training.manifest import Chain, last_adapters, read_chain


@dataclass(frozen=True)
class Start:
    """A chain as a new stage takes it up; `chain` None = the bare base.

    `frozen` and `merged` are adapter folders by the name of their stage, in the order of the chain.
    """

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

    def stage(self, kind: Kind, adapter: Path) -> NewStage:
        """Return the stage that was trained from here, named by its kind: grpo, grpo-2 and so on."""
        stages = self.chain.manifest.stages if self.chain else ()
        earlier = sum(stage.kind == kind for stage in stages)
        name = f"{kind}-{earlier + 1}" if earlier else kind
        return NewStage(name, kind, adapter, self.mode)

    def adapters_to_merge(self) -> dict[str, Adapter]:
        """Return the adapters that become part of the weights, read and checked."""
        return {name: read_adapter(folder) for name, folder in self.merged.items()}


def start_of(settings: StageSettings, base: Base) -> Start:
    """Return where the settings start from.

    Raises MissingModel if the chain is not here, ChainMismatch if it is not what it was or stands on
    another base, BadConfig if it has no adapter to continue or to merge.
    """
    if not settings.chain.strip():
        return Start()
    chain = read_chain(settings.chain)
    refuse(settings.chain, file_findings(chain, base, load_tokenizer(base)))
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
