"""Encoders are what their name says, or there is a message that tells how to get them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from evals.errors import MissingModel
from training.encoders import bert_of, find_encoder, pooled_encoder, put_adapter

WIDTH = 16
TINY = BertConfig(
    vocab_size=40,
    hidden_size=WIDTH,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=32,
)
TOKENS = torch.arange(1, 13)[None]


def model() -> BertModel:
    torch.manual_seed(0)
    return BertModel(TINY, add_pooling_layer=False).eval()


def adapter(folder: Path, up: float = 1.0, **settings: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(1)
    weights = {}
    for layer in range(2):
        name = f"bert.encoder.layer.{layer}.output.adapters.[PRX]."
        weights[name + "adapter_down.0.weight"] = torch.randn(4, WIDTH, generator=generator)
        weights[name + "adapter_down.0.bias"] = torch.randn(4, generator=generator)
        weights[name + "adapter_up.weight"] = up * torch.randn(WIDTH, 4, generator=generator)
        weights[name + "adapter_up.bias"] = up * torch.randn(WIDTH, generator=generator)
    torch.save(weights, folder / "pytorch_adapter.bin")
    config = {"config": {"non_linearity": "relu", "reduction_factor": 4, **settings}}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


@torch.inference_mode()
def encoded(of: BertModel) -> torch.Tensor:
    return of(TOKENS).last_hidden_state


@torch.inference_mode()
def test_the_bottleneck_stands_where_its_authors_put_it(tmp_path: Path) -> None:
    of = put_adapter(model(), adapter(tmp_path))
    plain, seen = model(), {}
    base = plain.encoder.layer[0].output
    base.register_forward_pre_hook(lambda _m, given: seen.update(fed=given[0], x=given[1]))
    encoded(plain)
    first = of.encoder.layer[0].output
    h = base.dense(seen["fed"])
    down = torch.relu(base.LayerNorm(h + seen["x"]) @ first.down.weight.T + first.down.bias)
    wanted = base.LayerNorm(down @ first.up.weight.T + first.up.bias + h + seen["x"])
    assert torch.allclose(first(seen["fed"], seen["x"]), wanted, atol=1e-6)
    assert not torch.allclose(encoded(of), encoded(plain), atol=0.1)


@torch.inference_mode()
def test_a_vector_is_the_first_token_or_the_mean_over_the_tokens_of_a_text_whatever_stands_beside_it(tmp_path: Path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "mice", "flew", "and", "grew"]
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(words), encoding="utf-8")
    tokenizer = BertTokenizerFast(str(vocabulary))
    base = model()
    for each in (tokenizer, base):
        each.save_pretrained(tmp_path / "bert")
    texts = ["mice flew", "mice flew and grew and flew", "grew"]
    for mode in ("cls", "mean"):
        found = pooled_encoder("tiny", "1", bert_of(str(tmp_path / "bert")), mode).encode(texts)
        for text, vector in zip(texts, found, strict=True):
            hidden = base(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
            wanted = hidden[0] if mode == "cls" else hidden.mean(dim=0)
            assert np.allclose(vector, wanted / wanted.norm(), atol=1e-5), (mode, text)


def test_an_adapter_that_would_load_wrong_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingModel, match="is no bottleneck for layer 0"):
        put_adapter(model(), adapter(tmp_path, scaling=2.0))
    deeper = BertModel(BertConfig(**{**TINY.to_dict(), "num_hidden_layers": 3}))
    with pytest.raises(MissingModel, match="is no bottleneck for layer 2"):
        put_adapter(deeper, adapter(tmp_path))


def test_a_missing_or_unknown_encoder_is_never_replaced(tmp_path: Path) -> None:
    for name in ("specter2", "specter2-base-mean", "org/model", "org/model@main"):
        with pytest.raises(MissingModel, match=r"hf download (allenai/specter2|org/model)"):
            find_encoder(name)
    for name in ("bert", "no such", ""):
        with pytest.raises(MissingModel, match="specter2-base-mean, embedded"):
            find_encoder(name)
    model().save_pretrained(tmp_path)  # a folder that says nothing of pooling
    with pytest.raises(MissingModel, match=r"modules\.json"):
        find_encoder(str(tmp_path))


@pytest.mark.embedded
def test_the_embedded_encoder_puts_a_paraphrase_nearer_than_another_concern() -> None:
    encoder = find_encoder("embedded")
    texts = [
        "The sample size is too small.",
        "The number of animals in each sample is too small.",
        "Antibody catalogue numbers are missing.",
    ]
    vectors = encoder.encode(texts)
    assert vectors.shape == (3, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2
    assert len(encoder.revision) == 12
