import json
import multiprocessing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evals.errors import BadConfig
from evals.schema import RunRecord
from training.config import STAGES, RefinerSettings
from training.run.checkpoints import seal
from training.run.folder import RunFolder, config_changes, public_config, public_path


def record(**changes: object) -> RunRecord:
    values = {
        "name": "mine",
        "stage": "sft",
        "command": "accelerate launch -m training.sft --config sft.yaml",
        "config": {"epochs": 2, "output": "runs/mine", "save_steps": 5},
        "seed": 0,
        "data": {"sha256": "abc"},
        "versions": {},
        "code_revision": None,
        "host": {},
        "started_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    return RunRecord.model_validate(values | changes)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "mine")


def checkpoint(run: RunFolder, step: int, *, whole: bool = True) -> Path:
    folder = run.path / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    (folder / "trainer_state.json").write_text("{}", encoding="utf-8")
    if whole:
        seal(folder)
    return folder


def best_weights(run: RunFolder) -> tuple[Path, ...]:
    """Write files as a run leaves them that keeps its best weights, one of them cut off."""
    files = (run.path / "best-3.safetensors", run.path / "best-5.part")
    for file in files:
        file.write_bytes(b"weights")
    return files


def test_a_new_folder_starts_a_run_from_nothing(run: RunFolder):
    assert run.begin(record()) is None
    assert run.record() == record()
    assert run.metric_rows() == ()


def test_an_unfinished_run_goes_on_from_its_newest_whole_checkpoint(run: RunFolder):
    run.begin(record())
    checkpoint(run, 5)
    newest = checkpoint(run, 10)
    checkpoint(run, 15, whole=False)
    later = record(started_at=datetime(2026, 2, 2, tzinfo=UTC))
    assert run.begin(later) == newest
    kept = run.record()
    assert kept is not None
    assert kept.started_at == record().started_at


def test_going_on_drops_the_metrics_that_will_be_written_again(run: RunFolder):
    run.begin(record())
    for step in (5, 10, 11, 12):
        run.append_metrics({"step": step, "loss": 1.0})
    checkpoint(run, 10)
    run.begin(record())
    assert [row["step"] for row in run.metric_rows()] == [5, 10]


def test_a_run_without_a_checkpoint_starts_over_with_empty_metrics(run: RunFolder):
    run.begin(record())
    run.append_metrics({"step": 1})
    assert run.begin(record()) is None
    assert run.metric_rows() == ()


def test_a_line_that_is_not_whole_yet_is_not_read(run: RunFolder):
    run.begin(record())
    run.append_metrics({"step": 1, "loss": None})
    with run.metrics.open("a", encoding="utf-8") as file:
        file.write('{"step": 2, "lo')
    assert run.metric_rows() == ({"step": 1, "loss": None},)


def test_a_finished_run_is_not_trained_again_unless_told_to(run: RunFolder):
    run.begin(record())
    checkpoint(run, 5)
    run.end("finished", {"steps": 5})
    with pytest.raises(BadConfig, match="has finished; name another --output, or add --overwrite"):
        run.begin(record())
    (run.path / "notes.txt").write_text("mine", encoding="utf-8")
    assert run.begin(record(), overwrite=True) is None
    left = run.record()
    assert left is not None
    assert left.status == "running"
    assert (run.path / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_a_finished_run_keeps_its_result_and_no_checkpoints(run: RunFolder):
    run.begin(record())
    checkpoint(run, 5)
    best = best_weights(run)
    run.end("finished", {"steps": 5})
    ended = run.record()
    assert ended is not None
    assert (ended.status, ended.result) == ("finished", {"steps": 5})
    assert ended.ended_at is not None
    assert run.last_checkpoint() is None
    assert not any(file.exists() for file in best)


@pytest.mark.parametrize("status", ["failed", "stopped"])
def test_a_run_that_did_not_finish_keeps_its_checkpoints(run: RunFolder, status):
    run.begin(record())
    last, best = checkpoint(run, 5), best_weights(run)
    run.end(status, {})
    assert run.begin(record()) == last
    assert all(file.exists() for file in best)


def test_a_run_that_is_trained_anew_has_no_weights_of_the_one_before(run: RunFolder):
    run.begin(record())
    checkpoint(run, 5)
    best = best_weights(run)
    assert run.begin(record(), overwrite=True) is None
    assert not any(file.exists() for file in best)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"config": {"epochs": 3, "output": "runs/mine", "save_steps": 5}}, "epochs: 2, now 3"),
        ({"data": {"sha256": "xyz"}}, "sha256: 'abc', now 'xyz'"),
    ],
)
def test_other_settings_or_data_never_go_on_with_a_run(run: RunFolder, changes, named: str):
    run.begin(record())
    with pytest.raises(BadConfig, match=named):
        run.begin(record(**changes))


CAME_LATER = ("aggregation", "held_out_keep", "packing")


