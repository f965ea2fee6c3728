"""Rows of files as people keep them: JSON and JSONL, CSV and TSV as spreadsheets save them, .xlsx and .ods, Parquet.

The first row of a table names the columns, under a title if it has one; a second row may name those below a merged cell.
A separator is found by trying comma, semicolon and tab; a first line `sep=;` decides. Text that is not UTF-8 is Windows-1252.
Cells of a sheet come as a spreadsheet would write them into a CSV file, so that both read the same.
"""

import csv
import datetime
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.parquet
import python_calamine as calamine

from evals.errors import BadConfig, LabError
from evals.io import NoRow, encoding_of, read_text, rows_in_text
from evals.worker import Send, read_apart

SHEETS = (".xlsx", ".ods")
TABLES = (".csv", ".tsv", ".txt", *SHEETS)
"""Excel saves "Unicode text" as .txt: UTF-16, with tabs."""
MARKS = (",", ";", "\t")
ROWS_AT_ONCE = 1000
MOST_ROWS, MOST_OF_SHEET = 5_000_000, 2**20
"""Of a Parquet file, and of a sheet, as in Excel."""
LOOKED_AT = 50
"""Records by which a separator is chosen."""
HINT = re.compile(r'"?sep=([^\r\n])"?[,;\t]*(?:\r\n|\r|\n|$)', re.IGNORECASE)
"""A first line for Excel alone: what separates the cells."""
FOREIGN = re.compile(r"[^\s,;:()?!\"]*[^\x00-\x7f][^\s,;:()?!\"]*")
"""A word that says whether a text was decoded as it was meant."""
SHOWN_WORDS = 5
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet take a cell for a formula."""

Record = tuple[int, list[str]]


class Table(NamedTuple):
    """Rows by line and column without their empty cells, or what is wrong with a line.

    `note` says what to look at: which sheet was read of several, Windows-1252 with words to compare, a title above the table.
    """

    rows: list[tuple[int, dict[str, Any] | NoRow]]
    columns: tuple[str, ...]
    note: str = ""


def file_rows(path: Path, otherwise: str = "", sheet: str | None = None, columns: Sequence[str] = ()) -> Table:
    """Return the rows of a file by line, those of Parquet by number: a table, else Parquet, JSON or JSONL by its name.

    `otherwise` as in `read_text`; sheet, columns and errors as in `read_table`.
    """
    if path.suffix.lower() in TABLES:
        return read_table(path, sheet, columns)
    if sheet is not None:
        raise BadConfig(f"{path.name} has no sheets, so there is no sheet {sheet!r}; leave --sheet out")
    if path.suffix.lower() != ".parquet":
        return Table([*rows_in_text(read_text(path, otherwise), path)], ())
    rows = enumerate(parquet_rows(path), 1)
    return Table([(number, {k: v for k, v in row.items() if v is not None}) for number, row in rows], ())


def read_table(path: Path, sheet: str | None = None, columns: Sequence[str] = ()) -> Table:
    """Return the rows of a table, numbered as a text editor or a spreadsheet numbers them.

    `sheet` names one of a file with several; the first that is not hidden is read otherwise. `columns` name those of a
    table without a first row of names: it is taken for one if fewer than half of them stand there. LabError for a file
    that cannot be read as a table; BadConfig for a sheet that is not there.
    """
    notes: list[str] = []
    if path.suffix.lower() in SHEETS:
        if not path.exists():
            raise LabError(f"there is no file {path}; name a table that ends in {', '.join(TABLES)}")
        note, *parts = read_apart(_sheet_records, path, sheet, what=lambda: str(path), error=LabError)
        notes, records = [note], chain.from_iterable(parts)
    elif sheet is not None:
        raise BadConfig(f"{path.name} has no sheets, so there is no sheet {sheet!r}; leave --sheet out")
    else:
        text, note = _decoded(path)
        if text.lstrip().startswith('{"'):
            raise LabError(f"{path} holds JSON and no table; call it {path.stem}.jsonl")
        notes, records = [note], text_records(text, path)
    first, records, note = _header(records)
    note = " ".join(filter(None, [*notes, note]))
    if first is None:
        return Table([], (), note)
    names = [cell.strip() for cell in first[1]]
    if columns and 2 * len({name.casefold() for name in names} & {name.casefold() for name in columns}) < len(columns):
        records, names = chain([first], records), [*columns]
    while names and not names[-1]:
        names.pop()
    called = [name or f"column {place}" for place, name in enumerate(names, 1)]
    twice = next((name for name in called if called.count(name) > 1), None)
    if twice is not None:
        raise LabError(f"{path}, line {first[0]}: two columns are called {twice!r}; give each a name of its own")
    rows: list[tuple[int, dict[str, Any] | NoRow]] = []
    for line, cells in records:
        while len(cells) > len(called) and not cells[-1].strip():
            cells.pop()
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(called):
            rows.append((line, NoRow(f"has {len(cells)} cells, the first line has {len(called)} columns")))
        else:
            rows.append((line, {name: cell for name, cell in zip(called, cells, strict=True) if cell.strip()}))
    return Table(rows, tuple(called), note)


def _decoded(path: Path) -> tuple[str, str]:
    """Return the text of a table, and words to look at where it is Windows-1252, as Excel's plain "CSV" is."""
    try:
        return read_text(path, keep_line_ends=True), ""
    except LabError as error:
        data = path.read_bytes() if path.is_file() else b""
        is_damaged = data.decode("utf-8", "replace").count("\ufffd") <= len(
            FOREIGN.findall(data.decode("utf-8", "ignore"))
        )
        if is_damaged or encoding_of(data[:4]) != "UTF-8":
            raise
        try:
            text = data.decode("cp1252")
        except UnicodeDecodeError:
            raise error from None
    words = list(dict.fromkeys(FOREIGN.findall(text)))[:SHOWN_WORDS]
    return text, f"Read as Windows-1252: {', '.join(words)}. Right? If not, save it as CSV UTF-8."


