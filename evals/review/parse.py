"""A model's output as concerns: read whatever way it was written, with what was wrong named.

Valid JSON is read by the standard library, broken JSON object by object by json-repair, and prose by its bullets.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

import json_repair

from evals.review.clean import (
    CATEGORY_KEYS,
    DETAIL_KEYS,
    NOTHING,
    PASSED_OVER,
    PATTERNS,
    SEVERITY_KEYS,
    TEXT_KEYS,
    Candidate,
    CutText,
    category_of,
    is_label,
    n_words,
    plain_label,
    severity_of,
    without_lead,
)
from evals.review.prose import BULLET, FULL, prose_items
from evals.schema.reviews import UNKNOWN, Concern, ParsedReview

_SPECIAL = re.compile(r"<\|[a-z_]{1,30}\|>|<(?:end_of_turn|eos|/s)>", re.IGNORECASE)


def answer_of(raw: str) -> tuple[str, str, bool]:
    """Return what a model answers, what it wrote while thinking, and whether that never ended.

    answer_of("<think>[1] looks weak</think>[]")  ->  ("[]", "[1] looks weak", False)
    """
    text = raw.lstrip("\ufeff")
    *before, last = PATTERNS["answer"].split(text)
    if before:
        return _plain(last), "\n".join(before), False
    *before, last = PATTERNS["close"].split(text)
    last, *unfinished = PATTERNS["open"].split(last)
    kept, thoughts = [], unfinished.copy()
    for each in before:
        *start, thought = PATTERNS["open"].split(each)  # nothing before it where the template opened the block
        kept += start[:1]
        thoughts.append(thought)
    return _plain("\n".join([*kept, last])), "\n".join(thoughts), bool(unfinished)


def _plain(text: str) -> str:
    """Return a text without marks of a chat template; JSON that was written as a string is opened."""
    text = _SPECIAL.sub("\n", text)
    if re.search(r'[{,]\s*\\"', text) and not re.search(r'[{,]\s*"', text):
        text = re.sub(r'\\([\\"n])', lambda mark: "\n" if mark[1] == "n" else mark[1], text)
    return text.strip()


_KNOWN = "|".join(sorted((*TEXT_KEYS, *CATEGORY_KEYS, *SEVERITY_KEYS), key=lambda key: (-len(key), key)))
_QUOTE = "[\"'“”‘’`]"
_KEY = re.compile(
    rf"(?P<brace>\{{\s{{0,9}})?(?:{_QUOTE}\s?({_KNOWN})(?:\s?{_QUOTE}{{0,2}}\s{{0,9}}:(?!//)|{_QUOTE}\s{{0,9}}(?={_QUOTE}))"
    rf"|(?<![\w\"'])({_KNOWN})(?:{_QUOTE}\s{{0,9}}:|\s{{0,9}}:(?=\s{{0,9}}[\"“])))",
    re.IGNORECASE,
)
"""A key of ours, where one of its quotes, its colon or the brace before it may be lost."""
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
MOST_TOO_DEEP = 10
"""So many objects that stand too deep in each other are tried: a model that never stops opening them means none."""
MOST_KEYS = 12
"""Keys of one object that are looked at."""


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
    position, n_inside, starts, too_deep = 0, -1, [key.start() for key in keys], 0
    while (start := _START.search(text, position)) is not None:
        ahead = keys[(at := bisect_left(starts, start.start())) : at + MOST_KEYS]
        region = _strict(text, start.start())
        if region is None and too_deep < MOST_TOO_DEEP:
            try:
                region = _repair_object(text, start.start(), ahead)
            except (RecursionError, ValueError):
                too_deep += 1
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
    if text.rfind("]" if text[start] == "[" else "}") < start:  # never closed
        return None
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return Region(value, start, end, True, False) if isinstance(value, dict | list) else None


def _repair_object(text: str, start: int, keys: list[re.Match[str]]) -> Region | None:
    """Return the broken object that starts here, up to the key that begins the next one; None if there is none.

    ValueError or RecursionError if objects stand too deep in each other.
    """
    seen: set[str] = set()
    end, last = len(text), start
    for key in keys:
        name = (key[2] or key[3] or "").lower()
        if key.start() > start and (not seen or name in seen):
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
    written = text[start:end].rstrip()
    is_cut = end == len(text) and not written.endswith(("}", "]"))
    if is_cut:
        written = _KEY_BEGUN.sub(r"\1", written)

    def repair(key: re.Match[str]) -> str:
        name = key[2] or key[3]
        return f'{key["brace"] or ""}"{name}": ' if name else key[0]

    named = _LOST_QUOTE.sub(r'",\1', _KEY.sub(repair, written))
    value = json_repair.loads(named if named[0] in "[{" else "{" + named, skip_json_loads=True)
    if not isinstance(value, dict if written[0] == "{" else dict | list):
        return None
    return Region(_cut(value) if is_cut and not _CLOSED_STRING.search(written) else value, start, end, False, is_cut)


def _cut(value: object) -> object:
    """Return a value whose last string is marked as cut."""
    if isinstance(value, str):
        return CutText(value)
    if isinstance(value, dict) and value:
        return {**value, (last := list(value)[-1]): _cut(value[last])}
    return [*value[:-1], _cut(value[-1])] if isinstance(value, list) and value else value


DEEPEST = 40
"""Brackets within brackets that are followed; more is noise."""
_NUMBERED = re.compile(r"(?:concern|issue|point|comment|weakness|item)?[ _]?#?\d+", re.IGNORECASE)


def items(value: object, around: Candidate = NOTHING, depth: int = 0) -> Iterator[Candidate]:
    """Yield the concerns in a value of JSON, in order, with those that cannot be used.

    items([{"text": "No control.", "severity": "major"}])  ->  Candidate("No control.", None, "major")
    """
    if isinstance(value, list) and depth < DEEPEST:
        labels = [each for each in value if isinstance(each, str) and is_label(each)]
        if len(value) - len(labels) == 1:  # ["No control.", "design_flaw", "major"]
            around = around.with_labels(*labels)
        for each in value:
            if not isinstance(each, str):
                yield from items(each, around, depth + 1)
            elif each not in labels:
                yield around.with_text(each)
    if not isinstance(value, dict) or depth >= DEEPEST:
        return
    members = {str(key).lower().strip(): inside for key, inside in value.items()}
    texts = {key: inside for key, inside in members.items() if isinstance(inside, str)}
    category = next((texts.pop(key) for key in list(texts) if key in CATEGORY_KEYS), around.category)
    severity = next((texts.pop(key) for key in list(texts) if key in SEVERITY_KEYS), around.severity)
    around = replace(around, category=category, severity=severity)
    has_labels = not {*CATEGORY_KEYS, *SEVERITY_KEYS}.isdisjoint(members)
    name = next((key for key in TEXT_KEYS if key in texts), None)
    if name is None and has_labels:  # the text under a key that nobody knows
        name = max((key for key in texts if " " in texts[key]), key=lambda key: len(texts[key]), default=None)
    if name and n_words(texts[name]) < FULL and texts[name].rstrip()[-1:] not in (".", "!", "?"):  # a heading
        more = next((texts[key] for key in (*DETAIL_KEYS, *TEXT_KEYS) if key != name and texts.get(key)), "")
        texts[name] = f"{texts[name]}: {more}" if " " in more else texts[name]
    found = [around.with_text(texts[name])] if name else []
    for key, inside in members.items():  # a key that is a label labels what it holds
        if plain_label(key) in PASSED_OVER:
            continue
        if not isinstance(inside, str):
            found += items(inside, around.with_labels(key) if is_label(key) else around, depth + 1)
        elif is_label(key) or _NUMBERED.fullmatch(key):
            found.append(around.with_labels(key).with_text(inside))
    if not found and members.keys() & {*TEXT_KEYS[: None if has_labels else 2]}:
        found.append(replace(around, lost="has no text"))
    yield from found


LONGEST_NONE = 40
"""Words of an answer that says there are no concerns."""
SHOWN = 40
"""Characters of an unknown label that a problem shows."""

_SEPARATORS = re.compile(r"(?:[\s,;\]\[{}`]|//[^\n]*|/\*.*?\*/|json\b)*", re.DOTALL)
_FINAL = re.compile(r"\b(?:final|revised|corrected|updated|improved|actual)\b", re.IGNORECASE)


@dataclass(frozen=True)
class _Found:
    """Items of one list, the prose that announces it, and how it was read."""

    items: list[Candidate]
    before: str = ""
    is_valid: bool = True
    is_cut: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether any of the items can be used."""
        return any(item.lost is None for item in self.items)


