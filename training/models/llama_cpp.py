"""A merged model as one GGUF file for llama.cpp and what is built on it: Llama, Mistral and Qwen, written with `gguf`.

Another architecture, or a tokenizer that llama.cpp cannot be told of by name, is refused with llama.cpp's own commands.
"""

import json
import re
import tempfile
from ctypes import byref
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
from gguf import quants
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from evals.errors import BadConfig, LabError

QUANTS = {
    "f32": (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    "f16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "bf16": (gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
    "q4_0": (gguf.GGMLQuantizationType.Q4_0, gguf.LlamaFileType.MOSTLY_Q4_0),
}
"""What the `gguf` package can quantise."""
K_QUANTS = ("q2_k", "q3_k_s", "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k")
"""What llama.cpp makes of the f32 file, where the llama-cpp-python package is installed."""
WHEEL = "llama_cpp"
ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mistral": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
}
"""llama.cpp's architecture of each kind of model."""
BYTE = re.compile("<0x[0-9A-F]{2}>")
TIKTOKEN = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
TOKENIZERS: dict[tuple[str, ...], tuple[str, str]] = {
    ("ByteLevel",): ("gpt2", "gpt-2"),
    ("Digits", "ByteLevel"): ("gpt2", "smollm"),
    ("NFC", TIKTOKEN % r"\p{N}", "ByteLevel"): ("gpt2", "qwen2"),
    (TIKTOKEN % r"\p{N}{1,3}", "ByteLevel", "whole words first"): ("gpt2", "llama-bpe"),
    ("Prepend", "Replace", "none", "bytes for the unknown"): ("llama", "default"),
}
"""llama.cpp's names of a tokenizer and of how it splits text, by its steps; llama.cpp leaves NFC to the caller.

"llama" is SentencePiece with a space before every stretch of text, as Llama 2 and Mistral up to 0.2 have it.
"""
REMEDY = (
    " Export it with --merged and run llama.cpp's own: `python convert_hf_to_gguf.py FOLDER --outfile model.gguf`, then"
    " `llama-quantize model.gguf small.gguf Q4_K_M`."
)


def refuse_unwritten(config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, quant: str) -> None:
    """Raise BadConfig for a model or tokenizer that llama.cpp would compute otherwise, or for an unknown `quant`."""
    if quant not in (*QUANTS, *K_QUANTS):
        raise BadConfig(f"quant {quant!r} is not known; choose one of {', '.join((*QUANTS, *K_QUANTS))}.")
    if quant in K_QUANTS and find_spec(WHEEL) is None:
        raise BadConfig(f"quant {quant!r} takes llama.cpp itself: `pip install llama-cpp-python`.{REMEDY}")
    if config.model_type not in ARCHITECTURES:
        kinds = ", ".join(ARCHITECTURES)
        raise BadConfig(f"a model of the kind {config.model_type} is not written as GGUF here, but {kinds}.{REMEDY}")
    window = getattr(config, "sliding_window", None) or config.max_position_embeddings
    unwritten = {
        "scaled positions": config.rope_parameters["rope_type"] != "default",
        "biases": getattr(config, "attention_bias", False) or getattr(config, "mlp_bias", False),
        f"attention to the last {window} places alone": window < config.max_position_embeddings,
        f"the activation {config.hidden_act}": config.hidden_act != "silu",
    }
    if found := [name for name, is_there in unwritten.items() if is_there]:
        raise BadConfig(f"{config.model_type} with {' and '.join(found)} is not written as GGUF here.{REMEDY}")
    rules = json.loads(tokenizer.backend_tokenizer.to_str()) if tokenizer.is_fast else {"model": {}}
    if rules["model"].get("type") != "BPE" or _steps(rules) not in TOKENIZERS:
        raise BadConfig(f"a tokenizer with the steps {', '.join(_steps(rules))} is not written as GGUF here.{REMEDY}")
    if TOKENIZERS[_steps(rules)][0] == "llama":  # it merges whatever makes a word
        known = set(rules["model"]["vocab"]) - {each["content"] for each in rules["added_tokens"]}
        halves = {(word[:cut], word[cut:]) for word in known for cut in range(1, len(word))}
        if not {pair for pair in halves if known.issuperset(pair)}.issubset(_merges(rules)):
            raise BadConfig(f"a SentencePiece tokenizer that leaves out merges is not written as GGUF here.{REMEDY}")