def _header(records: Iterator[Record]) -> tuple[Record | None, Iterator[Record], str]:
    """Return the record that names the columns, those below it, and what was left out above it.

    A title is one cell in a row as wide as the next, which has more. Where cells were merged above several columns, the
    next row names these and is empty elsewhere.
    """
    top = list(islice(records, LOOKED_AT))
    filled = [[place for place, cell in enumerate(cells) if cell.strip()] for _, cells in top]
    at = next((n for n, places in enumerate(filled) if places), len(top))
    start = at
    while at + 1 < len(top) and len(top[at][1]) > 2 and len(filled[at]) < 2:
        following = next((n for n in range(at + 1, len(top)) if filled[n]), at)
        if len(top[following][1]) != len(top[at][1]) or following == at:
            break
        at = following
    if at == len(top):
        return None, iter(()), ""
    (line, names), below = top[at], top[at + 1 :]
    note = f"The columns are named in line {line}; what stands above it was left out." if at > start else ""
    unnamed = [place for place in range(len(names)) if place not in filled[at]]
    second = filled[at + 1] if below else []
    if (
        len(second) > 1
        and 0 not in second
        and set(unnamed) & set(second)
        and set(second) <= {*unnamed, *(n - 1 for n in unnamed)}
    ):
        names = [below[0][1][n] if n in second else name for n, name in enumerate(names)]
        below = below[1:]
    return (line, names), chain(below, records), note


def text_records(text: str, path: Path) -> Iterator[Record]:
    """Yield the line and the cells of each record of a CSV or TSV text; LabError, with its line, for what is none."""
    hint = HINT.match(text)
    skipped = 0
    if hint is not None:
        text, mark, skipped = text[hint.end() :], hint[1], 1
    else:
        mark = separator(text, "\t" if path.suffix.lower() == ".tsv" else ",")
    csv.field_size_limit(sys.maxsize)  # a cell may hold a whole paper
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    line = 1 + skipped
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1 + skipped
    except csv.Error as error:
        where = reader.line_num + skipped
        raise LabError(f"{path}, line {where}: no CSV ({error}); save it as CSV, UTF-8") from None


def separator(text: str, otherwise: str) -> str:
    """Return the separator under which most of the first records have as many cells as the first, two or more.

    Where several do, the one that makes most columns; `otherwise` where none does.
    """
    found: list[tuple[float, int, bool, str]] = []
    for mark in MARKS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
        try:
            widths = [len(cells) for cells in islice(reader, LOOKED_AT) if any(cells)]
        except csv.Error:
            continue
        if widths and widths[0] > 1:
            found.append((widths.count(widths[0]) / len(widths), widths[0], mark == otherwise, mark))
    return max(found)[-1] if found else otherwise


