"""Programs that speak MCP look and ask in the lab, through the official client and a real server on a real port."""

import base64
import threading
import time
from dataclasses import replace

import httpx
import pytest

from lab import guard
from lab.results.evaluations import Evaluations
from lab.roles import Person, hashed, password_check, role_needed
from tests.coroutines import result_of
from tests.lab.chains import ScriptedChain, lab_with
from tests.lab.evaluations import scripted_report
from tests.lab.served import ON_AIR, on_air

pytest.importorskip("mcp", reason="the package mcp is not installed: pip install '.[mcp]'")
pytestmark = ON_AIR
TOOLS = ("chains", "ask", "leaderboard", "questions")
ASK = ("ask", {"question": "Which way does adipogenesis move?"})
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "ask", "arguments": ASK[1]}}
ACCEPT = {"accept": "application/json, text/event-stream"}


def called(url, *calls, **headers):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def work():
        http = httpx.AsyncClient(headers=headers, timeout=60)
        served = streamable_http_client(f"{url}mcp", http_client=http)
        async with http, served as (read, write, _), ClientSession(read, write) as client:
            await client.initialize()
            replies = [await client.call_tool(name, given) for name, given in calls]
            told = [each.content[0].text if each.isError else each.structuredContent for each in replies]
            return (await client.list_tools()).tools, *told

    return result_of(work())


def status(url, **headers):
    return httpx.post(
        f"{url}mcp", json={**CALL, "method": "tools/list", "params": {}}, headers=ACCEPT | headers, timeout=60
    ).status_code


def basic(name, password):
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def test_a_program_looks_and_asks_and_is_told_in_words_what_it_cannot(tmp_path):
    example = scripted_report().rows[0].example
    chain, sft = ScriptedChain({"sft": example.answer}), ("ask", {"question": example.prompt, "stages": ["sft"]})
    cases = {
        "takes up to 2,000": ("ask", {"question": "a" * 2001}),
        "no 'nope'. Known: base, sft, grpo": ("ask", {"question": "MYC?", "stages": ["nope"]}),
        "'question' is a required property": ("ask", {}),
        "no 'vote_left'": ("vote_left", {}),
        "no 'beauty'. Known: accuracy, ": ("leaderboard", {"order": "beauty"}),
    }
    with on_air(replace(lab_with(tmp_path, chain), reports=lambda: Evaluations((scripted_report(),)))) as app:
        calls = [*((name, {}) for name in ("chains", "questions", "leaderboard")), ASK, sft, *cases.values()]
        tools, chains, sets, board, every, one, *told = called(app.local_url, *calls)
        events = {event.api_name for event in app.fns.values() if event.api_visibility == "public"}
    assert tuple(each.name for each in tools) == TOOLS and all(each.description for each in tools)
    assert set(TOOLS) <= events and {role_needed(name) for name in TOOLS} == {"reader"}
    assert chains["chains"][0]["chain"] == "" and "kmp-test" in sets["sets"]
    assert [each["stage"] for each in every["answers"]] == ["base", "sft", "grpo"]
    assert [each["verdict"]["verdict"] for each in one["answers"]] == ["correct"]
    accuracy = next(row["metrics"]["accuracy"] for row in board["rows"] if row["stage"] == "grpo")
    assert accuracy["n"] == 59 and accuracy["low"] < accuracy["value"] < accuracy["high"]
    assert [(wanted, reply) for wanted, reply in zip(cases, told, strict=True) if wanted not in str(reply)] == []


def test_where_the_lab_has_names_one_is_needed_and_guesses_and_questions_have_their_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "PER_MINUTE", 2)
    people = {name: Person(name, role, hashed("right")) for name, role in (("ada", "admin"), ("rea", "reader"))}
    room = replace(lab_with(tmp_path), people=people)
    with on_air(room, auth=password_check(people, room.log)) as app:
        url = app.local_url
        assert [status(url), status(url, authorization="Bearer x"), status(url, **basic("rea", "wrong"))] == [401] * 3
        for name, refused in (("rea", 1), ("ada", 0)):
            _, *told = called(url, ASK, ASK, ASK, **basic(name, "right"))
            assert sum("questions a minute is the limit" in str(each) for each in told) == refused
        assert [status(url, **basic("rea", f"{n}")) for n in range(6)] == [*[401] * 5, 429]
        assert httpx.post(f"{url}login", data={"username": "rea", "password": "right"}).status_code == 429
        assert status(url, **basic("rea", "right")) == 200, "who was let in is not shut out by another's guesses"
        log = [(deed.who, deed.what) for deed in room.store.deeds(50)]
    assert log.count(("rea", "logged in")) == 1 and ("rea", "wrong password") in log


def test_another_site_cannot_ask_and_who_goes_away_ends_what_is_written(tmp_path):
    chain = ScriptedChain(gate=threading.Semaphore(2))
    room = lab_with(tmp_path, chain)
    with on_air(room) as app:
        cases = [({"origin": "https://evil.example"}, 403), ({"content-type": "text/plain"}, 400)]
        cases += [({"host": "evil.example", "origin": "http://evil.example"}, 421)]
        assert [(each, status(app.local_url, **each)) for each, _ in cases] == cases
        assert httpx.get(f"{app.local_url}mcp").status_code == 405
        with httpx.stream("POST", f"{app.local_url}mcp", json=CALL, headers=ACCEPT, timeout=60):
            while not chain.prompts:
                time.sleep(0.05)
        time.sleep(1)
        chain._gate.release(1)
        while not (kept := room.store.answers()):
            time.sleep(0.05)
    assert {each.finish_reason for each in kept} == {"cancelled"}
