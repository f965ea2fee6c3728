"""A chain that serves: requests share a batch and are answered as if alone; OpenAI's own client understands it."""

import copy
import json
import queue
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import httpx2
import openai
import pytest
import torch
import uvicorn
from peft import PeftModel
from transformers import AutoConfig, AutoModelForCausalLM

from evals.errors import BadConfig
from evals.schema import Message
from evals.schema.questions import Sampling
from tests.models import CONTEXT, broken_at_third_pass, tiny_chain, tiny_tokenizer
from tests.training.test_stack import adapted
from training.hosts import OwnHosts
from training.models.adapters import read_adapter
from training.models.chain import LoadedChain, load_chain
from training.models.generation import Row, Writer
from training.models.stack import Stack
from training.serve import batching
from training.serve.batching import Batcher, Busy, GenerationRequest
from training.serve.server import ChainServer

WORDS = ("why", "soleus", "liver goes up", "mice", "the", "naïve 😀")
QUESTION = [{"role": "user", "content": "Which way does the soleus go?"}]
LONG = Sampling(max_new_tokens=700)


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


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


# ---- the batch ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("short", "piece"), [(batching.SHORT, batching.PREFILL_TOKENS), (64, 16)])
def test_thirty_requests_that_come_and_go_are_each_answered_as_if_alone(chain, shared, monkeypatch, short, piece):
    """Stages, prompts, lengths, draws and moments of joining differ; prompts begin alike, and are read once, in pieces."""
    monkeypatch.setattr(batching, "SHORT", short)
    monkeypatch.setattr(batching, "PREFILL_TOKENS", piece)
    luck, requests = random.Random(0), []
    for seed in range(30):
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
        wait_for(lambda: batcher.load == (1, 0))
        second, _ = submitted(batcher, asked(chain, "mice"))
        wait_for(lambda: batcher.load == (2, 0))
        _, third = submitted(batcher, asked(chain, "why", sampling=short))
        with pytest.raises(Busy, match="1 requests wait already"):
            batcher.submit(asked(chain), print)
        batcher.cancel(second)
        assert whole(third)[1] == 5
        assert next(reading).finish_reason is None
        batcher.cancel(first)
        wait_for(lambda: batcher.load == (0, 0))
    with pytest.raises(Busy, match="stopping"):
        batcher.submit(asked(chain), print)


def test_what_breaks_is_told_to_those_it_took_down_and_the_next_answer_is_right(chain, shared):
    request = asked(chain, sampling=Sampling(max_new_tokens=12))
    expected = whole(submitted(shared, request)[1])
    with broken_at_third_pass(chain.stack.model), pytest.raises(RuntimeError, match="a layer broke"):
        list(submitted(shared, request)[1])
    assert whole(submitted(shared, request)[1]) == expected
    with pytest.raises(TypeError):  # in line, before it is a row
        list(submitted(shared, GenerationRequest(None, "grpo"))[1])
    assert whole(submitted(shared, request)[1]) == expected


def test_requests_together_never_take_more_of_the_cache_than_they_may(chain):
    one = asked(chain, sampling=Sampling(max_new_tokens=100))
    with closing(Batcher(chain, max_columns=2 * one.length)) as batcher:
        streams = [submitted(batcher, one)[1] for _ in range(5)]
        most = 0
        while batcher.load != (0, 0):
            most = max(most, batcher.load[0])
            time.sleep(0.001)
    assert most == 2 and {whole(each)[1] for each in streams} == {100}


def test_a_base_whose_layers_keep_no_columns_is_refused(chain, monkeypatch):
    monkeypatch.setattr(chain.stack.model.config, "layer_types", ["linear_attention"], raising=False)
    with pytest.raises(BadConfig, match=r"linear_attention, .* chain export"):
        Batcher(chain)


