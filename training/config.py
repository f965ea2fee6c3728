"""Settings of the stages: pydantic models, read from a YAML file with `--key value` words put over it."""

import difflib
import pkgutil
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, get_origin

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from yaml.constructor import ConstructorError

from evals.errors import BadConfig
from evals.schema.refiner import RewardConfig
from evals.verifiers.score import MODES, PRESETS, check_mode
from evals.verifiers.score import weights as weights_of

if TYPE_CHECKING:
    from training.data.tokens import Rows


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


RENAMED = {"held_out_steps": "eval_steps", "held_out_patience": "patience", "held_out_keep": "best_metric"}
"""Settings that files of before may have, with what they are called."""
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
            now = RENAMED.get(name)
            near = difflib.get_close_matches(name, kind.model_fields, n=1, cutoff=0.5)
            hint = f" It is {now} now." if now else f" Did you mean {near[0]}?" if near else ""
            known = ", ".join(kind.model_fields)
            said.append(f"{place} sets {name!r}, which is no setting.{hint} The settings are: {known}.")
        else:
            means = kind.model_fields[name].description
            said.append(f"{place} sets {name} to {values[name]!r:.80}: {cause or each['msg']}.")
            said[-1] += f" It means: {means}." if means else ""
    raise BadConfig(" ".join(dict.fromkeys(said)))


