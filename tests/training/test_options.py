"""Every option of TRL's is set outright: a default that changes upstream must not change a run."""

from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainingArguments
from trl import DPOConfig, GRPOConfig, SFTConfig

from training import dpo, grpo, sft
from training.config import DpoSettings, GrpoSettings, SftSettings, StageSettings

LOADING = {
    "model_init_kwargs",
    "trust_remote_code",
    "chat_template_path",
    "eos_token",
    "pad_token",
}
"""Read only where the trainer loads the model or changes its tokenizer itself; we hand both over."""
PREPARING = {"dataset_text_field", "dataset_kwargs", "dataset_num_proc"}
"""How rows are tokenised, not what comes of it; our rows are prompt and completion."""
LOGGING = {"log_multimodal", "log_completions_hub_repo"}
NEEDS_WHAT_IS_OFF = {
    "precompute_ref_batch_size": "precompute_ref_log_probs",
    "ref_model_mixup_alpha": "sync_ref_model",
    "ref_model_sync_steps": "sync_ref_model",
    "entropy_coef_min": "use_adaptive_entropy",
    "entropy_coef_max": "use_adaptive_entropy",
    "entropy_coef_delta": "use_adaptive_entropy",
    "entropy_target": "use_adaptive_entropy",
    "transformers_continuous_batching_config": "use_transformers_continuous_batching",
}
OTHER = {
    "ds3_gather_for_generation": "memory of ZeRO-3, not what is computed",
    "max_tool_calling_iterations": "no tools are given",
    "use_transformers_paged": "deprecated name of use_transformers_continuous_batching",
    "vllm_importance_sampling_cap": "deprecated name of vllm_importance_sampling_clip_max",
    "vllm_model_impl": "how vLLM runs the model, not what is computed",
    "vllm_structured_outputs_regex": "None: answers are free",
    "vllm_server_host": "vllm_server_base_url is given",
    "vllm_server_port": "vllm_server_base_url is given",
    "vllm_server_timeout": "how long to wait for a server",
    "vllm_group_port": "a port between server and trainer",
}

STAGES: dict[str, tuple[Any, Any, StageSettings]] = {
    "sft": (sft, SFTConfig, SftSettings(data=("kmp-train",), output="run")),
    "dpo": (dpo, DPOConfig, DpoSettings(data=("pairs.jsonl",), output="run", chain="sft")),
    "grpo": (
        grpo,
        GRPOConfig,
        GrpoSettings(data=("kmp-train",), output="run", chain="sft", batch=8),
    ),
}


def default(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def trl_options(config: Any) -> set[str]:
    """The fields that TRL adds to transformers' own, and those whose default it changed."""
    theirs = {each.name: default(each) for each in fields(TrainingArguments)}
    return {each.name for each in fields(config) if each.name not in theirs or theirs[each.name] != default(each)}


@pytest.mark.parametrize("stage", STAGES)
def test_no_default_of_trl_is_relied_on_silently(stage: str):
    module, config, settings = STAGES[stage]
    options = module.options(settings)
    off = {name for name, switch in NEEDS_WHAT_IS_OFF.items() if options.get(switch) is False}
    left = trl_options(config) - set(options) - LOADING - PREPARING - LOGGING - off - set(OTHER)
    assert left == set()


@pytest.mark.parametrize("stage", STAGES)
def test_the_trainer_is_given_the_value_of_each_option(stage: str, tmp_path: Path):
    module, config, settings = STAGES[stage]
    options = module.options(settings) | {"output_dir": str(tmp_path)}
    resolved = config(**options)
    worked_out = {"steps_per_generation", "generation_batch_size", "report_to"}
    differ = {
        name: (value, getattr(resolved, name))
        for name, value in options.items()
        if name not in worked_out and getattr(resolved, name) != value
    }
    assert differ == {}


PUBLISHED = [
    ({}, {"loss_type": "grpo", "scale_rewards": "group", "use_bias_correction_kl": False}),
    ({"loss_type": "dapo", "epsilon_high": 0.28}, {"epsilon": 0.2, "epsilon_high": 0.28}),
    ({"loss_type": "dr_grpo", "scale_rewards": "none"}, {"scale_rewards": "none"}),
    ({"kl_by_ratio": True}, {"use_bias_correction_kl": True}),
    ({"importance_sampling": "sequence"}, {"importance_sampling_level": "sequence"}),
    ({"mask_truncated": True}, {"mask_truncated_completions": True}),
    (
        {"batch": 1, "accumulation": 8, "num_generations": 16, "generation_batch": 16},
        {"steps_per_generation": 16, "num_generations": 16, "gradient_accumulation_steps": 8},
    ),
]


@pytest.mark.parametrize(("asked", "given"), PUBLISHED)
def test_a_published_recipe_reaches_the_trainer_as_it_was_published(
    asked: dict[str, Any], given: dict[str, object], tmp_path: Path
):
    values = {"batch": 8, **asked}
    settings = GrpoSettings(data=("kmp-train",), output=str(tmp_path), chain="sft", **values)
    resolved = GRPOConfig(**grpo.options(settings))
    assert {name: getattr(resolved, name) for name in given} == given
