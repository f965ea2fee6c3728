"""`assay train` and `assay train sweep` on a tiny base: what is planned, trained and said. Refusals: cases/train.yaml, sweep.yaml."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from evals.errors import BadConfig, LabError
from evals.questions import SYSTEM_PROMPT, system_prompt, write_examples
from lab.cli import app
from tests.evals.reviewed import example, prose
from tests.lab.trainings import COUNTS, MEASURE, QUESTIONS, record, training_rows
from tests.models import tiny_base
from tests.training.reviewers import CONTEXT
from tests.training.runs import COMMON, environment
from tests.training.test_review import chat
from training.launch.accelerate import Launch
from training.launch.sweep import read_sweep
from training.reviewer.measure import development_papers
from training.run.folder import public_config

ROOT = Path(__file__).parents[2]
SMALL = {"max_steps": 1, "batch": 2, "log_steps": 1, "max_length": 1024, "autocast": "none"}


def written(file: Path, **document: object) -> Path:
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return file


def place(folder: Path, **model: int) -> Path:
    """Write rows, a base and the settings of a small run into a folder and return it."""
    training_rows(folder)
    tiny_base(folder / "model", **model)
    settings = {**SMALL, "base": str(folder / "model"), "data": [str(folder / "rows.jsonl")]}
    written(folder / "sft.yaml", **settings, output=str(folder / "run"))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder that no test changes."""
    return place(tmp_path_factory.mktemp("train"))


def invoke(*words: object):
    return CliRunner().invoke(app, ["train", *map(str, words)])


def test_the_tokens_that_a_dry_run_calls_learned_are_those_of_the_answer(folder):
    plan = json.loads(invoke("sft", "--config", folder / "sft.yaml", "--dry-run", "--json").stdout)
    shortest, median, longest = plan["lengths"]
    assert shortest <= median <= longest <= 1024
    for row, tokens in zip(plan["examples"], plan["tokens"], strict=True):
        told, asked = row["prompt"]
        assert told["content"] == system_prompt(SYSTEM_PROMPT, asked["content"])
        assert tokens["loss_mask"] == sorted(tokens["loss_mask"])
        learned = [token for token, bit in zip(tokens["tokens"], tokens["loss_mask"], strict=True) if bit]
        assert "".join(learned) == f"{row['completion'][0]['content']}<|im_end|>\n"


def test_a_dry_run_names_what_this_machine_lacks_and_a_run_is_refused_for_it(folder, monkeypatch):
    monkeypatch.setattr("lab.train.runner.has_gpu", lambda: False)
    monkeypatch.setattr("training.launch.accelerate.is_installed", lambda package: package == "torch")
    words = ("sft", "--config", folder / "sft.yaml", "--profile", "zero2", "--report_to", "wandb")
    problems = " ".join(json.loads(invoke(*words, "--dry-run", "--json").stdout)["problems"])
    for part in ("profile zero2 is for GPUs", "pip install deepspeed", "pip install wandb"):
        assert part in problems
    refused = invoke(*words)
    assert isinstance(refused.exception, BadConfig)
    assert "pip install deepspeed" in str(refused.exception)
    assert not (folder / "run").exists()


