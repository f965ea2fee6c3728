"""Group relative policy optimisation: answers of a trained chain are sampled, verified and compared.

    accelerate launch -m training.grpo --config training/configs/embedded/grpo.yaml

The chain that the run starts from is also the reference of the KL term, exactly (`training.models.start`).
What TRL's defaults changed is set outright: unless asked otherwise the loss is GRPO's and the KL
estimate is not weighted by the probability ratio.
"""

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
    composed = VerifierReward(settings.verifier_weights, settings.v4)
    if settings.aggregation == "sum_then_normalize":
        return policy_trainer(ready, [composed])
    return policy_trainer(ready, [composed, *(OneVerifier(name, settings.v4) for name in VERIFIERS)])


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


def options(settings: SampledSettings) -> dict[str, Any]:
    """Return the training arguments; tests/training/cases/trl_arguments.yaml has what TRL makes of them."""
    is_server = settings.vllm == "server"
    shares: dict[str, Any] = {}
    if isinstance(settings, GrpoSettings) and settings.aggregation == "normalize_then_sum":
        weights = weights_of(settings.verifier_weights)  # the composed reward weighs nothing: it is there to be logged
        parts = [weights.get(name, 0.0) / sum(weights.values()) for name in VERIFIERS]
        shares = {"reward_weights": [0.0, *parts], "multi_objective_aggregation": settings.aggregation}
    return {
        **common_arguments(settings),
        "num_generations": settings.num_generations,
        "generation_batch_size": settings.generation_batch or None,
        "max_completion_length": settings.max_completion_length,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "use_vllm": settings.vllm != "off",
        "vllm_mode": "server" if is_server else "colocate",
        "vllm_server_base_url": settings.vllm_server if is_server else None,
        "vllm_gpu_memory_utilization": settings.vllm_memory,
        "vllm_tensor_parallel_size": settings.vllm_tensor_parallel,
        "vllm_max_model_length": settings.max_prompt_length + settings.max_completion_length,
        "num_iterations": settings.num_iterations,
        "beta": settings.beta,
        "use_bias_correction_kl": settings.kl_by_ratio,
        "loss_type": settings.loss_type,
        "scale_rewards": settings.scale_rewards,
        "importance_sampling_level": settings.importance_sampling,
        "epsilon": settings.epsilon,
        "epsilon_high": settings.epsilon_high or settings.epsilon,
        **shares,
        "mask_truncated_completions": settings.mask_truncated,
        "pad_to_multiple_of": None,
        "log_completions": True,
        "num_completions_to_print": 0,
    }


if __name__ == "__main__":
    run_command("grpo", train)
