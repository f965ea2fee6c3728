"""Checkpoints on disk: which of them are whole, which may go, and how a run goes on from them.

A checkpoint is whole when its seal says so: the list of its files with their SHA-256, written after
every file has reached the disk. One that was cut off by a kill, or damaged since, is passed over, and
the one before it is used.
"""

import json
import os
import shlex
import shutil
from pathlib import Path

from pydantic import ValidationError

from evals.errors import BadConfig, TrainingStopped
from evals.io import sha256_of, write_whole
from evals.schema import RunRecord

RECORD, SEAL = "run.json", "seal.json"
PREFIX = "checkpoint-"
BEST = "best-"
"""What the files of weights that were the best so far begin with (training.run.watch)."""


def seal(checkpoint: Path) -> None:
    """Mark a checkpoint as whole, once each of its files is on the disk and not only in memory."""
    files = {}
    for file in sorted(path for path in checkpoint.rglob("*") if path.is_file() and path.name != SEAL):
        with file.open("rb") as content:
            os.fsync(content.fileno())
        files[file.relative_to(checkpoint).as_posix()] = sha256_of(file)
    write_whole(checkpoint / SEAL, json.dumps({"files": files}, indent=1) + "\n")


def fault_of(checkpoint: Path) -> str | None:
    """Return what is wrong with a checkpoint in a few words; None if it is whole."""
    try:
        files = json.loads((checkpoint / SEAL).read_text(encoding="utf-8"))["files"]
    except FileNotFoundError:
        return "it was not written to its end"
    except (ValueError, KeyError, TypeError):
        return f"{SEAL} cannot be read"
    for name, expected in files.items():
        file = checkpoint / name
        if not file.is_file():
            return f"{name} is missing"
        if sha256_of(file) != expected:
            return f"{name} was changed or damaged"
    return None


def checkpoints(run: Path) -> tuple[Path, ...]:
    """Return the checkpoint folders of a run, whole or not, the oldest first."""
    found = [path for path in run.glob(f"{PREFIX}*") if path.name.removeprefix(PREFIX).isdigit()]
    return tuple(sorted(found, key=step_of))


def step_of(checkpoint: Path) -> int:
    """Return the optimizer step that a checkpoint was written after."""
    return int(checkpoint.name.removeprefix(PREFIX))


def best_weights(run: Path) -> tuple[Path, ...]:
    """Return the files of weights that were the best once, whole or not."""
    return (*run.glob(f"{BEST}*.safetensors"), *run.glob(f"{BEST}*.part"))


def remove_checkpoints(run: Path) -> None:
    """Remove the checkpoints of a run and the best weights beside them."""
    for folder in checkpoints(run):
        shutil.rmtree(folder)
    for file in best_weights(run):
        file.unlink(missing_ok=True)


def remove_old_checkpoints(run: Path, keep: int) -> None:
    """Remove all but the `keep` newest sealed checkpoints, and remains older than those."""
    sealed = [folder for folder in checkpoints(run) if (folder / SEAL).is_file()]
    kept = sealed[-keep:]
    for folder in checkpoints(run):
        if kept and step_of(folder) < step_of(kept[0]):
            shutil.rmtree(folder)


def failed_checkpoint(run: Path, checkpoint: Path, reason: BaseException) -> TrainingStopped:
    """Remove a checkpoint that could not be written whole; return the error to raise, which names the last good one."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    whole = [folder for folder in checkpoints(run) if (folder / SEAL).is_file()]
    kept = f"{whole[-1].name} is kept." if whole else "there is no checkpoint yet."
    first = (str(reason).strip().splitlines() or [type(reason).__name__])[0]
    return TrainingStopped(
        f"{checkpoint.name} could not be written to {run} ({first}); {kept} Make room or mend the"
        " disk or quota, then run the same command again to resume from there."
    )


def read_record(run: Path) -> RunRecord | None:
    """Return run.json, or None if there is none; BadConfig if it cannot be read."""
    file = run / RECORD
    if not file.is_file():
        return None
    try:
        return RunRecord.model_validate_json(file.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        problem = str(error).splitlines()[0]
        raise BadConfig(
            f"{file} is not a run record this version can read ({problem}); name another output"
            " folder, or move this one away."
        ) from None


def how_to_resume(run: Path) -> str:
    """Return how far a run came that has not finished, and how to resume it; "" for one that has, and for none.

    The record names folders outside of where it was started by their last part alone; this one is known here.
    """
    record = read_record(run)
    if record is None or record.status == "finished":
        return ""
    at = f"{record.result.get('steps', 0)} steps"
    if checkpoint := next((each for each in reversed(checkpoints(run)) if fault_of(each) is None), None):
        saved = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        at = f"step {saved['global_step']} of {saved['max_steps']}"
    words = shlex.split(record.command.partition(f"-m training.{record.stage} ")[2])
    if "--output" in words[:-1]:
        words[words.index("--output") + 1] = str(run)
    state = {"running": f"is running, or was killed, and was saved at {at}", "failed": f"failed; saved is {at}"}
    return f"the run in {run} {state.get(record.status, f'stopped at {at}')}; go on with `assay train {record.stage} {shlex.join(words)}`"
