"""`assay train` shows what it would do, runs exactly that, and says what came of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from evals.errors import BadConfig, MissingModel
from evals.questions import DATASETS, SYSTEM_PROMPT, system_prompt, write_examples
from lab.commands.train import app
from tests.models import tiny_base

ROOT = Path(__file__).parents[2]
SHIPPED = "training/configs/embedded/sft.yaml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny base and four questions."""
    folder = tmp_path_factory.mktemp("train")
    write_examples(folder / "rows.jsonl", DATASETS["kmp-train"]()[:4])
    (folder / "pairs.jsonl").write_text('{"prompt": "Up?", "chosen": "Yes.", "rejected": "No."}\n')
    tiny_base(folder / "model")
    return folder


@pytest.fixture
def settings(folder: Path, tmp_path: Path) -> Path:
    """The settings of a small run, whose folder is not there yet."""
    return written(folder, tmp_path / "sft.yaml", max_length=1024)


def written(folder: Path, file: Path, **values: object) -> Path:
    document = {
        "base": str(folder / "model"),
        "data": [str(folder / "rows.jsonl")],
        "output": str(file.parent / "run"),
        "max_steps": 1,
        "batch": 2,
        "log_steps": 1,
        **values,
    }
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


def invoke(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


def dry(*words: object):
    result = invoke(*words, "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_dry_run_shows_settings_rows_needs_the_line_and_the_tokens_that_are_learned(settings: Path):
    plan = dry("sft", "--config", settings, "--epochs", "2")
    assert plan["command"] == f"accelerate launch --num_processes 1 -m training.sft --config {settings} --epochs 2"
    assert (plan["settings"]["epochs"], plan["data"]["rows"], len(plan["examples"])) == (2, 4, 2)
    told, asked = plan["examples"][0]["prompt"]
    assert told == {"role": "system", "content": system_prompt(SYSTEM_PROMPT, asked["content"])}
    assert plan["rows"] == {"read": 4, "kept": 4}
    shortest, median, longest = plan["lengths"]
    assert shortest <= median <= longest <= 1024
    for example, row in zip(plan["examples"], plan["tokens"], strict=True):
        mask = row["loss_mask"]
        assert mask == sorted(mask)
        learned = [token for token, bit in zip(row["tokens"], mask, strict=True) if bit]
        assert "".join(learned) == f"{example['completion'][0]['content']}<|im_end|>\n"
    assert plan["needs"]["steps"] == 1 and plan["needs"]["memory_bytes"]["total"] > 0

    people = invoke("sft", "--config", settings, "--dry-run")
    assert people.exit_code == 0
    for shown in ("learning_rate", "rows of rows.jsonl", "optimizer steps", "⟦", "memory in all"):
        assert shown in people.stdout
    assert "would run: accelerate launch --num_processes 1 -m training.sft" in people.stderr


def test_a_dry_run_says_what_dividing_by_the_deviation_of_groups_does_to_confidence(tmp_path: Path):
    words = ("grpo", "--config", "training/configs/embedded/grpo.yaml", "--output", tmp_path / "run")
    grouped = (*words, "--scale_rewards", "group")
    (told,) = dry(*grouped)["advice"]
    assert "scale_rewards group" in told
    assert f"note: {told}" in " ".join(invoke(*grouped, "--dry-run").stderr.split())
    assert dry(*words)["advice"] == []


def test_words_after_two_dashes_go_to_the_launcher_and_a_profile_becomes_its_configuration(settings: Path):
    words = ("sft", "--config", settings, "--seed", "3", "--dry-run", "--json")
    line = json.loads(invoke(*words, "--", "--num_processes", "2").stdout)["command"]
    assert line == f"accelerate launch --num_processes 2 -m training.sft --config {settings} --seed 3"
    line = dry("sft", "--config", settings, "--profile", "zero3")["command"]
    assert line.split(" -m ")[0].endswith("training/configs/accelerate/zero3.yaml")


REFUSED = [
    (("--lerning_rate", "1"), "Did you mean learning_rate"),
    (("--epochs", "none"), "epochs"),
    (("--data", "kmp-test"), "kept for testing"),
    (("stray",), "is not a setting"),
    (("--profile", "cpu", "--", "--num_processes", "2"), "use --profile multi-cpu"),
]


def test_what_cannot_be_run_is_refused_before_anything_starts(folder: Path, settings: Path):
    for words, problem in REFUSED:
        result = invoke("sft", "--config", settings, *words)
        assert isinstance(result.exception, BadConfig)
        assert problem in str(result.exception)
    file = written(folder, settings.with_name("grpo.yaml"), chain=str(folder / "nowhere"), batch=8)
    assert isinstance(invoke("grpo", "--config", file).exception, MissingModel)
    assert invoke("sft").exit_code == 2
    assert not (settings.parent / "run").exists()


@pytest.mark.parametrize("words", [("--help",), ("sft", "--help"), ("dpo", "--help"), ("grpo", "--help")])
def test_help_shows_an_example(words):
    result = invoke(*words)
    assert result.exit_code == 0
    assert "Example: assay train" in result.stdout or words == ("--help",)


def test_planning_the_shipped_settings_needs_no_torch(tmp_path: Path):
    program = (
        "import sys; from training.launch.plan import plan_of;"
        f"plan_of('sft', ['--config', '{SHIPPED}', '--output', '{tmp_path}/new']).needs(8);"
        " sys.exit(9 if 'torch' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]


def test_rows_that_are_too_long_are_counted_in_a_dry_run_and_refused_or_dropped(settings: Path):
    longest = dry("sft", "--config", settings)["lengths"][2]
    words = ("sft", "--config", settings, "--max_length", longest - 1)
    refused = invoke(*words, "--dry-run")
    assert refused.exit_code == 1
    assert "of 4 rows have more than max_length" in refused.stderr
    rows = dry(*words, "--too_long", "drop")["rows"]
    assert rows["kept"] < 4
    assert rows[f"left out, more than max_length {longest - 1} tokens"] == 4 - rows["kept"]


def test_a_dry_run_without_the_model_says_what_cannot_be_shown(settings: Path):
    plan = dry("sft", "--config", settings, "--base", "mistralai/Mistral-7B-v0.3")
    assert plan["tokens"] == []
    assert "tokenizer of mistralai/Mistral-7B-v0.3 is not on this machine" in plan["problems"][0]
    assert plan["needs"]["trained_weights"] > 0


@pytest.mark.parametrize("stage", ["dpo", "grpo"])
def test_a_dry_run_on_a_chain_that_is_not_here_shows_the_plan_and_ends_with_1(folder, tmp_path, stage: str):
    data = {"data": [str(folder / "pairs.jsonl")]} if stage == "dpo" else {}
    file = written(folder, tmp_path / "next.yaml", chain=str(folder / "nowhere"), batch=8, **data)
    result = invoke(stage, "--config", file, "--dry-run")
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    for part in (
        "would be refused: ",
        "nowhere",
        f"would run: accelerate launch --num_processes 1 -m training.{stage}",
    ):
        assert part in said


def test_a_dry_run_names_what_this_machine_lacks_and_a_run_is_refused_for_it(settings: Path, monkeypatch):
    monkeypatch.setattr("lab.train.runner.has_gpu", lambda: False)
    monkeypatch.setattr("training.launch.accelerate.is_installed", lambda package: package == "torch")
    words = ("sft", "--config", settings, "--profile", "zero2", "--report_to", "wandb")
    problems = " ".join(dry(*words)["problems"])
    for part in ("profile zero2 is for GPUs", "pip install deepspeed", "pip install wandb"):
        assert part in problems
    refused = invoke(*words)
    assert isinstance(refused.exception, BadConfig)
    assert "pip install deepspeed" in str(refused.exception)
    assert not (settings.parent / "run").exists()


def test_slurm_without_a_cluster_writes_the_script_and_says_so(settings: Path):
    result = invoke("sft", "--config", settings, "--slurm", "--slurm-option", "partition=gpu", "--json")
    assert result.exit_code == 0, result.output
    script = Path(json.loads(result.stdout)["script"])
    assert script == settings.parent / "run.slurm" / "submission.sh"
    assert "#SBATCH --partition=gpu" in script.read_text(encoding="utf-8")
    assert "there is no SLURM here" in result.stderr
    assert not (settings.parent / "run").exists()


@pytest.mark.slow
def test_the_command_trains_and_prints_the_record_of_the_run_or_says_that_it_did_not_finish(settings: Path):
    def typed(*words: str) -> subprocess.CompletedProcess[str]:
        program = "import sys; from lab.cli import main; main()"
        places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return subprocess.run(
            [sys.executable, "-c", program, "train", "sft", "--config", str(settings), *words],
            cwd=settings.parent,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    failed = typed("--", "--no_such_option")
    assert failed.returncode == 1
    assert failed.stderr.rstrip().endswith("training did not finish: see the first error above")
    done = typed("--seed", "1", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"$ accelerate launch --num_processes 1 -m training.sft --config {settings} --seed 1" in done.stderr
    record = json.loads(done.stdout)
    assert (record["status"], record["seed"], record["config"]["data"]) == ("finished", 1, ["rows.jsonl"])
    assert str(settings.parent) not in done.stdout
