"""An exported stage is a plain folder that others load, and computes what the stack does."""

import json
from pathlib import Path

import gguf
import pytest
import torch
from peft import PeftModel
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedTokenizerFast
from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer

from evals.errors import BadConfig
from evals.model import Sampling
from tests.models import tiny_adapter, tiny_base, tiny_llama, tiny_tokenizer
from training.models.base import find_base
from training.models.chain import LoadedChain, load_chain
from training.models.export import export
from training.models.llama_cpp import refuse_unwritten, write_gguf
from training.models.start import NewStage, append_stage

QUESTION = "Which way does the liver go?"


@pytest.fixture(autouse=True)
def short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of a few tokens: random models never end."""
    monkeypatch.setattr("training.models.export.ANSWER_TOKENS", 12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny chain whose stages adapt other layers at other ranks."""
    folder = tmp_path_factory.mktemp("export")
    source, chain = find_base(str(tiny_base(folder / "model"))), None
    for seed, (name, rank, targets) in enumerate(
        (("sft", 4, ("q_proj", "v_proj")), ("grpo", 3, ("q_proj", "up_proj")))
    ):
        tiny_adapter(source.folder, folder / name / "adapter", seed=seed, rank=rank, targets=targets, strength=0.5)
        stage = NewStage(name, name, folder / name / "adapter")
        chain = append_stage(folder / name, stage, source, chain, None if chain else "Be short.")
    return folder


@pytest.fixture(scope="module")
def chain(folder: Path) -> LoadedChain:
    return load_chain(folder / "grpo", "float32")


def loaded(folder: Path, out: Path, kind: str, dtype: torch.dtype = torch.float32):
    """Load as anybody would, without Assay."""
    if kind == "merged":
        return AutoModelForCausalLM.from_pretrained(out, dtype=dtype)
    if kind == "gguf":
        whole = GgufConfig(dequantize=True)
        return AutoModelForCausalLM.from_pretrained(out, gguf_file="model.gguf", dtype=dtype, quantization_config=whole)
    return PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder / "model", dtype=dtype), out)


@pytest.mark.parametrize("kind", ["merged", "joined-lora", "gguf"])
@pytest.mark.parametrize("stage", ["sft", "grpo"])
def test_other_libraries_load_it_and_compute_what_the_stack_does(folder, chain, tmp_path, kind, stage):
    out = tmp_path / "out"
    told = export(folder / "grpo", out, kind, "f32" if kind == "gguf" else "float32", stage)
    model = loaded(folder, out, kind)
    ids = torch.tensor([chain.rows(chain.messages(QUESTION), (stage,), Sampling())[0].prompt])
    with torch.inference_mode():
        theirs = model(input_ids=ids).logits
        with chain.stack.rows([chain.adapters_of_stage[stage]]):
            ours = chain.stack.model(input_ids=ids).logits
        bare = chain.stack.model(input_ids=ids).logits
    assert (ours - theirs).abs().max() < 1e-4 < (ours - bare).abs().max()
    assert told.difference.largest < 1e-4 and told.difference.top1 == 1.0 and told.difference.n_tokens > 100
    assert told.difference.same_answers > 0.9 and told.difference.accuracy == told.difference.stack_accuracy
    assert told.rank == ({"sft": 4, "grpo": 7}[stage] if kind == "joined-lora" else None)


def test_a_merged_folder_has_the_tokenizer_and_template_that_it_was_trained_with(folder, chain, tmp_path):
    export(folder / "grpo", tmp_path / "out", "merged")
    messages = [each.model_dump() for each in chain.messages(QUESTION)]
    text = AutoTokenizer.from_pretrained(tmp_path / "out").apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
    assert text == chain.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"


