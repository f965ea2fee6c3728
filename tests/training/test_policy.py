"""The model that learns: base, frozen adapters, a new one; how it writes answers, is merged and handed over."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, PeftModel
from peft.utils.integrations import dequantize_bnb_weight
from transformers import BitsAndBytesConfig, LlamaForCausalLM
from transformers.models.falcon.modeling_falcon import FalconLinear
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer.utils import use_adapter

from evals.errors import BadConfig, ChainMismatch
from tests.models import ALL_LINEAR, tiny_adapter, tiny_base
from training.models.adapters import read_adapter
from training.models.stack import is_plain, merge_into
from training.models.start import Start, policy_of, stacked_policy
from training.sft import SftSettings
from training.upstream import StackedPeftModel, write_adapter

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
def logits(of: torch.nn.Module) -> torch.Tensor:
    return of(TOKENS).logits.float()


def test_a_new_policy_answers_as_the_frozen_adapters_merged_without_dropout(base: Path, sft: Path, tmp_path: Path):
    second = tiny_adapter(base, tmp_path / "second", seed=5, rank=3)
    merged = PeftModel.from_pretrained(model(base), str(sft)).merge_and_unload()
    stacked = policy(base, sft)
    assert (logits(stacked) - logits(merged)).abs().max() < 1e-5
    assert (logits(stacked) - logits(model(base))).abs().max() > 0.1
    assert torch.equal(logits(stacked.train()), logits(stacked.eval()))
    merged = PeftModel.from_pretrained(merged, str(second)).merge_and_unload()
    both = stacked_policy(model(base), {"sft": sft, "dpo": second}, lora())
    assert (logits(both) - logits(merged)).abs().max() < 1e-5


def test_without_its_adapter_or_with_one_of_the_trainer_the_policy_is_still_base_plus_sft(base: Path, sft: Path):
    stacked = policy(base, sft)
    reference = logits(stacked)
    stacked.add_adapter("ref", stacked.peft_config["default"])
    shake(stacked)
    assert (logits(stacked) - reference).abs().max() > 0.1
    with stacked.disable_adapter():
        assert torch.equal(logits(stacked), reference)
    for name in (None, "ref"):
        with use_adapter(stacked, name):
            assert torch.equal(logits(stacked), reference)
            assert name is None or not [each for each in stacked.parameters() if each.requires_grad]
    assert (logits(stacked) - reference).abs().max() > 0.1
    assert stacked.active_adapters[0] == "default"
    assert {name.split(".")[-2] for name, each in stacked.named_parameters() if each.requires_grad} == {"default"}


def test_frozen_adapters_are_added_to_weights_that_are_whole_and_lie_beside_others(base: Path, sft: Path, monkeypatch):
    settings, start = SftSettings(data=("x",), output="x", lora_targets=ALL_LINEAR), Start(frozen={"sft": sft})
    plain = PeftModel.from_pretrained(model(base), str(sft)).eval()
    added = policy_of(model(base), start, settings)
    monkeypatch.setattr("training.models.start.is_fsdp_enabled", lambda: True)
    for each, frozen in ((added, ()), (policy_of(model(base), start, settings), ("earlier_sft",))):
        assert each.frozen == frozen
        assert (logits(each) - logits(plain)).abs().max() < 1e-5
        first = logits(each)
        shake(each)
        with each.as_reference():
            assert torch.equal(logits(each), first)


def test_a_run_holds_adapters_beside_its_base_as_written_needs_no_copy_for_its_reference_and_computes_what_peft_does(
    base: Path, sft: Path, tmp_path: Path
):
    write_adapter(policy(base, sft, shaken=True), tmp_path / "sft")
    stacked = stacked_policy(model(base), {"sft": tmp_path / "sft"}, lora())
    stacked.is_rounded = True
    stacked.add_adapter("ref", stacked.peft_config["default"])
    with torch.autocast("cpu", torch.bfloat16):
        reference = logits(stacked)
    stacked.take_back()
    shake(stacked)
    with torch.autocast("cpu", torch.bfloat16), stacked.as_reference():
        assert torch.equal(logits(stacked), reference)
    held = {name.split(".")[-2]: each.dtype for name, each in stacked.named_parameters() if ".lora_" in name}
    assert held == {"default": torch.float32, "earlier_sft": torch.bfloat16}
    here = logits(stacked)
    for layer in stacked.modules():
        getattr(layer, "lora_variant", {}).clear()
        layer.cast_input_dtype_enabled = True
    assert (logits(stacked) - here).abs().max() < 1e-4 < (here - reference).abs().max()


def test_a_checkpoint_holds_the_new_adapter_alone_and_loads_back(base: Path, sft: Path, tmp_path: Path):
    stacked, other = policy(base, sft, shaken=True), policy(base, sft)
    stacked.save_pretrained(str(tmp_path))
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    other.load_adapter(str(tmp_path), "default", is_trainable=True)
    assert torch.allclose(logits(other), logits(stacked), atol=1e-6)
    weights = [(name, each) for name, each in other.named_parameters() if ".lora_" in name]
    assert all(each.requires_grad == (".default." in name) for name, each in weights)


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


def test_bfloat16_weights_are_rounded_once_after_the_sum(base: Path, sft: Path):
    adapter, merged = read_adapter(sft), model(base, torch.bfloat16)
    name, pair = next(iter(adapter.pairs.items()))
    expected = merged.get_submodule(name).weight.float() + pair.up @ pair.down.float()
    merge_into(merged, {"sft": adapter})
    assert torch.equal(merged.get_submodule(name).weight, expected.to(torch.bfloat16))


def test_quantised_weights_and_adapters_of_another_base_are_refused_before_anything_is_changed(base, sft, tmp_path):
    packed = model(base)
    before = packed.model.layers[0].self_attn.q_proj.weight.clone()
    quantised = torch.zeros(64, 128, dtype=torch.int8)
    packed.model.layers[1].mlp.down_proj.weight = torch.nn.Parameter(quantised, requires_grad=False)
    with pytest.raises(BadConfig, match=r"quantised weights .*int8.* Use mode stack"):
        merge_into(packed, {"sft": read_adapter(sft)})
    assert torch.equal(packed.model.layers[0].self_attn.q_proj.weight, before)
    deeper = read_adapter(tiny_adapter(tiny_base(tmp_path / "deeper", layers=3), tmp_path / "adapter"))
    with pytest.raises(ChainMismatch, match="another base"):
        merge_into(model(base), {"sft": deeper})


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
    assert (logits(plain) - logits(apart)).abs().max() < 1e-3
    off = (logits(plain) - logits(stacked)).abs().max()  # bitsandbytes multiplies in fewer bits on a CPU
    assert off < 0.03 * (logits(model(base)) - logits(stacked)).abs().max()


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
    effect = (logits(plain) - logits(stacked)).abs().max()
    held = {name: each.data_ptr() for name, each in stacked.named_parameters()}
    for _ in range(3):
        weights = handed_over(stacked)
    assert held == {name: each.data_ptr() for name, each in stacked.named_parameters()}  # nothing was put in its place
    missing = plain.load_state_dict(weights, strict=False)
    assert missing.unexpected_keys == [] and missing.missing_keys in ([], ["lm_head.weight"])
    if dtype == torch.float32:
        assert (logits(plain) - logits(stacked)).abs().max() < 1e-3 < 0.1 < effect
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
