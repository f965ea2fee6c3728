"""Home: what there is, one list of long work, and the way from votes to a form that trains on them."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import yaml

from evals.errors import LabError
from lab.middleware import FrontPage
from lab.settings import Person, TrainingSettings, password_check
from lab.shared.exports import training_address
from lab.shared.rows import read_place
from lab.shared.runner import propose_recipe
from lab.shared.runs import Launched, beside, chain_of, choices_of_chains
from lab.shared.work import shown_works, works
from tests.lab.chains import lab_with
from tests.lab.served import ON_AIR, entered, on_air
from tests.lab.trainings import plain, run_in
from tests.lab.votes import NOON, cast


@pytest.fixture
def home(services, tmp_path):
    """A lab with a folder of runs that is empty."""
    return replace(services, settings=replace(services.settings, training=TrainingSettings((tmp_path / "runs",))))


def finished(home, name, stage="dpo", hours=2, **files):
    """Write a run that is over, with files named `reports` and `published`; return its folder."""
    folder = home.settings.training.runs[0] / name
    ends = {"status": "finished", "started_at": NOON + timedelta(hours=hours)}
    run_in(folder, 3, stage=stage, **ends)
    (folder / "chain.json").touch()
    for name in files:
        (folder / name).mkdir()
        (folder / name / "one.json").write_text("{}")
    return folder


def test_votes_become_a_data_set_that_the_form_is_filled_with(home, tmp_path):
    for number in range(4):
        cast(home.store, number, ("base", "sft"), "left")
    place = read_place(training_address(home), "train")
    rows = [json.loads(line) for line in Path(place["data"]).read_text().splitlines()]
    assert (place["stage"], len(rows)) == ("dpo", 4)
    assert {row["stage_chosen"] for row in rows} == {"base"}
    recipe = propose_recipe("dpo", place["data"], "embedded", home.settings.training)
    settings = yaml.safe_load(recipe.text)
    assert (settings["data"], settings["chain"]) == ([place["data"]], "embedded")
    assert settings["output"] == str(tmp_path / "runs" / "dpo-1")
    for stage, columns in (("kto", {"completion", "label"}), ("reward", {"chosen", "rejected"})):
        place = read_place(training_address(home, stage), "train")
        rows = [json.loads(line) for line in Path(place["data"]).read_text().splitlines()]
        assert place["stage"] == stage and columns <= rows[0].keys()
        recipe = propose_recipe(stage, place["data"], "embedded", home.settings.training)
        assert yaml.safe_load(recipe.text)["output"] == str(tmp_path / "runs" / f"{stage}-1")
    closed = replace(home, settings=replace(home.settings, training=replace(home.settings.training, is_allowed=False)))
    with pytest.raises(LabError, match="switched off"):
        training_address(closed)
    given = read_place(training_address(home, "dpo", {"train.jsonl": "what raters said"}), "train")
    assert Path(given["data"]).read_text() == "what raters said"


def test_runs_and_jobs_stand_in_one_list_what_is_under_way_first_and_names_are_for_admins(home):
    folder = finished(home, "mine")
    launched = {"line": ("x",), "processes": 1, "pid": 1, "host": "gone", "born": 1, "started_at": NOON, "who": "kim"}
    beside(folder).mkdir()
    (beside(folder) / "launch.json").write_text(Launched(**launched).model_dump_json())
    name = home.jobs.start("publish", "Publish <b>mine</b>", {}, "ann")
    listed = works(home)
    assert [(each.title, each.state, each.who) for each in listed] == [
        ("Publish <b>mine</b>", "waiting", "ann"),
        ("runs/mine", "finished", "kim"),
    ]
    shown = shown_works(listed, is_admin=True)
    assert "by kim" in plain(shown)
    assert f'data-id="{name}"' in shown
    assert "<b>mine" not in shown
    told = plain(shown_works(listed, is_admin=False))
    assert "runs/mine finished" in told
    assert not {"kim", "ann", "Cancel"} & set(told.split())
    home.jobs.cancel(name)
    assert [each.state for each in works(home) if each.id == name] == ["cancelled"]


def test_who_signed_in_is_named_beside_their_job_and_a_hash_is_no_name(home):
    known = replace(home, people={"ada": Person("ada", "admin", "")})
    for rater in ("ada", "a browser"):
        known.jobs.start("batch", "Codons", {"name": "Codons v1"}, known.store.hash_rater(rater))
    assert sorted(each.who for each in works(known)) == ["", "ada"]


def test_the_chains_of_finished_runs_can_be_asked_and_no_other_folder(home):
    shipped = TrainingSettings((Path("training/embedded"),))
    here = replace(home, settings=replace(home.settings, training=shipped))
    assert ("embedded/dpo: sft → dpo", "embedded/dpo") in choices_of_chains(here)
    assert chain_of(here, "embedded/dpo").endswith("training/embedded/dpo")
    assert chain_of(here, "") == chain_of(here, None) == ""
    for name in ("/etc", "training/embedded/dpo", "../dpo"):
        with pytest.raises(LabError, match="no finished run"):
            chain_of(here, name)


def first_page(reply):
    """Return what the fields of the first HTML hold, by their ids, and for whom it was made."""
    config = json.loads(re.search(r"gradio_config = (.*?);</script>", reply.raise_for_status().text, re.DOTALL)[1])
    held = {each["props"].get("elem_id"): str(each["props"].get("value")) for each in config["components"]}
    return {name: plain(held[f"home-{name}"]) for name in ("figures", "work", "signed-in")}, config["username"]


@ON_AIR
def test_the_first_html_holds_what_home_says_once_the_database_is_open(tmp_path, monkeypatch):
    monkeypatch.setattr(FrontPage, "SECONDS", 0)
    room = lab_with(tmp_path)
    with on_air(room, ("Home",)) as app:
        assert first_page(httpx.get(app.local_url)) == ({"figures": "", "work": "", "signed-in": ""}, None)
        cast(room.store, 1, ("base", "sft"), "left")
        assert first_page(httpx.get(app.local_url))[0]["figures"].startswith("2 Answers 1 Votes")
        cast(room.store, 2, ("base", "sft"), "left")
        room.jobs.start("publish", "Publish </script><b>mine</b>", {}, "ann")
        seen = first_page(httpx.get(app.local_url, params={"tab": "home"}))[0]
        assert seen["figures"].startswith("4 Answers 2 Votes")
        assert "Publish &lt;/script&gt;&lt;b&gt;mine&lt;/b&gt; waiting" in seen["work"]


@ON_AIR
def test_nothing_of_one_visitor_stands_in_the_first_html_of_another(tmp_path, people):
    room = replace(lab_with(tmp_path), people=people)
    with on_air(room, ("Home",), auth=password_check(people, room.log)) as app:
        room.jobs.start("review", "Review of a paper of mine", {}, room.store.hash_rater("rob"))
        with entered(app.local_url, "ada") as admin, entered(app.local_url, "rob") as rater:
            for _ in range(2):
                held, name = first_page(admin.get("/"))
                assert name == "ada" and "ada, admin" in held["signed-in"] and "of a paper of mine" in held["work"]
                held, name = first_page(rater.get("/"))
                assert name == "rob" and "rob, rater" in held["signed-in"] and "of a paper of mine" not in held["work"]
        stranger = httpx.get(app.local_url).text
        assert not [
            word for word in ("ada", "rob", "of a paper of mine") if f"{word}," in stranger or f"{word}<" in stranger
        ]


@ON_AIR
def test_the_page_is_made_for_each_address_of_the_lab_and_its_programs_are_told_no_less(open_lab):
    for host in ("127.0.0.1", "localhost"):
        sent = httpx.get(open_lab.local_url, headers={"host": f"{host}:{open_lab.server_port}"}).text
        assert f'"root":"http://{host}:{open_lab.server_port}"' in sent
        assert "code_snippets" not in sent
    assert "code_snippets" in httpx.get(f"{open_lab.local_url}gradio_api/info").text
