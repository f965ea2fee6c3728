"""JSON as models write it: valid values by the standard library, broken ones object by object by json-repair."""

import json
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import json_repair

LABELS: dict[str, dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("labels.toml").read_text(encoding="utf-8")
)
TEXT_KEYS, CATEGORY_KEYS, SEVERITY_KEYS, PASSED_OVER = (
    tuple(LABELS["keys"][name]) for name in ("text", "category", "severity", "passed_over")
)
_KNOWN = "|".join(sorted((*TEXT_KEYS, *CATEGORY_KEYS, *SEVERITY_KEYS), key=lambda key: (-len(key), key)))
_QUOTE = "[\"'“”‘’`]"
_KEY = re.compile(
    rf"(?P<brace>\{{\s{{0,9}})?(?:{_QUOTE}\s?({_KNOWN})(?:\s?{_QUOTE}{{0,2}}\s{{0,9}}:(?!//)|{_QUOTE}\s{{0,9}}(?={_QUOTE}))"
    rf"|(?<![\w\"'])({_KNOWN})(?:{_QUOTE}\s{{0,9}}:|\s{{0,9}}:(?=\s{{0,9}}[\"“])))"
    rf"|(?P<other>\{{\s{{0,9}}{_QUOTE}?\w{{1,40}}{_QUOTE}\s{{0,9}}:)",
    re.IGNORECASE,
)
"""A key of ours, where one of its quotes, its colon or the brace before it may be lost; or the start of an object."""
_START = re.compile(rf"[\[{{]|{_KEY.pattern}", re.IGNORECASE)
"""Where a value may begin."""
_LIST = re.compile(r"""\[\s*(?:$|[\[{"'“‘])""")
_STRINGS = re.compile(r"\[\s*(?:\[\s*)?[\"'“‘]|\{\s*[\"'“‘]\w")
_CLOSED = re.compile(r"\}(?=\s*(?:[\],;}`]|$|\n))")

_LOST_QUOTE = re.compile(rf'(?<=[.!?]),(\s*"(?:{_KNOWN})": )', re.IGNORECASE)
_KEY_BEGUN = re.compile(r"""(?<!\\)(["”'\]}])\s*,\s*(?:["“']\w{0,40}["”']?\s*)?$""")
"""A key, or the comma before it, that the output ended in: the value before it is whole."""
_OBJECT_BEGUN = re.compile(r"""\{\s*(?:["'“]\w[^{}]*)?$""")
_CLOSED_STRING = re.compile(r"""(?<!\\)["”\]}]$|^[\[{\s]*'.*(?<!\\)'$""", re.DOTALL)
MOST_KEYS = 12
"""Keys of one object that are looked at."""


class CutText(str):
    """A string that the output ended in."""


@dataclass(frozen=True)
class Region:
    """A value in a text: where it stands, whether it was valid and whether the text ended inside it."""

    value: object
    start: int
    end: int
    is_valid: bool
    is_cut: bool


def regions(text: str) -> list[Region]:
    """Return every array and object of a text in order; a broken one is read object by object.

    regions('see [12]: [{"text": "No control."}')[1].value  ->  {"text": "No control."}
    """
    found: list[Region] = []
    keys = list(_KEY.finditer(text))
    position, n_inside, n_passed = 0, -1, 0
    while (start := _START.search(text, position)) is not None:
        while n_passed < len(keys) and keys[n_passed].start() < start.start():
            n_passed += 1
        region = _strict(text, start.start()) or _repaired(text, start.start(), keys[n_passed : n_passed + MOST_KEYS])
        position = start.start() + 1 if region is None else region.end
        if region is not None:
            found.append(region if n_inside < 0 else replace(region, is_valid=False))
        elif n_inside < 0 and _LIST.match(text, start.start()):
            n_inside = len(found)
    if found:
        is_list_open = 0 <= n_inside < len(found) and "]" not in text[found[-1].start :]
        is_cut = found[-1].is_cut or is_list_open or bool(_OBJECT_BEGUN.search(text, found[-1].end))
        found[-1] = replace(found[-1], is_cut=is_cut)
    return found


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice, so braces are lost")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _strict(text: str, start: int) -> Region | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return Region(value, start, end, True, False) if isinstance(value, dict | list) else None


def _repaired(text: str, start: int, keys: list[re.Match[str]]) -> Region | None:
    """Return the broken object that starts here, up to the key that begins the next one; None if there is none."""
    seen: set[str] = set()
    end, last = len(text), start
    for key in keys:
        name = (key[2] or key[3] or "").lower()
        if key.start() > start and (not seen or key["brace"] or key["other"] or name in seen):
            end = key.start()
            break
        seen.add(name)
        last = key.end()
    is_noise = text.count("[", start, start + 400) > 100
    if not seen and (is_noise or end < len(text) or not _STRINGS.match(text, start)):
        return None
    closed = list(_CLOSED.finditer(text, last, end))
    if closed and seen:
        end = closed[-1].end()
    written = text[start:end].rstrip().removesuffix("```").rstrip()
    is_cut = end == len(text) and not written.endswith(("}", "]"))
    if is_cut:
        written = _KEY_BEGUN.sub(r"\1", written)
    try:
        named = _LOST_QUOTE.sub(r'",\1', _KEY.sub(_mended_key, written)) if seen else written
        value = json_repair.loads(named if named[0] in "[{" else "{" + named, skip_json_loads=True)
    except (RecursionError, ValueError):
        return None
    if not isinstance(value, dict | list) or (written[0] == "{" and isinstance(value, list)):
        return None
    if is_cut and not _CLOSED_STRING.search(written):
        value = _cut(value)
    return Region(value, start, end, False, is_cut)


def _mended_key(key: re.Match[str]) -> str:
    name = key[2] or key[3]
    return f'{key["brace"] or ""}"{name}": ' if name else key[0]


def _cut(value: object) -> object:
    """Return a value whose last string is marked as cut."""
    if isinstance(value, str):
        return CutText(value)
    if isinstance(value, dict) and value:
        return {**value, (last := list(value)[-1]): _cut(value[last])}
    return [*value[:-1], _cut(value[-1])] if isinstance(value, list) and value else value