def parse(name: str, raw: str | None) -> ParsedReview:
    """Return the concerns in a model's output; nothing in it raises.

    parse("a", '[{"text": "No control.", "category": "design", "severity": "major"}]').concerns
    ->  (Concern(text="No control.", category="design_flaw", severity="major"),)

    A number or a severity before a concern is no part of its text ("Major 1. No control."); the severity
    counts where none is given otherwise.
    """
    if raw is None or not raw.strip():
        return _failure(name, "there is no output")
    raw = PATTERNS["latex"].sub(r"\\\\", raw) if '"' in raw else raw
    whole = _strict(raw.strip(), 0) if raw.strip()[0] in "[{" else None
    is_json = whole is not None and whole.end == len(raw.strip())
    answer, reasoning, is_unfinished = (raw.strip(), "", False) if is_json else answer_of(raw)
    problems: list[str] = []
    found = _read(answer, problems)
    if is_unfinished:
        problems.append("the reasoning never ends")
    if not found.is_usable and not _says_none(answer):
        inside = _read(reasoning, [])
        if inside.is_usable:
            problems.append("the concerns are in the reasoning; no answer follows it")
            return _review(name, inside, problems, is_whole=False)
    if not found.items and _says_none(answer):
        return ParsedReview(id=name, status="empty", concerns=(), problems=tuple(problems))
    return _review(name, found, problems, is_whole=not is_unfinished)


