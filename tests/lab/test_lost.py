"""Nothing is lost: what was kept is kept once, and whoever tries in vain to keep something is told."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx

from evals.schema.votes import Guidelines
from lab.middleware import AGAIN, KEY
from lab.shared.rater import item_of_answer, new_project
from lab.store.database import open_engine
from tests.lab.chains import lab_with
from tests.lab.served import ON_AIR, on_air
from tests.lab.votes import answer

NOTE = ("annotate_note_wrong_fact", "which one?", "0-4")


def post(app, event, *typed, **headers):
    known = next(each for each in app.get_config_file()["dependencies"] if each["api_name"] == event)
    given = [*[None] * (len(known["inputs"]) - len(typed)), *typed]
    payload = {"data": given, "fn_index": known["id"], "session_hash": "s"}
    return httpx.post(f"{app.local_url}gradio_api/run/predict", json=payload, headers=headers, timeout=60)


def project_in(room):
    project = new_project(room, "Liver", 1, Guidelines(text="Look closely."))
    room.store.annotations.keep_project(project)
    room.store.annotations.add_items([item_of_answer(answer("a"), project.id)])
    return project


def opened(app, project):
    chosen = ("annotate_project", project.id, "rater", [], None)
    for event in (("meet", None), ("annotate_projects", None, "rater"), chosen):
        assert post(app, *event).status_code == 200


@ON_AIR
def test_what_is_sent_again_under_one_key_is_done_once_also_when_the_lab_was_started_anew(tmp_path):
    room = lab_with(tmp_path)
    project = project_in(room)
    with on_air(room, ("Annotate",)) as app:
        opened(app, project)
        with ThreadPoolExecutor(8) as pool:
            replies = [*pool.map(lambda _: post(app, *NOTE, **{KEY: "k", AGAIN: "1"}), range(8))]
        assert {(each.status_code, each.text) for each in replies} == {(200, replies[0].text)}
        room.store.close()
    anew = lab_with(tmp_path)
    with on_air(anew, ("Annotate",)) as app:
        assert post(app, *NOTE, **{KEY: "k", AGAIN: "1"}).status_code == 409
        assert "problem" in post(app, *NOTE, **{KEY: "another", AGAIN: "1"}).text, "its page was of the lab before"
        (said,) = anew.store.annotations.latest(project.id)
        assert [each.comment for each in said.notes] == ["which one?"]


@ON_AIR
def test_while_another_program_holds_the_database_a_rater_is_told_and_the_next_press_is_kept_once(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(open_engine, "__defaults__", (0.3,))
    room = lab_with(tmp_path)
    project = project_in(room)
    with (
        on_air(room, ("Annotate",)) as app,
        closing(sqlite3.connect(tmp_path / "assay.db", isolation_level=None)) as other,
    ):
        opened(app, project)
        other.execute("BEGIN EXCLUSIVE")
        told = post(app, *NOTE, **{KEY: "k"})
        other.execute("ROLLBACK")
        assert "Another program holds the file" in told.text and "Traceback" not in told.text, told.text
        assert "assay.db" not in told.text and "assay.db failed" in caplog.text, "where it lies is for the log alone"
        assert room.store.annotations.latest(project.id) == ()
        assert {post(app, *NOTE, **{KEY: "pressed again"}).status_code for _ in range(2)} == {200}
        (said,) = room.store.annotations.latest(project.id)
        assert [each.comment for each in said.notes] == ["which one?"]
