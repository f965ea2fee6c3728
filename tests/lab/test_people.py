"""Who may enter the lab and what they may do there, tried on the real page over HTTP, past its buttons."""

import json
import logging
import re
import socket
import sqlite3

import gradio as gr
import httpx
import pytest
import safehttpx

from evals.errors import LabError
from lab import guard
from lab.commands.lab import check_door
from lab.middleware import UploadLimit
from lab.settings import from_environment, hash_password, read_people, role_needed
from tests.lab.chains import lab_with
from tests.lab.served import ON_AIR, PASSWORD, Browser, entered, on_air
from tests.lab.votes import answer, vote

ADMIN = """annotate_drop annotate_make annotate_rename annotate_rubric annotate_sources annotate_stages annotate_train export_said home_train preferences_train
publish_look publish_plan publish_start questions_batch questions_delete reload_model results_delete results_rename train_check
train_delete train_measure train_rename train_resume train_start train_stop"""


def test_a_file_of_people_holds_no_password_and_a_bad_line_is_never_repeated(file_of_people, people, tmp_path):
    path = file_of_people
    assert PASSWORD not in path.read_text() and path.stat().st_mode & 0o077 == 0
    assert hash_password("same") != hash_password("same")
    roles = {"ada": "admin", "rob": "rater", "kim": "rater", "rea": "reader"}
    assert {name: person.role for name, person in people.items()} == roles
    path = tmp_path / "people"
    for text, told in {"kim:secret\n": "line 1", "kim:admin:secret\n": "line 1", "": "is empty"}.items():
        path.write_text(text)
        with pytest.raises(LabError, match=told) as caught:
            read_people(path)
        assert "secret" not in str(caught.value)


def test_every_event_of_the_page_that_only_an_admin_may_call_is_known(open_lab):
    events = {each["api_name"] for each in open_lab.get_config_file()["dependencies"]}
    assert {each for each in events if role_needed(each) == "admin"} == set(ADMIN.split())
    assert role_needed("an_event_of_tomorrow") == "admin"


CALLS = {
    "reader": ("rea", {"preferences": True, "undo": False, "export_said": False, "train_stop": False}),
    "rater": ("rob", {"preferences": True, "undo": True, "export_said": False, "train_start": False}),
    "admin": ("ada", {"preferences": True, "undo": True, "annotate_sources": True}),
}


@ON_AIR
def test_the_api_around_the_page_asks_for_the_same_roles(guarded):
    app, room = guarded
    config = {each["api_name"]: each for each in app.get_config_file()["dependencies"]}
    for name, calls in CALLS.values():
        with entered(app.local_url, name) as browser:
            for event, may in calls.items():
                known = config[event]
                payload = {"data": [None] * len(known["inputs"]), "fn_index": known["id"], "session_hash": name}
                replies = [browser.post(f"/gradio_api/run/{event}", json=payload).text]
                replies += [browser.post("/gradio_api/run/predict", json=payload).text]
                called = browser.post(f"/gradio_api/call/{event}", json={"data": payload["data"]})
                if called.status_code == 200:
                    replies.append(browser.get(f"/gradio_api/call/{event}/{called.json()['event_id']}").text)
                batched = browser.post("/gradio_api/run/predict", json={**payload, "batched": True}).text
                assert "cannot read this request" in batched, "Gradio makes of it a list of requests"
                for reply in replies:
                    assert ("needs the role" in reply) is not may, (name, event, reply[:300])
    assert httpx.post(f"{app.local_url}gradio_api/run/preferences", json={"data": []}).status_code == 401
    with entered(app.local_url, "rob") as rob:  # who shares a computer sees whose page it is, and leaves
        shown = rob.post("/gradio_api/run/home", json={"data": [None], "session_hash": "robs"}).text
        ids = {each["props"].get("elem_id"): each["id"] for each in app.get_config_file()["components"]}
        own = [ids["annotate-manage"]]  # what a rater may not do is not offered
        first = next(each["id"] for each in app.get_config_file()["dependencies"] if each["outputs"] == own)
        folds = {"data": [], "fn_index": first, "session_hash": "robs"}
        assert rob.post("/gradio_api/run/predict", json=folds).text.count('"visible":false') == 1
        assert "Signed in as rob, rater." in shown and rob.get("/config").status_code == 200
        assert (rob.get("/logout?all_session=false").status_code, rob.get("/config").status_code) == (405, 200)
        rob.post("/logout?all_session=false")
        assert rob.get("/config").status_code == 401
    with entered(app.local_url, "rob", "wrong password") as stranger:
        assert stranger.get("/config").status_code == 401
    log = [(deed.who, deed.what) for deed in room.store.deeds(50)]
    assert ("rob", "wrong password") in log and ("ada", "logged in") in log
    assert {what for who, what in log if who == "ada"} == {"logged in", "annotate_sources"}


