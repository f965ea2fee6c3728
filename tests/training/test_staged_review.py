"""A review in stages behind a server: what is asked in which order, and what the paper contradicts is gone."""

import json

import pytest
from typer.testing import CliRunner

from lab.cli import app
from tests.evals.reviewed import example, prose
from tests.training.judge_server import Asked, JudgeServer, says

METHODS = f"The trial was registered (NCT01234567). Mice were few. {prose(40)}"
RAISED = {
    "Methods": ["The trial was not registered.", "Six mice are too few."],
    "Results": ["The p value is not adjusted."],
}


@pytest.fixture
def papers(tmp_path):
    row = example([("Methods", METHODS), ("Results", f"It grew. {prose(40)}")], id="s:1", split="test", title="Growth")
    (tmp_path / "test.jsonl").write_text(row.model_dump_json() + "\n", encoding="utf-8")
    return tmp_path


def concerns(*texts):
    return says(json.dumps([{"text": text, "category": "other", "severity": "minor"} for text in texts]))


def behaviour(asked: Asked):
    said = asked.text
    if "Summarise the paper" in said:
        return says("SUMMARY: mice were studied.")
    if "# Concerns" in said:
        return concerns(
            *json.loads(said.rpartition("# Concerns\n")[2]) and [each for many in RAISED.values() for each in many]
        )
    if "=== BEGIN CONCERNS" in said:
        said = [("contradicted", "The trial was registered"), ("contradicted", "Mice were few."), ("not_checkable", "")]
        rows = [{"item": n, "verdict": word, "quote": quote} for n, (word, quote) in enumerate(said, start=1)]
        return says({"verdicts": rows})
    name = next(name for name in RAISED if f"## {name}" in said)
    assert "SUMMARY: mice were studied." in said
    return concerns(*RAISED[name])


def test_sections_are_reviewed_with_a_summary_merged_and_verified_by_the_model(papers):
    with JudgeServer(behaviour) as server:
        out = papers / "out.jsonl"
        words = [
            "review",
            "infer",
            "--papers",
            papers / "test.jsonl",
            "--server",
            server.url,
            "--staged",
            "--out",
            out,
            "--json",
        ]
        done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
        asked = [each.text for each in server.requests]
    assert done.exit_code == 0, done.output
    row = json.loads(out.read_text(encoding="utf-8"))
    assert [each["text"] for each in row["concerns"]] == ["The p value is not adjusted."]
    assert (row["status"], row["finish_reason"]) == ("ok", "stop")
    assert ["Summarise" in asked[0], "# Concerns" in asked[-2], "=== BEGIN CONCERNS" in asked[-1]] == [True] * 3
    assert len(asked) == 5
    record = json.loads((papers / "out.run.json").read_text(encoding="utf-8"))
    assert "2 concern(s) that the paper contradicts were dropped" in str(record["engine"]["substitutions"])


def test_a_stage_that_gets_no_answer_is_told_and_the_paper_has_no_row_that_could_stand(papers):
    with JudgeServer(lambda _: (400, b'{"error": "no"}')) as server:
        out = papers / "out.jsonl"
        words = ["review", "infer", "--papers", papers / "test.jsonl", "--server", server.url, "--staged", "--out", out]
        assert CliRunner().invoke(app, [*map(str, words)]).exit_code == 1
    assert json.loads(out.read_text(encoding="utf-8"))["status"] == "failed"
