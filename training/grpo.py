"""Group relative policy optimisation: answers of a trained chain are sampled, verified and compared.

    accelerate launch -m training.grpo --config training/configs/embedded/grpo.yaml

The chain that the run starts from is also the reference of the KL term, exactly (`training.models.start`).
What TRL's defaults changed is set outright: unless asked otherwise the loss is GRPO's and the KL
estimate is not weighted by the probability ratio.
"""

from collections.abc import Sequence
from typing import Any

import torch
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import nanstd

from evals.verifiers.score import VERIFIERS
from evals.verifiers.score import weights as weights_of
from training.config import GrpoSettings, Request, SampledSettings, advice
from training.rewards import OneVerifier, VerifierReward
from training.run.alarms import AlarmCallback, alarms_of
from training.run.folder import say
from training.run.session import Prepared, common_arguments, prepare, run_command, session
from training.run.trainer import SafeTrainer

PAPERS = {
    "sapo_temperature_neg": 1.05,
    "sapo_temperature_pos": 1.0,
    "vespo_k_pos": 2.0,
    "vespo_lambda_pos": 3.0,
    "vespo_k_neg": 3.0,
    "vespo_lambda_neg": 2.0,
}
"""What the losses sapo and vespo are told; the others do not read it."""


class PolicyTrainer(SafeTrainer, GRPOTrainer):
    """TRL's GRPOTrainer, safe to kill at any moment."""

    def is_between_rounds(self) -> bool:
        """Whether the sampled answers, which are in memory alone, have been used up."""
        assert isinstance(self.args, GRPOConfig)
        return self._step % ((self.args.steps_per_generation or 1) * self.num_iterations) == 0

    def _calculate_rewards(self, *args: Any) -> torch.Tensor:
        """Return TRL's table of rewards, the composed one first, and remember it for the log."""
        self._rewards: torch.Tensor = super()._calculate_rewards(*args)
        return self._rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        """Return TRL's batch, with the share of groups that teach nothing logged; runs here only train.

        TRL, when it normalises each verifier on its own, logs there whether the whole batch is flat.
        """
        batch = super()._generate_and_score_completions(inputs)
        if self.multi_objective_aggregation == "normalize_then_sum":
            assert self.num_generations is not None
            spread = nanstd(self._rewards[:, 0].view(-1, self.num_generations), dim=1)
            still = spread.isclose(spread.new_zeros(())).float().mean().item()
            self._metrics["train"]["frac_reward_zero_std"][-1] = still
        return batch


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    run_command("grpo", train, arguments)


def train(request: Request) -> None:
    """Train an adapter on top of a chain and leave it, with the longer chain, in the run folder."""
    ready = prepare("grpo", request)
    for sentence in advice(ready.settings):
        say(sentence)
    with session(ready) as current:
        trainer = build_trainer(ready)
        trainer.add_callback(AlarmCallback(current.run, alarms_of("sampling", "grpo")))
        current.train(trainer)


def build_trainer(ready: Prepared) -> PolicyTrainer:
    """Return the trainer of an adapter on the chain, which is also the reference."""
    settings = ready.settings
    assert isinstance(settings, GrpoSettings)
    return policy_trainer(ready, rewards_of(settings))


def policy_trainer(ready: Prepared, rewards: Any) -> PolicyTrainer:
    """Return the trainer of an adapter that these rewards teach."""
    settings = ready.settings
    assert isinstance(settings, SampledSettings)
    return PolicyTrainer(
        model=ready.policy(),
        args=GRPOConfig(**options(settings)),
        train_dataset=ready.dataset(),
        processing_class=ready.tokenizer,
        reward_funcs=rewards,
    )


def rewards_of(settings: GrpoSettings) -> list[Any]:
    """Return the composed reward and, where each verifier is compared on its own, those as well."""
    composed = VerifierReward(settings.verifier_weights, settings.v4)
    if settings.aggregation == "sum_then_normalize":
        return [composed]
    return [composed, *(OneVerifier(name, settings.v4) for name in VERIFIERS)]


def _shares(settings: SampledSettings) -> dict[str, Any]:
    """Return how TRL joins the rewards: the composed one alone, or the verifiers by their weights.

    In the second case the composed one, weighted 0, is there to be logged as in every other run.
    """
    if not isinstance(settings, GrpoSettings) or settings.aggregation == "sum_then_normalize":
        return {"reward_weights": None, "multi_objective_aggregation": "sum_then_normalize"}
    weights = weights_of(settings.verifier_weights)
    total = sum(weights.values())
    return {
        "reward_weights": [0.0, *(weights.get(name, 0.0) / total for name in VERIFIERS)],
        "multi_objective_aggregation": settings.aggregation,
    }


def options(settings: SampledSettings) -> dict[str, Any]:
    """Return every training argument of TRL's that has an effect; none is left to its default.

    Answers are drawn from the plain distribution, whatever the model's own settings.
    """
    is_server = settings.vllm == "server"
    return {
        **common_arguments(settings),
        "num_generations": settings.num_generations,
        "num_generations_eval": None,
        "generation_batch_size": settings.generation_batch or None,
        "steps_per_generation": None,
        "max_completion_length": settings.max_completion_length,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": 0,
        "min_p": None,
        "repetition_penalty": 1.0,
        "generation_kwargs": None,
        "chat_template_kwargs": None,
        "cache_implementation": None,
        "use_transformers_continuous_batching": False,
        "use_vllm": settings.vllm != "off",
        "vllm_mode": "server" if is_server else "colocate",
        "vllm_server_base_url": settings.vllm_server if is_server else None,
        "vllm_gpu_memory_utilization": settings.vllm_memory,
        "vllm_tensor_parallel_size": settings.vllm_tensor_parallel,
        "vllm_max_model_length": settings.max_prompt_length + settings.max_completion_length,
        "vllm_enable_sleep_mode": False,
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": "sequence_mask",
        "vllm_importance_sampling_clip_max": 3.0,
        "vllm_importance_sampling_clip_min": None,
        "num_iterations": settings.num_iterations,
        "beta": settings.beta,
        "use_bias_correction_kl": settings.kl_by_ratio,
        "loss_type": settings.loss_type,
        "scale_rewards": settings.scale_rewards,
        "importance_sampling_level": settings.importance_sampling,
        "epsilon": settings.epsilon,
        "epsilon_high": settings.epsilon_high or settings.epsilon,
        "delta": None,
        **PAPERS,
        **_shares(settings),
        "mask_truncated_completions": settings.mask_truncated,
        "off_policy_mask_threshold": None,
        "top_entropy_quantile": 1.0,
        "entropy_coef": 0.0,
        "use_adaptive_entropy": False,
        "sync_ref_model": False,
        "disable_dropout": False,
        "cast_lm_head_to_fp32": False,
        "router_aux_loss_coef": None,
        "pad_to_multiple_of": None,
        "shuffle_dataset": True,
        "remove_unused_columns": False,
        "log_completions": True,
        "log_unique_prompts": False,
        "num_completions_to_print": 0,
    }


if __name__ == "__main__":
    main()