@ON_AIR
def test_a_session_of_another_name_is_not_taken_over(guarded):
    app, _ = guarded
    known = next(each for each in app.get_config_file()["dependencies"] if each["api_name"] == "undo")
    payload = {"data": [None] * len(known["inputs"]), "fn_index": known["id"], "session_hash": "adas"}
    with entered(app.local_url, "ada") as ada, entered(app.local_url, "rob") as rob:
        assert "another name" not in ada.post("/gradio_api/run/undo", json=payload).text
        assert "another name" in rob.post("/gradio_api/run/undo", json=payload).text


@ON_AIR
def test_somebody_who_asks_too_often_is_told_when_to_go_on_and_admins_are_not_held(guarded, monkeypatch):
    monkeypatch.setattr(guard, "PER_MINUTE", 2)
    app, _ = guarded
    for name, refused in (("kim", 1), ("ada", 0)):
        with entered(app.local_url, name) as web:
            browser = Browser(app, web)
            replies = [browser.call("ask", "Which way does adipogenesis move?", 7, 8, 0, "", "") for _ in range(3)]
        assert sum("questions a minute is the limit" in reply for reply in replies) == refused


def test_a_page_that_others_reach_asks_for_names_unless_everybody_is_wanted(tmp_path):
    alone = from_environment({})
    on_network = from_environment({"GRADIO_SERVER_NAME": "0.0.0.0"})
    check_door(alone)
    with pytest.raises(LabError, match="assay people add NAME"):
        check_door(on_network)
    for more in ({"ASSAY_ALLOW_EVERYONE": "1"}, {"ASSAY_PEOPLE": str(tmp_path / "people")}, {"SPACE_ID": "org/lab"}):
        check_door(from_environment({"GRADIO_SERVER_NAME": "0.0.0.0", **more}))
    assert (alone.everyone, on_network.everyone, from_environment({"SPACE_ID": "org/lab"}).everyone) == (
        "admin",
        "rater",
        "rater",
    )


def test_a_backup_is_a_whole_database_and_overwrites_nothing(services, tmp_path):
    services.log("ada", "train_start", "my-run")
    copy = tmp_path / "copy.db"
    services.store.back_up(copy)
    with pytest.raises(LabError, match="overwrites nothing"):
        services.store.back_up(copy)
    services.log("ada", "train_stop", "my-run")
    with sqlite3.connect(copy) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("SELECT who, what FROM deeds").fetchall() == [("ada", "train_start")]


def test_all_there_is_of_somebody_is_deleted_on_request_but_for_what_others_judged(services):
    store = services.store
    asked = [answer(name, session=store.hash_rater("ask kim")) for name in "abc"]
    store.add_answers(asked)
    store.add_comparison(vote(asked[0], asked[1], "left"))
    store.add_comparison(vote(asked[1], asked[2], "tie", rater="lee"))
    gone = store.forget_rater("kim")
    assert {kind: n for kind, n in gone.items() if n} == {"answers": 1, "votes": 1}
    assert (store.counts().answers, len(store.comparisons())) == (2, 1)


# ---- attacks ----------------------------------------------------------------------------------

MARKER = "<img src=x onerror=alert(1)>"
VISITOR = httpx.Client(timeout=60)


ALIKE = re.compile("^(rate|pair|leaderboard_row|calibration_row)_")
"""The panels to rate in, whose events do the same."""


def typed_into(app, value):
    """Yield each event that has a field that a browser fills in, with this in every one; of those alike one each."""
    config, known = app.get_config_file(), set()
    kinds = {each["id"]: each["type"] for each in config["components"]}
    for event in config["dependencies"]:
        data = [None if kinds[part] == "state" else value for part in event["inputs"]]
        name = ALIKE.sub("annotate_", str(event["api_name"]))
        if event["backend_fn"] and event["api_name"] and any(data) and name not in known:
            known.add(name)
            yield event, kinds, {"data": data, "fn_index": event["id"], "session_hash": "one page"}


