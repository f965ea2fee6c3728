"""Stacked adapters give what merging gives, for any mix of stages, in answers and in training."""

import copy
import itertools
import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.utils.integrations import dequantize_bnb_weight
from safetensors.torch import load_file, save_file
from transformers import (
    BitsAndBytesConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2MoeConfig,
    Qwen2MoeForCausalLM,
)
from transformers.models.falcon.modeling_falcon import FalconLinear
from trl.generation.vllm_generation import VLLMGeneration

from evals.errors import BadConfig, ChainMismatch
from tests.models import ALL_LINEAR, tiny_adapter, tiny_base
from tests.training.cases import cases
from training.models.adapters import CONFIG_NAME, WEIGHTS_NAME, read_adapter
from training.models.stack import Stack, is_plain, merge_into, pack
from training.models.start import Start, policy_of, stacked_policy
from training.sft import SftSettings
from training.upstream import StackedPeftModel, write_adapter

BASE, SFT, GRPO = frozenset(), frozenset({"sft"}), frozenset({"sft", "grpo"})


def load(folder):
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def logits(model, tokens, **inputs):
    with torch.inference_mode():
        return model(input_ids=tokens, **inputs).logits


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stack")
    base = tiny_base(folder / "base")
    return {
        "base": base,
        "sft": tiny_adapter(base, folder / "sft", seed=1, rank=4),
        "grpo": tiny_adapter(base, folder / "grpo", seed=2, rank=2),
    }


@pytest.fixture(scope="module")
def stacked(tiny):
    model = load(tiny["base"])
    return model, Stack(model, {name: read_adapter(tiny[name]) for name in ("sft", "grpo")})


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.02)])
def test_packed_weights_give_the_same_answers_for_one_row_and_for_many(tiny, dtype, tolerance):
    plain = load(tiny["base"]).to(dtype)
    packed = copy.deepcopy(plain)
    pack(packed)
    for rows in (1, 4, 40):
        tokens = torch.arange(3, 3 + 9 * rows).remainder(50).view(rows, 9)
        assert torch.allclose(logits(packed, tokens), logits(plain, tokens), atol=tolerance)


def test_a_batch_of_another_size_than_announced_is_an_error(stacked):
    model, stack = stacked
    with pytest.raises(ValueError, match="2 rows were given where the stack was told of 1"):  # noqa: SIM117
        with stack.rows([SFT]):
            logits(model, torch.full((2, 4), 5))


def adapted(model, folder, targets, seed=1, **options):
    """Write an adapter of a model that PEFT makes, with a strong random effect, and return its folder."""
    torch.manual_seed(seed)
    options = {"r": 4, "target_modules": targets, "fan_in_fan_out": isinstance(model, GPT2LMHeadModel)} | options
    policy = get_peft_model(copy.deepcopy(model), LoraConfig(task_type="CAUSAL_LM", **options))
    for name, weight in policy.named_parameters():
        if "lora_B" in name:
            weight.data.normal_(0.0, 0.3)
    policy.save_pretrained(folder, save_embedding_layers=False)
    return folder


SMALL = {
    "vocab_size": 400,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48}
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SMALL, intermediate_size=96)),
    "moe": lambda: Qwen2MoeForCausalLM(Qwen2MoeConfig(**SMALL, **MOE, num_key_value_heads=2)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**SMALL)),
}
SHARED = r".*(shared_expert\.(gate|up|down)_proj|q_proj)"
CONV1D = ["c_attn", "c_proj", "c_fc"]
STACKED = {
    "experts that all tokens share, one after another": ("moe", (SHARED, {}), (SHARED, {})),
    "transposed layers": ("gpt2", (CONV1D, {}), (CONV1D, {})),
    "the output layer, which is given the last tokens alone": ("llama", (["lm_head"], {}), (["q_proj", "lm_head"], {})),
    "different ranks": ("llama", (ALL_LINEAR, {"r": 8}), (ALL_LINEAR, {"r": 3})),
    "different layers": ("llama", (["q_proj", "v_proj"], {}), (["o_proj", "down_proj"], {})),
}


