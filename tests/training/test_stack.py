"""Stacked adapters give what merging gives, for any mix of stages; what cannot be stacked exactly is refused by name."""

import copy
import itertools
import json

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2MoeConfig, Qwen2MoeForCausalLM

from evals.errors import ChainMismatch, MissingModel
from tests.models import tiny_adapter, tiny_base
from tests.training.cases import cases
from training.models.adapters import CONFIG_NAME, WEIGHTS_NAME, read_adapter
from training.models.stack import Stack

BASE, SFT, GRPO = frozenset(), frozenset({"sft"}), frozenset({"sft", "grpo"})
ADAPTERS = {
    "same layers, same rank": ({"rank": 4}, {"rank": 4}),
    "different ranks": ({"rank": 8}, {"rank": 3}),
    "different layers": ({"targets": ("q_proj", "v_proj")}, {"targets": ("o_proj", "down_proj")}),
    "one sibling only": ({"targets": ("k_proj",)}, {"targets": ("up_proj",)}),
    "rank-stabilised scale": ({"use_rslora": True, "rank": 8, "strength": 0.1}, {"rank": 2}),
    "some layers of the depth": ({"layers_to_transform": [1]}, {"layers_to_transform": [0]}),
}


def load(folder):
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def merged(base, *adapters):
    """Merge adapters one after another, as PEFT's own documentation does."""
    model = load(base)
    for adapter in adapters:
        model = PeftModel.from_pretrained(model, adapter).merge_and_unload()
    return model


def logits(model, tokens, **inputs):
    with torch.inference_mode():
        return model(input_ids=tokens, **inputs).logits


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stack")
    base = tiny_base(folder / "base")
    return {
        "base": base,
        "sft": tiny_adapter(base, folder / "sft", seed=1, rank=4),
        "grpo": tiny_adapter(base, folder / "grpo", seed=2, rank=2),
    }


@pytest.fixture(scope="module")
def stacked(tiny):
    model = load(tiny["base"])
    return model, Stack(model, {name: read_adapter(tiny[name]) for name in ("sft", "grpo")})


@pytest.mark.parametrize("case", ADAPTERS)
def test_stages_of_a_mixed_batch_equal_the_three_step_merge(case, tiny, tmp_path):
    base = tiny["base"]
    first, second = ADAPTERS[case]
    sft = tiny_adapter(base, tmp_path / "sft", seed=1, **first)
    grpo = tiny_adapter(base, tmp_path / "grpo", seed=2, **second)
    model = load(base)
    stack = Stack(model, {"sft": read_adapter(sft), "grpo": read_adapter(grpo)})
    tokens = torch.randint(3, 400, (1, 17), generator=torch.Generator().manual_seed(0))

    with stack.rows([BASE, SFT, GRPO]):
        found = logits(model, tokens.repeat(3, 1))

    expected = [merged(base), merged(base, sft), merged(base, sft, grpo)]
    reference = torch.cat([logits(each, tokens) for each in expected])
    assert (reference[1] - reference[0]).abs().max() > 0.5, "the adapter must have an effect"
    assert (reference[2] - reference[1]).abs().max() > 0.5, "the adapter must have an effect"
    assert torch.allclose(found, reference, rtol=0, atol=1e-5)


def test_an_exception_in_the_middle_of_a_batch_leaves_nothing_behind(tiny, stacked):
    model, stack = stacked
    tokens = torch.arange(3, 12)[None]

    def broken(*_):
        raise RuntimeError("broken layer")

    hook = model.model.layers[1].mlp.register_forward_hook(broken)
    with pytest.raises(RuntimeError, match="broken layer"), stack.rows([SFT]):
        logits(model, tokens)
    hook.remove()

    assert torch.allclose(logits(model, tokens), logits(load(tiny["base"]), tokens), atol=1e-6)


