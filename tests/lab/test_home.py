"""Home: what there is, one list of long work, the next sensible step, and the way from votes to a form that trains on them."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from evals.errors import LabError
from lab.compare.preferences import training_address
from lab.home.overview import ENOUGH_PAIRS, overview
from lab.home.work import shown_works, works
from lab.questions.session import QuestionSets
from lab.results.rows import read_place
from lab.roles import Person
from lab.settings import TrainingSettings
from lab.train.chains import chain_of, choices_of_chains
from lab.train.runner import proposed
from lab.train.runs import Launched, beside
from lab.visitors import Visitor
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


def vote(home, n, choice="left"):
    for number in range(n):
        cast(home.store, number, ("base", "sft"), choice)


STEPS = [
    ("nothing yet", 0, {}, "compare", "tab=compare"),
    ("a few votes", 3, {}, "more", "tab=compare"),
    ("enough votes", ENOUGH_PAIRS, {}, "train", ""),
    ("trained since the last vote, not measured", ENOUGH_PAIRS, {"name": "dpo"}, "measure", "tab=train&run=runs%2Fdpo"),
    ("measured", ENOUGH_PAIRS, {"name": "dpo", "reports": 1}, "publish", "tab=publish&run=runs%2Fdpo"),
    ("published", ENOUGH_PAIRS, {"name": "dpo", "reports": 1, "published": 1}, "more", "tab=compare"),
    ("votes after the run", 20, {"name": "d", "hours": -1, "reports": 1, "published": 1}, "train", ""),
    ("a reviewer is not measured on questions", 0, {"name": "r", "stage": "review"}, "compare", "tab=compare"),
]


def test_the_next_step_follows_from_what_is_there(home, tmp_path):
    wrong = []
    for number, (case, votes, run, name, address) in enumerate(STEPS):
        from tests.lab.votes import services_in

        (place := tmp_path / str(number)).mkdir()
        one = replace(services_in(place), settings=replace(home.settings, training=TrainingSettings((place / "runs",))))
        vote(one, votes)
        if run:
            finished(one, **run)
        step = overview(one).step
        if (step.name, step.href) != (name, f"?{address}" if address else "") or step.is_training != (name == "train"):
            wrong.append((case, step))
    assert wrong == []


def test_a_page_that_may_not_train_is_not_told_to(home):
    vote(home, ENOUGH_PAIRS)
    settings = replace(home.settings, training=replace(home.settings.training, is_allowed=False))
    closed = replace(home, settings=settings)
    assert overview(closed).step.name == "more"
    with pytest.raises(LabError, match="switched off"):
        training_address(closed)


def test_votes_become_a_data_set_that_the_form_is_filled_with(home, tmp_path):
    vote(home, 4)
    place = read_place(training_address(home), "train")
    rows = [json.loads(line) for line in Path(place["data"]).read_text().splitlines()]
    assert (place["stage"], len(rows)) == ("dpo", 4)
    assert {row["stage_chosen"] for row in rows} == {"base"}
    recipe = proposed("dpo", place["data"], "embedded", home.settings.training)
    assert recipe.fields["data"] == place["data"]
    assert (recipe.fields["chain"], recipe.fields["output"]) == ("embedded", str(tmp_path / "runs" / "dpo-1"))
    assert recipe.rest.startswith("base: embedded\n")
    given = read_place(training_address(home, {"train.jsonl": "what raters said"}), "train")
    assert Path(given["data"]).read_text() == "what raters said"


def test_runs_and_jobs_stand_in_one_list_what_is_under_way_first_and_names_are_for_admins(home):
    folder = finished(home, "mine")
    launched = {"line": ("x",), "processes": 1, "pid": 1, "booted": 0, "born": 1, "started_at": NOON, "who": "kim"}
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


def test_stored_question_sets_are_listed_the_versions_for_all_and_drafts_for_whose_they_are(home):
    ada, editor = Visitor("a", "p", "name:ada"), QuestionSets(home, Visitor("b", "q", "name:bo"))
    version = editor.freeze(editor.bring_named("codons-and-enzymes").id)
    draft = QuestionSets(home, ada).bring_named("codons-and-enzymes")
    listed = {ada: [draft, version], None: [version]}
    for visitor, sets in listed.items():
        stored = [(what, to) for what, _, to in overview(home, visitor).sets if to]
        assert [to for _, to in stored] == [f"?tab=questions&set={each.id}" for each in sets]
        assert all(each.title in what for each, (what, _) in zip(sets, stored, strict=True))


def test_the_chains_of_finished_runs_can_be_asked_and_no_other_folder(home):
    shipped = TrainingSettings((Path("training/embedded"),))
    here = replace(home, settings=replace(home.settings, training=shipped))
    assert ("embedded/dpo: sft → dpo", "embedded/dpo") in choices_of_chains(here)
    assert chain_of(here, "embedded/dpo").endswith("training/embedded/dpo")
    assert chain_of(here, "") == chain_of(here, None) == ""
    for name in ("/etc", "training/embedded/dpo", "../dpo"):
        with pytest.raises(LabError, match="no finished run"):
            chain_of(here, name)
