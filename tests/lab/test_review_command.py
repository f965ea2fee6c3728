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
    assert found[0]["concerns"] == [{"text": "No control.", "category": "design_flaw", "severity": "major"}]


def test_what_parse_writes_can_be_cleaned(tmp_path: Path) -> None:
    parsed, cleaned = tmp_path / "parsed.jsonl", tmp_path / "clean.jsonl"
    document("parse", lines(tmp_path / "raw.jsonl", RAW), "--out", str(parsed))
    totals = document("clean", str(parsed), "--cap", "20", "--out", str(cleaned))
    assert (totals["rows"], totals["before"], totals["after"]) == (3, 1, 1)
    assert read(cleaned)[0]["concerns"][0]["category"] == "design_flaw"


def test_clean_shows_what_it_removed(tmp_path: Path) -> None:
    rows = [{"article_id": "a", "concerns": ["One.", "one.", "Two."], "engine": "x"}]
    document("clean", lines(tmp_path / "in.jsonl", rows), "--cap", "1", "--out", str(tmp_path / "o"))
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
        RUN.invoke(app, [command, lines(tmp_path / "in.jsonl", [row]), "--out", str(out)], catch_exceptions=False)
    assert not out.exists()


def test_the_file_that_is_read_is_never_written_over(tmp_path: Path) -> None:
    path = lines(tmp_path / "in.jsonl", [{"article_id": "a", "concerns": []}])
    with pytest.raises(LabError, match="name another file"):
        RUN.invoke(app, ["clean", path, "--out", path], catch_exceptions=False)


def scored(tmp_path: Path, *options: str) -> dict:
    humans = [
        {"text": "No control arm here.", "category": "design_flaw", "severity": "major"},
        {"concern_text": "The n is small.", "category": "other", "severity": "minor"},
    ]
    reference = [
        {"article_id": "elife:1", "source": "elife", "concerns": humans},
        {"article_id": "elife:2", "source": "elife", "concerns": humans[1:]},
        {"id": "plos:3", "concerns": [{"text": "Wrong test used.", "category": "x", "severity": "y"}]},
    ]
    predictions = [
        {"article_id": "elife:1", "concerns": ["No control arm.", "Typos."]},
        {"article_id": "elife:2", "concerns": [{"text": "The n is so small.", "severity": "minor"}]},
    ]
    matrices = [
        {"article_id": "elife:1", "matrix": [[0.9, 0.1], [0.2, 0.1]]},
        {"article_id": "elife:2", "matrix": [[0.7]]},
    ]
    files = ["--reference", lines(tmp_path / "r.jsonl", reference)]
    files += ["--predictions", lines(tmp_path / "p.jsonl", predictions)]
    if "--encoder" not in options:
        files += ["--similarities", lines(tmp_path / "s.jsonl", matrices)]
    return document("score", *files, "--draws", "50", *options)


CONTRACT = {
    *("micro", "macro", "soft", "per_source", "per_category", "per_severity", "intervals"),
    *("controls", "matcher", "coverage"),
}


def test_score_gives_every_field_of_the_contract(tmp_path: Path) -> None:
    found = scored(tmp_path)
    assert set(found) >= CONTRACT
    assert found["micro"] | {"n_articles": 3} == {
        **{"precision": 2 / 3, "recall": 0.5, "f1": 4 / 7, "recall_major": 1.0},
        **{"n_human": 4, "n_predicted": 3.0, "n_matched": 2.0, "n_articles": 3},
    }
    assert set(found["controls"]) >= {"permuted", "count_bound", "bm25"}
    assert found["controls"]["count_bound"]["n_matched"] == 3
    assert found["controls"]["permuted"] is None
    assert (found["matcher"]["threshold"], found["matcher"]["assignment"]) == (0.65, "optimal")
    assert (found["coverage"]["n_answered"], found["coverage"]["missing"]) == (2, ["plos:3"])
    assert "articles" not in found


def test_score_lists_articles_and_pairs_when_asked(tmp_path: Path) -> None:
    found = scored(tmp_path, "--per-article", "--no-controls", "--threshold", "0.8")
    assert found["controls"] is None
    assert [each["n_matched"] for each in found["articles"]] == [1, 0, 0]
    assert found["articles"][0]["pairs"] == [{"predicted": 0, "human": 0, "similarity": 0.9}]


def test_words_are_matched_only_when_asked_for_and_permuted_control_stands_beside(tmp_path: Path) -> None:
    found = scored(tmp_path, "--encoder", "lexical")
    assert found["matcher"]["encoder"] == "lexical"
    assert found["headline"]["f1_permuted"] == found["controls"]["permuted"]["f1"]
    assert found["headline"]["f1_above_permuted"] == pytest.approx(
        found["micro"]["f1"] - found["controls"]["permuted"]["f1"]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--threshold", "auto"), "needs an encoder"),
        (("--threshold", "high"), "is no similarity"),
        (("--encoder", "specter3"), "no encoder 'specter3'"),
        (("--encoder", "lexical", "--papers", "r.jsonl"), "there is no file"),
    ],
)
def test_what_cannot_be_scored_says_what_to_do(options, message: str, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=message):
        scored(tmp_path, *options)


def test_a_missing_encoder_stops_with_the_way_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="hf download allenai/specter2"):
        scored(tmp_path, "--encoder", "specter2")


def merged(tmp_path: Path, *options: str) -> tuple[dict, list[dict]]:
    one = [{"article_id": "1", "concerns": ["No control.", {"text": "Small n.", "severity": "major"}]}]
    two = [{"article_id": "1", "concerns": ["No control arm."]}, {"article_id": "2", "concerns": []}]
    table = [
        {"text": "No control.", "vector": [1.0, 0.0]},
        {"text": "No control arm.", "vector": [2.0, 0.2]},
        {"text": "Small n.", "vector": [0.0, 1.0]},
    ]
    files = [lines(tmp_path / "one.jsonl", one), lines(tmp_path / "two.jsonl", two)]
    files += ["--vectors", lines(tmp_path / "v.jsonl", table), "--out", str(tmp_path / "out.jsonl")]
    found = document("ensemble", *files, "--threshold", "0.9", *options)
    return found, read(tmp_path / "out.jsonl")


def test_ensemble_writes_prediction_rows_with_the_sources_of_each_concern(tmp_path: Path) -> None:
    found, rows = merged(tmp_path)
    assert [row["article_id"] for row in rows] == ["1", "2"]
    assert [(each["text"], each["sources"]) for each in rows[0]["concerns"]] == [
        ("No control.", ["one", "two"]),
        ("Small n.", ["one"]),
    ]
    assert (found["n_fused"], found["n_kept"], found["n_empty"]) == (1, 2, 1)
    document("clean", str(tmp_path / "out.jsonl"), "--out", str(tmp_path / "clean.jsonl"))


@pytest.mark.parametrize("strategy", ["vote", "intersection"])
def test_ensemble_keeps_what_tools_agree_on(strategy: str, tmp_path: Path) -> None:
    found, rows = merged(tmp_path, "--strategy", strategy)
    assert [each["text"] for each in rows[0]["concerns"]] == ["No control."]
    assert found["n_outvoted"] == 1
