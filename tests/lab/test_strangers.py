"""Whoever may not come in: every route of the running page, asked as a stranger, by another site and as a rater."""

import re
from dataclasses import replace
from pathlib import Path

import httpx
import yaml
from starlette.datastructures import Headers

from lab.commands.terminal import emit, notes, table_of
from lab.middleware import AGAIN, ASKS, BYTES_KEPT, KEY, LARGEST_KEPT, Once, UploadLimit
from lab.settings import MOST_WRONG, WAIT_SECONDS, from_environment, hash_password, password_check
from tests.lab.chains import lab_with
from tests.lab.served import ON_AIR, PASSWORD, entered, on_air
from tests.waiting import result_of
from training.serve import OwnHosts

TABLES = Path(__file__).parent / "tables"


def routes_of(routes, prefix=""):
    for route in routes:
        if hasattr(route, "original_router"):
            yield from routes_of(route.original_router.routes, prefix + route.include_context.prefix)
        else:
            methods = sorted(getattr(route, "methods", None) or ["GET"])
            yield from ((method, prefix + route.path) for method in methods if method != "HEAD")


def asked(browser, method, path, **headers):
    place = re.sub(r"\{\w+(:path)?\}", "x", path)
    with browser.stream(method, place, headers=headers, timeout=5) as reply:
        return reply.status_code


@ON_AIR
def test_a_lab_without_names_answers_no_route_under_a_name_that_is_not_its_own(open_lab):
    with httpx.Client(base_url=open_lab.local_url) as browser:
        routes = sorted(set(routes_of(open_lab.app.routes)))
        named = [
            asked(browser, *route, host="evil.example:7860", origin="http://evil.example:7860") for route in routes
        ]
        assert len(routes) > 60 and set(named) == {421}
        foreign = {route: asked(browser, *route, origin="https://evil.example") for route in routes}
        assert set(foreign.values()) <= {403, 404}, foreign  # 404: ways in that no page of the lab takes
        event, crossed = ("POST", "/gradio_api/run/predict"), {"sec-fetch-site": "cross-site"}
        for told in ({"origin": "null"}, {"origin": "https://evil.example", **crossed}):
            assert asked(browser, *event, **told) == 403
        same = {"origin": "https://lab.example", "sec-fetch-site": "same-origin"}
        for told in ({}, {"origin": open_lab.local_url.rstrip("/")}, same):
            assert asked(browser, *event, **told) == 422, told
        reply = browser.get("/", headers={"host": "evil.example"})
        assert "'evil.example'" in reply.text and "--allow-host" in reply.text
        for header, value in {
            "x-content-type-options": "nosniff",
            "content-security-policy": "frame-ancestors",
        }.items():
            assert value in browser.get("/").headers[header] and value in reply.headers[header]


@ON_AIR
def test_every_route_answers_strangers_and_raters_as_the_table_says(guarded):
    app, _ = guarded
    routes = sorted(set(routes_of(app.app.routes)))
    with httpx.Client(base_url=app.local_url) as stranger, entered(app.local_url, "rob") as rater:
        found = {f"{m} {path}": [asked(stranger, m, path), asked(rater, m, path)] for m, path in routes}
        for who, most, told in (
            (stranger, UploadLimit.MOST_UNKNOWN, "64 KB"),
            (rater, UploadLimit.MOST_BODY, "4,096 KB"),
        ):
            for body in (b" " * (most + 1), iter([b"x"])):
                reply = who.post("/gradio_api/queue/join", content=body)
                assert (reply.status_code, f"longer than {told}" in reply.text) == (413, True)
            assert who.post("/gradio_api/queue/join", content=b" " * most).status_code in (401, 422)
        # What a page of another site may send with a visitor's cookie, where the lab has a name of its own.
        evil = "http://evil.example"
        led = {"host": "lab.example", "origin": evil, "x-forwarded-host": "evil.example"}
        foreign = {route: asked(rater, *route, **led) for route in routes}
        assert asked(rater, "GET", "/config", host="lab.example", origin="http://lab.example") == 200
    assert found == yaml.safe_load((TABLES / "routes.yaml").read_text())
    assert set(foreign.values()) <= {403, 404}, foreign


