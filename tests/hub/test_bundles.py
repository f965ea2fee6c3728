"""What goes into a Space's repository, and what would keep it from starting."""

import json
import re
import socket
from dataclasses import replace
from functools import cache
from importlib import metadata

import pytest
import yaml

from evals.errors import LabError
from evals.questions import data_sha256, load_questions
from evals.questions.sets import EXAMPLES
from hub.cards import OwnCard, known_front_matter
from hub.checks import MARK, Refused, check_upload
from hub.datasets import pack_dataset
from hub.publish import publish
from hub.spaces import PACKAGES, ROOT, bundle_folder, bundles, configure, pack_space, space_options
from tests.hub.cases import was
from tests.hub.conftest import as_another_person
from tests.hub.rows import put_report
from tests.imports import canonical, imports_of
from tests.spaces import uploaded

APPS = ("arena", "lab", "leaderboard", "reviewer")
METRICS = ("paired_difference", "stated_calibration", "verifier_verdict")
PAGE = {"index.html": b"<!doctype html><title>board</title>"}


@cache
def packed(name, repo=None):
    made = PAGE if name == "leaderboard" else {}
    return pack_space(bundle_folder(name), repo or f"org/{name}", made)


def pins(text):
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    found = (re.split(r"==|>=", line) for line in lines if line)
    return {re.sub(r"\[.*", "", name): version for name, version in found}


def requirements_of(name):
    return (bundle_folder(name) / "requirements.txt").read_text()


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
    if name in APPS and settings(name)["sdk"] == "gradio":
        assert "sdk_version" in settings(name) and "app.py" in upload.parts and "\nspaces==" in requirements_of(name)
        assert not [path for path in upload.parts if path.startswith("spaces/")], (
            "it would hide the package of that name"
        )
    kind, file = ("space", "README.md") if name in APPS else ("metric", "index.html")
    text = re.sub(r"(?m)^sdk_version: .*$", "sdk_version: (as installed)", upload.parts[file].text())
    assert text == was(f"{kind}-{name}", text)


def test_the_card_of_a_space_holds_what_its_publisher_says():
    told = "Votes of a course.\n\n## Data protection\n\nNo names."
    own = OwnCard(authors=("Ada Lovelace",), license="mit", body=told)
    upload = pack_space(bundle_folder("arena"), "org/arena", {}, own=own)
    card = upload.parts["README.md"].text()
    assert "# Assay arena\n\n**By** Ada Lovelace\n\nVotes of a course." in card and "## Data protection" in card
    known = known_front_matter(card)
    assert (known["sdk"], known["license"]) == ("gradio", "mit") and "## Where votes are kept" in card
    assert not [each for each in check_upload(upload) if each.is_error]


MOST = {"arena": 84, "lab": 407, "reviewer": 224}


@pytest.mark.parametrize("name", MOST)
def test_a_bundle_holds_what_its_app_imports_and_no_training_records_that_no_page_shows(name):
    paths = set(packed(name).parts)
    assert len(paths) <= MOST[name]
    assert {"app.py", "requirements.txt", "LICENSE", "lab/gpu.py", "lab/ui/assets/lab.css"} <= paths
    assert not [path for path in paths if "__pycache__" in path or path.startswith(("tests", "evals/labels"))]
    assert [path for path in paths if path.startswith(".")] == [MARK]
    assert ("training/embedded/grpo/adapter/adapter_model.safetensors" in paths) == (name == "lab")
    assert ("answers.jsonl" in paths) == (name == "arena")
    assert name == "lab" or not [path for path in paths if path.endswith(".parquet")]
    assert set(packed("leaderboard").parts) == {MARK, "README.md", "index.html"}, "a static Space carries no code"


def imports_in(name):
    """Yield what the files of our packages import that a bundle takes along, as they stand here."""
    paths = [path for path in packed(name).parts if path.split("/")[0] in PACKAGES and path.endswith(".py")]
    return [entry for path in paths for entry in imports_of(ROOT / path, ROOT)]


