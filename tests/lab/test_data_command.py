"""`assay data` writes what it says, twice the same, and refuses what it cannot do. `tests/frozen` holds what it prints."""

import hashlib
import json
import sys

import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig, BadRow, LabError
from evals.questions import data_sha256, find, kmp_test, kmp_training, read_examples
from lab import cli
from lab.commands.data import app, know
from lab.settings import from_environment
from tests.models import tiny_chain
from tests.training.runs import sampled_run

MMLU = {"question": "Which organelle makes ATP?", "subject": "biology", "choices": ["nucleus", "mitochondrion"]}
CHOICE = {"kind": "choice", "value": "up", "options": ["up", "down"]}
GOOD = {"id": "a", "prompt": "Which way?", "truth": CHOICE, "group": "g", "split": "test"}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def printed(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(result, says):
    assert isinstance(result.exception, LabError) and says in str(result.exception), result.exception


def put(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    return sampled_run(tmp_path_factory.mktemp("sampled") / "grpo")


# ---- questions and pairs made here ------------------------------------------------------------


def test_kmp_writes_training_test_and_statistics_with_the_checksums_of_files_and_rows(tmp_path):
    document = printed(run("kmp", "--out", tmp_path / "new" / "kmp", "--json"))
    folder = tmp_path / "new" / "kmp"
    assert sorted(entry.name for entry in folder.iterdir()) == ["statistics.json", "test.jsonl", "train.jsonl"]
    assert json.loads((folder / "statistics.json").read_text(encoding="utf-8")) == document
    for split, rows in {"train": kmp_training(), "test": kmp_test()}.items():
        path, numbers = folder / f"{split}.jsonl", document["splits"][split]
        assert read_examples(path) == rows
        assert numbers["file_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert numbers["data_sha256"] == data_sha256(rows)
        assert numbers["rows"] == len(rows) == sum(numbers["kinds"].values()) == sum(numbers["tissues"].values())


def test_pathways_are_split_by_the_tissues_named_and_a_seed_changes_nothing_but_the_order(tmp_path):
    counts = {"": (276, 0), "eye": (244, 25), "eye, thymus": (144, 107), "thymus,eye,eye": (144, 107)}
    for at, (hold_out, rows) in enumerate(counts.items()):
        splits = printed(run("pathways", "--out", tmp_path / str(at), "--hold-out", hold_out, "--json"))["splits"]
        assert (splits["train"]["rows"], splits["test"]["rows"]) == rows
    made = {name: run("pathways", "--out", tmp_path / name, "--seed", 3) for name in ("a", "b")}
    table = made["a"].stdout.splitlines()
    for words in (("direct", "50", "48"), ("thymus", "0", "82"), ("144", "107")):
        assert any(all(word in line for word in words) for line in table)
    for file in ("train.jsonl", "test.jsonl", "statistics.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    mixed, plain = (read_examples(tmp_path / name / "train.jsonl") for name in ("a", "2"))
    assert mixed != plain and data_sha256(mixed) == data_sha256(plain)


def test_what_cannot_be_made_is_refused_and_nothing_is_written(tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    refused(run("kmp", "--out", tmp_path / "file"), "cannot write")
    asked = {
        "'lung'": ["pathways", "--hold-out", "lung"],
        "drill is 0": ["kmp", "--drill", 0],
        "--chain NAME to draw them, or --run FOLDER": ["pairs"],
        "name one source": ["pairs", "--run", "training/embedded/grpo", "--chain", "embedded"],
        "nowhere holds no sampled answers": ["pairs", "--run", "nowhere"],
        "margin is 0": ["pairs", "--run", "training/embedded/grpo", "--margin", "0"],
        "kept for testing": ["pairs", "--chain", "embedded", "--data", "pathways-heldout"],
    }
    for says, words in asked.items():
        refused(run(*words, "--out", tmp_path / "data"), says)
        assert not (tmp_path / "data").exists()


def test_pairs_are_labelled_as_synthetic_and_the_same_answers_give_the_same_bytes(sampled, tmp_path):
    told = [run("pairs", "--run", sampled, "--out", tmp_path / name, "--json") for name in ("one", "two")]
    document, out = printed(told[0]), tmp_path / "one"
    assert "--calibrate" in told[0].stderr  # nothing in these pairs holds confidence down
    assert sorted(entry.name for entry in out.iterdir()) == ["README.md", "statistics.json", "train.jsonl"]
    for file in out.iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    lines = (out / "train.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == document["rows"]
    assert {json.loads(line)["label_source"] for line in lines} == {"synthetic-verifier"}
    assert document["rows_sha256"] == hashlib.sha256((out / "train.jsonl").read_bytes()).hexdigest()
    assert "Synthetic labels" in (out / "README.md").read_text(encoding="utf-8")


def test_calibrated_pairs_state_how_often_answers_of_their_kind_are_right(sampled, tmp_path):
    told = run("pairs", "--run", sampled, "--calibrate", "--out", tmp_path / "pairs", "--json")
    document = printed(told)
    assert "--calibrate" not in told.stderr
    rows = [json.loads(line) for line in (tmp_path / "pairs" / "train.jsonl").read_text("utf-8").splitlines()]
    assert {row["rule"] for row in rows} == document["by_rule"].keys() == {"verdict", "calibration"}
    for kind, part in document["accuracy"].items():
        share = (part["right"] + 1) / (part["claims"] + 2)
        stated = {row["confidence_chosen"] for row in rows if row["kind"] == kind}
        # one question fewer behind each, in steps of 5 %
        assert part["claims"] < 20 or all(abs(each - share) <= 0.15 for each in stated), (kind, stated, share)
    assert "how often answers of the kind are right" in str(document["settings"])


def test_a_chain_whose_answers_are_all_empty_of_claims_gives_no_pairs_and_says_so(tmp_path, monkeypatch):
    chain = tiny_chain(tmp_path / "chain")
    monkeypatch.chdir(tmp_path / "chain")
    words = ["--chain", chain, "--stage", "sft", "--limit", "1", "--samples", "2", "--max-new-tokens", "4"]
    result = run("pairs", *words, "--out", tmp_path / "pairs")
    refused(result, "no pair among the answers to 1 questions (1 none right)")


# ---- question sets of one's own ---------------------------------------------------------------


def test_every_command_shows_an_example_of_itself():
    for command in app.registered_commands:
        name = command.name or command.callback.__name__
        assert f"Example: assay data {name}" in " ".join(run(name, "--help").stdout.split()), name


def test_check_tells_of_a_good_set_and_names_bad_rows_and_ends_with_1(tmp_path):
    document = printed(run("check", "codons-and-enzymes", "--json"))
    assert (document["rows"], document["faults"], document["kinds"]["choice"]) == (60, [], 32)
    assert {"policy", "correct", "n", "accuracy"} == document["scores"][0].keys()
    file = put(tmp_path / "set.jsonl", GOOD, {**GOOD, "id": "b", "split": "exam"})
    table, told = run("check", file), run("check", file, "--json")
    assert (table.exit_code, told.exit_code) == (1, 1)
    assert "split" in table.stdout and "1 of 2 rows" in table.stderr
    (fault,) = json.loads(told.stdout)["faults"]
    assert (fault["line"], fault["id"], fault["field"]) == (2, "b", "split")


def test_new_writes_an_example_that_passes_check_and_overwrites_nothing(tmp_path):
    file = tmp_path / "mine.yaml"
    assert run("new", "--out", file).exit_code == 0
    assert file.read_text() == run("new").stdout
    assert printed(run("check", file, "--json"))["warnings"] == []
    refused(run("new", "--out", file), "is there already")
    assert isinstance(run("new", "--out", tmp_path / "mine.csv").exception, BadConfig)


def test_import_writes_a_set_that_passes_check_and_nothing_if_a_row_is_bad_and_not_to_be_skipped(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{**MMLU, "answer": 1}, {**MMLU, "question": "Which holds the DNA?", "answer": 0}]
    put(tmp_path / "test.jsonl", *rows)
    (tmp_path / "test.json").write_text(json.dumps(rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "test.parquet")
    made = set()
    for end in ("jsonl", "json", "parquet"):
        out = tmp_path / f"from-{end}.jsonl"
        words = ("--layout", "multiple-choice", "--split", "test", "--licence", "mit", "--out", out)
        assert run("import", tmp_path / f"test.{end}", *words).exit_code == 0
        made.add(out.read_text())
    assert len(made) == 1 and run("check", out).exit_code == 0
    for document in ("{", "[1]"):
        (tmp_path / "bad.json").write_text(document)
        refused(run("import", tmp_path / "bad.json", "--out", tmp_path / "x.jsonl"), "holds no list of objects")
    file, out = put(tmp_path / "x.jsonl", {**MMLU, "answer": 1}, {**MMLU, "answer": 9}), tmp_path / "out.jsonl"
    assert isinstance(run("import", file, "--out", out).exception, BadRow) and not out.exists()
    skipped = run("import", file, "--out", out, "--skip-bad")
    assert skipped.exit_code == 0 and "left out" in skipped.stderr
    assert len(out.read_text().splitlines()) == 1


def test_a_set_with_a_bad_row_starts_no_training_and_no_evaluation(tmp_path, monkeypatch, capsys):
    file = put(tmp_path / "set.jsonl", GOOD, {**GOOD, "id": "b", "truth": {"kind": "choice"}})
    out = str(tmp_path / "report.json")
    sft = ["train", "sft", "--config", "training/configs/embedded/sft.yaml", "--output", out, "--data", str(file)]
    for words in (["eval", "run", "--data", str(file), "--out", out], sft, ["lab", "--questions", str(file)]):
        monkeypatch.setattr(sys, "argv", ["assay", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = " ".join(capsys.readouterr().err.split())
        assert ended.value.code == 1 and "line 2, field 'truth.value'" in told, words
    assert list(tmp_path.iterdir()) == [file]


def test_ask_and_the_lab_know_the_sets_that_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.setattr("evals.questions.bank._REGISTERED", {})
    file = put(tmp_path / "set.jsonl", {**GOOD, "prompt": "Which way does it go at noon?"})
    settings = from_environment({"ASSAY_QUESTIONS": f"{file}, codons-and-enzymes"})
    assert settings.questions == (str(file), "codons-and-enzymes")
    know(settings.questions)
    assert find("which way does it go at noon?").id == "a"
    assert find("Which codons of the standard genetic code end translation?").kind == "set"