@pytest.mark.slow
@ON_AIR
def test_no_event_reads_a_file_or_an_address_that_it_is_given(open_lab, tmp_path, monkeypatch):
    async def unknown(hostname):
        return []

    monkeypatch.setattr(
        safehttpx, "async_resolve_hostname_google", unknown
    )  # asks a server outside, which tests may not
    secret = tmp_path / "secret.txt"
    secret.write_text("root:x:0")
    with socket.create_server(("127.0.0.1", 0)) as inside:
        inside.settimeout(0.2)
        address = f"http://127.0.0.1:{inside.getsockname()[1]}/secret"
        given = [str(secret), f"../../../../../../../..{secret}"]
        given += [{"path": each, "meta": {"_type": "gradio.FileData"}} for each in (str(secret), address)]
        given += [{"path": "x.pdf", "url": address, "meta": {"_type": "gradio.FileData"}}]
        for value in given:
            for event, kinds, payload in typed_into(open_lab, value):
                takes_file = {"file", "uploadbutton"} & {kinds[part] for part in event["inputs"]}
                if not takes_file and (event["queue"] or isinstance(value, dict)):
                    continue
                reply = VISITOR.post(f"{open_lab.local_url}gradio_api/run/predict", json=payload).text
                if event["queue"]:
                    typed = [each for each in payload["data"] if each is not None]
                    reply += Browser(open_lab).call(event["api_name"], *typed)
                assert "root:x:0" not in reply, payload
        with pytest.raises(TimeoutError):
            inside.accept()


@ON_AIR
def test_markup_comes_back_as_text_from_whatever_answers_at_once(open_lab):
    for event, kinds, payload in typed_into(open_lab, MARKER):
        shown = [at for at, part in enumerate(event["outputs"]) if kinds[part] in ("html", "markdown")]
        if shown:
            reply = VISITOR.post(f"{open_lab.local_url}gradio_api/run/predict", json=payload).json()
            assert MARKER not in str([reply["data"][at] for at in shown] if "data" in reply else ""), event["api_name"]


@pytest.fixture
def no_upload(guarded, monkeypatch):
    """Forget what other tests have uploaded."""
    with monkeypatch.context() as at_once:
        at_once.setattr(UploadLimit, "SECONDS", 0)
        httpx.post(f"{guarded[0].local_url}gradio_api/upload", files={"files": ("a.txt", b"x")})


@ON_AIR
@pytest.mark.usefixtures("no_upload")
def test_uploads_have_a_limit_an_hour_and_files_go_after_a_day(guarded, monkeypatch):
    monkeypatch.setattr(UploadLimit, "MOST", 2)
    monkeypatch.setattr(UploadLimit, "MOST_BYTES", 2000)
    app, _ = guarded
    with entered(app.local_url, "ada") as browser:
        replies = [browser.post("/gradio_api/upload", files={"files": ("a.txt", b"x" * 100)}) for _ in range(3)]
        assert [each.status_code for each in replies] == [200, 200, 429]
        assert "an hour is the limit" in replies[-1].text
        monkeypatch.setattr(UploadLimit, "MOST", 9)
        assert browser.post("/gradio_api/upload", files={"files": ("a.txt", b"x" * 1900)}).status_code == 429
        monkeypatch.setattr(UploadLimit, "MOST_BYTES", 10**9)
        assert browser.post("/gradio_api/upload", files={"files": ("a.pdf", bytes(60_000_000))}).status_code == 413
    assert app.delete_cache == (3600, 86_400)


@ON_AIR
@pytest.mark.usefixtures("no_upload")
def test_no_other_way_in_takes_a_file_or_keeps_what_is_said_and_each_name_has_its_own_limit(guarded, monkeypatch):
    monkeypatch.setattr(UploadLimit, "MOST", 1)
    app, _ = guarded
    assert app.get_config_file()["run_history"] is False
    for name in ("rob", "rea"):  # behind one address
        with entered(app.local_url, name) as browser:
            file = {"files": ("a.txt", b"x")}
            sent = [browser.post("/gradio_api/upload", files=file).status_code for _ in range(2)]
            assert sent == [200, 429], name
            assert browser.get("/gradio_api/file=%20HTTPS://example.org/").status_code == 404


@ON_AIR
def test_who_logs_in_gets_a_new_session_and_the_description_of_the_api_is_for_those_alone(guarded):
    app, _ = guarded
    planted = {f"access-token-unsecure-{app.app.cookie_id}": "planted"}
    form = {"username": "rob", "password": PASSWORD}
    with httpx.Client(base_url=app.local_url, cookies=planted, timeout=60) as browser:
        assert browser.get("/config").status_code == 401
        given = browser.post("/login", data=form).cookies
        assert "planted" not in given.values() and len(set(given.values())) == 1
    with httpx.Client(base_url=app.local_url, cookies=planted, timeout=60) as thief:
        assert thief.get("/config").status_code == 401, "what was planted was not made good by the login"
    with entered(app.local_url, "rob") as browser:
        assert browser.get("/gradio_api/openapi.json").status_code == 200


