"""JSON as models write it, read without losing what a person would still find.

Valid JSON is read by the standard library. Where that stops, this reader goes on: it knows that a quote
ends a string only where the grammar can go on after it, that a key of ours ends whatever was left open
before it, and after anything else it cannot read it looks for the next value. Time is linear in length.
"""

import json
import re
from dataclasses import dataclass, field

TEXT_KEYS = (
    *("text", "concern_text", "concern", "comment", "issue", "critique", "weakness"),
    *("description", "point", "question", "problem", "content"),
)
CATEGORY_KEYS = ("category", "type", "label", "kind")
SEVERITY_KEYS = ("severity", "level", "importance", "priority")
PASSED_OVER = frozenset(("strengths", "strength", "positives", "praise", "summary", "recommendation", "references"))
"""Keys of a review whose texts are no concerns."""

QUOTES = "\"'“”‘’`"
CLOSING = {'"': '"”', "'": "'’", "“": '”“"', "”": '”"', "‘": "’'", "’": "’'", "`": "`'"}
"""Opening quote -> what may close it."""

_KNOWN = "|".join(sorted((*TEXT_KEYS, *CATEGORY_KEYS, *SEVERITY_KEYS), key=lambda key: (-len(key), key)))
_OPEN, _SHUT = rf"[{QUOTES}]", rf"[{QUOTES}]"

ANY_KEY = re.compile(
    rf"{_OPEN}\s?(?P<quoted>[A-Za-z0-9_][\w \-]{{0,39}}){_SHUT}?\s{{0,9}}:(?!//)"
    rf"|(?P<bare>[A-Za-z_]\w{{0,39}}){_SHUT}?\s{{0,9}}:(?!//)"
)
"""A word before a colon, whichever of its quotes are lost; several words only after a quote."""
KNOWN_COLON = re.compile(
    rf"{_OPEN}\s?(?:{_KNOWN})(?:{_SHUT}\s{{0,9}}:|:)|{_OPEN}\s?(?:{_KNOWN}){_SHUT}\s{{0,9}}{_OPEN}",
    re.IGNORECASE,
)
"""A key of ours that can stand nowhere else: with a colon, or with its value's quote after it."""
BARE_OBJECT = re.compile(rf"\{{\s{{0,9}}(?:{_KNOWN})\s{{0,9}}:", re.IGNORECASE)
"""An object whose first key has no quotes."""
LOST_BRACE = re.compile(
    rf"{_OPEN}?\b(?:{'|'.join(sorted(TEXT_KEYS[:2], key=len, reverse=True))}){_SHUT}?\s{{0,9}}:\s{{0,9}}{_OPEN}"
)
"""A concern whose opening brace is lost."""


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": "\n"}
_KEPT = frozenset("\"'\\/`")


def unescaped(written: str) -> str:
    r"""Return a string with its escapes undone; a backslash that escapes nothing stays.

    unescaped(r"a \"b\" \alpha")  ->  'a "b" \\alpha'
    """
    if "\\" not in written:
        return written
    plain = _ESCAPE.sub(_undone, written)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _undone(escape: re.Match[str]) -> str:
    code, mark = escape.groups()
    if code is not None:
        return chr(int(code, 16))
    if mark in _SIMPLE:
        return _SIMPLE[mark]
    return mark if mark in _KEPT else escape[0]


DEEPEST = 40
"""Brackets within brackets that are followed; more is noise."""