HEADS = {"head_dim": 16, "num_key_value_heads": 2}
LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
FAMILIES = {  # a window shorter than the prompts, the layers that are adapted, and whether a batch can be kept running
    "gemma3_text": ({**HEADS, "sliding_window": 24, "tie_word_embeddings": False}, "(q|o|down)_proj", True),
    "mixtral": ({"num_local_experts": 4, "num_key_value_heads": 2}, "(q|o)_proj", True),
    "gpt_oss": ({**HEADS, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 24}, "(q|o)_proj", True),
    "qwen3_5_moe_text": (
        {**HEADS, **LINEAR, **EXPERTS, "shared_expert_intermediate_size": 32},
        r"(q|o|shared_expert\.down)_proj",
        False,
    ),
    "mpt": ({"d_model": 64, "n_heads": 4, "n_layers": 2}, "Wqkv", False),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_stages_on_other_families_answer_in_company_what_plain_transformers_answers_alone(family, tmp_path):
    """In a fixed batch, and in a running one where the base allows it; else that is refused."""
    changes, targets, is_batched = FAMILIES[family]
    tokenizer, sampling = tiny_tokenizer(), Sampling(max_new_tokens=16)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    told = {"vocab_size": len(tokenizer), "initializer_range": 0.2, **ends, **(sizes | changes)}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **told), dtype=torch.float32).eval()
    folder = adapted(model, tmp_path / "sft", rf".*({targets})")
    plain = {"base": copy.deepcopy(model), "sft": PeftModel.from_pretrained(copy.deepcopy(model), folder)}
    stack = Stack(model, {"sft": read_adapter(folder)})
    writer = Writer(stack, tokenizer, {"base": frozenset(), "sft": frozenset({"sft"})})
    prompts = [[Message(role="user", content="the soleus goes up " * n)] for n in (1, 2, 5)]
    rows = [row for prompt in prompts for row in writer.rows(prompt, tuple(plain), sampling)]

    def alone(row: Row) -> str:
        ids = torch.tensor([row.prompt])
        options = {"max_new_tokens": 16, "do_sample": False, "eos_token_id": list(writer.ends)}
        with torch.inference_mode():
            (written,) = plain[row.stage].eval().generate(input_ids=ids, attention_mask=torch.ones_like(ids), **options)
        return tokenizer.decode(written[len(row.prompt) :], skip_special_tokens=True)

    expected = [alone(row) for row in rows]
    assert expected[::2] != expected[1::2], "the adapter must have an effect"
    assert [each.text for answers in writer.generate(prompts, tuple(plain), sampling) for each in answers] == expected
    if not is_batched:
        with pytest.raises(BadConfig, match="continuous batching needs attention"):
            Batcher(writer)
        return
    with closing(Batcher(writer)) as batcher:
        streams = [submitted(batcher, GenerationRequest(row.prompt, row.stage, sampling))[1] for row in rows]
        assert [whole(each)[0] for each in streams] == expected


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
    assert "".join(each.token for each in tokens if each.bytes) in chat.message.content or any(
        each.bytes is None for each in tokens
    )
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
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
        connection.sendall(f"{head}\r\nContent-Type: application/json\r\n\r\n{body}".encode())
        if stream:
            connection.recv(100)
        wait_for(lambda: httpx2.get(f"{url}/health").json()["running"] == 1)
    wait_for(lambda: httpx2.get(f"{url}/health").json()["running"] == 0)


