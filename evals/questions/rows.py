"""Examples on disk: one JSON object per line, read back whole or not at all."""

import hashlib
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from evals.errors import BadRow, LabError
from evals.schema import Example


def data_sha256(examples: Iterable[Example]) -> str:
    """Return a checksum of what the examples say; their order does not matter."""
    lines = sorted(_line(example) for example in examples)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def read_examples(path: Path) -> tuple[Example, ...]:
    """Return the examples of a JSONL file; blank lines are skipped.

    BadRow names the first bad line and its field and says how many more are bad. LabError when
    the file is missing, is not UTF-8 or holds no row at all.
    """
    examples: list[Example] = []
    seen: dict[str, int] = {}
    bad: list[BadRow] = []
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            example = _example(path, number, line)
            if example.id in seen:
                problem = f"{example.id!r} was used in line {seen[example.id]}; ids are unique"
                raise BadRow(path, number, "id", problem)
        except BadRow as error:
            bad.append(error)
            continue
        seen[example.id] = number
        examples.append(example)
    if bad:
        raise _first_of(bad)
    if not examples:
        raise LabError(f"{path} holds no rows; write some with `assay data kmp --out DIR`")
    return tuple(examples)


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """Write examples as JSONL, whole or not at all."""
    write_whole(path, as_jsonl(examples))


def as_jsonl(examples: Iterable[Example]) -> str:
    """Return examples as the text of a JSONL file, keys sorted, so equal rows are equal bytes."""
    return "".join(_line(example) + "\n" for example in examples)


def write_whole(path: Path, text: str) -> None:
    """Write a text file beside its place and rename it there; LabError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".writing-") as folder:
            temporary = Path(folder) / path.name
            temporary.write_text(text, encoding="utf-8", newline="")
            temporary.replace(path)
    except OSError as error:
        raise LabError(
            f"cannot write {path}: {error.strerror}; name a folder that you may write to"
        ) from error


def _line(example: Example) -> str:
    return json.dumps(example.model_dump(mode="json"), ensure_ascii=False, sort_keys=True)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise LabError(
            f"there is no file {path}; name a JSONL file of examples, or write one with"
            " `assay data kmp --out DIR`"
        ) from None
    except IsADirectoryError:
        raise LabError(f"{path} is a folder; name a JSONL file in it, such as test.jsonl") from None
    except UnicodeDecodeError as error:
        raise LabError(f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8") from None


def _example(path: Path, number: int, line: str) -> Example:
    """Return one row; BadRow names the first field that is wrong."""
    try:
        return Example.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "(whole line)"
        raise BadRow(
            path, number, field, f"{first['msg']}, seen {_shown(first['input'])}"
        ) from None


def _shown(value: object) -> str:
    """Return a value as messages show it, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _first_of(bad: list[BadRow]) -> BadRow:
    """Return the first bad row, its message counting the others."""
    first = bad[0]
    if len(bad) > 1:
        lines = ", ".join(str(error.line) for error in bad[1:6])
        more = f" and {len(bad) - 6} further" if len(bad) > 6 else ""
        first.args = (f"{first} ({len(bad) - 1} more bad rows: line {lines}{more})",)
    return first
