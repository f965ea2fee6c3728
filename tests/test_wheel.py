"""Assay as a package: what `pip install` of its wheel brings, away from the checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_house import ROOT, project, tracked

QUESTION = "Which way does the oxidative phosphorylation gene set move in mouse eye during spaceflight, up or down?"


def run(*command: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.timeout(900)
def test_the_wheel_in_a_folder_of_its_own_says_its_version_and_answers_with_the_chain_that_comes_along(tmp_path):
    source, site, empty = (tmp_path / name for name in ("source", "site", "empty"))
    empty.mkdir()
    for file in tracked():
        copy = source / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    (source / "lab/ui/text/docs").symlink_to("../../../docs")
    pip = (sys.executable, "-m", "pip", "--quiet")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, source, cwd=empty)
    (wheel,) = tmp_path.glob("*.whl")
    run(*pip, "install", "--no-deps", "--no-index", "--target", site, wheel, cwd=empty)

    def assay(*arguments: str) -> str:
        return run(site / "bin/assay", *arguments, cwd=empty, PYTHONPATH=str(site), ASSAY_CACHE=str(tmp_path / "cache"))

    assert assay("--version") == f"assay {project()['project']['version']}\n"
    assert "leaderboard" in assay("--help")
    assert "Answer:" in assay("ask", QUESTION, "--json")
    where = "import lab, lab.ui.text as text; print(lab.__file__, (text.DOCS / 'tutorials/paper.md').is_file())"
    assert run(sys.executable, "-c", where, cwd=empty, PYTHONPATH=str(site)).split() == [
        str(site / "lab/__init__.py"),
        "True",
    ]
