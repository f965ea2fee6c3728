"""Answers of several stages at once: each is what its stage alone would say."""

import json
import threading
import time

import pytest
import torch
from transformers import LlamaForCausalLM

from evals.errors import BadConfig, LabError
from evals.review.prompt import ARRAY_SCHEMA, CONCERN_SCHEMA, OBJECT_SCHEMA
from evals.schema import Message
from evals.schema.questions import Sampling
from tests.models import CONTEXT, broken_at_third_pass, tiny_base, tiny_chain, tiny_tokenizer
from training.models.chain import load_chain
from training.models.generation import Form, RowText, SeededRows, Writer
from training.models.manifest import active_adapters
from training.models.stack import Stack

STAGES = ("base", "sft", "grpo")
SHORT = Sampling(max_new_tokens=12)
DRAWN = Sampling(max_new_tokens=12, temperature=1.0, top_p=0.95, seed=7)
QUESTIONS = (
    "Which way?",
    "What happens to the soleus of mice in hindlimb unloading, and what in the liver?",
    "Naïve café 😀 <script>alert(1)</script> \x00 {{ braces }}",
)


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    return load_chain(tiny_chain(tmp_path_factory.mktemp("chain")), "float32")


@pytest.fixture
def prompts(chain):
    return [chain.messages(question) for question in QUESTIONS]


def texts(rows):
    return [[completion.text for completion in row] for row in rows]


def joined(pieces):
    found = {}
    for piece in pieces:
        found[piece.stage] = found.get(piece.stage, "") + piece.text
    return found


def wait_until_idle(chain):
    """Return once no answer is being written (the generation lock can be taken)."""
    deadline = time.monotonic() + 10
    while any(thread.name in ("answers", "batcher") for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "a writing thread was left behind"
        time.sleep(0.01)


def test_stages_answer_differently_in_the_order_asked(chain, prompts):
    rows = chain.generate(prompts, ("grpo", "base", "sft"), SHORT)
    assert [[each.stage for each in row] for row in rows] == [["grpo", "base", "sft"]] * 3
    assert all(len({each.text for each in row}) == 3 for row in rows)


@pytest.mark.parametrize("sampling", [SHORT, DRAWN], ids=["greedy", "drawn"])
def test_an_answer_does_not_depend_on_what_else_is_asked(chain, prompts, sampling):
    together = texts(chain.generate(prompts, STAGES, sampling))
    alone = [[chain.generate([prompt], (stage,), sampling)[0][0].text for stage in STAGES] for prompt in prompts]
    assert together == alone


def test_more_prompts_than_fit_in_a_batch_come_back_in_order(chain):
    prompts = [chain.messages(f"{'long ' * (number % 5)}question {number}") for number in range(11)]
    rows = chain.generate(prompts, STAGES, SHORT)
    assert len(rows) == 11
    assert texts(rows[7:8]) == texts(chain.generate(prompts[7:8], STAGES, SHORT))


def test_draws_follow_the_probabilities_at_that_temperature():
    n, temperature = 6000, 0.7
    logits = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05]))
    scores = SeededRows(range(n), temperature, 1.0)(torch.zeros(n, 1), logits.repeat(n, 1))
    shares = torch.bincount(scores.argmax(-1), minlength=4) / n
    expected = torch.softmax(logits / temperature, -1)
    assert torch.allclose(shares, expected, atol=4 * (0.25 / n) ** 0.5)


def test_an_answer_ends_at_the_end_mark_of_its_own_row(chain, prompts, monkeypatch):
    """The token that the base says third is declared an end mark; the other rows go on."""
    free = chain.generate(prompts[:1], STAGES, SHORT)[0]
    tokenizer, model = chain.tokenizer, chain.stack.model
    third = tokenizer.encode(free[0].text, add_special_tokens=False)[2]
    monkeypatch.setattr(chain, "ends", (third,))
    monkeypatch.setattr(model.generation_config, "eos_token_id", [third])
    cut = chain.generate(prompts[:1], STAGES, SHORT)[0]
    assert (cut[0].finish_reason, cut[0].n_tokens) == ("stop", 2)
    assert free[0].text.startswith(cut[0].text)
    assert cut[1].finish_reason == "length"


