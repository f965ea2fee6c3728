"""What the Train tab shows over HTTP, as a browser asks for it."""

import json
from dataclasses import replace

import gradio as gr
import pytest

from lab.session import door
from lab.train import tab as train
from tests.lab.served import caller
from tests.lab.trainings import ROWS, allowed_in, now, plain, run_in, table
from tests.lab.votes import services_in


def page_of(services):
    with gr.Blocks() as page, gr.Tab("Train") as tab:
        train.build(services, door(), tab)
    return page


def called(page, name, *values):
    """Run an event over HTTP and return what each named component is told."""
    entry = next(e for e in page.get_config_file()["dependencies"] if e["api_name"] == name)
    given = caller(page)(name, *values)
    ids = {part["id"]: part["props"].get("elem_id") for part in page.get_config_file()["components"]}
    return {ids[n]: value for n, value in zip(entry["outputs"], given, strict=True)}


def services_for(tmp_path, **changes):
    services = services_in(tmp_path)
    settings = replace(services.settings, training=allowed_in(tmp_path, **changes))
    return replace(services, settings=settings, now=now)


def opened(folder, **changes):
    """Return what a visitor sees who opens the tab."""
    return called(page_of(services_for(folder, **changes)), "train", "", None)


def test_the_tab_shows_the_newest_run_with_its_charts_and_answers(tmp_path):
    run = run_in(tmp_path / "runs" / "mine", steps=3, status="finished")
    table(run.completions, 3, *ROWS)
    (run.path / "chain.json").touch()
    shown = opened(tmp_path)
    assert "finished" in plain(shown["train-panel"])
    assert "assay" not in plain(shown["train-panel"]), "what the buttons do needs no terminal"
    assert [shown[f"train-{name}"]["visible"] for name in ("loss", "ece", "kl")] == [True, True, False]
    assert json.loads(shown["train-loss"]["value"]["plot"])["data"][0]["name"] == "loss"
    assert "question 1" in shown["train-answers"]
    assert shown["train-new"]["visible"]
    assert shown["publish"]["visible"]
    assert "open" not in shown["publish"], "a fold that was opened before the page had loaded stays open"


def test_charts_stand_beside_another_run_smoothed_and_on_a_log_scale(tmp_path):
    for name in ("mine", "other"):
        run_in(tmp_path / "runs" / name, steps=12, status="finished")
    with gr.Blocks():
        page = train.TrainPage(services_for(tmp_path))
    view = page.opened("runs/mine")[page.view]
    painted = page.on_look(view, "runs/other", 5, True)
    loss = next(plot for plot in page.plots if plot.elem_id == "train-loss")
    drawn = json.loads(painted[loss].value["plot"])
    assert [each["name"] for each in drawn["data"]] == ["loss", "loss, runs/other"]
    assert drawn["layout"]["yaxis"]["type"] == "log" and "(mean of 5)" in drawn["layout"]["title"]["text"]
    again = page.opened("runs/mine", painted[page.view])
    assert again[page.beside].value == "runs/other", "another look at the run keeps what was chosen"
    assert page.opened("runs/other", painted[page.view])[page.view].other is None


def test_the_address_names_the_run_and_the_step_whose_answers_are_shown(tmp_path):
    services = services_for(tmp_path)
    for name in ("mine", "other"):
        run = run_in(tmp_path / "runs" / name, steps=3, status="finished")
        for step in (2, 3):
            table(run.completions, step, *((f"answer {n} of {name}", n / 30, 0.0, None, 0.5) for n in range(23)))
    page = page_of(services)
    shown = called(page, "train", "?tab=train&run=other&step=2&page=2", None)["train-answers"]
    again = called(page, "train", "?tab=leaderboard&step=2", None)["train-answers"]
    services.store.close()
    assert "Answers sampled at step 2" in plain(shown) and shown.count("<details") == 3
    assert "answer 0 of other" in shown and 'aria-current="page">2' in shown
    assert "Answers sampled at step 3" in plain(again) and again.count("<details") == 20


NONE = [
    ({"stage": "sft", "status": "finished"}, "SFT samples no answers: it learns from those in its data"),
    ({"stage": "grpo", "status": "finished"}, "stored no sampled answers"),
    ({"stage": "grpo", "status": "running"}, "No answers yet: they are shown here after"),
]


@pytest.mark.parametrize(("changes", "told"), NONE)
def test_a_run_without_sampled_answers_says_why_there_are_none(tmp_path, changes, told):
    run_in(tmp_path / "runs" / "mine", steps=3, **changes)
    shown = opened(tmp_path)
    assert told in plain(shown["train-answers"])


def test_on_a_shared_page_runs_are_shown_and_nothing_can_be_started(tmp_path):
    run_in(tmp_path / "runs" / "mine", steps=3, status="stopped")
    shown = opened(tmp_path, is_shared=True)
    assert "Anybody can reach this page" in plain(shown["train-refused"])
    assert not shown["train-new"]["visible"]
    assert not shown["train-resume"]["visible"]
    assert "Step 3 of 10" in plain(shown["train-panel"])
    assert str(tmp_path) not in json.dumps(shown)


def test_a_run_that_stopped_itself_says_why_and_is_not_offered_to_be_resumed(tmp_path):
    why = {"stopped_because": "knowledge is being lost; raise beta"}
    run_in(tmp_path / "runs" / "mine", steps=3, status="stopped", result=why)
    shown = opened(tmp_path)
    assert "It stopped itself: knowledge is being lost" in plain(shown["train-panel"])
    assert "another limit" in plain(shown["train-panel"])
    assert not shown["train-resume"]["visible"]


def test_a_folder_outside_the_watched_ones_cannot_be_asked_for(tmp_path):
    run_in(tmp_path / "runs" / "mine", steps=1, status="finished")
    run_in(tmp_path / "secret", steps=1, status="stopped")
    with pytest.raises(AssertionError, match="error"):  # Gradio takes nothing that is not in the list
        called(page_of(services_for(tmp_path)), "train_run", str(tmp_path / "secret"))
