"""QLoRA: an adapter learns on a base whose weights are held in 4 bits, here on the CPU."""

from pathlib import Path

import pytest
import torch
from bitsandbytes.nn import Linear4bit
from safetensors.torch import load_file

from tests.training.runs import SFT, launched, one_thread, record, settings_file
from training import sft
from training.config import SftSettings, read_request
from training.data.questions import sft_data
from training.models.base import Base, find_base, load_base
from training.models.start import Start

__all__ = ["one_thread"]

NF4 = {**SFT, "weights": "nf4", "autocast": "bfloat16", "max_steps": 2}


def built(folder: Path, **values: object) -> tuple[Base, sft.SupervisedTrainer]:
    """Return the base of a 4-bit run and its trainer."""
    file = settings_file(folder, {**NF4, **values})
    settings = read_request(SftSettings, ["--config", str(file)]).settings
    assert isinstance(settings, SftSettings)
    base = find_base(settings.base)
    return base, sft.build_trainer(settings, sft_data(settings.data, 0), Start(), base)


def test_the_linear_layers_of_the_base_are_nf4_with_doubly_quantised_scales(tmp_path: Path):
    base, trainer = built(tmp_path)
    layers = [each for each in trainer.model.modules() if isinstance(each, Linear4bit)]
    plain, _ = load_base(base, "float32")
    names = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    assert len(layers) == len(names) * plain.config.num_hidden_layers
    for layer in layers:
        assert layer.weight.quant_state.quant_type == "nf4"
        assert layer.weight.quant_state.nested
        assert layer.compute_dtype == torch.bfloat16
        assert not layer.weight.requires_grad


def test_an_adapter_learns_on_a_4_bit_base_by_the_command_that_people_type(tmp_path: Path):
    done = launched("sft", settings_file(tmp_path, NF4), "cpu")
    assert done.returncode == 0, done.stderr[-3000:]
    kept = record(tmp_path / "run")
    assert (kept["status"], kept["result"]["steps"]) == ("finished", 2)
    assert kept["result"]["train_loss"] == pytest.approx(6.3, abs=0.5)
    weights = load_file(tmp_path / "run" / "adapter" / "adapter_model.safetensors")
    moved = [name for name in weights if "lora_B" in name and bool(weights[name].any())]
    assert len(moved) == 7 * 2


def test_steps_as_small_as_those_of_the_published_runs_are_not_rounded_away(tmp_path: Path):
    _, trainer = built(tmp_path, learning_rate=5e-7, max_steps=3)
    weights = {name: each for name, each in trainer.model.named_parameters() if each.requires_grad}
    before = {name: each.detach().clone() for name, each in weights.items()}
    assert {each.dtype for each in weights.values()} == {torch.float32}
    trainer.train()
    moved = {
        name: (weights[name] - before[name]).abs().max().item()
        for name in weights
        if ".lora_A." in name  # B starts at nothing, and any step from there is seen
    }
    assert len(moved) == 7 * 2
    assert all(0 < step < 2e-6 for step in moved.values())
    lost = [(before[name].bfloat16() == weights[name].bfloat16()).float().mean() for name in moved]
    assert min(lost) > 0.9  # of the weights in bfloat16
