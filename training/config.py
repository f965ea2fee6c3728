"""Settings of the training stages: a YAML file, overridden key by key, as one frozen dataclass.

    read_settings(SftSettings, Path("training/configs/embedded/sft.yaml"), ["--epochs", "2"])

An unknown key, a wrong type or a value out of range is an error that names what is accepted.
Knows nothing of torch, so a plan can be shown in a moment.
"""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from evals.errors import BadConfig
from evals.verifiers import check_weights
from training.setting import Setting, describe, read_value, setting

Stage = Literal["sft", "grpo"]
SettingsType = TypeVar("SettingsType", bound="StageSettings")


@dataclass(frozen=True)
class StageSettings:
    """What every stage is told. The defaults of each field are those of a small CPU run."""

    data: tuple[str, ...] = setting(
        "data sets by name, NAME[KIND], NAME[KIND:COUNT], or JSONL files"
    )
    output: str = setting("the run folder to write")
    base: str = setting("embedded, a local folder or a Hub id", default="embedded")
    lora_r: int = setting("rank of the adapter", default=8, low=1, high=512)
    lora_alpha: int = setting("scale of the adapter: alpha / r", default=16, low=1, high=1024)
    lora_dropout: float = setting("share of adapter inputs dropped", default=0.0, low=0.0, high=0.9)
    lora_targets: tuple[str, ...] = setting(
        "layer names, or all-linear for every linear layer but the output", default=("all-linear",)
    )
    epochs: float = setting("passes over the data", default=1.0, low=0.001, high=1000.0)
    max_steps: int = setting("optimizer steps; 0 = as many as the epochs take", default=0, low=0)
    learning_rate: float = setting("peak learning rate", default=1e-3, low=0.0, high=1.0)
    schedule: Literal["cosine", "linear", "constant", "constant_with_warmup"] = setting(
        "how the learning rate falls", default="cosine"
    )
    warmup: float = setting("steps to the peak; below 1 a share of all", default=0.05, low=0.0)
    weight_decay: float = setting("AdamW's weight decay", default=0.0, low=0.0, high=1.0)
    max_grad_norm: float = setting("gradients are scaled down to this norm", default=1.0, low=0.0)
    batch: int = setting("rows per process and forward pass", default=4, low=1)
    accumulation: int = setting("forward passes per optimizer step", default=1, low=1)
    seed: int = setting("of initialisation, order and sampling", default=0, low=0)
    save_steps: int = setting("optimizer steps between checkpoints", default=50, low=1)
    keep_checkpoints: int = setting("how many checkpoints a running stage keeps", default=2, low=1)
    log_steps: int = setting("optimizer steps between lines of metrics.jsonl", default=5, low=1)
    weights: Literal["float32", "bfloat16", "nf4"] = setting(
        "how the frozen base is held", default="float32"
    )
    autocast: Literal["bfloat16", "none"] = setting("type of the arithmetic", default="bfloat16")
    activation_checkpointing: bool = setting("less memory for more time", default=False)
    report_to: Literal["none", "trackio", "wandb", "tensorboard"] = setting(
        "where metrics go besides metrics.jsonl", default="none"
    )

    def __post_init__(self) -> None:
        for name in ("data", "lora_targets"):
            if not getattr(self, name):
                raise BadConfig(f"{name} is empty; name at least one. {describe(type(self), name)}")
        if not self.output.strip():
            raise BadConfig("output is empty; name the run folder to write, such as runs/mine.")


@dataclass(frozen=True)
class SftSettings(StageSettings):
    """Settings of supervised fine-tuning."""

    max_length: int = setting("longest question plus answer, tokens", default=256, low=16)