def _workbook(path: Path) -> calamine.CalamineWorkbook:
    try:
        return calamine.CalamineWorkbook.from_path(str(path))
    except (calamine.CalamineError, OSError) as error:
        raise LabError(
            f"{path} cannot be read as a spreadsheet ({error}); save it again as .xlsx or .ods, without a password"
        ) from None


def sheet_names(path: Path) -> list[str]:
    """Return the sheets of a file that are not hidden, the one that is read unless another is named first; [] without sheets."""
    if path.suffix.lower() not in SHEETS:
        return []
    return [*read_apart(_send_names, path, what=lambda: str(path), error=LabError)]


def _send_names(send: Send, path: Path) -> None:
    for name in _shown(_workbook(path)):
        send(name)


def _shown(book: calamine.CalamineWorkbook) -> list[str]:
    visible = [each.name for each in book.sheets_metadata if each.visible == calamine.SheetVisibleEnum.Visible]
    return visible or [each.name for each in book.sheets_metadata]


def _sheet_records(send: Send, path: Path, sheet: str | None) -> None:
    """Send which sheet was read of several, and then lists of records."""
    book = _workbook(path)
    known = [each.name for each in book.sheets_metadata]
    if not known:
        raise LabError(f"{path} has no sheet")
    if sheet is not None and sheet not in known:
        raise BadConfig(f"{path.name} has no sheet {sheet!r}; it has {', '.join(known)}")
    name = sheet if sheet is not None else _shown(book)[0]
    try:
        grid = book.get_sheet_by_name(name).to_python(skip_empty_area=False)
    except calamine.CalamineError as error:
        raise LabError(f"{path}, sheet {name!r}, cannot be read ({error}); save it again as .xlsx or .ods") from None
    if len(grid) > MOST_OF_SHEET:
        raise LabError(
            f"{path}, sheet {name!r}, has {len(grid):,} rows; up to {MOST_OF_SHEET:,} are read. Give it in parts."
        )
    others = [each for each in known if each != name]
    note = f"Read the sheet {name!r}; the file has {', '.join(map(repr, others))} too." if others else ""
    send(note)
    numbered = ((line, [cell_text(cell) for cell in cells]) for line, cells in enumerate(grid, 1))
    records = ((line, cells) for line, cells in numbered if any(cells))
    while part := list(islice(records, ROWS_AT_ONCE)):
        send(part)


def cell_text(value: object) -> str:
    """Return a cell of a sheet as text: 2.0 as 2, a date as 2026-09-02, true as TRUE."""
    match value:
        case bool():
            return str(value).upper()
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case float():
            return f"{value:.15g}"
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case datetime.datetime():
            return value.isoformat(sep=" ")
    return str(value)


# ---- tables that leave the house ---------------------------------------------------------------


def table_text(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV that Excel opens: with a byte-order mark, and no cell that it would take for a formula.

    `unescape_formula` gives a cell back as it was.
    """
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, columns, lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {name: escape_formula(value) if isinstance(value, str) else value for name, value in row.items()}
        )
    return "\ufeff" + file.getvalue()


def escape_formula(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula: with ' before what begins with = + - @, tab or return."""
    return f"'{cell}" if cell.lstrip("'").startswith(FORMULA) else cell


def unescape_formula(cell: str) -> str:
    """Return a cell as it was before `escape_formula`."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(FORMULA) else cell


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file; BadConfig if it cannot be read as one, or holds more than `MOST_ROWS`."""
    for rows in read_apart(_parquet_rows, path, what=lambda: str(path), error=BadConfig):
        yield from rows


def _parquet_rows(send: Send, path: Path) -> None:
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            if (count := file.metadata.num_rows) > MOST_ROWS:
                raise BadConfig(f"{path} has {count:,} rows; up to {MOST_ROWS:,} are read. Give it in parts.")
            for batch in file.iter_batches(ROWS_AT_ONCE):
                send(batch.to_pylist())
    except (OSError, pyarrow.ArrowException) as error:
        raise BadConfig(f"{path} cannot be read as parquet ({str(error).splitlines()[0]}); check the path.") from None
