"""Adapters of every kind that PEFT writes are imported and asked: stacked, or merged into a base of the chain's own."""

import json
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import IA3Config, LoraConfig, PeftModel, PromptTuningConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from typer.testing import CliRunner

from evals.errors import BadConfig, ChainMismatch, MissingModel
from evals.schema.questions import Sampling
from lab.cli import app
from tests.models import ALL_LINEAR, tiny_adapter, tiny_base, tiny_tokenizer
from tests.training.runs import SFT, settings_file, train
from training.models.adapters import CONFIG_NAME, WEIGHTS_NAME
from training.models.base import find_base
from training.models.chain import check_chain, load_chain
from training.models.imported import import_chain

NEW = "<|direction|>"
SIZE = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
OTHERS = {
    "llama-untied": ("llama", {**SIZE, "num_key_value_heads": 2, "tie_word_embeddings": False}),
    "qwen2": ("qwen2", {**SIZE, "num_key_value_heads": 2}),
    "gpt2": ("gpt2", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 1024}),
    "qwen3-moe": (
        "qwen3_moe",
        {**SIZE, "num_key_value_heads": 2, "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2}
        | {"moe_intermediate_size": 32, "decoder_sparse_step": 1},
    ),
}


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small bases: a Llama with tied embeddings, one without, and of other families."""
    folder = tmp_path_factory.mktemp("bases")
    tokenizer = tiny_tokenizer()
    made = {"llama": tiny_base(folder / "llama", seed=21)}
    for name, (family, changes) in OTHERS.items():
        torch.manual_seed(5)
        ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
        config = AutoConfig.for_model(family, vocab_size=len(tokenizer), initializer_range=0.1, **ends, **changes)
        AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
        made[name] = folder / name
    return made


@dataclass(frozen=True)
class Kind:
    """An adapter as plain PEFT makes it, on which base, and whether it is stacked."""

    options: dict[str, Any]
    base: str = "llama"
    is_stacked: bool = False
    prepare: Callable[[PreTrainedModel, Any], None] = lambda model, tokenizer: None
    config: Any = LoraConfig
    files: dict[str, Any] = field(default_factory=dict)


def add_token(model: PreTrainedModel, tokenizer: Any) -> None:
    tokenizer.add_special_tokens({"additional_special_tokens": [NEW]})
    model.resize_token_embeddings(len(tokenizer))


QKV = ["q_proj", "v_proj"]
KINDS = {
    "rsLoRA with rank and alpha patterns": Kind(
        {
            "target_modules": list(ALL_LINEAR),
            "use_rslora": True,
            "rank_pattern": {"down_proj": 2, r"layers\.1\..*q_proj": 3},
            "alpha_pattern": {"v_proj": 40, "^model.layers.0.mlp.up_proj": 1},
        },
        is_stacked=True,
    ),
    "transposed layers": Kind(
        {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}, base="gpt2", is_stacked=True
    ),
    "the output layer of tied embeddings": Kind({"target_modules": ["q_proj", "lm_head"]}),
    "DoRA": Kind({"target_modules": list(ALL_LINEAR), "use_dora": True}),
    "a whole module": Kind({"target_modules": QKV, "modules_to_save": ["lm_head"]}, base="llama-untied"),
    "whole modules of tied embeddings": Kind({"target_modules": QKV, "modules_to_save": ["lm_head", "embed_tokens"]}),
    "a norm": Kind({"target_modules": QKV, "modules_to_save": ["norm", "input_layernorm"]}),
    "token embeddings": Kind({"target_modules": QKV, "trainable_token_indices": [3, 50, 399]}),
    "LoRA on the embeddings": Kind({"target_modules": ["q_proj", "embed_tokens"]}),
    "LoRA on embeddings that are not tied": Kind({"target_modules": ["q_proj", "embed_tokens"]}, base="llama-untied"),
    "biases": Kind({"target_modules": QKV, "bias": "all"}, base="qwen2"),
    "biases of LoRA": Kind({"target_modules": QKV, "lora_bias": True}, base="qwen2"),
    "experts": Kind(
        {"target_modules": ["q_proj"], "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]},
        base="qwen3-moe",
    ),
    "PiSSA": Kind({"target_modules": QKV, "init_lora_weights": "pissa"}),
    "OLoRA": Kind({"target_modules": QKV, "init_lora_weights": "olora"}),
    "a resized vocabulary": Kind({"target_modules": QKV}, prepare=add_token),
    "a resized vocabulary, not tied": Kind({"target_modules": QKV}, base="llama-untied", prepare=add_token),
    "IA3": Kind({"target_modules": ["k_proj", "down_proj"], "feedforward_modules": ["down_proj"]}, config=IA3Config),
}


def trained(kind: Kind, base: Path, folder: Path, seed: int = 1) -> PeftModel:
    """Write an adapter as it is after training, every weight of it moved, with its tokenizer; return the model."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    torch.manual_seed(seed)
    kind.prepare(model, tokenizer)
    options = {"r": 4, "lora_alpha": 8} | kind.options if kind.config is LoraConfig else kind.options
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # PEFT warns of tied embeddings, resized ones and biases
        peft = get_peft_model(model, kind.config(task_type="CAUSAL_LM", **options))
        for parameter in peft.parameters():
            if parameter.requires_grad:
                parameter += torch.randn_like(parameter) * 0.1
        peft.save_pretrained(str(folder))
    tokenizer.save_pretrained(folder)
    return peft.eval()