@pytest.mark.parametrize("name", MOST)
def test_whatever_a_module_of_a_bundle_imports_at_once_is_there_too(name):
    parts = packed(name).parts
    missing = {
        f"{entry.file}: {place}"
        for entry in imports_in(name)
        if entry.root in PACKAGES and not entry.inline and not entry.typing
        for stem in ["/".join(entry.module.split(".")[:end]) for end in range(1, entry.module.count(".") + 2)]
        for place in (f"{stem}.py", f"{stem}/__init__.py")
        if (ROOT / place).is_file() and place not in parts
    }
    assert missing == set()


def test_a_metric_under_another_name_could_not_be_loaded_so_it_is_refused():
    with pytest.raises(Refused, match="publish it as org/stated_calibration"):
        check_upload(packed("stated_calibration", "org/calibration"))


@pytest.mark.parametrize("name", ["lab", "arena", "reviewer"])
def test_a_bundle_runs_on_the_versions_that_were_tested(name):
    ours, wanted = pins((ROOT / "requirements.txt").read_text()), pins(requirements_of(name))
    assert wanted.pop("torch", None) == (None if name == "arena" else "2.8,<2.12"), "what ZeroGPU has"
    assert name != "arena" or not {"transformers", "peft", "trl"} & wanted.keys(), "no model is loaded there"
    assert wanted == {package: ours[package] for package in wanted}
    assert settings(name)["sdk_version"] == ours["gradio"]
    text = (bundle_folder(name) / "README.md").read_text()
    assert 'python_version: "3.12"\n' in text, "quoted, or YAML reads 3.10 as 3.1"


@pytest.mark.parametrize("name", MOST)
def test_a_bundle_lists_whatever_its_pages_may_import_later(name):
    listed = {canonical(each) for each in uploaded.listed(requirements_of(name))}
    providers = metadata.packages_distributions()
    missing = {
        f"{entry.file}: {entry.root}"
        for entry in imports_in(name)
        if entry.file.parts[0] != "training"
        if entry.root in providers and canonical(providers[entry.root][0]) not in {*listed, "assay"}
    }
    assert missing == set()


def test_signing_in_is_asked_for_where_raters_vote_and_its_packages_come_along():
    assert settings("arena")["hf_oauth"] is True
    assert "gradio[oauth]==" in requirements_of("arena")


def published(stand, name, **named):
    return publish(stand.api(), replace(packed(name), **named))


GIVEN = ("zero-a10g", ["hf://buckets/org/votes:/data"], ["HF_TOKEN"], ["ASSAY_VOTES_REPO=org/votes=1"])


@pytest.mark.parametrize("is_there", [False, True])
def test_a_space_gets_hardware_volumes_secrets_and_variables_whether_it_is_new_or_not(stand, is_there):
    options = space_options(*GIVEN, {"HF_TOKEN": "not to be seen"})
    upload = replace(packed("stated_calibration", "org/stated_calibration"), repo=f"org/space-{is_there}")
    publish(stand.api(), upload, options={} if is_there else options)
    if is_there:
        configure(stand.api(), upload.repo, options)
    made, noted = stand.hub.find("space", upload.repo), stand.hub.spaces[upload.repo]
    assert (made.private, made.sdk) == (True, "static")
    assert noted["hardware"] == ([{"flavor": "zero-a10g"}] if is_there else "zero-a10g")
    assert [each["key"] for each in noted["secrets"]] == ["HF_TOKEN"]
    assert noted["variables"] == [{"key": "ASSAY_VOTES_REPO", "value": "org/votes=1"}]
    (volume,) = noted["volumes"][0]["volumes"] if is_there else noted["volumes"]
    assert (volume["type"], volume["source"], volume["mountPath"]) == ("bucket", "org/votes", "/data")


def test_a_volume_or_hardware_that_the_hub_does_not_know_is_refused():
    with pytest.raises(LabError, match="zero-a10g is ZeroGPU"):
        space_options("moon", [], [], [], {})
    with pytest.raises(LabError, match="hf://buckets/ORG/NAME:/data"):
        space_options(None, ["/data"], [], [], {})


