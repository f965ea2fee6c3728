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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with rows of one's own under a record, other rows without one, and raw answers."""
    monkeypatch.chdir(tmp_path)
    rows_with_record(tmp_path / "own.jsonl")
    (tmp_path / "other.jsonl").write_text(OWN, encoding="utf-8")
    (tmp_path / "raw.jsonl").write_text('{"id": "s:1", "raw": "[]"}\n', encoding="utf-8")
    return tmp_path


def review(*command: str) -> None:
    done = CliRunner().invoke(app, ["review", *command], catch_exceptions=False)
    assert done.exit_code == 0, done.output


MERGE = ("ensemble", "own.jsonl", "other.jsonl", "--encoder", "lexical", "--threshold", "0.5")


@pytest.mark.parametrize("command", [("clean", "other.jsonl"), ("parse", "raw.jsonl"), MERGE], ids=lambda each: each[0])
def test_every_command_that_writes_rows_anew_removes_the_older_record(command: tuple[str, ...], folder: Path):
    out = rows_with_record(folder / "out.jsonl")
    review(*command, "--out", str(out))
    assert not record_beside(out).exists()


@pytest.mark.parametrize("out", ["own.json", "own.jsonl.bak", "own.txt"])
def test_rows_written_beside_others_of_the_same_stem_leave_their_record_alone(out: str, folder: Path):
    for command in (("clean", "own.jsonl"), MERGE):
        review(*command, "--out", out)
        assert record_beside(folder / "own.jsonl").read_bytes() == RECORD.read_bytes()
        kept = record_beside(folder / out)
        assert kept.exists() == (command[0] == "clean") and kept != record_beside(folder / "own.jsonl")


SCORE = ("score", "--reference", "other.jsonl", "--predictions", "own.jsonl")


@pytest.mark.parametrize(
    "command", [("parse", "own.jsonl"), ("clean", "own.jsonl"), MERGE, SCORE], ids=lambda each: each[0]
)
def test_rows_that_would_take_the_place_of_a_record_are_refused_and_nothing_is_written(
    command: tuple[str, ...], folder: Path
):
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for out in ("own.run.json", "own"):
        with pytest.raises(BadConfig, match=r"take the place of own.run.json, .* of own.jsonl came about"):
            review(*command, "--out", out)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


SETTINGS = {
    "seed": (20261121, 2**60 + 1),
    "temperature": (0.0, 1.0),
    "top_p": (0.9,),
    "repetition_penalty": (1.05,),
    "constrain": ("auto",),
}


def test_a_table_shows_settings_as_they_were_given():
    shown = []
    for setting, values in SETTINGS.items():
        for value in values:
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
            shown.append(row[COLUMNS.index("settings")])
    assert shown == [
        *("seed 20261121", f"seed {2**60 + 1}", "temperature 0", "temperature 1", "top_p 0.9"),
        *("repetition_penalty 1.05", ""),
    ]
