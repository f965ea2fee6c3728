from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from evals.errors import BadConfig, ChainMismatch
from tests.models import tiny_adapter, tiny_base
from tests.training.runs import one_thread
from training.models.adapters import read_adapter
from training.models.stack import Stack, merge_into

__all__ = ["one_thread"]

TOKENS = torch.arange(24).reshape(2, 12)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_base(tmp_path_factory.mktemp("merging") / "model")


def model(base: Path, dtype: torch.dtype = torch.float32) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(base, dtype=dtype)


@torch.no_grad()
def logits(of: torch.nn.Module) -> torch.Tensor:
    return of(TOKENS).logits.float()


def test_merged_adapters_compute_what_stacked_ones_do(base: Path):
    adapters = {
        "sft": read_adapter(tiny_adapter(base, base.parent / "sft", seed=1)),
        "grpo": read_adapter(tiny_adapter(base, base.parent / "grpo", seed=2, rank=3)),
    }
    merged, beside = model(base), model(base)
    merge_into(merged, adapters)
    with Stack(beside, adapters).rows([frozenset(adapters)] * 2):
        stacked = logits(beside)
    assert (logits(merged) - stacked).abs().max() < 1e-4
    assert (stacked - logits(model(base))).abs().max() > 1.0


def test_bfloat16_weights_are_rounded_once_after_the_sum(base: Path):
    adapter = read_adapter(tiny_adapter(base, base.parent / "rounded"))
    merged = model(base, torch.bfloat16)
    name, pair = next(iter(adapter.pairs.items()))
    expected = merged.get_submodule(name).weight.float() + pair.up @ pair.down.float()
    merge_into(merged, {"sft": adapter})
    assert torch.equal(merged.get_submodule(name).weight, expected.to(torch.bfloat16))


def test_nothing_to_merge_changes_nothing(base: Path):
    merged = model(base)
    merge_into(merged, {})
    assert torch.equal(logits(merged), logits(model(base)))


def test_merging_into_quantised_weights_is_refused_before_anything_is_changed(base: Path):
    adapter = read_adapter(tiny_adapter(base, base.parent / "quantised"))
    packed = model(base)
    before = packed.model.layers[0].self_attn.q_proj.weight.clone()
    packed.model.layers[1].mlp.down_proj.weight = torch.nn.Parameter(
        torch.zeros(64, 128, dtype=torch.int8), requires_grad=False
    )
    with pytest.raises(BadConfig, match=r"quantised weights .*int8.* Use mode stack"):
        merge_into(packed, {"sft": adapter})
    assert torch.equal(packed.model.layers[0].self_attn.q_proj.weight, before)


def test_an_adapter_of_another_base_is_refused(base: Path, tmp_path: Path):
    deeper = tiny_base(tmp_path / "deeper", layers=3)
    adapter = read_adapter(tiny_adapter(deeper, tmp_path / "adapter"))
    with pytest.raises(ChainMismatch, match="another base"):
        merge_into(model(base), {"sft": adapter})