@pytest.mark.slow
def test_what_is_published_is_read_by_its_users_own_libraries(stand, tmp_path):
    published(stand, "paired_difference", is_public=True)
    mine = tmp_path / "mine.yaml"
    mine.write_bytes((EXAMPLES / "codons-and-enzymes.yaml").read_bytes())
    rows = {"org/codons": mine, "org/answers": put_report(tmp_path / "reports")}
    for name, folder in rows.items():
        publish(stand.api(), pack_dataset(folder, name, "cc0-1.0"))
    found = json.loads(as_another_person(stand.url, tmp_path / "home", USED)[-1])
    assert found["metric"] == [0.5, 4]
    assert found["verdicts"] == [["base", "incorrect"], ["base", "no_claim"], ["sft", "correct"], ["sft", "correct"]]
    assert found["questions"] == data_sha256(load_questions(mine))


@pytest.mark.slow
def test_a_data_set_of_the_hub_makes_the_lab_read_no_file_and_no_address_but_its_own(stand, tmp_path):
    (secret := tmp_path / "secret.csv").write_text("prompt\nroot:x:0\n")
    with socket.create_server(("127.0.0.1", 0)) as inside:
        inside.settimeout(0.2)
        address = f"http://127.0.0.1:{inside.getsockname()[1]}/secret.csv"
        given = [{"data_files": str(secret)}, {"data_files": address}, {"data_dir": str(tmp_path)}]
        given += [{"data_files": [{"split": "test", "path": [each]}]} for each in (address, f"zip://x.csv::{address}")]
        picture = {"features": [{"name": "prompt", "dtype": "image"}], "data_files": "rows.jsonl"}
        for number, part in enumerate([*given, picture, {"data_files": "rows.jsonl"}]):
            card = f"---\n{yaml.safe_dump({'license': 'mit', 'configs': [{'config_name': 'default', **part}]})}---\n"
            row = json.dumps({"prompt": {"path": address, "bytes": None} if part is picture else "own"})
            stand.create(f"org/bad{number}", "dataset")
            stand.commit(f"org/bad{number}", {"README.md": card.encode(), "rows.jsonl": row.encode()}, "dataset")
        stand.create(f"org/bad{len(given) + 2}", "dataset")  # HDF5 has links to other files
        stand.commit(f"org/bad{len(given) + 2}", {"rows.h5": b"\x89HDF\r\n\x1a\n"}, "dataset")
        told = as_another_person(stand.url, tmp_path / "home", READ, str(len(given) + 3))
        *refused, pictured, own, linked = told
        assert len(refused) == len(given) and all("no file of its own" in each for each in refused), told
        assert address in pictured and "own" in own and "read as hdf5" in linked, told
        with pytest.raises(TimeoutError):
            inside.accept()


@pytest.mark.slow
def test_conversations_of_the_hub_are_trained_on_without_the_rows_of_their_test_split(stand, tmp_path):
    stand.create("org/chat", "dataset")
    said = [{"from": "human", "value": "Up?", "weight": None}, {"from": "gpt", "value": "Up."}]
    row = json.dumps({"conversations": said, "id": 1}) + "\n"
    stand.commit("org/chat", {"train.jsonl": row.encode() * 2, "test.jsonl": row.encode()}, "dataset")
    (told,) = as_another_person(stand.url, tmp_path / "home", TAUGHT)[-1:]
    assert told == "2 ['Up.', 'Up.'] {'rows of the split test': 1} {'hub:org/chat@main': 2}"


TAUGHT = """
from training.sft import SftSettings
data = SftSettings(data=("hub:org/chat@main",), output="x").read_rows(None)
print(data.count, [item.turns[1]["content"] for item in data.items], dict(data.left_out), dict(data.counts))
"""
READ = """
import sys
from evals.errors import BadConfig
from training.data.tables import from_hub
for number in range(int(sys.argv[1])):
    try:
        print(list(from_hub(f"org/bad{number}", None)))
    except BadConfig as error:
        print(error)
"""
USED = """
import json
from datasets import load_dataset
import evaluate
from evals.questions import data_sha256, load_questions
from training.data.tables import from_hub
metric = evaluate.load("org/paired_difference").compute(predictions=[1, 1, 1, 0], references=[0, 1, 0, 0])
rows = load_dataset("org/answers", split="test")
print(json.dumps({
    "metric": [metric["difference"], metric["n"]],
    "verdicts": [[row["stage"], row["verdict"]] for row in rows],
    "questions": data_sha256(load_questions("hub:org/codons", from_hub)),
}))
"""
