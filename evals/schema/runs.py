"""run.json and chain.json: what a training run did, and the lineage of its adapter; what is published of it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from re import Pattern
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, FiniteFloat, ValidationError, model_validator

from evals.errors import first_problem
from evals.schema.record import Record


class RunRecord(Record):
    """run.json: what a training run was asked to do and what it did."""

    schema_version: Literal[1] = 1
    """version of the format"""
    name: str
    """the run"""
    stage: str
    """the stage of training"""
    command: str
    """the command that runs it again"""
    config: dict[str, object]
    """the settings"""
    seed: int
    """the seed"""
    data: dict[str, str | int]
    """what was read: data sets with rows and checksums, the chain below, what is adapted"""
    versions: dict[str, str]
    """versions of the packages"""
    code_revision: str | None
    """commit of the code; null outside a checkout"""
    host: dict[str, str | int | float]
    """the machine: processor, memory, GPU, processes"""
    started_at: datetime
    """when it started"""
    ended_at: datetime | None = None
    """when it ended; null while it runs"""
    status: Literal["running", "finished", "failed", "stopped"] = "running"
    """how it stands"""
    result: dict[str, float | int | str] = Field(default_factory=dict)
    """what came out: steps, losses, figures of the dev set"""
    substitutions: tuple[str, ...] = ()
    """what was used instead of what was asked for"""


class RunProgress(Record):
    """progress.json: what the process of a run is doing, and how far it is."""

    doing: Literal["loading", "measuring", "training", "saving", "checking"]
    """what it is doing"""
    at: datetime
    """when this was written"""
    step: int = 0
    """optimizer steps made"""
    steps: int | None = None
    """optimizer steps in all; null = not known yet"""
    done: int = 0
    """questions answered, where it measures"""
    of: int = 0
    """questions to answer, where it measures"""
    seconds_left: float | None = None
    """estimate as of `at`; null = not known yet"""

    @property
    def share(self) -> float:
        """Part of the steps that is done, 0..1; 0 where it is not known how many there are."""
        return min(1.0, self.step / self.steps) if self.steps else 0.0


class AdapterConfig(BaseModel):
    """What is read of PEFT's adapter_config.json, in the types that PEFT writes."""

    peft_type: str | None = None
    base_model_name_or_path: str | None = None
    revision: str | None = None
    r: int = Field(default=8, gt=0)
    lora_alpha: FiniteFloat = 8
    rank_pattern: dict[Pattern[str], int] | None = None
    alpha_pattern: dict[Pattern[str], FiniteFloat] | None = None
    target_modules: list[str] | Pattern[str] | None = None
    init_lora_weights: bool | str | None = None
    bias: str | None = None


LARGEST_CONFIG = 2_000_000
PATTERNS = ("rank_pattern", "alpha_pattern", "target_modules", "exclude_modules", "layers_pattern", "modules_to_save")
"""Fields of adapter_config.json that PEFT reads as regular expressions."""
MATCH_SECONDS = 5.0
MATCH = r"""
import json, re, sys
patterns, names = json.load(sys.stdin)
for pattern in map(re.compile, patterns):
    for name in names:
        [pattern.fullmatch(name, start.end()) for start in re.finditer(r"^|\.", name)]
"""


def read_adapter_config(file: Path) -> dict[str, Any]:
    """Return all that an adapter_config.json holds; ValueError, with the field, for values that PEFT never writes."""
    data = file.read_bytes()
    if len(data) > LARGEST_CONFIG:
        raise ValueError(f"{file.name}: it has {len(data):,} bytes, and at most {LARGEST_CONFIG:,} are read")
    try:
        AdapterConfig.model_validate_json(data)
    except ValidationError as error:
        field, problem, _ = first_problem(error)
        raise ValueError(f"{file.name}: {field or 'all of it'}: {problem}") from None
    except RecursionError:
        raise ValueError(f"{file.name}: it is nested too deeply") from None
    return dict(json.loads(data))