class StageSettings(Settings):
    """What every stage is told; the defaults are those of a small CPU run. `training/NAME.py` is the stage."""

    about: ClassVar[str]
    """What the stage does, in a sentence."""
    example: ClassVar[str]
    """Words after `assay train NAME` that show it."""
    rows: ClassVar[str]
    """What reads its rows, `module:function` of settings and the chain's system prompt (None without a chain)."""
    limit: ClassVar[str] = "max_length"
    """The setting that bounds a row's length, in tokens."""
    looks: ClassVar[tuple[str, ...]] = ("eval_steps",)
    """The settings by which a model answers in the middle of its training."""
    holds_out: ClassVar[bool] = False
    """Whether a part of the data is kept as the dev set where none is named."""
    starts_from: ClassVar[str] = ""
    """What a stage that needs a chain says of it."""

    data: tuple[str, ...] = Field(
        min_length=1,
        description="data sets by name, NAME[KIND], NAME[KIND:COUNT], or JSONL files; each with :WEIGHT behind it for a mix",
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
        ("all-linear",), min_length=1, description="layer names, or all-linear for every linear layer but the output"
    )
    epochs: float = Field(1.0, ge=0.001, le=1000.0, description="passes over the data")
    max_steps: int = Field(0, ge=0, description="optimizer steps; 0 = as many as the epochs take")
    learning_rate: float = Field(1e-3, ge=0.0, le=1.0, description="peak learning rate")
    schedule: Literal["cosine", "linear", "constant", "constant_with_warmup"] = Field(
        "cosine", description="how the learning rate falls"
    )
    warmup: float = Field(0.05, ge=0.0, le=1_000_000, description="steps to the peak; below 1 a share of all")
    weight_decay: float = Field(0.0, ge=0.0, le=1.0, description="AdamW's weight decay")
    max_grad_norm: float = Field(1.0, ge=0.0, description="gradients are scaled down to this norm")
    batch: int = Field(4, ge=1, description="rows per process and forward pass")
    accumulation: int = Field(1, ge=1, description="forward passes per optimizer step")
    seed: int = Field(0, ge=0, le=4_000_000_000, description="of initialisation, order and sampling")
    eval_data: tuple[str, ...] = Field(
        (), description="dev set to be answered again and again, as data; never test rows"
    )
    eval_steps: int = Field(0, ge=0, description="optimizer steps between evaluations on the dev set; 0 = none")
    eval_examples: int = Field(0, ge=0, description="how many of the dev set are asked at most; 0 = all")
    eval_tokens: int = Field(0, ge=0, description="longest answer to them, tokens; 0 = max_completion_length, or 96")
    best_metric: str = Field(
        "",
        description="metric of the dev set, such as accuracy, by which the run ends with its best weights; empty = last",
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
    attention: Literal["sdpa", "eager", "flash_attention_2", "flash_attention_3"] = Field(
        "sdpa", description="attention kernel; the flash ones need a GPU and their own package"
    )
    too_long: Literal["refuse", "drop"] = Field(
        "refuse", description="what becomes of rows above the length limit; none is ever cut"
    )
    activation_checkpointing: bool = Field(False, description="less memory for more time")
    report_to: Literal["none", "trackio", "wandb", "tensorboard"] = Field(
        "none", description="where metrics go besides metrics.jsonl"
    )

    @property
    def longest(self) -> int:
        """The most tokens that a row may have."""
        return int(getattr(self, self.limit))

    @property
    def tokens_per_row(self) -> int:
        """The most tokens of a row in a forward pass, answers included."""
        return self.longest

    @property
    def longest_answer(self) -> int:
        """The most tokens of an answer to the dev set."""
        return self.eval_tokens or int(getattr(self, "max_completion_length", 96))

    @property
    def sources(self) -> tuple[str, ...]:
        """The data without their weights."""
        return tuple(WEIGHT.sub("", each) for each in self.data)

    @property
    def mix(self) -> tuple[float, ...]:
        """The weights of the data, summing up to 1; empty where none are given."""
        found = [float(match[1]) for each in self.data if (match := WEIGHT.search(each))]
        return tuple(weight / sum(found) for weight in found)

    def read_rows(self, chain_prompt: str | None) -> "Rows[Any]":
        """Return the rows to train on, with the dev set; BadConfig for what cannot be used or another chain's rows."""
        read, told = pkgutil.resolve_name(self.rows), self.model_copy(update={"data": self.sources})
        data = read(told, chain_prompt)
        if self.mix:
            alone = told.model_copy(update={"eval_steps": 0})
            parts = [read(alone.model_copy(update={"data": (each,)}), chain_prompt).named for each in self.sources]
            data = data.mixed(dict(zip(self.sources, parts, strict=True)), self.mix, self.seed)
        return pkgutil.resolve_name("training.data.dev:with_dev")(data, told) if self.eval_steps else data

    @model_validator(mode="after")
    def _check_stage(self) -> Self:
        if self.starts_from and not self.chain:
            raise BadConfig(f"chain is empty; name the run folder {self.starts_from}")
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
        has_dev = bool(self.eval_data) or self.holds_out
        if (self.eval_data and not self.eval_steps) or (self.eval_steps and not has_dev):
            raise BadConfig(
                f"eval_data is {', '.join(self.eval_data) or 'empty'} and eval_steps {self.eval_steps}; an evaluation"
                " needs both: a dev set, and every how many steps it is answered."
            )
        if (self.best_metric and not self.eval_steps) or (self.patience and not self.best_metric):
            raise BadConfig(
                f"patience is {self.patience}, best_metric {self.best_metric or 'empty'} and eval_steps"
                f" {self.eval_steps}; patience needs a best_metric, such as accuracy, and that needs eval_steps."
            )
        return self


class SftSettings(StageSettings):
    """Settings of supervised fine-tuning."""

    about = "Fine-tune on questions and answers."
    example = "--config training/configs/embedded/sft.yaml --epochs 2 --dry-run"
    rows = "training.data.questions:sft_rows"

    max_length: int = Field(256, ge=16, description="longest question plus answer, tokens")
    packing: bool = Field(False, description="several rows in one sequence of max_length, each blind to the others")
    padding_free: bool = Field(
        False, description="the rows of a batch behind one another instead of padded; pays with flash attention"
    )
    liger: bool = Field(False, description="Liger's kernels for norms, rotary positions and inner layers; GPUs only")
    sequence_parallel: int = Field(
        1, ge=1, description="GPUs that share each sequence (Ulysses), for rows that one cannot hold; DeepSpeed only"
    )

    @property
    def tokens_per_row(self) -> int:
        """The part of a row that a GPU holds."""
        return -(-self.longest // self.sequence_parallel)


class ReviewSettings(SftSettings):
    """Settings of fine-tuning a reviewer; `data` are files of chat rows (`assay data review --corpus`)."""

    about = "Fine-tune a reviewer on papers and what people objected to."
    example = "--config training/configs/embedded/review.yaml --output runs/review/mine --dry-run"
    rows = "training.data.conversations:review_rows"

    max_length: int = Field(16_384, ge=16, description="longest paper plus reply, tokens")
    optimizer: Literal["adamw_torch", "adamw_bnb_8bit"] = Field(
        "adamw_torch", description="AdamW in full, or bitsandbytes' with its moments in 8 bits (GPU)"
    )
    loader: Literal["transformers", "unsloth"] = Field(
        "transformers", description="who loads the base; unsloth is faster and needs its own package and a GPU"
    )
    keep_adapters: bool = Field(False, description="keep the adapter of every checkpoint, for `assay review steps`")
    eval_tokens: int = Field(1024, ge=1, description="longest review of a dev paper, tokens")


class DpoSettings(StageSettings):
    """Settings of direct preference optimisation; what `monitor_data` asks must not be forgotten."""

    about = "Learn from pairs of a better and a worse answer."
    example = "--config training/configs/biorlhf/dpo.yaml --profile single-gpu --data votes.jsonl"
    rows = "training.data.preferences:dpo_rows"
    looks = ("eval_steps", "monitor_steps")
    starts_from = "that DPO starts from, such as runs/embedded/sft."

    beta: float = Field(
        0.1, ge=1e-4, le=10.0, description="pull towards the chain it starts from; below 0.1 knowledge is lost easily"
    )
    loss_type: str = Field("sigmoid", description="one of TRL's losses: sigmoid, ipo, hinge, robust, apo_zero, ...")
    sft_weight: float = Field(
        0.0,
        ge=0.0,
        le=10.0,
        description="weight of the SFT loss on the preferred answers (RPO, arXiv:2404.19733): keeps the form of answers",
    )
    label_smoothing: float = Field(0.0, ge=0.0, le=0.49, description="share of labels taken to be wrong")
    max_length: int = Field(256, ge=16, description="longest question plus answer, tokens")
    monitor_data: tuple[str, ...] = Field(
        ("kmp-dev",), description="questions asked again and again, as data; kmp-test may be watched too"
    )
    monitor_steps: int = Field(25, ge=0, description="optimizer steps between looks; 0 = never")
    monitor_questions: int = Field(24, ge=1, description="how many are asked at most")
    monitor_tokens: int = Field(96, ge=1, description="longest answer to them, tokens")
    monitor_max_drop: float = Field(0.15, ge=0.0, le=1.0, description="fall in accuracy that is too much")
    monitor_max_kl: float = Field(0.5, ge=0.0, description="distance to the reference that is too much, nats per token")
    monitor_stop: bool = Field(False, description="stop the run when either is too much")

    @property
    def tokens_per_row(self) -> int:
        """Two answers with their question."""
        return 2 * self.max_length

    @model_validator(mode="after")
    def _check_dpo(self) -> Self:
        watched = {name.partition("[")[0].strip() for name in self.monitor_data}
        if self.monitor_stop and "kmp-test" in watched:
            raise BadConfig(
                "monitor_stop with kmp-test would end the run by what its test questions say, and they"
                " could measure it no more; watch kmp-test without stopping, or stop by kmp-dev."
            )
        return self


class SampledSettings(StageSettings):
    """Settings of group relative policy optimisation, whatever the reward."""

    limit = "max_prompt_length"

    num_generations: int = Field(8, ge=2, le=256, description="answers per question (G)")
    generation_batch: int = Field(
        0, ge=0, description="answers sampled at a time over all processes; 0 = as many as one optimizer step uses"
    )
    beta: float = Field(0.04, ge=0.0, description="weight of the KL to the chain it starts from")
    kl_by_ratio: bool = Field(False, description="weight the KL estimate by the probability ratio (TRL's new default)")
    loss_type: str = Field("grpo", description="one of TRL's losses: grpo, dr_grpo, dapo, bnpo, cispo, ...")
    scale_rewards: Literal["group", "batch", "none"] = Field(
        "group", description="what rewards are divided by the deviation of"
    )
    importance_sampling: Literal["token", "sequence"] = Field(
        "token", description="level of the probability ratio; sequence is GSPO's"
    )
    num_iterations: int = Field(1, ge=1, description="updates per batch of answers")
    epsilon: float = Field(0.2, ge=0.0, description="clip range of the probability ratio")
    epsilon_high: float = Field(0.0, ge=0.0, description="clip range upwards; 0 = as epsilon (DAPO uses 0.28)")
    mask_truncated: bool = Field(False, description="leave answers that were cut out of the loss")
    temperature: float = Field(1.0, ge=0.01, le=5.0, description="of sampling")
    top_p: float = Field(1.0, ge=0.01, le=1.0, description="of sampling")
    max_prompt_length: int = Field(256, ge=8, description="longest question, tokens")
    max_completion_length: int = Field(96, ge=1, description="longest answer, tokens")
    vllm: Literal["off", "colocate", "server"] = Field(
        "off", description="sample answers with vLLM: in the training processes, or from a server; GPUs only"
    )
    vllm_server: str = Field(
        "http://localhost:8001", pattern="^https?://", description="address of the vLLM server (docs/training.md)"
    )
    vllm_memory: float = Field(
        0.3, ge=0.05, le=0.95, description="share of each GPU's memory that vLLM may take beside training"
    )
    vllm_sleep: bool = Field(
        False, description="let colocated vLLM give its memory back while the model learns, for some seconds a step"
    )
    vllm_tensor_parallel: int = Field(1, ge=1, description="GPUs that share one vLLM copy")
    gather_to_sample: bool = Field(
        True,
        description="under ZeRO-3, hold the whole base on each GPU while answers are sampled; false gathers a layer at"
        " a time, slower, for a base that one GPU cannot hold",
    )

    @property
    def tokens_per_row(self) -> int:
        """A question and its answer."""
        return self.max_prompt_length + self.max_completion_length

    @model_validator(mode="after")
    def _check_sampling(self) -> Self:
        if self.vllm == "colocate" and self.weights == "nf4":
            raise BadConfig(
                "TRL starts vLLM beside a 4-bit policy in 4 bits, too, and that takes no merged weights. Use vllm server,"
                " which holds the base whole and is given each weight unpacked with the adapters added, or vllm off."
            )
        return self


class GrpoSettings(SampledSettings):
    """Settings of GRPO on top of a trained chain, rewarded by the verifiers."""

    about = "Reward a chain's own answers by the verifiers."
    example = "--config training/configs/embedded/grpo.yaml --profile multi-cpu -- --num_processes 2"
    rows = "training.data.questions:grpo_rows"
    starts_from = "that GRPO starts from, such as runs/embedded/sft."

    verifier_weights: str | Mapping[str, float] | None = Field(
        None,
        description=f"share of each verifier, such as V1=0.6,V4=0.4, or a set by name ({', '.join(PRESETS)});"
        " none = the verifiers' own",
    )
    aggregation: Literal["sum_then_normalize", "normalize_then_sum"] = Field(
        "sum_then_normalize",
        description="sum_then_normalize compares one composed reward within a group; normalize_then_sum compares"
        " each verifier there on its own before they are weighted, so that a stated confidence counts"
        " where all answers are right, or all wrong",
    )
    v4: str = Field(
        "proper", description=f"how V4 scores a stated confidence: {', '.join(MODES)}; only proper cannot be gamed"
    )

    environment: str = Field(
        "", description="tools that the model may call in its answers: enrichment, or MODULE:CLASS; empty = none"
    )
    tool_turns: int = Field(4, ge=1, description="how often an answer may call tools and go on")

    @field_validator("verifier_weights", mode="before")
    @classmethod
    def _written_weights(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        if value.strip().lower() in ("", "none", "null"):
            return None
        if "=" not in value:
            return value.strip()
        pairs = [part.split("=") for part in value.split(",")]
        read = {name.strip(): float(number) for name, number in pairs}
        if len(read) < len(pairs):
            raise BadConfig(f"a name stands twice in {value!r}; give each name one number.")
        return read

    @model_validator(mode="after")
    def _check_grpo(self) -> Self:
        weights_of(self.verifier_weights)
        check_mode(self.v4)
        if self.aggregation == "normalize_then_sum" and self.scale_rewards != "group":
            raise BadConfig(
                f"scale_rewards is {self.scale_rewards!r} beside aggregation normalize_then_sum, which"
                " divides by each group's deviation whatever it says; use scale_rewards group, or"
                " aggregation sum_then_normalize."
            )
        return self


HEURISTIC = "heuristic"


class RefinerSettings(SampledSettings, RewardConfig):
    """Settings of GRPO on answers with citations; `data` are refiner-train or JSONL files of records.

    A prompt over `max_prompt_length` loses passages that nothing rests on; what is still too long then
    is refused or dropped. The reward's settings are those of `assay refiner score`.
    """

    about = "Reward answers that cite evidence by rubric and citations (GRPO)."
    example = "--config training/configs/embedded/refiner-grpo.yaml --judge heuristic --dry-run"
    rows = "training.data.refine:refiner_rows"
    holds_out = True
    starts_from = (
        "of the SFT stage that learned the grammar, such as runs/refiner/sft: answers that no one could read have no"
        " reward to learn from."
    )

    judge: str = Field(
        pattern=f"^({HEURISTIC}$|https?://)",
        description="heuristic, which compares words and is for small machines, or the address of an OpenAI-compatible"
        " server, such as http://127.0.0.1:8000/v1 (vllm serve MODEL --host 127.0.0.1 --enable-prefix-caching)",
    )
    judge_model: str = Field("", description="model to ask of the server; empty = the one it lists")
    judge_key_env: str = Field("", description="variable that holds the server's key; empty = none")
    judge_allow_remote: bool = Field(False, description="let another machine read all that is judged")
    judge_mode: Literal["batched", "per_item"] = Field(
        "batched", description="all items of an answer in one request, or each in its own"
    )
    judge_concurrency: int = Field(64, ge=1, description="requests at a time, per process")
    judge_timeout_seconds: float = Field(60.0, ge=0.01, description="longest wait for a reply")
    judge_deadline_seconds: float = Field(
        600.0, ge=0.01, description="longest wait for all answers of a step; those not judged by then have no reward"
    )
    judge_retries: int = Field(3, ge=0, le=20, description="further tries where one may help")
    judge_cache: str = Field("", description="file that keeps verdicts; empty = none")
    max_none_fraction: float = Field(
        0.25, ge=0.0, le=1.0, description="share of a step's answers that may stay without verdict"
    )
    none_patience: int = Field(1, ge=1, description="steps in a row above it that stop the run")
    retire_after: int = Field(
        3,
        ge=0,
        description="an item on which a question's answers were all alike so often in a row is not asked any more;"
        " 0 = never",
    )
    held_out_share: float = Field(
        0.1,
        ge=0.01,
        le=0.5,
        description="of the studies and tissues (groups) that are the dev set where eval_data names none",
    )
    monitor_stop: bool = Field(False, description="stop the run at the first alarm")

    def reward(self) -> RewardConfig:
        """Return how verdicts become a reward."""
        return RewardConfig(**{name: getattr(self, name) for name in RewardConfig.model_fields})


STAGES: dict[str, type[StageSettings]] = {
    "sft": SftSettings,
    "dpo": DpoSettings,
    "grpo": GrpoSettings,
    "review": ReviewSettings,
    "refiner": RefinerSettings,
}
"""The stages by name; a new one is a line here."""


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


@dataclass(frozen=True)
class Request:
    """What a command line asked for: the settings, and what to do with a folder that exists."""

    settings: StageSettings
    config: Path
    overrides: tuple[str, ...] = ()
    overwrite: bool = False


def read_request(kind: type[StageSettings], arguments: Sequence[str]) -> Request:
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


def read_settings(kind: type[SettingsType], file: Path, overrides: Mapping[str, str] | None = None) -> SettingsType:
    """Return the settings of a YAML file, `overrides` (key to text) put over them."""
    try:
        document = document_of(file.read_bytes(), str(file))
    except (FileNotFoundError, IsADirectoryError):
        raise BadConfig(
            f"there is no settings file {file}; those that come with Assay lie in training/configs."
        ) from None
    if not isinstance(document, dict):
        raise BadConfig(f"{file} holds no settings; write one `key: value` per line.")
    written = {str(key): value for key, value in document.items()}
    given = dict(overrides or {})
    places = dict.fromkeys(written, str(file)) | dict.fromkeys(given, "the command line")
    return make(kind, {**written, **given}, places)


def as_document(settings: Settings) -> dict[str, Any]:
    """Return the settings as plain JSON values, in the order of their definition."""
    return settings.model_dump(mode="json")


def read_values(kind: type[Settings], values: Mapping[str, object], place: str) -> dict[str, Any]:
    """Return some of the settings as plain values, each checked on its own; BadConfig as in `make`."""
    fields: dict[str, Any] = {name: (kind.model_fields[name].annotation, kind.model_fields[name]) for name in values}
    return as_document(make(create_model(kind.__name__, __base__=Settings, **fields), values, place))


def defaults(kind: type[StageSettings]) -> dict[str, Any]:
    """Return the default of each setting that has one, as plain JSON values."""
    known = {name: field.default for name, field in kind.model_fields.items() if not field.is_required()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in known.items()}


DIVIDED = (
    "scale_rewards group lets groups of right answers pull as hard as groups of wrong ones, so a stated confidence"
    " ends at sure or at nothing and not at what the answers are worth, although V4 is a proper score;"
    " scale_rewards none, with aggregation sum_then_normalize, keeps it one (docs/training.md, Confidence)"
)


def advice(settings: StageSettings) -> tuple[str, ...]:
    """Return what a run with these settings should be started in knowledge of, as sentences."""
    if not isinstance(settings, GrpoSettings) or settings.v4 != "proper":
        return ()
    has_v4 = weights_of(settings.verifier_weights).get("V4", 0.0) > 0
    return (DIVIDED,) if has_v4 and settings.scale_rewards == "group" else ()
