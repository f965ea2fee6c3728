"""Who gave rows: the record that goes along with them, that goes with them, and how a table says it."""

from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig
from evals.review.page import COLUMNS, hand_on, made_by, made_rows, record_beside
from evals.schema.reviews import MadeBy
from lab.cli import app

OWN = '{"article_id": "s:1", "concerns": ["There is no control arm."]}\n'
RECORD = Path(__file__).parents[3] / "training/embedded/review/reports/held-out.run.json"


def rows_with_record(file: Path) -> Path:
    """Return a file of rows whose record says that the embedded reviewer answered."""
    file.write_text(OWN, encoding="utf-8")
    record_beside(file).write_text(RECORD.read_text(encoding="utf-8"), encoding="utf-8")
    return file


def test_rows_made_of_others_take_their_record_along(tmp_path: Path):
    rows = rows_with_record(tmp_path / "rows.jsonl")
    assert hand_on(rows, tmp_path / "clean.jsonl")
    assert made_by(tmp_path / "clean.jsonl") == made_by(rows) is not None


def test_rows_of_nobody_known_are_not_given_the_record_of_rows_that_stood_there(tmp_path: Path):
    old = rows_with_record(tmp_path / "clean.jsonl")
    assert not hand_on(tmp_path / "rows.jsonl", old)
    assert made_by(old) is None


@pytest.mark.parametrize(
    "command",
    [
        ["clean", "own.jsonl"],
        ["parse", "raw.jsonl"],
        ["ensemble", "own.jsonl", "other.jsonl", "--encoder", "lexical", "--threshold", "0.5"],
    ],
    ids=lambda command: command[0],
)
def test_every_command_that_writes_rows_anew_removes_the_older_record(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("own.jsonl", "other.jsonl"):
        (tmp_path / name).write_text(OWN, encoding="utf-8")
    (tmp_path / "raw.jsonl").write_text('{"id": "s:1", "raw": "[]"}\n', encoding="utf-8")
    out = rows_with_record(tmp_path / "out.jsonl")
    done = CliRunner().invoke(app, ["review", *command, "--out", str(out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert not record_beside(out).exists()


OTHER = ["ensemble", "own.jsonl", "other.jsonl", "--encoder", "lexical", "--threshold", "0.5"]


@pytest.mark.parametrize("out", ["own.json", "own.jsonl.bak", "own.txt"])
@pytest.mark.parametrize("command", [["clean", "own.jsonl"], OTHER], ids=lambda each: each[0])
def test_rows_written_beside_others_of_the_same_stem_leave_their_record_alone(
    command: list[str], out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    own = rows_with_record(tmp_path / "own.jsonl")
    (tmp_path / "other.jsonl").write_text(OWN, encoding="utf-8")
    CliRunner().invoke(app, ["review", *command, "--out", out], catch_exceptions=False)
    assert (tmp_path / out).is_file()
    assert record_beside(own).read_bytes() == RECORD.read_bytes()
    kept = record_beside(tmp_path / out)
    assert kept.exists() == (command[0] == "clean") and kept != record_beside(own)


@pytest.mark.parametrize("out", ["own.run.json", "own"])
@pytest.mark.parametrize(
    "command",
    [
        ["parse", "own.jsonl"],
        ["clean", "own.jsonl"],
        OTHER,
        ["score", "--reference", "other.jsonl", "--predictions", "own.jsonl"],
    ],
    ids=lambda each: each[0],
)
def test_rows_that_would_take_the_place_of_a_record_are_refused_and_nothing_is_written(
    command: list[str], out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    own = rows_with_record(tmp_path / "own.jsonl")
    (tmp_path / "other.jsonl").write_text(OWN, encoding="utf-8")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(BadConfig, match=r"take the place of own.run.json, .* of own.jsonl came about"):
        CliRunner().invoke(app, ["review", *command, "--out", out], catch_exceptions=False)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert made_by(own) is not None


@pytest.mark.parametrize(
    ("setting", "value", "shown"),
    [
        ("seed", 20261121, "seed 20261121"),
        ("seed", 2**60 + 1, f"seed {2**60 + 1}"),
        ("temperature", 0.0, "temperature 0"),
        ("temperature", 1.0, "temperature 1"),
        ("top_p", 0.9, "top_p 0.9"),
        ("repetition_penalty", 1.05, "repetition_penalty 1.05"),
        ("constrain", "auto", ""),
    ],
)
def test_a_table_shows_settings_as_they_were_given(setting: str, value: float | str, shown: str):
    made = MadeBy(
        kind="chain",
        name="review",
        settings={setting: value},
        constraint="array schema",
        prompt_version="review-1",
        checksums={},
        date=date(2026, 11, 21),
    )
    (row,) = made_rows([("mine", made)])
    assert row[COLUMNS.index("settings")] == shown
