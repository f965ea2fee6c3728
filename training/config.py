"""What the settings of every stage are: pydantic models, read from a YAML file with `--key value` words put over it."""

import difflib
import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from yaml.constructor import ConstructorError

from evals.errors import BadConfig

if TYPE_CHECKING:
    from training.data.tokens import Data, Rows


class Settings(BaseModel):
    """Settings as they may be written in YAML or on a command line; read them with `make`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, str_strip_whitespace=True)

    @field_validator("*", mode="before")
    @classmethod
    def _as_written(cls, value: object, info: ValidationInfo) -> object:
        kind = cls.model_fields[str(info.field_name)].annotation
        if get_origin(kind) is tuple and isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        if get_origin(kind) is Literal and value is False:
            return "off"  # YAML reads a bare off as false
        if kind is str and isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if kind in (int, float) and isinstance(value, bool):
            raise ValueError("Input should be a number, not true or false")
        return value


LOSS = "loss"
"""The `best_metric` that is no metric of answers: the loss on rows that are held out."""
WEIGHT = re.compile(r":(\d+\.\d*|\.\d+|\d+)$")
"""The weight behind a data set in a mix."""
SettingsType = TypeVar("SettingsType", bound=Settings)


def make(kind: type[SettingsType], values: Mapping[str, object], places: Mapping[str, str] | str) -> SettingsType:
    """Return the settings with these values; BadConfig names what is wrong and where (`places`) it was set."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        problems = error.errors(include_url=False)
    said = []
    for each in problems:
        name, cause = str(each["loc"][0]) if each["loc"] else "", each.get("ctx", {}).get("error")
        place = places if isinstance(places, str) else places.get(name, "the defaults")
        if not name:
            said.append(str(cause or each["msg"]))
        elif each["type"] == "missing":
            said.append(f"{name} is not set; it takes {kind.model_fields[name].description}.")
        elif name not in kind.model_fields:
            near = difflib.get_close_matches(name, kind.model_fields, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]}?" if near else ""
            known = ", ".join(kind.model_fields)
            said.append(f"{place} sets {name!r}, which is no setting.{hint} The settings are: {known}.")
        else:
            means = kind.model_fields[name].description
            said.append(f"{place} sets {name} to {values[name]!r:.80}: {cause or each['msg']}.")
            said[-1] += f" It means: {means}." if means else ""
    raise BadConfig(" ".join(dict.fromkeys(said)))


FEWEST_ASKED = 8
"""How many of a dev set a run may ask, however short it is."""


