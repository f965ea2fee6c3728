"""`--read judge` of `assay eval`, as a person calls it, with a real server behind it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evals.report import load_report, save_report
from tests.evals.reports import small_report
from tests.training.judge_server import Asked, JudgeServer, Reply, says
from tests.training.judges import reads

ASSAY = Path(sys.executable).with_name("assay")
DOWN = {
    "kind": "direct",
    "tissue": "thymus",
    "pathway": "HALLMARK_ADIPOGENESIS",
    "direction": "DOWN",
}
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


def called(tmp_path: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [str(ASSAY), "eval", *map(str, words)]
    environment = {"ASSAY_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_a_judge_reads_answers_and_grades_rubrics_and_how_far_to_trust_it_stands_beside(
    tmp_path: Path,
):
    rows, labels = jsonl(tmp_path / "rows.jsonl", ROWS), jsonl(tmp_path / "labels.jsonl", LABELLED)
    with JudgeServer(reads) as server:
        words = (
            "verify",
            rows,
            "--read",
            "judge",
            "--judge",
            server.url,
            "--labels",
            labels,
            "--json",
        )
        done = called(tmp_path, *words)
        calls = len(server.requests)
        again = called(tmp_path, *words)
        assert len(server.requests) == calls
    assert done.returncode == 0, done.stderr
    assert again.stdout == done.stdout
    line, rubric, empty = json.loads(done.stdout)
    assert (line["verdict"], line["read_by"], line["stated_confidence"]) == (
        "correct",
        "judge",
        0.8,
    )
    assert (rubric["verdict"], rubric["scores"]["V1"], empty["verdict"]) == (
        "correct",
        1.0,
        "no_claim",
    )
    assert "tiny-judge, extraction-1" in done.stderr
    assert "known answers: 10 of 10 read right" in done.stderr
    assert "agreement on 2 answers (0 more not read): correct or not 0.50" in done.stderr


def test_a_report_read_by_a_judge_says_who_read_it_and_is_not_compared_with_another_judges(
    tmp_path: Path,
):
    old = tmp_path / "old.json"
    save_report(small_report(2), old)
    labels = jsonl(tmp_path / "labels.jsonl", LABELLED)
    with JudgeServer(reads) as server:
        for name in ("one", "two"):
            done = called(
                tmp_path, "rescore", old, "--out", tmp_path / f"{name}.json", "--read", "judge",
                "--judge", server.url, "--judge-model", name, "--labels", labels,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
    report = load_report(tmp_path / "one.json")
    assert report.settings["judge"] == "one, extraction-1"
    assert report.settings["judge, known answers"] == "10 of 10 read right"
    assert {row.verdict.read_by for row in report.rows} == {"judge"}
    assert server.url not in (tmp_path / "one.json").read_text(encoding="utf-8")
    both = called(tmp_path, "compare", tmp_path / "one.json", tmp_path / "two.json")
    assert both.returncode == 1
    assert "read by different judges: one, extraction-1; two, extraction-1" in both.stderr
    back = called(tmp_path, "rescore", tmp_path / "one.json")
    assert back.returncode == 0, back.stderr
    assert not [name for name in load_report(tmp_path / "one.json").settings if "judge" in name]


def test_the_agreement_of_a_judge_with_labels_stands_in_the_table_of_readers(tmp_path: Path):
    labels = jsonl(tmp_path / "labels.jsonl", LABELLED)
    with JudgeServer(reads) as server:
        done = called(tmp_path, "readers", labels, "--read", "judge", "--judge", server.url, "--json")
    assert done.returncode == 0, done.stderr
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
def test_a_judge_that_is_not_fit_or_fails_leaves_nothing_behind(tmp_path: Path, behaviour, words, message):
    rows, labels = jsonl(tmp_path / "rows.jsonl", ROWS), jsonl(tmp_path / "l.jsonl", LABELLED)
    out = tmp_path / "out.jsonl"
    with JudgeServer(behaviour) as server:
        given = ("--read", "judge", "--judge", server.url, "--labels", labels, "--out", out, *words)
        done = called(tmp_path, "verify", rows, *given)
    assert (done.returncode, out.exists()) == (1, False)
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
