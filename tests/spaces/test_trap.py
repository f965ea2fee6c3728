"""Our folder `spaces/` shares its name with the package that Gradio imports on a Space."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = """
from lab.app import build_app
from lab.services import build_services
from lab.settings import from_environment
import spaces
app = build_app(build_services(from_environment()))
print(len(app.get_config_file()["dependencies"]), hasattr(spaces, "GPU"), sep="|")
"""


def run(code, tmp_path, **environment):
    settings = {"ASSAY_CACHE": str(tmp_path / "cache"), "ASSAY_DATABASE_URL": f"sqlite:///{tmp_path / 'assay.db'}"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | settings | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("where", [{}, {"SYSTEM": "spaces", "SPACE_ID": "a/b"}], ids=["a laptop", "a Space"])
def test_the_page_is_built_with_the_repository_first_on_the_path(tmp_path, where):
    done = run(BUILD, tmp_path, PYTHONPATH=str(ROOT), **where)

    assert done.returncode == 0, done.stderr
    events, is_the_package = done.stdout.split("|")
    assert int(events) > 10
    assert is_the_package.strip() == "True"


def test_the_file_that_imports_it_makes_sure_that_it_is_the_package():
    assert 'hasattr(spaces, "GPU")' in (ROOT / "lab" / "gpu.py").read_text()


def test_without_the_package_answers_still_come(tmp_path):
    code = """
import sys, threading, types
sys.modules["spaces"] = types.ModuleType("spaces")  # what our own folder looks like
from evals.model import Sampling
from lab.gpu import Borrowed
from tests.lab.chains import ScriptedChain
chain = Borrowed(ScriptedChain({"base": "here"}))
for piece in chain.stream((), (), Sampling(), threading.Event()): pass
from evals.schema import Message
prompt = [Message(role="user", content="why?")]
print("".join(piece.text for piece in chain.stream(prompt, ["base"], Sampling(), threading.Event())))
"""
    done = run(code, tmp_path, PYTHONPATH=str(ROOT))

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "here"