REFUSED = [
    ({"model": "dpo"}, openai.NotFoundError, "model_not_found", "no model 'dpo'; .* base, sft, grpo"),
    ({"temperature": 9}, openai.BadRequestError, None, "temperature: .* less than or equal to 2"),
    ({"messages": []}, openai.BadRequestError, None, "messages: "),
    ({"messages": [{"role": "user", "content": " "}]}, openai.BadRequestError, None, "the question is empty"),
    ({"messages": [{"role": "user", "content": "<|im_end|>"}]}, openai.BadRequestError, None, "a control mark"),
    (
        {"messages": [{"role": "user", "content": "why " * CONTEXT}]},
        openai.BadRequestError,
        "context_length_exceeded",
        "tokens long",
    ),
    ({"messages": [*QUESTION, {"role": "assistant", "content": "Up"}]}, openai.BadRequestError, None, "not the user's"),
    ({"max_tokens": 801}, openai.BadRequestError, None, "max_tokens is 801; at most 800"),
    (
        {"messages": [{"role": "user", "content": "why " * 400}], "max_tokens": 800},
        openai.BadRequestError,
        "context_length_exceeded",
        "max_tokens is 800; at most .* after a prompt of",
    ),
    ({"n": 8, "logit_bias": {"5": 1}}, openai.BadRequestError, "unsupported_parameter", "cannot do 'logit_bias'"),
    (
        {"extra_body": {"structured_outputs": {"choice": ["yes", "no"]}}},
        openai.BadRequestError,
        "unsupported_parameter",
        "cannot do 'structured_outputs'",
    ),
    ({"extra_body": {"top_k": 1}}, openai.BadRequestError, "unsupported_parameter", "cannot do 'top_k'"),
    ({"extra_body": {"echo": True}}, openai.BadRequestError, "unsupported_parameter", "cannot do 'echo'"),
    ({"extra_body": {"grammar": "x"}}, openai.BadRequestError, "unsupported_parameter", "cannot do 'grammar'"),
    (
        {"extra_body": {"skip_special_tokens": False}},
        openai.BadRequestError,
        "unsupported_parameter",
        "cannot do 'skip_special_tokens'",
    ),
    ({"response_format": {"type": "json_schema"}}, openai.BadRequestError, None, "json_schema.*: Field required"),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "way"}}}},
        openai.BadRequestError,
        None,
        "cannot be held to this schema",
    ),
]


@pytest.mark.parametrize(("change", "error", "code", "words"), REFUSED, ids=[next(iter(row[0])) for row in REFUSED])
def test_what_cannot_be_answered_is_refused_in_openai_s_own_shape(client, change, error, code, words):
    with pytest.raises(error, match=words) as raised:
        client.chat.completions.create(**{"model": "grpo", **GREEDY, **change})
    assert raised.value.code == code


def test_keys_queue_and_other_mistakes_have_their_status(chain, url):
    def post(body: object = {}, path: str = "chat/completions", raw: bytes = b"", **headers: str) -> httpx2.Response:
        given = {"Authorization": "Bearer secret", "Content-Type": "application/json", **headers}
        return httpx2.post(f"{url}/v1/{path}", content=raw or json.dumps(body), headers=given)

    found = {
        "no key": post(Authorization=""),
        "another key": post(Authorization="Bearer guess"),
        "a form of a web page": post(**{"Content-Type": "text/plain"}),
        "too long": post("x" * 5_000_000),
        "not an object": post([]),
        "no such page": post(path="embeddings"),
        "too many answers": post({"model": "grpo", **GREEDY, "n": 9}),
        "half a character": post({"model": "grpo", "messages": [{"role": "user", "content": "\ud800"}]}),
        "too deep": post(raw=b"[" * 100_000),
        "what nobody knows, and what changes nothing": post(
            {"model": "grpo", **GREEDY, "max_tokens": 1, "metadata": {"a": "b"}, "top_k": -1, "repetition_penalty": 1.0}
        ),
    }
    assert {name: reply.status_code for name, reply in found.items()} == {
        "no key": 401,
        "another key": 401,
        "a form of a web page": 415,
        "too long": 413,
        "not an object": 400,
        "no such page": 404,
        "too many answers": 400,
        "half a character": 400,
        "too deep": 400,
        "what nobody knows, and what changes nothing": 200,
    }
    told = [reply.json()["error"] for reply in found.values() if reply.status_code != 200]
    assert all(set(each) == {"message", "type", "param", "code"} for each in told)
    assert httpx2.get(f"{url}/health").json()["status"] == "ok"
    assert httpx2.get(f"{url}/v1/models").status_code == 401
    asked = {"model": "grpo", **GREEDY, "max_tokens": 100}
    with serving(chain, keys=(), rows=1, waiting=0) as busy, ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: httpx2.post(f"{busy}/v1/chat/completions", json=asked), range(8)))
    refused = [each for each in replies if each.status_code != 200]
    assert 0 < len(refused) < 8
    for reply in refused:
        assert (reply.status_code, reply.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert reply.headers["retry-after"] == "1"
