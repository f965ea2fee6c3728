"""`assay train` on a tiny base: what is planned, trained and said. Refusals: cases/train.yaml."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from evals.errors import BadConfig
from evals.questions import SYSTEM_PROMPT, system_prompt
from lab.cli import app
from tests.evals.reviewed import example, prose
from tests.lab.trainings import training_rows
from tests.models import tiny_base
from training.data.dev import development_papers
from training.grpo import GrpoSettings
from training.run.folder import RunFolder

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


def test_the_help_of_a_stage_lists_each_setting_with_its_default(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = [[cell.strip() for cell in line.split("│")[1:4]] for line in invoke("grpo", "--help").stdout.splitlines()]
    settings = {row[0]: row[1:] for row in shown if len(row) == 3}
    assert settings.keys() >= GrpoSettings.model_fields.keys()
    assert settings["num_generations"] == ["8", "answers per question (G)"]
    assert settings["vllm"][1].endswith("(off, colocate, server)")


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
    monkeypatch.setattr("lab.shared.runner.has_gpu", lambda: False)
    monkeypatch.setattr("training.launch.accelerate.find_spec", lambda package: package == "torch")
    words = ("sft", "--config", folder / "sft.yaml", "--profile", "zero2", "--report_to", "wandb")
    problems = " ".join(json.loads(invoke(*words, "--dry-run", "--json").stdout)["problems"])
    for part in ("profile zero2 is for GPUs", "pip install deepspeed", "pip install wandb"):
        assert part in problems
    refused = invoke(*words)
    assert isinstance(refused.exception, BadConfig)
    assert "pip install deepspeed" in str(refused.exception)
    assert not (folder / "run").exists()


def test_a_dry_run_of_a_job_shows_what_slurm_would_be_asked_for_and_of_a_run_here_how_many_gpus_stay_unused(
    folder, monkeypatch
):
    monkeypatch.setattr("training.launch.accelerate.gpus_here", lambda: 4)
    words = ("sft", "--config", folder / "sft.yaml", "--dry-run", "--json")
    here = json.loads(invoke(*words).stdout)
    assert here["slurm"] is None and "1 of 4 GPUs is used" in here["advice"][-1]
    job = json.loads(invoke(*words, "--slurm", "--slurm-option", "partition=gpu").stdout)
    assert (job["slurm"]["mem"], job["slurm"]["gpus_per_node"], job["slurm"]["partition"]) == ("64GB", 1, "gpu")
    assert job["advice"] == [], "GPUs of the machine that submits a job say nothing"


def test_a_run_that_was_stopped_ends_with_code_3_and_is_no_chain_yet(folder, monkeypatch):
    record = RunFolder(ROOT / "training/embedded/sft").record()
    output = folder / "stopped"
    words = f"--config sft.yaml --output {output}"
    kept = "accelerate launch -m training.sft --config sft.yaml --output stopped"  # without folders of this machine
    changes = {"status": "stopped", "result": {"steps": 12}, "command": kept}

    def stopped(plan, copies=None) -> int:
        (output / "checkpoint-12").mkdir(parents=True)
        RunFolder(output).write(record.model_copy(update=changes))
        (output / "checkpoint-12/trainer_state.json").write_text('{"global_step": 12, "max_steps": 45}')
        return 0

    monkeypatch.setattr("lab.commands.train.run_line", stopped)
    monkeypatch.setattr("training.run.folder.last_whole_checkpoint", lambda path, _: path / "checkpoint-12")
    done = invoke("sft", "--config", folder / "sft.yaml", "--output", output)
    told = f"stopped at step 12 of 45; go on with `assay train sft {words}`"
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (3, True), done.stderr
    asked = CliRunner().invoke(app, ["review", "infer", "--chain", str(output), "--out", str(folder / "p.jsonl")])
    assert (asked.exit_code, told in str(asked.exception)) == (1, True)


STAGE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("saved", file=sys.stderr, flush=True)))
print("ready", file=sys.stderr, flush=True)
while True:
    time.sleep(0.05)
"""
LAUNCHER = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {STAGE!r}]))"
RUN = """
import sys
from lab.commands.train import run_to_end
sys.exit(run_to_end([sys.executable, "-c", {code!r}], lambda process: {listeners}))
"""


def test_a_term_sent_to_the_command_or_the_recipe_alone_reaches_the_stage_which_saves_and_ends():
    command = RUN.format(code=LAUNCHER, listeners="process.children()")
    recipe = RUN.format(code=command, listeners="[process]")
    with subprocess.Popen([sys.executable, "-c", recipe], stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stderr.readline() == "ready\n"
        process.terminate()
        assert (process.stderr.read(), process.wait()) == ("saved\n", 0)


def test_a_development_paper_with_a_version_among_the_test_papers_is_left_out(tmp_path):
    corpus = training_rows(tmp_path) / "corpus"
    twin = example([("Methods", prose(20))], id="s:1v2", family="1", split="test")
    with (corpus / "test.jsonl").open("a", encoding="utf-8") as file:
        file.write(twin.model_dump_json() + "\n")
    assert {each.id for each in development_papers(str(corpus))} == {"s:2", "s:3", "s:4"}
    assert {each.split for each in development_papers("demonstration", 2)} == {"dev"}
