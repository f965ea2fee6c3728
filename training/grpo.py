"""Group relative policy optimisation: answers of a trained chain are sampled, verified and compared.

    accelerate launch -m training.grpo --config training/configs/embedded/grpo.yaml

The chain that the run starts from is also the reference of the KL term, exactly (`training.models.start`).
What TRL's defaults changed is set outright: unless asked otherwise the loss is GRPO's and the KL
estimate is not weighted by the probability ratio.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from pydantic import Field, field_validator, model_validator

from evals.errors import BadConfig
from evals.verifiers.score import MODES, PRESETS, check_mode
from evals.verifiers.score import weights as weights_of
from training.config import StageSettings
from training.reward import ModelReward
from training.rewards import VerifierReward

if TYPE_CHECKING:
    from training.data.tokens import Rows
    from training.run.session import Prepared
    from training.upstream import SampledTrainer


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
    temperature: float = Field(1.0, ge=0.01, le=5.0, description="temperature of sampling")
    top_p: float = Field(1.0, ge=0.01, le=1.0, description="sample from the likeliest tokens with this share together")
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
    def context(self) -> int:
        """A question and its answer."""
        return self.max_prompt_length + self.max_completion_length

    @property
    def vllm_mode(self) -> str:
        """In the training processes, from a server, or not at all."""
        return self.vllm

    def answers_at_once(self, processes: int = 1) -> int:
        """Return how many answers are sampled at a time: as many as a step uses, unless told."""
        return self.generation_batch or self.batch * self.accumulation * processes

    def steps(self, rows: int, processes: int = 1) -> int:
        """Return the optimizer steps of a run over so many questions."""
        sampled = self.answers_at_once(processes)
        batches = sampled // (self.batch * processes) * self.num_iterations
        passes = rows // (sampled // self.num_generations) * batches
        return self.max_steps or math.ceil(self.epochs * math.ceil(passes / self.accumulation))

    def check_batches(self, rows: int, processes: int = 1) -> None:
        """Raise BadConfig if answers do not divide into groups, batches and copies, or questions do not suffice."""
        sampled, group, each = self.answers_at_once(processes), self.num_generations, self.batch * processes
        if sampled % group:
            raise BadConfig(
                f"{sampled} answers are sampled at a time (generation_batch, else batch {self.batch} x"
                f" accumulation {self.accumulation} x {processes} processes); that cannot be divided into"
                f" groups of num_generations {group}. Use a multiple, such as generation_batch {math.lcm(group, each)}."
            )
        if sampled % each:
            raise BadConfig(
                f"generation_batch {sampled} cannot be divided into batches of {self.batch} on each of"
                f" {processes} processes; use a multiple of {each}, such as {math.lcm(group, each)}."
            )
        if self.vllm == "colocate" and processes % self.vllm_tensor_parallel:
            raise BadConfig(
                f"vllm_tensor_parallel {self.vllm_tensor_parallel} does not divide {processes} processes,"
                " which share vLLM's copies; use a divisor of them, or another --num_processes."
            )
        if rows < sampled // group:
            raise BadConfig(
                f"GRPO asks {sampled // group} questions at a time ({sampled} answers, {group} to"
                f" each), and there are only {rows}, so nothing would be learned; use more rows, or a"
                f" generation_batch of at most {rows * group}."
            )

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
    starts_from = "that GRPO starts from, such as runs/embedded/sft."

    verifier_weights: str | Mapping[str, float] | None = Field(
        None,
        description=f"share of each verifier, such as V1=0.6,V4=0.4, or a set by name ({', '.join(PRESETS)});"
        " none = the verifiers' own",
    )
    reward: str = Field(
        "", description="run folder of a reward model (`assay train reward`) that scores answers beside the verifiers"
    )
    reward_share: float = Field(0.5, gt=0.0, le=1.0, description="share of its score in the reward; 1 = it alone")
    v4: str = Field(
        "proper", description=f"how V4 scores a stated confidence: {', '.join(MODES)}; only proper cannot be gamed"
    )

    def read_rows(self, chain_prompt: str | None) -> "Rows[Any]":
        """Return questions that a verifier can score."""
        from training.data.dev import dev_questions, with_dev
        from training.data.questions import grpo_data

        data = self.mix_sources(lambda sources: grpo_data(sources, self.seed, chain_prompt))
        return with_dev(data, self, dev_questions(data, self.eval_data, self)) if self.eval_steps else data

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
        return self


DIVIDED = (
    "scale_rewards group lets groups of right answers pull as hard as groups of wrong ones, so a stated confidence"
    " ends at sure or at nothing and not at what the answers are worth, although V4 is a proper score;"
    " scale_rewards none keeps it one (docs/training.md, Confidence)"
)


def advice(settings: StageSettings) -> tuple[str, ...]:
    """Return what a run with these settings should be started in knowledge of, as sentences."""
    if not isinstance(settings, GrpoSettings) or settings.v4 != "proper":
        return ()
    has_v4 = weights_of(settings.verifier_weights).get("V4", 0.0) > 0
    return (DIVIDED,) if has_v4 and settings.scale_rewards == "group" else ()


def options(settings: SampledSettings) -> dict[str, Any]:
    """Return the stage's own training arguments; tests/training/cases/trl_arguments.yaml has what TRL makes of them."""
    is_server = settings.vllm == "server"
    return {
        "num_generations": settings.num_generations,
        "generation_batch_size": settings.generation_batch or None,
        "max_completion_length": settings.max_completion_length,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "use_vllm": settings.vllm != "off",
        "vllm_mode": "server" if is_server else "colocate",
        "vllm_server_base_url": settings.vllm_server if is_server else None,
        "vllm_gpu_memory_utilization": settings.vllm_memory,
        "vllm_enable_sleep_mode": settings.vllm_sleep,
        "vllm_tensor_parallel_size": settings.vllm_tensor_parallel,
        "vllm_max_model_length": settings.max_prompt_length + settings.max_completion_length,
        "ds3_gather_for_generation": settings.gather_to_sample,
        "num_iterations": settings.num_iterations,
        "beta": settings.beta,
        "use_bias_correction_kl": settings.kl_by_ratio,
        "loss_type": settings.loss_type,
        "scale_rewards": settings.scale_rewards,
        "importance_sampling_level": settings.importance_sampling,
        "epsilon": settings.epsilon,
        "epsilon_high": settings.epsilon_high or settings.epsilon,
        "mask_truncated_completions": settings.mask_truncated,
        "pad_to_multiple_of": None,
        "log_completions": True,
        "num_completions_to_print": 0,
    }


