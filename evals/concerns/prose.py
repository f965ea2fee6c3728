"""Concerns in numbered or bulleted prose, and in tables of Markdown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from evals.concerns.items import Item
from evals.concerns.keys import CATEGORY_KEYS, PASSED_OVER, SEVERITY_KEYS, TEXT_KEYS
from evals.concerns.labels import category_of, is_label, plain_label, severity_of
from evals.schema.reviews import UNKNOWN

_BULLET = re.compile(
    r"^(?P<indent>\s{0,8})(?:\*\*)?(?:[-*•–+]|\(?\d{1,3}[.):]|\(?[a-z][.)]|(?:concern|comment|point|issue)\s+\d{1,3}\s*[.:)])"
    r"\s+(?P<rest>\S.*)$",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"^\s{0,3}(?:#{1,6}\s+(?P<marked>.+?)|(?P<bold>\*\*[^*]+\*\*:?)|(?P<plain>[^.]{3,60}:))\s*$"
)
_FIELD = re.compile(r"^\W{0,6}(?P<key>[A-Za-z_ ]{2,20}?)\W{0,4}:\W{0,4}(?P<value>.*?)\W{0,3}$")
_LEAD = re.compile(
    r"^(?:\*\*|__|\[|\()?(?P<label>[^:*\]()\[]{3,45}?)\s*(?:\((?P<inner>[^)]{3,20})\)|\[(?P<square>[^\]]{3,20})\])?\s*(?:\*\*|__|\]|\))?\s*[:.\-–—]\s*(?:\*\*|__)?\s*(?P<text>\S.*)$",
    re.DOTALL,
)
_TRAIL = re.compile(r"\s*[\[(](?P<labels>[^\[\]()]{3,80})[\])]\s*\.?$")
_RULE = re.compile(r"^\s*\|?\s*:?-{2,}")
FEWEST_WORDS = 3
FULL = 8
"""Words after which a new paragraph is not the rest of a bullet; half as many if they end in a stop."""


@dataclass
class _Entry:
    """One bullet with the lines that go on with it."""

    labels: Item
    lines: list[str] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether a paragraph after it is no part of it: it already says something."""
        n_words = sum(len(line.split()) for line in self.lines)
        is_sentence = self.lines[-1].rstrip("*_").endswith((".", "!", "?"))
        return n_words >= (FULL // 2 if is_sentence else FULL)


def prose_items(text: str) -> list[Item]:
    r"""Return the concerns of a list or a table in prose, in order.

    prose_items("1. **Design flaw (major):** No control arm.\n2. Too few mice.")
    ->  [Item("No control arm.", "design_flaw", "major"), Item("Too few mice.")]
    """
    return list(_table(text)) or [item for e in _entries(text) if (item := _item(e)) is not None]


def _entries(text: str) -> Iterator[_Entry]:
    """Yield the bullets under the labels of the headings above them."""
    under, entry, outer = Item(""), None, 0
    is_kept, is_apart = True, False
    for line in text.splitlines():
        bullet = _BULLET.match(line)
        if bullet is not None and (entry is None or len(bullet["indent"]) <= outer):
            if entry is not None:
                yield entry
            outer, is_apart = len(bullet["indent"]), False
            entry = _Entry(under, [bullet["rest"]]) if is_kept else None
            continue
        heading = _HEADING.match(line)
        if heading is not None and not (entry is not None and _field_of(line)):
            if entry is not None:
                yield entry
            entry, outer = None, 99
            title = heading["marked"] or heading["bold"] or heading["plain"]
            is_kept = plain_label(title).split("_")[0] not in PASSED_OVER
            under = _from_words(title)
            continue
        if not line.strip():
            is_apart = True
        elif entry is not None and is_apart and entry.is_full and not line[0].isspace():
            yield entry
            entry = None
        elif entry is not None:
            entry.lines.append(line.strip() if bullet is None else bullet["rest"])
            is_apart = False
    if entry is not None:
        yield entry


def _field_of(line: str) -> tuple[str, str] | None:
    """Return the name and value of a line such as `**Severity:** major`, None for any other."""
    match = _FIELD.match(line)
    if match is None:
        return None
    key = plain_label(match["key"])
    return (key, match["value"]) if key in (*TEXT_KEYS, *CATEGORY_KEYS, *SEVERITY_KEYS) else None


def _item(entry: _Entry) -> Item | None:
    """Return the concern of a bullet, None for one that holds no sentence."""
    labels, kept = entry.labels, []
    for line in entry.lines:
        named = _field_of(line)
        if named is None:
            kept.append(line)
        elif named[0] in CATEGORY_KEYS:
            labels = replace(labels, category=named[1])
        elif named[0] in SEVERITY_KEYS:
            labels = replace(labels, severity=named[1])
        else:
            kept.append(named[1] + line[len(line.rstrip(".!?")) :] if named[1] else "")
    labels, text = _unlabelled(" ".join(part for part in kept if part), labels)
    text = text.replace("**", "").strip().strip('"').strip()
    if len(text.split()) < FEWEST_WORDS:
        return None
    return replace(labels, text=text)


def _unlabelled(text: str, labels: Item) -> tuple[Item, str]:
    """Return a text without the label before it and those in brackets after it."""
    lead = _LEAD.match(text)
    if lead is not None:
        words = [lead["label"], lead["inner"] or "", lead["square"] or ""]
        parts = [part for word in words for part in re.split(r"[,/;|]", word) if part.strip()]
        if parts and all(is_label(part) or is_label(part.replace("concern", "")) for part in parts):
            for part in parts:
                labels = _with(labels, part)
            text = lead["text"]
    trail = _TRAIL.search(text)
    if trail is not None:
        parts = [p.split(":")[-1] for p in re.split(r"[,/;|]", trail["labels"]) if p.strip()]
        if all(is_label(part) for part in parts):
            for part in parts:
                labels = _with(labels, part)
            text = text[: trail.start()]
    return labels, text


def _with(labels: Item, word: str) -> Item:
    if category_of(word) != UNKNOWN:
        return replace(labels, category=word)
    return replace(labels, severity=word) if severity_of(word) != UNKNOWN else labels


def _from_words(title: str) -> Item:
    """Return the labels that a heading gives: "## Major concerns" says major."""
    labels = _with(Item(""), title)
    for word in re.findall(r"[A-Za-z]+", title):
        if severity_of(word) != UNKNOWN:
            labels = replace(labels, severity=word)
    return labels


def _table(text: str) -> Iterator[Item]:
    """Yield the rows of a table of Markdown whose head names a text."""
    lines = [line for line in text.splitlines() if line.count("|") >= 2]
    for index, line in enumerate(lines[:-1]):
        head = [plain_label(cell) for cell in _cells(line)]
        name = next((key for key in TEXT_KEYS if key in head), None)
        if name is None or not _RULE.match(lines[index + 1]):
            continue
        for row in map(_cells, lines[index + 2 :]):
            cells = dict(zip(head, row, strict=False))
            if cells.get(name, "").strip():
                category = next((cells[key] for key in CATEGORY_KEYS if key in cells), None)
                severity = next((cells[key] for key in SEVERITY_KEYS if key in cells), None)
                yield Item(cells[name], category, severity)
        return


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
