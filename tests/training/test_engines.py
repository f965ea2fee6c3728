"""vLLM and llama.cpp serve a chain: scripts of their names stand in for them and write down how they were called."""

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig, LabError, MissingModel
from lab.cli import app
from tests.models import tiny_chain
from training.models.chain import load_chain

SCRIPT = """#!{python}
import json, os, sys
names = ("VLLM_API_KEY", "LLAMA_API_KEY")
told = {{"words": sys.argv[1:], "keys": {{name: os.environ[name] for name in names if name in os.environ}}}}
open({file!r}, "w").write(json.dumps(told))
sys.exit({code})
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_chain(tmp_path_factory.mktemp("chain"))


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Put a program of some name on the PATH; what it was told is read back."""

    def installed(name, code=0):
        place, file = tmp_path / "bin", tmp_path / "told.json"
        place.mkdir()
        (place / name).write_text(SCRIPT.format(python=sys.executable, file=str(file), code=code))
        (place / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
        return lambda: json.loads(file.read_text())

    return installed


def assay(*words):
    return CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)


def after(words, option):
    return words[words.index(option) + 1]


def test_each_stage_is_a_lora_of_vllm_s_server_and_every_option_reaches_it(folder, engine, tmp_path):
    told = engine("vllm")
    options = ("--engine", "vllm", "--port", 8123, "--rows", 5, "--dtype", "float32", "--api-key", "secret")
    for _ in range(2):  # what was exported is taken again
        assay("chain", "serve", folder, *options, "--exports", tmp_path / "exports")
    words = told()["words"]
    assert words[:2] == ["serve", str(load_chain(folder).base.folder)]
    known = ("--served-model-name", "--host", "--port", "--dtype", "--max-num-seqs", "--max-loras", "--max-lora-rank")
    assert [after(words, each) for each in known] == ["base", "127.0.0.1", "8123", "float32", "5", "2", "8"]
    modules = dict(each.split("=") for each in words[words.index("--lora-modules") + 1 :])
    assert list(modules) == ["sft", "grpo"] and "--enable-lora" in words
    for path in modules.values():
        assert json.loads(Path(path, "adapter_config.json").read_text())["r"] <= 8
    assert told()["keys"] == {"VLLM_API_KEY": "secret"} and "secret" not in words


def test_an_engine_that_is_not_here_is_asked_for_by_name_and_a_dry_run_prints_its_line(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, program in (("vllm", "vllm serve"), ("llama.cpp", "llama-server -m")):
        asked = ("chain", "serve", folder, "--engine", name, "--exports", tmp_path / "exports")
        assert assay(*asked, "--dry-run").stdout.startswith(program)
        with pytest.raises(
            MissingModel, match=rf"{program.split()[0]} is not on the PATH here: .*pip install .*--hosted"
        ):
            assay(*asked)
    assert not (tmp_path / "exports").exists()


def test_llama_cpp_is_given_one_stage_as_a_file_and_every_option(folder, engine, tmp_path):
    told = engine("llama-server", code=3)
    options = ("--stage", "sft", "--quant", "f16", "--rows", 2, "--port", 8124, "--api-key", "secret")
    with pytest.raises(LabError, match=r"llama.cpp ended with exit code 3"):
        assay("chain", "serve", folder, "--engine", "llama.cpp", *options, "--exports", tmp_path / "exports")
    words = told()["words"]
    assert [after(words, each) for each in ("--alias", "--parallel", "--ctx-size", "--port")] == [
        "sft",
        "2",
        "4096",
        "8124",
    ]
    assert Path(after(words, "-m")).read_bytes()[:4] == b"GGUF"
    assert told()["keys"] == {"LLAMA_API_KEY": "secret"} and "secret" not in words


MISTAKES = [
    (("--engine", "vllm", "--dtype", "nf4"), "not 'nf4'"),
    (("--engine", "vllm", "--api-key", "a", "--api-key", "b"), "takes one API key; 2"),
    (("--dry-run",), "is for --engine vllm and llama.cpp"),
]


@pytest.mark.parametrize(("options", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_what_an_engine_cannot_do_is_told(folder, options, words):
    with pytest.raises(BadConfig, match=words):
        assay("chain", "serve", folder, *options)
