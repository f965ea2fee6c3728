"""`assay review` as people and programs use it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.errors import BadRow, LabError
from lab.commands.review import app

RUN = CliRunner()


def lines(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def document(*arguments: str) -> dict:
    result = RUN.invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


RAW = [
    {"id": "a", "raw": '[{"text": "No control.", "category": "design", "severity": "major"}]'},
    {"id": "b", "raw": "[]"},
    {"id": "c", "raw": None},
]


def test_parse_gives_every_field_of_the_contract(tmp_path: Path) -> None:
    found = document("parse", lines(tmp_path / "raw.jsonl", RAW))
    assert [set(each) for each in found] == [{"id", "status", "concerns", "problems"}] * 3
    assert [each["status"] for each in found] == ["ok", "empty", "failed"]
    assert found[0]["concerns"] == [
        {"text": "No control.", "category": "design_flaw", "severity": "major"}
    ]


def test_what_parse_writes_can_be_cleaned(tmp_path: Path) -> None:
    parsed, cleaned = tmp_path / "parsed.jsonl", tmp_path / "clean.jsonl"
    document("parse", lines(tmp_path / "raw.jsonl", RAW), "--out", str(parsed))
    totals = document("clean", str(parsed), "--cap", "20", "--out", str(cleaned))
    assert (totals["rows"], totals["before"], totals["after"]) == (3, 1, 1)
    assert read(cleaned)[0]["concerns"][0]["category"] == "design_flaw"


def test_clean_shows_what_it_removed(tmp_path: Path) -> None:
    rows = [{"article_id": "a", "concerns": ["One.", "one.", "Two."], "engine": "x"}]
    document(
        "clean", lines(tmp_path / "in.jsonl", rows), "--cap", "1", "--out", str(tmp_path / "o")
    )
    (row,) = read(tmp_path / "o")
    assert row["concerns"] == ["One."]
    assert [each["reason"] for each in row["removed"]] == ["duplicate", "cap"]
    assert row["engine"] == "x"


WRONG = [
    ({"id": "a"}, "parse", BadRow),
    ({"article_id": "a", "concerns": "x"}, "clean", BadRow),
    ({"article_id": "", "concerns": []}, "clean", BadRow),
]


@pytest.mark.parametrize(("row", "command", "error"), WRONG)
def test_a_bad_row_is_named_and_nothing_is_written(row, command, error, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(error, match="line 1"):
        RUN.invoke(
            app,
            [command, lines(tmp_path / "in.jsonl", [row]), "--out", str(out)],
            catch_exceptions=False,
        )
    assert not out.exists()


def test_the_file_that_is_read_is_never_written_over(tmp_path: Path) -> None:
    path = lines(tmp_path / "in.jsonl", [{"article_id": "a", "concerns": []}])
    with pytest.raises(LabError, match="name another file"):
        RUN.invoke(app, ["clean", path, "--out", path], catch_exceptions=False)
