"""A run that is killed, or that its disk or its figures stop, goes on exactly from what is good; two processes too."""

import errno
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
import torch
from accelerate import Accelerator
from transformers import TrainerCallback

from evals.errors import TrainingStopped
from evals.questions import DATASETS
from tests.examples import write_examples
from tests.training import killing
from tests.training.cases import quick_or_slow
from tests.training.runs import COMMON, GRPO, SFT, adapter, figures, on_taught, record, settings_file, train
from training import grpo, sft, upstream
from training.models.manifest import read_chain
from training.run.checkpoints import checkpoints, fault_of
from training.run.folder import RunFolder

DROPOUT: Mapping[str, object] = {"lora_dropout": 0.2, "schedule": "cosine", "max_steps": 0, "save_steps": 3}
PAIRS: Mapping[str, object] = {"batch": 2, "max_length": 1024, "eval_steps": 0}
CASES: dict[str, tuple[dict[str, object], int]] = {
    "sft": ({**SFT, **DROPOUT, "epochs": 3, "batch": 1, "accumulation": 2}, 8),
    "dpo": ({**COMMON, **PAIRS, **DROPOUT, "epochs": 3}, 8),
    "kto": ({**COMMON, **PAIRS, **DROPOUT, "epochs": 2}, 10),
    "reward": ({**COMMON, **DROPOUT, "epochs": 3, "eval_steps": 0, "hold_out": 0.25}, 8),
    "grpo": ({**GRPO, **DROPOUT, "epochs": 4, "generation_batch": 8, "num_iterations": 2}, 19),
}
"""By stage: settings of more than one pass over the rows, and a step of the last pass to kill at.

GRPO samples for four steps at a time, so its checkpoints lie at every fourth and not at every third.
"""
ROUNDED: Mapping[str, object] = {"autocast": "bfloat16", "lora_dropout": 0.0}
"""As most runs are: under bfloat16 autocast."""


slow = pytest.mark.slow
LOOKING: Mapping[str, object] = {
    "eval_data": ["rows.jsonl"],
    "eval_steps": 2,
    "eval_tokens": 8,
    "best_metric": "reward",
}


def prepared(taught: Path, folder: Path, stage: str, **values: object) -> Path:
    """Write a settings file of a stage: SFT from the bare base, the others on the taught chain."""
    if "eval_data" in values:
        values["eval_data"] = [str(taught / "rows.jsonl")]
    if stage == "sft":
        return settings_file(folder, {**CASES[stage][0], **values})
    rows = {} if stage in ("dpo", "kto", "reward") else {"data": [str(eight_rows(folder))]}
    return on_taught(taught, stage, folder / "run", **CASES[stage][0] | rows | values)


def eight_rows(folder: Path) -> Path:
    """Return a file of eight questions."""
    write_examples(folder / "eight.jsonl", DATASETS["kmp-train"]()[:8])
    return folder / "eight.jsonl"


@slow
@pytest.mark.parametrize(
    ("stage", "values"),
    [("sft", {}), ("dpo", ROUNDED), ("dpo", LOOKING), ("kto", {}), ("reward", {}), ("grpo", ROUNDED), ("grpo", {})],
)
def test_a_run_killed_at_random_moments_and_after_its_last_step_goes_on_to_the_weights_of_one_that_never_was(
    taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, stage: str, values: Mapping[str, object]
):
    """Over all stages: thirty-five kills."""
    seed = random.randrange(10**6)
    sys.stderr.write(f"seed {seed}\n")
    draw = random.Random(seed)
    monkeypatch.setattr(grpo, "VerifierReward", lambda *_: killing.length_of_answer)
    settings, parts = prepared(taught, tmp_path, stage, **values), tmp_path / "parts"
    whole = train(stage, settings, "--output", str(tmp_path / "whole")).path
    steps = sorted(draw.randrange(record(whole)["result"]["steps"]) for _ in range(2))
    for step in (*steps, CASES[stage][1]):
        killing.kill_after(step, stage, settings, parts, "--output", str(parts), seconds=draw.uniform(0.0, 0.05))
        assert record(parts)["status"] == "running"
    for word in killing.DYING:
        killing.kill_while_leaving(word, stage, settings, "--output", str(parts))
    train(stage, settings, "--output", str(parts))
    assert "going on from checkpoint-" in capsys.readouterr().err
    assert killing.differing(whole, parts) == []
    assert {**record(parts)["result"], "train_seconds": 0} == {**record(whole)["result"], "train_seconds": 0}
    assert figures(RunFolder(parts), "loss") == figures(RunFolder(whole), "loss")


