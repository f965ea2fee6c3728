"""QLoRA: an adapter learns on a base whose weights are held in 4 bits, here on the CPU."""

from pathlib import Path

import pytest
import torch
from bitsandbytes.nn import Linear4bit
from safetensors.torch import load_file

from tests.training.runs import SFT, one_thread, record, settings_file
from training import sft
from training.base import find_base, load_base
from training.config import SftSettings
from training.data import sft_data
from training.request import read_request
from training.start import Start

__all__ = ["one_thread"]

NF4 = {**SFT, "weights": "nf4", "autocast": "bfloat16", "max_steps": 2}


def test_the_linear_layers_of_the_base_are_nf4_with_doubly_quantised_scales(tmp_path: Path):
    file = settings_file(tmp_path, NF4)
    request = read_request(SftSettings, ["--config", str(file)])
    settings = request.settings
    assert isinstance(settings, SftSettings)
    base = find_base(settings.base)
    trainer = sft.build_trainer(settings, sft_data(settings.data, 0), Start(), base)
    layers = [each for each in trainer.model.modules() if isinstance(each, Linear4bit)]
    plain, _ = load_base(base, "float32")
    names = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    assert len(layers) == len(names) * plain.config.num_hidden_layers
    for layer in layers:
        assert layer.weight.quant_state.quant_type == "nf4"
        assert layer.weight.quant_state.nested
        assert layer.compute_dtype == torch.bfloat16
        assert not layer.weight.requires_grad


def test_an_adapter_learns_on_a_4_bit_base(tmp_path: Path):
    file = settings_file(tmp_path, NF4)
    sft.train(read_request(SftSettings, ["--config", str(file)]))
    kept = record(tmp_path / "run")
    assert (kept["status"], kept["result"]["steps"]) == ("finished", 2)
    assert kept["result"]["train_loss"] == pytest.approx(6.3, abs=0.5)
    weights = load_file(tmp_path / "run" / "adapter" / "adapter_model.safetensors")
    moved = [name for name in weights if "lora_B" in name and bool(weights[name].any())]
    assert len(moved) == 7 * 2
