"""A run folder and its checkpoints: what goes on in it, what is refused, what is kept."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from evals.errors import BadConfig
from evals.io import public_path
from evals.schema import RunRecord
from evals.schema.runs import RunProgress
from tests.training.cases import cases
from training.run.folder import ProgressWriter, RunFolder, fault_of, remove_old_checkpoints, seal


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


def test_an_unfinished_run_goes_on_from_its_newest_whole_checkpoint_with_the_metrics_up_to_there(run: RunFolder):
    assert run.begin(record()) is None
    for step in (5, 10, 11, 12):
        run.append_metrics({"step": step, "loss": None})
        run.append_metrics({"step": step, "train_runtime": 1.0})  # the end of training, that it may not be the end of
    with run.metrics.open("a", encoding="utf-8") as file:
        file.write('{"step": 13, "lo')
    checkpoint(run, 5)
    newest = checkpoint(run, 10)
    checkpoint(run, 15, whole=False)
    assert run.begin(record(started_at=datetime(2026, 2, 2, tzinfo=UTC))) == newest
    assert run.metric_rows() == ({"step": 5, "loss": None}, {"step": 10, "loss": None})
    assert run.record().started_at == record().started_at


def test_a_finished_run_keeps_its_result_alone_and_is_trained_anew_only_when_told_to(run: RunFolder):
    run.begin(record())
    checkpoint(run, 5)
    best = best_weights(run)
    run.end("finished", {"steps": 5})
    ended = run.record()
    assert (ended.status, ended.result, ended.ended_at is None) == ("finished", {"steps": 5}, False)
    assert run.last_checkpoint() is None and not any(file.exists() for file in best)
    with pytest.raises(BadConfig, match="has finished; name another --output, or add --overwrite"):
        run.begin(record())
    (run.path / "notes.txt").write_text("mine", encoding="utf-8")
    (run.path / "reports").mkdir()
    best = best_weights(run)
    assert run.begin(record(), overwrite=True) is None
    assert run.record().status == "running"
    assert (run.path / "notes.txt").is_file() and not (run.path / "reports").exists()
    assert not any(file.exists() for file in best)


@pytest.mark.parametrize("status", ["failed", "stopped"])
def test_a_run_that_did_not_finish_keeps_its_checkpoints(run: RunFolder, status):
    run.begin(record())
    last, best = checkpoint(run, 5), best_weights(run)
    run.end(status, {})
    assert run.begin(record()) == last
    assert all(file.exists() for file in best)


CASES = cases("runs")


def test_a_run_is_gone_on_with_only_with_the_settings_and_data_it_had(tmp_path: Path):
    for number, (known, result, wanted, said) in enumerate(CASES["resumed"]):
        run = RunFolder(tmp_path / str(number))
        run.begin(record(**known))
        last = checkpoint(run, 5)
        run.end("stopped", result)
        if said:
            with pytest.raises(BadConfig) as raised:
                run.begin(record(**wanted))
            assert said in str(raised.value)
        else:
            assert run.begin(record(**wanted)) == last


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


def test_a_folder_that_a_run_holds_is_not_trained_in_by_another(run: RunFolder):
    with run.lock(), pytest.raises(BadConfig, match="another process is training in"), RunFolder(run.path).lock():
        pass
    with run.lock():
        run.begin(record())


def test_a_record_keeps_no_folder_of_this_machine(tmp_path: Path):
    found = [[text, public_path(text.format(root=tmp_path), tmp_path)] for text, _ in CASES["paths"]]
    assert found == CASES["paths"]


# ---- checkpoints -------------------------------------------------------------------------------


def filled(run: Path, step: int, *, is_sealed: bool = True) -> Path:
    folder = run / f"checkpoint-{step}"
    (folder / "deep").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(bytes(1000))
    (folder / "deep" / "state.json").write_text(str(step), encoding="utf-8")
    if is_sealed:
        seal(folder)
    return folder


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before_it_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for number, (name, content, fault) in enumerate(CASES["damage"]):
        run = tmp_path / str(number)
        earlier, newest = filled(run, 5), filled(run, 10)
        assert (RunFolder(run).last_checkpoint(), capsys.readouterr().err, fault_of(newest)) == (newest, "", None)
        (newest / name).unlink()
        if isinstance(content, int):
            (newest / name).write_bytes(bytes(content))
        elif content is not None:
            (newest / name).write_text(content.replace("<1000 x>", "x" * 1000))
        assert RunFolder(run).last_checkpoint() == earlier
        assert capsys.readouterr().err == f"checkpoint-10 cannot be used ({fault}); looking for the one before it\n"


def test_the_newest_sealed_checkpoints_are_kept_and_older_remains_go(tmp_path: Path):
    for step, is_sealed in ((5, True), (7, False), (10, True), (15, False), (20, True), (25, False)):
        filled(tmp_path, step, is_sealed=is_sealed)
    remove_old_checkpoints(tmp_path, 2)
    assert {path.name for path in tmp_path.iterdir()} == {f"checkpoint-{step}" for step in (10, 15, 20, 25)}


def test_the_time_left_counts_the_steps_and_the_looks_that_remain(run: RunFolder, monkeypatch: pytest.MonkeyPatch):
    clock = iter([0.0, 0.0, 60.0, 60.0, 70.0, 70.0, 80.0, 80.0, 110.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    writer = ProgressWriter(run.progress, looks_every=2)
    writer.steps = 4
    writer.tell("measuring", 0, 6)
    writer.tell("measuring", 6, 6)  # 10 s each
    assert writer.seconds_left() is None
    writer.tell("training")
    writer.tell("training", steps_made=1)  # 10 s
    assert writer.seconds_left() == 3 * 10 + 2 * 60
    writer.tell("training")
    writer.tell("training", steps_made=1)
    writer.tell("measuring", 0, 6)
    writer.tell("measuring", 3, 6)
    told = RunProgress.model_validate_json(run.progress.read_bytes())
    assert (told.doing, told.step, told.steps, told.done, told.of) == ("measuring", 2, 4, 3, 6)
    assert told.seconds_left == 2 * 10 + (3 + 6) * 10
