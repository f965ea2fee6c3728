"""Settings of the training stages, one frozen dataclass each: what can be set, and what contradicts.

`training.request` reads them from a YAML file and a command line. Knows nothing of torch.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal

from evals.errors import BadConfig
from evals.verifiers.presets import MODES, PRESETS, check_mode
from evals.verifiers.presets import weights as weights_of
from training.setting import describe, setting

MOST_SEED = 4_000_000_000
"""numpy takes seeds below 2^32; processes add their rank."""


@dataclass(frozen=True)
class StageSettings:
    """What every stage is told. The defaults of each field are those of a small CPU run."""

    data: tuple[str, ...] = setting(
        "data sets by name, NAME[KIND], NAME[KIND:COUNT], or JSONL files"
    )
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
    warmup: float = setting(
        "steps to the peak; below 1 a share of all", default=0.05, low=0.0, high=1_000_000
    )
    weight_decay: float = setting("AdamW's weight decay", default=0.0, low=0.0, high=1.0)
    max_grad_norm: float = setting("gradients are scaled down to this norm", default=1.0, low=0.0)
    batch: int = setting("rows per process and forward pass", default=4, low=1)
    accumulation: int = setting("forward passes per optimizer step", default=1, low=1)
    seed: int = setting("of initialisation, order and sampling", default=0, low=0, high=MOST_SEED)
    save_steps: int = setting("optimizer steps between checkpoints", default=50, low=1)
    keep_checkpoints: int = setting("how many checkpoints a running stage keeps", default=2, low=1)
    log_steps: int = setting("optimizer steps between lines of metrics.jsonl", default=5, low=1)
    weights: Literal["float32", "bfloat16", "nf4"] = setting(
        "how the frozen base is held", default="float32"
    )
    autocast: Literal["bfloat16", "none"] = setting("type of the arithmetic", default="bfloat16")
    attention: Literal["sdpa", "eager", "flash_attention_2", "flash_attention_3"] = setting(
        "attention kernel; the flash ones need a GPU and their own package", default="sdpa"
    )
    too_long: Literal["refuse", "drop"] = setting(
        "what becomes of rows above the length limit; none is ever cut", default="refuse"
    )
    activation_checkpointing: bool = setting("less memory for more time", default=False)
    grid_co2: float = setting(
        "grams of CO2 to a kWh of the grid; 0 = not known, none is told", default=0.0, low=0.0
    )
    hour_price: float = setting(
        "price of an hour of the run, in any currency; 0 = not known", default=0.0, low=0.0
    )
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
    packing: bool = setting(
        "several rows in one sequence of max_length, each blind to the others", default=False
    )


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
    keep_adapters: bool = setting(
        "keep the adapter of every checkpoint, for `assay review steps`", default=False
    )


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
    sft_weight: float = setting(
        "weight of the SFT loss on the preferred answers (RPO, arXiv:2404.19733): keeps the form of answers",
        default=0.0,
        low=0.0,
        high=10.0,
    )
    label_smoothing: float = setting(
        "share of labels taken to be wrong", default=0.0, low=0.0, high=0.49
    )
    max_length: int = setting("longest question plus answer, tokens", default=256, low=16)
    monitor_data: tuple[str, ...] = setting(
        "questions asked again and again, as data; kmp-test may be watched too",
        default=("kmp-dev",),
    )
    monitor_steps: int = setting("optimizer steps between looks; 0 = never", default=25, low=0)
    monitor_questions: int = setting("how many are asked at most", default=24, low=1)
    monitor_tokens: int = setting("longest answer to them, tokens", default=96, low=1)
    monitor_max_drop: float = setting(
        "fall in accuracy that is too much", default=0.15, low=0.0, high=1.0
    )
    monitor_max_kl: float = setting(
        "distance to the reference that is too much, nats per token", default=0.5, low=0.0
    )
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
    kl_by_ratio: bool = setting(
        "weight the KL estimate by the probability ratio (TRL's new default)", default=False
    )
    loss_type: Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo", "sapo", "luspo", "vespo"] = (
        setting("TRL's loss", default="grpo")
    )
    scale_rewards: Literal["group", "batch", "none"] = setting(
        "what rewards are divided by the deviation of", default="group"
    )
    importance_sampling: Literal["token", "sequence"] = setting(
        "level of the probability ratio; sequence is GSPO's", default="token"
    )
    num_iterations: int = setting("updates per batch of answers", default=1, low=1)
    epsilon: float = setting("clip range of the probability ratio", default=0.2, low=0.0)
    epsilon_high: float = setting(
        "clip range upwards; 0 = as epsilon (DAPO uses 0.28)", default=0.0, low=0.0
    )
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
        raise BadConfig(
            f"chain is empty; name the run folder that {stage} starts from, such as runs/embedded/sft."
        )


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
