"""A run that is killed, or that its disk or its figures stop, goes on exactly from what is good; two processes too."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
import torch

from evals.questions import DATASETS, write_examples
from tests.training import killing
from tests.training.runs import COMMON, GRPO, SFT, adapter, figures, on_taught, record, settings_file, train
from training.models.manifest import read_chain
from training.run.checkpoints import checkpoints, fault_of
from training.run.folder import RunFolder

DROPOUT: Mapping[str, object] = {"lora_dropout": 0.2, "schedule": "cosine", "max_steps": 0, "save_steps": 3}
PAIRS: Mapping[str, object] = {"batch": 2, "max_length": 1024, "monitor_steps": 0}
CASES: dict[str, tuple[dict[str, object], int]] = {
    "sft": ({**SFT, **DROPOUT, "epochs": 3, "batch": 1, "accumulation": 2}, 8),
    "dpo": ({**COMMON, **PAIRS, **DROPOUT, "epochs": 3}, 8),
    "grpo": ({**GRPO, **DROPOUT, "epochs": 4, "generation_batch": 8, "num_iterations": 2}, 19),
}
"""By stage: settings of more than one pass over the rows, and a step of the last pass to kill at.

GRPO samples for four steps at a time, so its checkpoints lie at every fourth and not at every third.
"""
ROUNDED: Mapping[str, object] = {"autocast": "bfloat16", "lora_dropout": 0.0}
"""As most runs on a CPU are: under autocast, the base held in bfloat16, adapters computed together."""


def prepared(taught: Path, folder: Path, stage: str, **values: object) -> Path:
    """Write a settings file of a stage: SFT from the bare base, the others on the taught chain."""
    if stage == "sft":
        return settings_file(folder, {**CASES[stage][0], **values})
    rows = {} if stage == "dpo" else {"data": [str(eight_rows(folder))]}
    return on_taught(taught, stage, folder / "run", **CASES[stage][0] | rows | values)


def eight_rows(folder: Path) -> Path:
    """Return a file of eight questions."""
    write_examples(folder / "eight.jsonl", DATASETS["kmp-train"]()[:8])
    return folder / "eight.jsonl"


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("stage", "values"),
    [
        ("grpo", ROUNDED),
        pytest.param("sft", {}, marks=slow),
        pytest.param("dpo", ROUNDED, marks=slow),
        pytest.param("grpo", {}, marks=slow),
    ],
)
def test_a_killed_run_goes_on_to_the_weights_of_one_that_was_never_killed(taught, tmp_path, stage, values):
    settings = prepared(taught, tmp_path, stage, **values)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert killing.run(stage, settings, "--output", str(whole)) == 0, killing.said(settings)
    killing.kill_after(CASES[stage][1], stage, settings, parts, "--output", str(parts))
    assert record(parts)["status"] == "running"
    assert killing.run(stage, settings, "--output", str(parts)) == 0, killing.said(settings)
    assert "going on from checkpoint-" in killing.said(settings)
    assert killing.differing(whole, parts) == []
    assert record(parts)["result"]["train_loss"] == record(whole)["result"]["train_loss"]
    assert len(RunFolder(parts).metric_rows()) == len(RunFolder(whole).metric_rows())


@slow
def test_a_run_is_never_stopped_in_the_middle_of_a_round_of_answers(taught: Path, tmp_path: Path):
    settings = prepared(taught, tmp_path, "grpo", epochs=6)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    process = killing.start("grpo", settings, "--output", str(parts))
    killing.wait_for(process, 5, parts)
    os.kill(int(process.pid or 0), signal.SIGTERM)
    process.join(killing.PATIENCE_SECONDS)
    assert process.exitcode == 0, killing.said(settings)
    assert record(parts)["status"] == "stopped"
    assert all(int(path.name.split("-")[1]) % 4 == 0 for path in checkpoints(parts))
    assert killing.run("grpo", settings, "--output", str(parts)) == 0, killing.said(settings)
    assert killing.run("grpo", settings, "--output", str(whole)) == 0, killing.said(settings)
    assert killing.differing(whole, parts) == []


@slow
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(taught: Path, tmp_path: Path):
    settings = prepared(taught, tmp_path, "sft")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert killing.run("sft", settings, "--output", str(whole)) == 0, killing.said(settings)
    killing.kill_after(8, "sft", settings, parts, "--output", str(parts))
    newest = [path for path in checkpoints(parts) if fault_of(path) is None][-1]
    (newest / "optimizer.pt").write_bytes(b"torn")
    assert killing.run("sft", settings, "--output", str(parts)) == 0, killing.said(settings)
    assert f"{newest.name} cannot be used (optimizer.pt was changed" in killing.said(settings)
    assert killing.differing(whole, parts) == []


@slow
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_checkpoint(taught: Path, tmp_path: Path):
    settings = prepared(taught, tmp_path, "sft", epochs=1000)
    assert killing.run("sft", settings, "--broken_after", "5") == 1
    assert "the loss at step 6 is nan" in killing.said(settings)
    run = tmp_path / "run"
    assert record(run)["status"] == "failed"
    assert [fault_of(path) for path in checkpoints(run)] == [None]


@slow
def test_a_weight_that_is_no_number_is_never_saved(taught: Path, tmp_path: Path):
    settings = prepared(taught, tmp_path, "sft", epochs=1000)
    assert killing.run("sft", settings, "--overshot_at", "6") == 1
    assert "a trained weight is not a finite number after step 6" in killing.said(settings)
    assert [path.name for path in checkpoints(tmp_path / "run")] == ["checkpoint-3"]


@slow
def test_a_disk_that_takes_no_more_stops_the_run_and_keeps_the_last_good_checkpoint(taught: Path, tmp_path: Path):
    settings = prepared(taught, tmp_path, "sft", epochs=1000)
    run = tmp_path / "run"
    assert killing.run("sft", settings, "--full_after", "4") == 1
    said = killing.said(settings)
    assert "error: checkpoint-6 could not be written" in said
    assert "checkpoint-3 is kept" in said
    assert [path.name for path in checkpoints(run)] == ["checkpoint-3"]
    assert fault_of(run / "checkpoint-3") is None
    assert record(run)["status"] == "failed"


# ---- two processes -----------------------------------------------------------------------------

TWO: Mapping[str, Mapping[str, object]] = {
    "sft": {"batch": 2, "max_length": 1024},
    "dpo": {"batch": 1},
    "grpo": {"batch": 8, "num_generations": 16, "max_completion_length": 40, "temperature": 1.3},
}


@pytest.mark.parametrize("stage", ["grpo", pytest.param("sft", marks=slow), pytest.param("dpo", marks=slow)])
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
    for name in {"loss", "rewards/margins", "monitor/kl", "monitor/accuracy"}:
        assert figures(run, name) == pytest.approx(figures(alone, name), rel=1e-3, abs=1e-5), name
    expected = adapter(alone)
    for name, weight in adapter(run).items():  # in bfloat16, whose next number is 1/128 away
        torch.testing.assert_close(weight, expected[name], rtol=1e-2, atol=1e-3)


@slow
def test_processes_that_no_longer_hold_the_same_weights_are_stopped(taught: Path, tmp_path: Path):
    settings = prepared(taught, tmp_path, "sft", save_steps=1)
    assert 1 in killing.run_two("sft", settings, "--drifting_at", "3")
    assert "the processes hold different weights after step 3" in killing.said(settings)
    assert record(tmp_path / "run")["status"] == "failed"
    assert checkpoints(tmp_path / "run")[-1].name == "checkpoint-2"


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
