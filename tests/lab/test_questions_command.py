"""`assay data check | new | import` and the other commands that take a question set of one's own."""

import json
import sys

import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig, BadRow, LabError
from evals.questions import find
from lab import cli
from lab.commands.data import app, know
from lab.settings import from_environment

MMLU = {
    "question": "Which organelle makes ATP?",
    "subject": "biology",
    "choices": ["nucleus", "mitochondrion"],
}
GOOD = {
    "id": "a",
    "prompt": "Which way?",
    "truth": {"kind": "choice", "value": "up", "options": ["up", "down"]},
    "group": "g",
    "split": "test",
}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def put(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_check_tells_what_is_in_a_good_set_and_what_tricks_score():
    told = run("check", "codons-and-enzymes", "--json")
    document = json.loads(told.stdout)
    assert told.exit_code == 0
    assert (document["rows"], document["faults"], document["kinds"]["choice"]) == (60, [], 32)
    assert {"policy", "correct", "n", "accuracy"} == document["scores"][0].keys()


def test_check_names_bad_rows_in_a_table_or_as_json_and_ends_with_1(tmp_path):
    file = put(tmp_path / "set.jsonl", GOOD, {**GOOD, "id": "b", "split": "exam"})
    table, document = run("check", file), run("check", file, "--json")
    assert (table.exit_code, document.exit_code) == (1, 1)
    assert "split" in table.stdout
    assert "1 of 2 rows" in table.stderr
    (fault,) = json.loads(document.stdout)["faults"]
    assert (fault["line"], fault["id"], fault["field"]) == (2, "b", "split")


def test_new_writes_an_example_that_passes_check_and_overwrites_nothing(tmp_path):
    file = tmp_path / "mine.yaml"
    assert run("new", "--out", file).exit_code == 0
    assert file.read_text() == run("new").stdout
    assert json.loads(run("check", file, "--json").stdout)["warnings"] == []
    assert isinstance(run("new", "--out", file).exception, LabError)
    assert isinstance(run("new", "--out", tmp_path / "mine.csv").exception, BadConfig)


def test_import_writes_a_set_that_passes_check(tmp_path):
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
    assert len(made) == 1
    assert run("check", out).exit_code == 0


def test_an_import_with_a_bad_row_writes_nothing_unless_it_is_to_be_skipped(tmp_path):
    file, out = (
        put(tmp_path / "x.jsonl", {**MMLU, "answer": 1}, {**MMLU, "answer": 9}),
        tmp_path / "out.jsonl",
    )
    failed = run("import", file, "--out", out)
    assert isinstance(failed.exception, BadRow)
    assert not out.exists()
    skipped = run("import", file, "--out", out, "--skip-bad")
    assert skipped.exit_code == 0
    assert "left out" in skipped.stderr
    assert len(out.read_text().splitlines()) == 1


def test_a_set_with_a_bad_row_starts_no_training_and_no_evaluation(tmp_path, monkeypatch, capsys):
    file = put(tmp_path / "set.jsonl", GOOD, {**GOOD, "id": "b", "truth": {"kind": "choice"}})
    out = tmp_path / "report.json"
    commands = (
        ["eval", "run", "--data", str(file), "--out", str(out)],
        [
            "train",
            "sft",
            "--config",
            "training/configs/embedded/sft.yaml",
            "--data",
            str(file),
            "--output",
            str(out),
        ],
        ["lab", "--questions", str(file)],
    )
    for words in commands:
        monkeypatch.setattr(sys, "argv", ["assay", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = " ".join(capsys.readouterr().err.split())
        assert ended.value.code == 1, words
        assert "line 2, field 'truth.value'" in told, words
    assert list(tmp_path.iterdir()) == [file]


def test_ask_and_the_lab_know_the_sets_that_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.setattr("evals.questions.bank._REGISTERED", {})
    file = put(tmp_path / "set.jsonl", {**GOOD, "prompt": "Which way does it go at noon?"})
    settings = from_environment({"ASSAY_QUESTIONS": f"{file}, codons-and-enzymes"})
    assert settings.questions == (str(file), "codons-and-enzymes")
    know(settings.questions)
    assert find("which way does it go at noon?").id == "a"
    assert find("Which codons of the standard genetic code end translation?").kind == "set"