# ---- whatever is sent to a public event --------------------------------------------------------

JUNK = (None, ["a", 1], {"a": 1}, -3, 10**30, float("inf"), "no such thing", "", True, 0.5, [[["x"]]], "a\0b", "\ud800")
TYPED = ("no such thing", "../../etc/passwd", "?tab=leaderboard&row=-1&page=1e400&set=<b>", "{a: [", "9" * 40, "")
CLICKS = (None, 3, [], {"id": None}, {"id": [1], "do": {}}, {"id": "zz", "do": "edit"}, {"id": "-5", "do": "rate"})
UNREADABLE = {
    "run/no_such_event": '{"data": []}',
    "run/predict": '{"data": [], "fn_index": 99999}',
    "call/no_such_event": '{"data": []}',
    "call/v2/no_such_event": "{}",
    "queue/join": '{"data": [], "fn_index": -1, "session_hash": "s"}',
    "component_server": '{"data": 1, "component_id": 99999, "fn_name": "x", "session_hash": "s"}',
    "run/model": '{"data": "\\ud800"}',
}


def public(app: gr.Blocks) -> list:
    """The public events, of those that do the same (the panels to rate in) one each."""
    named = {event.api_name: event for event in app.fns.values() if event.api_visibility == "public"}
    alike = {ALIKE.sub("annotate_", name): named[name] for name in named}
    return list(alike.values())


def test_each_field_of_each_public_event_says_what_it_takes(open_lab):
    told = set()
    for event in public(open_lab):
        for field in event.inputs:
            told |= {guard.refusal(field, junk) for junk in JUNK if not field.stateful}
    assert any("a number from " in each for each in told) and len(told) > 10


@pytest.mark.slow
@ON_AIR
def test_junk_of_any_kind_is_told_in_words_and_leaves_no_traceback(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.setattr(guard, "PER_MINUTE", 10**6)
    caplog.set_level(logging.WARNING)
    with on_air(lab_with(tmp_path)) as app, httpx.Client(base_url=f"{app.local_url}gradio_api/", timeout=60) as web:

        def send(event, data, click=None):
            body = {"data": data, "fn_index": event._id, "session_hash": "s", "event_data": click}
            content = json.dumps(body, default=str).replace("Infinity", "1e400")
            path = "queue/join" if event.queue else f"run/{event.api_name}"
            reply = web.post(path, content=content, headers={"content-type": "application/json"})
            if not event.queue or reply.status_code != 200:
                return reply.status_code, reply.text
            with web.stream("GET", "queue/data", params={"session_hash": "s"}) as lines:
                done = next(line for line in lines.iter_lines() if "process_completed" in line)
            return 200, done

        meet = next(event for event in app.fns.values() if event.api_name == "meet")
        assert send(meet, [None] * len(meet.inputs))[0] == 200
        broken = {}
        for number, event in enumerate(public(app)):
            usual = [None if field.stateful else field.value for field in event.inputs]
            cases = [(usual, CLICKS[number % len(CLICKS)]), ([None] * len(usual), None), (usual[:-1], None)]
            fields = [place for place, field in enumerate(event.inputs) if not field.stateful]
            for turn in range(3 if fields else 0):
                place, junk = fields[(number + turn) % len(fields)], JUNK[(number + turn) % len(JUNK)]
                cases.append(([*usual[:place], junk, *usual[place + 1 :]], None))
                words = TYPED[(number + turn) % len(TYPED)]
                is_typed = [isinstance(field, gr.Textbox) for field in event.inputs]
                cases.append(([words if typed else each for typed, each in zip(is_typed, usual, strict=True)], None))
            for data, click in cases:
                status, reply = send(event, data, click)
                log = capsys.readouterr().err
                if status >= 500 or "Traceback" in log or '"error":null' in reply.replace(" ", ""):
                    broken[f"{event.api_name} {data} {click}"[:300]] = (status, reply[:200], log[-400:])
        for path, content in UNREADABLE.items():
            reply = web.post(path, content=content, headers={"content-type": "application/json"})
            log = capsys.readouterr().err
            if not 400 <= reply.status_code < 500 or "Traceback" in log:
                broken[path] = (reply.status_code, reply.text, log[-400:])
        for path in ("call/model/0", "call/v2/model/0"):
            assert "event: error" in web.get(path).text and "Traceback" not in capsys.readouterr().err
    assert not broken, "\n".join(f"{name}: {told[0]} {told[2][-160:]}" for name, told in broken.items())
    logged = [each.getMessage() for each in caplog.records if each.name.startswith("lab.")]
    assert any("takes one of its choices" in each for each in logged)
    assert [each for each in logged if "\n" in each] == []
