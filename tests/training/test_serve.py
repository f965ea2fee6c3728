"""A chain that answers: alone, in a running batch, as a server for OpenAI's client, beside hosted models."""

import json
import queue
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import openai
import pytest
import torch
import uvicorn
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from evals.confidence import more_confidences
from evals.errors import BadConfig, LabError
from evals.questions import kmp_test, pathway_heldout
from evals.questions.task import Questions
from evals.run import RunSettings, run_task
from evals.schema import Message
from evals.schema.questions import Sampling
from tests.models import broken_at_third_pass, tiny_base, tiny_chain, tiny_tokenizer
from tests.training.cases import cases
from tests.training.judge_server import JudgeServer
from tests.waiting import until
from training.models import batching, stack
from training.models.batching import Batcher, Busy, GenerationRequest
from training.models.chain import LoadedChain, load_chain
from training.models.generation import Form, RowText, SeededRows
from training.serve import OwnHosts
from training.serve.harness import ChainModel
from training.serve.hosted import with_hosted
from training.serve.server import ChainServer

WORDS = ("why", "soleus", "liver goes up", "mice", "the", "naïve 😀")
QUESTION = [{"role": "user", "content": "Which way does the soleus go?"}]
LONG = Sampling(max_new_tokens=700)


class Asked(NamedTuple):
    """A request of lm-evaluation-harness."""

    args: tuple[Any, ...]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> LoadedChain:
    return load_chain(tiny_chain(tmp_path_factory.mktemp("chain")), "float32")


@pytest.fixture(scope="module")
def shared(chain: LoadedChain) -> Iterator[Batcher]:
    with closing(Batcher(chain)) as batcher:
        yield batcher


def asked(
    chain: LoadedChain, question: str = "Which way?", stage: str = "grpo", sampling=LONG, **options
) -> GenerationRequest:
    return GenerationRequest(
        chain.rows(chain.messages(question), (stage,), sampling)[0].prompt, stage, sampling, **options
    )


ENDS_EARLY = """
import sys, time
from evals.schema.questions import Sampling
from training.models.batching import Batcher, GenerationRequest
from training.models.chain import load_chain

chain = load_chain(sys.argv[1], "float32")
chain.ends = (-1,)
sampling = Sampling(max_new_tokens=1500)
row = chain.rows(chain.messages("Which way?"), ("grpo",), sampling)[0]
pieces = []
Batcher(chain).submit(GenerationRequest(row.prompt, "grpo", sampling), pieces.append)
while len(pieces) < 9:
    time.sleep(0.001)
"""


def submitted(batcher: Batcher, request: GenerationRequest):
    """Return the job and an iterator over what is written; it ends with the answer, and raises what broke."""
    found: queue.SimpleQueue = queue.SimpleQueue()
    job = batcher.submit(request, found.put)

    def read():
        while True:
            delta = found.get(timeout=60)
            if isinstance(delta, Exception):
                raise delta
            yield delta
            if delta.finish_reason:
                return

    return job, read()


def whole(deltas) -> tuple[str, int, str]:
    found = list(deltas)
    return "".join(each.text for each in found), found[-1].n_tokens, found[-1].finish_reason


# ---- the batch ---------------------------------------------------------------------------------


def test_sixteen_requests_that_come_and_go_are_each_answered_as_if_alone(chain, shared, monkeypatch):
    """Stages, prompts, lengths, draws and moments of joining differ; prompts begin alike, and are read once, in pieces."""
    monkeypatch.setattr(batching, "SHORT", 64)
    monkeypatch.setattr(batching, "PREFILL_TOKENS", 16)
    luck, requests = random.Random(0), []
    for seed in range(16):
        question = " ".join(luck.choices(WORDS, k=luck.randint(1, 40)))
        sampling = Sampling(luck.randint(1, 40), luck.choice([0.0, 1.0]), luck.choice([1.0, 0.9]), seed)
        requests.append((chain.messages(question), luck.choice(chain.stages), sampling))
    streams = []
    for messages, stage, sampling in requests:
        row = chain.rows(messages, (stage,), sampling)[0]
        streams.append(submitted(shared, GenerationRequest(row.prompt, stage, sampling))[1])
        time.sleep(luck.choice([0, 0.02]))
    alone = [chain.generate([messages], (stage,), sampling)[0][0] for messages, stage, sampling in requests]
    assert [whole(each) for each in streams] == [(each.text, each.n_tokens, each.finish_reason) for each in alone]


