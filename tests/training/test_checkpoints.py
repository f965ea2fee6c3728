import shutil
from pathlib import Path

import pytest

from evals.errors import TrainingStopped
from training.run.checkpoints import check_room, drop_old, fault_of, last_whole, seal, writing_failed


def checkpoint(run: Path, step: int, *, is_sealed: bool = True) -> Path:
    folder = run / f"checkpoint-{step}"
    (folder / "deep").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(bytes(1000))
    (folder / "deep" / "state.json").write_text(str(step), encoding="utf-8")
    if is_sealed:
        seal(folder)
    return folder


WEIGHTS, STATE, SEAL = "weights.bin", "deep/state.json", "seal.json"
DAMAGE = [  # a file, what becomes of it (None: it is lost), what is said
    (WEIGHTS, bytes(999), "weights.bin was changed or damaged"),
    (WEIGHTS, bytes(999) + b"\1", "weights.bin was changed or damaged"),
    (STATE, None, "deep/state.json is missing"),
    (SEAL, None, "it was not written to its end"),
    (SEAL, b'{"files"', "seal.json cannot be read"),
]


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before_it_and_named(tmp_path: Path):
    for number, (name, content, fault) in enumerate(DAMAGE):
        run, told = tmp_path / str(number), []
        earlier, newest = checkpoint(run, 5), checkpoint(run, 10)
        assert (last_whole(run, told.append), told, fault_of(newest)) == (newest, [], None)
        (newest / name).unlink() if content is None else (newest / name).write_bytes(content)
        assert last_whole(run, told.append) == earlier
        assert told == [f"checkpoint-10 cannot be used ({fault}); looking for the one before it"]


def test_the_newest_sealed_checkpoints_are_kept_and_older_remains_go(tmp_path: Path):
    for step, is_sealed in ((5, True), (7, False), (10, True), (15, False), (20, True), (25, False)):
        checkpoint(tmp_path, step, is_sealed=is_sealed)
    drop_old(tmp_path, 2)
    assert {path.name for path in tmp_path.iterdir()} == {f"checkpoint-{step}" for step in (10, 15, 20, 25)}


def test_without_room_for_a_checkpoint_training_stops_and_says_how_much_is_needed(tmp_path: Path):
    check_room(tmp_path, 1000)
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(TrainingStopped, match=r"needs [\d,]+ MB; there is no checkpoint yet"):
        check_room(tmp_path, 2 * free)


def test_a_checkpoint_that_could_not_be_written_leaves_nothing_behind_but_the_ones_before(tmp_path: Path):
    checkpoint(tmp_path, 5)
    torn = checkpoint(tmp_path, 10, is_sealed=False)
    error = writing_failed(tmp_path, torn, OSError(28, "No space left on device"))
    assert "No space left on device" in str(error)
    assert "checkpoint-5 is kept" in str(error)
    assert not torn.exists()
