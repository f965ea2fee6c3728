"""Models small enough for any test: a random Llama, a byte-level tokenizer, strong random adapters.

They are real files that the real loaders read; only their answers mean nothing.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from training.models.base import find_base, load_model, load_tokenizer
from training.models.manifest import Chain
from training.models.start import Mode, NewStage, append_stage

SYSTEM_PROMPT = "Answer in one sentence."
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 400
CONTEXT = 2048
ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CORPUS = (
    "In the soleus of mice kept in hindlimb unloading the muscle atrophies and thousands of genes"
    " change. The liver keeps its oxidative phosphorylation up while the thymus shows it down.",
    "Which direction does the pathway take in the tissue? It goes up. It goes down. Confidence: 80%",
    "The data cannot answer this question, because humans were not studied. Confidence: 10%",
)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer that can write any text, with a ChatML template."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS * 4, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<|endoftext|>",
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def tiny_llama(tokenizer: PreTrainedTokenizerFast, seed: int = 0, **changes: object) -> LlamaForCausalLM:
    """Return a random Llama (64 wide, 2 layers) for a tokenizer; `changes` go to its configuration."""
    settings: dict[str, object] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": True,
        "initializer_range": 0.1,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(LlamaConfig(**settings | changes))


def tiny_base(folder: Path, seed: int = 0, layers: int = 2, context: int = CONTEXT) -> Path:
    """Write a random Llama and its tokenizer to `folder` and return it."""
    tokenizer = tiny_tokenizer()
    model = tiny_llama(tokenizer, seed, num_hidden_layers=layers, max_position_embeddings=context)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tiny_adapter(
    base: Path,
    folder: Path,
    *,
    seed: int = 1,
    rank: int = 4,
    targets: Sequence[str] = ALL_LINEAR,
    strength: float = 0.2,
    **options: object,
) -> Path:
    """Write a PEFT LoRA adapter with a strong random effect to `folder` and return it.

    `strength` is the standard deviation of lora_B (0 = an adapter that changes nothing);
    `options` go to LoraConfig.
    """
    settings = {"lora_alpha": 2 * rank, "task_type": "CAUSAL_LM", **options}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM.from_pretrained(base, dtype=torch.float32)
        adapted = get_peft_model(model, LoraConfig(r=rank, target_modules=list(targets), **settings))
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.data.normal_(0.0, strength)
    adapted.save_pretrained(folder)
    return folder


def tiny_stage(
    run: Path, base: Path, before: Chain | None = None, prompt: str = SYSTEM_PROMPT, mode: Mode = "stack", **lora: Any
) -> Chain:
    """Write the run of a stage with a tiny adapter, after the stages of `before`; return the chain up to it."""
    stage = NewStage(run.name, run.name, tiny_adapter(base, run / "adapter", **lora), mode)
    return append_stage(run, stage, find_base(str(base)), before, None if before else prompt)


def tiny_chain(folder: Path, *, ranks: Mapping[str, int] = {"sft": 4, "grpo": 2}, base: Path | None = None) -> Path:
    """Write a run per stage, of these ranks, under `folder`, and a base unless told; return the last run's folder."""
    source, chain = base or tiny_base(folder / "model"), None
    for seed, (name, rank) in enumerate(ranks.items(), start=1):
        chain = tiny_stage(folder / name, source, chain, seed=seed, rank=rank)
    assert chain
    return chain.folder


@contextmanager
def broken_at_third_pass(model: LlamaForCausalLM) -> Iterator[None]:
    """Let the first layer raise "a layer broke" at its third pass inside the block."""
    passes = []

    def broken(*_: object) -> None:
        passes.append(1)
        if len(passes) == 3:
            raise RuntimeError("a layer broke")

    hook = model.model.layers[0].register_forward_hook(broken)
    yield
    hook.remove()


def embedded_cache() -> Path:
    """Return the folder where tests keep the unpacked embedded model; kept from run to run."""
    return Path(tempfile.gettempdir()) / f"assay-embedded-{os.getuid()}"


def load_base(base, dtype="bfloat16"):
    """Return a base's model, in evaluation mode on the CPU, and its tokenizer."""
    return load_model(base, dtype), load_tokenizer(base)
