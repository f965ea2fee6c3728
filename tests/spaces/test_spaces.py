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

from evals.schema import Message
from evals.schema.questions import Sampling
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


class Written(ScriptedChain):
    """A chain whose answers are borrowed, as `LoadedChain.stream` has it."""

    def write(self, *asked):
        return self.stream(*asked)


def test_where_no_gpu_is_lent_or_our_own_folder_is_found_answers_run_where_they_are(monkeypatch):
    assert gpu.Gpu().lend is None
    monkeypatch.setattr(gpu, "spaces", types.ModuleType("spaces"))  # what our own folder looks like
    assert gpu.Gpu().lend is None


def test_on_zero_gpu_the_gpu_is_borrowed_for_each_answer_which_can_be_stopped(lent):
    chain, stop = Written({"base": "one two three"}), threading.Event()
    lend = gpu.Gpu().lend
    for _ in range(2):
        assert "".join(each.text for each in lend(chain, PROMPT, ["base"], Sampling(), stop)) == "one two three"
    assert lent == [gpu.SECONDS, gpu.SECONDS]
    pieces = lend(chain, PROMPT, ["base"], Sampling(), stop)
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
