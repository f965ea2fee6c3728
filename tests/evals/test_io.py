"""JSONL files are read whole, and every bad row is named; text is what a reader sees, each letter with its place."""

from pathlib import Path

import pytest

from evals.errors import BadRow, LabError
from evals.io import Cache, notice_text, read_rows
from evals.schema import Message
from evals.wording import plain
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
