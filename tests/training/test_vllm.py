"""What TRL would hand to vLLM for its rollouts: the whole chain, and the policy is as before afterwards."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl.generation.vllm_generation import VLLMGeneration

from tests.models import ALL_LINEAR, tiny_adapter, tiny_base
from training.models.policy import StackedPeftModel, stacked_policy

IDS = torch.arange(5, 25)[None]


def policy_on(folder: Path, dtype: torch.dtype) -> StackedPeftModel:
    """Return base + a strong frozen adapter + a new one that has learned something."""
    base = tiny_base(folder / "model")
    earlier = tiny_adapter(base, folder / "sft")
    model = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    lora = LoraConfig(r=4, target_modules=list(ALL_LINEAR), task_type="CAUSAL_LM")
    policy = stacked_policy(model, {"sft": earlier}, lora)
    torch.manual_seed(1)
    for name, weight in policy.named_parameters():
        if ".lora_B.default." in name:
            weight.data.normal_(0.0, 0.1)
    return policy.eval()


def handed_over(policy: StackedPeftModel) -> dict[str, torch.Tensor]:
    """Return the weights that TRL's own code gives to vLLM."""
    rollouts = SimpleNamespace(
        model=policy,
        _dist=SimpleNamespace(gather_params=lambda _: nullcontext(), is_fsdp=False),
        _fix_param_name_to_vllm=lambda name, extra_prefixes=(): name,
    )
    return {name: weight.clone() for name, weight in VLLMGeneration._iter_named_params(rollouts)}


def test_vllm_would_sample_from_the_whole_chain(tmp_path: Path):
    policy = policy_on(tmp_path, torch.float32)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    with torch.no_grad():
        effect = float((plain(IDS).logits - policy(IDS).logits).abs().max())
    missing = plain.load_state_dict(handed_over(policy), strict=False)
    assert missing.unexpected_keys == []
    assert missing.missing_keys in ([], ["lm_head.weight"])
    with torch.no_grad():
        apart = float((plain(IDS).logits - policy(IDS).logits).abs().max())
    assert apart < 1e-4 < 0.1 < effect


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_handing_weights_over_again_and_again_leaves_the_policy_bit_for_bit(tmp_path: Path, dtype: torch.dtype):
    policy = policy_on(tmp_path, dtype)
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    for _ in range(3):
        handed_over(policy)
    after = policy.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    with torch.no_grad(), policy.disable_adapter():
        assert torch.isfinite(policy(IDS).logits).all()
