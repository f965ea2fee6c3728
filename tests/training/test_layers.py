from pathlib import Path

import pytest
import torch
from peft import LoraConfig

from tests.models import tiny_adapter, tiny_base
from training.models.base import find_base, load_base
from training.models.policy import StackedPeftModel, stacked_policy
from training.models.speedups import join_adapters, round_frozen

IDS = torch.arange(5, 25).reshape(2, 10)


@pytest.fixture
def policy(tmp_path: Path) -> StackedPeftModel:
    """A policy over one frozen adapter, its own adapter no longer at zero."""
    base = tiny_base(tmp_path / "model")
    frozen = {"sft": tiny_adapter(base, tmp_path / "sft" / "adapter")}
    model, _ = load_base(find_base(str(base)), "float32")
    lora = LoraConfig(r=4, lora_alpha=12, target_modules=["q_proj", "up_proj"])
    stacked = stacked_policy(model, frozen, lora)
    with torch.no_grad():
        for name, weight in stacked.named_parameters():
            if ".lora_B.default." in name:
                weight.normal_(0, 0.1)
    return stacked


def seen(policy: StackedPeftModel) -> dict[str, torch.Tensor]:
    """Return the scores, and the gradient of each weight that learns."""
    policy.zero_grad()
    scores = policy(input_ids=IDS).logits.float()
    scores.log_softmax(-1)[..., 7].sum().backward()
    learned = {name: each.grad.clone() for name, each in policy.named_parameters() if each.grad is not None}
    return {"scores": scores.detach(), **learned}


def test_adapters_side_by_side_compute_and_learn_what_they_do_one_by_one(policy):
    apart = seen(policy)
    join_adapters(policy)
    together = seen(policy)
    assert apart.keys() == together.keys()
    assert len(apart) > 2
    for name, expected in apart.items():
        torch.testing.assert_close(together[name], expected, rtol=1e-4, atol=1e-5)


def test_without_gradients_a_changed_adapter_is_seen_at_once(policy):
    join_adapters(policy)
    with torch.no_grad():
        before = policy(input_ids=IDS).logits
        for name, weight in policy.named_parameters():
            if ".lora_B.default." in name:
                weight.mul_(3)
        after = policy(input_ids=IDS).logits
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, seen(policy)["scores"])


def test_a_switched_off_adapter_is_left_out(policy):
    with torch.no_grad(), policy.disable_adapter():
        apart = policy(input_ids=IDS).logits
        join_adapters(policy)
        torch.testing.assert_close(policy(input_ids=IDS).logits, apart)


def test_rounding_the_frozen_base_once_changes_no_bit_under_autocast(policy):
    with torch.autocast("cpu", torch.bfloat16):
        before = seen(policy)
        round_frozen(policy)
        after = seen(policy)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    kept = policy.get_output_embeddings().weight
    assert kept.dtype == torch.float32
