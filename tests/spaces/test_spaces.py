"""ZeroGPU through the PyPI package `spaces`, whose name our own folder shares; Gradio imports it on a Space."""

import os
import pickle
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest
import spaces

from evals.model import Sampling
from evals.schema import Message
from lab import gpu
from tests.lab.chains import ScriptedChain

ROOT = Path(__file__).resolve().parents[2]
PROMPT = (Message(role="user", content="why?"),)
BUILD = """
from lab.app import build_app
from lab.services import build_services
from lab.settings import from_environment
import spaces
app = build_app(build_services(from_environment()))
print(len(app.get_config_file()["dependencies"]), hasattr(spaces, "GPU"), sep="|")
"""


@pytest.fixture
def lent(monkeypatch):
    """What ZeroGPU does, without the GPU: functions run by its decorator, arguments are pickled."""
    calls = []

    def lend(duration):
        def decorate(function):
            def borrowed(*arguments):
                calls.append(duration)
                yield from function(*pickle.loads(pickle.dumps(arguments)))

            return borrowed

        return decorate

    monkeypatch.setattr(spaces, "GPU", lend)
    return calls


def words(chain):
    return "".join(p.text for p in chain.stream(PROMPT, ["base"], Sampling(), threading.Event()))


def test_where_no_gpu_is_lent_or_our_own_folder_is_found_the_chain_answers_as_it_is(monkeypatch):
    chain = ScriptedChain({"base": "one two"})
    chain.substitutions = ("another copy is used",)
    borrowed = gpu.Borrowed(chain)
    assert words(borrowed) == "one two"
    for name in ("stages", "stage_checksums", "manifest", "substitutions"):
        assert getattr(borrowed, name) == getattr(chain, name)
    monkeypatch.setattr(gpu, "spaces", types.ModuleType("spaces"))  # what our own folder looks like
    assert not gpu.Gpu().is_lent
    assert words(gpu.Borrowed(chain, gpu.Gpu())) == "one two"


def test_on_zero_gpu_the_gpu_is_borrowed_for_each_answer_which_can_be_stopped(lent):
    chain = gpu.Borrowed(ScriptedChain({"base": "one two three"}), gpu.Gpu())
    assert [words(chain), words(chain)] == ["one two three"] * 2
    assert lent == [gpu.SECONDS, gpu.SECONDS]
    stop = threading.Event()
    pieces = chain.stream(PROMPT, ["base"], Sampling(), stop)
    assert next(pieces).text == "one"
    stop.set()
    assert list(pieces) == []


@pytest.mark.slow
def test_on_a_space_the_page_is_built_with_the_repository_first_on_the_path(tmp_path):
    settings = {"ASSAY_CACHE": str(tmp_path / "cache"), "ASSAY_DATABASE_URL": f"sqlite:///{tmp_path / 'assay.db'}"}
    done = subprocess.run(
        [sys.executable, "-c", BUILD],
        cwd=ROOT,
        env=os.environ | settings | {"PYTHONPATH": str(ROOT), "SYSTEM": "spaces", "SPACE_ID": "a/b"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    events, is_the_package = done.stdout.split("|")
    assert int(events) > 10
    assert is_the_package.strip() == "True"
