"""Settings of the refiner's stage: everything of GRPO but the verifiers, then reward, judge and alarms."""

import dataclasses
import difflib
import math
import types
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml
from yaml.constructor import ConstructorError

from evals.errors import BadConfig
from evals.schema.refiner import RewardConfig
from evals.verifiers.presets import MODES, PRESETS, check_mode, weights
from evals.verifiers.presets import weights as weights_of
from training.judge.questions import MAX_VOTES, check_votes

REQUIRED: Any = dataclasses.MISSING
WORDS_FOR_TRUE = ("true", "yes", "on", "1")
WORDS_FOR_FALSE = ("false", "no", "off", "0")
WORDS_FOR_NONE = ("none", "null", "")
MOST = 2**63 - 1
"""No number is larger: the libraries that training rests on count in 64 bits."""
SHOWN = 80
"""Characters of a value that an error shows."""


def setting(meaning: str, *, default: Any = REQUIRED, low: float | None = None, high: float | None = None) -> Any:
    """Return a dataclass field that knows its meaning and its range (ends included)."""
    known = {"meaning": meaning, "low": low, "high": high}
    if default is REQUIRED:
        return dataclasses.field(metadata=known)
    return dataclasses.field(default=default, metadata=known)


@dataclass(frozen=True)
class Setting:
    """A field of a settings class with all that is needed to read and explain it."""

    name: str
    annotation: Any
    meaning: str
    low: float | None
    high: float | None
    is_required: bool

    @classmethod
    def of(cls, kind: Any, name: str) -> "Setting":
        """Return the setting called `name` of a settings class."""
        found = next(each for each in dataclasses.fields(kind) if each.name == name)
        return cls(
            name=name,
            annotation=get_type_hints(kind)[name],
            meaning=found.metadata["meaning"],
            low=found.metadata["low"],
            high=found.metadata["high"],
            is_required=found.default is dataclasses.MISSING,
        )

    @property
    def accepts(self) -> str:
        """What it takes, in words: "a whole number from 1 to 512"."""
        kind = self.annotation
        if get_origin(kind) is Literal:
            return "one of " + ", ".join(get_args(kind))
        if get_origin(kind) is tuple:
            return "a list (on the command line: with commas)"
        if get_origin(kind) in (Union, types.UnionType):
            return "names with numbers (on the command line: V1=0.6,V4=0.4), the name of a set, or none"
        words = {int: "a whole number", float: "a number", bool: "true or false"}
        return words.get(kind, "text") + self._range()

    def _range(self) -> str:
        if self.low is None:
            return ""
        low, high = _in_words(self.low), _in_words(self.high or 0)
        return f" from {low} to {high}" if self.high else f" of {low} or more"


def describe(kind: Any, name: str) -> str:
    """Return one line about a setting: "epochs: passes over the data (a number from …)"."""
    known = Setting.of(kind, name)
    return f"{name}: {known.meaning} ({known.accepts})"


def read_value(known: Setting, value: object, place: str) -> Any:
    """Return `value` as the type of the setting; BadConfig, naming `place`, if it cannot be."""
    try:
        read = _read(known.annotation, value)
    except BadConfig as error:  # a ValueError too, with more to say
        raise BadConfig(f"{place} sets {known.name} to what it cannot be: {error}") from None
    except (ValueError, TypeError, OverflowError):
        raise _refused(known, value, place) from None
    if isinstance(read, int | float) and not isinstance(read, bool):
        below = known.low is not None and read < known.low
        above = known.high is not None and read > known.high
        if below or above or not abs(read) <= MOST:  # so written, it refuses what is no number too
            raise _refused(known, value, place)
    return read


