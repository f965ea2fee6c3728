"""The judge over real HTTP: what a server may do, and what becomes of the verdicts."""

import asyncio
import pickle
import time
from dataclasses import replace
from pathlib import Path

import pytest

from evals.errors import BadConfig, LabError
from evals.refine.score import settle
from evals.schema.refiner import RubricItem
from tests.evals.refiner.answers import GOOD, prepared, record
from tests.training.judge_server import Asked, Behaviour, JudgeServer, Reply, says, well
from tests.training.judges import asked, case, changed, judge_for, rewarded
from training.judge.cache import TOGETHER, VerdictCache
from training.judge.client import HttpJudge
from training.judge.judge import by_deadline, in_a_loop, judged
from training.judge.questions import HttpSettings, Verdict


def first_rows(asked: Asked) -> Reply:
    rows = asked.verdicts()
    return says({"verdicts": rows[: len(rows) // 2]})


def nan(asked: Asked) -> Reply:
    text = ", ".join(f'{{"item": "{row["item"]}", "evidence_quote": "", "score": NaN}}' for row in asked.verdicts())
    return says(f'{{"verdicts": [{text}]}}')


def twice(asked: Asked) -> Reply:
    rows = asked.verdicts()
    return says({"verdicts": [*rows, *({**row, "score": 1.5 - row["score"]} for row in rows)]})


MISSING: tuple[tuple[str, Behaviour], ...] = (
    ("prose", lambda asked: says("I think this answer is rather good.")),
    ("half the items", first_rows),
    ("NaN", nan),
    ("true instead of a number", changed(score=True)),
    ("words instead of a number", changed(score="high")),
    ("no number", changed(score=None)),
    ("each item twice, unlike", twice),
    ("names that were not asked for", changed(item="i000000")),
    ("presence without a quote", changed(score=2, evidence_quote="")),
    ("presence with an invented quote", changed(score=2, evidence_quote="OXPHOS is splendid")),
    ("brackets without end", lambda asked: says('{"verdicts":' + "[" * 3000)),
    ("a body of brackets without end", lambda asked: (200, b'{"choices":' + b"[" * 3000)),
    ("an empty message", lambda asked: says("")),
    ("no message", lambda asked: (200, b"{}")),
    ("no JSON", lambda asked: (200, b"<html>")),
    ("429 for ever", lambda asked: (429, b"")),
    ("500 for ever", lambda asked: (500, b"")),
    ("401", lambda asked: (401, b"")),
    ("a redirect", lambda asked: (302, b"")),
    ("a dropped connection", lambda asked: None),
)


@pytest.mark.parametrize(("name", "behaviour"), MISSING, ids=[name for name, _ in MISSING])
def test_a_server_that_fails_gives_no_reward_instead_of_a_wrong_one(name, behaviour):
    assert rewarded(behaviour) is None


def test_a_good_server_gives_the_reward_that_its_verdicts_mean():
    assert rewarded(well) == pytest.approx(10.0)


@pytest.mark.parametrize(
    "reply",
    [
        lambda asked: says(f"Sure!\n```json\n{well_text(asked)}\n```\nAnything else?"),
        lambda asked: says(f'{{"thought": 1}} {well_text(asked)}'),
        lambda asked: says({"verdicts": [*asked.verdicts(), *asked.verdicts(), "x", {"item": 4}]}),
        lambda asked: says({"verdicts": [{**row, "score": str(row["score"])} for row in asked.verdicts()]}),
        lambda asked: says({"verdicts": [{**row, "score": row["score"] * 40} for row in asked.verdicts()]}),
        lambda asked: (500, b"") if asked.number <= 2 else well(asked),
        lambda asked: None if asked.number <= 2 else well(asked),
        lambda asked: says("no") if asked.number == 1 else well(asked),
        lambda asked: (400, b"no response_format") if "response_format" in asked.body else well(asked),
        lambda asked: (422, b"unknown") if "chat_template_kwargs" in asked.body else well(asked),
    ],
)  # fmt: skip
def test_what_can_be_mended_is_mended(reply):
    assert rewarded(reply) == pytest.approx(10.0)


def well_text(asked: Asked) -> str:
    return '{"verdicts": ' + str(asked.verdicts()).replace("'", '"') + "}"


def test_what_a_reply_leaves_out_is_asked_for_once_more_and_nothing_else():
    seen: set[bool] = set()

    def half_at_first(asked: Asked) -> Reply:
        is_rubric = all(item["kind"] == "behaviour" for item in asked.items)
        is_first = is_rubric not in seen
        seen.add(is_rubric)
        return first_rows(asked) if is_first else well(asked)

    with JudgeServer(half_at_first) as server:
        assert settle(case(), asked(server)).reward == pytest.approx(10.0)
        sizes = [len(each.items) for each in server.requests]
    assert len(sizes) == 4
    assert sum(sizes) < 2 * (3 + 4)


def test_a_server_that_hangs_is_left_at_the_deadline():
    with JudgeServer(lambda asked: 30.0) as server:
        started = time.monotonic()
        got = judged(judge_for(server, timeout_seconds=60.0), [case().inquiry()] * 3, 0.3)
        assert time.monotonic() - started < 5
    assert [settle(case(), each).reward for each in got] == [None] * 3
    assert "not judged within 0.3 s" in got[0].problems[0]


def test_a_server_that_is_not_there_is_told_from_a_bad_answer():
    judge = HttpJudge(HttpSettings("http://127.0.0.1:9/v1", model="m", retries=0))
    (got,) = judged(judge, [case().inquiry()], 5.0)
    assert settle(case(), got).reward is None
    assert "no reply" in got.problems[0]
    with pytest.raises(LabError, match="which model"):
        judged(HttpJudge(HttpSettings("http://127.0.0.1:9/v1")), [case().inquiry()], 5.0)


def test_no_more_requests_run_at_once_than_were_allowed():
    with JudgeServer(lambda asked: 0.01) as server:
        got = judged(judge_for(server, concurrency=3), [case().inquiry()] * 12, 20.0)
        assert server.most_at_once <= 3
    assert all(settle(case(), each).reward for each in got)


def test_the_request_fixes_every_sampling_field_and_puts_the_items_last():
    with JudgeServer() as server:
        asked(server)
        body = server.requests[0].body
    assert (body["temperature"], body["top_p"], body["seed"], body["n"]) == (0.0, 1.0, 0, 1)
    assert body["response_format"]["type"] == "json_schema"
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    user = body["messages"][1]["content"]
    places = [user.index(f"=== BEGIN {name}") for name in ("EVIDENCE", "QUESTION", "ANSWER", "ITEMS")]
    assert places == sorted(places)


def test_answers_to_one_question_share_the_start_of_the_request_for_the_prefix_cache():
    with JudgeServer() as server:
        judged(judge_for(server), [case().inquiry(), case(GOOD.replace("OXPHOS", "It")).inquiry()], 9.0)
        starts = {each.text.partition("=== BEGIN ANSWER")[0] for each in server.requests}
    assert len(starts) == 1


def test_the_judge_learns_neither_weights_nor_what_is_wanted():
    about = record(
        positive_rubrics=(RubricItem(title="A", description="first", weight=3.25),),
        negative_rubrics=(RubricItem(title="B", description="second", weight=7.5),),
    )
    with JudgeServer() as server:
        judged(judge_for(server), [prepared(GOOD, about).inquiry()], 9.0)
        text = "\n".join(each.text for each in server.requests).lower()
    for word in ("3.25", "7.5", "weight", "positive", "negative", "polarity", "reward", "wanted"):
        assert word not in text


def test_items_can_be_asked_one_by_one():
    with JudgeServer() as server:
        verdicts = asked(server, mode="per_item")
        behaviours = [[item for item in each.items if item["kind"] == "behaviour"] for each in server.requests]
    assert settle(case(), verdicts).reward == pytest.approx(10.0)
    assert sorted(map(len, behaviours)) == [1, 2, 2]


def test_a_cache_makes_a_second_run_identical_and_free(tmp_path: Path):
    cache = tmp_path / "cache" / "verdicts.sqlite"
    with JudgeServer() as server:
        first = asked(server, cache=cache)
        calls = len(server.requests)
        second = asked(server, cache=cache)
        assert len(server.requests) == calls
        assert replace(second, canary=first.canary) == first
        assert asked(server, GOOD.replace("down", "up"), cache=cache) != first
        assert len(server.requests) > calls


def test_half_a_character_in_a_quote_can_be_kept_and_costs_no_verdict(tmp_path: Path):
    with JudgeServer(changed(score=0, evidence_quote="OXPHOS \ud83d")) as server:
        verdicts = asked(server, cache=tmp_path / "cache.sqlite")
    assert (verdicts.raws, verdicts.quotes) == ((0.0, 0.0), ("OXPHOS ?", "OXPHOS ?"))


def test_a_failure_is_never_kept_in_the_cache(tmp_path: Path):
    cache = tmp_path / "verdicts.sqlite"
    with JudgeServer(lambda asked: says("no")) as server:
        assert settle(case(), asked(server, cache=cache)).reward is None
        server.behaviour = well
        assert settle(case(), asked(server, cache=cache)).reward == pytest.approx(10.0)


def test_verdicts_are_in_the_cache_at_once_and_in_its_file_by_the_end_of_a_step(tmp_path: Path):
    ours, theirs = (VerdictCache(tmp_path / "verdicts.sqlite") for _ in range(2))
    kept = {"item 0": Verdict(1.0, "OXPHOS is down")}
    for place in range(TOGETHER + 1):
        ours.put(f"key {place}", kept)
    assert ours.get(f"key {TOGETHER}") == kept
    assert (theirs.get(f"key {TOGETHER - 1}"), theirs.get(f"key {TOGETHER}")) == (kept, None)
    ours.write()
    assert theirs.get(f"key {TOGETHER}") == kept
    ours.put("last", kept)
    ours.close()
    assert theirs.get("last") == kept
    theirs.close()


def test_a_judge_can_be_sent_to_another_process():
    with JudgeServer() as server:
        copy = pickle.loads(pickle.dumps(judge_for(server)))
        (got,) = judged(copy, [case().inquiry()], 9.0)
    assert settle(case(), got).reward == pytest.approx(10.0)
    assert copy.label == "http (tiny-judge)"


def test_counts_tell_calls_retries_and_hits(tmp_path: Path):
    with JudgeServer(lambda asked: (503, b"") if asked.number == 1 else well(asked)) as server:
        judge = judge_for(server, cache=tmp_path / "v.sqlite")
        judged(judge, [case().inquiry()], 9.0)
        counts = judge.take_counts()
        assert (counts.calls, counts.retries, counts.hits) == (3, 1, 0)
        judged(judge, [case().inquiry()], 9.0)
        assert judge.take_counts().hits == 2


def test_the_first_error_ends_all_other_work_and_is_the_one_that_is_told():
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("waiting")

    async def fails() -> None:
        raise BadConfig("no key.")

    with pytest.raises(BadConfig, match="no key"):
        in_a_loop(by_deadline([waits(), fails()], 60.0))
    assert ended == ["waiting"]


def test_work_that_cannot_be_made_ends_what_was_begun():
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("waiting")

    def work():
        yield waits()
        raise BadConfig("no item to grade by.")

    with pytest.raises(BadConfig, match="no item"):
        in_a_loop(by_deadline(work(), 60.0))
    assert ended == ["waiting"]
