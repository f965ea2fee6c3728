"""What is wrong with a card, read offline: each finding says why and what to do.

Also what no text may hold. Patterns and wordings stand in lint.yaml. Measured on tests/hub/secrets.yaml, detect-secrets 1.5
(without entropy) and kingfisher 2.14 find a third and less than half of it; docs/publishing.md has the figures.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from evals.schema.runs import Diagnostic
from hub.cards import HUB_IDS, body_of, read_front_matter

RULES: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
BEFORE, AFTER = 100, 400
"""How far before and behind its word a secret is looked for, in characters."""
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))|%([0-7][0-9a-fA-F])")
"""Of JSON, also written into JSON again, of Python, and of addresses."""
NESTED = 3
HIDDEN = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
INVISIBLE = str.maketrans(dict.fromkeys(HIDDEN))


@dataclass(frozen=True)
class Pattern:
    """One kind of thing to look for: near `words`, in a text in lower case, or anywhere if there are none."""

    name: str
    words: tuple[str, ...]
    regex: re.Pattern[str]
    remedy: str = "remove it, or ask the person first"
    is_error: bool = True

    @classmethod
    def of(cls, name: str, rule: Sequence[str], **named: Any) -> "Pattern":
        """Return a kind as lint.yaml writes it."""
        words, regex = rule
        return cls(name, tuple(words.split()), re.compile(regex), **named)


WITHDRAW = "remove it, and withdraw it where it was issued"
KEYS = (
    *(Pattern.of(name, rule, remedy=WITHDRAW) for name, rule in RULES["secrets"].items()),
    Pattern.of("a path of this machine", RULES["local_path"], remedy="write a name or a relative path instead"),
)
E_MAIL = Pattern.of("an e-mail address", RULES["e_mail"])
PATTERNS = (*KEYS, E_MAIL)
ROW_PATTERNS = (
    *KEYS,
    replace(E_MAIL, is_error=False),
    Pattern.of("a telephone number", RULES["phone"], is_error=False),
)
"""In the rows of a data set, and on cards, people may be named on purpose: those are warnings there."""


def _of_card(problem: str, remedy: str, line: int, is_error: bool = True) -> Diagnostic:
    return Diagnostic(check="card", path="README.md", problem=problem, remedy=remedy, line=line, is_error=is_error)


def scan(path: str, texts: Iterable[str], patterns: Sequence[Pattern] = PATTERNS) -> list[Diagnostic]:
    """Return what must not be published in a file whose text comes in pieces of whole lines: errors first, each kind once.

    Every kind tells its first line and how many more there are, never a value. Escapes, such as those of JSON, are read both ways.
    """
    lines: dict[Pattern, set[int]] = {}
    start = 0  # the name of the file may hold one as well
    for text in chain([f"{path}\n"], texts):
        for each in _readings(text):
            lower = each.replace("İ", "i").lower()  # the only letter that is two in lower case
            for pattern in patterns:
                lines.setdefault(pattern, set()).update(_lines(each, lower, pattern, start))
        start += text.count("\n")
    found = []
    for pattern, on in lines.items():
        if on:
            more = f", and in {len(on) - 1:,} more line{'s' if len(on) > 2 else ''}" if len(on) > 1 else ""
            told = {
                "problem": f"{pattern.name} stands there{more}",
                "remedy": pattern.remedy,
                "is_error": pattern.is_error,
            }
            check = "secrets" if pattern.is_error else "personal data"
            found.append(Diagnostic(check=check, path=path, line=min(on) or None, **told))
    return sorted(found, key=lambda each: (not each.is_error, each.line or 0))


def _readings(text: str) -> Iterator[str]:
    """Yield a text as it stands, then without what is not seen and its escapes, as often as it was put into JSON."""
    yield text
    for _ in range(NESTED):
        seen = text.translate(INVISIBLE) if any(map(text.__contains__, HIDDEN)) else text
        if (plain := ESCAPE.sub(_unescape, seen) if "\\" in seen or "%" in seen else seen) == text:
            return
        text = plain
        yield text


def _unescape(match: re.Match[str]) -> str:
    """Return what an escape stands for; a line break becomes a space, so that lines keep their numbers."""
    code = match[1] or match[2] or match[4]
    if code is None:
        return " " if match[3] in "nrt" else match[3]
    return " " if (letter := chr(int(code, 16))) in "\n\r" else letter


def _lines(text: str, lower: str, pattern: Pattern, line: int) -> Iterator[int]:
    at = 0
    for start, end in _around(lower, pattern.words) if pattern.words else ((0, len(text)),):
        for match in pattern.regex.finditer(text, start, end):
            line, at = line + text.count("\n", at, match.start()), match.start()
            yield line


def _around(text: str, words: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a text that are near one of these words, in order."""
    spots = []
    for word in words:
        at = text.find(word)
        while at >= 0:
            spots.append(at)
            at = text.find(word, at + 1)
    start = end = 0
    for spot in sorted(spots):
        if spot - BEFORE > end:
            if end:
                yield start, end
            start = max(0, spot - BEFORE)
        end = spot + AFTER
    if end:
        yield start, end


