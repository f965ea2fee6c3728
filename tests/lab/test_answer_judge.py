"""`--read judge` of `assay eval`, as a person calls it, with a real server behind it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from evals.errors import LabError
from evals.report import load_report, save_report
from lab.cli import app
from tests.evals.reports import small_report
from tests.training.judge_server import Asked, JudgeServer, Reply, says
from tests.training.judges import reads

DOWN = {"kind": "direct", "tissue": "thymus", "pathway": "HALLMARK_ADIPOGENESIS", "direction": "DOWN"}
RUBRIC = {"kind": "rubric", "items": [{"title": "way", "description": 'It says "falls".'}]}
ASKED = "How does adipogenesis respond in the thymus of mice flown in space?"
ROWS: list[dict[str, object]] = [
    {"id": "line", "prompt": ASKED, "completion": "Answer: down\nConfidence: 80%", "ground_truth": DOWN},
    {"id": "rubric", "prompt": "What happens?", "completion": "It falls.", "ground_truth": RUBRIC},
    {"id": "empty", "prompt": ASKED, "completion": " ", "ground_truth": DOWN},
]  # fmt: skip
LABELLED: list[dict[str, object]] = [
    {**ROWS[0], "id": "l1", "label": "correct"},
    {**ROWS[0], "id": "l2", "label": ["incorrect", "no_claim"]},
]


def jsonl(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return lambda *words: CliRunner().invoke(app, ["eval", *map(str, words)])


def told(done: Result) -> str:
    """Return what a person reads beside the result."""
    return " ".join(f"{done.stderr} {done.exception or ''}".split())


def test_a_judge_reads_answers_and_grades_rubrics_and_how_far_to_trust_it_stands_beside(tmp_path: Path, called):
    rows, labels = jsonl(tmp_path / "rows.jsonl", ROWS), jsonl(tmp_path / "labels.jsonl", LABELLED)
    with JudgeServer(reads) as server:
        words = ("verify", rows, "--read", "judge", "--judge", server.url, "--labels", labels, "--json")
        done = called(*words)
        calls = len(server.requests)
        again = called(*words)
        assert len(server.requests) == calls
    assert done.exit_code == 0, told(done)
    assert again.stdout == done.stdout
    line, rubric, empty = json.loads(done.stdout)
    assert (line["verdict"], line["read_by"], line["stated_confidence"]) == ("correct", "judge", 0.8)
    assert (rubric["verdict"], rubric["scores"]["V1"], empty["verdict"]) == ("correct", 1.0, "no_claim")
    assert "tiny-judge, extraction-1" in told(done)
    assert "known answers: 10 of 10 read right" in told(done)
    assert "agreement on 2 answers (0 more not read): correct or not 0.50" in told(done)


def test_a_report_read_by_a_judge_says_who_read_it_and_is_not_compared_with_another_judges(tmp_path: Path, called):
    old = tmp_path / "old.json"
    save_report(small_report(2), old)
    labels = jsonl(tmp_path / "labels.jsonl", LABELLED)
    with JudgeServer(reads) as server:
        for name in ("one", "two"):
            done = called(
                "rescore", old, "--out", tmp_path / f"{name}.json", "--read", "judge",
                "--judge", server.url, "--judge-model", name, "--labels", labels,
            )  # fmt: skip
            assert done.exit_code == 0, told(done)
    report = load_report(tmp_path / "one.json")
    assert report.settings["judge"] == "one, extraction-1"
    assert report.settings["judge, known answers"] == "10 of 10 read right"
    assert {row.verdict.read_by for row in report.rows} == {"judge"}
    assert server.url not in (tmp_path / "one.json").read_text(encoding="utf-8")
    both = called("compare", tmp_path / "one.json", tmp_path / "two.json")
    assert both.exit_code == 1
    assert "read by different judges: one, extraction-1; two, extraction-1" in told(both)
    back = called("rescore", tmp_path / "one.json")
    assert back.exit_code == 0, told(back)
    assert not [name for name in load_report(tmp_path / "one.json").settings if "judge" in name]


def test_the_agreement_of_a_judge_with_labels_stands_in_the_table_of_readers(tmp_path: Path, called):
    labels = jsonl(tmp_path / "labels.jsonl", LABELLED)
    with JudgeServer(reads) as server:
        done = called("readers", labels, "--read", "judge", "--judge", server.url, "--json")
    assert done.exit_code == 0, told(done)
    (judge,) = json.loads(done.stdout)["readers"]
    assert (judge["reader"], judge["n"], judge["correct"]["value"]) == ("judge", 2, 0.5)


def no_reader(asked: Asked) -> Reply:
    return says({"answer": "none", "confidence": None})


def silent(asked: Asked) -> Reply:
    return reads(asked) if asked.parts["ANSWER"] != ROWS[0]["completion"] else says("no")


@pytest.mark.parametrize(
    ("behaviour", "words", "message"),
    [
        (no_reader, (), "reads 8 of 10 known answers wrong"),
        (silent, ("--any-judge",), "gave no reading of 1 of"),
        (reads, ("--read", "text"), "add --read judge"),
        (reads, ("--judge", "heuristic"), "needs the address of a server, found 'heuristic'"),
        (reads, ("--judge", "http://example.org/v1"), "not on this machine"),
    ],
)
def test_a_judge_that_is_not_fit_or_fails_leaves_nothing_behind(tmp_path: Path, called, behaviour, words, message):
    rows, labels = jsonl(tmp_path / "rows.jsonl", ROWS), jsonl(tmp_path / "l.jsonl", LABELLED)
    out = tmp_path / "out.jsonl"
    with JudgeServer(behaviour) as server:
        given = ("--read", "judge", "--judge", server.url, "--labels", labels, "--out", out, *words)
        done = called("verify", rows, *given)
    assert (done.exit_code, out.exists()) == (1, False)
    assert message in told(done)
    assert isinstance(done.exception, LabError)