@pytest.mark.parametrize("case", STACKED)
def test_each_token_has_the_adapters_of_its_row_merged_in_order_however_a_layer_is_given_the_batch(case, tmp_path):
    kind, *adapters = STACKED[case]
    torch.manual_seed(0)
    model = MODELS[kind]().eval()
    references, folders = [copy.deepcopy(model)], []
    for seed, (name, (targets, options)) in enumerate(zip(("sft", "grpo"), adapters, strict=True), 1):
        folders.append(adapted(model, tmp_path / name, targets, seed, **options))
        above = PeftModel.from_pretrained(copy.deepcopy(references[-1]), folders[-1])
        references.append(above.merge_and_unload().eval())
    stack = Stack(model, {folder.name: read_adapter(folder) for folder in folders})
    for rows, length in itertools.product((1, 2, 3, 4), (1, 2, 3, 4)):
        tokens = torch.randint(3, 400, (rows, length))
        stages = [(BASE, SFT, GRPO)[(row + length) % 3] for row in range(rows)]
        with stack.rows(stages):
            found = logits(model, tokens, logits_to_keep=1)
        expected = [references[len(stages[row])] for row in range(rows)]
        alone = [logits(each, tokens[row : row + 1], logits_to_keep=1) for row, each in enumerate(expected)]
        torch.testing.assert_close(found, torch.cat(alone), rtol=0, atol=1e-4)
    for before, after in itertools.pairwise(references):
        assert (logits(after, tokens) - logits(before, tokens)).abs().max() > 0.1, "the adapter must have an effect"


REGROUPED = {
    "some tokens": lambda x: x.reshape(-1, x.shape[-1])[1:],
    "tokens before rows": lambda x: x.transpose(0, 1),
    "one sum of each row": lambda x: x.sum(1),
}


@pytest.mark.parametrize("way", REGROUPED)
def test_a_layer_that_is_given_other_tokens_than_the_batch_is_refused_by_name(tiny, way):
    model = load(tiny["base"])
    stack = Stack(model, {"sft": read_adapter(tiny["sft"])})
    model.model.layers[1].mlp.register_forward_pre_hook(lambda _, given: (REGROUPED[way](given[0]),))
    refused = pytest.raises(ChainMismatch, match=r"model\.layers\.1\.mlp\.gate_proj .*2 rows of 5 tokens")
    with refused, stack.rows([SFT, BASE]):
        logits(model, torch.full((2, 5), 5))


def test_an_adapter_for_another_model_is_refused_by_name_of_the_layer(tiny, tmp_path):
    deeper = tiny_base(tmp_path / "deeper", layers=3)
    adapter = tiny_adapter(deeper, tmp_path / "adapter")
    with pytest.raises(ChainMismatch, match=r"layers\.2.*no such linear layer.*another base"):
        Stack(load(tiny["base"]), {"sft": read_adapter(adapter)})


# ---- one adapter read from its folder ----------------------------------------------------------


@pytest.fixture
def adapter(tmp_path):
    return tiny_adapter(tiny_base(tmp_path / "base"), tmp_path / "adapter")


def test_what_cannot_be_stacked_is_refused_in_words(adapter):
    config = adapter / CONFIG_NAME
    plain = json.loads(config.read_text())
    for change, words in cases("adapters")["refused"]:
        config.write_text(json.dumps(plain | change))
        with pytest.raises(ChainMismatch, match=words):
            read_adapter(adapter)


