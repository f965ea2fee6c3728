"""Files as the rest of the package treats them: known by their SHA-256, written whole or not at all.

Rows of JSON and JSONL text are read with their lines, so that what is wrong with one can be named; a row that is none is
yielded as the sentence that says so.
"""

import codecs
import errno
import hashlib
import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from evals.errors import BadRow, CannotWrite, LabError, first_problem

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


def rows_in_text(text: str, path: Path) -> Read:
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


RowT = TypeVar("RowT", bound=BaseModel)
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

SHOWN = 80
"""Characters of a bad value that a message shows."""
NAMED = 20
"""So many further bad rows a message names, each with its line and field; it counts the rest."""
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "UTF-8-SIG"),
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
"""Byte order marks; those of UTF-32 stand first, because UTF-16's are how they begin."""


def read_rows(
    path: Path, record: type[RowT], key: Callable[[RowT], str] | None = None, otherwise: str = ""
) -> list[RowT]:
    """Return the rows of a JSONL file as records; blank lines are skipped.

    `key` gives what must differ between rows, such as their id. BadRow names the first bad line and its field, and line
    and field of others; LabError for a file that is missing, is not UTF-8 or holds no row. `otherwise` tells, where
    there is no row, how else to come by one: "write some with `assay data kmp --out DIR`".
    """
    rows = checked_rows(path, jsonl_rows(read_text(path, otherwise)), record, key)
    if not rows:
        raise LabError(_or(f"{path} holds no rows; it should have one JSON object per line", otherwise))
    return rows


def checked_rows(
    path: Path,
    numbered: Iterable[tuple[int, Mapping[str, object] | NoRow]],
    record: type[RowT],
    key: Callable[[RowT], str] | None = None,
) -> list[RowT]:
    """Return rows by line as records; BadRow as `read_rows`."""
    rows: list[RowT] = []
    seen: dict[str, int] = {}
    bad: list[BadRow] = []
    for number, given in numbered:
        if isinstance(given, NoRow):
            bad.append(BadRow(path, number, given.field, given.problem))
            continue
        try:
            row = record.model_validate(given)
        except ValidationError as error:
            field, problem, value = first_problem(error)
            bad.append(BadRow(path, number, field or WHOLE, f"{problem}, seen {short_repr(value)}"))
            continue
        if key is not None and (used := seen.setdefault(key(row), number)) != number:
            bad.append(BadRow(path, number, "id", f"{key(row)!r} was used in line {used}; ids are unique"))
        rows.append(row)
    if bad:
        raise first_of(bad)
    return rows


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items in their order by a key; the keys stand as they first come."""
    found: dict[K, list[T]] = {}
    for each in items:
        found.setdefault(key(each), []).append(each)
    return found


def runs_of(items: Iterable[T], follows: Callable[[list[T], T], bool]) -> list[list[T]]:
    """Return items in their order, parted before each that does not follow the run so far."""
    runs: list[list[T]] = []
    for each in items:
        if runs and follows(runs[-1], each):
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs


def short_repr(value: object) -> str:
    """Return a value as messages show it."""
    shown = "nothing" if value is None else repr(value)
    return shown if len(shown) <= SHOWN else shown[: SHOWN - 3] + "..."


def read_text(path: Path, otherwise: str = "", *, keep_line_ends: bool = False) -> str:
    """Return a file in UTF-8, or in what its byte order mark says; LabError if it cannot be read as that.

    Line ends come as one newline each unless they are kept: in a table they may be part of a cell.
    """
    encoding = ""
    try:
        data = path.read_bytes()
        encoding = encoding_of(data[:4])
        text = data.decode(encoding)
    except (FileNotFoundError, NotADirectoryError):
        raise LabError(_or(f"there is no file {path}; check its name and folder", otherwise)) from None
    except IsADirectoryError:
        raise LabError(f"{path} is a folder; name a file in it") from None
    except UnicodeDecodeError as error:
        name = encoding.removesuffix("-SIG")
        raise LabError(f"{path} is not {name} at byte {error.start}; save it as UTF-8 (in Excel: CSV UTF-8)") from None
    return text if keep_line_ends else text.replace("\r\n", "\n").replace("\r", "\n")


def encoding_of(head: bytes) -> str:
    """Return the encoding that the byte order mark at the start of a file stands for; UTF-8 where there is none."""
    return next((known for mark, known in BYTE_ORDER_MARKS if head.startswith(mark)), "UTF-8")


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


def data_sha256(examples: Iterable[BaseModel], *, exclude_defaults: bool = False) -> str:
    """Return a checksum of what the examples say; their order does not matter."""
    return sha256_of_text("\n".join(sorted(_line(example, exclude_defaults) for example in examples)))


def as_jsonl(examples: Iterable[BaseModel], *, exclude_defaults: bool = False) -> str:
    """Return examples as the text of a JSONL file, keys sorted, so equal rows are equal bytes."""
    return "".join(_line(example, exclude_defaults) + "\n" for example in examples).translate(LINE_ENDS)


def _line(example: BaseModel, exclude_defaults: bool) -> str:
    document = example.model_dump(mode="json", exclude_defaults=exclude_defaults)
    return json.dumps(document, ensure_ascii=False, sort_keys=True)


def json_text(document: Mapping[str, object]) -> str:
    """Return a document as the text of a .json file that people can read."""
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def weights_identity(checksums: Mapping[str, str]) -> str:
    """Return the checksum of weights from those of their files (SHA-256, by file name).

    Of one file it is that file's; of several it is over their names and checksums, in the order of names.

    >>> weights_identity({"model.safetensors": "ab12"})
    'ab12'
    """
    if len(checksums) == 1:
        return next(iter(checksums.values()))
    lines = "".join(f"{name} {sha256}\n" for name, sha256 in sorted(checksums.items()))
    return sha256_of_text(lines)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def sha256_of_text(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 bytes, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Write a UTF-8 file so that a reader sees the old content or the new, never a part; CannotWrite if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as content:
                content.write(text)
            temporary.chmod(0o644)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        refused = CannotWrite(f"cannot write {path}: {error.strerror}; name a folder that you may write to")
        refused.errno = error.errno
        raise refused from error


@contextmanager
def write_folder(target: Path) -> Generator[Path]:
    """Lend an empty folder of that name, which takes the place of `target` when the block ends; it goes where that fails."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as place:
            (unfinished := Path(place) / target.name).mkdir()
            yield unfinished
            if target.exists():
                target.rename(unfinished.with_name(f"{target.name}-before"))
            unfinished.rename(target)
    except Exception as error:  # safetensors has an error of its own
        if isinstance(error, LabError) or (full := os.strerror(errno.ENOSPC)) not in str(error):
            raise
        raise CannotWrite(f"cannot write {target}: {full}; make room, or name another folder") from error