def gap(peft: torch.nn.Module, chain: Path, stage: str) -> float:
    """Return the largest difference of a logit of the chain's stage from PEFT's own, on a question and a new token."""
    loaded = load_chain(chain, "float32")
    question = loaded.rows(loaded.messages("Which way does the liver go?"), (stage,), Sampling())[0].prompt
    ids = torch.tensor([[*question, *loaded.tokenizer(NEW)["input_ids"], 3, 50]])
    with torch.inference_mode(), loaded.stack.rows([loaded.adapters_of_stage[stage]]):
        return float((peft(input_ids=ids).logits - loaded.stack.model(input_ids=ids).logits).abs().max())


QUICK = ("rsLoRA with rank and alpha patterns", "DoRA", "a whole module", "a resized vocabulary")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in KINDS]
)
def test_an_adapter_of_any_kind_answers_as_peft_s_own_model_does(name, bases, tmp_path):
    kind = KINDS[name]
    peft = trained(kind, bases[kind.base], tmp_path / "theirs")
    chain, found = import_chain(str(bases[kind.base]), [str(tmp_path / "theirs")], tmp_path / "runs")
    told = {(each.subject, each.check): each for each in found}
    stage = "theirs" if kind.is_stacked else "base"
    assert [each.name for each in chain.manifest.stages] == ["theirs"] * kind.is_stacked
    assert gap(peft, chain.folder, stage) < 1e-4
    assert all(each.is_ok for each in check_chain(chain.folder))
    assert (("theirs", "merged") in told) is not kind.is_stacked
    if kind.prepare is add_token:
        assert "embeddings saved whole, as PEFT does when they were resized" in told["theirs", "merged"].detail
        taken = f"1 more token ({NEW!r}), where {kind.base} has others: it is that of theirs-base"
        assert taken in told["theirs", "tokenizer"].detail
    else:
        assert "reads text as that of" in told["theirs", "tokenizer"].detail
    assert (
        told["theirs", "adapter"].is_ok if kind.is_stacked else "cannot be stacked" in told["theirs", "merged"].detail
    )


