"""Adapters of every kind that PEFT writes become a chain: stacked, or merged into a base of its own; their tokenizers."""

import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import IA3Config, LoraConfig, PeftModel, PromptTuningConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer
from typer.testing import CliRunner

from evals.errors import BadConfig, ChainMismatch, MissingModel
from evals.questions import SYSTEM_PROMPT
from evals.schema.questions import Sampling
from lab.cli import app
from tests.models import TEMPLATE, VOCABULARY, tiny_adapter, tiny_base, tiny_llama, tiny_tokenizer
from tests.training.cases import cases, quick_or_slow
from tests.training.runs import SFT, settings_file, train
from training.launch.plan import plan_of
from training.launch.preview import preview
from training.models.adapters import CONFIG_NAME, WEIGHTS_NAME
from training.models.base import find_base
from training.models.chain import check_chain, load_chain
from training.models.imported import import_chain

NEW = "<|direction|>"
TABLE = cases("imported")
KINDS = TABLE["kinds"]
QKV = ["q_proj", "v_proj"]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small bases: a Llama with tied embeddings, one without, and of other families."""
    folder = tmp_path_factory.mktemp("bases")
    tokenizer = tiny_tokenizer()
    made = {"llama": tiny_base(folder / "llama", seed=21)}
    for name, changes in TABLE["bases"].items():
        torch.manual_seed(5)
        ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
        config = AutoConfig.for_model(**changes, vocab_size=len(tokenizer), initializer_range=0.1, **ends)
        AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
        made[name] = folder / name
    return made


def trained(kind: Mapping[str, Any], base: Path, folder: Path) -> PeftModel:
    """Write an adapter as it is after training, every weight of it moved, with its tokenizer; return the model."""
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    torch.manual_seed(1)
    if kind.get("grown"):
        tokenizer.add_special_tokens({"additional_special_tokens": [NEW]})
        model.resize_token_embeddings(len(tokenizer))
    lora = {} if kind.get("type") else {"r": 4, "lora_alpha": 8}
    config = IA3Config if kind.get("type") == "IA3" else LoraConfig
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # PEFT warns of tied embeddings, resized ones and biases
        peft = get_peft_model(model, config(task_type="CAUSAL_LM", **lora, **kind["options"]))
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


@pytest.mark.parametrize("name", quick_or_slow(KINDS, QUICK))
def test_an_adapter_of_any_kind_answers_as_peft_s_own_model_does(name, bases, tmp_path):
    kind, base = KINDS[name], KINDS[name].get("base", "llama")
    is_stacked = kind.get("stacked", False)
    peft = trained(kind, bases[base], tmp_path / "theirs")
    chain, found = import_chain(str(bases[base]), [str(tmp_path / "theirs")], tmp_path / "runs")
    told = {(each.subject, each.check): each for each in found}
    stage = "theirs" if is_stacked else "base"
    assert [each.name for each in chain.manifest.stages] == ["theirs"] * is_stacked
    assert gap(peft, chain.folder, stage) < 1e-4
    assert all(each.is_ok for each in check_chain(chain.folder))
    assert (("theirs", "merged") in told) is not is_stacked
    if kind.get("grown"):
        assert "embeddings saved whole, as PEFT does when they were resized" in told["theirs", "merged"].detail
        taken = f"1 more token ({NEW!r}), where {base} has others: it is that of theirs-base"
        assert taken in told["theirs", "tokenizer"].detail
    else:
        assert "reads text as that of" in told["theirs", "tokenizer"].detail
    assert told["theirs", "adapter"].is_ok if is_stacked else "cannot be stacked" in told["theirs", "merged"].detail


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
    "in float16, not tied": ("llama-untied", torch.float16, 1, {}),
    "in float32, written in bfloat16": ("llama-untied", torch.float32, 1, {"cast": torch.bfloat16}),
    "in bfloat16, safely": ("llama", torch.bfloat16, 1, {"safe_merge": True}),
    "two in bfloat16, one after the other": ("llama", torch.bfloat16, 2, {}),
    "two in float32, in several files": ("llama", torch.float32, 2, {"max_shard_size": "100KB"}),
}


@pytest.mark.parametrize("how", quick_or_slow(MERGED, ("in float16, not tied", "two in bfloat16, one after the other")))
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


@pytest.mark.parametrize("merged", quick_or_slow(["another weak adapter", "none", "a weak one more"], ("none",)))
def test_a_folder_in_bfloat16_without_a_weak_adapter_or_with_another_is_not_taken_for_the_sum(merged, bases, tmp_path):
    for seed, name in enumerate(("first", "other")):
        tiny_adapter(bases["llama"], tmp_path / name, seed=seed, targets=QKV, strength=WEAK)
    held = {"another weak adapter": ["other"], "none": [], "a weak one more": ["first", "other"]}[merged]
    both = merged_folder(bases["llama"], [tmp_path / each for each in held], tmp_path / "both", torch.bfloat16)
    second = tiny_adapter(both, tmp_path / "second", seed=4, targets=("o_proj",))
    chain, found = import_chain(str(bases["llama"]), [str(tmp_path / "first"), str(second)], tmp_path / "runs")
    assert [each.name for each in chain.manifest.stages] == ["second"]
    assert chain.manifest.base.weights_sha256 == find_base(str(both)).weights_sha256
    told = next(each for each in found if (each.subject, each.check) == ("second", "base"))
    assert not told.is_ok and "is not llama + first: that folder is the base, without the stages before" in told.detail


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


# ---- plain adapters, stacked --------------------------------------------------------------------

TURNS = [{"role": "user", "content": "Which way does the liver go?"}, {"role": "assistant", "content": "It goes up."}]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    edit(base_model_name_or_path="org/base")(folder / "second")
    return folder


def test_each_stage_computes_what_plain_peft_does_is_asked_as_it_was_trained_and_says_what_could_be_checked(plain):
    adapters = [str(plain / "trl"), f"dpo={plain / 'second'}"]
    made, found = import_chain(str(plain / "model"), adapters, plain / "runs", "both")
    said = {(each.subject, each.check): (each.is_ok, each.detail) for each in found}
    assert said["trl", "base"][0] and "has weights" in said["trl", "base"][1]
    assert not said["dpo", "base"][0] and "names org/base" in said["dpo", "base"][1]
    assert "rank 3 on q_proj, up_proj" in said["dpo", "adapter"][1]
    assert not said["chain", "provenance"][0]
    chain = load_chain(made.folder, "float32")
    assert (chain.stages, made.folder) == (("base", "trl", "dpo"), plain / "runs" / "both")
    tokens = AutoTokenizer.from_pretrained(plain / "model")
    asked = tokens.apply_chat_template(TURNS[:1], add_generation_prompt=True, return_dict=True)["input_ids"]
    row = chain.rows(chain.messages(TURNS[0]["content"]), ("trl",), Sampling())[0]
    assert list(row.prompt) == asked, "no system message, because none was told"
    base = AutoModelForCausalLM.from_pretrained(plain / "model", dtype=torch.float32).eval()
    assert gap(base, made.folder, "trl") > 1e-2
    first = PeftModel.from_pretrained(base, plain / "trl")
    assert gap(first, made.folder, "trl") < 1e-4
    second = PeftModel.from_pretrained(first.merge_and_unload(), plain / "second")
    assert gap(second, made.folder, "dpo") < 1e-4
    assert all(each.is_ok for each in check_chain(made.folder))


# ---- refused --------------------------------------------------------------------------------------


def prompt_tuned(bases: dict[str, Path], place: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(bases["llama"], dtype=torch.float32)
    get_peft_model(model, PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)).save_pretrained(str(place))


def changed(kind: Mapping[str, Any], change: Callable[[Path], object]) -> Callable[[dict[str, Path], Path], None]:
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
    "other weights": (
        lambda bases, place: tiny_adapter(tiny_base(place / "base", seed=7), place),
        ChainMismatch,
        "was trained on .*base .* has others",
    ),
    "no folder": (lambda bases, place: None, MissingModel, "check its name and where it is"),
    "prompt tuning": (prompt_tuned, ChainMismatch, "holds a prompt, not weights"),
    "a part that is missing": (changed(DORA, without("magnitude")), ChainMismatch, "do not belong together"),
    "rows of new tokens that were not saved": (
        changed({**DORA, "grown": True}, without("embed_tokens", "lm_head")),
        ChainMismatch,
        r"401 tokens, .* embeddings for 400: .*save_embedding_layers",
    ),
    "numbers that are none": (changed(DORA, infinite), ChainMismatch, "infinities or numbers that are none"),
    "a draw": (
        changed({"options": {"target_modules": QKV, "init_lora_weights": "pissa_niter_1"}}, edit()),
        ChainMismatch,
        "loaded twice, its log-probabilities are",
    ),
    "another task": (changed(DORA, edit(task_type="SEQ_CLS")), ChainMismatch, "was trained for SEQ_CLS"),
    "a pickle": (changed(DORA, pickled), MissingModel, "a pickle"),
}


QUICK_REFUSALS = ("other weights", "no folder", "prompt tuning", "a part that is missing", "a draw", "a pickle")


@pytest.mark.parametrize("how", quick_or_slow(REFUSED, QUICK_REFUSALS))
def test_what_cannot_even_be_merged_is_refused_and_leaves_nothing(how, bases, tmp_path):
    make, error, words = REFUSED[how]
    make(bases, tmp_path / "theirs")
    with pytest.raises(error, match=words):
        import_chain(str(bases["llama"]), [str(tmp_path / "theirs")], tmp_path / "runs")
    assert not [*(tmp_path / "runs").glob("*")]


def test_settings_that_no_chain_can_have_are_refused_and_leave_nothing(bases, tmp_path):
    trained({"options": {"target_modules": QKV}}, bases["llama"], tmp_path / "theirs")
    file = tmp_path / "theirs" / CONFIG_NAME
    plain = json.loads(file.read_text())
    for change, words in TABLE["refused"]:
        file.write_text(change if isinstance(change, str) else json.dumps(plain | change))
        with pytest.raises(ChainMismatch, match=words):
            import_chain(str(bases["llama"]), [str(tmp_path / "theirs")], tmp_path / "runs")
        assert not [*(tmp_path / "runs").glob("*")], words


# ---- an adapter's own tokenizer and chat template ----------------------------------------------------


QUESTION = "Which way does the liver go?"
OTHER = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '<|im_end|>\n' }}{% endfor %}assistant: "
Tokenizer = PreTrainedTokenizerFast


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base with more embeddings than tokens, the same without a chat template, and a plain adapter."""
    folder = tmp_path_factory.mktemp("tokenizers")
    model, tokenizer = tiny_llama(tiny_tokenizer(), 31, vocab_size=VOCABULARY + 8), tiny_tokenizer()
    for name, template in (("base", TEMPLATE), ("bare", None)):
        tokenizer.chat_template = template
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    tiny_adapter(folder / "base", folder / "adapter", targets=("q_proj", "v_proj"))
    return folder


