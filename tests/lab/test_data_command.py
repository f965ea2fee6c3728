"""`assay data` writes what it says, twice the same, and refuses what it cannot do."""

import hashlib
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from evals.errors import LabError
from evals.questions import data_sha256, kmp_test, kmp_training, read_examples
from lab.commands.data import app
from tests.models import tiny_chain
from tests.training.runs import sampled_run


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def printed(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_kmp_writes_training_test_and_statistics(tmp_path):
    document = printed(run("kmp", "--out", tmp_path / "new" / "kmp", "--json"))
    folder = tmp_path / "new" / "kmp"
    assert sorted(entry.name for entry in folder.iterdir()) == [
        "statistics.json",
        "test.jsonl",
        "train.jsonl",
    ]
    assert read_examples(folder / "train.jsonl") == kmp_training()
    assert read_examples(folder / "test.jsonl") == kmp_test()
    assert json.loads((folder / "statistics.json").read_text(encoding="utf-8")) == document


def test_statistics_hold_the_checksums_of_the_files_and_rows(tmp_path):
    document = printed(run("kmp", "--out", tmp_path, "--json"))
    for split, numbers in document["splits"].items():
        path = tmp_path / f"{split}.jsonl"
        rows = read_examples(path)
        assert numbers["file_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert numbers["data_sha256"] == data_sha256(rows)
        assert numbers["rows"] == len(rows) == sum(numbers["kinds"].values())
        assert sum(numbers["tissues"].values()) == len(rows)


@pytest.mark.parametrize(
    "arguments",
    [("kmp", "--seed", 5), ("pathways", "--seed", 5), ("pathways", "--hold-out", "eye")],
)
def test_the_same_command_writes_the_same_bytes(tmp_path, arguments):
    for name in ("one", "two"):
        assert run(*arguments, "--out", tmp_path / name).exit_code == 0
    for name in ("train.jsonl", "test.jsonl", "statistics.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_drill_multiplies_the_training_rows(tmp_path):
    document = printed(run("kmp", "--out", tmp_path, "--drill", 2, "--json"))
    assert document["splits"]["train"]["rows"] == 2 * len(kmp_training())
    assert document["splits"]["test"]["rows"] == 20
    assert document["settings"] == {"seed": 0, "drill": 2}


@pytest.mark.parametrize(
    ("hold_out", "train", "test"),
    [("", 276, 0), ("eye", 244, 25), ("eye, thymus", 144, 107), ("thymus,eye,eye", 144, 107)],
)
def test_pathways_are_split_by_the_tissues_named(tmp_path, hold_out, train, test):
    document = printed(run("pathways", "--out", tmp_path, "--hold-out", hold_out, "--json"))
    splits = document["splits"]
    assert (splits["train"]["rows"], splits["test"]["rows"]) == (train, test)


def test_a_seed_changes_the_order_of_pathway_rows_and_nothing_else(tmp_path):
    plain = printed(run("pathways", "--out", tmp_path / "a", "--json"))["splits"]["train"]
    mixed = printed(run("pathways", "--out", tmp_path / "b", "--seed", 3, "--json"))["splits"]["train"]
    assert plain["data_sha256"] == mixed["data_sha256"]
    assert plain["file_sha256"] != mixed["file_sha256"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("pathways", "--hold-out", "lung"), "'lung'.*known are liver"),
        (("kmp", "--drill", 0), "drill is 0"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(tmp_path, arguments, says):
    result = run(*arguments, "--out", tmp_path / "data")
    assert isinstance(result.exception, LabError)
    with pytest.raises(LabError, match=says):
        raise result.exception
    assert not (tmp_path / "data").exists()


def test_a_folder_that_cannot_be_made_is_an_error_a_person_can_fix(tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    result = run("kmp", "--out", tmp_path / "file")
    assert isinstance(result.exception, LabError)
    assert "cannot write" in str(result.exception)


def test_the_table_shows_counts_of_both_splits(tmp_path):
    result = run("pathways", "--out", tmp_path)
    assert result.exit_code == 0
    for words in (("direct", "50", "48"), ("thymus", "0", "82"), ("144", "107")):
        assert any(all(word in line for word in words) for line in result.stdout.splitlines())


@pytest.mark.parametrize("command", ["kmp", "pathways"])
def test_help_shows_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"assay data {command} --out" in result.stdout


def test_the_command_and_its_data_need_no_model_library(pytestconfig):
    script = (
        "import sys\nfrom lab.commands import data\nimport evals.questions\n"
        "evals.questions.kmp_training()\n"
        "print([name for name in ('torch', 'transformers', 'gradio', 'pandas') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=pytestconfig.rootpath,
        env={"PYTHONPATH": "."},
    )
    assert found.stdout.strip() == "[]"


def test_pairs_writes_rows_card_and_statistics_that_say_who_chose(tmp_path):
    out = tmp_path / "pairs"
    sampled = sampled_run(tmp_path / "grpo")
    document = printed(run("pairs", "--run", sampled, "--out", out, "--json"))
    assert sorted(entry.name for entry in out.iterdir()) == [
        "README.md",
        "statistics.json",
        "train.jsonl",
    ]
    lines = (out / "train.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == document["rows"]
    assert {json.loads(line)["label_source"] for line in lines} == {"synthetic-verifier"}
    digest = hashlib.sha256((out / "train.jsonl").read_bytes()).hexdigest()
    assert document["rows_sha256"] == digest
    assert "Synthetic labels" in (out / "README.md").read_text(encoding="utf-8")


def test_calibrated_pairs_state_how_often_answers_of_their_kind_are_right(tmp_path):
    sampled = sampled_run(tmp_path / "grpo")
    words = ("--run", sampled, "--calibrate", "--out", tmp_path / "pairs")
    document = printed(run("pairs", *words, "--json"))
    lines = (tmp_path / "pairs" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert {row["rule"] for row in rows} == {"verdict", "calibration"}
    assert document["by_rule"].keys() == {"verdict", "calibration"}
    for kind, part in document["accuracy"].items():
        stated = {row["confidence_chosen"] for row in rows if row["kind"] == kind}
        share = (part["right"] + 1) / (part["claims"] + 2)
        # one question fewer behind each, in steps of 5 %
        assert part["claims"] < 20 or all(abs(each - share) <= 0.15 for each in stated), (
            kind,
            stated,
            share,
        )
    assert "how often answers of the kind are right" in str(document["settings"])


def test_plain_pairs_say_that_nothing_in_them_holds_confidence_down(tmp_path):
    words = ("pairs", "--run", sampled_run(tmp_path / "grpo"), "--out", tmp_path / "pairs")
    assert "--calibrate" in run(*words).stderr
    assert "--calibrate" not in run(*words, "--calibrate").stderr


def test_the_same_answers_give_the_same_pairs_byte_for_byte(tmp_path):
    sampled = sampled_run(tmp_path / "grpo")
    for name in ("one", "two"):
        assert run("pairs", "--run", sampled, "--out", tmp_path / name).exit_code == 0
    files = [sorted((tmp_path / name).iterdir()) for name in ("one", "two")]
    assert [file.read_bytes() for file in files[0]] == [file.read_bytes() for file in files[1]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--chain NAME to draw them, or --run FOLDER"),
        (["--run", "training/embedded/grpo", "--chain", "embedded"], "name one source"),
        (["--run", "nowhere"], "nowhere holds no sampled answers"),
        (["--run", "training/embedded/grpo", "--margin", "0"], "margin is 0"),
        (["--chain", "embedded", "--data", "kmp-test"], "kept for testing"),
        (["--chain", "embedded", "--data", "pathways-heldout"], "kept for testing"),
    ],
)
def test_pairs_that_cannot_be_made_say_why_and_write_nothing(words, said, tmp_path):
    result = run("pairs", "--out", tmp_path / "pairs", *words)
    assert isinstance(result.exception, LabError)
    assert said in str(result.exception)
    assert not (tmp_path / "pairs").exists()


def test_a_chain_whose_answers_are_all_empty_of_claims_gives_no_pairs_and_says_so(tmp_path, monkeypatch):
    chain = tiny_chain(tmp_path / "chain")
    monkeypatch.chdir(tmp_path / "chain")
    words = ["--chain", chain, "--stage", "sft", "--limit", "1", "--samples", "2"]
    result = run("pairs", *words, "--max-new-tokens", "4", "--out", tmp_path / "pairs")
    assert isinstance(result.exception, LabError)
    assert "no pair among the answers to 1 questions (1 none right)" in str(result.exception)
