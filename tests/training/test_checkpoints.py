import shutil
from pathlib import Path

import pytest

from evals.errors import TrainingStopped
from training.run.checkpoints import check_room, drop_old, last_whole, seal, writing_failed


def checkpoint(run: Path, step: int, *, is_sealed: bool = True) -> Path:
    folder = run / f"checkpoint-{step}"
    (folder / "deep").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(bytes(1000))
    (folder / "deep" / "state.json").write_text(str(step), encoding="utf-8")
    if is_sealed:
        seal(folder)
    return folder


def cut_short(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(bytes(999))


def turn_a_bit(folder: Path) -> None:
    (folder / "weights.bin").write_bytes(bytes(999) + b"\1")


def lose_a_file(folder: Path) -> None:
    (folder / "deep" / "state.json").unlink()


def lose_the_seal(folder: Path) -> None:
    (folder / "seal.json").unlink()


def tear_the_seal(folder: Path) -> None:
    (folder / "seal.json").write_text('{"files"', encoding="utf-8")


DAMAGE = [
    (cut_short, "weights.bin was changed or damaged"),
    (turn_a_bit, "weights.bin was changed or damaged"),
    (lose_a_file, "deep/state.json is missing"),
    (lose_the_seal, "it was not written to its end"),
    (tear_the_seal, "seal.json cannot be read"),
]


@pytest.mark.parametrize(("damage", "fault"), DAMAGE)
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before_it_and_named(tmp_path: Path, damage, fault: str):
    earlier, newest = checkpoint(tmp_path, 5), checkpoint(tmp_path, 10)
    damage(newest)
    told: list[str] = []
    assert last_whole(tmp_path, told.append) == earlier
    assert told == [
        f"checkpoint-10 cannot be used ({fault}); looking for the one before it",
    ]


def test_the_newest_sealed_checkpoints_are_kept_and_older_remains_go(tmp_path: Path):
    for step, is_sealed in (
        (5, True),
        (7, False),
        (10, True),
        (15, False),
        (20, True),
        (25, False),
    ):
        checkpoint(tmp_path, step, is_sealed=is_sealed)
    drop_old(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint-10",
        "checkpoint-15",
        "checkpoint-20",
        "checkpoint-25",
    ]


def test_without_room_for_a_checkpoint_training_stops_and_says_how_much_is_needed(tmp_path: Path):
    check_room(tmp_path, 1000)
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(TrainingStopped, match=r"needs [\d,]+ MB; there is no checkpoint yet"):
        check_room(tmp_path, 2 * free)


def test_a_checkpoint_that_could_not_be_written_leaves_nothing_behind_but_the_ones_before(
    tmp_path: Path,
):
    checkpoint(tmp_path, 5)
    torn = checkpoint(tmp_path, 10, is_sealed=False)
    error = writing_failed(tmp_path, torn, OSError(28, "No space left on device"))
    assert "No space left on device" in str(error)
    assert "checkpoint-5 is kept" in str(error)
    assert not torn.exists()
