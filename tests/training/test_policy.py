from pathlib import Path

import pytest
import torch
from peft import LoraConfig, PeftModel
from transformers import LlamaForCausalLM
from trl.trainer.utils import use_adapter

from tests.models import ALL_LINEAR, tiny_adapter, tiny_base
from tests.training.runs import one_thread
from training.models.adapters import read_adapter
from training.models.policy import StackedPeftModel, stacked_policy, write_adapter

__all__ = ["one_thread"]

TOKENS = torch.arange(24).reshape(2, 12)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_base(tmp_path_factory.mktemp("policy") / "model")


@pytest.fixture(scope="module")
def sft(base: Path) -> Path:
    return tiny_adapter(base, base.parent / "sft", lora_dropout=0.5)


def lora(**changes: object) -> LoraConfig:
    values = {"r": 2, "lora_alpha": 4, "target_modules": list(ALL_LINEAR), "task_type": "CAUSAL_LM"}
    return LoraConfig(**(values | changes))


def policy(base: Path, sft: Path) -> StackedPeftModel:
    return stacked_policy(model(base), {"sft": sft}, lora())


def model(base: Path) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(base, dtype=torch.float32)


@torch.no_grad()
def logits(of: torch.nn.Module) -> torch.Tensor:
    return of(TOKENS).logits


def shake(stacked: StackedPeftModel) -> None:
    """Give the new adapter an effect, as training does."""
    for name, parameter in stacked.named_parameters():
        if ".lora_B.default." in name:
            parameter.data.normal_(0.0, 0.3)


def test_a_new_policy_answers_as_base_plus_sft_merged(base: Path, sft: Path):
    merged = PeftModel.from_pretrained(model(base), str(sft)).merge_and_unload()
    stacked = policy(base, sft)
    assert type(stacked) is StackedPeftModel
    assert (logits(stacked) - logits(merged)).abs().max() < 1e-5
    assert (logits(stacked) - logits(model(base))).abs().max() > 0.1


def test_the_frozen_adapter_computes_without_dropout_while_training(base: Path, sft: Path):
    stacked = policy(base, sft)
    expected = logits(stacked.eval())
    assert torch.equal(logits(stacked.train()), expected)


def test_only_the_new_adapter_learns(base: Path, sft: Path):
    learning = {name for name, each in policy(base, sft).named_parameters() if each.requires_grad}
    assert learning
    assert all(".default." in name for name in learning)


def test_without_the_adapter_the_policy_is_still_base_plus_sft(base: Path, sft: Path):
    stacked = policy(base, sft)
    reference = logits(stacked)
    shake(stacked)
    assert (logits(stacked) - reference).abs().max() > 0.1
    with stacked.disable_adapter():
        assert torch.equal(logits(stacked), reference)
    with use_adapter(stacked, None):
        assert torch.equal(logits(stacked), reference)
    assert (logits(stacked) - reference).abs().max() > 0.1


def test_an_adapter_of_the_trainer_leaves_the_frozen_one_active(base: Path, sft: Path):
    stacked = policy(base, sft)
    reference = logits(stacked)
    stacked.add_adapter("ref", stacked.peft_config["default"])
    shake(stacked)
    with use_adapter(stacked, "ref"):
        assert torch.equal(logits(stacked), reference)
        assert not [each for each in stacked.parameters() if each.requires_grad]
    assert stacked.active_adapters[0] == "default"
    assert {name.split(".")[-2] for name, each in stacked.named_parameters() if each.requires_grad} == {"default"}


def test_a_checkpoint_holds_the_new_adapter_alone_and_loads_back(base: Path, sft: Path, tmp_path: Path):
    stacked = policy(base, sft)
    shake(stacked)
    stacked.save_pretrained(str(tmp_path))
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    other = policy(base, sft)
    other.load_adapter(str(tmp_path), "default", is_trainable=True)
    assert torch.allclose(logits(other), logits(stacked), atol=1e-6)
    assert all(
        each.requires_grad == (".default." in name) for name, each in other.named_parameters() if ".lora_" in name
    )


def test_a_new_adapter_that_changes_something_at_once_is_refused(base: Path, sft: Path):
    with pytest.raises(ValueError, match="does not start at zero"):
        stacked_policy(model(base), {"sft": sft}, lora(init_lora_weights=False))


def test_a_policy_can_stand_on_several_frozen_adapters(base: Path, sft: Path, tmp_path: Path):
    second = tiny_adapter(base, tmp_path / "second", seed=5, rank=3)
    merged = PeftModel.from_pretrained(model(base), str(sft)).merge_and_unload()
    merged = PeftModel.from_pretrained(merged, str(second)).merge_and_unload()
    stacked = stacked_policy(model(base), {"sft": sft, "dpo": second}, lora())
    assert (logits(stacked) - logits(merged)).abs().max() < 1e-5


def test_the_written_adapter_is_two_files_in_bfloat16_that_the_chain_can_stack(base: Path, sft: Path, tmp_path: Path):
    stacked = policy(base, sft)
    shake(stacked)
    checksum = write_adapter(stacked, tmp_path / "adapter")
    write_adapter(stacked, tmp_path / "adapter")
    files = sorted(path.name for path in (tmp_path / "adapter").iterdir())
    assert files == ["adapter_config.json", "adapter_model.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]
    read = read_adapter(tmp_path / "adapter")
    assert read.sha256 == checksum
    assert {pair.down.dtype for pair in read.pairs.values()} == {torch.bfloat16}
    assert len(read.pairs) == 2 * len(ALL_LINEAR)
