"""Who may train from the page, and starting, stopping and going on with a run."""

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from evals.errors import BadConfig
from lab.settings import from_environment
from lab.train.runner import begin, go_on, halt, how_started, preview, read_recipe, recipes, refusal
from lab.train.runs import (
    ECHO_SECONDS,
    Launched,
    Watched,
    beside,
    find,
    is_alive,
    look,
    progress_of,
    read_launch,
    start,
    stop,
)
from lab.train.view import panel
from tests.lab.trainings import allowed_in, boot, now, plain, record, run_in
from training.launch.accelerate import Launch

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, ""),
        ({"is_shared": True}, "Anybody can reach"),
        ({"is_shared": True, "is_allowed": True}, ""),
        ({"is_space": True}, "Hugging Face Space"),
        ({"is_allowed": False}, "switched off"),
    ],
)
def test_a_page_that_anybody_can_reach_trains_nothing_unless_told_to(tmp_path, changes, word):
    told = refusal(allowed_in(tmp_path, **changes))
    assert (word in told) if word else told == ""


def test_a_place_where_no_folder_can_be_made_is_named(tmp_path):
    (tmp_path / "runs").write_text("a file, where the runs should go")
    assert str(tmp_path / "runs") in refusal(allowed_in(tmp_path))
    assert str(tmp_path / "runs") in refusal(allowed_in(tmp_path / "runs"))


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (None, False, False)),
        ({"ASSAY_ALLOW_TRAINING": "1"}, (True, False, False)),
        ({"ASSAY_ALLOW_TRAINING": "0"}, (False, False, False)),
        ({"SPACE_ID": "a/b"}, (None, False, True)),
        ({"GRADIO_SERVER_NAME": "0.0.0.0"}, (None, True, False)),
    ],
)
def test_who_may_train_comes_from_the_surroundings(environment, expected):
    found = from_environment(environment).training
    assert (found.is_allowed, found.is_shared, found.is_space) == expected


def test_a_variable_that_makes_no_sense_is_refused():
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


def recipe_for(folder, **fields):
    recipe = read_recipe(recipes(folder)["embedded/sft"])
    output = str(folder / "runs" / "new")
    return replace(recipe, fields={**recipe.fields, "output": output, **fields})


def test_the_preview_is_the_line_that_assay_train_runs_and_writes_nothing(tmp_path):
    told = preview(recipe_for(tmp_path), allowed_in(tmp_path))
    settings = tmp_path / "runs" / "new.lab" / "settings.yaml"
    assert told.line == Launch("cpu").line("sft", ("--config", str(settings)))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"learning_rate": "fast"}, "the form sets learning_rate to 'fast'; it takes a number"),
        ({"lora_r": "0"}, "a whole number from 1 to 512"),
        ({"data": ""}, "data is not set; add data"),
        ({"output": "elsewhere/new"}, "where this page would not find it again"),
    ],
)
def test_a_form_that_cannot_be_run_says_what_it_takes(tmp_path, fields, message):
    with pytest.raises(BadConfig, match=re.escape(message)):
        preview(recipe_for(tmp_path, **fields), allowed_in(tmp_path))


def test_yaml_that_is_none_or_names_no_setting_is_refused_in_words(tmp_path):
    for rest, message in (("seed: [", "is not YAML"), ("sed: 1", "Did you mean seed")):
        with pytest.raises(BadConfig, match=message):
            preview(replace(recipe_for(tmp_path), rest=rest), allowed_in(tmp_path))


def test_a_second_training_is_refused_with_the_name_of_the_first(tmp_path):
    run_in(tmp_path / "runs" / "busy", steps=1)
    with pytest.raises(BadConfig, match="runs/busy is training, and this machine trains 1"):
        begin(recipe_for(tmp_path), allowed_in(tmp_path, at_once=1), now())


def test_a_run_of_several_processes_from_a_terminal_is_gone_on_with_by_as_many(tmp_path):
    command = "accelerate launch --config_file two.yaml -m training.sft --config mine.yaml"
    run = run_in(tmp_path / "mine", status="stopped", command=command, host={"processes": 2})
    assert how_started(look(run.path, now())) == (tuple(command.split()), 2)


def test_a_run_that_was_started_elsewhere_cannot_be_stopped_from_here(tmp_path):
    run = run_in(tmp_path / "runs" / "mine", steps=1)
    with pytest.raises(BadConfig, match="Ctrl-C in the terminal"):
        halt(run.path, allowed_in(tmp_path), now())


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


@pytest.fixture
def launched(tmp_path):
    """A process that waits for signals, in a group of its own, with a launch.json as start writes it."""
    run = tmp_path / "mine"
    log = beside(run) / "log.txt"
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-c", PATIENT], stdout=file, start_new_session=True)
    found = Launched(
        line=("accelerate", "launch", "-m", "training.sft"),
        processes=1,
        pid=process.pid,
        boot=boot(),
        born=0,
        started_at=now(),
    )
    (beside(run) / "launch.json").write_text(found.model_dump_json())
    until(lambda: "ready" in log.read_text())
    yield run, log
    process.kill()
    process.wait()


def until(happened, seconds=30.0):
    limit = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.02)


def test_stopping_interrupts_first_so_that_a_checkpoint_is_written_and_then_terminates(launched):
    run, log = launched
    asked = now()
    assert look(run, asked).state == "starting"

    stop(run, read_launch(run), asked)
    until(lambda: "got SIGINT" in log.read_text())
    assert look(run, now()).state == "stopping"
    stop(run, read_launch(run), asked + timedelta(seconds=ECHO_SECONDS / 2))
    stop(run, read_launch(run), asked + timedelta(seconds=ECHO_SECONDS))
    until(lambda: "got SIGTERM" in log.read_text())

    assert log.read_text().split() == ["ready", "got", "SIGINT", "got", "SIGTERM"]
    until(lambda: not is_alive(read_launch(run)))
    assert look(run, now()).state == "stopped"


def test_a_process_of_the_same_number_after_a_restart_of_the_machine_is_not_taken_for_the_run(launched):
    run, _ = launched
    known = read_launch(run)
    assert is_alive(known)
    assert not is_alive(known.model_copy(update={"boot": "another machine, or another start"}))
    if known.boot:
        assert not is_alive(known.model_copy(update={"born": 2**60}))


@pytest.mark.slow
def test_a_launch_that_fails_is_told_with_its_log_and_can_be_started_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    run = tmp_path / "runs" / "mine"
    start(run, ("accelerate", "launch", "--no_such_option"), 1, now())
    until(lambda: look(run, now()).state == "failed", seconds=90)
    assert "training_script" in (beside(run) / "log.txt").read_text()
    assert [each.state for each in find([tmp_path / "runs"], now())] == ["failed"]


def test_a_run_killed_without_a_word_is_told_from_one_that_is_running(tmp_path):
    run = run_in(tmp_path / "mine", steps=2)
    gone = Launched(line=("x",), processes=1, pid=2**22 + 1, boot=boot(), born=0, started_at=record().started_at)
    later = time.time() + 1
    os.utime(run.path / "run.json", (later, later))
    beside(run.path).mkdir()
    (beside(run.path) / "launch.json").write_text(gone.model_dump_json())
    training = look(run.path, now())
    assert training.state == "failed"
    seen = Watched(run.path)
    told = panel(training, seen, progress_of(training, seen, now()), now())
    assert "gone and left no word" in plain(told)
