"""What an adapter is laid on, by family of base: asked of skeletons, which have no weights, before anything is read."""

import json
from pathlib import Path

import pytest
from transformers import AutoConfig

from evals.errors import BadConfig
from tests.training.cases import cases, quick_or_slow
from tests.training.test_launch import RECIPES, stage_of
from training.config import read_settings
from training.grpo import GrpoSettings
from training.models.base import context_of, skeleton
from training.models.start import stacked_policy
from training.models.targets import lora_config
from training.models.trial import check_base, missing_kernels
from training.sft import SftSettings
from training.stages import STAGES

CASES = cases("targets")
SEVEN = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def base(folder: Path, family: str | dict[str, object]):
    """Write the configuration of a tiny base of a family, as published files have it, and return the skeleton."""
    told = {**CASES["sizes"], **(CASES["families"][family] if isinstance(family, str) else family)}
    for part in ("text_config", "vision_config"):
        if part in told:
            told[part] = (CASES["sizes"] if part == "text_config" else CASES["vision"]) | told[part]
    if "text_config" in told:
        told = {name: value for name, value in told.items() if name not in CASES["sizes"]}
    AutoConfig.for_model(told.pop("model_type"), **told).save_pretrained(folder)
    return skeleton(folder)


def sft(**values: object) -> SftSettings:
    return SftSettings.model_validate({"data": ("x",), "output": "x", **values})


QUICK = ("llama", "phi 3", "gpt 2", "qwen 3 moe", "deepseek v3", "qwen 3.5 moe", "gemma 3 with pictures")


@pytest.mark.parametrize("family", quick_or_slow(CASES["adapted"], QUICK))
def test_all_linear_and_the_usual_names_are_laid_on_the_language_model_alone_and_what_is_left_out_is_said(
    tmp_path: Path, family: str
):
    bare, (kinds, left, listed) = base(tmp_path, family), CASES["adapted"][family]
    targets, _ = check_base(bare, sft())
    assert sorted({name.rpartition(".")[2] for name in targets.layers}) == sorted(kinds)
    assert all(any(word in f"{why}: {names}" for why, names in targets.left_out.items()) for word in left), targets
    assert not any(part in name for name in targets.layers for part in ("vis", "connector", ".experts.", "router"))
    if isinstance(listed, str):
        with pytest.raises(BadConfig, match=listed):
            check_base(bare, sft(lora_targets=SEVEN))
    else:
        named, _ = check_base(bare, sft(lora_targets=SEVEN))
        assert sorted({name.rpartition(".")[2] for name in named.layers}) == sorted(listed)
    policy = stacked_policy(bare, {}, lora_config(sft(), bare))
    assert targets.weights == sum(each.numel() for name, each in policy.named_parameters() if "lora_" in name)


def test_a_name_that_no_layer_has_is_refused_with_those_that_the_base_has(tmp_path: Path):
    bare = base(tmp_path, "phi 3")
    with pytest.raises(BadConfig, match=r"q_proj, and no layer .*gate_up_proj \(2\), o_proj \(2\), qkv_proj \(2\)"):
        check_base(bare, sft(lora_targets=("q_proj", "o_proj")))
    moe = base(tmp_path, "qwen 3 moe")
    with pytest.raises(BadConfig, match=r"leaves no layer .*Name some of k_proj \(2\)"):
        check_base(moe, sft(lora_targets=("gate_proj", "up_proj", "down_proj")))
    with pytest.raises(BadConfig, match=r"no layer of the language model .* called so .there it is: not in the blocks"):
        check_base(base(tmp_path, "gemma 3 with pictures"), sft(lora_targets=("q_proj", "fc1")))


def test_a_base_that_brings_code_of_its_own_is_refused_in_plain_words(tmp_path: Path):
    remote = {"model_type": "chatglm", "auto_map": {"AutoConfig": "configuration_chatglm.ChatGLMConfig"}}
    (tmp_path / "config.json").write_text(json.dumps(remote), encoding="utf-8")
    with pytest.raises(BadConfig, match="code of their own are not run"):
        skeleton(tmp_path)