def test_what_cannot_be_stacked_is_merged_with_all_before_it_and_later_plain_adapters_stand_on_top(bases, tmp_path):
    base, where = bases["llama"], tmp_path / "runs"
    first = tiny_adapter(base, tmp_path / "first", targets=QKV)
    trained(KINDS["DoRA"], base, tmp_path / "second")
    third = tiny_adapter(base, tmp_path / "third", seed=3, targets=("up_proj",))
    chain, found = import_chain(
        str(base), [str(first), str(tmp_path / "second"), str(third)], where, "mine", "Be short."
    )
    assert [each.name for each in chain.manifest.stages] == ["third"]
    merged = chain.manifest.base.merged
    assert merged is not None and chain.manifest.base.source == "mine-base"
    assert [(each.name, each.what) for each in merged.adapters] == [("first", ""), ("second", "DoRA (use_dora)")]
    assert merged.base.weights_sha256 == find_base(str(base)).weights_sha256 and merged.gap < 1e-4
    told = {(each.subject, each.check): each for each in found}
    assert told["third", "base"].is_ok and "within" in told["base", "merged"].detail
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    for folder in (first, tmp_path / "second"):
        model = PeftModel.from_pretrained(model, folder).merge_and_unload()
    assert gap(model, chain.folder, "base") < 1e-4
    assert gap(PeftModel.from_pretrained(model, third), chain.folder, "third") < 1e-4
    shown = CliRunner().invoke(app, ["chain", "show", str(chain.folder), "--json"])
    assert json.loads(shown.stdout)["base"]["merged"]["adapters"][1]["name"] == "second"
    moved = shutil.copytree(chain.folder, tmp_path / "far" / "away")
    assert all(each.is_ok for each in check_chain(moved)), "the folder holds all that the chain needs"


def test_a_stage_is_trained_on_a_merged_base_and_keeps_what_that_was_merged_from(bases, tmp_path):
    trained(KINDS["DoRA"], bases["llama"], tmp_path / "theirs")
    chain, _ = import_chain(str(bases["llama"]), [str(tmp_path / "theirs")], tmp_path / "runs")
    values = {**SFT, "base": str(chain.folder / "theirs-base"), "chain": str(chain.folder), "max_steps": 1}
    run = train("sft", settings_file(tmp_path, {**values, "output": str(tmp_path / "sft")}))
    loaded = load_chain(run.path, "float32")
    assert loaded.stages == ("base", "sft") and loaded.manifest.base.merged == chain.manifest.base.merged


def test_weights_that_the_base_s_own_type_cannot_hold_stay_in_float32_where_rounding_them_is_seen(bases, tmp_path):
    rounded = AutoModelForCausalLM.from_pretrained(bases["llama"], dtype=torch.bfloat16)
    rounded.save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(bases["llama"]).save_pretrained(tmp_path / "model")
    peft = trained(KINDS["DoRA"], tmp_path / "model", tmp_path / "theirs")
    chain, _ = import_chain(str(tmp_path / "model"), [str(tmp_path / "theirs")], tmp_path / "runs")
    assert gap(peft, chain.folder, "base") < 1e-4
    merged = chain.manifest.base.merged
    assert merged is not None and merged.dtype == "bfloat16, what it cannot hold in float32"
    own = chain.folder / "theirs-base"
    weights = load_file(own / "model.safetensors")
    assert weights["model.embed_tokens.weight"].dtype == torch.bfloat16
    assert weights["model.layers.0.self_attn.q_proj.weight"].dtype == torch.float32
    assert AutoModelForCausalLM.from_pretrained(own, dtype="auto").dtype == torch.bfloat16


def test_an_adapter_of_experts_by_the_names_of_older_versions_is_merged_as_what_it_adds(bases, tmp_path):
    base, folder, whole = (
        bases["qwen3-moe"],
        tmp_path / "theirs",
        shutil.copytree(bases["qwen3-moe"], tmp_path / "whole"),
    )
    weights, adapter = load_file(base / "model.safetensors"), {}
    for name in [each for each in weights if ".experts." in each]:
        outputs, inputs = weights[name].shape
        down, up = torch.randn(4, inputs) * 0.1, torch.randn(outputs, 4) * 0.1
        layer = f"base_model.model.{name.removesuffix('.weight')}"
        adapter |= {f"{layer}.lora_A.weight": down, f"{layer}.lora_B.weight": up}
        weights[name] += 2 * up @ down
    save_file(weights, whole / "model.safetensors", metadata={"format": "pt"})
    folder.mkdir()
    save_file(adapter, folder / WEIGHTS_NAME, metadata={"format": "pt"})
    kinds = ["gate_proj", "up_proj", "down_proj"]
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "target_modules": kinds}
    (folder / CONFIG_NAME).write_text(json.dumps({**settings, "base_model_name_or_path": str(base)}))
    chain, _ = import_chain(str(base), [str(folder)], tmp_path / "runs")
    expected = AutoModelForCausalLM.from_pretrained(whole, dtype=torch.float32)
    assert gap(expected, chain.folder, "base") < 1e-4
    assert gap(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), chain.folder, "base") > 1e-2


