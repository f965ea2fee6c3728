"""Concerns in values that were read from JSON, however the model nested them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from evals.concerns.keys import CATEGORY_KEYS, PASSED_OVER, SEVERITY_KEYS, TEXT_KEYS
from evals.concerns.labels import category_of, is_label, plain_label, severity_of
from evals.concerns.lenient import DEEPEST, Cut, Members, Value
from evals.schema.reviews import UNKNOWN

WORDS_OF_A_CUT = 5
"""A text that the output ended in is kept from so many words on."""

_WORD = re.compile(r"[^\W\d_]")
_NUMBERED = re.compile(r"(?:concern|issue|point|comment|weakness|item)?[ _]?#?\d+", re.IGNORECASE)
_NOTHING = frozenset(("none", "null", "nan"))


@dataclass(frozen=True)
class Item:
    """A concern as written; `lost` says why one that stands there cannot be used."""

    text: str
    category: str | None = None
    severity: str | None = None
    is_cut: bool = False
    lost: str | None = None
    depth: int = field(default=0, compare=False, repr=False)


def items(value: Value) -> list[Item]:
    """Return the concerns in a value, in order, with those that cannot be used.

    items([Members([("text", "No control."), ("severity", "major")])])
    ->  [Item("No control.", None, "major")]
    """
    return list(_walk(value, Item("")))


def _walk(value: Value, around: Item) -> Iterator[Item]:
    if around.depth > DEEPEST:
        return
    around = replace(around, depth=around.depth + 1)
    if isinstance(value, Members):
        yield from _members(value, around)
    elif isinstance(value, list):
        yield from _list(value, around)


def _list(values: list[Value], around: Item) -> Iterator[Item]:
    """Yield what a list holds; a string that is only a label belongs to the text before it."""
    held: Item | None = None
    for value in values:
        if isinstance(value, str) and held is not None and is_label(value):
            held = _labelled(held, value)
            continue
        if held is not None:
            yield held
            held = None
        if isinstance(value, str):
            held = None if is_label(value) and len(values) > 1 else _item(value, around)
        else:
            yield from _walk(value, around)
    if held is not None:
        yield held


def _members(members: Members, around: Item) -> Iterator[Item]:
    """Yield what an object holds; one that names its text twice is two whose braces are lost."""
    for part in _parted(members):
        yield from _concern(part, around)


def _parted(members: Members) -> Iterator[Members]:
    current = Members()
    for key, value in members.pairs:
        if key.lower().strip() in TEXT_KEYS[:2] and any(key == name for name, _ in current.pairs):
            yield current
            current = Members()
        current.pairs.append((key, value))
    yield current


def _concern(members: Members, around: Item) -> Iterator[Item]:
    category = _first(members, CATEGORY_KEYS) or around.category
    severity = _first(members, SEVERITY_KEYS) or around.severity
    labelled = replace(around, category=category, severity=severity)
    keys = [key.lower().strip() for key, _ in members.pairs]
    name = next((key for key in TEXT_KEYS if key in keys and _is_text(members, key)), None)
    if name is not None:
        yield from (_item(text, labelled) for text in _texts(members, name))
        yield from _nested(members, around)
        return
    has_labels = bool(set(keys) & {*CATEGORY_KEYS, *SEVERITY_KEYS})
    longest = _longest(members) if has_labels else None
    if longest is not None:
        yield _item(longest, labelled)
        return
    nested = _nested(members, labelled if has_labels else around)
    names = TEXT_KEYS if has_labels else TEXT_KEYS[:2]
    yield from nested or [replace(labelled, lost="has no text") for _ in set(keys) & set(names)][:1]


def _nested(members: Members, around: Item) -> list[Item]:
    """Return what stands in the lists and objects of an object; a key that is a label labels them."""
    found: list[Item] = []
    for key, value in members.pairs:
        if plain_label(key) in PASSED_OVER:
            continue
        inside = _labelled(around, key) if is_label(key) else around
        if isinstance(value, str):
            if is_label(key) or _NUMBERED.fullmatch(key.strip()):
                found.append(_item(value, inside))
        else:
            found += _walk(value, inside)
    return found


def _item(text: str, labels: Item) -> Item:
    is_cut = isinstance(text, Cut)
    text = text.strip()
    item = replace(labels, text=text, is_cut=is_cut)
    if not _WORD.search(text) or text.lower() in _NOTHING:
        return replace(item, lost="has no text")
    if is_cut and len(text.split()) < WORDS_OF_A_CUT:
        return replace(item, lost="is cut off after a few words")
    return item


def _labelled(item: Item, label: str) -> Item:
    if category_of(label) != UNKNOWN:
        return replace(item, category=label)
    return replace(item, severity=label) if severity_of(label) != UNKNOWN else item


def _texts(members: Members, name: str) -> list[str]:
    return [v for k, v in members.pairs if k.lower().strip() == name and isinstance(v, str)]


def _is_text(members: Members, name: str) -> bool:
    return bool(_texts(members, name))


def _first(members: Members, keys: tuple[str, ...]) -> str | None:
    """Return the first label under one of these keys."""
    for key, value in members.pairs:
        if key.lower().strip() in keys and isinstance(value, str):
            return value
    return None


def _longest(members: Members) -> str | None:
    """Return the longest text of an object that labels one but calls it by no name of ours."""
    labels = {*CATEGORY_KEYS, *SEVERITY_KEYS}
    texts = [v for k, v in members.pairs if k.lower().strip() not in labels and isinstance(v, str)]
    texts = [text for text in texts if len(text.split()) > 1]
    return max(texts, key=len, default=None)