def test_a_base_whose_losses_trl_cannot_compute_is_refused_before_weights_are_read(tmp_path: Path):
    sizes = {name: value for name, value in CASES["sizes"].items() if name != "model_type"}
    AutoConfig.for_model("llama4_text", **sizes, intermediate_size_mlp=32, num_local_experts=2).save_pretrained(
        tmp_path
    )
    with pytest.raises(BadConfig, match="from which TRL computes losses"):
        check_base(skeleton(tmp_path), sft())


TRIED = cases("trial")
TRIALS = {f"{told['model_type']} {at}": (told, words) for at, (told, words) in enumerate(TRIED["cases"])}
QUICK_TRIALS = ("mamba 1", "doge 3", "jetmoe 5", "idefics3 7", "bert 8", "t5 11", "qwen3 13")


@pytest.mark.parametrize("name", quick_or_slow(TRIALS, QUICK_TRIALS))
def test_a_base_whose_run_could_not_end_well_or_that_writes_no_text_is_refused_from_its_configuration_and_no_other(
    tmp_path: Path, name: str
):
    told, words = TRIALS[name]
    if not words:
        assert check_base(base(tmp_path, told), sft())[0].layers
        return
    with pytest.raises(BadConfig, match=words):
        check_base(base(tmp_path, told), sft())


def test_rows_that_may_be_longer_than_the_base_reads_are_refused_with_both_numbers(tmp_path: Path):
    for told, limit in TRIED["lengths"]:
        assert context_of(base(tmp_path, told).config) == limit, told
    short = base(tmp_path, {"model_type": "llama", "max_position_embeddings": 2048})
    check_base(short, sft(max_length=2048))
    with pytest.raises(BadConfig, match="max_length 2,049 is more than the 2,048 tokens that the base reads"):
        check_base(short, sft(max_length=2049))
    told = {"data": ("x",), "output": "x", "chain": "y", "max_prompt_length": 2000, "max_completion_length": 49}
    with pytest.raises(BadConfig, match=r"max_prompt_length 2,000 \+ max_completion_length 49 = 2,049 is more"):
        check_base(short, GrpoSettings.model_validate(told))


def test_attention_is_the_models_own_and_what_it_cannot_do_is_refused_with_what_it_can(tmp_path: Path):
    for family, (own, able) in CASES["attention"].items():
        bare = base(tmp_path, family)
        assert check_base(bare, sft())[1] == own
        for asked in ("sdpa", "eager", "flash_attention_2", "flash_attention_3"):
            if asked in able:
                assert check_base(bare, sft(attention=asked))[1] == asked
            else:
                with pytest.raises(
                    BadConfig, match=f"attention {asked} is not what .* it can with {', '.join(able)}. Set"
                ):
                    check_base(bare, sft(attention=asked))


def test_packing_on_linear_attention_is_refused_for_its_state_before_weights_are_read(tmp_path: Path):
    for setting in ("packing", "padding_free"):
        with pytest.raises(
            BadConfig, match=r"state of its linear_attention layers .* any attention.*flash-linear-attention"
        ):
            check_base(base(tmp_path, "qwen 3.5"), sft(**{setting: True}))
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert missing_kernels(config, lambda _: False) == ("flash-linear-attention", "causal-conv1d")
    assert missing_kernels(config, lambda _: True) == missing_kernels({"model_type": "llama"}) == ()


def test_every_shipped_recipe_of_a_base_with_a_name_fits_that_base(tmp_path: Path):
    asked: dict[tuple[object, ...], SftSettings] = {}
    for file in RECIPES:
        told = read_settings(STAGES[stage_of(file)], file)
        packing = getattr(told, "packing", False) or getattr(told, "padding_free", False)
        asked[told.base, told.lora_targets, told.attention, packing] = told
    for (name, *_), settings in asked.items():
        if name != "embedded":
            targets, attention = check_base(base(tmp_path, CASES["bases"][name]), settings)
            assert len(targets.layers) >= 8 and attention in ("sdpa", "eager"), name
    assert {name for name, *_ in asked} == {"embedded", *CASES["bases"]}
