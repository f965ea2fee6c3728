"""A run that is killed, or that its disk or its figures stop, goes on exactly from what is good."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.models import SYSTEM_PROMPT, tiny_adapter, tiny_base
from tests.training import killing
from tests.training.runs import COMMON, GRPO, SFT, record, settings_file
from training.models.base import find_base
from training.models.start import NewStage, append_stage
from training.run.checkpoints import checkpoints, fault_of
from training.run.folder import RunFolder

DROPOUT: Mapping[str, object] = {"lora_dropout": 0.2, "schedule": "cosine", "max_steps": 0}
CASES: dict[str, tuple[dict[str, object], int]] = {
    "sft": ({**SFT, **DROPOUT, "epochs": 3, "batch": 1, "accumulation": 2, "save_steps": 3}, 8),
    "dpo": (
        {**COMMON, **DROPOUT, "epochs": 3, "batch": 2, "max_length": 1024, "save_steps": 3},
        8,
    ),
    "grpo": (
        {
            **GRPO,
            **DROPOUT,
            "epochs": 2,
            "generation_batch": 8,
            "num_iterations": 2,
            "save_steps": 3,
        },
        19,
    ),
}
"""By stage: settings of more than one pass over eight rows, and a step of the last pass to kill at.

GRPO samples for four steps at a time, so its checkpoints lie at every fourth and not at every third.
"""


def prepared(folder: Path, stage: str, **values: object) -> Path:
    """Write a settings file, with an SFT stage and pairs for the stages that need them."""
    settings = {**CASES[stage][0], **values}
    if stage == "dpo":
        pairs = folder / "pairs.jsonl"
        rows = [{"prompt": f"Is {n} up?", "chosen": "Yes.", "rejected": "No."} for n in range(8)]
        pairs.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        settings |= {"data": [str(pairs)], "monitor_steps": 0}
    if stage != "sft":
        base = tiny_base(folder / "model")
        adapter = tiny_adapter(base, folder / "sft" / "adapter")
        start = NewStage("sft", "sft", adapter)
        append_stage(folder / "sft", start, find_base(str(base)), None, SYSTEM_PROMPT)
        settings["chain"] = str(folder / "sft")
    return settings_file(folder, settings)


ROUNDED: Mapping[str, object] = {"autocast": "bfloat16", "lora_dropout": 0.0}
"""As most runs on a CPU are: under autocast, the base held in bfloat16, adapters computed together."""


@pytest.mark.parametrize(("stage", "values"), [("sft", {}), ("dpo", ROUNDED), ("grpo", {}), ("grpo", ROUNDED)])
def test_a_killed_run_goes_on_to_the_weights_of_one_that_was_never_killed(
    tmp_path: Path, stage: str, values: Mapping[str, object]
):
    settings = prepared(tmp_path, stage, **values)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert killing.run(stage, settings, "--output", str(whole)) == 0, killing.said(settings)
    killing.kill_after(CASES[stage][1], stage, settings, parts, "--output", str(parts))
    assert record(parts)["status"] == "running"
    assert killing.run(stage, settings, "--output", str(parts)) == 0, killing.said(settings)
    assert "going on from checkpoint-" in killing.said(settings)
    assert killing.differing(whole, parts) == []
    assert record(parts)["result"]["train_loss"] == record(whole)["result"]["train_loss"]
    assert len(RunFolder(parts).metric_rows()) == len(RunFolder(whole).metric_rows())


def test_a_run_is_never_stopped_in_the_middle_of_a_round_of_answers(tmp_path: Path):
    settings = prepared(tmp_path, "grpo", epochs=4)
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


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(tmp_path: Path):
    settings = prepared(tmp_path, "sft")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert killing.run("sft", settings, "--output", str(whole)) == 0, killing.said(settings)
    killing.kill_after(8, "sft", settings, parts, "--output", str(parts))
    newest = [path for path in checkpoints(parts) if fault_of(path) is None][-1]
    (newest / "optimizer.pt").write_bytes(b"torn")
    assert killing.run("sft", settings, "--output", str(parts)) == 0, killing.said(settings)
    assert f"{newest.name} cannot be used (optimizer.pt was changed" in killing.said(settings)
    assert killing.differing(whole, parts) == []


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path: Path):
    settings = prepared(tmp_path, "sft", epochs=1000)
    assert killing.run("sft", settings, "--broken_after", "5") == 1
    assert "the loss at step 6 is nan" in killing.said(settings)
    run = tmp_path / "run"
    assert record(run)["status"] == "failed"
    assert [fault_of(path) for path in checkpoints(run)] == [None]


def test_a_weight_that_is_no_number_is_never_saved(tmp_path: Path):
    settings = prepared(tmp_path, "sft", epochs=1000)
    assert killing.run("sft", settings, "--overshot_at", "6") == 1
    assert "a trained weight is not a finite number after step 6" in killing.said(settings)
    assert [path.name for path in checkpoints(tmp_path / "run")] == ["checkpoint-3"]


def test_a_disk_that_takes_no_more_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path: Path):
    settings = prepared(tmp_path, "sft", epochs=1000)
    run = tmp_path / "run"
    assert killing.run("sft", settings, "--full_after", "4") == 1
    said = killing.said(settings)
    assert "error: checkpoint-6 could not be written" in said
    assert "checkpoint-3 is kept" in said
    assert [path.name for path in checkpoints(run)] == ["checkpoint-3"]
    assert fault_of(run / "checkpoint-3") is None
    assert record(run)["status"] == "failed"