@pytest.mark.parametrize("stage", STAGES)
def test_a_run_from_before_a_setting_goes_on_as_if_it_had_the_default(run: RunFolder, stage: str):
    kind = STAGES[stage]
    judged: dict[str, Any] = {"judge": "heuristic"} if kind is RefinerSettings else {}
    config = public_config(kind(data=("rows.jsonl",), output="mine", chain="sft", **judged))
    old = {key: value for key, value in config.items() if key not in CAME_LATER}
    run.begin(record(stage=stage, config=old))
    last = checkpoint(run, 5)
    assert run.begin(record(stage=stage, config=config)) == last


def test_a_run_from_before_a_setting_does_not_go_on_with_another_value(run: RunFolder):
    run.begin(record(stage="sft", config={"epochs": 2}))
    with pytest.raises(BadConfig, match="packing: False, now True"):
        run.begin(record(stage="sft", config={"epochs": 2, "packing": True}))


def test_a_setting_that_is_gone_matters_only_if_it_changed_the_run():
    def known(**gone: object) -> RunRecord:
        return record(stage="refiner", config=gone)

    assert config_changes(known(noise_limit=1.0, second_judge="", items_report=""), {}) == []
    assert config_changes(known(noise_limit=0.5), {}) == ["noise_limit: 0.5, now None"]


def test_how_often_to_save_may_change_when_going_on(run: RunFolder):
    run.begin(record())
    last = checkpoint(run, 5)
    assert run.begin(record(config={"epochs": 2, "output": "b", "save_steps": 9})) == last


def test_a_folder_that_no_run_wrote_is_left_alone_even_with_overwrite(run: RunFolder):
    run.path.mkdir()
    (run.path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(BadConfig, match=r"holds thesis\.txt but no run\.json"):
        run.begin(record(), overwrite=True)
    assert (run.path / "thesis.txt").is_file()


@pytest.mark.parametrize("text", ["", "{", '{"name": "x"}', "\ud800"])
def test_a_damaged_record_is_an_error_that_names_the_file(run: RunFolder, text: str):
    run.path.mkdir()
    (run.path / "run.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadConfig, match=r"run\.json is not a run record"):
        run.record()


def _hold(path: str, ready, done) -> None:
    with RunFolder(Path(path)).lock():
        ready.set()
        done.wait(30)


def test_two_processes_do_not_train_in_one_folder(run: RunFolder):
    start = multiprocessing.get_context("spawn")
    ready, done = start.Event(), start.Event()
    other = start.Process(target=_hold, args=(str(run.path), ready, done))
    other.start()
    try:
        assert ready.wait(30)
        with pytest.raises(BadConfig, match="another process is training in"), run.lock():
            pass
    finally:
        done.set()
        other.join(30)
    with run.lock():
        run.begin(record())


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("runs/sft", "runs/sft"),
        ("embedded", "embedded"),
        ("org/name@main", "org/name@main"),
        ("{root}/runs/sft", "runs/sft"),
        ("{root}/../elsewhere/secret/model", "model"),
        ("../elsewhere/model", "model"),
        ("/home/someone/model", "model"),
        ("~/model", "model"),
    ],
)
def test_a_record_keeps_no_folder_of_this_machine(tmp_path: Path, text: str, kept: str):
    assert public_path(text.format(root=tmp_path), tmp_path) == kept


def test_metrics_are_json_lines_that_can_be_followed(run: RunFolder):
    run.begin(record())
    run.append_metrics({"step": 1, "loss": 0.5})
    run.append_metrics({"step": 2, "loss": 0.25})
    lines = run.metrics.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == list(run.metric_rows())


def test_another_number_of_processes_never_goes_on_with_a_run(run: RunFolder):
    run.begin(record(host={"processes": 2}))
    with pytest.raises(BadConfig, match="processes: 2, now 1"):
        run.begin(record(host={"processes": 1}))


STOPPING = {"epochs": 2, "monitor_stop": True, "monitor_max_drop": 0.1}


def test_a_run_that_stopped_itself_goes_on_only_with_another_limit(run: RunFolder):
    run.begin(record(config=STOPPING))
    last = checkpoint(run, 5)
    run.end("stopped", {"steps": 5, "stopped_because": "knowledge is being lost"})
    with pytest.raises(BadConfig, match="stopped itself: knowledge is being lost"):
        run.begin(record(config=STOPPING))
    assert run.begin(record(config={**STOPPING, "monitor_max_drop": 0.3})) == last


def test_training_anew_leaves_no_measurement_of_the_adapter_before(run: RunFolder):
    run.begin(record())
    run.end("finished", {"steps": 5})
    (run.path / "reports").mkdir()
    (run.path / "reports" / "dev.json").write_text("{}", encoding="utf-8")
    run.begin(record(), overwrite=True)
    assert not (run.path / "reports").exists()
