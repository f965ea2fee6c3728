"""Which runs are found, how they stand, and what the page says of them."""

from datetime import timedelta

import pytest

from evals.errors import BadConfig
from lab.train.runner import halt
from lab.train.runs import Launched, Watched, beside, find, first_to_show, follow, look, progress_of
from lab.train.view import facts, panel
from tests.lab.trainings import allowed_in, now, plain, run_in
from training.run.folder import read_completions


def test_runs_are_found_wherever_they_were_started_the_newest_first(tmp_path):
    old, new = now() - timedelta(days=2), now() - timedelta(days=1)
    run_in(tmp_path / "runs" / "old", started_at=old, status="finished")
    run_in(tmp_path / "runs" / "sweep" / "1", started_at=new, status="stopped")
    found = find([tmp_path / "runs", tmp_path / "absent"], now())
    assert [(each.name, each.state) for each in found] == [("runs/sweep/1", "stopped"), ("runs/old", "finished")]


FIRST = [  # runs by folder, the newest first, with how each stands; which one is shown
    ({"shipped/dpo": "finished", "shipped/grpo*": "finished"}, "grpo"),
    ({"shipped/dpo": "finished", "shipped/sft": "finished"}, "dpo"),
    ({"shipped/grpo*": "finished", "runs/new": "stopped", "runs/old*": "finished"}, "new"),
    ({"runs/new*": "finished", "runs/old": "running"}, "old"),
    ({"runs/new": "finished", "shipped/sft": "running"}, "sft"),
]


@pytest.mark.parametrize(("runs", "first"), FIRST)
def test_the_first_run_shown_is_one_at_work_then_ones_own_then_one_with_answers(tmp_path, runs, first):
    for age, (name, state) in enumerate(runs.items()):
        begun = now() - timedelta(minutes=age)
        run = run_in(tmp_path / name.rstrip("*"), started_at=begun, status=state)
        if name.endswith("*"):
            run.completions.mkdir()
    found = find([tmp_path / "runs", tmp_path / "shipped"], now())
    assert first_to_show(found, tmp_path / "shipped").path.name == first


def launched_beside(run):
    """Write what the lab keeps beside a run that it has started, on a machine that is gone."""
    start = Launched(line=("x",), processes=1, pid=1, boot="other", born=0, started_at=now())
    beside(run).mkdir(parents=True)
    (beside(run) / "launch.json").write_text(start.model_dump_json())


def test_a_run_that_the_lab_has_started_stands_in_the_list_once(tmp_path):
    launched_beside(tmp_path / "runs" / "early")
    launched_beside(run_in(tmp_path / "runs" / "open", status="finished").path)

    names = [each.name for each in find([tmp_path / "runs"], now())]

    assert sorted(names) == ["runs/early", "runs/open"]


def test_a_run_that_has_written_nothing_for_long_is_called_stalled(tmp_path):
    run = run_in(tmp_path / "mine", steps=3)
    assert look(run.path, now()).state == "running"
    assert look(run.path, now() + timedelta(hours=1)).state == "stalled"


def test_a_run_that_the_lab_of_another_machine_has_started_is_judged_by_its_signs_of_life(tmp_path):
    run = run_in(tmp_path / "mine", steps=3)
    elsewhere = Launched(line=("x",), processes=1, pid=1, boot="other", born=0, started_at=now() - timedelta(hours=1))
    beside(run.path).mkdir()
    (beside(run.path) / "launch.json").write_text(elsewhere.model_dump_json())
    assert look(run.path, now()).state == "running"
    with pytest.raises(BadConfig, match="on this machine"):
        halt(run.path, allowed_in(tmp_path), now())


def test_a_run_record_that_cannot_be_read_is_named_and_does_not_hide_the_others(tmp_path):
    run_in(tmp_path / "good", status="finished")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text("{")
    problems = {each.path.name: each.problem for each in find([tmp_path], now())}
    assert problems["good"] == ""
    assert "run record" in problems["bad"]


def test_progress_and_time_left_come_from_the_steps_so_far(tmp_path):
    run = run_in(tmp_path / "mine")
    for step in (1, 2, 3, 4):
        run.append_metrics({"step": step, "step_time": 30.0})
    training = look(run.path, now())
    far = progress_of(training, follow(Watched(run.path), read_completions), now())
    assert (far.step, far.steps, far.share) == (4, 10, 0.4)
    assert far.seconds_left == pytest.approx(180, abs=5)


def test_steps_in_all_come_from_the_epochs_where_no_number_is_set(tmp_path):
    run = run_in(tmp_path / "mine", steps=4, config={"max_steps": 0, "epochs": 2.0})
    training = look(run.path, now())
    far = progress_of(training, follow(Watched(run.path), read_completions), now())
    assert far.steps == 20  # epoch 0.4 after 4 steps


def test_energy_is_shown_where_the_run_has_measured_it(tmp_path):
    measured = run_in(tmp_path / "a", status="finished", result={"energy_kwh": 0.125})
    silent = run_in(tmp_path / "b", status="finished")

    def shown(run):
        seen = Watched(run.path)
        training = look(run.path, now())
        return plain(panel(training, seen, progress_of(training, seen, now()), now()))

    assert "0.125 Energy, kWh" in shown(measured)
    assert "nergy" not in shown(silent)


def test_alerts_stand_in_words_and_markup_in_them_is_shown_as_text(tmp_path):
    run = run_in(tmp_path / "mine", steps=1, command="<script>alert(1)</script>")
    run.append_metrics({"step": 1, "alert": "62% of groups <b>had</b> equal rewards"})
    seen = follow(Watched(run.path), read_completions)
    training = look(run.path, now())
    shown = panel(training, seen, progress_of(training, seen, now()), now())
    assert "Step 1 62% of groups &lt;b&gt;had&lt;/b&gt; equal rewards" in shown.replace("</b> 62", " 62")
    assert "<script" not in shown + facts(training.record)
