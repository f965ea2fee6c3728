"""Files: JSONL whole, every bad row named; text as a reader sees it; tables as spreadsheets save them; what unpacks to too much."""

import csv
import io
import re
import time
from itertools import pairwise
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from evals import worker
from evals.errors import BadConfig, BadRow, CannotWrite, LabError, UnreadableArticle
from evals.io import Cache, NoRow, notice_text, read_rows, write_folder
from evals.papers import read_article
from evals.papers.pdf import MOST_CHARACTERS
from evals.questions.sets import plain_rows
from evals.review.parse import parse
from evals.schema import Message, NumberTruth
from evals.tables import MOST_ROWS, escape_formula, parquet_rows, read_table, table_text, unescape_formula
from evals.verifiers import verify_answer
from evals.wording import plain
from tests.evals.pdfs import Put, pdf
from tests.evals.reports import TABLES

GOOD = '{"role": "user", "content": "a"}'


def refused(path: Path, text: str) -> BadRow:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadRow) as caught:
        read_rows(path, Message)
    return caught.value


def test_rows_come_back_in_order_without_blank_lines_or_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    other = GOOD.replace('"a"', '"b"')
    path.write_text(f"\ufeff{GOOD}\n\n  \n{other}\n", encoding="utf-8")
    assert [row.content for row in read_rows(path, Message)] == ["a", "b"]


def test_every_bad_row_is_named_by_file_line_and_field_and_of_very_many_the_rest_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    bad = TABLES["rows: lines that do not fit, and the field that is named"]
    for line, field in bad.items():
        error = refused(path, f"{GOOD}\n{line}\n{GOOD}\n{line}\n")
        assert (error.line, error.field) == (2, field), line
        assert str(path) in str(error) and f"(1 more bad row: line 4, field {field!r})" in str(error)
    assert "more than once" in str(error)
    each = str(refused(path, "\n".join(('{"role": "user"}', GOOD, '{"role": "robot", "content": "a"}', "[]"))))
    assert each.endswith("(2 more bad rows: line 3, field 'role'; line 4, field '(whole line)')")
    assert "line 21, field '(whole line)'; and 3 further)" in str(refused(path, "[]\n" * 24))
    assert refused(path, f'{GOOD}\n{{"role": "user", "role": 1}}\n').line == 2
    path.write_text(f"{GOOD}\n{GOOD}\n", encoding="utf-8")
    with pytest.raises(BadRow, match="used in line 1"):
        read_rows(path, Message, key=lambda row: row.content)


def test_what_holds_no_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    contents = ((None, "no file"), (b"", "no rows"), (b"\n\n", "no rows"), (b"\xb5", "not UTF-8 at byte 0"))
    for content, says in contents:
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(LabError, match=says):
            read_rows(path, Message)
    with pytest.raises(LabError, match="is a folder"):
        read_rows(tmp_path, Message)


def test_text_is_what_a_reader_sees_and_every_letter_leads_back_to_where_it_stood() -> None:
    seen = TABLES["text as a reader sees it"]
    assert {text: plain(text).text for text in seen} == seen
    for text in ("plain", "**a** b", "αβ x", "ﬁne  words", "x\u200by", "a × b", "**", "`c`\n- _d_"):
        page = plain(text + " END")
        assert page.origin(page.text.index("end")) == len(text) + 1, text


def test_processes_share_a_cache_and_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    ours, theirs = (Cache(tmp_path / "folder" / "kept.sqlite") for _ in range(2))
    ours.put({"a": b"1", "b": b"2"})
    theirs.put({"b": "é".encode()})
    assert ours.get(["a", "b", "c"]) == {"a": b"1", "b": "é".encode()}
    (tmp_path / "other").write_text("no database " * 100)
    with pytest.raises(LabError, match=r"the cache .*other cannot be used .*; delete the file"):
        Cache(tmp_path / "other").get(["a"])