def test_a_request_joins_at_the_next_token_and_a_cancelled_one_frees_its_row(chain):
    short = Sampling(max_new_tokens=5)
    with closing(Batcher(chain, max_rows=2, max_waiting=1)) as batcher:
        first, reading = submitted(batcher, asked(chain))
        next(reading)
        assert whole(submitted(batcher, asked(chain, "the mice", sampling=short))[1])[1] == 5
        until(lambda: batcher.load == (1, 0))
        second, _ = submitted(batcher, asked(chain, "mice"))
        until(lambda: batcher.load == (2, 0))
        _, third = submitted(batcher, asked(chain, "why", sampling=short))
        with pytest.raises(Busy, match="1 requests wait already"):
            batcher.submit(asked(chain), print)
        batcher.cancel(second)
        assert whole(third)[1] == 5
        assert next(reading).finish_reason is None
        batcher.cancel(first)
        until(lambda: batcher.load == (0, 0))
    with pytest.raises(Busy, match="stopping"):
        batcher.submit(asked(chain), print)


def test_what_breaks_is_told_to_those_it_took_down_and_the_next_answer_is_right(chain, shared):
    plain, request = (asked(chain, stage=each, sampling=Sampling(max_new_tokens=12)) for each in ("base", "grpo"))
    expected = [whole(submitted(shared, each)[1]) for each in (plain, request)]
    with broken_at_third_pass(chain.stack.model), pytest.raises(RuntimeError, match="a layer broke"):
        list(submitted(shared, request)[1])
    assert [whole(submitted(shared, each)[1]) for each in (plain, request)] == expected
    with pytest.raises(TypeError):  # in line, before it is a row
        list(submitted(shared, GenerationRequest(None, "grpo"))[1])
    assert whole(submitted(shared, request)[1]) == expected[1]


def test_requests_together_never_take_more_of_the_cache_than_they_may(chain):
    one = asked(chain, sampling=Sampling(max_new_tokens=100))
    with closing(Batcher(chain, max_columns=2 * one.length)) as batcher:
        streams = [submitted(batcher, one)[1] for _ in range(5)]
        most = 0
        while batcher.load != (0, 0):
            most = max(most, batcher.load[0])
            time.sleep(0.001)
    assert most == 2 and {whole(each)[1] for each in streams} == {100}


# ---- the server --------------------------------------------------------------------------------


@contextmanager
def serving(
    chain: LoadedChain, keys: Sequence[str] = ("secret",), hosts: OwnHosts | None = None, **limits: int
) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as place:
        app = ChainServer(chain, keys, hosts, **limits).app()
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        yield f"http://127.0.0.1:{place.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def url(chain: LoadedChain) -> Iterator[str]:
    with serving(chain, rows=8, waiting=20, answer_tokens=800) as found:
        yield found


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="secret", max_retries=0) as found:
        yield found


def said(chain: LoadedChain, stage: str = "grpo", length: int = 12) -> str:
    return chain.generate([chain.messages(QUESTION[0]["content"])], (stage,), Sampling(length))[0][0].text


GREEDY = {"messages": QUESTION, "temperature": 0, "max_tokens": 12}


def test_every_stage_is_a_model_that_says_what_the_chain_says(chain, client):
    assert [each.id for each in client.models.list()] == ["base", "sft", "grpo"]
    assert client.models.retrieve("sft").id == "sft"
    for stage in chain.stages:
        answer = client.chat.completions.create(model=f"tiny/{stage}", **GREEDY)
        (choice,), usage = answer.choices, answer.usage
        assert (choice.message.content, choice.finish_reason) == (said(chain, stage), "length")
        assert (usage.completion_tokens, usage.total_tokens) == (12, usage.prompt_tokens + 12)


def test_a_stream_adds_up_to_the_answer_and_ends_with_its_usage(chain, client):
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last = client.chat.completions.create(model="grpo", **GREEDY, **options)
    assert "".join(each.choices[0].delta.content for each in chunks) == said(chain)
    assert [each.choices[0].delta.role for each in chunks][:2] == ["assistant", None]
    assert [each.choices[0].finish_reason for each in chunks][-2:] == [None, "length"]
    assert last.usage.completion_tokens == 12 and not last.choices


