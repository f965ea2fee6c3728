"""Whether the Hub's builder can install each Space, and whether the Space then starts: real packages, nothing else."""

import os
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
import yaml

from hub.spaces import ROOT, bundle_folder, pack_space
from tests.browser.conftest import started
from tests.evals.tools import installed, run
from tests.spaces import uploaded

pytestmark = [pytest.mark.network, pytest.mark.timeout(1800)]
APPS = ("arena", "lab", "reviewer")
OF_ZERO_GPU = ("torch==2.8.0", "torch==2.11.0")
"""The oldest and the newest that ZeroGPU has (docs/publishing.md)."""


def folder_of(name):
    return ROOT if name == "root" else bundle_folder(name)


def builder_line(name):
    """What the Hub installs together with requirements.txt: `gradio[oauth,mcp]==…` of the card, and three more."""
    version = yaml.safe_load((folder_of(name) / "README.md").read_text().split("---\n")[1])["sdk_version"]
    return [f"gradio[oauth,mcp]=={version}", "uvicorn", "websockets", "spaces"]


def python_of(name):
    return yaml.safe_load((folder_of(name) / "README.md").read_text().split("---\n")[1])["python_version"]


@pytest.fixture(scope="module")
def bin(tmp_path_factory):
    """The folder of the installer uv."""
    return installed("uv", tmp_path_factory.mktemp("uv"))


@pytest.mark.parametrize(
    ("name", "torch"), [("root", "torch"), *((name, torch) for name in APPS for torch in OF_ZERO_GPU)]
)
def test_the_builder_of_the_hub_finds_versions_that_go_together(name, torch, bin, tmp_path):
    asked = tmp_path / "asked.txt"
    asked.write_text("\n".join([*builder_line(name), torch]))
    target = ("--python-version", python_of(name), "--python-platform", "x86_64-manylinux_2_28")
    wanted = folder_of(name) / "requirements.txt"
    found = run(
        ["uv", "pip", "compile", "--no-header", "--no-annotate", *target, str(wanted), str(asked)], tmp_path, bin
    )
    assert torch in found


def interpreter(version):
    """A Python of this version that runs: what pyenv puts on the path may only say that it is elsewhere."""
    named = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}*/bin/python")]
    works = (each for each in named if each and subprocess.run([each, "-V"], capture_output=True).returncode == 0)
    return str(next(works, None) or pytest.skip(f"there is no Python {version} here"))


@pytest.mark.slow
def test_the_arena_is_installed_in_a_fresh_environment_and_shows_its_page(bin, tmp_path):
    """The others bring torch; that they hold what they import: tests/hub/test_bundles.py."""
    python, place = tmp_path / "venv/bin/python", tmp_path / "space"
    run(["uv", "venv", "--seed", "--python", interpreter(python_of("arena")), str(tmp_path / "venv")], tmp_path, bin)
    uploaded.unpacked(pack_space(bundle_folder("arena"), "org/arena", {}), place)
    wanted = ["-r", str(place / "requirements.txt"), *builder_line("arena")]
    run(["uv", "pip", "install", "--compile-bytecode", "--python", str(python), *wanted], tmp_path, bin)
    own = {word: value for word, value in os.environ.items() if word == "PATH" or word.startswith("PIP_")}
    settings = {"HOME": str(tmp_path), "SYSTEM": "spaces", "SPACE_ID": "org/space", "GRADIO_SERVER_NAME": "127.0.0.1"}
    with started([str(python), "app.py"], tmp_path, place, **own, **settings) as url:
        assert "Assay" in httpx.get(url, timeout=60).text
    shutil.rmtree(tmp_path / "venv")
