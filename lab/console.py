"""How the `assay` command talks: tables or JSON on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Sequence

from pydantic import BaseModel
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

notes = Console(stderr=True, highlight=False, markup=False)
"""Text is printed as it is: a bracket in a message or a path is no style."""


def emit(document: object, *, as_json: bool, table: RenderableType | None = None) -> None:
    """Print one JSON document, or the table that shows the same to a person."""
    if as_json:
        sys.stdout.write(json.dumps(plain(document), ensure_ascii=False, indent=1) + "\n")
    elif table is not None:
        Console(highlight=False).print(table)


def plain(document: object) -> object:
    """Return `document` as what json.dumps takes; records become dictionaries."""
    if isinstance(document, BaseModel):
        return document.model_dump(mode="json")
    if isinstance(document, dict):
        return {str(key): plain(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [plain(value) for value in document]
    return document


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a table with a caption; an empty one says so."""
    table = Table(
        *map(escape, columns),
        title=escape(title),
        title_justify="left",
        caption=None if rows else "nothing yet",
    )
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    return table


def counted(n: int, noun: str) -> str:
    """Return "1 vote", "2 votes"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
