"""`assay train recipe`: a known system from nothing to its table, resumed; its data fetched by checksum or stood in for."""

import hashlib
import json
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from typer.testing import CliRunner

from lab.cli import app
from tests.lab.trainings import training_rows
from tests.models import tiny_base
from training.launch.recipes import recipe_names

NO_FILE = "0" * 64


def invoke(*words: object):
    return CliRunner().invoke(app, ["train", "recipe", *map(str, words)])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "refiner" else pytest.mark.slow) for name in recipe_names()]
)
def test_a_dry_run_shows_each_line_with_rows_steps_and_memory(name, tmp_path):
    done = invoke(name, "--dry-run", "--json", "--output", tmp_path / "out")
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    trained = [step for step in shown["steps"] if step["command"].startswith("assay train")]
    assert trained and all(step["memory"].endswith("GB") for step in trained)
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
        rows = {
            "about": "four questions",
            "url": f"http://127.0.0.1:{server.server_port}/rows.jsonl",
            "sha256": hashlib.sha256((tmp_path / "rows.jsonl").read_bytes()).hexdigest(),
        }
        train = f"train sft --config {tmp_path / 'sft.yaml'} --data $rows"
        document = {
            "title": "Two stages",
            "about": "A tiny system.",
            "hours": "a minute",
            "inputs": {"rows": rows},
            "steps": [
                {"run": f"{train} --output $out/sft", "makes": "sft"},
                {"run": f"{train} --chain $out/sft --output $out/more", "makes": "more"},
                {
                    "run": "eval run --chain $out/more --stage all --data kmp-test --max-new-tokens 4 --out $out/report.json",
                    "makes": "report.json",
                },
            ],
            "figures": [{"name": "accuracy", "report": "report.json", "metric": "accuracy", "published": 0.5}],
            "differs": ["It is tiny."],
        }
        yield tmp_path / "tiny.yaml", document
        server.shutdown()


@pytest.mark.slow
def test_a_recipe_goes_on_where_it_failed_and_ends_with_what_was_published_beside_ours(recipe, tmp_path):
    file, document = recipe
    broken = [document["steps"][0], {**document["steps"][1], "run": "train sft --config nowhere.yaml"}]
    line = [sys.executable, "-c", "from lab.cli import main; main()", "train", "recipe", str(file)]
    line += ["--output", str(tmp_path / "out"), "--json", "--lora_r", "2"]
    file.write_text(yaml.safe_dump({**document, "steps": broken}))
    failed = subprocess.run(line, capture_output=True, text=True, check=False)
    assert failed.returncode == 1 and "run the same command to resume" in failed.stderr, failed.stderr
    first = (tmp_path / "out/sft/run.json").read_bytes()
    file.write_text(yaml.safe_dump(document))
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (shown,) = json.loads(done.stdout)["figures"]
    assert shown["difference"] == pytest.approx(shown["ours"]["value"] - 0.5)
    assert (tmp_path / "out/sft/run.json").read_bytes() == first, "what is done is not done again"
    assert json.loads((tmp_path / "out/more/run.json").read_text())["config"]["lora_r"] == 2


@pytest.mark.parametrize("stands_in", ["kmp-train", ""])
def test_a_file_that_is_not_the_published_one_is_not_trained_on(recipe, tmp_path, stands_in):
    file, document = recipe
    document["inputs"]["rows"] |= {"sha256": NO_FILE, "instead": stands_in}
    document["steps"] = [{"run": "data check $rows --out $out/checked.json", "makes": "checked.json"}]
    file.write_text(yaml.safe_dump(document))
    done = invoke(file, "--output", tmp_path / "out")
    assert not (tmp_path / "out/inputs").exists()
    said = " ".join(f"{done.output} {done.exception}".split())
    assert "holds another file than was published" in said
    assert ("kmp-train is used instead" in said) == bool(stands_in)


def test_what_a_recipe_does_not_take_is_named_with_what_it_takes():
    refused = invoke("refiner", "--input", "juge=x")
    assert refused.exit_code == 1
    assert "takes no juge; it takes judge" in str(refused.exception)
