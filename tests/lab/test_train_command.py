"""`assay train` on a tiny base: what is planned, trained and said, from a recipe too. Refusals: cases/train.yaml."""

import hashlib
import json
import string
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from evals.errors import BadConfig
from evals.questions import SYSTEM_PROMPT, system_prompt
from lab.cli import app
from tests.evals.reviewed import example, prose
from tests.lab.commands import run_here
from tests.lab.trainings import training_rows
from tests.models import tiny_base
from tests.training.families.bases import write_base
from training.data.dev import development_papers
from training.grpo import GrpoSettings
from training.models.chain import check_chain
from training.run.folder import RunFolder
from training.stages import recipe_names, system_recipe

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
    monkeypatch.setattr("training.run.checkpoints.fault_of", lambda _: None)
    done = invoke("sft", "--config", folder / "sft.yaml", "--output", output)
    told = f"stopped at step 12 of 45; go on with `assay train sft {words}`"
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (3, True), done.stderr
    monkeypatch.setenv("ASSAY_RUNS", str(folder))
    (output / "checkpoint-12/adapter_config.json").write_text("{}")  # as PEFT writes it
    for words in (["chain", "check", str(output)], ["ask", "Why?", "--chain", "stopped"]):
        asked = CliRunner().invoke(app, words)
        assert (asked.exit_code, told in str(asked.exception)) == (1, True), words
    looked = invoke("sft", "--config", folder / "sft.yaml", "--output", output, "--lora_r", 3, "--dry-run")
    assert "an unfinished run with other settings" in str(looked.exception)


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


# ---- `assay train recipe` -------------------------------------------------------------------------


SAMPLED = "--STAGE.num_generations 4 --STAGE.generation_batch 4 --STAGE.batch 1 --STAGE.max_completion_length 8"
TINY = {
    "biorlhf": ("Mistral", "--input kmp=kmp-train[label:8] " + SAMPLED.replace("STAGE", "grpo")),
    "reviewer": ("Qwen3", "--optimizer auto"),
    "reviewer-9b": ("Qwen3.5, with picture tower", "--optimizer auto"),
    "reviewer-union": ("Qwen3", "--optimizer auto --input second=BASE"),
    "refiner": ("Qwen3", "--input judge=heuristic --refiner.vllm off " + SAMPLED.replace("STAGE", "refiner")),
}
"""By recipe: a tiny base of its family, and what makes its stages small."""
NO_FILE = "0" * 64
RECIPE = Path(__file__).parent / "tables" / "recipe.yaml"


def ran(file, *words: object) -> dict:
    """Return what the command printed as JSON, run as people run it."""
    line = [sys.executable, "-c", "from lab.cli import main; main()", "train", "recipe", file, *words, "--json"]
    done = subprocess.run([*map(str, line)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "refiner" else pytest.mark.slow) for name in recipe_names()]
)
def test_a_dry_run_shows_each_line_with_rows_steps_and_memory(name, tmp_path):
    done = invoke("recipe", name, "--profile", "cpu", "--dry-run", "--json", "--output", tmp_path / "out")
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    trained = [step for step in shown["steps"] if step["command"].startswith("assay train")]
    assert trained and all(80 > float(step["memory"].split(" GB")[0]) > 1 for step in trained)
    assert shown["hours"] and not any(step["done"] for step in shown["steps"])
    assert not (tmp_path / "out").exists()


@pytest.fixture
def recipe(tmp_path):
    """A recipe of two stages on a tiny base whose rows come from a server, and the file they are."""
    training_rows(tmp_path)
    tiny_base(tmp_path / "model")
    settings = {
        "base": str(tmp_path / "model"),
        "max_steps": 2,
        "batch": 2,
        "log_steps": 1,
        "max_length": 1024,
        "autocast": "none",
    }
    (tmp_path / "sft.yaml").write_text(yaml.safe_dump({**settings, "data": [], "output": "x"}))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        places = {
            "folder": tmp_path,
            "url": f"http://127.0.0.1:{server.server_port}",
            "sha256": hashlib.sha256((tmp_path / "rows.jsonl").read_bytes()).hexdigest(),
        }
        document = yaml.safe_load(string.Template(RECIPE.read_text(encoding="utf-8")).substitute(places))
        yield tmp_path / "tiny.yaml", document
        server.shutdown()