_BLANK = re.compile(r"(?:[\s,;]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SPACE = re.compile(r"\s*")
_BARE_END = re.compile(
    r"[,;]\s*(?=[\"'“‘`{\[\]}]|\w{1,40}\s?:)"
    r"|[}\]](?=\s*(?:[,;\]}{\"'“`]|$))"
    r"|\n(?=\s*(?:[\]}{\"'“`]|\w{1,40}[\"']?\s?:))|$|" + KNOWN_COLON.pattern,
    re.IGNORECASE,
)
_ARRAY_ON = re.compile(r"\s*(?:$|[\[\]{\"'“‘`]|-?\d|//|/\*|null|None)")
_OBJECT_ON = re.compile(r"\s*(?:$|[{}\"'“‘`]|//|/\*|[A-Za-z_]\w{0,39}[\"'”’`]?\s*:)")
_INTERESTING = re.compile(rf"\\.|[{QUOTES}{{]", re.DOTALL)
_SENTENCE_LOST = re.compile(r"[.!?]\s*,\s*$")
_START = re.compile(rf"[\[{{]|{LOST_BRACE.pattern}")

Value = object
"""str, float, bool or None as in JSON; `Cut`; list of values; `Members`."""


class Cut(str):
    """A string that the output ended in."""


@dataclass
class Members:
    """An object of JSON: its pairs in order, keys repeated as written."""

    pairs: list[tuple[str, Value]] = field(default_factory=list)


@dataclass(frozen=True)
class Region:
    """A value that stands in a text, where, and whether it was valid or ended before it was closed."""

    value: Value
    start: int
    end: int
    is_valid: bool
    is_cut: bool


def regions(text: str) -> list[Region]:
    """Return every JSON value of a text, in order; arrays and objects only.

    regions('see [12]: [{"text": "No control."}')[1].value  ->  [Members([("text", "No control.")])]
    """
    found: list[Region] = []
    position = 0
    while (start := _START.search(text, position)) is not None:
        region = _strict(text, start.start()) or _lenient(text, start.start())
        if region is None:
            position = start.start() + 1
            continue
        found.append(region)
        position = max(region.end, start.start() + 1)
    return found


def _strict(text: str, start: int) -> Region | None:
    if text[start] not in "[{":
        return None
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return Region(value, start, end, True, False)


_DECODER = json.JSONDecoder(object_pairs_hook=lambda pairs: Members(pairs))


def _lenient(text: str, start: int) -> Region | None:
    reader = _Reader(text, start)
    opening = text[start]
    if opening == "[":
        if not _ARRAY_ON.match(text, start + 1):
            return None
        value: Value = reader.array(0)
    elif opening == "{" and not _OBJECT_ON.match(text, start + 1):
        return None
    else:
        value = reader.members(0)
    return Region(value, start, reader.at, False, reader.is_cut)


class _Reader:
    """Reads values one after another; `at` is where it stands, `is_cut` whether the text ran out."""

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.is_cut = False

    def array(self, depth: int) -> list[Value]:
        """Return the values up to the closing bracket; whatever is none is stepped over."""
        self.at += 1
        values: list[Value] = []
        while True:
            self._skip()
            if self.at >= len(self.text):
                self.is_cut = True
                return values
            mark = self.text[self.at]
            if mark == "]":
                self.at += 1
                return values
            if mark == "{" and depth < DEEPEST and _OBJECT_ON.match(self.text, self.at + 1):
                values += self.members(depth + 1)
            elif mark == "[" and depth < DEEPEST and _ARRAY_ON.match(self.text, self.at + 1):
                values.append(self.array(depth + 1))
            elif mark in QUOTES and self._opens():
                values += self._string_or_members(depth)
            elif LOST_BRACE.match(self.text, self.at):
                values += self.members(depth + 1)
            else:
                self.at += 1

    def members(self, depth: int) -> list[Value]:
        """Return the object that starts here; more than one where braces between them are lost."""
        if self.text[self.at] == "{":
            self.at += 1
        done: list[Value] = []
        current = Members()
        while True:
            self._skip()
            if self.at >= len(self.text):
                self.is_cut = True
                break
            mark = self.text[self.at]
            if mark in "}]{":
                self.at += mark == "}"
                break
            key = self._key()
            if key is None:
                self.at += 1
                continue
            if key in TEXT_KEYS[:2] and any(name == key for name, _ in current.pairs):
                done.append(current)
                current = Members()
            current.pairs.append((key, self._value(depth)))
        return [*done, current] if current.pairs else done

    def _key(self) -> str | None:
        match = ANY_KEY.match(self.text, self.at)
        if match is None:
            lost_colon = KNOWN_COLON.match(self.text, self.at)
            if lost_colon is None:
                return None
            self.at = lost_colon.end() - 1
            return re.sub(r"\W+", "", lost_colon[0]).lower()
        self.at = match.end()
        return (match["quoted"] or match["bare"]).strip().lower()

    def _value(self, depth: int) -> Value:
        self.at = _past(_SPACE, self.text, self.at)
        mark = self.text[self.at : self.at + 1]
        if mark == "":
            self.is_cut = True
            return None
        if mark == "[" and depth < DEEPEST:
            return self.array(depth + 1)
        if mark == "{" and depth < DEEPEST:
            return self.members(depth + 1)
        if mark in QUOTES and not KNOWN_COLON.match(self.text, self.at):
            return self._string(in_array=False)
        return self._bare()

    def _string_or_members(self, depth: int) -> list[Value]:
        """Return a string of an array, or the object whose opening brace is lost."""
        if KNOWN_COLON.match(self.text, self.at):
            return self.members(depth + 1)
        return [self._string(in_array=True)]

    def _string(self, *, in_array: bool) -> str:
        """Return the string whose opening quote stands here, and step over its closing one."""
        opening, start = self.text[self.at], self.at + 1
        for mark in _INTERESTING.finditer(self.text, start):
            at = mark.start()
            if mark[0][0] == "\\":
                continue
            if mark[0] in CLOSING[opening] and self._closes(at + 1, in_array):
                self.at = at + 1
                return unescaped(self.text[start:at])
            if self._is_lost(opening, mark[0], start, at, in_array):
                self.at = at
                return unescaped(self.text[start:at]).rstrip(" \t\r\n,;{}[]" + QUOTES)
        self.at = len(self.text)
        self.is_cut = True
        return Cut(unescaped(self.text[start:]))

    def _is_lost(self, opening: str, mark: str, start: int, at: int, in_array: bool) -> bool:
        """Return whether something new begins at `at`, so the quote before it was left out."""
        if mark == "{":
            return BARE_OBJECT.match(self.text, at) is not None
        if mark not in CLOSING[opening] and mark != opening:
            return False
        if KNOWN_COLON.match(self.text, at) is not None and at > start:
            return True
        before = self.text[max(start, at - 8) : at]
        return in_array and _SENTENCE_LOST.search(before) is not None

    def _closes(self, after: int, in_array: bool) -> bool:
        """Return whether JSON can go on at `after`, so the quote before it ends a string."""
        after = _past(_SPACE, self.text, after)
        rest = self.text[after : after + 1]
        if rest in ("", "}", "]"):
            return True
        if rest in ",;":
            after = _past(_BLANK, self.text, after)
            ahead = self.text[after : after + 1]
            if ahead in ("", "}", "]", "{", "["):
                return True
            return (in_array and ahead in QUOTES) or ANY_KEY.match(self.text, after) is not None
        if rest == "{":
            return _OBJECT_ON.match(self.text, after + 1) is not None
        if rest == "/":
            return self.text[after + 1 : after + 2] in ("/", "*")
        if in_array and rest in QUOTES:
            return "\n" in self.text[after - 8 : after]
        return KNOWN_COLON.match(self.text, after) is not None

    def _bare(self) -> Value:
        """Return what stands without an opening quote: null, a number, or words."""
        ended = _BARE_END.search(self.text, self.at)
        end = len(self.text) if ended is None else ended.start()
        written = self.text[self.at : end].strip().strip(QUOTES).rstrip(" ,;" + QUOTES)
        self.is_cut |= end >= len(self.text)
        self.at = end
        if written.lower() in ("null", "none", "nan", "undefined", "true", "false", ""):
            return None
        return Cut(unescaped(written)) if end >= len(self.text) else unescaped(written)

    def _opens(self) -> bool:
        """Return whether the quote here opens a string: an apostrophe does not."""
        before = self.text[self.at - 1 : self.at]
        return not (self.text[self.at] in "'’`" and before.isalnum())

    def _skip(self) -> None:
        self.at = _past(_BLANK, self.text, self.at)


def _past(what: re.Pattern[str], text: str, at: int) -> int:
    """Return where `what` ends that may stand at `at`."""
    match = what.match(text, at)
    return at if match is None else match.end()