def test_an_adapter_made_on_a_folder_with_one_that_must_be_merged_stands_on_the_merged_base(bases, tmp_path):
    dora = trained(KINDS["DoRA"], bases["llama"], tmp_path / "dora")
    dora.merge_and_unload().save_pretrained(tmp_path / "both")
    AutoTokenizer.from_pretrained(bases["llama"]).save_pretrained(tmp_path / "both")
    second = tiny_adapter(tmp_path / "both", tmp_path / "second", seed=4, targets=("o_proj",))
    chain, found = import_chain(str(bases["llama"]), [str(tmp_path / "dora"), str(second)], tmp_path / "runs")
    assert [each.name for each in chain.manifest.stages] == ["second"]
    merged, told = chain.manifest.base.merged, next(each for each in found if each.subject == "second")
    assert merged is not None and merged.adapters[0].name == "dora" and told.is_ok


def merged_folder(
    base: Path, adapters: Sequence[Path], both: Path, dtype: torch.dtype = torch.float32, **how: Any
) -> Path:
    """Return the folder that PEFT makes of base and adapters, merged one after the other."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    for each in adapters:
        model = PeftModel.from_pretrained(model, each).merge_and_unload(safe_merge=how.get("safe_merge", False))
    model.to(how.get("cast", dtype)).save_pretrained(both, max_shard_size=how.get("max_shard_size", "5GB"))
    AutoTokenizer.from_pretrained(base).save_pretrained(both)
    return both


MERGED: dict[str, tuple[str, torch.dtype, int, dict[str, Any]]] = {
    "in float32": ("llama", torch.float32, 1, {}),
    "in bfloat16": ("llama", torch.bfloat16, 1, {}),
    "in float16, not tied": ("llama-untied", torch.float16, 1, {}),
    "in bfloat16, safely": ("llama", torch.bfloat16, 1, {"safe_merge": True}),
    "in float32, written in bfloat16": ("llama-untied", torch.float32, 1, {"cast": torch.bfloat16}),
    "two in bfloat16, one after the other": ("llama", torch.bfloat16, 2, {}),
    "two in float32, in several files": ("llama", torch.float32, 2, {"max_shard_size": "100KB"}),
}


@pytest.mark.parametrize("how", MERGED)
def test_an_adapter_made_on_a_merged_folder_is_stacked_on_what_that_folder_is_the_sum_of(how, bases, tmp_path):
    name, dtype, count, options = MERGED[how]
    base, names = bases[name], ["first", "other"][:count]
    for seed, (each, strength) in enumerate(zip(names, (0.2, 0.002), strict=False)):
        tiny_adapter(base, tmp_path / each, seed=seed, targets=QKV, strength=strength)
    both = merged_folder(base, [tmp_path / each for each in names], tmp_path / "both", dtype, **options)
    second = tiny_adapter(both, tmp_path / "second", seed=4, targets=("o_proj",))
    adapters = [str(tmp_path / each) for each in names]
    chain, found = import_chain(str(base), [*adapters, str(second)], tmp_path / "runs")
    assert [each.name for each in chain.manifest.stages] == [*names, "second"] and not chain.manifest.base.merged
    told = next(each for each in found if (each.subject, each.check) == ("second", "base"))
    assert told.is_ok and f"which is {' + '.join([name, *names])}: weights the same to" in told.detail


WEAK = 0.0005
"""Of a standard deviation of lora_B: what is added is less than bfloat16 rounds a sum by."""


@pytest.mark.parametrize("merged", ["another weak adapter", "none", "a weak one more"])
def test_a_folder_in_bfloat16_without_a_weak_adapter_or_with_another_is_not_taken_for_the_sum(merged, bases, tmp_path):
    for seed, name in enumerate(("first", "other")):
        tiny_adapter(bases["llama"], tmp_path / name, seed=seed, targets=QKV, strength=WEAK)
    held = {"another weak adapter": ["other"], "none": [], "a weak one more": ["first", "other"]}[merged]
    both = merged_folder(bases["llama"], [tmp_path / each for each in held], tmp_path / "both", torch.bfloat16)
    second = tiny_adapter(both, tmp_path / "second", seed=4, targets=("o_proj",))
    chain, _ = import_chain(str(bases["llama"]), [str(tmp_path / "first"), str(second)], tmp_path / "runs")
    assert [each.name for each in chain.manifest.stages] == ["second"]


def test_a_merged_folder_that_is_another_sum_becomes_the_base_itself(bases, tmp_path):
    tiny_adapter(bases["llama"], tmp_path / "first", targets=QKV)
    both = merged_folder(bases["llama"], [tmp_path / "first"], tmp_path / "both")
    other = tiny_adapter(bases["llama"], tmp_path / "other", seed=9, targets=QKV)
    second = tiny_adapter(both, tmp_path / "second", seed=4, targets=("o_proj",))
    chain, found = import_chain(str(bases["llama"]), [str(other), str(second)], tmp_path / "runs")
    assert [each.name for each in chain.manifest.stages] == ["second"]
    assert chain.manifest.base.weights_sha256 == find_base(str(both)).weights_sha256
    told = next(each for each in found if (each.subject, each.check) == ("second", "base"))
    assert not told.is_ok and "is not llama + other: that folder is the base, without the stages before" in told.detail


def test_a_full_model_in_the_place_of_an_adapter_is_the_base_of_what_comes_after_it(bases, tmp_path):
    tiny_adapter(bases["llama"], tmp_path / "first", targets=QKV)
    both = merged_folder(bases["llama"], [tmp_path / "first"], tmp_path / "both")
    second = tiny_adapter(both, tmp_path / "second", seed=4, targets=("o_proj",))
    chain, found = import_chain(str(bases["llama"]), [f"sft={both}", str(second)], tmp_path / "runs")
    assert [each.name for each in chain.manifest.stages] == ["second"]
    assert gap(AutoModelForCausalLM.from_pretrained(both, dtype=torch.float32), chain.folder, "base") < 1e-4
    assert "a full model" in next(each.detail for each in found if each.check == "full model")
    alone, _ = import_chain(str(bases["llama"]), [str(both)], tmp_path / "runs")
    assert not alone.manifest.stages and load_chain(alone.folder, "float32").stages == ("base",)
    with pytest.raises(ChainMismatch, match="a full model of the type 'qwen2'"):
        import_chain(str(bases["llama"]), [str(bases["qwen2"])], tmp_path / "runs")


def test_an_adapter_is_found_in_a_subfolder_and_in_the_last_checkpoint_and_it_is_said_which_was_taken(bases, tmp_path):
    for number in (20, 100, 9):
        tiny_adapter(bases["llama"], tmp_path / "run" / f"checkpoint-{number}", seed=number, targets=QKV)
    tiny_adapter(bases["llama"], tmp_path / "repo" / "lora", seed=2, targets=("o_proj",))
    chain, found = import_chain(str(bases["llama"]), [str(tmp_path / "run"), str(tmp_path / "repo")], tmp_path / "runs")
    assert [each.name for each in chain.manifest.stages] == ["run", "repo"]
    said = [each.detail for each in found if each.check == "folder"]
    assert said[0].startswith("checkpoint-100 was taken, the last of 3 in run") and said[1].startswith("lora of repo")
    taken = chain.adapter_folder(chain.manifest.stages[0]) / WEIGHTS_NAME
    assert taken.read_bytes() == (tmp_path / "run" / "checkpoint-100" / WEIGHTS_NAME).read_bytes()
    tiny_adapter(bases["llama"], tmp_path / "repo" / "more", targets=("o_proj",))
    with pytest.raises(BadConfig, match="holds lora, more, each an adapter or a model; name one of them"):
        import_chain(str(bases["llama"]), [str(tmp_path / "repo")], tmp_path / "runs", "again")


def prompt_tuned(bases: dict[str, Path], place: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(bases["llama"], dtype=torch.float32)
    get_peft_model(model, PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)).save_pretrained(str(place))


def changed(kind: Kind, change: Callable[[Path], None]) -> Callable[[dict[str, Path], Path], None]:
    def make(bases: dict[str, Path], place: Path) -> None:
        trained(kind, bases["llama"], place)
        change(place)

    return make


def edit(**values: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        file = folder / CONFIG_NAME
        file.write_text(json.dumps(json.loads(file.read_text()) | values))

    return change


def without(*parts: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        found = load_file(folder / WEIGHTS_NAME).items()
        kept = {name: each for name, each in found if not any(part in name for part in parts)}
        save_file(kept, folder / WEIGHTS_NAME, metadata={"format": "pt"})

    return change


def infinite(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS_NAME)
    weights[next(iter(weights))][0] = float("nan")
    save_file(weights, folder / WEIGHTS_NAME, metadata={"format": "pt"})


def pickled(folder: Path) -> None:
    (folder / WEIGHTS_NAME).rename(folder / "adapter_model.bin")


DORA = KINDS["DoRA"]
REFUSED = {
    "prompt tuning": (prompt_tuned, ChainMismatch, "holds a prompt, not weights"),
    "a part that is missing": (changed(DORA, without("magnitude")), ChainMismatch, "do not belong together"),
    "rows of new tokens that were not saved": (
        changed(Kind(DORA.options, prepare=add_token), without("embed_tokens", "lm_head")),
        ChainMismatch,
        r"401 tokens, .* embeddings for 400: .*save_embedding_layers",
    ),
    "numbers that are none": (changed(DORA, infinite), ChainMismatch, "infinities or numbers that are none"),
    "activated LoRA": (
        changed(Kind({"target_modules": QKV}), edit(alora_invocation_tokens=[3, 4])),
        ChainMismatch,
        "neither stacked exactly nor merged",
    ),
    "a draw": (
        changed(Kind({"target_modules": QKV, "init_lora_weights": "pissa_niter_1"}), edit()),
        ChainMismatch,
        "loaded twice, its log-probabilities are",
    ),
    "another task": (changed(DORA, edit(task_type="SEQ_CLS")), ChainMismatch, "was trained for SEQ_CLS"),
    "a pickle": (changed(DORA, pickled), MissingModel, "a pickle"),
    "a rank that is not the file's": (
        changed(Kind({"target_modules": QKV}), edit(r=8)),
        ChainMismatch,
        "matrices of rank 4 .* says 8",
    ),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_cannot_even_be_merged_is_refused_and_leaves_nothing(how, bases, tmp_path):
    make, error, words = REFUSED[how]
    make(bases, tmp_path / "theirs")
    with pytest.raises(error, match=words):
        import_chain(str(bases["llama"]), [str(tmp_path / "theirs")], tmp_path / "runs")
    assert not [*(tmp_path / "runs").glob("*")]


def test_an_adapter_that_must_be_merged_is_not_merged_into_quantised_weights(bases, tmp_path):
    trained(DORA, bases["llama"], tmp_path / "theirs")
    base = shutil.copytree(bases["llama"], tmp_path / "quantised")
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "gptq", "bits": 4}}))
    with pytest.raises(BadConfig, match=r"are quantised \(gptq\)"):
        import_chain(str(base), [str(tmp_path / "theirs")], tmp_path / "runs")
    assert not [*(tmp_path / "runs").glob("*")]
