"""What a folder's rows are, told by their columns: answers that were judged, concerns, conversations, pairs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pydantic import Field, ValidationError

from evals.schema.record import Record
from evals.schema.reports import EvalReport

KINDS = Path(__file__).parent / "templates" / "rows.yaml"
REPORT_KEYS = ("data_sha256", "chain_name", "rows", "summaries")
Row = Mapping[str, Any]


class RowKind(Record):
    """A kind of rows: the columns it is known by, what is counted of it, and what its card says.

    A path such as `concerns[].severity` is a column of each element; `a|b` is the first that is there, `a+b`
    both together.
    """

    needs: tuple[str, ...]
    title: str
    summary: str
    tags: tuple[str, ...]
    task: str
    distinct: dict[str, str]
    count_by: dict[str, str]
    made: str
    personal: str
    licensing: str
    guidelines: str | None = None
    columns: dict[str, str]
    inner: dict[str, dict[str, str]] = Field(default_factory=dict)


def kinds() -> dict[str, RowKind]:
    """Return every kind that a card can be written for, by name."""
    told = yaml.safe_load(KINDS.read_text(encoding="utf-8"))
    return {name: RowKind.model_validate(each) for name, each in told.items()}


def kind_of(rows: Iterable[Row]) -> str | None:
    """Return the one kind that all rows are of; None if they are of none, of several, or there are none."""
    known = kinds()
    found = {_kind_of_row(row, known) for row in rows}
    return found.pop() if len(found) == 1 else None


def rows_of(file: Path) -> Iterator[Row]:
    """Yield the rows of a JSONL or parquet file in full.

    ValueError or pyarrow's error for a file that cannot be read.
    """
    if file.suffix == ".parquet":
        with pq.ParquetFile(file) as table:
            for batch in table.iter_batches():
                yield from batch.to_pylist()
        return
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"line {number} is no JSON object")
                yield row


def report_of(file: Path) -> EvalReport | None:
    """Return the report that `assay eval run` wrote into a JSON file; None if it is anything else."""
    try:
        known = json.loads(file.read_bytes())
        if not isinstance(known, dict) or any(key not in known for key in REPORT_KEYS):
            return None
        return EvalReport.model_validate(known)
    except (ValueError, ValidationError):
        return None


def values(row: Row, path: str) -> list[Any]:
    """Return what stands under a path in a row, one value for each element; none where it is missing."""
    if "+" in path:
        found = [values(row, each) for each in path.split("+")]
        return [", ".join(str(value) for each in found for value in each)] if all(found) else []
    for each in path.split("|"):
        found = _values([row], each.split("."))
        if found:
            return found
    return []


def _values(rows: Iterable[Any], steps: list[str]) -> list[Any]:
    step, *later = steps
    name = step.removesuffix("[]")
    found = [row[name] for row in rows if isinstance(row, dict) and name in row]
    if step.endswith("[]"):
        found = [part for each in found if isinstance(each, list) for part in each]
        # An element without the column still counts: it is one whose label is not given.
        if later:
            found = [part if isinstance(part, dict) else {} for part in found]
            return [part.get(later[0]) for part in found]
    return _values(found, later) if later else found


def _kind_of_row(row: Row, known: Mapping[str, RowKind]) -> str | None:
    for name, kind in known.items():
        if all(column in row for column in kind.needs):
            is_list = name != "concerns" or isinstance(row["concerns"], list)
            is_named = name != "concerns" or bool(row.get("article_id") or row.get("id"))
            return name if is_list and is_named else None
    return None


UNREADABLE = (ValueError, OSError, pa.ArrowException)
"""What reading rows raises where a file is not what its name says."""