class StageSettings(Settings):
    """What every stage is told; the defaults are those of a small CPU run. `training/NAME.py` is the stage."""

    about: ClassVar[str]
    """What the stage does, in a sentence."""
    example: ClassVar[str]
    """Words after `assay train NAME` that show it."""
    limit: ClassVar[str] = "max_length"
    """The setting that bounds a row's length, in tokens."""
    keeps_to_reference: ClassVar[bool] = False
    """Whether the answers to a dev set are compared with those of the reference, too."""
    holds_out: ClassVar[bool] = False
    """Whether a part of the data is kept as the dev set where none is named."""
    scores_twice: ClassVar[bool] = True
    """Whether a text is scored more than once, so that the base may draw nothing at random while it learns."""
    is_asked: ClassVar[bool] = True
    """Whether what it trains writes answers."""
    starts_from: ClassVar[str] = ""
    """What a stage that needs a chain says of it."""

    data: tuple[str, ...] = Field(
        min_length=1,
        description="data sets by name, NAME[KIND], NAME[KIND:COUNT], files of rows, or hub:OWNER/NAME; each with :WEIGHT"
        " behind it for a mix",
    )
    output: str = Field(min_length=1, description="the run folder to write")
    base: str = Field("embedded", min_length=1, description="embedded, a local folder or a Hub id")
    chain: str = Field("", description="run folder, chain.json or name of the chain to build on")
    mode: Literal["stack", "continue", "merge_then_new"] = Field(
        "stack",
        description="how the stage builds on the chain: a new adapter over the frozen ones, the last adapter"
        " trained further, or a new adapter over merged weights",
    )
    lora_r: int = Field(8, ge=1, le=512, description="rank of the adapter")
    lora_alpha: int = Field(16, ge=1, le=1024, description="scale of the adapter: alpha / r")
    lora_dropout: float = Field(0.0, ge=0.0, le=0.9, description="share of adapter inputs dropped")
    lora_targets: tuple[str, ...] = Field(
        ("all-linear",),
        min_length=1,
        description="layer names, or all-linear for every linear layer in the language model's blocks",
    )
    epochs: float = Field(1.0, ge=0.001, le=1000.0, description="passes over the data")
    max_steps: int = Field(0, ge=0, description="optimizer steps; 0 = as many as the epochs take")
    learning_rate: float = Field(1e-3, ge=0.0, le=1.0, description="peak learning rate")
    optimizer: Literal[
        "auto",
        "adamw_torch",
        "adamw_torch_fused",
        "adamw_bnb_8bit",
        "paged_adamw_8bit",
        "paged_adamw_32bit",
        "lion_8bit",
        "lion_32bit",
        "adafactor",
    ] = Field(
        "auto",
        description="transformers' name of the optimizer, auto = fused AdamW on a GPU and plain AdamW on a CPU;"
        " 8bit, paged and lion are bitsandbytes'",
    )
    schedule: Literal[
        "cosine",
        "linear",
        "constant",
        "constant_with_warmup",
        "inverse_sqrt",
        "cosine_with_min_lr",
        "warmup_stable_decay",
    ] = Field("cosine", description="how the learning rate falls, by transformers' names")
    min_rate: float = Field(
        0.0, ge=0.0, lt=1.0, description="share of the peak that cosine_with_min_lr and warmup_stable_decay end at"
    )
    decay: float = Field(
        0.1, gt=0.0, le=1_000_000, description="steps of the fall of warmup_stable_decay; below 1 a share of all"
    )
    warmup: float = Field(0.05, ge=0.0, le=1_000_000, description="steps to the peak; below 1 a share of all")
    weight_decay: float = Field(0.0, ge=0.0, le=1.0, description="the optimizer's weight decay")
    max_grad_norm: float = Field(1.0, ge=0.0, description="gradients are scaled down to this norm")
    batch: int = Field(4, ge=1, description="rows per process and forward pass")
    accumulation: int = Field(1, ge=1, description="forward passes per optimizer step")
    seed: int = Field(0, ge=0, le=4_000_000_000, description="seed of initialisation, order and sampling")
    eval_data: tuple[str, ...] = Field(
        (), description="dev set to be answered again and again, as data; never test rows"
    )
    eval_steps: int = Field(0, ge=0, description="optimizer steps between evaluations on the dev set; 0 = none")
    eval_examples: int = Field(
        0,
        ge=0,
        description="how many of the dev set are asked at most; 0 = all; a run that chooses no weights by them asks no"
        f" more than it trains on rows, {FEWEST_ASKED} at least",
    )
    eval_tokens: int = Field(0, ge=0, description="longest answer to them, tokens; 0 = max_completion_length, or 96")
    eval_batch: int = Field(8, ge=1, description="how many of them each process answers at a time")
    best_metric: str = Field(
        "",
        description="metric of the dev set, such as accuracy, by which the run ends with its best weights, or loss for"
        " the loss on rows that are held out; empty = last",
    )
    patience: int = Field(
        0,
        ge=0,
        description="evaluations without a better best_metric after which training is over; 0 = to the last step",
    )
    save_steps: int = Field(50, ge=1, description="optimizer steps between checkpoints")
    keep_checkpoints: int = Field(2, ge=1, description="how many checkpoints a running stage keeps")
    log_steps: int = Field(5, ge=1, description="optimizer steps between lines of metrics.jsonl")
    weights: Literal["float32", "bfloat16", "nf4"] = Field("float32", description="how the frozen base is held")
    autocast: Literal["bfloat16", "none"] = Field("bfloat16", description="type of the arithmetic")
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2", "flash_attention_3"] = Field(
        "auto", description="attention kernel, auto = the model's own; the flash ones need a GPU and their own package"
    )
    too_long: Literal["refuse", "drop"] = Field(
        "refuse", description="what becomes of rows above the length limit; none is ever cut"
    )
    activation_checkpointing: bool = Field(False, description="less memory for about a third more time")
    report_to: Literal["none", "trackio", "wandb", "tensorboard"] = Field(
        "none", description="where metrics go besides metrics.jsonl"
    )

    @property
    def longest(self) -> int:
        """The most tokens that a row may have."""
        return int(getattr(self, self.limit))

    @property
    def context(self) -> int:
        """The most tokens that the model reads at once, answers included."""
        return self.longest

    @property
    def tokens_per_row(self) -> int:
        """The most tokens of a row in a forward pass, answers included."""
        return self.context

    @property
    def longest_answer(self) -> int:
        """The most tokens of an answer to the dev set."""
        return self.eval_tokens or int(getattr(self, "max_completion_length", 96))

    def asked_at_a_look(self, rows: int) -> int:
        """Return how many of the dev set are asked at most by a run over so many rows; 0 = all.

        What is said of a short run by more answers than it has rows would take longer than the run.
        """
        if self.best_metric:
            return self.eval_examples
        trained = self.max_steps * self.batch * self.accumulation or self.epochs * rows
        most = max(FEWEST_ASKED, math.ceil(trained))
        return min(self.eval_examples, most) if self.eval_examples else most

    @property
    def has_dev(self) -> bool:
        """Whether there is something to look at every `eval_steps`."""
        return bool(self.eval_data) or self.holds_out

    @property
    def sources(self) -> tuple[str, ...]:
        """The data without their weights."""
        return tuple(WEIGHT.sub("", each) for each in self.data)

    @property
    def mix(self) -> tuple[float, ...]:
        """The weights of the data, summing up to 1; empty where none are given."""
        found = [float(match[1]) for each in self.data if (match := WEIGHT.search(each))]
        return tuple(weight / sum(found) for weight in found)

    @property
    def is_packed(self) -> bool:
        """Whether several rows stand in one sequence."""
        return False

    @property
    def vllm_mode(self) -> str:
        """How vLLM samples answers, "off" where it does not."""
        return "off"

    @property
    def wanted_packages(self) -> tuple[str, ...]:
        """The values that may need a package beside those of Assay (`training.launch.accelerate.PACKAGES`)."""
        return self.weights, self.optimizer, self.attention, self.report_to

    def read_rows(self, chain_prompt: str | None) -> "Rows[Any]":
        """Return the rows to train on, with the dev set; `chain_prompt` is the chain's, None without a chain.

        BadConfig for what cannot be used, ChainMismatch for another chain's rows.
        """
        raise NotImplementedError

    def mix_sources(self, read: "Callable[[Sequence[str]], Data]", data: "Data | None" = None) -> "Data":
        """Return the rows in the proportions of the `mix`; `read` returns those of some of the sources."""
        data = read(self.sources) if data is None else data
        if not self.mix:
            return data
        return data.mix({each: read([each]).named for each in self.sources}, self.mix, self.seed)

    def steps(self, rows: int, processes: int = 1) -> int:
        """Return the optimizer steps of a run over so many rows."""
        passes = math.ceil(rows / (self.batch * processes))
        return self.max_steps or math.ceil(self.epochs * math.ceil(passes / self.accumulation))

    def answers_at_once(self, processes: int = 1) -> int:
        """Return how many answers are sampled at a time over all processes; 0 where none are."""
        return 0

    def check_batches(self, rows: int, processes: int = 1) -> None:
        """Raise BadConfig if rows, batches and processes do not fit together."""

    def check_judge(self) -> None:
        """Raise BadConfig for a judge that may not be asked."""

    def check_key(self) -> None:
        """Raise BadConfig if a key that the run needs is not set on this machine."""

    @model_validator(mode="after")
    def _check_stage(self) -> Self:
        if self.starts_from and not self.chain:
            raise BadConfig(f"chain is empty; name the run folder {self.starts_from}")
        if (self.schedule == "cosine_with_min_lr") != bool(self.min_rate) and self.schedule != "warmup_stable_decay":
            raise BadConfig(
                f"schedule is {self.schedule} and min_rate {self.min_rate:g}; cosine_with_min_lr needs a min_rate above 0,"
                " such as 0.1, warmup_stable_decay may have one, and no other schedule has one."
            )
        if len(self.mix) not in (0, len(self.data)) or 0.0 in self.mix or len(set(self.sources)) < len(self.mix):
            raise BadConfig(
                f"data is {', '.join(self.data)}; a mix gives each data set, named once, a weight above 0, such as"
                " a:0.7,b:0.3."
            )
        if self.mode != "stack" and not self.chain:
            raise BadConfig(
                f"mode is {self.mode!r}, but there is no chain to build on; name one with chain, or use"
                " mode stack for the first stage."
            )
        if self.mode == "merge_then_new" and self.weights == "nf4":
            raise BadConfig(
                "mode merge_then_new adds earlier adapters to the base's own weights, and 4-bit weights"
                " would round most of them away; use mode stack, which is exact, or weights float32."
            )
        is_named = bool(self.eval_data) or (self.has_dev and not self.holds_out)
        is_turned_off = not self.eval_steps and type(self).model_fields["eval_steps"].default
        if (is_named and not self.eval_steps and not is_turned_off) or (self.eval_steps and not self.has_dev):
            raise BadConfig(
                f"eval_data is {', '.join(self.eval_data) or 'empty'} and eval_steps {self.eval_steps}; an evaluation"
                " needs both: a dev set or (SFT) a share to hold_out, and every how many steps it is looked at."
            )
        if (self.best_metric and not self.eval_steps) or (self.patience and not self.best_metric):
            raise BadConfig(
                f"patience is {self.patience}, best_metric {self.best_metric or 'empty'} and eval_steps"
                f" {self.eval_steps}; patience needs a best_metric, such as accuracy, and that needs eval_steps."
            )
        return self


