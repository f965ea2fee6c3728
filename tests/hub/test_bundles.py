"""What goes into a Space's repository, and what would keep it from starting."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib import metadata

import pytest
import yaml

from evals.questions import data_sha256, load_questions
from evals.questions.sets import EXAMPLES
from hub.checks import Refused, check_upload
from hub.datasets import pack_dataset
from hub.publish import publish
from hub.spaces import ROOT, bundle_folder, bundles, pack_space
from tests.hub.cases import was
from tests.hub.conftest import client_settings
from tests.hub.rows import put_report
from tests.imports import imports_of
from tests.spaces import uploaded

APPS = ("arena", "lab", "leaderboard", "reviewer")
METRICS = ("paired_difference", "stated_calibration", "verifier_verdict")
PAGE = {"index.html": b"<!doctype html><title>board</title>"}


def packed(name, repo=None):
    made = PAGE if name == "leaderboard" else {}
    return pack_space(bundle_folder(name), repo or f"org/{name}", made)


def pins(text):
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    found = (re.split(r"==|>=", line) for line in lines if line)
    return {re.sub(r"\[.*", "", name): version for name, version in found}


def requirements_of(name):
    return (bundle_folder(name) / "requirements.txt").read_text()


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def settings(name):
    return yaml.safe_load((bundle_folder(name) / "README.md").read_text().split("---\n")[1])


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in ("lab", "reviewer") else name for name in (*APPS, *METRICS)],
)
def test_every_space_passes_every_check_and_its_card_reads_as_it_did(name):
    assert set(bundles()) >= {*APPS, *METRICS}
    upload = packed(name)
    assert [each.problem for each in check_upload(upload) if each.check != "card"] == []
    kind, file = ("space", "README.md") if name in APPS else ("metric", "index.html")
    text = re.sub(r"(?m)^sdk_version: .*$", "sdk_version: (as installed)", upload.parts[file].text())
    assert text == was(f"{kind}-{name}", text)


def test_an_app_carries_the_packages_it_imports_and_a_static_space_carries_no_code():
    assert set(packed("leaderboard").parts) == {"README.md", "index.html"}
    parts = packed("arena").parts
    assert {"app.py", "requirements.txt", "lab/arena.py", "evals/facts/enrichment.csv"} <= set(parts)
    assert "training/embedded/grpo/adapter/adapter_model.safetensors" in parts
    assert not [path for path in parts if "__pycache__" in path or path.startswith((".", "tests"))]
    assert "LICENSE" in parts


def test_a_metric_under_another_name_could_not_be_loaded_so_it_is_refused():
    with pytest.raises(Refused, match="publish it as org/stated_calibration"):
        check_upload(packed("stated_calibration", "org/calibration"))


@pytest.mark.parametrize("name", ["lab", "arena", "reviewer"])
def test_a_bundle_runs_on_the_versions_that_were_tested(name):
    ours, wanted = pins((ROOT / "requirements.txt").read_text()), pins(requirements_of(name))
    lowest = [int(part) for part in wanted.pop("torch").split(".")]
    assert lowest < [int(part) for part in ours["torch"].split(".")], "ZeroGPU may bring an older one"
    assert wanted == {package: ours[package] for package in wanted}
    assert settings(name)["sdk_version"] == ours["gradio"]
    text = (bundle_folder(name) / "README.md").read_text()
    assert 'python_version: "3.11"\n' in text, "quoted, or YAML reads 3.10 as 3.1"


@pytest.mark.parametrize("name", ["lab", "reviewer"])
def test_a_bundle_lists_whatever_its_pages_may_import_later(name):
    listed = {canonical(each) for each in uploaded.listed(requirements_of(name))}
    providers = metadata.packages_distributions()
    files = (file for name in ("lab", "evals", "hub") for file in (ROOT / name).rglob("*.py"))
    missing = {
        f"{entry.file}: {entry.root}"
        for file in files
        if "metrics" not in file.parts  # these are Spaces of their own
        for entry in imports_of(file, ROOT)
        if entry.root in providers and canonical(providers[entry.root][0]) not in {*listed, "assay"}
    }
    assert missing == set()


def test_signing_in_is_asked_for_where_raters_vote_and_its_packages_come_along():
    assert settings("arena")["hf_oauth"] is True
    assert "gradio[oauth]==" in requirements_of("arena")


BROKEN = {
    "no app": ({"app.py": None}, "there is no such file"),
    "no version of gradio": ({"README.md": ("sdk_version", "x_version")}, "another may be taken"),
    "no package spaces": ({"requirements.txt": ("spaces==", "# spaces==")}, "does not name the pack"),
    "code that does not parse": ({"app.py": ("import os", "import os os")}, "can run"),
    "a folder that hides the package": ({"spaces/x.py": ""}, "hides the package"),
    "a secret": ({"app.py": ("import os", "import os  # hf_" + "AbCd" * 6)}, "a Hugging Face token"),
    "a wrong colour": ({"README.md": ("colorFrom: green", "colorFrom: teal")}, "colorFrom"),
    "a long description": ({"README.md": ("short_description: W", "short_description: " + "W" * 61)}, "60"),
}


def test_what_would_not_start_or_must_not_be_seen_is_refused(tmp_path):
    for number, (name, (changes, word)) in enumerate(BROKEN.items()):
        folder = shutil.copytree(bundle_folder("arena"), tmp_path / str(number), ignore=shutil.ignore_patterns("__py*"))
        (folder / "app.py").write_text("import os\n")  # without our packages: this is fast
        for path, change in changes.items():
            file = folder / path
            if change is None:
                file.unlink()
            elif isinstance(change, str):
                file.parent.mkdir(exist_ok=True)
                file.write_text(change)
            else:
                file.write_text(file.read_text().replace(*change, 1))
        with pytest.raises(Refused) as refused:
            check_upload(pack_space(folder, "org/arena", {}))
        assert word in str(refused.value), name


def published(stand, name, **named):
    return publish(stand.api(), replace(packed(name), **named))


def test_a_space_is_published_in_one_commit_and_comes_back_whole(stand):
    assert published(stand, "stated_calibration").outcome == "published"
    repository = stand.hub.find("space", "org/stated_calibration")
    assert (repository.private, repository.sdk) == (True, "static")
    script = bundle_folder("stated_calibration") / "stated_calibration.py"
    assert stand.read("org/stated_calibration", "stated_calibration.py", "space") == script.read_bytes()
    assert published(stand, "stated_calibration").outcome == "already there"


@pytest.mark.slow
def test_what_is_published_is_read_by_its_users_own_libraries(stand, tmp_path):
    published(stand, "paired_difference", is_public=True)
    mine = tmp_path / "mine.yaml"
    mine.write_bytes((EXAMPLES / "codons-and-enzymes.yaml").read_bytes())
    rows = {"org/codons": mine, "org/answers": put_report(tmp_path / "reports")}
    for name, folder in rows.items():
        publish(stand.api(), pack_dataset(folder, name, "cc0-1.0"))
    done = subprocess.run(
        [sys.executable, "-c", USED],
        env=os.environ | client_settings(stand.url, tmp_path / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["metric"] == [0.5, 4]
    assert found["verdicts"] == [["base", "incorrect"], ["base", "no_claim"], ["sft", "correct"], ["sft", "correct"]]
    assert found["questions"] == data_sha256(load_questions(mine))


USED = """
import json
from datasets import load_dataset
import evaluate
from evals.questions import data_sha256, load_questions
from training.data.questions import from_hub
metric = evaluate.load("org/paired_difference").compute(predictions=[1, 1, 1, 0], references=[0, 1, 0, 0])
rows = load_dataset("org/answers", split="train")
print(json.dumps({
    "metric": [metric["difference"], metric["n"]],
    "verdicts": [[row["stage"], row["verdict"]] for row in rows],
    "questions": data_sha256(load_questions("hub:org/codons", from_hub)),
}))
"""