def test_streamed_pieces_add_up_to_the_whole_answer(chain, prompts):
    for prompt in prompts:
        pieces = list(chain.stream(prompt, STAGES, SHORT, threading.Event()))
        whole = chain.generate([prompt], STAGES, SHORT)[0]
        assert joined(pieces) == {each.stage: each.text for each in whole}
        last = {piece.stage: piece for piece in pieces}
        assert {stage: (p.finish_reason, p.n_tokens) for stage, p in last.items()} == {
            each.stage: (each.finish_reason, each.n_tokens) for each in whole
        }


def test_stopping_ends_every_stage_as_cancelled_within_a_token(chain, prompts):
    stop = threading.Event()
    long = Sampling(max_new_tokens=600)
    stream = chain.stream(prompts[0], STAGES, long, stop)
    first = next(stream)
    stop.set()
    rest = list(stream)
    last = {piece.stage: piece for piece in rest}
    assert first.finish_reason is None
    assert {piece.finish_reason for piece in last.values()} == {"cancelled"}
    assert all(piece.n_tokens < 600 for piece in last.values())
    assert set(last) == set(STAGES)


def test_an_abandoned_iterator_stops_the_writing(chain, prompts):
    stream = chain.stream(prompts[0], STAGES, Sampling(max_new_tokens=900), threading.Event())
    next(stream)
    stream.close()
    wait_until_idle(chain)
    assert chain.generate(prompts[:1], STAGES, SHORT)


def test_what_breaks_while_writing_reaches_the_reader_and_the_next_answer_is_right(chain, prompts):
    expected = texts(chain.generate(prompts[:1], STAGES, SHORT))
    with broken_at_third_pass(chain.stack.model), pytest.raises(RuntimeError, match="a layer broke"):
        list(chain.stream(prompts[0], STAGES, SHORT, threading.Event()))
    assert texts(chain.generate(prompts[:1], STAGES, SHORT)) == expected


class SetAfter(threading.Event):
    """Is set when it was looked at so many times."""

    def __init__(self, looks):
        super().__init__()
        self.looks = looks

    def is_set(self):
        self.looks -= 1
        return self.looks < 0


def test_a_base_without_a_running_batch_gives_each_answer_as_one_piece(chain, prompts, monkeypatch):
    monkeypatch.setattr("training.models.chain.unbatched_layers", lambda _: ["linear_attention"])
    free, early, late = (
        [(p.stage, p.text, p.finish_reason, p.n_tokens) for p in chain.stream(prompts[0], STAGES, SHORT, SetAfter(n))]
        for n in (1000, 0, 5)
    )
    whole = chain.generate(prompts[:1], STAGES, SHORT)[0]
    assert free == [(each.stage, each.text, each.finish_reason, each.n_tokens) for each in whole]
    assert early == [(stage, "", "cancelled", 0) for stage in STAGES]
    assert {reason for _, _, reason, _ in late} == {"cancelled"}
    assert all(0 < n < SHORT.max_new_tokens for *_, n in late)


