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
    name: str
    stage: str
    command: str
    config: dict[str, object]
    seed: int
    data: dict[str, str | int]
    versions: dict[str, str]
    code_revision: str | None
    host: dict[str, str | int | float]
    started_at: datetime
    ended_at: datetime | None = None
    status: Literal["running", "finished", "failed", "stopped"] = "running"
    result: dict[str, float | int | str] = Field(default_factory=dict)
    substitutions: tuple[str, ...] = ()


class RunProgress(Record):
    """progress.json: what the process of a run is doing, and how far it is; `seconds_left` is as of `at`, None = not known yet.

    `done` of `of` questions are answered where it measures. `step` of `steps` optimizer steps are made.
    """

    doing: Literal["loading", "measuring", "training", "saving", "checking"]
    at: datetime
    step: int = 0
    steps: int | None = None
    done: int = 0
    of: int = 0
    seconds_left: float | None = None

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
    """Top log-probabilities after one fixed prompt: a fingerprint of base + adapters up to a stage.

    `token_ids` and `logprobs` have equal length (top k of the next token, fp32, natural log).
    """

    prompt: str = Field(min_length=1)
    token_ids: tuple[int, ...] = Field(min_length=1)
    logprobs: tuple[float, ...]

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if len(self.token_ids) != len(self.logprobs):
            raise ValueError(f"it has {len(self.token_ids)} tokens but {len(self.logprobs)} log-probabilities")
        return self


class BaseIdentity(Record):
    """The base model that a chain stands on.

    `source` is what `training.models.base` resolves: "embedded", a Hub id or a local folder's name; `weights_sha256` is
    over the file it came from, `template_sha256` over the chat template. `packed_sha256` is that of the packed file,
    where a published copy was unpacked from one: what was measured before knows the same weights by it.
    `merged` says what the weights were merged from, where an import made them; else it is not written.
    """

    source: str
    hub_id: str | None
    revision: str | None
    weights_sha256: str
    tokenizer_sha256: str
    template_sha256: str
    vocab_size: int
    licence: str | None = None
    packed_sha256: str | None = None
    merged: "MergedBase | None" = Field(default=None, exclude_if=lambda value: value is None)


class MergedAdapter(Record):
    """An adapter that is part of a base's weights; `what` says why it was not stacked ("" = it could have been)."""

    name: str
    what: str
    sha256: str
    config_sha256: str


class MergedBase(Record):
    """What a base was merged from: `base` and `adapters`, in order, held as `dtype`.

    `gap` is the largest difference of a log-probability (nats, float32) from the model that PEFT makes of both, unmerged.
    """

    base: BaseIdentity
    adapters: tuple[MergedAdapter, ...]
    dtype: str
    gap: float


IMPORTED = "imported"
"""Kind of a stage that somebody trained elsewhere: nothing is known of how."""


class ChainStage(Record):
    """One adapter of a chain. `path` is relative to the folder of chain.json.

    `mode` says how it builds on the stages before it: "stack" = a new adapter trained on top of
    base plus all earlier adapters, which stay active and unmerged.
    """

    name: str
    kind: str
    mode: Literal["stack", "continue", "merge_then_new"]
    path: str
    sha256: str
    config_sha256: str
    probe: Probe


class ChainManifest(Record):
    """chain.json: the lineage of an adapter, from the root base to the last stage, in order.

    `tokenizer` is the folder, relative to that of chain.json, of the tokenizer and chat template that the adapters were
    trained with, where these are not the base's; else it is not written. The checksums in `base` are of those asked with.
    """

    schema_version: Literal[1] = 1
    name: str
    system_prompt: str
    base: BaseIdentity
    tokenizer: str | None = Field(default=None, exclude_if=lambda value: value is None)
    base_probe: Probe
    stages: tuple[ChainStage, ...]


# ---- what is published ---------------------------------------------------------------------------


class PublishedStage(Record):
    """Where one stage's own adapter lies on the Hub. `revision` None = the repository this stands in.

    `folder` is where in it: below its root lies all of the chain up to there as one adapter or model.
    """

    name: str
    repo: str
    revision: str | None
    folder: Literal["", "stage"] = ""
    sha256: str
    config_sha256: str


class Lineage(Record):
    """lineage.json: the base and every stage of a published chain, pinned, in order."""

    schema_version: Literal[1] = 1
    base: str
    base_revision: str | None
    stages: tuple[PublishedStage, ...]


class PackedWeights(Record):
    """The quantised file that weights were unpacked from, and the Python package that it came in."""

    package: str
    version: str
    file: str
    quantisation: str
    sha256: str
    unpacked_with: str
    dtype: str


class BaseOrigin(Record):
    """origin.json: what a base is that was published with a chain.

    `original` is the Hub's model that it is a copy of; `weights_sha256` is over its safetensors,
    `recorded_sha256` is what chains know it by (of a packed one, the packed file).
    """

    schema_version: Literal[1] = 1
    original: str | None
    licence: str | None
    weights_sha256: str
    recorded_sha256: str
    packed: PackedWeights | None = None


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