def test_a_stop_text_ends_the_answer_before_it_also_where_it_spans_tokens(chain, client):
    text = said(chain, length=40)
    for start in (7, 15):
        stop = text[start : start + 6]
        for stream in (False, True):
            found = client.chat.completions.create(
                model="grpo", **GREEDY | {"max_tokens": 40}, stop=[stop, "never said"], stream=stream
            )
            pieces = [each.choices[0].delta.content for each in found] if stream else [found.choices[0].message.content]
            assert "".join(pieces) == text[: text.index(stop)]
            assert stream or found.choices[0].finish_reason == "stop"


def test_logprobs_are_told_in_openais_shape(chain, client):
    chat = client.chat.completions.create(model="sft", **GREEDY, logprobs=True, top_logprobs=2).choices[0]
    tokens = chat.logprobs.content
    assert len(tokens) == 12 and all(each.logprob == each.top_logprobs[0].logprob for each in tokens)


def test_a_seed_gives_the_same_draw_again_and_n_draws_differ(client):
    drawn = {**GREEDY, "temperature": 1, "n": 3, "seed": 5}
    first, again = (client.chat.completions.create(model="grpo", **drawn) for _ in range(2))
    texts = [each.message.content for each in first.choices]
    assert texts == [each.message.content for each in again.choices] and len(set(texts)) == 3
    assert [each.index for each in first.choices] == [0, 1, 2]
    other = client.chat.completions.create(model="grpo", **drawn | {"seed": None})
    assert texts != [each.message.content for each in other.choices]


def test_an_answer_keeps_to_a_json_schema_beside_others_that_are_free(chain, client):
    schema = {"type": "object", "properties": {"up": {"type": "boolean"}}, "required": ["up"]}
    schema["additionalProperties"] = False
    held = {"type": "json_schema", "json_schema": {"name": "way", "schema": schema}}
    with ThreadPoolExecutor(4) as pool:
        answers = [
            pool.submit(client.chat.completions.create, **GREEDY | {"max_tokens": 40}, model="grpo", **options)
            for options in ({"response_format": held}, {}) * 2
        ]
    first, free, again, _ = (each.result().choices[0].message.content for each in answers)
    assert first == again and set(json.loads(first)) == {"up"}
    assert free == said(chain, length=40)
    anything = {"response_format": {"type": "json_object"}, "max_tokens": 3}
    answer = client.chat.completions.create(**GREEDY | anything, model="grpo").choices[0]
    assert answer.message.content.startswith("{")


def test_a_server_without_keys_answers_under_its_own_names_alone(chain):
    with serving(chain, keys=(), hosts=OwnHosts("127.0.0.1", ["lab.example"])) as url:

        def ask(path: str, host: str) -> int:
            method = "GET" if path in ("health", "v1/models") else "POST"
            return httpx2.request(method, f"{url}/{path}", headers={"Host": host}).status_code

        paths = ("health", "v1/models", "v1/chat/completions")
        assert {ask(path, "evil.example") for path in paths} == {421}
        assert [ask("v1/models", host) for host in ("localhost:1", "lab.example", "[::1]")] == [200, 200, 200]


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_is_killed_frees_its_row(url, stream):
    body = json.dumps({"model": "grpo", "messages": QUESTION, "max_tokens": 800, "stream": stream, "stop": ["¶"]})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: {len(body.encode())}"
    with httpx2.Client(base_url=url) as asker:  # one connection, asked calmly: the server runs in this process too
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
            connection.sendall(f"{head}\r\nContent-Type: application/json\r\n\r\n{body}".encode())
            if stream:
                connection.recv(100)
            until(lambda: asker.get("/health").json()["running"] == 1)
        until(lambda: asker.get("/health").json()["running"] == 0)


def test_what_cannot_be_answered_is_refused_in_openai_s_own_shape(client):
    table = json.loads(json.dumps(cases("serve")["refused"]).replace("<400 whys>", "why " * 400))
    for change, status, code, words in table:
        with pytest.raises(openai.APIStatusError, match=words) as raised:
            client.chat.completions.create(**{"model": "grpo", **GREEDY, **change})
        assert (raised.value.status_code, raised.value.code) == (status, code)