def write_gguf(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, file: Path, quant: str) -> None:
    """Write a merged model in float32 that was not refused; vectors stay float32."""
    if quant in K_QUANTS:
        llama: Any = import_module(WHEEL)
        told = llama.llama_model_quantize_default_params()
        told.ftype = gguf.LlamaFileType[f"MOSTLY_{quant.upper()}"]
        with tempfile.TemporaryDirectory(dir=file.parent) as place:
            write_gguf(model, tokenizer, plain := Path(place) / file.name, "f32")
            if code := llama.llama_model_quantize(bytes(plain), bytes(file), byref(told)):
                raise LabError(f"llama.cpp could not quantise to {quant} (code {code}); what it printed says why.")
        return
    config = model.config
    architecture = ARCHITECTURES[config.model_type]
    writer = gguf.GGUFWriter(file, gguf.MODEL_ARCH_NAMES[architecture])
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    kind, file_type = QUANTS[quant]
    writer.add_name(str(model.name_or_path))
    writer.add_file_type(file_type)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    _add_tokenizer(writer, tokenizer, config.vocab_size)
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.float().numpy()
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
        if heads and architecture is gguf.MODEL_ARCH.LLAMA:
            # here llama.cpp turns neighbouring pairs where transformers turns halves
            values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        kept = gguf.GGMLQuantizationType.F32 if values.ndim == 1 else kind
        known = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert known is not None
        writer.add_tensor(known, quants.quantize(values, kept), raw_dtype=kept)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: PreTrainedTokenizerBase, size: int) -> None:
    rules = json.loads(tokenizer.backend_tokenizer.to_str())
    added = {each["id"]: each["special"] for each in rules["added_tokens"]}
    words = {number: word for word, number in tokenizer.get_vocab().items()}
    kind, splitter = TOKENIZERS[_steps(rules)]
    writer.add_tokenizer_model(kind)
    writer.add_tokenizer_pre(splitter)
    writer.add_token_list([words.get(number, f"[PAD{number}]") for number in range(size)])
    of_added = {True: gguf.TokenType.CONTROL, False: gguf.TokenType.USER_DEFINED}
    kinds = {
        number: gguf.TokenType.BYTE if BYTE.fullmatch(word) and kind == "llama" else gguf.TokenType.NORMAL
        for number, word in words.items()
    } | {number: of_added[is_special] for number, is_special in added.items()}
    writer.add_token_types([kinds.get(number, gguf.TokenType.UNUSED) for number in range(size)])
    if kind == "llama":  # its merges go by the score of what they make
        ranks = {"".join(pair): -float(rank) for rank, pair in reversed(list(enumerate(_merges(rules))))}
        writer.add_token_scores([ranks.get(words.get(number, ""), 0.0) for number in range(size)])
    else:
        writer.add_token_merges([" ".join(pair) for pair in _merges(rules)])
    for mark in ("bos", "eos", "unk", "pad"):
        if (number := getattr(tokenizer, f"{mark}_token_id")) is not None:
            getattr(writer, f"add_{mark}_token_id")(number)
    writer.add_add_bos_token(tokenizer.bos_token_id in tokenizer("")["input_ids"])
    writer.add_chat_template(tokenizer.get_chat_template())


def _merges(rules: dict[str, Any]) -> list[tuple[str, ...]]:
    return [tuple(each.split(" ") if isinstance(each, str) else each) for each in rules["model"]["merges"]]


def _steps(rules: dict[str, Any]) -> tuple[str, ...]:
    """Return what a fast tokenizer does to text before its merges, splits by their pattern."""
    normalizer: dict[str, Any] = rules.get("normalizer") or {"normalizers": []}
    splitter: dict[str, Any] = rules.get("pre_tokenizer") or {"type": "none"}
    steps = [*normalizer.get("normalizers", [normalizer]), *splitter.get("pretokenizers", [splitter])]
    names = [each.get("pattern", {}).get("Regex", each["type"]) for each in steps]
    marks = {
        "with a space in front": "add_prefix_space",
        "whole words first": "ignore_merges",
        "bytes for the unknown": "byte_fallback",
    }
    options = [each for each, name in marks.items() if any(step.get(name) for step in (*steps, rules["model"]))]
    return (*names, *options)