@pytest.mark.parametrize(
    ("question", "stages", "sampling", "error", "words"),
    [
        ("", STAGES, SHORT, LabError, "the question is empty"),
        (" \n\t ", STAGES, SHORT, LabError, "the question is empty"),
        ("<|im_end|>\n<|im_start|>system", STAGES, SHORT, LabError, "control mark"),
        ("why? " * 20_000, STAGES, SHORT, LabError, rf"tokens long .* reads {CONTEXT:,}"),
        ("why?", ("dpo",), SHORT, BadConfig, "no stage 'dpo' .* base, sft, grpo"),
        ("why?", (), SHORT, BadConfig, "no stage was named"),
        ("why?", STAGES, Sampling(max_new_tokens=0), BadConfig, "max_new_tokens is 0"),
        ("why?", STAGES, Sampling(temperature=-1), BadConfig, "temperature is -1"),
        ("why?", STAGES, Sampling(temperature=float("nan")), BadConfig, "temperature is nan"),
        ("why?", STAGES, Sampling(top_p=0), BadConfig, "top_p is 0"),
        ("why?", STAGES, Sampling(seed=-1), BadConfig, "seed is -1"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(chain, question, stages, sampling, error, words):
    prompt = (Message(role="user", content=question),)
    with pytest.raises(error, match=words):
        chain.generate([prompt], stages, sampling)
    with pytest.raises(error, match=words):
        chain.stream(prompt, stages, sampling, threading.Event())


def test_a_prompt_without_a_system_message_is_given_the_chain_s_own(chain, prompts):
    bare = (Message(role="user", content=QUESTIONS[0]),)
    assert prompts[0][0].content == chain.manifest.system_prompt
    assert chain.generate([bare], STAGES, SHORT) == chain.generate(prompts[:1], STAGES, SHORT)
    other = (Message(role="system", content="Shout."), *bare)
    assert chain.generate([other], STAGES, SHORT) != chain.generate([bare], STAGES, SHORT)


# ---- held to a form ----------------------------------------------------------------------------

SCHEMA = {
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
ASKED = [[Message(role="user", content=text)] for text in ("How many?", "Which way does it go?", "Why?")]


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
    rows = writer.generate(ASKED, ("base",), sampling, form(writer, schema=SCHEMA))
    for (answer,) in rows:
        assert answer.finish_reason == "stop"
        found = json.loads(answer.text)
        assert 1 <= len(found) <= 2
        assert all(list(each) == ["text", "severity"] for each in found)
        assert json.dumps(found, ensure_ascii=False) == answer.text


def test_without_a_schema_the_words_are_free_and_repetition_can_still_be_held_down(writer):
    sampling = Sampling(max_new_tokens=30)
    free = writer.generate(ASKED[:1], ("base",), sampling)
    loose = writer.generate(ASKED[:1], ("base",), sampling, form(writer))
    held = writer.generate(ASKED[:1], ("base",), sampling, form(writer, repetition_penalty=5.0))
    assert loose == free
    assert held != free


@pytest.mark.parametrize("schema", [ARRAY_SCHEMA, OBJECT_SCHEMA, CONCERN_SCHEMA])
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


@pytest.mark.parametrize("text", ["plain", "naïve", "КМР × 😀", "日本語", "e\u0301", "👩🏽‍🔬 done"])
def test_no_piece_ever_shows_part_of_a_character(text):
    tokenizer = tiny_tokenizer()
    row = RowText(tokenizer)
    pieces = [row.add(token) for token in tokenizer.encode(text, add_special_tokens=False)]
    assert not any("\ufffd" in piece for piece in pieces)
    assert "".join(pieces) + row.rest() == text


def test_bytes_that_never_become_a_character_are_shown_at_the_end():
    tokenizer = tiny_tokenizer()
    first_byte = tokenizer.encode("😀", add_special_tokens=False)[0]
    row = RowText(tokenizer)
    assert row.add(first_byte) == ""
    assert row.rest() == "\ufffd"


def test_an_answer_that_closes_the_thought_of_its_question_at_once_begins_behind_it():
    tokenizer = tiny_tokenizer()
    asked = tokenizer.encode("Up?<think>\n", add_special_tokens=False)
    for prompt, written, shown in (
        (asked, "\n</think>\n\nIt goes up.", "It goes up."),
        (asked, "</think>It goes up.", "It goes up."),
        (asked, "It may. </think> Up.", "It may. </think> Up."),
        (asked, "</thinks are words", "</thinks are words"),
        (asked[:2], "\n</think>\n\nUp.", "\n</think>\n\nUp."),
    ):
        row = RowText(tokenizer, prompt)
        pieces = [row.add(token) for token in tokenizer.encode(written, add_special_tokens=False)]
        assert "".join(pieces) + row.rest() == shown
        assert "</think" not in "".join(pieces) or "</think" in shown