def saved(change: Callable[[Tokenizer], object] = lambda _: None, into: str = ".") -> Callable[[Path], None]:
    """Write the base's tokenizer, changed, as a trainer would."""

    def write(adapter: Path) -> None:
        tokenizer = tiny_tokenizer()
        change(tokenizer)
        tokenizer.save_pretrained(adapter / into)

    return write


def template(text: str | dict[str, str] | None) -> Callable[[Tokenizer], object]:
    return lambda tokenizer: setattr(tokenizer, "chat_template", text)


def files(**contents: object) -> Callable[[Path], None]:
    """Write single files beside the adapter: text, or a document as JSON."""

    def write(adapter: Path) -> None:
        for name, content in contents.items():
            kind, text = ("jinja", content) if isinstance(content, str) else ("json", json.dumps(content))
            (adapter / f"{name}.{kind}").write_text(text)

    return write


def in_its_configuration(adapter: Path) -> None:
    """Put the template where transformers kept it until version 4.51."""
    saved(template(None))(adapter)
    file = adapter / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": OTHER}))


def of_another_model(adapter: Path) -> None:
    file = adapter / "tokenizer.json"
    saved()(adapter)
    read = json.loads(file.read_text())
    names = list(read["model"]["vocab"])
    read["model"]["vocab"] = dict(zip(names, reversed(range(len(names))), strict=True))
    file.write_text(json.dumps(read))


