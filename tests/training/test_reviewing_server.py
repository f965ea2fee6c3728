"""The engine behind a server: real HTTP on this machine, kind and unkind."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from evals.errors import BadConfig, LabError
from evals.review.prompt import Budget, system_prompt
from tests.training.judge_server import Asked, JudgeServer, Reply
from tests.training.reviewers import paper
from training.reviewer.engine import Asking, Room, asked_about, row_of
from training.reviewer.server import Estimate, ServerEngine, ServerSettings

ASKING = Asking(max_new_tokens=300, repetition_penalty=1.0)
ROOM = Room(Estimate(), 8192)
SAID = '[{"text": "There is no control arm.", "category": "design_flaw", "severity": "major"}]'


def completion(text: object = SAID, reason: str = "stop", **more: object) -> Reply:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": reason}
    return 200, json.dumps({"choices": [choice], **more}).encode()


def refusal(status: int, message: str) -> Reply:
    return status, json.dumps({"error": {"message": message}}).encode()


def answers(behaviour: Callable[[Asked], Reply | float], asking: Asking = ASKING, n: int = 1, **told: object):
    """Return the replies of a server to `n` papers, the engine's record, the requests and the pauses."""
    pauses: list[float] = []
    settings = {"retries": 2, "timeout_seconds": 20.0, **told}
    with JudgeServer(behaviour) as server:
        engine = ServerEngine(ServerSettings(server.url, **settings), asking, ROOM, pauses.append)
        try:
            replies = engine.answer([f"Review paper {k}." for k in range(n)])
            return replies, engine.record(), server.requests, pauses
        finally:
            engine.close()


def test_a_reply_comes_with_its_reason_its_tokens_and_the_schema_it_was_held_to():
    usage = {"prompt_tokens": 900, "completion_tokens": 30}
    (reply,), record, (asked,), _ = answers(lambda _: completion(usage=usage))
    assert (reply.text, reply.finish_reason, reply.error) == (SAID, "stop", "")
    assert (reply.tokens_read, reply.tokens_written) == (900, 30)
    assert record.constraint == "array schema"
    assert record.name == "tiny-judge"
    form = asked.body["response_format"]["json_schema"]
    assert form["schema"]["items"]["required"] == ["text", "category", "severity"]
    assert asked.body["messages"][0] == {"role": "system", "content": system_prompt()}
    assert {key: asked.body[key] for key in ("temperature", "top_p", "seed", "max_tokens")} == {
        "temperature": 0.1,
        "top_p": 0.9,
        "seed": 0,
        "max_tokens": 300,
    }


def test_a_server_that_takes_only_objects_is_asked_for_one_and_the_record_says_so():
    def only_objects(asked: Asked) -> Reply:
        if asked.body["response_format"]["json_schema"]["schema"]["type"] == "array":
            return refusal(400, "Invalid schema for response_format: must be of type object")
        return completion(f'{{"concerns": {SAID}}}')

    (reply,), record, requests, _ = answers(only_objects)
    assert len(requests) == 2
    assert record.constraint == "object schema"
    assert "must be of type object" in record.substitutions[0]
    row = row_of(asked_about(paper("p"), ROOM, Budget(8192, 300)), [reply], 0.0)
    assert [each.text for each in row.concerns] == ["There is no control arm."]


def no_schema(asked: Asked) -> Reply:
    if "response_format" in asked.body:
        return refusal(422, "response_format is not supported")
    return completion()


def test_a_server_that_knows_no_schema_is_asked_freely_and_the_record_says_so():
    replies, record, _, _ = answers(no_schema, n=3)
    assert [reply.error for reply in replies] == ["", "", ""]
    assert record.constraint == "none"
    assert len(record.substitutions) == 2


def test_constrain_always_stops_at_a_server_that_knows_no_schema():
    with pytest.raises(LabError, match="constrain is always"):
        answers(no_schema, replace(ASKING, constrain="always"))


def test_constrain_never_asks_for_no_schema():
    _, record, (asked,), _ = answers(lambda _: completion(), replace(ASKING, constrain="never"))
    assert "response_format" not in asked.body
    assert (record.constraint, record.substitutions) == ("none", ())


def test_a_field_that_a_server_does_not_know_is_renamed_or_left_out_and_told():
    def strict(asked: Asked) -> Reply:
        for name in ("repetition_penalty", "max_tokens"):
            if name in asked.body:
                return refusal(400, f"Unsupported parameter: '{name}'")
        return completion()

    (reply,), record, requests, _ = answers(strict, Asking(max_new_tokens=300))
    assert reply.error == ""
    assert requests[-1].body["max_completion_tokens"] == 300
    assert len(record.substitutions) == 2


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (None, "no reply"),
        ((503, b"busy"), "answered 503: busy"),
        ((429, b""), "answered 429: nothing"),
        ((200, b"<html>"), "not a chat completion"),
        (completion(None), "holds no text"),
    ],
)
def test_a_passing_failure_is_tried_again_and_a_lasting_one_is_told(bad: Reply, said: str):
    (good,), _, requests, pauses = answers(lambda asked: bad if asked.number < 3 else completion())
    assert (good.text, len(requests), pauses) == (SAID, 3, [1.0, 2.0])
    (reply,), *_ = answers(lambda _: bad)
    assert reply.finish_reason == "error"
    assert said in reply.error


def test_a_refusal_that_no_form_can_mend_is_not_tried_again():
    (reply,), record, requests, _ = answers(
        lambda _: refusal(400, "This model's maximum context length is 2048 tokens")
    )
    assert "maximum context length" in reply.error
    assert (len(requests), record.constraint) == (1, "array schema")


def test_one_paper_that_fails_leaves_the_others_of_its_batch_alone():
    def some(asked: Asked) -> Reply:
        return (500, b"no") if "paper 1" in asked.text else completion()

    replies, *_ = answers(some, n=3)
    assert [bool(reply.error) for reply in replies] == [False, True, False]


def test_a_reply_that_ran_out_of_tokens_says_length():
    (reply,), *_ = answers(lambda _: completion(SAID[:40], "length"))
    assert reply.finish_reason == "length"


def test_a_server_on_another_machine_or_without_a_model_is_refused():
    with pytest.raises(BadConfig, match="not on this machine"):
        ServerEngine(ServerSettings("http://example.org/v1"), ASKING, ROOM)
    with JudgeServer(models=("one", "two")) as server, pytest.raises(BadConfig, match="one, two"):
        ServerEngine(ServerSettings(server.url), ASKING, ROOM)


def test_a_guess_at_tokens_is_never_too_low_for_english():
    text = "Mice were treated with the drug and the controls grew on plates."
    assert len(Estimate().ends(text)) >= len(text.split())
    assert Estimate().ends(text)[-1] == len(text)
    assert Estimate().ends("") == ()
