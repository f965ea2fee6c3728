"""A table on disk: one JSON line [key, value] per row, and what differs between two tables."""

import difflib
import gzip
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Rows = Mapping[str, Any]
DATA = Path(__file__).parent / "data"
DIGITS = 6
SHOWN = 20
PLACE = "where"


def load(name: str) -> dict[str, Any]:
    """Return the rows of a table; none if it was never written."""
    file = DATA / f"{name}.jsonl.gz"
    if not file.is_file():
        return {}
    return dict(json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines())


def save(name: str, rows: Rows) -> None:
    """Write a table whole; equal rows give equal bytes."""
    DATA.mkdir(exist_ok=True)
    lines = [json.dumps([key, value], ensure_ascii=False) + "\n" for key, value in rows.items()]
    file = DATA / f"{name}.jsonl.gz"
    part = file.with_suffix(".part")
    part.write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))
    part.replace(file)


def rounded(value: Any) -> Any:
    """Return a JSON value whose numbers have six digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return value


def differences(was: Rows, now: Rows) -> list[tuple[str, list[str]]]:
    """Return each row that differs, with lines that say where. A field PLACE only tells where a row is from."""
    found = []
    for key in dict.fromkeys((*was, *now)):
        if key not in was or key not in now:
            found.append((_label(key, was, now), ["is new" if key in now else "is gone"]))
        elif lines := list(_differing(was[key], now[key], "")):
            found.append((_label(key, was, now), lines))
    return found


def told(name: str, found: list[tuple[str, list[str]]], lines_each: int = 12) -> str:
    """Return the first differing rows as a person reads them."""
    text = [f"{len(found)} rows of the table {name} differ:"]
    for key, lines in found[:SHOWN]:
        more = [f"… {len(lines) - lines_each} more"] if len(lines) > lines_each else []
        text += [f"  {key}", *(f"      {line}" for line in (*lines[:lines_each], *more))]
    if len(found) > SHOWN:
        text.append(f"  … and {len(found) - SHOWN} more rows")
    text.append(f"if this is meant: .venv/bin/python -m tests.frozen --only {name}")
    return "\n".join(text)


def _label(key: str, was: Rows, now: Rows) -> str:
    row = now.get(key, was.get(key))
    return f"{key} {row[PLACE]}" if isinstance(row, dict) and PLACE in row else key


def _differing(was: Any, now: Any, path: str) -> Iterator[str]:
    if isinstance(was, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*was, *now)):
            if key == PLACE:
                continue
            if key not in now:
                yield f"{path}.{key} is gone (was {_short(was[key])})"
            elif key not in was:
                yield f"{path}.{key} is new: {_short(now[key])}"
            else:
                yield from _differing(was[key], now[key], f"{path}.{key}")
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for place, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from _differing(one, other, f"{path}[{place}]")
    elif isinstance(was, str) and isinstance(now, str) and "\n" in was + now:
        changed = difflib.unified_diff(was.splitlines(), now.splitlines(), lineterm="", n=0)
        yield from (f"{path} {line}" for line in changed if was != now)
    elif not _same(was, now):
        yield f"{path}: {_short(was)} -> {_short(now)}"


def _same(was: Any, now: Any) -> bool:
    numbers = all(isinstance(each, int | float) for each in (was, now))
    if numbers and float in (type(was), type(now)):
        return math.isclose(was, now, rel_tol=2 * 10.0 ** (1 - DIGITS), abs_tol=1e-9)
    return type(was) is type(now) and was == now


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:119]}…"
