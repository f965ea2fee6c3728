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


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    rows = tmp_path / "rows.jsonl"
    write_examples(rows, DATASETS["kmp-train"]()[:4])
    document = {
        "base": str(tmp_path / "model"),
        "data": [str(rows)],
        "output": str(tmp_path / "run"),
        "max_steps": 1,
        "batch": 2,
        "max_length": 1024,
        "log_steps": 1,
    }
    file = tmp_path / "sft.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


def invoke(*words: object):
    return CliRunner().invoke(app, [str(word) for word in words])


def dry(*words: object):
    result = invoke(*words, "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_dry_run_shows_settings_rows_two_examples_and_the_exact_line(settings: Path):
    plan = dry("sft", "--config", settings, "--epochs", "2")
    assert plan["command"] == f"accelerate launch --num_processes 1 -m training.sft --config {settings} --epochs 2"
    assert plan["settings"]["epochs"] == 2
    assert plan["data"]["rows"] == 4
    assert len(plan["examples"]) == 2
    told, asked = plan["examples"][0]["prompt"]
    assert told == {"role": "system", "content": system_prompt(SYSTEM_PROMPT, asked["content"])}


def test_a_dry_run_for_people_shows_the_same(settings: Path):
    tiny_base(settings.parent / "model")
    result = invoke("sft", "--config", settings, "--dry-run")
    assert result.exit_code == 0
    for shown in ("learning_rate", "rows of rows.jsonl", "optimizer steps"):
        assert shown in result.stdout
    assert "would run: accelerate launch --num_processes 1 -m training.sft" in result.stderr


def test_a_dry_run_says_what_dividing_by_the_deviation_of_groups_does_to_confidence(tmp_path):
    words = ("grpo", "--config", "training/configs/embedded/grpo.yaml", "--output", tmp_path / "run")
    grouped = (*words, "--scale_rewards", "group")
    (told,) = dry(*grouped)["advice"]
    assert "scale_rewards group" in told
    shown = " ".join(invoke(*grouped, "--dry-run").stderr.split())
    assert f"note: {told}" in shown
    assert dry(*words)["advice"] == []


def test_words_after_two_dashes_go_to_the_launcher(settings: Path):
    words = ("sft", "--config", settings, "--seed", "3", "--dry-run", "--json", "--")
    result = invoke(*words, "--num_processes", "2")
    line = json.loads(result.stdout)["command"]
    assert line == (f"accelerate launch --num_processes 2 -m training.sft --config {settings} --seed 3")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--lerning_rate", "1"), "Did you mean learning_rate"),
        (("--epochs", "none"), "epochs"),
        (("--data", "kmp-test"), "kept for testing"),
        (("stray",), "is not a setting"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_starts(settings: Path, words, problem: str):
    result = invoke("sft", "--config", settings, *words)
    assert isinstance(result.exception, BadConfig)
    assert problem in str(result.exception)
    assert not (settings.parent / "run").exists()


def test_grpo_on_a_chain_that_is_not_there_is_refused_before_anything_starts(settings: Path):
    words = ("--chain", settings.parent / "nowhere", "--batch", "8")
    file = settings.with_name("grpo.yaml")
    values = yaml.safe_load(settings.read_text(encoding="utf-8"))
    del values["max_length"]
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    result = invoke("grpo", "--config", file, *words)
    assert isinstance(result.exception, MissingModel)


def test_without_a_settings_file_the_usage_is_shown():
    assert invoke("sft").exit_code == 2


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


def test_a_dry_run_shows_tokens_with_what_is_learned_of_them(settings: Path):
    tiny_base(settings.parent / "model")
    plan = dry("sft", "--config", settings)
    assert plan["rows"] == {"read": 4, "kept": 4}
    shortest, median, longest = plan["lengths"]
    assert shortest <= median <= longest <= 1024
    for example, row in zip(plan["examples"], plan["tokens"], strict=True):
        mask = row["loss_mask"]
        assert mask == sorted(mask)
        learned = [token for token, bit in zip(row["tokens"], mask, strict=True) if bit]
        answer = example["completion"][0]["content"]
        assert "".join(learned) == f"{answer}<|im_end|>\n"
    assert plan["needs"]["steps"] == 1
    assert plan["needs"]["memory_bytes"]["total"] > 0


def test_a_dry_run_for_people_marks_the_tokens_that_are_learned_from(settings: Path):
    tiny_base(settings.parent / "model")
    result = invoke("sft", "--config", settings, "--dry-run")
    assert result.exit_code == 0
    assert "⟦" in result.stdout
    assert "memory in all" in result.stdout


def test_rows_that_are_too_long_are_counted_in_a_dry_run_and_refused_or_dropped(settings: Path):
    tiny_base(settings.parent / "model")
    lengths = dry("sft", "--config", settings)["lengths"]
    words = ("sft", "--config", settings, "--max_length", lengths[2] - 1)
    refused = invoke(*words, "--dry-run")
    assert refused.exit_code == 1
    assert "of 4 rows have more than max_length" in refused.stderr
    plan = dry(*words, "--too_long", "drop")
    assert plan["rows"]["kept"] < 4
    left_out = f"left out, more than max_length {lengths[2] - 1} tokens"
    assert plan["rows"][left_out] == 4 - plan["rows"]["kept"]


def test_a_dry_run_without_the_model_says_what_cannot_be_shown(settings: Path):
    plan = dry("sft", "--config", settings, "--base", "mistralai/Mistral-7B-v0.3")
    assert plan["tokens"] == []
    assert "tokenizer of mistralai/Mistral-7B-v0.3 is not on this machine" in plan["problems"][0]
    assert plan["needs"]["trained_weights"] > 0


@pytest.mark.parametrize("stage", ["dpo", "grpo"])
def test_a_dry_run_on_a_chain_that_is_not_here_shows_the_plan_and_ends_with_1(settings: Path, stage: str):
    values = yaml.safe_load(settings.read_text(encoding="utf-8"))
    del values["max_length"]
    if stage == "dpo":
        pairs = settings.with_name("pairs.jsonl")
        pairs.write_text('{"prompt": "Up?", "chosen": "Yes.", "rejected": "No."}\n')
        values["data"] = [str(pairs)]
    values |= {"chain": str(settings.parent / "nowhere"), "batch": 8}
    file = settings.with_name("next.yaml")
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    result = invoke(stage, "--config", file, "--dry-run")
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "would be refused: " in said
    assert "nowhere" in said
    assert f"would run: accelerate launch --num_processes 1 -m training.{stage}" in said


def test_a_dry_run_names_what_this_machine_lacks_and_a_run_is_refused_for_it(
    settings: Path, monkeypatch: pytest.MonkeyPatch
):
    tiny_base(settings.parent / "model")
    monkeypatch.setattr("lab.train.runner.has_gpu", lambda: False)
    monkeypatch.setattr("training.launch.equipment.is_installed", lambda package: package == "torch")
    words = ("sft", "--config", settings, "--profile", "zero2", "--report_to", "wandb")
    problems = " ".join(dry(*words)["problems"])
    for part in ("profile zero2 is for GPUs", "pip install deepspeed", "pip install wandb"):
        assert part in problems
    refused = invoke(*words)
    assert isinstance(refused.exception, BadConfig)
    assert "pip install deepspeed" in str(refused.exception)
    assert not (settings.parent / "run").exists()


def test_a_profile_by_name_becomes_the_configuration_of_the_launcher(settings: Path):
    line = dry("sft", "--config", settings, "--profile", "zero3")["command"]
    assert " --config_file " in line
    assert line.split(" -m ")[0].endswith("training/configs/accelerate/zero3.yaml")


def test_several_processes_that_accelerate_would_not_start_are_refused(settings: Path):
    result = invoke("sft", "--config", settings, "--profile", "cpu", "--", "--num_processes", "2")
    assert isinstance(result.exception, BadConfig)
    assert "use --profile multi-cpu" in str(result.exception)


def test_slurm_without_a_cluster_writes_the_script_and_says_so(settings: Path):
    words = ("sft", "--config", settings, "--slurm", "--slurm-option", "partition=gpu", "--json")
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    script = Path(json.loads(result.stdout)["script"])
    assert script == settings.parent / "run.slurm" / "submission.sh"
    assert "#SBATCH --partition=gpu" in script.read_text(encoding="utf-8")
    assert "there is no SLURM here" in result.stderr
    assert not (settings.parent / "run").exists()


def typed(settings: Path, *words: str) -> subprocess.CompletedProcess[str]:
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


def test_the_command_trains_and_prints_the_record_of_the_run(settings: Path):
    tiny_base(settings.parent / "model")
    done = typed(settings, "--seed", "1", "--json")
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"$ accelerate launch --num_processes 1 -m training.sft --config {settings} --seed 1" in done.stderr
    record = json.loads(done.stdout)
    assert (record["status"], record["seed"]) == ("finished", 1)
    assert record["config"]["data"] == ["rows.jsonl"]
    assert str(settings.parent) not in done.stdout


@pytest.mark.slow
def test_a_run_that_ends_badly_says_so_after_all_that_its_launcher_says(settings: Path):
    done = typed(settings, "--", "--no_such_option")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("training did not finish: see the first error above")