WIDE: Mapping[str, object] = {"lora_r": 64}
"""bitsandbytes keeps states in 8 bits from 4,096 numbers on."""


@slow
@pytest.mark.filterwarnings("ignore:Paged optimizers are not supported on CPU")
@pytest.mark.parametrize(
    ("optimizer", "values"),
    [
        ("adamw_bnb_8bit", {**WIDE, "schedule": "warmup_stable_decay", "decay": 2}),
        ("paged_adamw_32bit", {"schedule": "inverse_sqrt", "warmup": 2}),
        ("lion_8bit", {**WIDE, "schedule": "cosine_with_min_lr", "min_rate": 0.1}),
        ("adafactor", {"schedule": "cosine"}),
    ],
)
def test_a_killed_run_goes_on_exactly_with_optimizers_and_schedules_of_every_kind(
    tmp_path: Path, optimizer: str, values: Mapping[str, object]
):
    settings = settings_file(tmp_path, {**SFT, **values, "optimizer": optimizer, "max_steps": 6, "save_steps": 2})
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train("sft", settings, "--output", str(whole))
    killing.kill_after(3, "sft", settings, parts, "--output", str(parts))
    train("sft", settings, "--output", str(parts))
    assert killing.differing(whole, parts) == []
    assert figures(RunFolder(parts), "learning_rate") == figures(RunFolder(whole), "learning_rate")


class Trouble(TrainerCallback):
    """Does something to the model at the end of a step."""

    def __init__(self, step: int, does: Callable[[torch.nn.Module], object]) -> None:
        self.step, self.does = step, does

    def on_step_end(self, args, state, control, model=None, **others) -> None:
        if state.global_step == self.step:
            self.does(model)


def troubled(patch: pytest.MonkeyPatch, stage: Any, step: int, does: Callable[[torch.nn.Module], object]) -> None:
    """Let a stage build trainers that meet with trouble."""
    build = stage.build_trainer

    def built(*inputs: Any) -> Any:
        trainer = build(*inputs)
        trainer.add_callback(Trouble(step, does))
        return trainer

    patch.setattr(stage, "build_trainer", built)


