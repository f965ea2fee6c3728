"""Rows from a JSONL file: one JSON object per line, all of them right or none taken."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from evals.errors import BadRow, LabError

Row = TypeVar("Row", bound=BaseModel)

SHOWN = 80
"""Characters of a bad value that a message shows."""
NAMED = 20
"""So many further bad rows a message names, each with its line and field; it counts the rest."""


def read_rows(
    path: Path, record: type[Row], key: Callable[[Row], str] | None = None, otherwise: str = ""
) -> list[Row]:
    """Return the rows of a JSONL file as records; blank lines are skipped.

    `key` gives what must differ between rows, such as their id. BadRow names the first bad line and
    its field, a key that an object holds twice among them, and line and field of others; LabError
    for a file that is missing, is not UTF-8 or holds no row. `otherwise` tells, where there is no
    row, how else to come by one: "write some with `assay data kmp --out DIR`".
    """
    rows: list[Row] = []
    seen: dict[str, int] = {}
    bad: list[BadRow] = []
    for number, line in enumerate(read_text(path, otherwise).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = _row(path, number, line, record)
            if key is not None:
                _check_unique(path, number, key(row), seen)
        except BadRow as error:
            bad.append(error)
        else:
            rows.append(row)
    if bad:
        raise first_of(bad)
    if not rows:
        raise LabError(
            _or(f"{path} holds no rows; it should have one JSON object per line", otherwise)
        )
    return rows


def _row(path: Path, number: int, line: str, record: type[Row]) -> Row:
    try:
        row = record.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "(whole line)"
        shown = repr(first["input"])
        shown = shown if len(shown) <= SHOWN else shown[: SHOWN - 3] + "..."
        problem = first["msg"].removeprefix(
            "Value error, "
        )  # pydantic's word for our own sentences
        raise BadRow(path, number, field, f"{problem}, seen {shown}") from None
    for key in repeated_keys(line):
        raise BadRow(path, number, key, "the key stands more than once in one object")
    return row


def repeated_keys(line: str) -> list[str]:
    """Return the keys that one object of a line of JSON holds more than once."""
    found: list[str] = []

    def note(pairs: list[tuple[str, object]]) -> None:
        found.extend(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)

    json.loads(line, object_pairs_hook=note)
    return found


def _check_unique(path: Path, number: int, key: str, seen: dict[str, int]) -> None:
    if key in seen:
        raise BadRow(path, number, "id", f"{key!r} was used in line {seen[key]}; ids are unique")
    seen[key] = number


def read_text(path: Path, otherwise: str = "") -> str:
    """Return a UTF-8 file, with or without a byte order mark; LabError if it cannot be read as one."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        missing = f"there is no file {path}; name a JSONL file, one object per line"
        raise LabError(_or(missing, otherwise)) from None
    except IsADirectoryError:
        raise LabError(f"{path} is a folder; name a JSONL file in it") from None
    except UnicodeDecodeError as error:
        raise LabError(f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8") from None


def _or(problem: str, otherwise: str) -> str:
    return f"{problem}, or {otherwise}" if otherwise else problem


def first_of(bad: list[BadRow]) -> BadRow:
    """Return the first of the bad rows, its message naming line and field of the others."""
    first, others = bad[0], bad[1:]
    if others:
        named = "; ".join(f"line {error.line}, field {error.field!r}" for error in others[:NAMED])
        more = f"; and {len(others) - NAMED} further" if len(others) > NAMED else ""
        noun = "row" if len(others) == 1 else "rows"
        first.args = (f"{first} ({len(others)} more bad {noun}: {named}{more})",)
    return first