def test_the_licence_is_found_beside_what_building_assay_left_in_a_clone(tmp_path, monkeypatch):
    (left := tmp_path / "assay.egg-info").mkdir()
    (left / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: assay\nVersion: 0.1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "Apache License" in notice_text("LICENSE")
    with pytest.raises(LabError, match=r"lacks its file NOTICE"):
        notice_text("NOTICE")


# ---- tables ---------------------------------------------------------------------------------------


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


# ---- files that unpack to more than a machine has -------------------------------------------------


def spin(send):
    send(1)
    while True:
        pass


def swell(send):
    send(bytearray(6_000_000))
    send(bytearray(6_000_000))


def take(send):
    send(len(bytearray(worker.MEMORY)))


def fail(send):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("read", "seconds", "said"),
    [
        (spin, 1, "a.bin takes more than 1 seconds to read, or its file more than 600. Give a smaller file"),
        (swell, 60, "a.bin unpacks to more than 0.01 GB"),
        (take, 60, "a.bin needs more than 1 GB of memory to be read"),
    ],
)
def test_a_reader_is_ended_at_the_limit_that_it_comes_to(read, seconds, said, monkeypatch):
    for name, value in {"SECONDS": seconds, "MOST_READ": 10**7, "MEMORY": 2**30}.items():
        monkeypatch.setattr(worker, name, value)
    with pytest.raises(LabError, match=said):
        list(worker.read_apart(read, what=lambda: "a.bin", error=LabError))


def test_a_fault_of_a_reader_is_shown_with_its_place():
    with pytest.raises(RuntimeError, match=r"in fail(.|\n)*ZeroDivisionError"):
        list(worker.read_apart(fail, what=lambda: "a.bin", error=LabError))


def test_papers_and_tables_that_unpack_to_more_than_is_read_are_refused_in_words(tmp_path):
    page = [Put(50, 800 - n / 3, f"{n:04}, " * 17, 4) for n in range(MOST_CHARACTERS // 100 + 5)]
    with pytest.raises(UnreadableArticle, match=r"page 2 of a\.pdf has 204,510 characters; up to 200,000 are read"):
        read_article(pdf([page[:3], page]), "a.pdf")
    with pytest.raises(LabError, match=r"far-corner\.xlsx needs more than 4 GB of memory to be read"):
        read_table(Path(__file__).parent / "files/sheets/far-corner.xlsx")  # its last cell is XFD1048576
    rows = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": pyarrow.repeat("same", MOST_ROWS + 1)}), rows)
    with pytest.raises(BadConfig, match=r"a\.parquet has 5,000,001 rows; up to 5,000,000 are read"):
        next(parquet_rows(rows))


def test_lists_deep_in_each_other_are_refused_in_words(tmp_path):
    depth = 100_000
    for name, text in {
        "a.jsonl": "[" * depth,
        "a.json": f'[{{"id": {"[" * depth}',
        "a.yaml": "- a: " + "[" * 5000,
    }.items():
        file = tmp_path / name
        file.write_text(text)
        try:
            (fault,) = plain_rows(file)[1]
        except LabError as error:
            assert "nested too deeply" in str(error), name
        else:
            assert "nested too deeply" in fault.problem, name
    lines = (f"{name}: &{name} [{(',*' + last) * 9}]".replace("[,", "[") for last, name in pairwise("abcdefghij"))
    laughs = "\n".join(lines)
    article = read_article(f"---\na: &a [lol]\n{laughs}\ntitle: *j\n---\n# Moss\n\nIt grows.".encode(), "a.md")
    assert article.title == "Moss"


def test_long_repetitions_of_a_model_or_a_paper_are_read_in_time_that_grows_with_their_length():
    started = time.process_time()
    deep = parse("a", '{"a":[' * 5_000)
    assert deep.status == "failed" and not deep.concerns
    numbers = NumberTruth(kind="number", value=3.2, unit="mg")
    for text in ("12-" * 10_000, "1 " * 10_000, f"Answer: {'- ' * 10_000}"):
        assert verify_answer(numbers, "How much is it?", text).verdict != "correct"
    assert len(read_article(b"a\n\n" * 20_000, "a.txt").sections[0].text) > 59_000
    assert time.process_time() - started < 30  # 2 on a free core; minutes before


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),  # of safetensors
    ],
)
def test_a_folder_for_which_there_is_no_room_is_told_in_one_line_and_nothing_is_left(tmp_path, error):
    with pytest.raises(CannotWrite, match=r"out: No space left on device; make room"), write_folder(tmp_path / "out"):
        raise error
    assert list(tmp_path.iterdir()) == []