DAMAGES = {
    "half a pair": lambda tensors: tensors.pop(next(name for name in tensors if "lora_B" in name)),
    "not a number": lambda tensors: tensors.update({next(iter(tensors)): torch.full((4, 64), torch.nan)}),
    "experts": lambda tensors: tensors.update(
        {name.replace(".mlp.", ".mlp.experts.0."): tensors.pop(name) for name in list(tensors)}
    ),
    "a whole weight": lambda tensors: tensors.update({"base_model.model.lm_head.weight": torch.ones(2, 2)}),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_or_foreign_tensors_are_refused(adapter, damage):
    tensors = load_file(adapter / WEIGHTS_NAME)
    damage(tensors)
    save_file(tensors, adapter / WEIGHTS_NAME)
    with pytest.raises(
        ChainMismatch, match=r"no sound pair|weights other than lora_A|LoRA on experts|embeddings saved whole"
    ):
        read_adapter(adapter)


# ---- the policy that learns: base, frozen adapters, a new one ----------------------------------------


TOKENS = torch.arange(24).reshape(2, 12)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_base(tmp_path_factory.mktemp("policy") / "model")


@pytest.fixture(scope="module")
def sft(base: Path) -> Path:
    return tiny_adapter(base, base.parent / "sft", lora_dropout=0.5)


def model(base: Path, dtype: torch.dtype = torch.float32) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(base, dtype=dtype)


def lora(**changes: object) -> LoraConfig:
    values = {"r": 2, "lora_alpha": 4, "target_modules": list(ALL_LINEAR), "task_type": "CAUSAL_LM"}
    return LoraConfig(**(values | changes))


def policy(base: Path, sft: Path, *, shaken: bool = False, dtype: torch.dtype = torch.float32) -> StackedPeftModel:
    """Return a policy over the SFT adapter, its own adapter at zero, or moved as by training."""
    stacked = stacked_policy(model(base, dtype), {"sft": sft}, lora())
    if shaken:
        shake(stacked)
    return stacked


def shake(stacked: StackedPeftModel) -> None:
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(1)
        for name, parameter in stacked.named_parameters():
            if ".lora_B.default." in name:
                parameter.normal_(0.0, 0.2)


@torch.no_grad()
def policy_logits(of: torch.nn.Module) -> torch.Tensor:
    return of(TOKENS).logits.float()


def test_frozen_adapters_are_added_to_weights_that_are_whole_and_lie_beside_others(base: Path, sft: Path, monkeypatch):
    settings, start = SftSettings(data=("x",), output="x", lora_targets=ALL_LINEAR), Start(frozen={"sft": sft})
    plain = PeftModel.from_pretrained(model(base), str(sft)).eval()
    added = policy_of(model(base), start, settings)
    monkeypatch.setattr("training.models.start.is_fsdp_enabled", lambda: True)
    for each, frozen in ((added, ()), (policy_of(model(base), start, settings), ("earlier_sft",))):
        assert each.frozen == frozen
        assert (policy_logits(each) - policy_logits(plain)).abs().max() < 1e-5
        first = policy_logits(each)
        shake(each)
        with each.as_reference():
            assert torch.equal(policy_logits(each), first)


def test_a_run_holds_adapters_beside_its_base_as_written_needs_no_copy_for_its_reference_and_computes_what_peft_does(
    base: Path, sft: Path, tmp_path: Path
):
    write_adapter(policy(base, sft, shaken=True), tmp_path / "sft")
    stacked = stacked_policy(model(base), {"sft": tmp_path / "sft"}, lora())
    stacked.is_rounded = True
    stacked.add_adapter("ref", stacked.peft_config["default"])
    with torch.autocast("cpu", torch.bfloat16):
        reference = policy_logits(stacked)
    stacked.take_back()
    shake(stacked)
    with torch.autocast("cpu", torch.bfloat16), stacked.as_reference():
        assert torch.equal(policy_logits(stacked), reference)
    held = {name.split(".")[-2]: each.dtype for name, each in stacked.named_parameters() if ".lora_" in name}
    assert held == {"default": torch.float32, "earlier_sft": torch.bfloat16}
    here = policy_logits(stacked)
    for layer in stacked.modules():
        getattr(layer, "lora_variant", {}).clear()
        layer.cast_input_dtype_enabled = True
    assert (policy_logits(stacked) - here).abs().max() < 1e-4 < (here - reference).abs().max()


def test_a_new_adapter_that_changes_something_at_once_is_refused(base: Path, sft: Path):
    with pytest.raises(ValueError, match="does not start at zero"):
        stacked_policy(model(base), {"sft": sft}, lora(init_lora_weights=False))


def test_answers_are_sampled_under_the_autocast_that_they_are_scored_in(base: Path, sft: Path):
    seen: dict[str, bool] = {}
    for kind in ("bfloat16", "none"):
        settings = SftSettings(data=("x",), output="x", lora_targets=ALL_LINEAR, autocast=kind)
        stacked = policy_of(model(base), Start(frozen={"sft": sft}), settings)
        layer = stacked.get_submodule("base_model.model.model.layers.0.mlp.down_proj")
        layer.register_forward_pre_hook(lambda *_, kind=kind: seen.update({kind: torch.is_autocast_enabled("cpu")}))
        stacked.generate(input_ids=TOKENS, max_new_tokens=2)
    assert seen == {"bfloat16": True, "none": False}


# ---- merged weights ----------------------------------------------------------------------------


class Rounding(torch.nn.Linear):
    """A layer that computes with other weights than it holds, as those of BitNet do."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(inputs, self.weight.sign(), self.bias)


def test_a_layer_of_a_models_own_class_is_adapted_where_it_is_a_plain_linear_layer():
    plain, rounding = FalconLinear(6, 5), Rounding(6, 5)
    assert (is_plain(plain), is_plain(plain.to("meta")), is_plain(rounding)) == (True, True, False)
    assert plain.weight.shape == (5, 6)


def test_quantised_weights_are_refused_before_anything_is_changed(base, sft):
    packed = model(base)
    before = packed.model.layers[0].self_attn.q_proj.weight.clone()
    quantised = torch.zeros(64, 128, dtype=torch.int8)
    packed.model.layers[1].mlp.down_proj.weight = torch.nn.Parameter(quantised, requires_grad=False)
    with pytest.raises(BadConfig, match=r"quantised weights .*int8.* Use mode stack"):
        merge_into(packed, {"sft": read_adapter(sft)})
    assert torch.equal(packed.model.layers[0].self_attn.q_proj.weight, before)


def test_vllm_is_given_a_4_bit_policy_unpacked_with_its_adapters_added(base, sft):
    packing = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
    packed = LlamaForCausalLM.from_pretrained(base, dtype=torch.float32, quantization_config=packing)
    unpacked = model(base)
    unpacked.load_state_dict(
        {name: dequantize_bnb_weight(each) for name, each in packed.named_parameters() if hasattr(each, "quant_state")},
        strict=False,
    )
    apart = stacked_policy(unpacked, {"sft": sft}, lora()).eval()
    stacked = stacked_policy(packed, {"sft": sft}, lora()).eval()
    for each in (apart, stacked):
        shake(each)
    plain = model(base)
    missing = plain.load_state_dict(handed_over(stacked), strict=False)
    assert missing.unexpected_keys == [] and missing.missing_keys in ([], ["lm_head.weight"])
    assert (policy_logits(plain) - policy_logits(apart)).abs().max() < 1e-3
    off = (policy_logits(plain) - policy_logits(stacked)).abs().max()  # bitsandbytes multiplies in fewer bits on a CPU
    assert off < 0.03 * (policy_logits(model(base)) - policy_logits(stacked)).abs().max()


def handed_over(policy: StackedPeftModel) -> dict[str, torch.Tensor]:
    """Return the weights that TRL's own code gives to vLLM."""
    rollouts = SimpleNamespace(
        model=policy,
        _dist=SimpleNamespace(gather_params=lambda _: nullcontext(), is_fsdp=False),
        _fix_param_name_to_vllm=lambda name, extra_prefixes=(): name,
    )
    return {name: weight.clone() for name, weight in VLLMGeneration._iter_named_params(rollouts)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_vllm_would_sample_from_the_whole_chain_and_the_policy_stays_bit_for_bit(base, sft, dtype: torch.dtype):
    stacked = policy(base, sft, shaken=True, dtype=dtype).eval()
    before = {name: value.clone() for name, value in stacked.state_dict().items()}
    plain = model(base, dtype)
    effect = (policy_logits(plain) - policy_logits(stacked)).abs().max()
    held = {name: each.data_ptr() for name, each in stacked.named_parameters()}
    for _ in range(3):
        weights = handed_over(stacked)
    assert held == {name: each.data_ptr() for name, each in stacked.named_parameters()}  # nothing was put in its place
    missing = plain.load_state_dict(weights, strict=False)
    assert missing.unexpected_keys == [] and missing.missing_keys in ([], ["lm_head.weight"])
    if dtype == torch.float32:
        assert (policy_logits(plain) - policy_logits(stacked)).abs().max() < 1e-3 < 0.1 < effect
    after = stacked.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_weight_that_no_text_needs_is_found_whether_its_layer_is_skipped_or_it_is_an_experts_own(
    base: Path, sft: Path
):
    stacked = policy(base, sft)
    stacked.train()
    assert stacked.uses_every_weight() and stacked.training
    assert all(each.grad is None for each in stacked.parameters())
    last = stacked.get_base_model().model.layers[-1]
    gated, last.mlp = last.mlp, torch.nn.Module()
    last.mlp.experts = torch.nn.ModuleList([gated])
    last.mlp.forward = gated.forward
    assert not stacked.uses_every_weight()
    last.mlp = gated
    assert stacked.uses_every_weight()
    last.forward = lambda hidden, *_, **__: hidden
    assert not stacked.uses_every_weight()
