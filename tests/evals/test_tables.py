"""Tables are read as spreadsheets save them, and what leaves as a table comes back unchanged."""

import csv
import io
import re
from pathlib import Path

import pytest

from evals.errors import BadConfig, LabError
from evals.io import NoRow
from evals.tables import escape_formula, read_table, table_text, unescape_formula
from tests.evals.reports import TABLES

SHEETS = Path(__file__).parent / "files/sheets"
READ = [(2, {"name": "µ β", "n": "2", "ok": "TRUE", "on": "2026-09-02"}), (4, {"n": "0.1", "on": " y"})]


@pytest.mark.parametrize("end", ["xlsx", "ods"])
def test_sheets_read_as_the_csv_that_a_spreadsheet_would_save_with_the_numbers_of_its_rows(end, tmp_path):
    file = SHEETS / f"two-sheets.{end}"
    first = read_table(file)
    assert (first.rows, read_table(file, "R & D").rows) == (READ, [(2, {"q": "z"})])
    assert "'R & D'" in first.note
    with pytest.raises(BadConfig, match="no sheet 'Three'; it has First, R & D"):
        read_table(file, "Three")
    (tmp_path / f"t.{end}").write_text("no spreadsheet")
    with pytest.raises(LabError, match=f"t.{end} cannot be read as a spreadsheet"):
        read_table(tmp_path / f"t.{end}")


def test_separators_marks_and_line_ends_are_found_without_being_told(tmp_path):
    file, found = tmp_path / "t.csv", {}
    for name, text, _ in TABLES["tables: texts"]:
        file.write_bytes(text.encode("utf-8-sig"))
        found[name] = [[line, *row.values()] for line, row in read_table(file).rows]
    assert found == {name: rows for name, _, rows in TABLES["tables: texts"]}
    file.write_text("a,b\n1,x\n2,y,z\n")
    assert read_table(file).rows[1:] == [(3, NoRow("has 3 cells, the first line has 2 columns"))]
    file.write_text('a,b\n1,"x"y\n')
    with pytest.raises(LabError, match=r"t\.csv, line 2: no CSV"):
        read_table(file)


QUIZ = "Frage;A;B;Antwort\r\nWer beschrieb den Löffler-Nährboden?;Löffler;Koch;A\r\nWie groß, in µm, bei 37 °C?;0,2;2,0;B\r\n"
EXPORTS = {
    "Excel, CSV": (QUIZ.encode("cp1252"), (2, 3), r"Windows-1252: Löffler-Nährboden, Löffler, groß, µm, °C\. Right\?"),
    "Excel, CSV UTF-8": (QUIZ.encode("utf-8-sig"), (2, 3), "^$"),
    "Excel, Unicode text": (QUIZ.replace(";", "\t").encode("utf-16"), (2, 3), "^$"),
    "Excel, sep=": (f"sep=;\r\n{QUIZ}".encode("cp1252"), (3, 4), "Windows-1252"),
    "LibreOffice": (re.sub(r"[^;\r\n]+", r'"\g<0>"', QUIZ).replace(";", ",").replace("\r", "").encode(), (2, 3), "^$"),
    "Google Sheets": (QUIZ.replace(",", ".").replace(";", ",").replace("\r", "").encode(), (2, 3), "^$"),
    "a title above": (f"Mikrobiologie;;;\r\n;;;\r\n{QUIZ}".encode("utf-8-sig"), (4, 5), "named in line 3"),
    "merged cells": (QUIZ.replace("A;B;Antwort", "Optionen;;Antwort\r\n;A;B;", 1).encode(), (3, 4), "^$"),
    "empty columns": (QUIZ.replace("\r\n", ";;\r\n").encode(), (2, 3), "^$"),
}  # fmt: skip


@pytest.mark.parametrize("by", EXPORTS)
def test_a_sheet_is_read_as_programs_save_it(by, tmp_path):
    data, lines, note = EXPORTS[by]
    (file := tmp_path / "t.txt").write_bytes(data)
    read = read_table(file)
    (first, row), (second, other) = read.rows
    assert ((first, second), row["A"], [other[name].replace(",", ".") for name in ("A", "B", "Antwort")]) == (
        lines, "Löffler", ["0.2", "2.0", "B"],
    )  # fmt: skip
    assert re.search(note, read.note)


def test_damaged_utf_8_is_not_taken_for_windows_1252(tmp_path):
    (file := tmp_path / "t.csv").write_bytes(QUIZ.encode() + b"\xe4;a;b;A\r\n")
    with pytest.raises(LabError, match="not UTF-8"):
        read_table(file)


def test_a_table_without_names_takes_those_of_its_layout(tmp_path):
    columns = ("question", "A", "B", "answer")
    (tmp_path / "t.csv").write_text("Why?,x,b,B\n")
    ((_, row),) = read_table(tmp_path / "t.csv", columns=columns).rows
    assert [*row.values()] == ["Why?", "x", "b", "B"]
    (tmp_path / "t.csv").write_text("answer,B,A,Question\nB,b,x,Why?\n")
    assert read_table(tmp_path / "t.csv", columns=columns).columns == ("answer", "B", "A", "Question")


def test_what_leaves_as_a_table_is_no_formula_in_excel_and_comes_back_from_it(tmp_path: Path):
    cells = ["=1+1", "+up", "-2.53", "@x", "\tx", "'=x", "'quoted'", "µ ≥ β; a, b", 'say "so"', "two\nlines", " x "]
    text = table_text(["cell", "n"], [{"cell": cell, "n": -1.5} for cell in cells])
    assert text.startswith("\ufeffcell,n\r\n") and ",-1.5\r\n" in text
    (tmp_path / "ours.csv").write_text(text, encoding="utf-8", newline="")
    rows = [[cell, "-1.5"] for cell in map(escape_formula, cells)]
    assert not [cell for cell, _ in rows if cell.startswith(("=", "+", "-", "@", "\t"))]
    assert [list(row.values()) for _, row in read_table(tmp_path / "ours.csv").rows] == rows
    saved = io.StringIO(newline="")  # as Excel saves it where commas stand in numbers
    csv.writer(saved, delimiter=";").writerows([["cell", "n"], *rows])
    (tmp_path / "saved.csv").write_text(saved.getvalue(), encoding="utf-8-sig", newline="")
    assert [unescape_formula(row["cell"]) for _, row in read_table(tmp_path / "saved.csv").rows] == cells
