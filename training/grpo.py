"""Group relative policy optimisation: answers of a trained chain are sampled, verified and compared.

    accelerate launch -m training.grpo --config training/configs/embedded/grpo.yaml

The chain that the run starts from is also the reference of the KL term, exactly (`training.models.start`).
What TRL's defaults changed is set outright: unless asked otherwise the loss is GRPO's and the KL
estimate is not weighted by the probability ratio.
"""

from typing import Any

from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import supports_tool_calling

from evals.errors import BadConfig
from evals.verifiers.score import VERIFIERS
from evals.verifiers.score import weights as weights_of
from training.config import GrpoSettings, Request, SampledSettings, advice
from training.environments import environment_of
from training.rewards import OneVerifier, VerifierReward
from training.run.alarms import AlarmCallback, alarms_of
from training.run.folder import say
from training.run.session import Prepared, common_arguments, prepare, run_command, session
from training.upstream import SampledTrainer


def options(settings: SampledSettings) -> dict[str, Any]:
    """Return the training arguments; tests/training/cases/trl_arguments.yaml has what TRL makes of them."""
    is_server = settings.vllm == "server"
    has_tools = isinstance(settings, GrpoSettings) and settings.environment
    shares: dict[str, Any] = {"max_tool_calling_iterations": settings.tool_turns} if has_tools else {}
    if isinstance(settings, GrpoSettings) and settings.aggregation == "normalize_then_sum":
        weights = weights_of(settings.verifier_weights)  # the composed reward weighs nothing: it is there to be logged
        parts = [weights.get(name, 0.0) / sum(weights.values()) for name in VERIFIERS]
        shares |= {"reward_weights": [0.0, *parts], "multi_objective_aggregation": settings.aggregation}
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
        "vllm_enable_sleep_mode": settings.vllm_sleep,
        "vllm_tensor_parallel_size": settings.vllm_tensor_parallel,
        "vllm_max_model_length": None if has_tools else settings.max_prompt_length + settings.max_completion_length,
        "ds3_gather_for_generation": settings.gather_to_sample,
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


class PolicyTrainer(SampledTrainer, GRPOTrainer):
    """TRL's GRPOTrainer, safe to kill at any moment."""


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
    rewards: list[Any] = [VerifierReward(settings.verifier_weights, settings.v4)]
    if settings.aggregation == "normalize_then_sum":
        rewards += [OneVerifier(name, settings.v4) for name in VERIFIERS]
    tools: dict[str, Any] = {}
    if settings.environment:
        tools["environment_factory"] = environment_of(settings.environment)
        if not supports_tool_calling(ready.tokenizer):
            raise BadConfig(
                f"environment is {settings.environment}, but the chat template of {ready.base.public_name} cannot show"
                " a model its tools and what they answered; use a base such as Qwen/Qwen3-8B."
            )
    return policy_trainer(ready, rewards, **tools)


def policy_trainer(ready: Prepared, rewards: Any, **tools: Any) -> PolicyTrainer:
    """Return the trainer of an adapter that these rewards teach."""
    settings = ready.settings
    assert isinstance(settings, SampledSettings)
    told = GRPOConfig(**options(settings))  # before the base, which ZeRO-3 then loads in parts
    model = ready.model()
    policy = ready.policy(model)
    if settings.vllm == "colocate":
        model.name_or_path = str(ready.base.folder)  # what vLLM is told to load
    return PolicyTrainer(
        model=policy,
        args=told,
        train_dataset=ready.dataset(),
        processing_class=ready.tokenizer,
        reward_funcs=rewards,
        **tools,
    )


if __name__ == "__main__":
    run_command("grpo", train)
