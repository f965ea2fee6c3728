import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from evals.errors import BadConfig, LabError
from evals.questions import DATASETS, write_examples
from lab.cli import app
from lab.commands.sweep import trials_table
from tests.lab.trainings import record
from tests.models import tiny_base, tiny_chain
from training.launch.accelerate import Launch
from training.launch.sweep import read_sweep
from training.run.folder import public_config

ROOT = Path(__file__).parents[2]
QUESTIONS = DATASETS["kmp-train"]()
COUNTS = [each for each in QUESTIONS[4:] if each.ground_truth.kind == "count"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(tmp_path: Path) -> Path:
    """Write rows, dev questions and settings of a small run."""
    write_examples(tmp_path / "rows.jsonl", QUESTIONS[:4])
    write_examples(tmp_path / "dev.jsonl", COUNTS[:3])
    settings = {
        "base": str(tmp_path / "model"),
        "data": [str(tmp_path / "rows.jsonl")],
        "output": "unused",
        "max_steps": 1,
        "batch": 2,
        "max_length": 1024,
        "autocast": "none",
    }
    (tmp_path / "sft.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return tmp_path


def sweep_file(folder: Path, **values: object) -> Path:
    document = {
        "stage": "sft",
        "config": str(folder / "sft.yaml"),
        "output": str(folder / "runs"),
        "dev": str(folder / "dev.jsonl"),
        "grid": {"lora_r": [2, 4], "learning_rate": [1e-3, 2e-3]},
        **values,
    }
    file = folder / "sweep.yaml"
    given = {key: value for key, value in document.items() if value is not None}
    file.write_text(yaml.safe_dump(given, sort_keys=False), encoding="utf-8")
    return file


def test_a_grid_is_every_combination_each_in_a_folder_of_its_own(folder: Path):
    sweep = read_sweep(sweep_file(folder))
    assert [dict(each.changes) for each in sweep.trials] == [
        {"lora_r": rank, "learning_rate": rate} for rank in ("2", "4") for rate in ("0.001", "0.002")
    ]
    assert [each.folder.name for each in sweep.trials] == ["1", "2", "3", "4"]


REFUSED = [
    ({"dev": "kmp-test"}, "kept for testing"),
    ({"dev": None}, "it needs stage, config, output, dev"),
    ({"grid": None}, "either grid or runs"),
    ({"runs": [{}]}, "either grid or runs"),
    ({"grid": [1]}, "grid is a mapping"),
    ({"grid": {"seed": []}}, "asks for 0 runs"),
    ({"grid": {"seed": list(range(101))}}, "asks for 101 runs"),
    ({"grid": {"output": ["a"]}}, "gives each its own output"),
    ({"stage": "rlhf"}, "choose one of sft, dpo, grpo"),
]


@pytest.mark.parametrize(("changes", "problem"), REFUSED)
def test_a_sweep_that_makes_no_sense_or_looks_at_test_rows_is_refused(folder, changes, problem):
    with pytest.raises(BadConfig, match=problem):
        read_sweep(sweep_file(folder, **changes))


def test_a_run_that_would_be_measured_by_its_own_training_rows_is_refused(folder: Path):
    file = sweep_file(folder, dev=str(folder / "rows.jsonl"))
    result = CliRunner().invoke(app, ["train", "sweep", str(file), "--dry-run"])
    assert isinstance(result.exception, BadConfig)
    assert "4 of 4 dev questions" in str(result.exception)


def swept(folder: Path, file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    program = "from lab.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "train", "sweep", str(file), *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def rows_of(folder: Path, file: Path, code: int = 0) -> tuple[list[dict[str, object]], str]:
    done = swept(folder, file, "--json")
    assert done.returncode == code, done.stderr[-3000:]
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object], str]:
    """A folder whose sweep of one run is done, the row of it, and what was said."""
    folder = written(tmp_path_factory.mktemp("sweep"))
    tiny_base(folder / "model")
    (row,), said = rows_of(folder, sweep_file(folder, grid={"seed": [1]}))
    return folder, row, said


def test_a_preference_sweep_that_would_be_measured_by_its_own_questions_is_refused(folder: Path):
    chain = tiny_chain(folder / "chain")
    pair = {
        "prompt": [{"role": "user", "content": COUNTS[1].prompt}],
        "chosen": [{"role": "assistant", "content": "Two."}],
        "rejected": [{"role": "assistant", "content": "Three."}],
    }
    (folder / "pairs.jsonl").write_text(json.dumps(pair) + "\n", encoding="utf-8")
    settings = {"data": [str(folder / "pairs.jsonl")], "output": "unused", "chain": str(chain)}
    (folder / "dpo.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    file = sweep_file(folder, stage="dpo", config=str(folder / "dpo.yaml"), grid={"beta": [0.1]})
    sweep = read_sweep(file)
    with pytest.raises(BadConfig, match=f"1 of 3 dev questions .such as {COUNTS[1].id}. are in the"):
        sweep.plan(sweep.trials[0], Launch())


def test_a_sweep_that_was_trained_before_a_setting_existed_still_counts_as_done(folder: Path):
    sweep = read_sweep(sweep_file(folder, grid={"seed": [1]}))
    (trial,) = sweep.trials
    plan = sweep.plan(trial, Launch())
    config = public_config(plan.settings)
    del config["packing"]
    old = record(stage="sft", config=config, data=plan.data.record())
    sweep.refuse_other(trial, Launch(), old)
    other = old.model_copy(update={"config": {**config, "packing": True}})
    with pytest.raises(BadConfig, match="packing: True, now False"):
        sweep.refuse_other(trial, Launch(), other)


def copied(done: Path, place: Path) -> Path:
    """Return a copy of a folder whose settings name the copy."""
    folder = shutil.copytree(done, place / "copy")
    settings = folder / "sft.yaml"
    settings.write_text(settings.read_text(encoding="utf-8").replace(str(done), str(folder)))
    return folder


@pytest.mark.slow
def test_every_run_is_trained_measured_and_shown_with_intervals_once(trained, tmp_path: Path):
    done, row, said = trained
    assert (row["run"], row["settings"], row["status"]) == ("1", "seed 1", "finished")
    assert (row["n"], row["why"]) == (3, None)
    assert row["accuracy"]["low"] <= row["accuracy"]["value"] <= row["accuracy"]["high"]
    assert "training.sft" in said
    folder = copied(done, tmp_path)
    file = sweep_file(folder, grid={"seed": [1]})
    again, said = rows_of(folder, file)
    assert again == [row]
    assert "training.sft" not in said

    write_examples(folder / "dev.jsonl", COUNTS[1:3])
    (other,), said = rows_of(folder, file)
    assert other["n"] == 2  # other questions: measured again, not trained again
    assert "training.sft" not in said
    changed = sweep_file(folder, grid={"seed": [2]})
    result = CliRunner().invoke(app, ["train", "sweep", str(changed)])
    assert isinstance(result.exception, BadConfig)
    assert "seed: 1, now 2" in str(result.exception)
    write_examples(folder / "rows.jsonl", QUESTIONS[:3])
    result = CliRunner().invoke(app, ["train", "sweep", str(sweep_file(folder, grid={"seed": [1]}))])
    assert "rows: 4, now 3" in str(result.exception)


@pytest.mark.slow
def test_a_run_that_fails_ends_the_sweep_with_code_1_and_a_table_that_says_why(trained, tmp_path):
    folder = copied(trained[0], tmp_path)
    runs = [{"base": str(folder / "nowhere")}, {"seed": 1}]
    (folder / "runs" / "1").rename(folder / "runs" / "2")
    done = swept(folder, sweep_file(folder, grid=None, runs=runs), "--json")
    assert done.returncode == 1, done.stderr[-3000:]
    failed, kept = json.loads(done.stdout)
    assert (failed["status"], failed["accuracy"]) == ("failed", None)
    assert "nowhere" in failed["why"]
    assert kept == {**trained[1], "run": "2"}
    assert "1 of 2 runs (1) came to no result" in done.stderr
    assert "Traceback" not in done.stderr.partition("error: 1 of 2")[2]


@pytest.mark.slow
def test_a_run_that_cannot_be_measured_is_told_with_the_reason_and_keeps_its_training(trained, tmp_path, monkeypatch):
    folder = copied(trained[0], tmp_path)
    monkeypatch.chdir(folder)
    (folder / "runs" / "1" / "adapter" / "adapter_model.safetensors").unlink()
    write_examples(folder / "dev.jsonl", COUNTS[1:3])
    result = CliRunner().invoke(app, ["train", "sweep", str(sweep_file(folder, grid={"seed": [1]}))])
    assert isinstance(result.exception, LabError)
    table = " ".join(result.stdout.split())
    assert "came to no result" in table
    assert "trained, but not measured: " in table
    assert "adapter" in result.stdout.partition("came to no result")[2]


def test_the_table_of_a_sweep_without_failures_has_none_of_reasons():
    cells = {"run": "1", "settings": "seed 1", "status": "finished", "n": 3}
    failed = {**cells, "run": "2", "status": "stopped", "why": "stopped itself: knowledge was lost"}
    shown = {}
    for name, rows in (("good", [cells | {"why": None}]), ("bad", [cells | {"why": None}, failed])):
        console = Console(width=100, record=True, file=io.StringIO())
        console.print(trials_table("rates", rows, str.upper))
        shown[name] = console.export_text()
    assert "why" not in shown["good"] and "came to no result" not in shown["good"]
    assert "stopped itself: knowledge was lost" in shown["bad"].partition("came to no result")[2]