@pytest.mark.slow
def test_a_recipe_goes_on_where_it_failed_and_ends_with_what_was_published_beside_ours(recipe, tmp_path):
    file, document = recipe
    broken = [document["steps"][0], {**document["steps"][1], "run": "train sft --config nowhere.yaml"}]
    words = ("--output", tmp_path / "out", "--lora_r", "2")
    file.write_text(yaml.safe_dump({**document, "steps": broken}))
    with pytest.raises(AssertionError, match="run the same command to resume"):
        ran(file, *words)
    first = (tmp_path / "out/sft/run.json").read_bytes()
    file.write_text(yaml.safe_dump(document))
    (shown,) = ran(file, *words)["figures"]
    assert shown["difference"] == pytest.approx(shown["ours"]["value"] - 0.5)
    assert (tmp_path / "out/sft/run.json").read_bytes() == first, "what is done is not done again"
    assert json.loads((tmp_path / "out/more/run.json").read_text())["config"]["lora_r"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_the_stages_of_a_recipe_take_two_steps_each_on_a_tiny_base_of_its_family(name, tmp_path, monkeypatch):
    family, words = TINY[name]
    base, known = write_base(family, tmp_path / "model"), system_recipe(name)
    settings = json.loads((base / "config.json").read_text())
    settings.get("text_config", settings)["max_position_embeddings"] = (
        32_768  # as the real ones, which read whole papers
    )
    (base / "config.json").write_text(json.dumps(settings))
    steps = tuple(step for step in known.steps if step.stage or step.run.startswith("data"))
    file, out = tmp_path / "recipe.yaml", tmp_path / "out"
    file.write_text(yaml.safe_dump(known.model_copy(update={"steps": steps, "figures": ()}).model_dump(mode="json")))
    small = "--max_steps 2 --accumulation 4 --weights float32 --autocast none --profile cpu"
    monkeypatch.setattr("lab.commands.train.run_to_end", run_here)
    monkeypatch.setattr("training.models.base.FOLDERS", str(tmp_path / "folders.json"))
    done = invoke(
        "recipe",
        *(file, "--base", base, "--output", out, "--json"),
        *small.split(),
        *words.replace("BASE", str(base)).split(),
    )
    assert json.loads(done.stdout)["differs"]
    runs = [out / step.makes for step in steps if step.stage]
    assert [RunFolder(run).record().result["steps"] for run in runs] == [2] * len(runs)
    assert all(finding.is_ok for finding in check_chain(runs[-1]))


def test_a_setting_goes_to_every_stage_or_to_the_one_that_it_names():
    known, words = (
        system_recipe("biorlhf"),
        ("--max_steps", "2", "--grpo.beta=0.5", "--sft.min_rate", "0.1", "--seed=1"),
    )
    assert known.settings_of("grpo", words) == ["--max_steps", "2", "--beta=0.5", "--seed=1"]
    assert known.settings_of("sft", words) == ["--max_steps", "2", "--min_rate", "0.1", "--seed=1"]
    with pytest.raises(BadConfig, match=r"--dpo.beta names no stage of the recipe; it has grpo, sft"):
        known.settings_of("sft", ("--dpo.beta", "0.5"))


@pytest.mark.parametrize("stands_in", ["kmp-train", ""])
def test_a_file_that_is_not_the_published_one_is_not_trained_on(recipe, tmp_path, stands_in):
    file, document = recipe
    document["inputs"]["rows"] |= {"sha256": NO_FILE, "instead": stands_in}
    document["steps"] = [{"run": "data check $rows --out $out/checked.json", "makes": "checked.json"}]
    file.write_text(yaml.safe_dump(document))
    done = invoke("recipe", file, "--output", tmp_path / "out")
    assert not (tmp_path / "out/inputs").exists()
    said = " ".join(f"{done.output} {done.exception}".split())
    assert "holds another file than was published" in said
    assert ("kmp-train is used instead" in said) == bool(stands_in)


def test_what_a_recipe_does_not_take_is_named_with_what_it_takes():
    refused = invoke("recipe", "refiner", "--input", "juge=x")
    assert refused.exit_code == 1
    assert "takes no juge; it takes judge" in str(refused.exception)