@ON_AIR
def test_a_name_that_was_guessed_at_waits_though_its_guesser_logs_in_under_another_between(tmp_path, people):
    room = replace(lab_with(tmp_path), people=people)
    seconds = [0.0]
    with on_air(room, ("Home",), auth=password_check(people, room.log, lambda: seconds[0])) as app:

        def enter(name, password, **headers):
            data = {"username": name, "password": password}
            reply = httpx.post(f"{app.local_url}login", data=data, headers=headers, timeout=60)
            return reply.status_code, reply.text

        for _ in range(MOST_WRONG):
            assert enter("ada", "guessed")[0] == 400
            assert enter("rob", PASSWORD)[0] == 200
        status, told = enter("ada", PASSWORD)
        assert status == 429 and f"wait {WAIT_SECONDS} seconds" in told
        assert enter("rob", PASSWORD)[0] == 200, "another name goes on"
        seconds[0] = WAIT_SECONDS
        assert enter("ada", PASSWORD)[0] == 200
        addresses = [{"x-forwarded-for": f"10.0.0.{number}"} for number in range(MOST_WRONG + 1)]
        tries = [enter(f"name {number}", "x", **sent)[0] for number, sent in enumerate(addresses)]
        assert tries == [*[400] * MOST_WRONG, 429], "an invented address is not believed"
        assert enter("rob", PASSWORD)[0] == 429, "not even with the right one"
        assert f"have to wait {WAIT_SECONDS} seconds" in httpx.get(app.local_url).text


def test_a_password_check_forgets_names_that_nobody_tries_any_more():
    check = password_check({}, lambda *_: None, iter(range(0, 10_000, WAIT_SECONDS)).__next__)
    assert not any(check(f"name {number}", "x") for number in range(3))
    (wrong,) = [
        cell.cell_contents for cell in check.__closure__ if isinstance(cell.cell_contents, dict) and cell.cell_contents
    ]
    assert list(wrong) == ["name 2"]
    assert hash_password("x") != hash_password("x")


def test_the_replies_kept_are_those_of_events_and_never_of_files_or_streams_or_too_many_bytes():
    bodies = {
        "/gradio_api/file=big": 10**6,
        "/gradio_api/run/large": LARGEST_KEPT + 1,
        "/gradio_api/run/usual": BYTES_KEPT // 16,
    }
    made = []

    async def page(scope, receive, send):
        made.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b" " * bodies[scope["path"]]})

    once = Once(page, lambda key: False)
    browser = httpx.AsyncClient(transport=httpx.ASGITransport(once), base_url="http://lab")

    async def ask_all():
        for number in range(40):
            for path in bodies:
                method = "GET" if "file" in path else "POST"
                assert (await browser.request(method, path, headers={KEY: str(number)})).status_code == 200
            again = await browser.post("/gradio_api/run/usual", headers={KEY: str(number), AGAIN: "1"})
            assert again.status_code == 200

    result_of(ask_all())
    assert {path: made.count(path) for path in bodies} == dict.fromkeys(bodies, 40)
    kept = [sum(len(message.get("body", b"")) for message in reply.result()) for reply in once._replies.values()]
    assert sum(kept) <= BYTES_KEPT and len(kept) == 16 and ASKS.fullmatch("/gradio_api/queue/join")


def test_a_server_knows_its_own_host_names():
    table = yaml.safe_load((TABLES / "hosts.yaml").read_text())["own"]
    found = [[*row[:3], OwnHosts(*row[:2]).rejected_host(Headers({"host": row[2]})) is None] for row in table]
    assert found == table


def test_further_host_names_come_from_the_environment():
    assert from_environment({"ASSAY_ALLOW_HOST": "lab.example box"}).hosts == ("lab.example", "box")


def test_names_and_cells_of_others_give_the_terminal_no_orders(capsys):
    emit([], as_json=False, table=table_of("Log", ("who",), [("x\x1b[2J\x9b2J ada",)]))
    notes.print("no file \x1b]0;owned\x07.csv")
    shown = "".join(capsys.readouterr())
    assert "x\ufffd[2J\ufffd2J ada" in shown and not re.search("[\x07\x1b\x9b]", shown)
