"""Plain PEFT and TRL adapters of anybody's become a chain, which says what could be checked and what not."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

from evals.errors import BadConfig, ChainMismatch, MissingModel
from evals.schema.questions import Sampling
from tests.models import tiny_adapter, tiny_base
from tests.training.runs import SFT, record, settings_file, train
from training.models.adapters import CONFIG_NAME
from training.models.chain import LoadedChain, check_chain, load_chain
from training.models.imported import import_chain

TURNS = [{"role": "user", "content": "Which way does the liver go?"}, {"role": "assistant", "content": "It goes up."}]


def bare(folder: Path):
    return AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny base, an adapter that TRL trained on it, and one that PEFT made for both merged, with rslora."""
    folder = tmp_path_factory.mktemp("plain")
    tiny_base(folder / "model", seed=11)  # weights of no other test, whose folder would be noted
    settings = SFTConfig(str(folder / "trl"), max_steps=3, learning_rate=1e-2, use_cpu=True, bf16=False, report_to=[])
    trainer = SFTTrainer(
        model=str(folder / "model"),
        args=settings,
        train_dataset=Dataset.from_list([{"messages": TURNS}] * 8),
        processing_class=AutoTokenizer.from_pretrained(folder / "model"),
        peft_config=LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    trainer.train()
    trainer.save_model()
    tiny_adapter(folder / "model", folder / "second", rank=3, targets=("q_proj", "up_proj"), use_rslora=True)
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> Path:
    """The chain of both."""
    import_chain(str(folder / "model"), [str(folder / "trl"), f"dpo={folder / 'second'}"], folder, "both")
    return folder


def logits_of(chain: LoadedChain, stage: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens of a question as the chain asks it, and a stage's logits."""
    ids = torch.tensor([chain.rows(chain.messages(TURNS[0]["content"]), (stage,), Sampling())[0].prompt])
    with torch.inference_mode(), chain.stack.rows([chain.adapters_of_stage[stage]]):
        return ids, chain.stack.model(input_ids=ids).logits


def test_each_stage_computes_what_plain_peft_does_and_is_asked_as_it_was_trained(folder, runs):
    chain = load_chain(runs / "both", "float32")
    assert chain.stages == ("base", "trl", "dpo")
    first = PeftModel.from_pretrained(bare(folder), folder / "trl")
    tokens = AutoTokenizer.from_pretrained(folder / "model")
    ids, ours = logits_of(chain, "trl")
    asked = tokens.apply_chat_template(TURNS[:1], add_generation_prompt=True, return_dict=True)["input_ids"]
    assert ids[0].tolist() == asked, "no system message, because none was told"
    with torch.inference_mode():
        assert (first(input_ids=ids).logits - ours).abs().max() < 1e-4
        assert (bare(folder)(input_ids=ids).logits - ours).abs().max() > 1e-2
        second = PeftModel.from_pretrained(first.merge_and_unload(), folder / "second")
        assert (second(input_ids=ids).logits - logits_of(chain, "dpo")[1]).abs().max() < 1e-4
    assert all(each.is_ok for each in check_chain(runs / "both"))


def test_it_says_what_it_could_check_and_what_not(folder, tmp_path):
    elsewhere = shutil.copytree(folder / "second", tmp_path / "theirs")
    config = json.loads((elsewhere / CONFIG_NAME).read_text())
    (elsewhere / CONFIG_NAME).write_text(json.dumps(config | {"base_model_name_or_path": "org/base"}))
    adapters = [str(folder / "trl"), str(elsewhere)]
    chain, found = import_chain(str(folder / "model"), adapters, tmp_path / "runs", system_prompt="Be short.")
    told = {(each.subject, each.check): (each.is_ok, each.detail) for each in found}
    assert told["trl", "base"][0] and "has weights" in told["trl", "base"][1]
    assert not told["theirs", "base"][0] and "names org/base" in told["theirs", "base"][1]
    assert "rank 3 on q_proj, up_proj" in told["theirs", "adapter"][1]
    assert not told["chain", "provenance"][0]
    assert (chain.folder, chain.manifest.system_prompt) == (tmp_path / "runs" / "theirs", "Be short.")


def test_a_stage_is_trained_on_top_of_it_with_the_system_prompt_that_it_has(folder, runs, tmp_path):
    values = {**SFT, "base": str(folder / "model"), "chain": str(runs / "both"), "output": str(tmp_path / "sft")}
    run = train("sft", settings_file(tmp_path, values))
    assert load_chain(run.path, "float32").stages == ("base", "trl", "dpo", "sft")
    assert record(run.path)["data"]["stage dpo"]


def other_base(folder: Path, place: Path) -> list[str]:
    return [str(tiny_base(place / "other", seed=7)), str(folder / "trl")]


def kind(**changes: object):
    def made(folder: Path, place: Path) -> list[str]:
        changed = shutil.copytree(folder / "second", place / "changed")
        config = json.loads((changed / CONFIG_NAME).read_text())
        (changed / CONFIG_NAME).write_text(json.dumps(config | changes))
        return [str(folder / "model"), str(changed)]

    return made


def written(text: str):
    def made(folder: Path, place: Path) -> list[str]:
        changed = shutil.copytree(folder / "second", place / "changed")
        (changed / CONFIG_NAME).write_text(text)
        return [str(folder / "model"), str(changed)]

    return made


REFUSED = {
    "other weights": (other_base, ChainMismatch, "was trained on .*model .* has others"),
    "DoRA without its magnitudes": (kind(use_dora=True), ChainMismatch, r"DoRA \(use_dora\).* do not belong together"),
    "whole modules that are missing": (kind(modules_to_save=["lm_head"]), ChainMismatch, "whole modules.* is missing"),
    "another kind": (kind(peft_type="IA3"), ChainMismatch, "type IA3"),
    "an alpha that is no number": (kind(lora_alpha=None), ChainMismatch, "lora_alpha: Input should be a valid number"),
    "a scale without end": (kind(lora_alpha=float("inf")), ChainMismatch, "lora_alpha: Input should be a finite"),
    "a pattern that is none": (kind(rank_pattern={"((": 2}), ChainMismatch, "rank_pattern.* regular expression"),
    "a configuration that is a list": (written("[]"), ChainMismatch, "should be an object"),
    "brackets without end": (written("[" * 100_000), ChainMismatch, "recursion limit"),
    "a base that was cut down": (kind(kasa_config={"r": 1}), ChainMismatch, "kasa"),
    "no folder": (lambda folder, place: [str(folder / "model"), "org/name"], MissingModel, "hf download"),
    "one name twice": (
        lambda folder, place: [str(folder / "model"), str(folder / "second"), str(folder / "second")],
        BadConfig,
        "has a stage 'second' already",
    ),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_cannot_be_imported_is_refused_with_the_reason_and_leaves_nothing(folder, tmp_path, how):
    make, error, words = REFUSED[how]
    base, *adapters = make(folder, tmp_path)
    with pytest.raises(error, match=words):
        import_chain(base, adapters, tmp_path / "runs")
    assert not [*(tmp_path / "runs").glob("*")]
