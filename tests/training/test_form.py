import json

import pytest
import torch
from transformers import LlamaForCausalLM

from evals.errors import BadConfig
from evals.model import Sampling
from evals.review.prompt import array_schema, concern_schema, object_schema
from evals.schema import Message
from tests.models import tiny_base, tiny_tokenizer
from tests.training.runs import one_thread
from training.models.generation import Form, Writer
from training.models.manifest import active_adapters
from training.models.stack import Stack

__all__ = ["one_thread"]

SHORT = {
    "type": "array",
    "minItems": 1,
    "maxItems": 2,
    "items": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "maxLength": 5},
            "severity": {"enum": ["major", "minor"]},
        },
        "required": ["text", "severity"],
        "additionalProperties": False,
    },
}
PROMPTS = [[Message(role="user", content=text)] for text in ("How many?", "Which way does it go?", "Why?")]


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Writer:
    folder = tiny_base(tmp_path_factory.mktemp("form"))
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return Writer(Stack(model, {}), tiny_tokenizer(), active_adapters(()))


def form(writer: Writer, **options: object) -> Form:
    return Form(writer.tokenizer, writer.ends, **options)


@pytest.mark.parametrize("temperature", [0.0, 3.0])
def test_even_a_random_model_writes_json_of_the_schema_in_every_row(writer, temperature: float):
    sampling = Sampling(max_new_tokens=300, temperature=temperature)
    rows = writer.write(PROMPTS, ("base",), sampling, form(writer, schema=SHORT))
    for (answer,) in rows:
        assert answer.finish_reason == "stop"
        found = json.loads(answer.text)
        assert 1 <= len(found) <= 2
        assert all(list(each) == ["text", "severity"] for each in found)
        assert json.dumps(found, ensure_ascii=False) == answer.text


def test_the_same_seed_gives_the_same_held_answer_alone_and_in_a_batch(writer):
    sampling = Sampling(max_new_tokens=60, temperature=1.0, seed=3)
    held = form(writer, schema=SHORT, repetition_penalty=1.05)
    together = writer.write(PROMPTS, ("base",), sampling, held)
    assert writer.write(PROMPTS[1:2], ("base",), sampling, held) == together[1:2]


def test_without_a_schema_the_words_are_free_and_repetition_can_still_be_held_down(writer):
    sampling = Sampling(max_new_tokens=30)
    free = writer.write(PROMPTS[:1], ("base",), sampling)
    loose = writer.write(PROMPTS[:1], ("base",), sampling, form(writer))
    held = writer.write(PROMPTS[:1], ("base",), sampling, form(writer, repetition_penalty=5.0))
    assert loose == free
    assert held != free


@pytest.mark.parametrize("schema", [array_schema(), object_schema(), concern_schema()])
def test_the_schemas_of_a_reply_are_ones_that_answers_can_be_held_to(writer, schema):
    assert form(writer, schema=schema).processors(2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"schema": {"type": "nothing"}}, "cannot be held to this schema"),
        ({"repetition_penalty": 0.0}, "from 0.1 to 10"),
    ],
)
def test_a_form_that_cannot_be_is_refused(writer, options, said):
    with pytest.raises(BadConfig, match=said):
        form(writer, **options)
