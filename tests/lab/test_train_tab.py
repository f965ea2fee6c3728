"""The Train tab, as a browser asks for it, and the runs that it lists, follows, starts and stops."""

import json
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import gradio as gr
import psutil
import pytest
import yaml

from evals.errors import BadConfig, LabError
from evals.schema import ChainStage
from evals.schema.runs import RunProgress
from lab.session import door
from lab.settings import from_environment
from lab.shared import runs
from lab.shared.rows import chosen_rows, rows_page
from lab.shared.runner import (
    begin,
    delete_run,
    go_on,
    halt,
    how_started,
    preview,
    read_recipe,
    recipes,
    rename_run,
    why_not_here,
    with_values,
)
from lab.shared.runs import (
    ECHO_SECONDS,
    Launched,
    Watched,
    beside,
    find,
    first_to_show,
    follow,
    is_alive,
    look,
    progress_of,
    read_launch,
    stop_run,
)
from lab.train import tab as train
from lab.train.view import behind_step, facts, panel
from lab.ui.components import escape
from tests.lab.chains import manifest
from tests.lab.served import caller
from tests.lab.trainings import ROWS, allowed_in, now, plain, run_in, table
from tests.lab.votes import services_in
from tests.waiting import until
from training.launch.accelerate import Launch
from training.refiner_rewards import RefinerReward
from training.rewards import VerifierReward
from training.run.folder import read_completions


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
    drawn = json.loads(shown["train-loss"]["value"]["plot"])
    assert (drawn["data"][0]["name"], drawn["layout"]["xaxis"]["dtick"]) == ("loss", 1), "no part of a step is marked"
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
    assert (
        page.opened("runs/mine")[page.note] == ""
        and "The run runs/gone is no longer there" in page.opened("runs/gone")[page.note]
    )
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


# ---- training runs on the page --------------------------------------------------------------------


CASES = yaml.safe_load((Path(__file__).parent / "tables" / "training_page.yaml").read_text(encoding="utf-8"))


def seen_of(run, before=None):
    return follow(before or Watched(run.path))


def progress(run):
    return progress_of(look(run.path, now()), seen_of(run), now())


def shown(run):
    return panel(look(run.path, now()), seen_of(run), progress(run))


def launched_beside(run, **changes):
    """Write what the lab keeps beside a run that it has started, on a machine that is gone unless it is told."""
    fields = {"line": ("x",), "processes": 1, "pid": 1, "host": "gone", "born": 0, "started_at": now()}
    beside(run).mkdir(parents=True, exist_ok=True)
    (beside(run) / "launch.json").write_text(Launched(**fields | changes).model_dump_json())


# ---- which runs there are, and how they stand ---------------------------------------------------


def test_runs_are_found_wherever_they_were_started_once_and_the_newest_first(tmp_path):
    old, new = now() - timedelta(days=2), now() - timedelta(days=1)
    run_in(tmp_path / "runs" / "old", started_at=old, status="finished")
    run_in(tmp_path / "runs" / "rates" / "1", started_at=new, status="stopped")
    found = find([tmp_path / "runs", tmp_path / "absent"], now())
    assert [(each.name, each.state) for each in found] == [("runs/rates/1", "stopped"), ("runs/old", "finished")]
    launched_beside(tmp_path / "runs" / "early")
    launched_beside(tmp_path / "runs" / "old")
    assert sorted(each.name for each in find([tmp_path / "runs"], now())) == ["runs/early", "runs/old", "runs/rates/1"]


@pytest.mark.parametrize(("runs", "first"), CASES["first"])
def test_the_first_run_shown_is_one_at_work_then_ones_own_then_one_with_answers(tmp_path, runs, first):
    for age, (name, state) in enumerate(runs.items()):
        run = run_in(tmp_path / name.rstrip("*"), started_at=now() - timedelta(minutes=age), status=state)
        if name.endswith("*"):
            run.completions.mkdir()
    found = find([tmp_path / "runs", tmp_path / "shipped"], now())
    assert first_to_show(found, tmp_path / "shipped").path.name == first


def test_a_run_is_judged_by_its_signs_of_life_and_stopped_only_where_it_was_started(tmp_path):
    run = run_in(tmp_path / "runs" / "mine", steps=3)
    assert look(run.path, now()).state == "running"
    assert look(run.path, now() + timedelta(hours=1)).state == "stalled"
    with pytest.raises(BadConfig, match="Ctrl-C in the terminal"):
        halt(run.path, allowed_in(tmp_path), now())
    launched_beside(run.path, started_at=now() - timedelta(hours=1))
    assert look(run.path, now()).state == "running"
    with pytest.raises(BadConfig, match="on this machine"):
        halt(run.path, allowed_in(tmp_path), now())


