"""Hosted models as stages: asked like a chain's own, tried again, kept within their budget, their cost told."""

import json
import threading
from contextlib import contextmanager

import pytest

from evals.errors import BadConfig, LabError
from evals.schema.questions import Sampling
from tests.models import tiny_chain
from tests.training.judge_server import JudgeServer
from tests.training.test_serve import serving
from training.models.chain import LoadedChain, load_chain
from training.serve.hosted import with_hosted

SHORT = Sampling(max_new_tokens=12)
PRICES = {"dollars_per_million_read": 1.0, "dollars_per_million_written": 4.0}


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> LoadedChain:
    return load_chain(tiny_chain(tmp_path_factory.mktemp("chain")), "float32")


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
    assert both.hosted["far"].told == "far (tiny-judge): 200 tokens read, 100 written, $0.0006"
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
        threading.Timer(0.3, stop.set).start()
        assert [piece.finish_reason for piece in pieces] == ["cancelled"]
        assert len(server.requests) == 1


MISTAKES = [
    ("gpt", "no hosted model .* NAME=URL#MODEL"),
    ("[a]\nurl = 'https://x/v1'\nprice = 3", r"a.price: .* takes url, model"),
    ("[a]\nurl = 'https://x/v1'\nmax_dollars = 3", "max_dollars needs dollars_per_million_read"),
    ("[a]\nurl = 'https://u:p@x/v1'", "holds a user, a password"),
    ("[a]\nurl = 'http://x.org/v1'\nkey_variable = 'PATH'", "without encryption"),
    ("[grpo]\nurl = 'https://x/v1'", "has a stage 'grpo' itself"),
]


@pytest.mark.parametrize(("text", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_what_makes_no_hosted_model_is_told(chain, tmp_path, text, words):
    file = tmp_path / "hosted.toml"
    file.write_text(text)
    with pytest.raises(BadConfig, match=words):
        with_hosted(chain, [str(file) if text.startswith("[") else text])