def check_patterns(settings: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise ValueError for regular expressions of an adapter_config.json that match for more than `MATCH_SECONDS`.

    `names` are of the layers that PEFT matches them with. Python's `re` cannot be stopped, so a process of its own tries it.
    """
    known = [settings.get(name) or () for name in PATTERNS]
    patterns = [each for given in known for each in ([given] if isinstance(given, str) else given)]
    repeating = [each for each in patterns if isinstance(each, str) and re.search(r"[*+?{|]", each)]
    try:
        asked, command = json.dumps([repeating, list(names)]), [sys.executable, "-I", "-c", MATCH]
        if repeating:
            subprocess.run(command, input=asked, text=True, timeout=MATCH_SECONDS, check=True, capture_output=True)
    except subprocess.SubprocessError:
        told = f"take more than {MATCH_SECONDS:.0f} seconds or cannot be read: {', '.join(repeating):.200}"
        raise ValueError(f"the regular expressions for layers {told}. Write the layers' names instead") from None


class Probe(Record):
    """Top log-probabilities after one fixed prompt: a fingerprint of base and adapters up to a stage."""

    prompt: str = Field(min_length=1)
    """the prompt"""
    token_ids: tuple[int, ...] = Field(min_length=1)
    """the likeliest next tokens"""
    logprobs: tuple[float, ...]
    """their log-probabilities (float32, nats)"""

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if len(self.token_ids) != len(self.logprobs):
            raise ValueError(f"it has {len(self.token_ids)} tokens but {len(self.logprobs)} log-probabilities")
        return self


class BaseIdentity(Record):
    """The base model that a chain stands on."""

    source: str
    """embedded, a Hub id, or a local folder's name"""
    hub_id: str | None
    """its id on the Hub"""
    revision: str | None
    """its commit on the Hub"""
    weights_sha256: str
    """checksum of the file that the weights came from"""
    tokenizer_sha256: str
    """checksum of the tokenizer"""
    template_sha256: str
    """checksum of the chat template"""
    vocab_size: int
    """tokens of the vocabulary"""
    licence: str | None = None
    """its licence"""
    packed_sha256: str | None = None
    """checksum of the packed file, where a published copy was unpacked from one"""
    merged: "MergedBase | None" = Field(default=None, exclude_if=lambda value: value is None)
    """what the weights were merged from, where an import did that"""


class MergedAdapter(Record):
    """An adapter that is part of a base's weights."""

    name: str
    """the adapter"""
    what: str
    """why it was not stacked; empty = it could have been"""
    sha256: str
    """checksum of its weights"""
    config_sha256: str
    """checksum of its adapter_config.json"""


class MergedBase(Record):
    """What a base was merged from."""

    base: BaseIdentity
    """the base below"""
    adapters: tuple[MergedAdapter, ...]
    """the adapters, in order"""
    dtype: str
    """type of the weights"""
    gap: float
    """largest difference of a log-probability (float32, nats) from the model that PEFT makes of both, unmerged"""


IMPORTED = "imported"
"""Kind of a stage that somebody trained elsewhere: nothing is known of how."""


class ChainStage(Record):
    """One adapter of a chain."""

    name: str
    """the stage"""
    kind: str
    """how it was trained; imported = elsewhere"""
    mode: Literal["stack", "continue", "merge_then_new"]
    """how it builds on the stages before it; stack = base and earlier adapters stay active and unmerged"""
    path: str
    """its folder, relative to that of chain.json"""
    sha256: str
    """checksum of its weights"""
    config_sha256: str
    """checksum of its adapter_config.json"""
    probe: Probe
    """what the chain up to it computes"""


class ChainManifest(Record):
    """chain.json: the lineage of an adapter, from the root base to the last stage, in order."""

    schema_version: Literal[1] = 1
    """version of the format"""
    name: str
    """the chain"""
    system_prompt: str
    """what its stages are told first; {answer} is where the kind of answer is named"""
    base: BaseIdentity
    """the base model"""
    tokenizer: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """folder, relative to that of chain.json, of the tokenizer and template that the adapters were trained with, where
    these are not the base's"""
    base_probe: Probe
    """what the base computes"""
    stages: tuple[ChainStage, ...]
    """the adapters, in order"""


# ---- what is published ---------------------------------------------------------------------------


class PublishedStage(Record):
    """Where one stage's own adapter lies on the Hub."""

    name: str
    """the stage"""
    repo: str
    """the repository"""
    revision: str | None
    """its commit; null = the repository this stands in"""
    folder: Literal["", "stage"] = ""
    """where in it; empty = at its root, else the root holds the chain up to there as one adapter or model"""
    sha256: str
    """checksum of its weights"""
    config_sha256: str
    """checksum of its adapter_config.json"""


class Lineage(Record):
    """lineage.json: the base and every stage of a published chain, pinned, in order."""

    schema_version: Literal[1] = 1
    """version of the format"""
    base: str
    """the base model"""
    base_revision: str | None
    """its commit"""
    stages: tuple[PublishedStage, ...]
    """the adapters, in order"""


class PackedWeights(Record):
    """The quantised file that weights were unpacked from, and the Python package that it came in."""

    package: str
    """the Python package"""
    version: str
    """its version"""
    file: str
    """the file in it"""
    quantisation: str
    """how the weights are packed"""
    sha256: str
    """checksum of the file"""
    unpacked_with: str
    """what unpacked it"""
    dtype: str
    """type of the unpacked weights"""


class BaseOrigin(Record):
    """origin.json: what a base is that was published with a chain."""

    schema_version: Literal[1] = 1
    """version of the format"""
    original: str | None
    """the model on the Hub that it is a copy of"""
    licence: str | None
    """its licence"""
    weights_sha256: str
    """checksum of its safetensors"""
    recorded_sha256: str
    """what chains know it by; of a packed one, the checksum of the packed file"""
    packed: PackedWeights | None = None
    """the packed file, where there is one"""


class Diagnostic(Record):
    """What a check before publishing found; an error keeps everything from being uploaded.

    A secret's value is never part of it.
    """

    check: str
    path: str
    problem: str
    remedy: str
    line: int | None = None
    is_error: bool = True

    def __str__(self) -> str:
        return f"{self.path}{f', line {self.line}' if self.line else ''}: {self.problem}; {self.remedy}"


DEMONSTRATION = (
    "A demonstration, not a reviewer: trained on thirty papers to show that everything runs, it invents and contradicts"
    " the paper."
)
"""What is said of the embedded reviewer wherever it is named."""
_EMBEDDED = "fcdde42a2ab16694b423f9dceddc67a0acceb0f50e2aa99130d46021c1583999"


def is_demonstration(stage: str, checksums: Mapping[str, str]) -> bool:
    """Return whether a stage of a chain with these checksums is the embedded reviewer."""
    return checksums.get(stage) == _EMBEDDED