def test_a_run_killed_without_a_word_is_told_from_one_that_is_running(tmp_path):
    run = run_in(tmp_path / "mine", steps=2)
    launched_beside(run.path, pid=2**22 + 1, host=platform.node(), started_at=now() - timedelta(minutes=1))
    later = time.time() + 1
    os.utime(run.path / "run.json", (later, later))
    assert look(run.path, now()).state == "failed"
    assert "ended without a message" in plain(shown(run))


def test_a_run_record_that_cannot_be_read_is_named_and_does_not_hide_the_others(tmp_path):
    run_in(tmp_path / "good", status="finished")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    problems = {each.path.name: each.problem for each in find([tmp_path], now())}
    assert problems["good"] == ""
    assert "run record" in problems["bad"]


@pytest.mark.parametrize(("told", "words"), CASES["course"])
def test_what_the_process_of_a_run_does_stands_in_words_with_the_time_that_is_left(tmp_path, told, words):
    run = run_in(tmp_path / "mine")
    run.progress.write_text(RunProgress(at=now(), **told).model_dump_json())
    assert words in plain(shown(run))
    assert progress(run).seconds_left == pytest.approx(told.get("seconds_left"), abs=5)


def test_a_run_whose_process_lives_is_running_however_long_it_says_nothing(tmp_path):
    run, me = run_in(tmp_path / "mine", steps=1), psutil.Process()
    begun = now() - timedelta(minutes=1)
    launched_beside(run.path, pid=me.pid, host=platform.node(), born=me.create_time(), started_at=begun)
    assert look(run.path, now() + timedelta(hours=9)).state == "running"


# ---- what is followed and shown -----------------------------------------------------------------


def test_alerts_stand_in_words_their_markup_as_text(tmp_path):
    run = run_in(tmp_path / "mine", steps=1, command="<script>alert(1)</script>")
    run.append_metrics({"step": 1, "alert": "62% of groups <b>had</b> equal rewards"})
    assert "Step 1 62% of groups &lt;b&gt;had&lt;/b&gt; equal rewards" in shown(run).replace("</b> 62", " 62")
    assert "<script" not in shown(run) + facts(look(run.path, now()).record)


def test_a_torn_last_line_is_left_for_the_next_look_and_nothing_new_is_told_by_the_same_object(tmp_path):
    run = run_in(tmp_path / "mine", steps=2)
    table(run.completions, 1, *ROWS)
    with run.metrics.open("a") as file:
        file.write('{"step": 3, "lo')
    seen = seen_of(run)
    assert [row["step"] for row in seen.rows] == [1, 2]
    assert seen_of(run, seen) is seen
    with run.metrics.open("a") as file:
        file.write('ss": 0.25}\n')
    assert seen_of(run, seen).points("loss") == [(1, 1.0), (2, 0.5), (3, 0.25)]


def test_metrics_that_a_resumed_run_has_cut_are_read_anew(tmp_path):
    run = run_in(tmp_path / "mine", steps=9)
    seen = seen_of(run)
    run._cut_metrics(2)
    run.append_metrics({"step": 3, "loss": 7.0})
    again = seen_of(run, seen)
    assert again.points("loss")[-1] == (3, 7.0)
    assert len(again.rows) == 3


