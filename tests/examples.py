"""Questions as files of whole examples, as `assay data kmp` writes them."""

from collections.abc import Iterable
from pathlib import Path

from evals.io import as_jsonl, read_rows, write_whole
from evals.schema import Example


def read_examples(path: Path) -> tuple[Example, ...]:
    """Return the examples of a JSONL file, whose ids differ."""
    return tuple(read_rows(path, Example, lambda row: row.id))


def write_examples(path: Path, examples: Iterable[Example]) -> None:
    """Write examples as JSONL, whole or not at all."""
    write_whole(path, as_jsonl(examples))
