"""A base as Mistral's and Llama's are: its tokenizer has no pad token, and trainers set one on theirs."""

import json
from pathlib import Path

import pytest

from evals.errors import ChainMismatch
from evals.schema import ChainManifest
from tests.models import tiny_base, tiny_chain
from tests.training import killing
from tests.training.runs import GRPO, SFT, settings_file, train
from training.models.base import find_base, load_tokenizer, tokenizer_sha256
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


def as_written_before(file: Path, base: Path) -> str:
    """Write a chain.json as Assay did when it took the checksum of a tokenizer that TRL had changed; return it."""
    tokenizer = load_tokenizer(find_base(str(base)))
    tokenizer.pad_token = tokenizer.eos_token
    manifest = ChainManifest.model_validate_json(file.read_text())
    changed = manifest.base.model_copy(update={"tokenizer_sha256": tokenizer_sha256(tokenizer)})
    file.write_text(manifest.model_copy(update={"base": changed}).model_dump_json(indent=1) + "\n")
    return file.read_text()


def test_a_chain_with_the_checksum_of_a_tokenizer_that_trl_changed_is_refused_with_the_command_that_mends_it(
    without_pad: Path,
):
    chain = tiny_chain(without_pad.parent, base=without_pad)
    files = [chain / "chain.json", chain.parent / "sft" / "chain.json"]
    good = [file.read_text() for file in files]
    before = [as_written_before(file, without_pad) for file in files]
    with pytest.raises(ChainMismatch, match=r"after a trainer set its pad token .*assay chain check .*grpo --mend"):
        load_chain(chain, "float32")
    wrong = [each for each in check_chain(chain) if not each.is_ok]
    assert [(each.check, each.is_mendable) for each in wrong] == [("tokenizer", True)]
    assert [file.read_text() for file in files] == before, "nothing is changed without --mend"
    assert all(each.is_ok for each in check_chain(chain, mend=True))
    assert [file.read_text() for file in files] == good, "the stage before it is mended, too"
    assert load_chain(chain, "float32").stages == ("base", "sft", "grpo")


def test_nothing_is_mended_where_the_chain_computes_something_else_or_has_another_tokenizer(without_pad: Path):
    chain = tiny_chain(without_pad.parent, base=without_pad)
    file = chain / "chain.json"
    as_written_before(file, without_pad)
    manifest = ChainManifest.model_validate_json(file.read_text())
    shifted = manifest.base_probe.model_copy(update={"logprobs": tuple(x - 1 for x in manifest.base_probe.logprobs)})
    other = manifest.base.model_copy(update={"tokenizer_sha256": "0" * 64})
    for changed in ({"base_probe": shifted}, {"base": other}):
        file.write_text(before := manifest.model_copy(update=changed).model_dump_json(indent=1) + "\n")
        assert not all(each.is_ok for each in check_chain(chain, mend=True))
        assert file.read_text() == before


@pytest.mark.slow
def test_a_killed_run_on_a_base_without_pad_token_goes_on_to_the_same_weights_and_its_chain_loads(without_pad: Path):
    place, values = without_pad.parent, {**SFT, "max_steps": 6, "save_steps": 2, "lora_dropout": 0.2}
    whole = train("sft", settings_file(place, {**values, "output": str(place / "whole")}))
    file = settings_file(place, {**values, "output": str(place / "killed")})
    killing.kill_after(3, "sft", file, place / "killed")
    killed = train("sft", file)
    assert killing.differing(whole.path, killed.path) == []
    assert load_chain(killed.path, "float32").stages == ("base", "sft")