def broken(adapter: Path) -> None:
    saved()(adapter)
    (adapter / "tokenizer.json").write_text('{"model": 1}')


@dataclass(frozen=True)
class Case:
    """What lies in the adapter's folder, what import says of it, and whether the chain is asked with it."""

    write: Callable[[Path], None]
    said: str
    is_taken: bool = True
    base: str = "base"


SAME, TEMPLATE_TOLD = "reads text as that of base does", "has another chat template, where base has others"
CASES = {
    "the base's own": Case(saved(), SAME, is_taken=False),
    "a pad token that the model never had": Case(
        saved(lambda each: each.add_special_tokens({"pad_token": f"[PAD{'!' * 9}]"})), SAME, is_taken=False
    ),
    "none": Case(lambda _: None, "none saved with the adapter; that of base is used", is_taken=False),
    "no template": Case(saved(template(None)), "without a chat template, and that of base is used", is_taken=False),
    "another template": Case(saved(template(OTHER)), TEMPLATE_TOLD),
    "a template in tokenizer_config.json": Case(in_its_configuration, TEMPLATE_TOLD),
    "a template alone": Case(files(chat_template=OTHER), TEMPLATE_TOLD),
    "the template of a processor": Case(files(chat_template={"chat_template": OTHER}), TEMPLATE_TOLD),
    "a template beside another for tools": Case(saved(template({"default": OTHER, "tool_use": "x"})), TEMPLATE_TOLD),
    "a template that the base lacks": Case(
        saved(template(OTHER)), "has another chat template, where bare has others", base="bare"
    ),
    "another end token": Case(
        saved(lambda each: setattr(each, "eos_token", "<|endoftext|>")), "has eos_token '<|endoftext|>', where base"
    ),
    "new tokens that the base has embeddings for": Case(
        saved(lambda each: each.add_tokens(["<up>", "<down>"])), "has 2 more tokens ('<up>', '<down>')"
    ),
    "in the folder above": Case(saved(template(OTHER), ".."), TEMPLATE_TOLD),
}


