"""Home: what there is, one list of long work, and the way from votes to a form that trains on them."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from evals.errors import LabError
from lab.exports import training_address
from lab.settings import Person, TrainingSettings
from lab.shared.rows import read_place
from lab.shared.runner import propose_recipe
from lab.shared.runs import Launched, beside, chain_of, choices_of_chains
from lab.shared.work import shown_works, works
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
    closed = replace(home, settings=replace(home.settings, training=replace(home.settings.training, is_allowed=False)))
    with pytest.raises(LabError, match="switched off"):
        training_address(closed)
    given = read_place(training_address(home, {"train.jsonl": "what raters said"}), "train")
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