class _EachKeyOnce(yaml.SafeLoader):
    """YAML's safe loader, which would take the last of equal keys without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return a mapping; ConstructorError for a key that it holds more than once."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise ConstructorError(
                    problem=f"the key {key.value!r} stands more than once; keep one", problem_mark=key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def document_of(content: bytes, source: str) -> object:
    """Return what a YAML file holds; BadConfig, naming `source`, if it is not YAML or repeats a key."""
    try:
        return yaml.load(content.decode("utf-8-sig"), Loader=_EachKeyOnce)
    except UnicodeDecodeError as error:
        raise BadConfig(f"{source} is not UTF-8 at byte {error.start}; save it as UTF-8.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no such date or number
        raise BadConfig(f"{source} is not YAML: {' '.join(str(error).split())}") from None


S_co = TypeVar("S_co", bound=StageSettings, covariant=True)
"""The settings of a stage."""


@dataclass(frozen=True)
class Request(Generic[S_co]):
    """What a command line asked for: the settings, and what to do with a folder that exists."""

    settings: S_co
    config: Path
    overrides: tuple[str, ...] = ()
    overwrite: bool = False


def read_request(kind: type[S_co], arguments: Sequence[str]) -> Request[S_co]:
    """Return what `--config F [--key value ...] [--overwrite]` asks for; BadConfig if it makes no sense."""
    pairs: dict[str, str] = {}
    rest = [word for word in arguments if word != "--overwrite"]
    while rest:
        word = rest.pop(0)
        key, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not key:
            raise BadConfig(f"{word!r} is not a setting; write --key value, such as --epochs 2.")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise BadConfig(f"{word} has no value; write {word} VALUE.")
            value = rest.pop(0)
        pairs[key.replace("-", "_")] = value
    if "config" not in pairs:
        raise BadConfig(
            "no settings file was named; add --config with one, such as --config training/configs/embedded/sft.yaml."
        )
    config = Path(pairs.pop("config"))
    overrides = tuple(f"--{key}={value}" for key, value in pairs.items())
    return Request(read_settings(kind, config, pairs), config, overrides, "--overwrite" in arguments)


def written_settings(file: Path) -> dict[str, Any]:
    """Return what stands in a YAML file of settings, over the settings of the file beside it that it `extends`."""
    try:
        document = document_of(file.read_bytes(), str(file))
    except (FileNotFoundError, IsADirectoryError):
        raise BadConfig(
            f"there is no settings file {file}; those that come with Assay lie in {Path(__file__).parent / 'configs'}."
        ) from None
    if not isinstance(document, dict):
        raise BadConfig(f"{file} holds no settings; write one `key: value` per line.")
    written = {str(key): value for key, value in document.items()}
    below = written.pop("extends", None)
    return (written_settings(file.with_name(str(below))) if below else {}) | written


def read_settings(kind: type[SettingsType], file: Path, overrides: Mapping[str, str] | None = None) -> SettingsType:
    """Return the settings of a YAML file, `overrides` (key to text) put over them."""
    written = written_settings(file)
    given = dict(overrides or {})
    places = dict.fromkeys(written, str(file)) | dict.fromkeys(given, "the command line")
    return make(kind, {**written, **given}, places)


def as_document(settings: Settings) -> dict[str, Any]:
    """Return the settings as plain JSON values, in the order of their definition."""
    return settings.model_dump(mode="json")
