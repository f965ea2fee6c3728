"""A base as Mistral's and Llama's are: its tokenizer has no pad token, and trainers set one on theirs."""

import json
from pathlib import Path

import pytest

from tests.models import tiny_base
from tests.training import killing
from tests.training.runs import GRPO, SFT, settings_file, train
from training.models.chain import check_chain, load_chain


@pytest.fixture
def without_pad(tmp_path: Path) -> Path:
    base = tiny_base(tmp_path / "model")
    file = base / "tokenizer_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    del settings["pad_token"]
    file.write_text(json.dumps(settings), encoding="utf-8")
    return base


def test_a_base_without_pad_token_is_trained_by_sft_and_grpo_and_its_chain_answers(without_pad: Path):
    place = without_pad.parent
    sft = train("sft", settings_file(place, {**SFT, "output": str(place / "sft")}))
    grpo = train("grpo", settings_file(place, {**GRPO, "chain": str(sft.path), "output": str(place / "grpo")}))
    assert [each.detail for each in check_chain(grpo.path) if not each.is_ok] == []
    assert load_chain(grpo.path, "float32").stages == ("base", "sft", "grpo")


@pytest.mark.slow
def test_a_killed_run_on_a_base_without_pad_token_goes_on_to_the_same_weights_and_its_chain_loads(without_pad: Path):
    place, values = without_pad.parent, {**SFT, "max_steps": 6, "save_steps": 2, "lora_dropout": 0.2}
    whole = train("sft", settings_file(place, {**values, "output": str(place / "whole")}))
    file = settings_file(place, {**values, "output": str(place / "killed")})
    killing.kill_after(3, "sft", file, place / "killed")
    killed = train("sft", file)
    assert killing.differing(whole.path, killed.path) == []
    assert load_chain(killed.path, "float32").stages == ("base", "sft")