REPO_ID = re.compile(r"(?:[A-Za-z0-9][\w.-]{0,95}/)?[A-Za-z0-9][\w.-]{0,95}")
LISTS = ("tags", "datasets", "metrics", "language", "task_categories", "size_categories")


def bases_of(data: dict[str, Any]) -> list[str]:
    """Return the base models that a front matter names."""
    return [str(each) for each in _values(data, "base_model") if each is not None]


def front_matter_findings(text: str, kind: str) -> list[Diagnostic]:
    """Return what is wrong with the front matter of a card: what people write in, and what would mislead readers.

    Whatever else the Hub refuses, it tells when the card is sent, before any file is.
    """
    front, found = text[: len(text) - len(body_of(text))].splitlines(), []

    def add(key: str, got: object = None, rule: str | None = None, *, is_error: bool = True) -> None:
        problem, remedy, *warning = RULES["front_matter"][rule or key]
        line = next((number for number, each in enumerate(front, 1) if each.startswith(f"{key}:")), 1)
        found.append(_of_card(problem.format(got=got, key=key), remedy.format(key=key), line, is_error and not warning))

    try:
        data = read_front_matter(text)
    except ValueError as error:
        add("yaml", error)
        return found
    if data is None:
        add("missing", is_error=kind == "space")
        return found
    licences = _values(data, "license")
    if not licences:
        add("license", rule="no license")
    for licence in licences:
        if licence not in HUB_IDS:
            add("license", licence)
    if "licence" in data:
        add("licence")
    if "other" in licences and not data.get("license_name"):
        add("license_name")
    for key in LISTS:
        value = data.get(key)
        is_plain = isinstance(value, str) and key in ("datasets", "language")
        if value is not None and not is_plain and not all(isinstance(each, str) for each in _values(data, key)):
            add(key, rule="list")
    for base in bases_of(data):
        if not REPO_ID.fullmatch(base):
            add("base_model", "a local path" if re.match(r"[/~.]|.*\\", base) else repr(base))
    for key, shape in RULES["shapes"].items():
        for value in _values(data, key) if key != "datasets" or kind == "model" else ():
            if not re.fullmatch(shape, str(value)):
                add(key, value)
    return found


def _values(data: dict[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else [] if value is None else [value]


FENCED = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z]+:|\.\./|/|discussions(?:/|$)")
IN_REPOSITORY = re.compile(r"^(?:\./)?(?:(?:blob|resolve|tree|raw)/[^/]+/)?")
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def lint_card(text: str, kind: str, files: Collection[str]) -> list[Diagnostic]:
    """Return what is wrong with a model's, data set's or Space's card: what the Hub refuses, and what misleads readers.

    `files` are those beside it, to look for what it links to.
    """
    found = front_matter_findings(text, kind)
    prose = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    body = "\n" * (len(text.splitlines()) - len(body_of(text).splitlines())) + body_of(prose)
    for pattern, what in RULES["placeholders"].items():
        if match := re.search(pattern, body):
            told = (f"{what} stands there: readers learn nothing", "write what is the case, or leave it out")
            found.append(_of_card(*told, _at(body, match)))
    for match in LINK.finditer(prose):
        target = match["target"].split("#")[0]
        if target and not ELSEWHERE.match(target) and IN_REPOSITORY.sub("", target) not in files:
            problem = f"the link to {target!r} leads nowhere: there is no such file beside the card"
            found.append(_of_card(problem, "add the file, or link to a full address", _at(prose, match)))
    return sorted(found, key=lambda each: (not each.is_error, each.line or 0))


def _at(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1