def typed(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder as a person types it."""
    program = [sys.executable, "-c", "from lab.cli import main; main()", "train", *map(str, words)]
    settings = environment() | {"HOME": os.environ.get("HOME", "")}
    return subprocess.run(program, cwd=folder, env=settings, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_command_trains_and_prints_the_record_of_the_run_or_says_that_it_did_not_finish(folder):
    settings = folder / "sft.yaml"
    failed = typed(folder, "sft", "--config", settings, "--", "--no_such_option")
    assert failed.returncode == 1
    assert failed.stderr.rstrip().endswith("training did not finish: see the first error above")
    done = typed(folder, "sft", "--config", settings, "--seed", "1", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"$ accelerate launch --num_processes 1 -m training.sft --config {settings} --seed 1" in done.stderr
    found = json.loads(done.stdout)
    assert (found["status"], found["seed"], found["config"]["data"]) == ("finished", 1, ["rows.jsonl"])
    assert str(folder) not in done.stdout


def sweep_file(folder: Path, **values: object) -> Path:
    places = {"config": "sft.yaml", "output": "runs", "dev": "dev.jsonl"}
    document = {"stage": "sft", **{key: str(folder / name) for key, name in places.items()}, **values}
    return written(folder / "sweep.yaml", **document)


def test_a_sweep_that_was_trained_before_a_setting_existed_still_counts_as_done(folder, tmp_path):
    sweep = read_sweep(sweep_file(folder, output=str(tmp_path), grid={"seed": [1]}))
    (trial,) = sweep.trials
    plan = sweep.plan(trial, Launch())
    config = public_config(plan.settings)
    del config["packing"]
    old = record(stage="sft", config=config, data=plan.data.record())
    sweep.refuse_other(trial, Launch(), old)
    other = old.model_copy(update={"config": {**config, "packing": True}})
    with pytest.raises(BadConfig, match="packing: True, now False"):
        sweep.refuse_other(trial, Launch(), other)


def rows_of(folder: Path, file: Path) -> tuple[list[dict], str]:
    done = typed(folder, "sweep", file, "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, dict, str]:
    """A folder whose sweep of one run is done, the row of it, and what was said."""
    folder = place(tmp_path_factory.mktemp("sweep"))
    (row,), said = rows_of(folder, sweep_file(folder, grid={"seed": [1]}))
    return folder, row, said


def copied(done: Path, tmp_path: Path) -> Path:
    """Return a copy of a folder whose settings name the copy."""
    folder = shutil.copytree(done, tmp_path / "copy")
    settings = folder / "sft.yaml"
    settings.write_text(settings.read_text(encoding="utf-8").replace(str(done), str(folder)))
    return folder


@pytest.mark.slow
def test_every_run_is_trained_measured_and_shown_with_intervals_once(trained, tmp_path):
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
    refused = invoke("sweep", sweep_file(folder, grid={"seed": [2]}))
    assert isinstance(refused.exception, BadConfig)
    assert "seed: 1, now 2" in str(refused.exception)
    write_examples(folder / "rows.jsonl", QUESTIONS[:3])
    assert "rows: 4, now 3" in str(invoke("sweep", sweep_file(folder, grid={"seed": [1]})).exception)


@pytest.mark.slow
def test_a_run_that_fails_ends_the_sweep_with_code_1_and_a_table_that_says_why(trained, tmp_path):
    folder = copied(trained[0], tmp_path)
    (folder / "runs" / "1").rename(folder / "runs" / "2")
    done = typed(folder, "sweep", sweep_file(folder, runs=[{"base": str(folder / "nowhere")}, {"seed": 1}]), "--json")
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
    result = invoke("sweep", sweep_file(folder, grid={"seed": [1]}))
    assert isinstance(result.exception, LabError)
    why = " ".join(result.stdout.split()).partition("came to no result")[2]
    assert "trained, but not measured: " in why
    assert "adapter" in why


def test_a_development_paper_with_a_version_among_the_test_papers_is_left_out(tmp_path):
    corpus = training_rows(tmp_path) / "corpus"
    twin = example([("Methods", prose(20))], id="s:1v2", family="1", split="test")
    with (corpus / "test.jsonl").open("a", encoding="utf-8") as file:
        file.write(twin.model_dump_json() + "\n")
    assert {each.id for each in development_papers(str(corpus))} == {"s:2", "s:3", "s:4"}
    assert {each.split for each in development_papers("demonstration", 2)} == {"dev"}


@pytest.mark.slow
def test_every_reviewer_of_a_sweep_is_trained_reviews_the_papers_and_is_scored_above_chance_once(tmp_path):
    folder = place(tmp_path, context=CONTEXT)
    rows = [json.dumps(chat(f"s:{n}")) + "\n" for n in (0, 100)]
    (folder / "rows.jsonl").write_text("".join(rows), encoding="utf-8")
    settings = {"base": str(folder / "model"), "data": [str(folder / "rows.jsonl")], "output": "unused"}
    written(folder / "sft.yaml", **{**COMMON, **settings, "max_steps": 1, "batch": 1, "max_length": CONTEXT})
    papers = {"stage": "review", "dev": str(folder / "corpus"), "measure": MEASURE}
    file = sweep_file(folder, grid={"seed": [1]}, **papers)
    sweep = read_sweep(file)
    assert [each.id for each in sweep.papers] == ["s:1", "s:2", "s:3"]
    (row,), said = rows_of(folder, file)
    assert (row["run"], row["settings"], row["status"]) == ("1", "seed 1", "finished")
    assert (row["n"], row["answered"]) == (3, 3)
    assert row["f1_above_permuted"]["value"] == pytest.approx(row["f1"]["value"] - row["permuted"])
    assert "training.review" in said
    (reports,) = (folder / "runs" / "1" / "reports").glob("dev-*")
    assert {"rows.jsonl", "score.json"} <= {each.name for each in reports.iterdir()}
    again = invoke("sweep", file, "--json")
    assert json.loads(again.stdout) == [row]
    assert "reviews" not in again.stderr