def notice_text(name: str) -> str:
    """Return LICENSE or THIRD-PARTY.md of Assay, from what is installed, else from the folder its packages stand in; LabError if lost.

    In a clone the first thing known as `assay` may be the folder that building it left there, which has neither.
    """
    beside = Path(__file__).parents[1] / name
    found = next(filter(None, (each.read_text(f"licenses/{name}") for each in distributions(name="assay"))), None)
    if found is None and not beside.is_file():
        raise LabError(f"the installed Assay lacks its file {name}, which must go along; reinstall Assay")
    return found or beside.read_text(encoding="utf-8")


def public_path(text: str, root: Path | None = None) -> str:
    """Return a path as records keep it: from `root` (default: here), or only its last part.

    "runs/sft" stays; "/home/me/assay/runs/sft" becomes "runs/sft" there and "sft" elsewhere.
    """
    path = Path(text).expanduser()
    if not path.is_absolute() and ".." not in path.parts:
        return text
    start = (root or Path.cwd()).resolve()
    resolved = path.resolve()
    inside = resolved.is_relative_to(start)
    return resolved.relative_to(start).as_posix() if inside else resolved.name


class Cache:
    """Values by key in one SQLite file that several processes share; it may be deleted at any time.

    Every method raises LabError where the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those keys that have one."""
        with self._open() as file:
            known = "SELECT key, value FROM kept WHERE key IN (SELECT value FROM json_each(?))"
            return dict(file.execute(known, (json.dumps([*keys]),)))

    def put(self, values: Mapping[str, bytes]) -> None:
        """Keep these values, instead of those that their keys had."""
        with self._open() as file:
            file.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?)", values.items())

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=60)) as file, file:
                file.execute("PRAGMA synchronous=OFF")  # 0.4 ms instead of 20 for each value; not safe from power cuts
                file.execute("CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value BLOB NOT NULL)")
                yield file
        except (sqlite3.Error, OSError) as error:
            raise LabError(
                f"the cache {self.path} cannot be used ({error}); delete the file, or name another (for encoders, set"
                " ASSAY_CACHE to a folder that you may write to): what it held is asked for or computed again"
            ) from error
