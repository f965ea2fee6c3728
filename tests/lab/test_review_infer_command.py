"""`assay review infer` with a server, as people and programs use it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.io import read_rows
from evals.schema.reviewruns import ReviewedRow, ReviewRun
from lab.cli import app
from tests.evals.reviewed import concern, example, prose
from tests.training.judge_server import Asked, JudgeServer, Reply

RUN = CliRunner()
SAID = '[{"text": "There is no control arm.", "category": "design_flaw", "severity": "major"}]'
PAPER = "# Mice and a drug\n\n## Abstract\n\nMice were treated.\n\n## Methods\n\nSix mice had the drug.\n"


def answered(asked: Asked) -> Reply:
    if "Paper 1" in asked.text:
        return 500, b"no"
    choice = {"message": {"role": "assistant", "content": SAID}, "finish_reason": "stop"}
    return 200, json.dumps({"choices": [choice]}).encode()


def infer(out: Path, *words: object) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error."""
    told = [*map(str, words), "--out", str(out)]
    done = RUN.invoke(app, ["review", "infer", *told])
    return done.exit_code, done.stdout, f"{done.stderr} {done.exception or ''}"


def collection(folder: Path) -> Path:
    file = folder / "papers.jsonl"
    rows = [
        example([("Methods", prose(20))], [concern("No control arm.")], id=f"s:{n}", title=f"Paper {n}")
        for n in range(2)
    ]
    file.write_text("".join(row.model_dump_json() + "\n" for row in rows), encoding="utf-8")
    return file


def test_one_file_is_reviewed_by_a_server_and_the_guess_at_tokens_is_recorded(tmp_path: Path):
    paper, out = tmp_path / "mice.md", tmp_path / "p.jsonl"
    paper.write_text(PAPER, encoding="utf-8")
    with JudgeServer(answered) as server:
        code, printed, _ = infer(out, "--papers", paper, "--server", server.url, "--json")
    assert code == 0
    (row,) = read_rows(out, ReviewedRow)
    assert (row.status, row.concerns[0].category) == ("ok", "design_flaw")
    run = ReviewRun.model_validate_json(printed)
    assert run == ReviewRun.model_validate_json((tmp_path / "p.run.json").read_text())
    assert run.engine.tokenizer.startswith("estimated")
    assert run.seconds_per_article is not None


def test_papers_without_an_answer_are_told_and_the_command_does_not_say_that_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("training.judge.client.LONGEST_WAIT", 0.0)
    out, papers = tmp_path / "p.jsonl", collection(tmp_path)
    with JudgeServer(answered) as server:
        words = ("--papers", papers, "--split", "train", "--server", server.url)
        code, printed, told = infer(out, *words)
    assert code == 1
    assert "1 paper got no answer" in told
    assert "finish reason error" in printed
    assert [row.status for row in read_rows(out, ReviewedRow)] == ["ok", "failed"]


def test_what_cannot_be_done_is_said_in_a_sentence(tmp_path: Path):
    refused = {
        ("--split", "test"): "holds no papers of the split test",
        ("--split", "train", "--server", "nowhere"): "takes one such as http://127.0.0.1:8000/v1",
        ("--split", "train", "--server", "http://example.org/v1"): "is not on this machine",
        ("--split", "train", "--max-parts", "0", "--server", "x"): "max_parts is 0",
    }
    papers = collection(tmp_path)
    for words, said in refused.items():
        code, _, told = infer(tmp_path / "p.jsonl", "--papers", papers, *words)
        assert code == 1 and said in told, words
        assert not (tmp_path / "p.jsonl").exists()
