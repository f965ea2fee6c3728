"""Rows as people have them: JSON, JSONL, CSV, TSV and Parquet files and data sets of the Hub, each row with its line."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from datasets import load_dataset, load_dataset_builder
from datasets.utils.metadata import MetadataConfigs

from evals import tables
from evals.errors import BadConfig, BadRow
from evals.io import NoRow, first_of, read_text, rows_in_text, short_repr
from evals.questions.sets import hub_parts
from evals.tables import ROWS_AT_ONCE, TABLES, parquet_rows

SUFFIXES = (".json", ".jsonl", *TABLES, ".parquet")
SOURCE = re.compile(r"(?P<name>.+?)(?:\[(?P<part>[\w-]*)(?::(?P<count>[1-9]\d*))?\])?")
"""A file or hub:owner/name, with [PART], [:COUNT] or [PART:COUNT] behind it."""
SPLITS = re.compile(
    r"(?:(?P<train>train)|(?P<dev>dev|val|valid|validation|eval)|(?P<test>test))(?:[_-].*)?", re.IGNORECASE
)
"""What a column `split`, or a split of the Hub, may be called."""
PLACE = re.compile(r"[.]\d+")
"""The number of a turn in the name of a field."""
COMMON_NAMES = ("train", "data")
"""Names of files that are told apart by their folders."""

DataRow = Mapping[str, Any]
Item = TypeVar("Item")


@dataclass(frozen=True)
class SourceRows:
    """Rows of a source by line (Parquet and Hub: by number), what is wrong with lines that are no rows, what is left out."""

    name: str
    """The source without folders of this machine."""
    rows: tuple[tuple[int, DataRow], ...]
    bad: tuple[BadRow, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


def is_table(source: str) -> bool:
    """Return whether a source is, by its name, a file of rows or a data set of the Hub."""
    name, _, _ = _source_parts(source)
    return name.startswith("hub:") or Path(name).suffix in SUFFIXES


def first_row(source: str) -> DataRow:
    """Return the first row of a source, an empty one if there is none that can be read."""
    return next((row for _, _, row in _rows(_source_parts(source)[0]) if not isinstance(row, NoRow)), {})


def read_table(source: str, otherwise: str = "") -> SourceRows:
    """Return the training rows of a source, or those of the part that it names; `otherwise` as in `read_text`.

    A column `split`, or the split of the Hub, says what part a row belongs to; the others are for training. Without
    [PART] rows for dev and test are left out and counted. BadConfig for test rows by name, or where no row is left.
    """
    name, part, count = _source_parts(source)
    if (match := SPLITS.fullmatch(part)) and match["test"]:
        raise BadConfig(f"{source} names {_KEPT}. Use [train] or [dev].")
    rows: list[tuple[int, DataRow]] = []
    bad: list[BadRow] = []
    seen: Counter[str] = Counter()
    for line, split, row in _rows(name, otherwise):
        if isinstance(row, NoRow):
            bad.append(BadRow(name, line, row.field, row.problem))
            continue
        kinds = {_kind(split), _kind(row.get("split"))}
        kind = "test" if "test" in kinds else "dev" if "dev" in kinds else "train"
        seen[kind] += 1
        if kind == "train" if not part else kind != "test" and part in (kind, split, "all"):
            rows.append((line, row))
    if not rows and not bad:
        has = ", ".join(f"{split} ({n})" for split, n in seen.items())
        raise BadConfig(
            f"{name} has only {_KEPT}: {seen['test']}."
            if [*seen] == ["test"]
            else f"{name} has no rows of the part {part or 'train'}; it has {has or 'no rows at all'}."
        )
    if count > len(rows):
        raise BadConfig(f"{source} asks for {count} rows; {public_name(name)} has {len(rows)}.")
    left_out = {f"rows of the split {kind}": n for kind, n in seen.items() if kind != "train" and not part}
    left_out |= {"lines that are no rows": len(bad)} if bad else {}
    return SourceRows(public_name(name), tuple(rows[: count or None]), tuple(bad), left_out)


_KEPT = "rows that are kept for testing, and training on them would make every later figure worthless"


class Unusable(ValueError):
    """A row that cannot be learned from: the field that is wrong, and the problem."""

    def __init__(self, field: str, problem: str, seen: object = None) -> None:
        super().__init__(problem)
        self.field, self.problem, self.seen = field, problem, seen

    def as_bad_row(self, path: object, line: int) -> BadRow:
        """Return the error that names file, line and field."""
        shown = "" if self.seen is None else f", seen {short_repr(self.seen)}"
        return BadRow(path, line, self.field, self.problem + shown)

    @property
    def reason(self) -> str:
        """What rows are counted under that are left out for this."""
        return f"{PLACE.sub('', self.field)} {self.problem}"


def usable(
    table: SourceRows, made_of: Callable[[DataRow], Item], left_out: Counter[str], *, drops: bool | None = False
) -> dict[int, Item]:
    """Return what `made_of` makes of the rows, by line; what is `Unusable` and what a table leaves out is counted.

    BadRow names the lines that cannot be used, unless they are to be dropped and others remain; None where the stage
    drops none.
    """
    found: dict[int, Item] = {}
    bad = [*table.bad]
    left_out.update(table.left_out)
    for line, row in table.rows:
        try:
            found[line] = made_of(row)
        except Unusable as error:
            bad.append(error.as_bad_row(table.name, line))
            left_out[error.reason] += 1
    refuse_rows(bad, drops=drops and bool(found))
    return found


def refuse_rows(bad: Sequence[BadRow], *, drops: bool | None) -> None:
    """Raise the first of the bad rows, which names the others, unless they are to be dropped."""
    if bad and not drops:
        error = first_of([*bad])
        instead = "take them out" if drops is None else "set bad_rows to drop to leave them out where others remain"
        error.args = (f"{error}. Correct such rows, or {instead}.",)
        raise error


def public_name(name: str) -> str:
    """Return a source without the folders of this machine, but the last one of a file called train or data."""
    path = Path(name)
    if name.startswith("hub:") or path.suffix.partition("[")[0] not in (*SUFFIXES, ".yaml", ".yml"):
        return name
    return f"{path.parent.name}/{path.name}".lstrip("/") if path.stem in COMMON_NAMES else path.name


def _source_parts(source: str) -> tuple[str, str, int]:
    match = SOURCE.fullmatch(source.strip())
    return (match["name"], match["part"] or "", int(match["count"] or 0)) if match else (source, "", 0)


def _kind(split: object) -> str | None:
    match = SPLITS.fullmatch(split.strip()) if isinstance(split, str) else None
    return match.lastgroup if match else None


def _rows(name: str, otherwise: str = "") -> Iterator[tuple[int, str, DataRow | NoRow]]:
    """Yield line, split of the Hub, and the row with None for cells that are empty."""
    path = Path(name).expanduser()
    if name.startswith("hub:"):
        rows = ((number, *row) for number, row in enumerate(from_hub(*hub_parts(name)), 1))
    elif path.suffix == ".parquet":
        rows = ((number, "", row) for number, row in enumerate(parquet_rows(path), 1))
    elif path.suffix.lower() in TABLES:
        table = tables.read_table(path)
        cells = dict.fromkeys(table.columns)
        rows = ((line, "", row if isinstance(row, NoRow) else cells | row) for line, row in table.rows)
    else:
        rows = ((line, "", row) for line, row in rows_in_text(read_text(path, otherwise), path))
    for line, split, row in rows:
        yield line, split, row if isinstance(row, NoRow) else {key: _cell(value) for key, value in row.items()}


def _cell(value: object) -> object:
    """Return a value, None for NaN, which pandas writes where a cell is empty."""
    return None if isinstance(value, float) and math.isnan(value) else value


def from_hub(
    name: str, revision: str | None, config: str | None = None, split: str | None = None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows of a data set, or of one split, with the name of their split; BadConfig if it is not there.

    Its card may name files of its own alone, and what a row holds as a picture or a sound is not opened: either could
    be a file of this machine or an address in its network.
    """
    setattr(MetadataConfigs, CARD_CHECK.__name__, staticmethod(_check_card))
    try:
        reader = load_dataset_builder(name, config, revision=revision).__module__.rpartition(".")[2]
        if reader not in READ:
            raise ValueError(f"its files are read as {reader}; a question set is {', '.join(READ[:-1])}")
        found: Any = load_dataset(name, config, revision=revision, split=split)
    except (OSError, ValueError) as error:
        raise BadConfig(
            f"the data set {name} could not be fetched from the Hub ({str(error).splitlines()[0]}). Check the"
            " name, the revision, the config (hub:owner/name@revision:config) and the network; or name a file here."
        ) from None
    for part, rows in {split: found}.items() if split else found.items():
        for some in rows.with_format("arrow").iter(ROWS_AT_ONCE):
            for row in some.to_pylist():
                yield str(part), row


READ = ("csv", "json", "parquet", "arrow", "text", "cache")
"""What the files of a data set may be read as; others (HDF5 with its links) can lead to files of this machine."""
CARD_CHECK = MetadataConfigs._raise_if_data_files_field_not_valid


def _check_card(config: dict[str, Any]) -> None:
    CARD_CHECK(config)
    named: list[Any] = [config.get("data_dir"), config.get("data_files")]
    while named:
        one = named.pop()
        if isinstance(one, list | dict):
            named += one.values() if isinstance(one, dict) else one
        elif one is not None and (":" in str(one) or str(one).startswith(("/", "\\", "~")) or ".." in str(one)):
            raise ValueError(f"its card names {str(one)[:80]!r}, which is no file of its own")
