"""Rows of JSON and JSONL text with their lines, so that what is wrong with one can be named; and rows as JSONL.

A row that is none is yielded as the sentence that says so; nothing is left out without a word.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

WHOLE = "(whole line)"


class NoRow(NamedTuple):
    """What is wrong with a line that is no row, or with one of its fields."""

    problem: str
    field: str = WHOLE


Read = Iterator[tuple[int, dict[str, Any] | NoRow]]
"""Lines, and the row that begins there."""
LINE_ENDS = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}
"""Line ends to readers that split text as Unicode does; in JSON they stand in strings alone, and are written as escapes."""
HOLDS_TURNS = frozenset({"role", "from"})
"""Keys of the turns of a conversation: a list of these belongs to one row and is no list of rows."""
NEXT = re.compile(r"[^\s,:]")
"""Where the next value of a list, or the next key or value of an object, begins."""


class Decoder(json.JSONDecoder):
    """Decodes JSON; `repeated` has the keys that an object of the last value held more than once."""

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=self._object)
        self.repeated: list[str] = []

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        """Return the value at a place of the text, and where it ends."""
        self.repeated.clear()
        try:
            return super().raw_decode(s, idx)
        except RecursionError:
            raise json.JSONDecodeError("lists or objects are nested too deeply", s, idx) from None

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            self.repeated += [key for key in found if keys.count(key) > 1]
        return found

    def values(self, text: str, at: int) -> Iterator[tuple[int, Any]]:
        """Yield the values from a place to the end of the list or object, each with its own; ValueError for none."""
        while (begin := NEXT.search(text, at)) and begin[0] not in "]}":
            value, at = self.raw_decode(text, begin.start())
            yield begin.start(), value


def jsonl_text(rows: Iterable[object], *, by_alias: bool = False) -> str:
    """Return records and objects as JSONL that every reader divides into the same lines."""
    lines = (
        row.model_dump_json(by_alias=by_alias) if isinstance(row, BaseModel) else json.dumps(row, ensure_ascii=False)
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines).translate(LINE_ENDS)


def rows_of(text: str, path: Path) -> Read:
    """Yield the rows of a .json or .jsonl file; one called .jsonl may hold a list, too."""
    is_list = text.lstrip().startswith("[")
    return json_rows(text) if is_list or path.suffix == ".json" else jsonl_rows(text)


def jsonl_rows(text: str) -> Read:
    """Yield the objects of JSONL; blank lines are skipped, and only a line feed ends a line."""
    decoder = Decoder()
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, row_of(decoder.decode(line), decoder.repeated)
            except ValueError as error:
                yield number, NoRow(f"is no JSON ({error})")


def json_rows(text: str) -> Read:
    """Yield the objects of a JSON list, of the one list in a JSON object, or of objects one after the other."""
    decoder = Decoder()
    is_list = text.lstrip().startswith("[")
    tables = [] if is_list else _tables(text, decoder)
    if len(tables) > 1:
        yield 1, NoRow(f"holds several lists of rows ({', '.join(key for key, _ in tables)}); save one of them alone")
        return
    start = text.index("[") + 1 if is_list else tables[0][1] if tables else 0
    line, counted = 1, 0
    try:
        for at, value in decoder.values(text, start):
            line, counted = line + text.count("\n", counted, at), at
            yield line, row_of(value, decoder.repeated)
        if is_list:
            decoder.decode(text)  # what is missing at its end, or follows it
    except ValueError as error:
        yield getattr(error, "lineno", line), NoRow(f"is no JSON ({error})")


def _tables(text: str, decoder: Decoder) -> list[tuple[str, int]]:
    """Return the lists of rows in a JSON object, and where the first row of each stands; none for any other text."""
    try:
        whole = decoder.decode(text)
    except ValueError:  # objects one after the other, or damaged
        return []
    if not isinstance(whole, dict):
        return []
    parts = decoder.values(text, text.index("{") + 1)
    return [(key, at + 1) for (_, key), (at, value) in zip(parts, parts, strict=True) if _is_table(value)]


def row_of(value: Any, repeated: Sequence[str]) -> dict[str, Any] | NoRow:
    """Return a value as a row; what is wrong if it is none, or has a key more than once."""
    if not isinstance(value, dict):
        return NoRow(f"is {in_words(value)}, and a row is an object with keys")
    return NoRow("the key stands more than once in one row", repeated[0]) if repeated else value


def in_words(value: object) -> str:
    """Say what kind of thing a value of JSON or YAML is."""
    words = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return words.get(type(value), "nothing" if value is None else f"a {type(value).__name__}")


def _is_table(value: object) -> bool:
    """Return whether a value is a list of rows, and not of the turns of one conversation."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(each, Mapping) and not HOLDS_TURNS & each.keys() for each in value)
    )