@dataclass(frozen=True)
class GrpoSettings(StageSettings):
    """Settings of group relative policy optimisation on top of a trained chain."""

    chain: str = setting("run folder, chain.json or name of the chain to start from", default="")
    num_generations: int = setting("answers per question (G)", default=8, low=2, high=256)
    beta: float = setting("weight of the KL to the chain it starts from", default=0.04, low=0.0)
    loss_type: Literal["grpo", "dr_grpo", "dapo", "bnpo"] = setting("TRL's loss", default="grpo")
    scale_rewards: Literal["group", "batch", "none"] = setting(
        "what rewards are divided by the deviation of", default="group"
    )
    num_iterations: int = setting("updates per batch of answers", default=1, low=1)
    epsilon: float = setting("clip range of the probability ratio", default=0.2, low=0.0, high=1.0)
    temperature: float = setting("of sampling", default=1.0, low=0.01, high=5.0)
    top_p: float = setting("of sampling", default=1.0, low=0.01, high=1.0)
    max_prompt_length: int = setting("longest question, tokens", default=256, low=8)
    max_completion_length: int = setting("longest answer, tokens", default=72, low=4)
    verifier_weights: Mapping[str, float] | None = setting(
        "share of each verifier, such as V1=0.6,V4=0.4; none = the verifiers' own", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.chain.strip():
            raise BadConfig(
                "chain is empty; name the run folder that GRPO starts from, such as runs/embedded/sft."
            )
        if (self.batch * self.accumulation) % self.num_generations:
            raise BadConfig(
                f"batch {self.batch} x accumulation {self.accumulation} cannot be divided into groups of"
                f" num_generations {self.num_generations}; use a multiple, such as batch"
                f" {self.num_generations}."
            )
        if self.verifier_weights is not None:
            check_weights(self.verifier_weights)


STAGES: Mapping[str, type[StageSettings]] = {"sft": SftSettings, "grpo": GrpoSettings}
"""The settings of each stage that can be trained."""


@dataclass(frozen=True)
class Request:
    """What a command line asked for: the settings, and what to do with a folder that exists."""

    settings: StageSettings
    config: Path
    overrides: tuple[str, ...] = field(default=())
    overwrite: bool = False


def read_request(kind: type[StageSettings], arguments: Sequence[str]) -> Request:
    """Return what `--config F [--key value …] [--overwrite]` asks for; BadConfig if it makes no sense."""
    rest = list(arguments)
    overwrite = "--overwrite" in rest
    rest = [word for word in rest if word != "--overwrite"]
    pairs = _pairs(rest)
    config = pairs.pop("config", None)
    if config is None:
        raise BadConfig(
            "no settings file was named; add --config with one, such as"
            " --config training/configs/embedded/sft.yaml."
        )
    overrides = tuple(f"--{key}={value}" for key, value in pairs.items())
    return Request(read_settings(kind, Path(config), pairs), Path(config), overrides, overwrite)


def read_settings(
    kind: type[SettingsType], file: Path, overrides: Mapping[str, str] | None = None
) -> SettingsType:
    """Return the settings of a YAML file, `overrides` (key to text) put over them."""
    values = {key: (value, str(file)) for key, value in _yaml(file).items()}
    values |= {key: (value, "the command line") for key, value in (overrides or {}).items()}
    known = {each.name: Setting.of(kind, each.name) for each in fields(kind)}
    for key, (_, place) in values.items():
        if key not in known:
            raise BadConfig(_unknown(key, place, list(known)))
    read = {key: read_value(known[key], value, place) for key, (value, place) in values.items()}
    missing = [name for name, each in known.items() if each.is_required and name not in read]
    if missing:
        raise BadConfig(
            f"{file} says nothing about {', '.join(missing)}; add"
            f" {'; '.join(describe(kind, name) for name in missing)}."
        )
    return kind(**read)


def as_document(settings: StageSettings) -> dict[str, Any]:
    """Return the settings as plain JSON values, in the order of their definition."""
    return {each.name: _plain(getattr(settings, each.name)) for each in fields(settings)}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _yaml(file: Path) -> dict[str, object]:
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError):
        raise BadConfig(
            f"there is no settings file {file}; those that come with Assay lie in training/configs."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadConfig(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise BadConfig(f"{file} holds no settings; write one `key: value` per line.")
    return {str(key): value for key, value in document.items()}


def _pairs(words: Sequence[str]) -> dict[str, str]:
    """Return `--key value` and `--key=value` as a mapping; dashes in a key may be underscores."""
    pairs: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        key, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not key:
            raise BadConfig(f"{word!r} is not a setting; write --key value, such as --epochs 2.")
        if not equals:
            if not rest or (rest[0].startswith("--") and not _is_number(rest[0])):
                raise BadConfig(f"{word} has no value; write {word} VALUE.")
            value = rest.pop(0)
        pairs[key.replace("-", "_")] = value
    return pairs


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _unknown(key: str, place: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"{place} sets {key!r}, which is no setting.{hint} The settings are: {', '.join(known)}."
