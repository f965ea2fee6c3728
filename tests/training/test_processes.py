"""Two processes on a CPU train a chain of three stages together, as their launcher starts them."""

import json
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
import torch
from safetensors.torch import load_file

from evals.questions import write_examples
from tests.models import ALL_LINEAR
from tests.training import killing
from tests.training.runs import (
    COMMON,
    GRPO,
    SFT,
    answered_in_lines,
    launched,
    one_thread,
    record,
    settings_file,
)
from tests.training.test_resume import prepared
from training import dpo, sft
from training.config import DpoSettings, SftSettings, read_request
from training.models.adapters import WEIGHTS_NAME
from training.models.manifest import read_chain
from training.run.checkpoints import checkpoints
from training.run.folder import RunFolder

__all__ = ["one_thread"]

SHAPE = {"lora_r": 8, "lora_alpha": 8, "lora_targets": list(ALL_LINEAR)}
LESSON = {**SFT, **SHAPE, "max_steps": 40, "learning_rate": 1e-2}
PAIRS = {
    **COMMON,
    **SHAPE,
    "batch": 1,
    "max_length": 1024,
    "monitor_steps": 1,
    "monitor_tokens": 40,
}
SAMPLED = {
    **GRPO,
    **SHAPE,
    "batch": 8,
    "num_generations": 16,
    "max_completion_length": 40,
    "temperature": 1.3,
}


class Place:
    """A folder where two processes train one stage after another, and what each of them said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: dict[str, str] = {}

    def settings(self, name: str, **values: object) -> Path:
        """Write the settings of a run called `name`."""
        return settings_file(self.folder, {**values, "output": str(self.folder / name)})

    def trained(self, stage: str) -> Path:
        """Return the run folder of a stage, trained by two processes when it is first asked for.

        One process of DPO is launched in tests/training/test_dpo.py; two are started here without a
        launcher, which spares seconds.
        """
        if stage not in self.said:
            file = self.settings(stage, **self.values(stage))
            if stage == "dpo":
                codes, self.said[stage] = killing.run_two(stage, file), killing.said(file)
            else:
                done = launched(stage, file, "multi-cpu", ASSAY_PROCESSES="2")
                codes, self.said[stage] = [done.returncode], done.stderr
            assert not any(codes), self.said[stage][-3000:]
        return self.folder / stage

    def values(self, stage: str) -> dict[str, object]:
        """Return the settings of a stage: SFT until answers are known, then two steps on top of it."""
        if stage == "sft":
            return {**LESSON}
        chain = {"chain": str(self.trained("sft"))}
        if stage == "grpo":
            return {**SAMPLED, **chain}
        pairs, watched = self.folder / "pairs.jsonl", self.folder / "rows.jsonl"
        return {**PAIRS, **chain, "data": [str(pairs)], "monitor_data": [str(watched)]}

    def rows(self, name: str) -> tuple[dict[str, float], ...]:
        """Return metrics.jsonl of a run."""
        return RunFolder(self.folder / name).metric_rows()

    def adapter(self, name: str) -> dict[str, torch.Tensor]:
        """Return the weights that a run trained."""
        return load_file(self.folder / name / "adapter" / WEIGHTS_NAME)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Four questions with their answers, and pairs of a better and a worse answer."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("processes")
    write_examples(folder / "rows.jsonl", answered_in_lines(4))
    pairs = [{"prompt": f"Is {n} up?", "chosen": f"Yes, {n}.", "rejected": "No."} for n in range(8)]
    text = "".join(json.dumps(pair) + "\n" for pair in pairs)
    (folder / "pairs.jsonl").write_text(text, encoding="utf-8")
    return Place(folder)


@pytest.mark.parametrize(("stage", "steps"), [("sft", 40), ("dpo", 2), ("grpo", 2)])
def test_two_processes_write_one_run(place: Place, stage: str, steps: int):
    run = place.trained(stage)
    kept = record(run)
    assert (kept["status"], kept["host"]["processes"]) == ("finished", 2)
    logged = [row["step"] for row in place.rows(stage) if "loss" in row]
    assert logged == list(range(1, steps + 1))
    assert place.said[stage].count("finished: ") == 1
    stages = [each.name for each in read_chain(run).manifest.stages]
    assert stages == (["sft"] if stage == "sft" else ["sft", stage])


@pytest.mark.parametrize("stage", ["sft", "dpo"])
def test_two_processes_learn_what_one_learns_from_twice_the_batch(place: Place, stage: str):
    place.trained(stage)
    module, settings = (sft, SftSettings) if stage == "sft" else (dpo, DpoSettings)
    values, alone = place.values(stage), f"{stage}-alone"
    file = place.settings(alone, **{**values, "batch": 2 * int(str(values["batch"]))})
    module.train(read_request(settings, ["--config", str(file)]))
    for one, two in zip(place.rows(alone), place.rows(stage), strict=True):
        for name in {"loss", "rewards/margins", "monitor/kl", "monitor/accuracy"} & one.keys():
            assert two[name] == pytest.approx(one[name], rel=1e-3, abs=1e-5), (name, one["step"])
    expected = place.adapter(alone)
    for name, weight in place.adapter(stage).items():  # in bfloat16, whose next number is 1/128 away
        torch.testing.assert_close(weight, expected[name], rtol=1e-2, atol=1e-3)


def test_the_answers_of_a_group_are_sampled_by_both_processes(place: Place):
    files = sorted((place.trained("grpo") / "completions").glob("*.parquet"))
    assert len(files) == 2
    for file in files:
        rows = parquet.read_table(file).to_pylist()
        assert len(rows) == 16  # two processes with eight answers each, one group of them all
        assert len({json.dumps(row["prompt"]) for row in rows}) == 1
        assert len({json.dumps(row["completion"]) for row in rows}) > 2
    assert place.rows("grpo")[0]["kl"] == 0.0


def test_processes_that_no_longer_hold_the_same_weights_are_stopped(tmp_path: Path):
    settings = prepared(tmp_path, "sft", save_steps=1)
    assert 1 in killing.run_two("sft", settings, "--drifting_at", "3")
    assert "the processes hold different weights after step 3" in killing.said(settings)
    assert record(tmp_path / "run")["status"] == "failed"
    assert checkpoints(tmp_path / "run")[-1].name == "checkpoint-2"


def test_two_processes_that_were_killed_go_on_to_the_weights_of_two_that_were_not(tmp_path: Path):
    settings = prepared(tmp_path, "grpo", batch=2)
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
