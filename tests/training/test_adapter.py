"""Adapters are read from safetensors; what cannot be stacked exactly is refused by name."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from evals.errors import ChainMismatch, MissingModel
from tests.models import tiny_adapter, tiny_base
from training.models.adapters import CONFIG_NAME, WEIGHTS_NAME, read_adapter

UNSUPPORTED = [
    ({"use_dora": True}, "DoRA"),
    ({"peft_type": "IA3"}, "adapter of type IA3"),
    ({"bias": "all"}, "trained biases"),
    ({"lora_bias": True}, "LoRA biases"),
    ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
    ({"alpha_pattern": {"q_proj": 4}}, "alpha_pattern"),
    ({"init_lora_weights": "pissa"}, "changes the base weights"),
    ({"layer_replication": [[0, 2], [1, 2]]}, "repeated layers"),
    ({"trainable_token_indices": [1, 2]}, "token embeddings"),
]


@pytest.fixture
def adapter(tmp_path):
    return tiny_adapter(tiny_base(tmp_path / "base"), tmp_path / "adapter")


def test_what_cannot_be_stacked_is_refused_in_words(adapter):
    config = adapter / CONFIG_NAME
    plain = json.loads(config.read_text())
    for change, words in UNSUPPORTED:
        config.write_text(json.dumps(plain | change))
        with pytest.raises(ChainMismatch, match=words):
            read_adapter(adapter)


def test_a_rank_of_its_own_per_layer_is_read_from_the_matrices(tmp_path):
    base = tiny_base(tmp_path / "base")
    folder = tiny_adapter(base, tmp_path / "adapter", rank=4, rank_pattern={"q_proj": 2})
    pairs = read_adapter(folder).pairs
    assert pairs["model.layers.0.self_attn.q_proj"].down.shape[0] == 2
    assert pairs["model.layers.0.self_attn.v_proj"].down.shape[0] == 4


def test_a_pickled_adapter_is_not_opened(adapter):
    (adapter / WEIGHTS_NAME).rename(adapter / "adapter_model.bin")
    with pytest.raises(MissingModel, match=r"pickle .* which can run code"):
        read_adapter(adapter)


@pytest.mark.parametrize("name", [WEIGHTS_NAME, CONFIG_NAME])
def test_a_missing_file_is_named(adapter, name):
    (adapter / name).unlink()
    with pytest.raises(MissingModel, match=name):
        read_adapter(adapter)


@pytest.mark.parametrize(
    "damage",
    [
        lambda tensors: tensors.pop(next(name for name in tensors if "lora_B" in name)),
        lambda tensors: tensors.__setitem__(next(iter(tensors)), torch.full((4, 64), torch.nan)),
        lambda tensors: tensors.__setitem__("base_model.model.lm_head.weight", torch.ones(2, 2)),
    ],
    ids=["half a pair", "not a number", "a whole weight"],
)
def test_damaged_or_foreign_tensors_are_refused(adapter, damage):
    tensors = load_file(adapter / WEIGHTS_NAME)
    damage(tensors)
    save_file(tensors, adapter / WEIGHTS_NAME)
    with pytest.raises(ChainMismatch, match=r"no sound pair|not a LoRA matrix"):
        read_adapter(adapter)