def train(ready: "Prepared[GrpoSettings]") -> None:
    """Train an adapter on top of a chain and leave it, with the longer chain, in the run folder."""
    from training.run.folder import say
    from training.run.watch import AlarmCallback, alarms_of

    for sentence in advice(ready.settings):
        say(sentence)
    with ready.session() as current:
        trainer = build_trainer(ready)
        (reward,) = cast(Any, trainer).reward_funcs
        current.result |= getattr(reward, "facts", {})
        trainer.add_callback(AlarmCallback(current.run, alarms_of("sampling", "grpo")))
        current.train(trainer)


def build_trainer(ready: "Prepared[GrpoSettings]") -> "SampledTrainer":
    """Return the trainer of an adapter on the chain, which is also the reference."""
    settings = ready.settings
    reward = VerifierReward(settings.verifier_weights, settings.v4)
    return policy_trainer(
        ready, ModelReward(settings.reward, settings.reward_share, reward) if settings.reward else reward
    )


def policy_trainer(ready: "Prepared[SampledSettings]", reward: Any) -> "SampledTrainer":
    """Return the trainer of an adapter that this reward teaches."""
    from trl import GRPOConfig, GRPOTrainer

    from training.upstream import SampledTrainer

    told = GRPOConfig(**ready.arguments, **options(ready.settings))
    rows = [*ready.data.trl_rows().values()]
    return ready.trainer(SampledTrainer.before(GRPOTrainer), told, rows, reward_funcs=reward)


if __name__ == "__main__":
    from training.run.session import run_command

    run_command("grpo", GrpoSettings, train)