def test_what_rounding_changes_is_measured_and_written_beside_it(folder, tmp_path):
    told = {kind: export(folder / "grpo", tmp_path / kind, kind, "bfloat16") for kind in ("merged", "joined-lora")}
    for kind, each in told.items():
        written = json.loads((tmp_path / kind / "export.json").read_text())
        assert (written["stage"], list(written["adapters"]), written["dtype"]) == ("grpo", ["sft", "grpo"], "bfloat16")
        assert written["difference"] == each.difference.model_dump()
        assert 0.9 < each.difference.top1 <= 1 and 0 < each.difference.kl < 0.01 < each.difference.largest


def test_a_gguf_file_has_the_tokenizer_and_says_what_its_quantisation_changes(folder, chain, tmp_path):
    told = {quant: export(folder / "grpo", tmp_path / quant, "gguf", quant) for quant in ("f16", "q8_0", "q4_0")}
    f16, q8, q4 = (each.difference for each in told.values())
    assert f16.kl < q8.kl < q4.kl and f16.top1 > q4.top1
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tmp_path / "q8_0", gguf_file="model.gguf")
    text = "The liver goes up 12 times,\n naïve 😀.<|im_end|>"
    assert tokenizer.encode(text) == chain.tokenizer.encode(text)
    fields = gguf.GGUFReader(tmp_path / "q8_0" / "model.gguf").fields
    assert fields["tokenizer.chat_template"].contents() == chain.tokenizer.get_chat_template()
    assert fields["tokenizer.ggml.token_type"].contents()[:4] == [3, 3, 3, 1]


@pytest.mark.slow
def test_a_k_quant_is_written_by_llama_cpp_where_it_is_installed(folder, tmp_path):
    pytest.importorskip("llama_cpp", reason="pip install llama-cpp-python")
    told = {quant: export(folder / "grpo", tmp_path / quant, "gguf", quant).difference for quant in ("q6_k", "q2_k")}
    assert told["q6_k"].kl < told["q2_k"].kl and told["q6_k"].accuracy is not None


SHAPES = {"mistral": {"head_dim": 32, "sliding_window": None}, "qwen2": {}, "qwen3": {"head_dim": 128}}


def shaped(kind: str, tokenizer: PreTrainedTokenizerFast, **changes: object):
    """A tiny random model of another kind than Llama, its norms and biases random, too."""
    settings = tiny_llama(tokenizer, tie_word_embeddings=False).config.to_dict()
    for name in ("model_type", "head_dim"):
        del settings[name]
    settings |= {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}} | SHAPES.get(kind, {}) | changes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings)).eval()
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("kind", SHAPES)
def test_a_gguf_file_of_another_shape_computes_what_the_model_does(tmp_path, kind):
    tokenizer = tiny_tokenizer()
    model, ids = shaped(kind, tokenizer), torch.tensor([tokenizer.encode(QUESTION)])
    refuse_unwritten(model.config, tokenizer, "f32")
    write_gguf(model, tokenizer, tmp_path / "model.gguf", "f32")
    with torch.inference_mode():
        assert (model(ids).logits - loaded(tmp_path, tmp_path, "gguf")(ids).logits).abs().max() < 1e-4


def test_a_chain_on_a_qwen3_with_small_heads_is_measured_too(tmp_path):
    tokenizer = tiny_tokenizer()
    shaped("qwen3", tokenizer, head_dim=32).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    tiny_adapter(tmp_path / "model", tmp_path / "sft" / "adapter", seed=0, rank=2, targets=("q_proj",), strength=0.5)
    stage = NewStage("sft", "sft", tmp_path / "sft" / "adapter")
    append_stage(tmp_path / "sft", stage, find_base(str(tmp_path / "model")), None, "Be short.")
    assert export(tmp_path / "sft", tmp_path / "out", "gguf", "f32").difference.largest < 1e-4


def test_llama_cpp_is_told_of_the_split_of_qwen_s_own_tokenizer(tmp_path):
    tokenizer = tiny_tokenizer()
    rules = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    qwen = Qwen2Tokenizer(rules["vocab"], [tuple(each) for each in rules["merges"]])
    qwen.chat_template = tokenizer.chat_template
    model = shaped("qwen2", qwen, vocab_size=512)
    refuse_unwritten(model.config, qwen, "f16")
    write_gguf(model, qwen, tmp_path / "model.gguf", "f16")
    fields = gguf.GGUFReader(tmp_path / "model.gguf").fields
    assert fields["tokenizer.ggml.pre"].contents() == "qwen2"


