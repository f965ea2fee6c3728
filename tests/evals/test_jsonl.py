from pathlib import Path

import pytest

from evals.errors import BadRow, LabError
from evals.io import read_rows
from evals.schema import Message

GOOD = '{"role": "user", "content": "a"}'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_come_back_in_order_without_blank_lines(tmp_path: Path) -> None:
    other = GOOD.replace('"a"', '"b"')
    rows = read_rows(written(tmp_path, f"{GOOD}\n\n  \n{other}\n"), Message)
    assert [row.content for row in rows] == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('{"role": "user"}', "content"),
        ('{"role": "robot", "content": "a"}', "role"),
        ('{"role": "user", "content": "a", "extra": 1}', "extra"),
        ("not json", "(whole line)"),
        ("[]", "(whole line)"),
    ],
)
def test_a_bad_row_is_named_by_file_line_and_field(line: str, field: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{GOOD}\n{line}\n{GOOD}\n{line}\n")
    with pytest.raises(BadRow) as caught:
        read_rows(path, Message)
    assert (caught.value.line, caught.value.field) == (2, field)
    assert str(path) in str(caught.value)
    assert f"(1 more bad row: line 4, field {field!r})" in str(caught.value)


def test_each_bad_row_is_named_with_its_own_line_and_field(tmp_path: Path) -> None:
    lines = ('{"role": "user"}', GOOD, '{"role": "robot", "content": "a"}', "[]")
    with pytest.raises(BadRow) as caught:
        read_rows(written(tmp_path, "\n".join(lines)), Message)
    assert str(caught.value).endswith("(2 more bad rows: line 3, field 'role'; line 4, field '(whole line)')")


def test_of_very_many_bad_rows_the_rest_is_counted(tmp_path: Path) -> None:
    with pytest.raises(BadRow) as caught:
        read_rows(written(tmp_path, "[]\n" * 24), Message)
    assert "line 21, field '(whole line)'; and 3 further)" in str(caught.value)


@pytest.mark.parametrize("line", ['{"role": "user", "content": "a", "content": "b"}', '{"role": "user", "role": 1}'])
def test_a_key_that_stands_twice_is_refused_by_line(line: str, tmp_path: Path) -> None:
    with pytest.raises(BadRow) as caught:
        read_rows(written(tmp_path, f"{GOOD}\n{line}\n"), Message)
    assert caught.value.line == 2


def test_the_message_on_a_key_that_stands_twice_names_it(tmp_path: Path) -> None:
    line = GOOD.replace("}", ', "content": "b"}')
    with pytest.raises(BadRow, match=r"content.*more than once") as caught:
        read_rows(written(tmp_path, line), Message)
    assert caught.value.field == "content"


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(f"\ufeff{GOOD}\n".encode())
    assert [row.content for row in read_rows(path, Message)] == ["a"]


def test_two_rows_with_one_key_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRow, match="used in line 1"):
        read_rows(written(tmp_path, f"{GOOD}\n{GOOD}\n"), Message, key=lambda row: row.content)


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_file_without_rows_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no rows"):
        read_rows(written(tmp_path, text), Message)


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no file"):
        read_rows(tmp_path / "missing.jsonl", Message)
    with pytest.raises(LabError, match="is a folder"):
        read_rows(tmp_path, Message)
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(LabError, match="UTF-8"):
        read_rows(path, Message)
