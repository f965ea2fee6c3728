"""Group relative policy optimisation: answers of a trained chain are sampled, verified and compared.

    accelerate launch -m training.grpo --config training/configs/embedded/grpo.yaml

A new adapter is trained on top of base + the chain's adapters, which stay frozen and unmerged; they
are also the reference of the KL term, exactly (`training.policy`). What TRL's defaults changed is set
outright: the loss is GRPO's, the KL estimate is not weighted by the probability ratio.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl import GRPOConfig, GRPOTrainer

from evals.schema import Example
from training.base import Base, find_base, load_base, load_tokenizer
from training.chain import Chain, NewStage, append_stage, read_chain
from training.config import GrpoSettings, Request
from training.data import TrainingData, check_lengths, grpo_data, grpo_row, prompt_of
from training.findings import file_findings, refuse
from training.manifest import BASE_STAGE, active_adapters
from training.policy import StackedPeftModel, lora_of, stacked_policy, write_adapter
from training.rewards import VerifierReward
from training.session import (
    QuietTrainer,
    base_device,
    common_arguments,
    record_of,
    run_command,
    session,
)
from training.terminal import announce, say


class PolicyTrainer(QuietTrainer, GRPOTrainer):
    """TRL's GRPOTrainer, silent towards the Hub."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    run_command("grpo", GrpoSettings, train, arguments)


def train(request: Request) -> None:
    """Train an adapter on top of a chain and leave it, with the longer chain, in the run folder."""
    settings = request.settings
    assert isinstance(settings, GrpoSettings)
    data = grpo_data(settings.data, settings.seed)
    chain = read_chain(settings.chain)
    base = find_base(settings.base, announce)
    refuse(settings.chain, file_findings(chain, base, load_tokenizer(base)))
    record = record_of("grpo", request, base, {**data.record(), **_lineage(chain)})
    with session(record, Path(settings.output), overwrite=request.overwrite) as current:
        trainer = build_trainer(settings, data, chain, base)
        if not current.train(trainer):
            return
        if trainer.is_world_process_zero():
            write_adapter(trainer.accelerator.unwrap_model(trainer.model), current.run.adapter)
            say("measuring what the new stage computes")
            stage = NewStage(_stage_name(chain), "grpo", current.run.adapter)
            append_stage(current.run.path, stage, base, chain)


def build_trainer(
    settings: GrpoSettings, data: TrainingData, chain: Chain, base: Base
) -> PolicyTrainer:
    """Return the trainer of a new adapter over the frozen chain."""
    say(f"loading {base.public_name} and {', '.join(_lineage(chain))}")
    prompt = chain.manifest.system_prompt
    model, tokenizer = load_base(base, settings.weights, base_device(settings))
    longest = check_lengths(
        data.examples,
        lambda example: _length(tokenizer, example, prompt),
        settings.max_prompt_length,
        "max_prompt_length",
    )
    say(f"sampling answers to {len(data.examples)} questions of at most {longest} tokens")
    for why, count in data.left_out.items():
        say(f"{count} rows are left out: {why}")
    trainer = PolicyTrainer(
        model=stacked_policy(model, _frozen(chain), lora_of(settings, model), settings.seed),
        args=_arguments(settings),
        train_dataset=Dataset.from_list([grpo_row(each, prompt) for each in data.examples]),
        processing_class=tokenizer,
        reward_funcs=VerifierReward(settings.verifier_weights),
    )
    policy = trainer.accelerator.unwrap_model(trainer.model)
    assert isinstance(policy, StackedPeftModel)
    policy.set_adapter("default")  # TRL has added its own adapter since
    return trainer


def _arguments(settings: GrpoSettings) -> GRPOConfig:
    return GRPOConfig(
        **common_arguments(settings),
        num_generations=settings.num_generations,
        max_completion_length=settings.max_completion_length,
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=0,
        beta=settings.beta,
        use_bias_correction_kl=False,
        loss_type=settings.loss_type,
        scale_rewards=settings.scale_rewards,
        importance_sampling_level="token",
        num_iterations=settings.num_iterations,
        epsilon=settings.epsilon,
        disable_dropout=False,
        mask_truncated_completions=False,
        shuffle_dataset=True,
        remove_unused_columns=False,
        log_completions=True,
        num_completions_to_print=0,
    )


def _frozen(chain: Chain) -> dict[str, Path]:
    """Return the adapters at work in the chain's last stage, in order."""
    stages = chain.manifest.stages
    active = active_adapters(stages)[stages[-1].name if stages else BASE_STAGE]
    return {stage.name: chain.adapter_folder(stage) for stage in stages if stage.name in active}


def _lineage(chain: Chain) -> Mapping[str, str]:
    """Return the checksum of each stage that the new one builds on."""
    return {f"stage {stage.name}": stage.sha256 for stage in chain.manifest.stages}


def _stage_name(chain: Chain) -> str:
    """Return grpo, or grpo-2, grpo-3 … where the chain has one already."""
    earlier = sum(stage.kind == "grpo" for stage in chain.manifest.stages)
    return f"grpo-{earlier + 1}" if earlier else "grpo"


def _length(tokenizer: PreTrainedTokenizerBase, example: Example, system_prompt: str) -> int:
    """Return the tokens of a question as the model reads it."""
    text = tokenizer.apply_chat_template(
        prompt_of(example, system_prompt), tokenize=False, add_generation_prompt=True
    )
    return len(tokenizer(text, add_special_tokens=False)["input_ids"])


if __name__ == "__main__":
    main()
