"""Examples on disk: one JSON object per line, read back whole or not at all."""

import hashlib
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from evals.errors import LabError
from evals.jsonl import read_rows
from evals.schema import Example


def data_sha256(examples: Iterable[Example]) -> str:
    """Return a checksum of what the examples say; their order does not matter."""
    lines = sorted(_line(example) for example in examples)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def read_examples(path: Path) -> tuple[Example, ...]:
    """Return the examples of a JSONL file; blank lines are skipped.

    BadRow names the first bad line and its field and says how many more are bad; an id stands
    once. LabError when the file is missing, is not UTF-8 or holds no row at all.
    """
    otherwise = "write some with `assay data kmp --out DIR`"
    return tuple(read_rows(path, Example, key=lambda row: row.id, otherwise=otherwise))


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