def _review(name: str, found: _Found, problems: list[str], *, is_whole: bool) -> ParsedReview:
    concerns, n_none = list[Concern](), 0
    if found.is_cut:
        problems.append("the output ends before its list does")
    for place, item in enumerate(found.items, start=1):
        if why := item.lost or none_in(item.text):
            problems.append(f"concern {place} {why}")
            n_none += item.lost is None
            continue
        if item.is_cut:
            problems.append(f"concern {place} is cut off")
        text, graded = without_lead(item.text)
        category, severity = category_of(item.category), severity_of(item.severity)
        if severity == UNKNOWN:
            severity = severity_of(graded)
        for kind, written, label in (("category", item.category, category), ("severity", item.severity, severity)):
            if label == UNKNOWN and written is not None and written.strip().lower() not in ("", UNKNOWN):
                problems.append(f"concern {place}: unknown {kind} {written[:SHOWN]!r}")
        concerns.append(Concern(text=text, category=category, severity=severity))
    if not concerns:
        return _failure(name, *problems, "no concern can be read")
    is_whole = is_whole and not found.is_cut and len(concerns) + n_none == len(found.items)
    return ParsedReview(
        id=name, status="ok" if is_whole else "partial", concerns=tuple(concerns), problems=tuple(problems)
    )


def _failure(name: str, *problems: str) -> ParsedReview:
    return ParsedReview(id=name, status="failed", concerns=(), problems=problems)


def _read(text: str, problems: list[str]) -> _Found:
    """Return the items of an answer: of its JSON, or of its prose where that holds none."""
    lists: list[_Found] = []
    end = 0
    for region in regions(text):  # values with only commas between are one list
        inside, before, end = list(items(region.value)), text[end : region.start], region.end
        last = lists[-1] if lists else None
        if inside and last and _SEPARATORS.fullmatch(before):
            is_valid = last.is_valid and region.is_valid
            lists[-1] = _Found(last.items + inside, last.before, is_valid, region.is_cut)
        elif inside:
            lists.append(_Found(inside, before, region.is_valid, region.is_cut))
        elif last and region.is_cut:
            lists[-1] = replace(last, is_cut=True)
    usable = [found for found in lists if found.is_usable]
    chosen = [found for found in usable[1:] if _FINAL.search(found.before[-200:])][-1:] or usable
    joined = [item for found in chosen or lists for item in found.items]
    if not chosen:
        if not (written := prose_items(text)):
            return _Found(joined)
        problems.append("this is a list in prose, not JSON")
        return _Found(written)
    if not all(found.is_valid for found in chosen):
        problems.append("this is not valid JSON; it was read as far as it can be")
    if len(chosen) > 1:
        problems.append(f"there are {len(chosen)} lists; they were joined")
        joined = list({item.text.casefold(): item for item in reversed(joined)}.values())[::-1]
    return _Found(joined, is_cut=chosen[-1].is_cut)


def _says_none(text: str) -> bool:
    """Return whether an answer says that there are no concerns."""
    bare = re.sub(r"^```\w*|```$", "", text.strip()).strip()
    values = [region.value for region in regions(bare)]
    is_empty = any(value == [] or (isinstance(value, dict) and not any(value.values())) for value in values)
    if is_empty or n_words(bare) > LONGEST_NONE or any(map(BULLET.match, bare.splitlines())):
        return is_empty
    return bool(PATTERNS["none"].fullmatch(bare.strip("\"'*_#.!。 "))) and not PATTERNS["contrast"].search(bare)


def none_in(text: str) -> str | None:
    """Return why an item of a list is no concern: "is a refusal" and the like; None if it may be one."""
    why = next((name for name, each in PATTERNS.items() if name.startswith("is ") and each.fullmatch(text)), None)
    return None if why == "is praise" and PATTERNS["doubt"].search(text) else why