def test_a_table_of_answers_that_is_not_whole_is_left_for_the_next_look(tmp_path):
    run = run_in(tmp_path / "mine", steps=1)
    whole = table(run.completions, 1, *ROWS).read_bytes()
    (run.completions / "completions_00002.parquet").write_bytes(whole[: len(whole) // 2])
    seen = seen_of(run)
    assert [batch.step for batch in seen.batches] == [1]
    table(run.completions, 2, ("well", 0.1, 0.0, "no_claim", None))
    first, second = seen_of(run, seen).batches
    # over answers that were scored and state a confidence: |0 - 0.9| and |1 - 0.8|, one answer in each bin
    assert first.ece == pytest.approx((0.9 + 0.2) / 2)
    assert (second.step, second.ece) == (2, None)


def test_answers_are_sorted_whatever_their_stage_calls_the_reward_and_those_without_one_stand_last(tmp_path):
    behind = behind_step(read_completions(table(tmp_path, 1, *ROWS)), [1])
    orders = CASES["orders"]
    assert {order: [row.completion for row in chosen_rows(behind, {"sort": order})] for order in orders} == orders
    for step, kind in enumerate((VerifierReward, RefinerReward), start=2):
        name = vars(kind)["__name__"]  # of its instances, as TRL asks for it; not of the class
        assert [each.reward for each in read_completions(table(tmp_path, step, *ROWS, reward=name))] == [0.2, 0.9, None]


def test_a_sampled_answer_stands_with_its_figures_beside_the_others_to_its_question(tmp_path):
    (short,) = read_completions(table(tmp_path, 7, ("<b>down</b>", 0.9, 1.0, "correct", 0.8)))
    prompt = f"<question>\nIs it up?\n</question>\n<tool_output>\n{'a passage ' * 200}</tool_output>"
    twin = replace(short, prompt=prompt, completion="It is up", reward=0.1, verdict=None, why="no source")
    page = rows_page(behind_step([short, replace(short, prompt=prompt), twin], [7]), {"find": "a passage"})
    head, body, *_ = page.split("</summary>")
    assert head.endswith(escape("<b>down</b>") + "</span>") and "<question>" not in plain(head)
    assert escape(prompt) in body
    assert body.count('data-title="Answer 1"') == 1 and "reward 0.900 · advantage 1.000" in plain(body)
    assert "no source" in plain(body).lower() and body.count("<article") == 2


# ---- who may train, and a settings file as a form ------------------------------------------------


def test_a_page_that_anybody_can_reach_trains_nothing_unless_told_to(tmp_path):
    for changes, word in CASES["who"]:
        told = why_not_here(allowed_in(tmp_path, **changes))
        assert (word in told) if word else told == "", changes
    for environment, expected in CASES["surroundings"]:
        found = from_environment(environment).training
        assert [found.is_allowed, found.is_shared, found.is_space] == expected, environment
    with pytest.raises(BadConfig, match="ASSAY_ALLOW_TRAINING is 'yes'"):
        from_environment({"ASSAY_ALLOW_TRAINING": "yes"})


def test_what_is_not_allowed_is_refused_by_the_server_and_not_only_hidden(tmp_path):
    settings = allowed_in(tmp_path, is_shared=True)
    run = run_in(tmp_path / "runs" / "mine", status="stopped")
    recipe = read_recipe(recipes(tmp_path)["embedded/sft"])
    for act in (
        lambda: begin(recipe, settings, now()),
        lambda: go_on(run.path, settings, now()),
        lambda: halt(run.path, settings, now()),
    ):
        with pytest.raises(BadConfig, match="Anybody can reach"):
            act()
    assert not beside(run.path).exists()


def test_a_run_of_ones_own_is_renamed_and_deleted_unless_it_is_at_work_or_another_rests_on_it(services, tmp_path):
    services = replace(services, settings=replace(services.settings, training=allowed_in(tmp_path)))
    done, rest = run_in(tmp_path / "runs" / "done", status="finished"), tmp_path / "runs" / "rest"
    launched_beside(done.path)
    run_in(tmp_path / "runs" / "half", status="stopped")
    run_in(rest, status="finished")
    known = {"name": "sft", "kind": "sft", "mode": "stack", "sha256": "", "config_sha256": ""}
    stage = ChainStage(**known, path="../done/adapter", probe=manifest().base_probe)
    (rest / "chain.json").write_text(manifest().model_copy(update={"stages": (stage,)}).model_dump_json())
    for act, told in (
        (lambda: delete_run(services, "runs/done"), "runs/rest was trained on top of runs/done"),
        (lambda: rename_run(services, "runs/half", "new"), "is not finished"),
        (lambda: delete_run(services, "runs/nowhere"), "is not one of yours"),
    ):
        with pytest.raises(LabError, match=told):
            act()
    delete_run(services, "runs/rest")
    with pytest.raises(LabError, match="characters other than"):
        rename_run(services, "runs/done", "../half")
    target = rename_run(services, "runs/done", " first-try ")
    assert (target.name, beside(target).is_dir(), done.path.exists()) == ("first-try", True, False)
    delete_run(services, "runs/first-try")
    assert sorted(each.name for each in (tmp_path / "runs").iterdir()) == ["half"]


def recipe_for(folder, **fields):
    recipe = read_recipe(recipes(folder)["embedded/sft"])
    return replace(recipe, text=with_values(recipe.text, {"output": str(folder / "runs" / "new"), **fields}))


def test_the_preview_is_the_line_that_assay_train_runs_and_writes_nothing(tmp_path):
    told = preview(recipe_for(tmp_path), allowed_in(tmp_path))
    settings = tmp_path / "runs" / "new.lab" / "settings.yaml"
    assert told.line == Launch("cpu").line("sft", ("--config", str(settings)))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("fields", "message"), CASES["mistakes"])
def test_a_form_that_cannot_be_run_says_what_it_takes(tmp_path, fields, message):
    with pytest.raises(BadConfig, match=re.escape(message)):
        preview(recipe_for(tmp_path, **fields), allowed_in(tmp_path))


def test_a_second_training_is_refused_with_the_name_of_the_first(tmp_path):
    run_in(tmp_path / "runs" / "busy", steps=1)
    with pytest.raises(BadConfig, match="runs/busy is training, and this machine trains 1"):
        begin(recipe_for(tmp_path), allowed_in(tmp_path, at_once=1), now())


def test_a_run_of_several_processes_from_a_terminal_is_gone_on_with_by_as_many(tmp_path):
    command = "accelerate launch --config_file two.yaml -m training.sft --config mine.yaml"
    run = run_in(tmp_path / "mine", status="stopped", command=command, host={"processes": 2})
    assert how_started(look(run.path, now())) == (tuple(command.split()), 2)


def test_settings_that_extend_a_file_beside_them_fill_in_the_form_whole(tmp_path):
    shown = yaml.safe_load(read_recipe(recipes(tmp_path)["review/qwen3.5-9b-all"]).text)
    assert (shown["base"], shown["save_steps"], shown["max_length"]) == ("Qwen/Qwen3.5-9B", 592, 16384)
    (tmp_path / "mine.yaml").write_text("extends: none.yaml\nseed: 1\n")
    with pytest.raises(BadConfig, match=r"there is no settings file .*none.yaml"):
        read_recipe(tmp_path / "mine.yaml")


def test_a_settings_file_is_put_into_the_form_with_its_comments_stage_and_profile_and_values_are_set_in_place(tmp_path):
    recipe = read_recipe(recipes(tmp_path)["biorlhf/sft"])
    assert (recipe.stage, recipe.profile, "38 hours" in recipe.text) == ("sft", "single-gpu", True)
    text = "# why\ndata: [a]  # these\ntargets:\n  - q\n- k\nseed: 1\n"
    assert with_values(text, {"targets": ["v"], "data": "", "chain": "runs/a"}) == (
        "chain: runs/a\n# why\ntargets:\n- v\nseed: 1\n"
    )


# ---- processes: started, stopped, and why they ended ----------------------------------------------

PATIENT = """
import signal, sys, time
def stop(number, frame):
    print("got", signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM:
        sys.exit(0)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, stop)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


def test_a_training_leaves_the_processors_to_who_is_answered(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "command_of", lambda _: [sys.executable, "-c", PATIENT])
    process = psutil.Process(runs.start(tmp_path / "mine", ("accelerate", "launch"), 1, now()).pid)
    try:
        assert process.nice() >= 10
    finally:
        process.kill()


def test_stopping_interrupts_first_so_that_a_checkpoint_is_written_and_then_terminates(tmp_path):
    run = tmp_path / "mine"
    log = beside(run) / "log.txt"
    log.parent.mkdir(parents=True)
    with (
        log.open("wb") as file,
        subprocess.Popen([sys.executable, "-c", PATIENT], stdout=file, start_new_session=True) as process,
    ):
        try:
            here = {"pid": process.pid, "host": platform.node(), "born": time.time()}
            launched_beside(run, line=("accelerate", "launch", "-m", "training.sft"), **here)
            until(lambda: "ready" in log.read_text())
            known, asked = read_launch(run), now()
            assert is_alive(known)
            assert not is_alive(known.model_copy(update={"host": "elsewhere"})), "another machine"
            for born in (known.born - 3600, known.born + 3600):
                assert not is_alive(known.model_copy(update={"born": born})), "a process of the same number is another"
            assert look(run, asked).state == "starting"

            stop_run(run, read_launch(run), asked)
            until(lambda: "got SIGINT" in log.read_text())
            assert look(run, now()).state == "stopping"
            stop_run(run, read_launch(run), asked + timedelta(seconds=ECHO_SECONDS / 2))
            stop_run(run, read_launch(run), asked + timedelta(seconds=ECHO_SECONDS))
            until(lambda: "got SIGTERM" in log.read_text())

            assert log.read_text().split() == ["ready", "got", "SIGINT", "got", "SIGTERM"]
            until(lambda: not is_alive(read_launch(run)))
            assert look(run, now()).state == "stopped"
        finally:
            process.kill()