def test_keys_queue_and_other_mistakes_have_their_status(chain, url):
    def post(body: object = {}, path: str = "chat/completions", raw: bytes = b"", **headers: str) -> httpx2.Response:
        given = {"Authorization": "Bearer secret", "Content-Type": "application/json", **headers}
        return httpx2.post(f"{url}/v1/{path}", content=raw or json.dumps(body), headers=given, timeout=60)

    harmless = {"max_tokens": 1, "metadata": {"a": "b"}, "top_k": -1, "repetition_penalty": 1.0}
    half = [{"role": "user", "content": "\ud800"}]
    found = [
        (401, post(Authorization="")),
        (401, post(Authorization="Bearer guess")),
        (415, post(**{"Content-Type": "text/plain"})),  # a form of a web page
        (413, post("x" * 5_000_000)),
        (400, post([])),
        (404, post(path="embeddings")),
        (400, post({"model": "grpo", **GREEDY, "n": 9})),
        (400, post({"model": "grpo", "messages": half})),
        (400, post(raw=b"[" * 100_000)),
        (200, post({"model": "grpo", **GREEDY, **harmless})),
    ]
    assert [reply.status_code for _, reply in found] == [status for status, _ in found]
    told = [reply.json()["error"] for _, reply in found if reply.status_code != 200]
    assert all(set(each) == {"message", "type", "param", "code"} for each in told)
    assert httpx2.get(f"{url}/health").json()["status"] == "ok"
    assert httpx2.get(f"{url}/v1/models").status_code == 401
    asked = {"model": "grpo", **GREEDY, "max_tokens": 100}
    with serving(chain, keys=(), rows=1, waiting=0) as busy, ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: httpx2.post(f"{busy}/v1/chat/completions", json=asked, timeout=60), range(8)))
    refused = [each for each in replies if each.status_code != 200]
    assert 0 < len(refused) < 8
    for reply in refused:
        assert (reply.status_code, reply.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert reply.headers["retry-after"] == "1"


# ---- answers of several stages at once: each is what its stage alone would say -----------------------


STAGES = ("base", "sft", "grpo")
SHORT = Sampling(max_new_tokens=12)
DRAWN = Sampling(max_new_tokens=12, temperature=1.0, top_p=0.95, seed=7)
QUESTIONS = (
    "Which way?",
    "What happens to the soleus of mice in hindlimb unloading, and what in the liver?",
    "Naïve café 😀 <script>alert(1)</script> \x00 {{ braces }}",
)


@pytest.fixture
def prompts(chain):
    return [chain.messages(question) for question in QUESTIONS]


def texts(rows):
    return [[completion.text for completion in row] for row in rows]


@pytest.mark.parametrize("sampling", [SHORT, DRAWN], ids=["greedy", "drawn"])
def test_an_answer_does_not_depend_on_what_else_is_asked_and_more_than_a_batch_come_back_in_order(
    chain, prompts, sampling
):
    others = [chain.messages(f"{'long ' * (number % 5)}question {number}") for number in range(8)]
    together = texts(chain.generate([*others, *prompts], STAGES, sampling))
    alone = [[chain.generate([prompt], (stage,), sampling)[0][0].text for stage in STAGES] for prompt in prompts]
    assert together[8:] == alone
    assert all(len(set(row)) == 3 for row in alone)


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


def test_stopping_ends_every_stage_as_cancelled_within_a_token_and_so_does_leaving(chain, prompts):
    stop = threading.Event()
    long = Sampling(max_new_tokens=600)
    stream = chain.stream(prompts[0], STAGES, long, stop)
    first = next(stream)
    stop.set()
    rest = list(stream)
    last = {piece.stage: piece for piece in rest}
    assert first.finish_reason is None and set(last) == set(STAGES)
    assert all(piece.finish_reason == "cancelled" and piece.n_tokens < 600 for piece in last.values())
    abandoned = chain.stream(prompts[0], STAGES, long, threading.Event())
    next(abandoned)
    abandoned.close()
    until(lambda: chain.stack.batcher.load == (0, 0))


@pytest.mark.parametrize("other", [None, ["linear_attention"]], ids=["running batch", "no running batch"])
def test_an_answer_that_somebody_waits_for_goes_before_a_batch_under_way_whose_texts_stay_the_same(
    chain, prompts, monkeypatch, other
):
    monkeypatch.setattr("training.models.chain.unbatched_layers", lambda _: other)
    monkeypatch.setattr(chain.stack, "batcher", None)  # nobody has asked before
    monkeypatch.setattr(stack, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(stack, "PATIENCE_SECONDS", 60.0)
    alone, happened = texts(chain.generate(prompts, STAGES, SHORT)), []

    def ask() -> None:
        happened.extend(piece.finish_reason for piece in chain.stream(prompts[0], STAGES, SHORT, threading.Event()))

    person = threading.Thread(target=ask)

    def told(n: int) -> None:
        happened.append(n)
        if n == 2:
            person.start()
            until(lambda: stack.FOREGROUND.n)

    assert texts(chain.generate(prompts, STAGES, SHORT, told=told)) == alone
    person.join()
    at = [place for place, each in enumerate(happened) if each == "length"]
    assert len(at) == len(STAGES) and happened[: min(at)].count(3) == 0, "it was answered between two tokens"
    assert [each for each in happened if isinstance(each, int)] == list(range(1, SHORT.max_new_tokens + 1))


def test_a_batch_goes_on_a_slice_at_a_time_however_many_wait_for_answers(chain, prompts, monkeypatch):
    monkeypatch.setattr(stack, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(stack, "PATIENCE_SECONDS", 0.001)
    alone = texts(chain.generate(prompts, STAGES, SHORT))
    with stack.FOREGROUND.answering():
        assert texts(chain.generate(prompts, STAGES, SHORT)) == alone


def test_a_base_without_a_running_batch_gives_each_answer_as_one_piece(chain, prompts, monkeypatch):
    monkeypatch.setattr("training.models.chain.unbatched_layers", lambda _: ["linear_attention"])
    stop = threading.Event()
    pieces = list(chain.stream(prompts[0], STAGES, SHORT, stop))
    whole = chain.generate(prompts[:1], STAGES, SHORT)[0]
    assert [(each.stage, each.text) for each in pieces] == [(each.stage, each.text) for each in whole]
    assert [(each.finish_reason, each.n_tokens) for each in pieces] == [("length", 12)] * 3
    stop.set()
    stopped = list(chain.stream(prompts[0], STAGES, SHORT, stop))
    assert [(each.text, each.finish_reason, each.n_tokens) for each in stopped] == [("", "cancelled", 0)] * 3


def test_bad_input_is_refused_before_anything_is_written(chain):
    for question, stages, settings, words in cases("serve")["bad input"]:
        text, sampling = question.replace("<20000 whys>", "why? " * 20_000), replace(SHORT, **settings)
        prompt = (Message(role="user", content=text),)
        with pytest.raises(LabError, match=words):
            chain.generate([prompt], stages, sampling)
        with pytest.raises(LabError, match=words):
            chain.stream(prompt, stages, sampling, threading.Event())


def test_a_prompt_without_a_system_message_is_given_the_chain_s_own(chain, prompts):
    bare = (Message(role="user", content=QUESTIONS[0]),)
    assert prompts[0][0].content == chain.manifest.system_prompt
    assert chain.generate([bare], STAGES, SHORT) == chain.generate(prompts[:1], STAGES, SHORT)
    other = (Message(role="system", content="Shout."), *bare)
    assert chain.generate([other], STAGES, SHORT) != chain.generate([bare], STAGES, SHORT)


# ---- held to a form ----------------------------------------------------------------------------


def test_without_a_schema_the_words_are_free_and_repetition_can_still_be_held_down(chain, prompts):
    sampling, rules = Sampling(max_new_tokens=30), ({}, {"repetition_penalty": 5.0})
    free = chain.generate(prompts[:1], ("base",), sampling)
    loose, held = (
        chain.generate(prompts[:1], ("base",), sampling, Form(chain.tokenizer, chain.ends, **each)) for each in rules
    )
    assert loose == free != held


def test_no_piece_ever_shows_part_of_a_character_and_bytes_that_never_become_one_are_shown_at_the_end():
    tokenizer = tiny_tokenizer()
    for text in ("naïve", "КМР × 😀", "日本語", "e\u0301", "👩🏽‍🔬 done"):
        row = RowText(tokenizer)
        pieces = [row.add(token) for token in tokenizer.encode(text, add_special_tokens=False)]
        assert not any("\ufffd" in piece for piece in pieces)
        assert "".join(pieces) + row.rest() == text
    row = RowText(tokenizer)
    assert (row.add(tokenizer.encode("😀", add_special_tokens=False)[0]), row.rest()) == ("", "\ufffd")


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


# ---- hosted models as stages: tried again, kept within their budget, their cost told -----------------


PRICES = {"dollars_per_million_read": 1.0, "dollars_per_million_written": 4.0}


def reply(text: str = "Up.", read: int = 100, written: int = 50) -> tuple[int, bytes]:
    usage = {"prompt_tokens": read, "completion_tokens": written}
    document = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": usage}
    return 200, json.dumps(document).encode()


@contextmanager
def hosted(chain, tmp_path, behaviour, **table):
    """Give a chain with a hosted model "far", described in a file, and its server."""
    with JudgeServer(behaviour) as server:
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in {"url": server.url, **table}.items())
        file = tmp_path / "hosted.toml"
        file.write_text(f"[far]\n{lines}")
        yield with_hosted(chain, [str(file)]), server


def test_a_stage_of_a_chain_that_is_served_elsewhere_answers_beside_the_chain_as_it_does_here(chain, monkeypatch):
    with serving(chain) as url:
        monkeypatch.setenv("ASSAY_KEY_FAR", "secret")
        both = with_hosted(chain, [f"far={url}/v1#grpo"])
        assert both.stages == ("base", "sft", "grpo", "far")
        (row,) = both.generate([chain.messages("Which way?")], ("far", "sft", "grpo"), SHORT)
        far, sft, grpo = row
        assert (far.stage, far.text, far.n_tokens) == ("far", grpo.text, 12) and sft.text != grpo.text
        pieces = list(both.stream(chain.messages("Which way?"), ("grpo", "far"), SHORT, threading.Event()))
    texts = {name: "".join(piece.text for piece in pieces if piece.stage == name) for name in ("grpo", "far")}
    assert texts["far"] == texts["grpo"] == grpo.text
    assert [piece.finish_reason for piece in pieces if piece.finish_reason] == ["length", "length"]


def test_a_server_that_is_busy_is_asked_again_and_the_cost_of_its_answer_is_told(chain, tmp_path):
    def busy_once(asked):
        return (429, b"{}", "Retry-After: 0") if asked.number == 1 else reply()

    with hosted(chain, tmp_path, busy_once, **PRICES) as (both, server):
        (piece,) = both.stream(chain.messages("Which way?"), ("far",), SHORT, threading.Event())
        (other,) = both.generate([chain.messages("Which way?")], ("far",), SHORT)[0]
    assert (piece.text, piece.finish_reason, piece.note) == ("Up.", "stop", "$0.0003")
    assert other.text == "Up." and len(server.requests) == 3
    assert both.hosted["far"].spending == "far (tiny-judge): 200 tokens read, 100 written, $0.0006"
    body = server.requests[-1].body
    assert body["messages"][0]["role"] == "system" and (body["max_tokens"], body["temperature"]) == (12, 0)


@pytest.mark.parametrize("limit", [{"max_tokens": 200}, {"max_dollars": 0.0003}], ids=["tokens", "dollars"])
def test_a_budget_is_never_exceeded_also_by_those_who_ask_at_once(chain, tmp_path, limit):
    prompts = [chain.messages(f"Which way {n}?") for n in range(8)]
    with hosted(chain, tmp_path, lambda _: reply("Up.", 20, 10), **PRICES, **limit) as (both, server):
        with pytest.raises(LabError, match=r"the budget for far is used up .* raise max_tokens or max_dollars"):
            both.generate(prompts, ("far",), SHORT)
        n = len(server.requests)
        assert 0 < n < 8
        with pytest.raises(LabError, match="is used up"):
            for _ in range(8):
                both.generate(prompts[:1], ("far",), SHORT)
    spent = both.hosted["far"]
    assert 0 < limit.get("max_tokens", 200) - spent.n_read - spent.n_written < 200
    assert 0 < limit.get("max_dollars", 0.0009) - spent.dollars < 0.0009


def test_a_hosted_model_that_fails_says_so_in_its_place_and_the_chain_s_own_answer_stands(chain, tmp_path):
    with hosted(chain, tmp_path, lambda _: (401, b'{"error": {"message": "wrong key"}}')) as (both, _):
        pieces = list(both.stream(chain.messages("Which way?"), ("grpo", "far"), SHORT, threading.Event()))
        with pytest.raises(LabError, match="far gave no answer: the server answered 401: wrong key"):
            both.generate([chain.messages("Which way?")], ("far",), SHORT)
    (failed,) = [piece for piece in pieces if piece.stage == "far"]
    assert (failed.text, failed.finish_reason) == ("", "cancelled") and "wrong key" in failed.note
    assert [piece.finish_reason for piece in pieces if piece.stage == "grpo"][-1] == "length"


def test_stopping_does_not_wait_for_a_server(chain, tmp_path):
    stop = threading.Event()
    with hosted(chain, tmp_path, lambda _: 30.0) as (both, server):
        pieces = both.stream(chain.messages("Which way?"), ("far",), SHORT, stop)
        threading.Thread(target=lambda: (until(lambda: len(server.requests) == 1), stop.set())).start()
        assert [piece.finish_reason for piece in pieces] == ["cancelled"]


def test_what_makes_no_hosted_model_is_told(chain, tmp_path):
    for text, words in cases("hosted")["mistakes"]:
        (tmp_path / "hosted.toml").write_text(text)
        with pytest.raises(BadConfig, match=words):
            with_hosted(chain, [str(tmp_path / "hosted.toml") if text.startswith("[") else text])


def test_a_process_may_end_while_answers_are_written(tmp_path):
    command = [sys.executable, "-c", ENDS_EARLY, str(tiny_chain(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


# ---- likelihoods, and as a model of lm-evaluation-harness --------------------------------------------


@pytest.mark.parametrize("stage", ["base", "sft"])
def test_the_tokens_of_an_answer_line_are_as_likely_as_plain_transformers_find_them_in_the_whole_text(
    chain: LoadedChain, stage: str
):
    prompt, beginning = chain.messages("Which way does the soleus go?"), "The muscle atrophies.\nAnswer:"
    model = AutoModelForCausalLM.from_pretrained(chain.base.folder, dtype=torch.float32)
    if stage != "base":
        model = PeftModel.from_pretrained(model, chain.base.folder.parent / stage / "adapter").merge_and_unload()
    template = [turn.model_dump() for turn in prompt]
    before = chain.tokenizer.apply_chat_template(template, tokenize=False, add_generation_prompt=True) + beginning
    asked = chain.tokenizer(before, add_special_tokens=False)["input_ids"]
    said = ("up", "down and then up again in the liver")
    found = chain.token_scores([prompt] * 2, stage, [f"{beginning} {each}\nConfidence: 1%" for each in said], SHORT)
    for option, (*tokens, behind) in zip(said, found, strict=True):
        ids = torch.tensor([chain.tokenizer(f"{before} {option}", add_special_tokens=False)["input_ids"]])
        assert ids[0, : len(asked)].tolist() == asked
        with torch.inference_mode():
            table = model(input_ids=ids).logits[0].log_softmax(-1)
        direct = table[:-1].gather(1, ids[0, 1:, None])[len(asked) - 1 :, 0]
        assert [each.logprob for each in tokens] == pytest.approx(direct.tolist(), abs=1e-4)
        assert "".join(each.text for each in tokens) == f" {option}"
        assert behind.top[0][1] == pytest.approx(float(table[-1].max()), abs=1e-4)


def taught_base(folder: Path, chats: Sequence[Sequence[Message]]) -> Path:
    """Write a tiny base that was trained until it says these conversations, each as often as it is named."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_base(folder))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    texts = [tokenizer.apply_chat_template([each.model_dump() for each in chat], tokenize=False) for chat in chats]
    tokenizer.padding_side = "right"
    batch = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    for row, chat in zip(labels, chats, strict=True):
        asked = tokenizer.apply_chat_template(
            [each.model_dump() for each in chat[:-1]], tokenize=False, add_generation_prompt=True
        )
        row[: len(tokenizer(asked, add_special_tokens=False)["input_ids"])] = -100
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(60):
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    return folder


def test_a_served_stage_is_as_likely_to_answer_as_it_is_here_and_as_it_was_taught(tmp_path, monkeypatch):
    task = Questions("Say.")
    examples = [next(each for each in pathway_heldout() if each.kind == "direct"), kmp_test()[0]]
    chats = [
        (*task.prompt(example), Message(role="assistant", content=f"It is known.\nAnswer: {answer}\nConfidence: 80%"))
        for example, answers in zip(examples, (("up", "up", "down"), ("liver",)), strict=True)
        for answer in answers
    ]
    chain = load_chain(tiny_chain(tmp_path, base=taught_base(tmp_path / "model", chats)), "float32")
    monkeypatch.setenv("ASSAY_KEY_FAR", "secret")
    with serving(chain) as url:
        both = with_hosted(chain, [f"far={url}/v1#base"], is_scored=True)
        rows = run_task(task, both, examples, ("base", "far"), RunSettings())
        found = more_confidences(task, both, rows, ("likelihood",), RunSettings(), lambda *_: None)
        assert both.hosted["far"].client.take_counts().calls == len(examples)
    here, far = (
        [each.given.value for each in found if each.stage == f"{stage} likelihood"] for stage in ("base", "far")
    )
    assert here == pytest.approx([2 / 3, 1], abs=0.05)
    assert far == pytest.approx(here, abs=1e-3)


@pytest.mark.parametrize(("tokens", "most", "words"), cases("hosted")["silent"])
def test_a_server_that_tells_no_log_probabilities_is_named(chain, tmp_path, tokens, most, words):
    def silent(asked):
        if asked.body.get("top_logprobs", 0) > most:
            return 400, f'{{"error": {{"message": "top_logprobs must be at most {most}"}}}}'.encode()
        document = json.loads(reply("Answer: up")[1])
        scored = [
            {"token": token, "logprob": -0.1, "top_logprobs": [{"token": each, "logprob": -0.1} for each in top]}
            for token, top in tokens or ()
        ]
        document["choices"][0]["logprobs"] = tokens and {"content": scored}
        return 200, json.dumps(document).encode()

    with hosted(chain, tmp_path, silent) as (both, server), pytest.raises(LabError, match=words):
        both.token_scores([chain.messages("Which way?")], "far", ["Answer: up"], SHORT)
    assert [each.body.get("top_logprobs") for each in server.requests] == [20, 5, None][: 2 if most else 3]


def test_a_stage_gives_the_harness_the_likelihood_of_each_continuation_whatever_else_is_in_the_batch(
    chain: LoadedChain,
):
    pairs = [("Which way?", " up"), ("Which way does the liver go?", " down and up"), ("Why", "?")]
    found = {}
    for stage in chain.stages:
        model = ChainModel(chain, stage, batch_size=2)
        encoded = [(None, model.tok_encode(before), model.tok_encode(after)) for before, after in pairs]
        found[stage] = model._loglikelihood_tokens(encoded)
        for (_, before, after), (score, is_greedy) in zip(encoded, found[stage], strict=True):
            with torch.inference_mode(), chain.stack.lock, chain.stack.rows([chain.adapters_of_stage[stage]]):
                logits = chain.stack.model(input_ids=torch.tensor([before + after]), use_cache=False).logits[0]
            table = logits[len(before) - 1 : -1].log_softmax(-1)
            wanted = torch.tensor(after)
            assert score == pytest.approx(float(table.gather(1, wanted[:, None]).sum()), abs=1e-4)
            assert is_greedy == bool((table.argmax(-1) == wanted).all())
    assert len({round(scores[0][0], 4) for scores in found.values()}) == len(chain.stages)


def test_a_stage_writes_for_the_harness_what_it_writes_greedily_up_to_where_a_task_stops(chain: LoadedChain):
    model = ChainModel(chain, "grpo")
    text = model.apply_chat_template([turn.model_dump() for turn in chain.messages("Which way?")])
    ((whole,),) = chain.generate([chain.messages("Which way?")], ("grpo",), Sampling(max_new_tokens=12))
    told = {"until": [], "max_gen_toks": 12}
    assert model.generate_until([Asked((text, told))]) == [whole.text]
    stop = whole.text[len(whole.text) // 2 :][:2]
    assert model.generate_until([Asked((text, {**told, "until": [stop]}))]) == [whole.text.partition(stop)[0]]
    with pytest.raises(LabError, match="no stage 'dpo'; this chain has base, sft, grpo"):
        ChainModel(chain, "dpo")
