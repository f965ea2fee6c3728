"""A merged model as one GGUF file, for llama.cpp and what is built on it: Llama shapes, written with the `gguf` package.

Another architecture, or a tokenizer that llama.cpp cannot be told of by name, is refused with llama.cpp's own commands.
"""

import json
from pathlib import Path
from typing import Any

import gguf
from gguf import quants
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from evals.errors import BadConfig

QUANTS = {
    "f32": (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    "f16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "bf16": (gguf.GGMLQuantizationType.BF16, gguf.LlamaFileType.MOSTLY_BF16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
    "q4_0": (gguf.GGMLQuantizationType.Q4_0, gguf.LlamaFileType.MOSTLY_Q4_0),
}
"""What this package can quantise; K-quants take llama.cpp's `llama-quantize`."""
SPLITTERS = {("ByteLevel",): "gpt-2", ("Digits", "ByteLevel"): "smollm"}
"""llama.cpp's name for how a byte-level BPE tokenizer splits text, by the tokenizer's own steps."""
REMEDY = (
    " Export it with --merged and run llama.cpp's own: `python convert_hf_to_gguf.py FOLDER --outfile model.gguf`, then"
    " `llama-quantize model.gguf small.gguf Q4_K_M`."
)


def refuse_other_than_llama(config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, quant: str) -> None:
    """Raise BadConfig for a model that is no plain Llama, a tokenizer that cannot be told of, or an unknown `quant`."""
    if quant not in QUANTS:
        raise BadConfig(f"quant {quant!r} is not written here; choose one of {', '.join(QUANTS)}.{REMEDY}")
    is_scaled = config.model_type == "llama" and config.rope_parameters["rope_type"] != "default"
    if config.model_type != "llama" or is_scaled or config.attention_bias or config.mlp_bias:
        kind = f"{'a Llama with scaled positions or biases' if config.model_type == 'llama' else config.model_type}"
        raise BadConfig(f"a model of the kind {kind} is not written as GGUF here.{REMEDY}")
    rules = json.loads(tokenizer.backend_tokenizer.to_str()) if tokenizer.is_fast else {"model": {}}
    if rules["model"].get("type") != "BPE" or _steps(rules) not in SPLITTERS or rules["normalizer"]:
        raise BadConfig(f"a tokenizer with the steps {', '.join(_steps(rules))} is not written as GGUF here.{REMEDY}")


def write_gguf(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, file: Path, quant: str) -> None:
    """Write a merged model in float32 that was not refused; vectors stay float32."""
    config = model.config
    writer = gguf.GGUFWriter(file, "llama")
    kind, file_type = QUANTS[quant]
    writer.add_name(str(model.name_or_path))
    writer.add_file_type(file_type)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    _add_tokenizer(writer, tokenizer, config.vocab_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.float().numpy()
        if heads := {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(
            name.split(".")[-2]
        ):
            # llama.cpp turns neighbouring pairs where transformers turns halves
            values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        kept = gguf.GGMLQuantizationType.F32 if values.ndim == 1 else kind
        known = names.get_name(name, try_suffixes=(".weight",))
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
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(SPLITTERS[_steps(rules)])
    writer.add_token_list([words.get(number, f"[PAD{number}]") for number in range(size)])
    of_added = {True: gguf.TokenType.CONTROL, False: gguf.TokenType.USER_DEFINED}
    kinds = {number: of_added[added[number]] if number in added else gguf.TokenType.NORMAL for number in words}
    writer.add_token_types([kinds.get(number, gguf.TokenType.UNUSED) for number in range(size)])
    writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in rules["model"]["merges"]])
    for mark in ("bos", "eos", "unk", "pad"):
        if (number := getattr(tokenizer, f"{mark}_token_id")) is not None:
            getattr(writer, f"add_{mark}_token_id")(number)
    writer.add_add_bos_token(False)
    writer.add_chat_template(tokenizer.get_chat_template())


def _steps(rules: dict[str, Any]) -> tuple[str, ...]:
    splitter: dict[str, Any] = rules.get("pre_tokenizer") or {"type": "none"}
    return tuple(each["type"] for each in splitter.get("pretokenizers", [splitter]))