def test_a_batch_of_another_size_than_announced_is_an_error(stacked):
    model, stack = stacked
    with pytest.raises(ValueError, match="2 rows were given where the stack was told of 1"):  # noqa: SIM117
        with stack.rows([SFT]):
            logits(model, torch.full((2, 4), 5))


def adapted(model, folder, targets, seed=1):
    """Write an adapter of a model that PEFT makes, with a strong random effect, and return its folder."""
    torch.manual_seed(seed)
    options = {"target_modules": targets, "fan_in_fan_out": isinstance(model, GPT2LMHeadModel)}
    policy = get_peft_model(copy.deepcopy(model), LoraConfig(r=4, task_type="CAUSAL_LM", **options))
    for name, weight in policy.named_parameters():
        if "lora_B" in name:
            weight.data.normal_(0.0, 0.3)
    policy.save_pretrained(folder, save_embedding_layers=False)
    return folder


SMALL = {"vocab_size": 400, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48}
FAMILIES = {
    "experts that all tokens share, one after another": (
        lambda: Qwen2MoeForCausalLM(Qwen2MoeConfig(**SMALL, **MOE, num_key_value_heads=2, initializer_range=0.2)),
        r".*(shared_expert\.(gate|up|down)_proj|q_proj)",
    ),
    "transposed layers": (
        lambda: GPT2LMHeadModel(GPT2Config(**SMALL, initializer_range=0.2, bos_token_id=1, eos_token_id=2)),
        ["c_attn", "c_proj", "c_fc"],
    ),
    "the output layer, which is given the last tokens alone": (
        lambda: LlamaForCausalLM(LlamaConfig(**SMALL, intermediate_size=96, initializer_range=0.2)),
        ["q_proj", "lm_head"],
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_token_has_the_adapters_of_its_row_however_a_layer_is_given_the_batch(family, tmp_path):
    make, targets = FAMILIES[family]
    torch.manual_seed(0)
    model = make().eval()
    folders = [adapted(model, tmp_path / name, targets, seed) for seed, name in enumerate(("sft", "grpo"), 1)]
    references = [copy.deepcopy(model)]
    for folder in folders:
        references.append(PeftModel.from_pretrained(copy.deepcopy(references[-1]), folder).merge_and_unload().eval())
    stack = Stack(model, {folder.name: read_adapter(folder) for folder in folders})
    for rows, length in itertools.product((1, 2, 3, 4), (1, 2, 3, 4)):
        tokens = torch.randint(3, 400, (rows, length))
        stages = [(BASE, SFT, GRPO)[(row + length) % 3] for row in range(rows)]
        with stack.rows(stages):
            found = logits(model, tokens, logits_to_keep=1)
        expected = [references[len(stages[row])] for row in range(rows)]
        alone = [logits(each, tokens[row : row + 1], logits_to_keep=1) for row, each in enumerate(expected)]
        torch.testing.assert_close(found, torch.cat(alone), rtol=0, atol=1e-4)
    assert (logits(references[2], tokens) - logits(references[0], tokens)).abs().max() > 0.1


REGROUPED = {
    "some tokens": lambda x: x.reshape(-1, x.shape[-1])[1:],
    "tokens before rows": lambda x: x.transpose(0, 1),
    "one sum of each row": lambda x: x.sum(1),
}


@pytest.mark.parametrize("way", REGROUPED)
def test_a_layer_that_is_given_other_tokens_than_the_batch_is_refused_by_name(tiny, way):
    model = load(tiny["base"])
    stack = Stack(model, {"sft": read_adapter(tiny["sft"])})
    model.model.layers[1].mlp.register_forward_pre_hook(lambda _, given: (REGROUPED[way](given[0]),))
    with pytest.raises(ChainMismatch, match=r"model\.layers\.1\.mlp\.gate_proj .*2 rows of 5 tokens"):  # noqa: SIM117
        with stack.rows([SFT, BASE]):
            logits(model, torch.full((2, 5), 5))


def test_packed_weights_are_called_as_they_are_with_adapters_beside(tiny):
    """A subclass of Linear stands for any layer with a product of its own, as 4-bit ones have."""

    class Packed(torch.nn.Linear):
        def forward(self, inputs):
            return super().forward(inputs)

    model = load(tiny["base"])
    for name, layer in list(model.named_modules()):
        if isinstance(layer, torch.nn.Linear) and name != "lm_head":
            packed = Packed(layer.in_features, layer.out_features, bias=False)
            packed.weight = layer.weight
            model.set_submodule(name, packed)
    stack = Stack(model, {name: read_adapter(tiny[name]) for name in ("sft", "grpo")})

    tokens = torch.arange(3, 12)[None]
    with stack.rows([BASE, GRPO]):
        found = logits(model, tokens.repeat(2, 1))
    chain = merged(tiny["base"], tiny["sft"], tiny["grpo"])
    assert torch.allclose(found[1:], logits(chain, tokens), rtol=0, atol=1e-5)


def test_an_adapter_for_another_model_is_refused_by_name_of_the_layer(tiny, tmp_path):
    deeper = tiny_base(tmp_path / "deeper", layers=3)
    adapter = tiny_adapter(deeper, tmp_path / "adapter")
    with pytest.raises(ChainMismatch, match=r"layers\.2.*no such linear layer.*another base"):
        Stack(load(tiny["base"]), {"sft": read_adapter(adapter)})


# ---- one adapter read from its folder ----------------------------------------------------------


@pytest.fixture
def adapter(tmp_path):
    return tiny_adapter(tiny_base(tmp_path / "base"), tmp_path / "adapter")


def test_what_cannot_be_stacked_is_refused_in_words(adapter):
    config = adapter / CONFIG_NAME
    plain = json.loads(config.read_text())
    for change, words in cases("adapters")["refused"]:
        config.write_text(json.dumps(plain | change))
        with pytest.raises(ChainMismatch, match=words):
            read_adapter(adapter)


def test_a_rank_of_its_own_per_layer_is_read_from_the_matrices(tmp_path):
    base = tiny_base(tmp_path / "base")
    folder = tiny_adapter(base, tmp_path / "adapter", rank=4, rank_pattern={"q_proj": 2})
    pairs = read_adapter(folder).pairs
    assert pairs["model.layers.0.self_attn.q_proj"].down.shape[0] == 2
    assert pairs["model.layers.0.self_attn.v_proj"].down.shape[0] == 4


def test_a_pickled_adapter_is_not_opened(adapter):
    (adapter / WEIGHTS_NAME).rename(adapter / "adapter_model.bin")
    with pytest.raises(MissingModel, match=r"pickle .* which can run code"):
        read_adapter(adapter)


@pytest.mark.parametrize("name", [WEIGHTS_NAME, CONFIG_NAME])
def test_a_missing_file_is_named(adapter, name):
    (adapter / name).unlink()
    with pytest.raises(MissingModel, match=name):
        read_adapter(adapter)


DAMAGES = {
    "half a pair": lambda tensors: tensors.pop(next(name for name in tensors if "lora_B" in name)),
    "not a number": lambda tensors: tensors.update({next(iter(tensors)): torch.full((4, 64), torch.nan)}),
    "experts": lambda tensors: tensors.update(
        {name.replace(".mlp.", ".mlp.experts.0."): tensors.pop(name) for name in list(tensors)}
    ),
    "a whole weight": lambda tensors: tensors.update({"base_model.model.lm_head.weight": torch.ones(2, 2)}),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_or_foreign_tensors_are_refused(adapter, damage):
    tensors = load_file(adapter / WEIGHTS_NAME)
    damage(tensors)
    save_file(tensors, adapter / WEIGHTS_NAME)
    with pytest.raises(
        ChainMismatch, match=r"no sound pair|weights other than lora_A|LoRA on experts|embeddings saved whole"
    ):
        read_adapter(adapter)
