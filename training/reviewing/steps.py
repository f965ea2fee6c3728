"""A run at its checkpoints: the adapters that it had on the way, each as a chain that can be asked.

    RUN/steps/40/adapter/     kept by the setting keep_adapters, or taken from a checkpoint that still stands
    RUN/steps/40/chain.json   written when the step is first looked at

Checkpoints go when a run has finished; a step is its adapter alone, a few megabytes.
"""

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from evals.errors import BadConfig, ChainMismatch
from evals.reviewing import PROMPT_VERSION, prompt_sha256, system_prompt
from evals.schema import RunRecord
from training.adapter import CONFIG_NAME, WEIGHTS_NAME
from training.base import Base
from training.checkpoints import checkpoints, fault_of, step_of
from training.config import ReviewSettings
from training.lineage import append_stage
from training.manifest import FILE_NAME
from training.policy import write_adapter
from training.runs import STEPS, RunFolder
from training.setting import Setting, read_value
from training.start import start_of
from training.trainer import SafeTrainer


@dataclass(frozen=True)
class Step:
    """A run after so many optimizer steps; `folder` holds its adapter and, once asked for, its chain."""

    number: int
    folder: Path
    is_last: bool = False

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return f"step {self.number}"


class KeepAdapters(TrainerCallback):
    """Keeps the adapter of every checkpoint, which itself may go later."""

    def __init__(self, trainer: SafeTrainer, run: Path) -> None:
        self.trainer = trainer
        self.run = run

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **others: Any
    ) -> None:
        """Write the adapter as it is now; every process has to come here."""
        weights = self.trainer.gathered_weights()
        if not state.is_world_process_zero:
            return
        folder = self.run / STEPS / str(state.global_step)
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was resumed from before this step
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        write_adapter(model, folder / "adapter", weights)


def review_record(run: RunFolder) -> RunRecord:
    """Return the record of a run of stage review; BadConfig if the folder holds none."""
    record = run.record()
    if record is None or record.stage != "review":
        what = "no run" if record is None else f"a run of stage {record.stage}"
        raise BadConfig(
            f"{run.path} holds {what}; name the folder of a run of `assay train review`."
        )
    return record


def steps_of(run: RunFolder) -> tuple[Step, ...]:
    """Return the steps of a run whose adapters are here, in order, the finished one last.

    Checkpoints that still stand are taken over first. BadConfig if there is nothing to compare.
    """
    record = review_record(run)
    for checkpoint in checkpoints(run.path):
        with suppress(FileNotFoundError):  # the run goes on and has removed it meanwhile
            if fault_of(checkpoint) is None:
                _take_over(checkpoint, run.path / STEPS / str(step_of(checkpoint)))
    numbers = [path.parent.name for path in (run.path / STEPS).glob("*/adapter")]
    found = {int(name): Step(int(name), run.path / STEPS / name) for name in numbers}
    if record.status == "finished":
        last = int(record.result["steps"])
        found[last] = Step(last, run.path, is_last=True)
    if len(found) < 2:
        raise BadConfig(
            f"{run.path} holds {len(found)} of its steps, and a comparison needs two: checkpoints go when a"
            " run has finished. Train with --keep_adapters true (and save_steps as you wish to look), or"
            " look while it is running."
        )
    return tuple(found[number] for number in sorted(found))


def chosen(steps: Sequence[Step], numbers: Sequence[int]) -> tuple[Step, ...]:
    """Return the steps of these numbers, all for none; BadConfig for one alone, or one that is not here."""
    known = [step.number for step in steps]
    missing = [number for number in numbers if number not in known]
    if missing:
        raise BadConfig(
            f"the adapter of step {missing[0]} is not here; here are {', '.join(map(str, known))}."
        )
    found = tuple(step for step in steps if not numbers or step.number in numbers)
    if len(found) < 2:
        raise BadConfig(
            f"step {found[0].number} alone was named, and a comparison needs two or more; here are"
            f" {', '.join(map(str, known))}."
        )
    return found


def base_named(run: RunFolder, record: RunRecord) -> str:
    """Return the base of a run: a folder beside it or here, else what the run calls it."""
    name = str(record.config["base"])
    places = (run.path, run.path.parent, run.path.parent.parent, Path.cwd())
    return next((str(place / name) for place in places if (place / name).is_dir()), name)


def settings_of(record: RunRecord) -> ReviewSettings:
    """Return what a run was trained with, defaults for settings that it did not know yet."""
    known = [each.name for each in fields(ReviewSettings) if each.name in record.config]
    read = {
        name: read_value(Setting.of(ReviewSettings, name), record.config[name], "run.json")
        for name in known
    }
    return ReviewSettings(**read)


def write_chain(step: Step, record: RunRecord, base: Base) -> None:
    """Make a step a chain, measuring what it computes; nothing is done where that was done before."""
    if (step.folder / FILE_NAME).is_file():
        return
    start = start_of(settings_of(record), base)
    prompt = start.system_prompt or system_prompt()
    if record.data.get("prompt_sha256") != prompt_sha256(prompt):
        raise ChainMismatch(
            f"the run was trained with other review instructions than {PROMPT_VERSION} of this version of"
            " Assay, so its steps cannot be asked as they were taught. Use the version that trained it."
        )
    stage = start.stage("review", step.folder / "adapter")
    append_stage(step.folder, stage, base, start.chain, prompt)


def _take_over(checkpoint: Path, folder: Path) -> None:
    """Copy the adapter of a checkpoint, whole or not at all."""
    if (folder / "adapter").is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".taking-") as place:
        whole = Path(place) / "adapter"
        whole.mkdir()
        for name in (CONFIG_NAME, WEIGHTS_NAME):
            shutil.copyfile(checkpoint / name, whole / name)
        whole.rename(folder / "adapter")