def test_llama_cpp_is_told_of_a_sentencepiece_tokenizer_by_the_scores_of_its_words(tmp_path):
    words = ["<unk>", "<s>", "</s>", *(f"<0x{number:02X}>" for number in range(256)), "▁", "a", "b", "ab", "▁a", "▁ab"]
    merges = [("a", "b"), ("▁", "a"), ("▁", "ab"), ("▁a", "b")]

    def tokenizer(merges: list[tuple[str, str]]) -> PreTrainedTokenizerFast:
        numbers = {word: number for number, word in enumerate(words)}
        backend = Tokenizer(models.BPE(numbers, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        backend.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
        marks = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
        return PreTrainedTokenizerFast(tokenizer_object=backend, chat_template="{{ bos_token }}", **marks)

    model = shaped("mistral", tokenizer(merges))
    refuse_unwritten(model.config, tokenizer(merges), "f32")
    write_gguf(model, tokenizer(merges), tmp_path / "model.gguf", "f32")
    fields = gguf.GGUFReader(tmp_path / "model.gguf").fields
    assert fields["tokenizer.ggml.model"].contents() == "llama" and fields["tokenizer.ggml.add_bos_token"].contents()
    assert fields["tokenizer.ggml.scores"].contents()[-3:] == [0.0, -1.0, -2.0]
    assert fields["tokenizer.ggml.token_type"].contents()[1:5] == [3, 3, 6, 6]
    with pytest.raises(BadConfig, match="leaves out merges"):
        refuse_unwritten(model.config, tokenizer(merges[:-1]), "f32")


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("gemma", {"head_dim": 16}, r"kind gemma is not .* but llama, mistral, qwen2, qwen3\..*convert_hf_to_gguf.py"),
        ("mistral", {"sliding_window": 64}, "attention to the last 64 places alone"),
        ("qwen3", {"attention_bias": True}, "qwen3 with biases"),
        ("qwen2", {"hidden_act": "gelu"}, "the activation gelu"),
        ("qwen2", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}, "scaled positions"),
    ],
)
def test_another_shape_is_refused_with_llama_cpp_s_own_commands(kind, changes, words):
    tokenizer = tiny_tokenizer()
    with pytest.raises(BadConfig, match=words):
        refuse_unwritten(shaped(kind, tokenizer, **changes).config, tokenizer, "f16")


def test_another_quant_or_tokenizer_is_refused_with_llama_cpp_s_own_commands(monkeypatch):
    tokenizer = tiny_tokenizer()
    config = tiny_llama(tokenizer).config
    monkeypatch.setattr("training.models.llama_cpp.find_spec", lambda _: None)
    with pytest.raises(BadConfig, match=r"quant 'q4_k_m' .*llama-cpp-python.*llama-quantize"):
        refuse_unwritten(config, tokenizer, "q4_k_m")
    with pytest.raises(BadConfig, match=r"quant 'q4_9' is not known; .* q4_k_m"):
        refuse_unwritten(config, tokenizer, "q4_9")
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(BadConfig, match="the steps Whitespace"):
        refuse_unwritten(config, tokenizer, "f16")


@pytest.mark.parametrize(
    ("options", "words"),
    [({"stage": "dpo"}, "no stage 'dpo' .* sft, grpo"), ({"stage": "base"}, "no stage"), ({"dtype": "int3"}, "int3")],
)
def test_what_cannot_be_exported_is_refused_and_nothing_is_left_behind(folder, tmp_path, options, words):
    with pytest.raises(BadConfig, match=words):
        export(folder / "grpo", tmp_path / "out", **{"kind": "merged", **options})
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(BadConfig, match="there already"):
        export(folder / "grpo", tmp_path, "merged")
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