@slow
@pytest.mark.parametrize(("number", "stage"), [(signal.SIGTERM, sft), (signal.SIGINT, grpo)])
def test_a_signal_ends_a_run_between_rounds_and_it_goes_on_as_if_it_had_not(
    taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, number: int, stage: Any
):
    name = stage.__name__.rpartition(".")[2]
    monkeypatch.setattr(grpo, "VerifierReward", lambda *_: killing.length_of_answer)
    settings = prepared(taught, tmp_path, name, epochs=2)
    whole = train(name, settings, "--output", str(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        troubled(patch, stage, 5, lambda _: os.kill(os.getpid(), number))
        parts = train(name, settings, "--output", str(tmp_path / "parts"))
    assert "stopping after this step" in capsys.readouterr().err
    assert (record(parts.path)["status"], parts.adapter.exists()) == ("stopped", False)
    assert all(int(path.name.split("-")[1]) % 4 == 0 for path in checkpoints(parts.path)) or stage is sft
    train(name, settings, "--output", str(parts.path))
    assert killing.differing(whole.path, parts.path) == []


def no_number(patch: pytest.MonkeyPatch) -> None:
    troubled(patch, sft, 5, lambda model: model.get_input_embeddings().weight.data.fill_(float("nan")))


def overshot(patch: pytest.MonkeyPatch) -> None:
    troubled(
        patch, sft, 6, lambda model: next(p for p in model.parameters() if p.requires_grad).data[0].fill_(torch.nan)
    )


def full_disk(patch: pytest.MonkeyPatch) -> None:
    written = upstream.seal

    def refuse(checkpoint: Path) -> None:
        if len(checkpoints(checkpoint.parent)) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        written(checkpoint)

    patch.setattr(upstream, "seal", refuse)


def full_for_torch(patch: pytest.MonkeyPatch) -> None:
    """The words of torch.save on a disk that was full before the file's end."""
    written = torch.save

    def save(document: object, file: object, *options: object) -> None:
        if "checkpoint-6" in str(file):
            raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 18058240 vs 18058128")
        written(document, file, *options)

    patch.setattr(torch, "save", save)


def apart(patch: pytest.MonkeyPatch) -> None:
    """The second of two processes holds other weights from the second checkpoint on."""
    gather, saved = Accelerator.gather, []

    def gathered(self: Accelerator, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 2:
            saved.append(tensor)
        return torch.cat([tensor, tensor + (len(saved) > 1)]) if tensor.dim() == 2 else gather(self, tensor)

    patch.setattr(Accelerator, "gather", gathered)


GRIEF = {
    no_number: "the loss at step 6 is nan",
    overshot: "a trained weight is not a finite number after step 6",
    full_disk: r"checkpoint-6 could not be written .*checkpoint-3 is kept",
    full_for_torch: r"checkpoint-6 could not be written .*checkpoint-3 is kept",
    apart: "the processes hold different weights after step 6",
}


@pytest.mark.parametrize("name", quick_or_slow([each.__name__ for each in GRIEF], ("no_number", "full_disk")))
def test_a_run_that_comes_to_grief_says_why_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    ((trouble, said),) = [(each, said) for each, said in GRIEF.items() if each.__name__ == name]
    settings, run = settings_file(tmp_path, {**CASES["sft"][0], "epochs": 3}), tmp_path / "run"
    trouble(monkeypatch)
    with pytest.raises(TrainingStopped, match=said):
        train("sft", settings)
    assert record(run)["status"] == "failed"
    assert [(path.name, fault_of(path)) for path in checkpoints(run)] == [("checkpoint-3", None)]


# ---- two processes -----------------------------------------------------------------------------

TWO: Mapping[str, Mapping[str, object]] = {
    "sft": {"batch": 2, "max_length": 1024},
    "dpo": {"batch": 1},
    "kto": {"batch": 1, "loss_type": "apo_zero_unpaired"},  # KTO's own estimates the distance by batch
    "grpo": {"batch": 8, "num_generations": 16, "max_completion_length": 40, "temperature": 1.3},
}


@slow
@pytest.mark.parametrize("stage", ["grpo", "sft", "dpo", "kto"])
def test_two_processes_write_one_run_that_learns_what_one_learns_from_twice_the_batch(taught, tmp_path, stage):
    rows = {"data": [str(eight_rows(tmp_path))]} if stage == "sft" else {}  # a number that divides evenly
    file, run = on_taught(taught, stage, tmp_path / "run", **TWO[stage], **rows), RunFolder(tmp_path / "run")
    assert killing.run_two(stage, file) == [0, 0], killing.said(file)
    kept = record(run.path)
    assert (kept["status"], kept["host"]["processes"]) == ("finished", 2)
    assert [row["step"] for row in run.metric_rows() if "loss" in row] == [1, 2]
    assert killing.said(file).count("finished: ") == 1
    assert len(read_chain(run.path).manifest.stages) == 2
    if stage == "grpo":
        files = sorted(run.completions.glob("*.parquet"))
        assert len(files) == 2
        for table in files:
            rows = parquet.read_table(table).to_pylist()
            assert len(rows) == 16  # two processes with eight answers each, one group of them all
            assert len({json.dumps(row["prompt"]) for row in rows}) == 1
            assert len({json.dumps(row["completion"]) for row in rows}) > 2
        assert figures(run, "kl")[0] == 0.0
        return
    twice = {**TWO[stage], **rows, "batch": 2 * int(str(TWO[stage]["batch"]))}
    alone = train(stage, on_taught(taught, stage, tmp_path / "alone" / "run", **twice))
    for name in {"loss", "rewards/margins", "eval/kl", "eval/accuracy"}:
        assert figures(run, name) == pytest.approx(figures(alone, name), rel=1e-3, abs=1e-5), name
    expected = adapter(alone)
    for name, weight in adapter(run).items():  # in bfloat16, whose next number is 1/128 away
        torch.testing.assert_close(weight, expected[name], rtol=1e-2, atol=1e-3)


@slow
def test_two_processes_that_were_killed_go_on_to_the_weights_of_two_that_were_not(taught: Path, tmp_path: Path):
    settings = prepared(taught, tmp_path, "grpo", batch=2)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert killing.run_two("grpo", settings, "--output", str(whole)) == [0, 0]
    killing.kill_two_after(10, "grpo", settings, parts, "--output", str(parts))
    assert killing.run_two("grpo", settings, "--output", str(parts)) == [0, 0]
    assert "going on from checkpoint-" in killing.said(settings)
    assert killing.differing(whole, parts) == []

    before = len(killing.said(settings))
    assert killing.run_two("grpo", settings, "--output", str(parts)) == [1, 1]
    said = killing.said(settings)[before:]
    assert said.count("has finished; name another --output") == 1  # by the first process alone
    assert "Traceback" not in said