QUICK_CASES = ("the base's own", "no template", "another template", "a template alone", "another end token")
QUICK_CASES += ("new tokens that the base has embeddings for",)


@pytest.mark.parametrize("name", quick_or_slow(CASES, QUICK_CASES))
def test_a_chain_is_asked_as_its_adapter_was_trained_and_import_says_with_which_tokenizer(name, folder, tmp_path):
    case, adapter = CASES[name], tmp_path / "out" / "theirs"
    shutil.copytree(folder / "adapter", adapter)
    case.write(adapter)
    chain, found = import_chain(str(folder / case.base), [str(adapter)], tmp_path / "runs")
    (told,) = (each for each in found if each.check == "tokenizer")
    assert case.said in told.detail, told.detail
    assert chain.manifest.tokenizer == ("tokenizer" if case.is_taken else None)
    assert all(each.is_ok for each in check_chain(chain.folder))
    if case.is_taken:
        loaded = load_chain(chain.folder, "float32")
        place = adapter.parent if name == "in the folder above" else adapter
        theirs = AutoTokenizer.from_pretrained(folder / "base" if "alone" in name or "processor" in name else place)
        written = OTHER if "alone" in name or "processor" in name else theirs.get_chat_template()
        asked = theirs.apply_chat_template(
            [{"role": "user", "content": QUESTION}], chat_template=written, add_generation_prompt=True, return_dict=True
        )["input_ids"]
        rows = loaded.rows(loaded.messages(QUESTION), ("theirs",), Sampling())
        assert list(rows[0].prompt) == asked
        assert loaded.tokenizer.eos_token == theirs.eos_token and theirs.eos_token_id in loaded.ends


REFUSED_TOKENIZERS = {
    "tokens without embeddings": (
        saved(lambda each: each.add_tokens([f"<{number}>" for number in range(20)])),
        r"420 tokens, and base has embeddings for 408: .*save_embedding_layers=True.*move the tokenizer's files away",
    ),
    "a tokenizer of another model": (of_another_model, "is of another model than base: most tokens have other numbers"),
    "a broken one": (broken, "cannot be used .*put a whole one there, or move its files away"),
    "templates without a default": (saved(template({"a": OTHER, "b": OTHER})), "cannot be used .*no default"),
}


@pytest.mark.parametrize("name", REFUSED_TOKENIZERS)
def test_a_tokenizer_that_the_base_cannot_be_asked_with_is_refused_with_the_way_on(name, folder, tmp_path):
    write, words = REFUSED_TOKENIZERS[name]
    shutil.copytree(folder / "adapter", tmp_path / "theirs")
    write(tmp_path / "theirs")
    with pytest.raises(ChainMismatch, match=words):
        import_chain(str(folder / "base"), [str(tmp_path / "theirs")], tmp_path / "runs")
    assert not [*(tmp_path / "runs").glob("*")]


def test_adapters_that_were_saved_with_two_templates_are_no_one_chain(folder, tmp_path):
    for name, text in (("sft", TEMPLATE), ("dpo", OTHER)):
        shutil.copytree(folder / "adapter", tmp_path / name)
        saved(template(text))(tmp_path / name)
    named = [str(tmp_path / "sft"), str(tmp_path / "dpo")]
    with pytest.raises(ChainMismatch, match=r"saved with 'dpo' has another chat template.*import them as two chains"):
        import_chain(str(folder / "base"), named, tmp_path / "runs")


def test_what_is_trained_on_such_a_chain_has_the_same_template(folder, tmp_path):
    shutil.copytree(folder / "adapter", tmp_path / "theirs")
    saved(template(OTHER))(tmp_path / "theirs")
    chain, _ = import_chain(
        str(folder / "base"), [str(tmp_path / "theirs")], tmp_path / "runs", system_prompt=SYSTEM_PROMPT
    )
    values = {**SFT, "base": str(folder / "base"), "chain": str(chain.folder), "output": str(tmp_path / "runs" / "sft")}
    file = settings_file(tmp_path, values)
    (shown, *_) = preview(plan_of("sft", ["--config", str(file)], is_dry=True)).examples
    assert "".join(shown.tokens).startswith("system: Answer")
    run = train("sft", file)
    loaded = load_chain(run.path, "float32")
    assert loaded.manifest.tokenizer == "../theirs/tokenizer" and loaded.stages == ("base", "theirs", "sft")
    assert loaded.tokenizer.get_chat_template() == OTHER
    beside = load_chain("base:" + str(folder / "base"), "float32", beside=[loaded])
    assert beside.stack is not loaded.stack and beside.tokenizer.get_chat_template() == TEMPLATE