def _in_words(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def _refused(known: Setting, value: object, place: str) -> BadConfig:
    shown = repr(value)
    shown = shown if len(shown) <= SHOWN else shown[: SHOWN - 3] + "..."
    return BadConfig(f"{place} sets {known.name} to {shown}; it takes {known.accepts}. It means: {known.meaning}.")


def _read(annotation: Any, value: object) -> Any:
    origin = get_origin(annotation)
    if origin is Literal:
        word = "off" if value is False else str(value)  # YAML reads a bare off as false
        if word not in get_args(annotation):
            raise ValueError(value)
        return word
    if origin is tuple:
        return _list(value)
    if origin in (Union, types.UnionType):
        return _numbers(value)
    if annotation is bool:
        return _truth(value)
    if isinstance(value, bool | dict | list) or value is None:
        raise TypeError(value)
    if annotation is int:
        return _whole(value)
    return annotation(value)


def _whole(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(value)
    return int(value)


def _truth(value: object) -> bool:
    word = str(value).strip().lower()
    if word not in WORDS_FOR_TRUE + WORDS_FOR_FALSE:
        raise ValueError(value)
    return word in WORDS_FOR_TRUE


def _list(value: object) -> tuple[str, ...]:
    """Return a list's items as text; a text is split at its commas."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise TypeError(value)


def _numbers(value: object) -> str | Mapping[str, float] | None:
    """Return "V1=0.6,V4=0.4" or a mapping as names to numbers, a name as it is, None for none."""
    if value is None or (isinstance(value, str) and value.strip().lower() in WORDS_FOR_NONE):
        return None
    if isinstance(value, str) and "=" not in value:
        return value.strip()
    if isinstance(value, str):
        return _setting_pairs(value)
    if isinstance(value, dict):
        return {str(name): float(number) for name, number in value.items()}
    raise TypeError(value)


def _setting_pairs(text: str) -> Mapping[str, float]:
    """Return "V1=0.6,V4=0.4" as a mapping; BadConfig for a name that stands twice."""
    read: dict[str, float] = {}
    for part in text.split(","):
        name, number = (word.strip() for word in part.split("="))
        if name in read:
            raise BadConfig(f"{name} stands twice in {text!r}; give each name one number.")
        read[name] = float(number)
    return read


MOST_SEED = 4_000_000_000
"""numpy takes seeds below 2^32; processes add their rank."""


@dataclass(frozen=True)
class StageSettings:
    """What every stage is told. The defaults of each field are those of a small CPU run."""

    data: tuple[str, ...] = setting("data sets by name, NAME[KIND], NAME[KIND:COUNT], or JSONL files")
    output: str = setting("the run folder to write")
    base: str = setting("embedded, a local folder or a Hub id", default="embedded")
    chain: str = setting("run folder, chain.json or name of the chain to build on", default="")
    mode: Literal["stack", "continue", "merge_then_new"] = setting(
        "how the stage builds on the chain: a new adapter over the frozen ones, the last adapter"
        " trained further, or a new adapter over merged weights",
        default="stack",
    )
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
    warmup: float = setting("steps to the peak; below 1 a share of all", default=0.05, low=0.0, high=1_000_000)
    weight_decay: float = setting("AdamW's weight decay", default=0.0, low=0.0, high=1.0)
    max_grad_norm: float = setting("gradients are scaled down to this norm", default=1.0, low=0.0)
    batch: int = setting("rows per process and forward pass", default=4, low=1)
    accumulation: int = setting("forward passes per optimizer step", default=1, low=1)
    seed: int = setting("of initialisation, order and sampling", default=0, low=0, high=MOST_SEED)
    save_steps: int = setting("optimizer steps between checkpoints", default=50, low=1)
    keep_checkpoints: int = setting("how many checkpoints a running stage keeps", default=2, low=1)
    log_steps: int = setting("optimizer steps between lines of metrics.jsonl", default=5, low=1)
    weights: Literal["float32", "bfloat16", "nf4"] = setting("how the frozen base is held", default="float32")
    autocast: Literal["bfloat16", "none"] = setting("type of the arithmetic", default="bfloat16")
    attention: Literal["sdpa", "eager", "flash_attention_2", "flash_attention_3"] = setting(
        "attention kernel; the flash ones need a GPU and their own package", default="sdpa"
    )
    too_long: Literal["refuse", "drop"] = setting(
        "what becomes of rows above the length limit; none is ever cut", default="refuse"
    )
    activation_checkpointing: bool = setting("less memory for more time", default=False)
    grid_co2: float = setting("grams of CO2 to a kWh of the grid; 0 = not known, none is told", default=0.0, low=0.0)
    hour_price: float = setting("price of an hour of the run, in any currency; 0 = not known", default=0.0, low=0.0)
    report_to: Literal["none", "trackio", "wandb", "tensorboard"] = setting(
        "where metrics go besides metrics.jsonl", default="none"
    )

    def __post_init__(self) -> None:
        for name in ("data", "lora_targets"):
            if not getattr(self, name):
                raise BadConfig(f"{name} is empty; name at least one. {describe(type(self), name)}")
        if not self.output.strip():
            raise BadConfig("output is empty; name the run folder to write, such as runs/mine.")
        if not self.base.strip():
            raise BadConfig(f"base is empty. {describe(type(self), 'base')}")
        if self.mode != "stack" and not self.chain.strip():
            raise BadConfig(
                f"mode is {self.mode!r}, but there is no chain to build on; name one with chain, or use"
                " mode stack for the first stage."
            )
        if self.mode == "merge_then_new" and self.weights == "nf4":
            raise BadConfig(
                "mode merge_then_new adds earlier adapters to the base's own weights, and 4-bit weights"
                " would round most of them away; use mode stack, which is exact, or weights float32."
            )


@dataclass(frozen=True)
class SftSettings(StageSettings):
    """Settings of supervised fine-tuning."""

    max_length: int = setting("longest question plus answer, tokens", default=256, low=16)
    packing: bool = setting("several rows in one sequence of max_length, each blind to the others", default=False)


@dataclass(frozen=True)
class ReviewSettings(SftSettings):
    """Settings of fine-tuning a reviewer; `data` are files of chat rows (`assay data review --corpus`)."""

    max_length: int = setting("longest paper plus reply, tokens", default=16_384, low=16)
    optimizer: Literal["adamw_torch", "adamw_bnb_8bit"] = setting(
        "AdamW in full, or bitsandbytes' with its moments in 8 bits (GPU)", default="adamw_torch"
    )
    loader: Literal["transformers", "unsloth"] = setting(
        "who loads the base; unsloth is faster and needs its own package and a GPU",
        default="transformers",
    )
    keep_adapters: bool = setting("keep the adapter of every checkpoint, for `assay review steps`", default=False)


@dataclass(frozen=True)
class DpoSettings(StageSettings):
    """Settings of direct preference optimisation; `data` are preference data sets.

    The monitor asks `monitor_data` every `monitor_steps`: what was known must not be forgotten.
    """

    beta: float = setting(
        "pull towards the chain it starts from; below 0.1 knowledge is lost easily",
        default=0.1,
        low=1e-4,
        high=10.0,
    )
    loss_type: Literal["sigmoid", "ipo", "hinge", "robust", "apo_zero", "sigmoid_norm"] = setting(
        "TRL's loss", default="sigmoid"
    )
    label_smoothing: float = setting("share of labels taken to be wrong", default=0.0, low=0.0, high=0.49)
    max_length: int = setting("longest question plus answer, tokens", default=256, low=16)
    monitor_data: tuple[str, ...] = setting(
        "questions asked again and again, as data; kmp-test may be watched too",
        default=("kmp-dev",),
    )
    monitor_steps: int = setting("optimizer steps between looks; 0 = never", default=25, low=0)
    monitor_questions: int = setting("how many are asked at most", default=24, low=1)
    monitor_tokens: int = setting("longest answer to them, tokens", default=96, low=1)
    monitor_max_drop: float = setting("fall in accuracy that is too much", default=0.15, low=0.0, high=1.0)
    monitor_max_kl: float = setting("distance to the reference that is too much, nats per token", default=0.5, low=0.0)
    monitor_stop: bool = setting("stop the run when either is too much", default=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _need_chain(self.chain, "DPO")
        if self.monitor_steps and not self.monitor_data:
            raise BadConfig(
                f"monitor_data is empty, so every {self.monitor_steps} steps nothing would be watched; name"
                " data such as kmp-dev, or set monitor_steps to 0."
            )
        watched = {name.partition("[")[0].strip() for name in self.monitor_data}
        if self.monitor_stop and "kmp-test" in watched:
            raise BadConfig(
                "monitor_stop with kmp-test would end the run by what its test questions say, and they"
                " could measure it no more; watch kmp-test without stopping, or stop by kmp-dev."
            )


@dataclass(frozen=True)
class SampledSettings(StageSettings):
    """Settings of group relative policy optimisation, whatever the reward."""

    num_generations: int = setting("answers per question (G)", default=8, low=2, high=256)
    generation_batch: int = setting(
        "answers sampled at a time over all processes; 0 = as many as one optimizer step uses",
        default=0,
        low=0,
    )
    beta: float = setting("weight of the KL to the chain it starts from", default=0.04, low=0.0)
    kl_by_ratio: bool = setting("weight the KL estimate by the probability ratio (TRL's new default)", default=False)
    loss_type: Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"] = setting(
        "TRL's loss", default="grpo"
    )
    scale_rewards: Literal["group", "batch", "none"] = setting(
        "what rewards are divided by the deviation of", default="group"
    )
    importance_sampling: Literal["token", "sequence"] = setting(
        "level of the probability ratio; sequence is GSPO's", default="token"
    )
    num_iterations: int = setting("updates per batch of answers", default=1, low=1)
    epsilon: float = setting("clip range of the probability ratio", default=0.2, low=0.0)
    epsilon_high: float = setting("clip range upwards; 0 = as epsilon (DAPO uses 0.28)", default=0.0, low=0.0)
    mask_truncated: bool = setting("leave answers that were cut out of the loss", default=False)
    temperature: float = setting("of sampling", default=1.0, low=0.01, high=5.0)
    top_p: float = setting("of sampling", default=1.0, low=0.01, high=1.0)
    max_prompt_length: int = setting("longest question, tokens", default=256, low=8)
    max_completion_length: int = setting("longest answer, tokens", default=96, low=1)
    vllm: Literal["off", "colocate", "server"] = setting(
        "sample answers with vLLM: in the training processes, or from a server; GPUs only",
        default="off",
    )
    vllm_server: str = setting("address of the vLLM server", default="http://localhost:8000")
    vllm_memory: float = setting(
        "share of each GPU's memory that vLLM may take beside training",
        default=0.3,
        low=0.05,
        high=0.95,
    )
    vllm_tensor_parallel: int = setting("GPUs that share one vLLM copy", default=1, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vllm != "off" and self.weights == "nf4":
            raise BadConfig(
                "vLLM is given the adapters merged into the base at every step, which 4-bit weights do not"
                " survive: they would be rounded anew each time, and with them policy and reference. Use"
                " vllm off, or weights bfloat16."
            )
        if self.vllm == "server" and not self.vllm_server.startswith(("http://", "https://")):
            raise BadConfig(
                f"vllm_server is {self.vllm_server!r}; it takes the address that `vllm serve` listens"
                " on, such as http://localhost:8000."
            )


@dataclass(frozen=True)
class GrpoSettings(SampledSettings):
    """Settings of GRPO on top of a trained chain, rewarded by the verifiers."""

    verifier_weights: str | Mapping[str, float] | None = setting(
        f"share of each verifier, such as V1=0.6,V4=0.4, or a set by name ({', '.join(PRESETS)});"
        " none = the verifiers' own",
        default=None,
    )
    aggregation: Literal["sum_then_normalize", "normalize_then_sum"] = setting(
        "sum_then_normalize compares one composed reward within a group; normalize_then_sum compares"
        " each verifier there on its own before they are weighted, so that a stated confidence counts"
        " where all answers are right, or all wrong",
        default="sum_then_normalize",
    )
    v4: str = setting(
        f"how V4 scores a stated confidence: {', '.join(MODES)}; only proper cannot be gamed",
        default="proper",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _need_chain(self.chain, "GRPO")
        weights_of(self.verifier_weights)
        check_mode(self.v4)
        if self.aggregation == "normalize_then_sum" and self.scale_rewards != "group":
            raise BadConfig(
                f"scale_rewards is {self.scale_rewards!r} beside aggregation normalize_then_sum, which"
                " divides by each group's deviation whatever it says; use scale_rewards group, or"
                " aggregation sum_then_normalize."
            )


def _need_chain(chain: str, stage: str) -> None:
    if not chain.strip():
        raise BadConfig(f"chain is empty; name the run folder that {stage} starts from, such as runs/embedded/sft.")


def as_document(settings: StageSettings) -> dict[str, Any]:
    """Return the settings as plain JSON values, in the order of their definition."""
    return {each.name: _plain(getattr(settings, each.name)) for each in fields(settings)}


def defaults(kind: type[StageSettings]) -> dict[str, Any]:
    """Return the default of each setting that has one, as plain JSON values."""
    known = {each.name: each.default for each in fields(kind)}
    return {name: _plain(value) for name, value in known.items() if value is not MISSING}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


HEURISTIC = "heuristic"


@dataclass(frozen=True)
class RefinerSettings(SampledSettings):
    """Settings of GRPO on answers with citations; `data` are refiner-train or JSONL files of records.

    A prompt over `max_prompt_length` loses passages that nothing rests on; what is still too long then
    is refused or dropped. The reward's settings are those of `assay refiner score`.
    """

    judge: str = setting("heuristic (compares words), or the address of a server", default="")
    judge_model: str = setting("model to ask of the server; empty = the one it lists", default="")
    judge_key_env: str = setting("variable that holds the server's key; empty = none", default="")
    judge_allow_remote: bool = setting("let another machine read all that is judged", default=False)
    judge_mode: Literal["batched", "per_item"] = setting(
        "all items of an answer in one request, or each in its own", default="batched"
    )
    judge_votes: int = setting(
        "votes on each verdict, two at first and the others where these differ: the majority stands",
        default=1,
        low=1,
        high=MAX_VOTES,
    )
    noise_limit: float = setting(
        "items whose votes lie further apart than this share of the scale, on average over a question's"
        " answers, are left out of their reward; 1 = none",
        default=1.0,
        low=0.0,
        high=1.0,
    )
    judge_concurrency: int = setting("requests at a time, per process", default=64, low=1)
    judge_timeout_seconds: float = setting("longest wait for a reply", default=60.0, low=0.01)
    judge_deadline_seconds: float = setting(
        "longest wait for all answers of a step; those not judged by then have no reward",
        default=600.0,
        low=0.01,
    )
    judge_retries: int = setting("further tries where one may help", default=3, low=0, high=20)
    judge_cache: str = setting("file that keeps verdicts; empty = none", default="")
    second_judge: str = setting(
        "another judge that reads some answers too, to see whether the two drift apart; empty = none",
        default="",
    )
    second_share: float = setting("share of answers it reads", default=0.05, low=0.0, high=1.0)
    max_none_fraction: float = setting(
        "share of a step's answers that may stay without verdict", default=0.25, low=0.0, high=1.0
    )
    none_patience: int = setting("steps in a row above it that stop the run", default=1, low=1)
    static_rubrics: bool = setting("grade by the three items that fit every record", default=True)
    items_report: str = setting(
        "report of `assay refiner items`: items that it drops are not asked; empty = all are",
        default="",
    )
    retire_after: int = setting(
        "an item on which a question's answers were all alike so often in a row is not asked any more; 0 = never",
        default=3,
        low=0,
    )
    contrast_floor: float = setting(
        "an item weighs by how far it told a question's answers apart at the last visit, at least by"
        " this share of its weight; 1 = by its weight",
        default=1.0,
        low=0.01,
        high=1.0,
    )
    score_scale: float = setting("highest number a judge gives an item", default=2.0, low=0.01)
    citation_weight: float = setting("share of the citations", default=0.2, low=0.0, high=1.0)
    citation_metric: Literal["f1", "precision", "recall"] = setting("of citations", default="f1")
    citation_level: Literal["snippet", "paper"] = setting("what is cited", default="snippet")
    apply_citation: bool = setting("reward citations at all", default=True)
    combine: Literal["convex", "additive"] = setting(
        "(1 - w) rubric + w citations, or rubric + w citations", default="convex"
    )
    gate: Literal["off", "multiply", "require"] = setting(
        "what a format fault costs: nothing, its share, everything", default="require"
    )
    empty_answer: Literal["auto", "zero", "scored"] = setting(
        "an answer without a word earns nothing, or is graded; auto = graded with gate off only",
        default="auto",
    )
    verification_reward: float = setting("the highest reward", default=10.0, low=0.01)
    reasoning_tags: tuple[str, ...] = setting("names of a leading block that is not part of the answer", default=())
    max_words_per_claim: int = setting("a longer claim is unsupported; 0 = any", default=80, low=0)
    max_ids_per_claim: int = setting("one with more is unsupported; 0 = any", default=8, low=0)
    held_out_steps: int = setting(
        "optimizer steps between looks at records that are not trained on; 0 = none are held out",
        default=0,
        low=0,
    )
    held_out_share: float = setting(
        "of the studies and tissues (groups) that are held out", default=0.1, low=0.01, high=0.5
    )
    held_out_patience: int = setting(
        "looks in a row without a better score after which training is over; 0 = to the last step",
        default=0,
        low=0,
    )
    held_out_keep: Literal["auto", "best", "last"] = setting(
        "weights that a run ends with: of the best look at held-out records, or of the last step; auto ="
        " best with a held_out_patience, else last",
        default="auto",
    )
    monitor_stop: bool = setting("stop the run at the first alarm", default=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.chain.strip():
            raise BadConfig(
                "chain is empty; name the run folder of the SFT stage that learned the grammar, such as"
                " runs/refiner/sft: answers that no one could read have no reward to learn from."
            )
        for name in ("judge", *(["second_judge"] if self.second_judge else [])):
            if not is_judge(getattr(self, name)):
                raise BadConfig(
                    f"{name} is {getattr(self, name)!r}; it takes heuristic, which compares words and is"
                    " for small machines, or the address of an OpenAI-compatible server, such as"
                    " http://127.0.0.1:8000/v1 (vllm serve MODEL --host 127.0.0.1"
                    " --enable-prefix-caching)."
                )
        check_votes(self.judge, self.judge_votes)
        if self.judge_votes == 1 and self.noise_limit < 1.0:
            raise BadConfig(
                f"noise_limit is {self.noise_limit:g}, but one vote cannot lie apart; set judge_votes to 3,"
                " or noise_limit to 1."
            )

    @property
    def keeps_best(self) -> bool:
        """Whether a run ends with the weights of its best look at held-out records."""
        if self.held_out_keep == "auto":
            return self.held_out_patience > 0
        return self.held_out_keep == "best"

    def reward(self) -> RewardConfig:
        """Return how verdicts become a reward."""
        return RewardConfig(
            static_rubrics=self.static_rubrics,
            score_scale=self.score_scale,
            citation_level=self.citation_level,
            citation_metric=self.citation_metric,
            apply_citation=self.apply_citation,
            citation_weight=self.citation_weight,
            combine=self.combine,
            gate=self.gate,
            empty_answer=self.empty_answer,
            verification_reward=self.verification_reward,
            reasoning_tags=self.reasoning_tags,
            max_words_per_claim=self.max_words_per_claim,
            max_ids_per_claim=self.max_ids_per_claim,
        )


def is_judge(word: str) -> bool:
    """Return whether a word names a judge to train with: one that compares words, or a server."""
    return word == HEURISTIC or word.startswith(("http://", "https://"))


STAGES: Mapping[str, type[StageSettings]] = {
    "sft": SftSettings,
    "dpo": DpoSettings,
    "grpo": GrpoSettings,
    "review": ReviewSettings,
    "refiner": RefinerSettings,
}


class _EachKeyOnce(yaml.SafeLoader):
    """YAML's safe loader, which would take the last of equal keys without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return a mapping; ConstructorError for a key that it holds more than once."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise ConstructorError(
                    problem=f"the key {key.value!r} stands more than once; keep one",
                    problem_mark=key.start_mark,
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def document_of(content: bytes, source: str) -> object:
    """Return what a YAML file holds; BadConfig, naming `source`, if it is not YAML or repeats a key."""
    try:
        return yaml.load(content.decode("utf-8-sig"), Loader=_EachKeyOnce)
    except UnicodeDecodeError as error:
        raise BadConfig(f"{source} is not UTF-8 at byte {error.start}; save it as UTF-8.") from None
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
    ) as error:  # ValueError: no such date or number
        raise BadConfig(f"{source} is not YAML: {' '.join(str(error).split())}") from None


SettingsType = TypeVar("SettingsType", bound=StageSettings)


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
            "no settings file was named; add --config with one, such as --config training/configs/embedded/sft.yaml."
        )
    overrides = tuple(f"--{key}={value}" for key, value in pairs.items())
    return Request(read_settings(kind, Path(config), pairs), Path(config), overrides, overwrite)


def read_settings(kind: type[SettingsType], file: Path, overrides: Mapping[str, str] | None = None) -> SettingsType:
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


def _yaml(file: Path) -> dict[str, object]:
    try:
        document = document_of(file.read_bytes(), str(file))
    except (FileNotFoundError, IsADirectoryError):
        raise BadConfig(
            f"there is no settings file {file}; those that come with Assay lie in training/configs."
        ) from None
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


DIVIDED = (
    "scale_rewards group lets groups of right answers pull as hard as groups of wrong ones, so a stated confidence"
    " ends at sure or at nothing and not at what the answers are worth, although V4 is a proper score;"
    " scale_rewards none, with aggregation sum_then_normalize, keeps it one (docs/training.md, Confidence)"
)


def advice(settings: StageSettings) -> tuple[str, ...]:
    """Return what a run with these settings should be started in knowledge of, as sentences."""
    if not isinstance(settings, GrpoSettings) or settings.v4 != "proper":
        return ()
    has_v4 = weights(settings.verifier_weights).get("V4", 0.0) > 0
    return (DIVIDED,) if has_v4 and settings.scale_rewards == "group" else ()
