"""A model's output as concerns: read whatever way it was written, with what was wrong named."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evals.concerns.answer import answer_of
from evals.concerns.items import Item, items
from evals.concerns.labels import category_of, severity_of
from evals.concerns.leads import without_lead
from evals.concerns.lenient import Region, regions
from evals.concerns.prose import prose_items
from evals.schema.reviews import UNKNOWN, Concern, ParsedReview, ParseStatus

SHOWN = 40
"""Characters of an unknown label that a problem shows."""

_SEPARATORS = re.compile(r"[\s,;\]\[`]*(?:json)?[\s,;\]\[`]*")
_FINAL = re.compile(r"\b(?:final|revised|corrected|updated|improved|actual)\b", re.IGNORECASE)
_DRAFT = re.compile(r"\b(?:draft|example|format|first pass|template|schema)\b", re.IGNORECASE)
_NONE = re.compile(
    r"\W*(?:none|null|\{\s*\}|n/a|(?:there are |i have |i found )?no (?:major |further |specific )?"
    r"(?:concerns?|issues?|comments?)(?: (?:found|identified|to report|to raise|were found|at all))?)\W*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Found:
    """Items of one list, the prose that announces it, and how it was read."""

    items: list[Item]
    before: str
    is_valid: bool
    is_cut: bool


def parse(name: str, raw: str | None) -> ParsedReview:
    """Return the concerns in a model's output; nothing in it raises.

    parse("a", '[{"text": "No control.", "category": "design", "severity": "major"}]').concerns
    ->  (Concern(text="No control.", category="design_flaw", severity="major"),)

    A number or a severity before a concern is no part of its text ("Major 1. No control."); the severity
    counts where none is given otherwise.
    """
    if raw is None or not raw.strip():
        return _failed(name, "there is no output")
    answer = answer_of(raw)
    problems: list[str] = []
    found = _read(answer.text, problems)
    if answer.is_unfinished:
        problems.append("the reasoning never ends")
    if not _usable(found.items) and not _says_none(answer.text):
        inside = _read(answer.reasoning, [])
        if _usable(inside.items):
            problems.append("the concerns stand in the reasoning; there is no answer after it")
            return _review(name, inside, problems, is_whole=False)
    if not found.items:
        if _says_none(answer.text):
            return ParsedReview(id=name, status="empty", concerns=(), problems=tuple(problems))
        return _failed(name, *problems, "no concern can be read")
    return _review(name, found, problems, is_whole=not answer.is_unfinished)


def _review(name: str, found: _Found, problems: list[str], *, is_whole: bool) -> ParsedReview:
    concerns: list[Concern] = []
    is_whole = is_whole and not found.is_cut
    if found.is_cut:
        problems.append("the output ends before its list does")
    for place, item in enumerate(found.items, start=1):
        if item.lost is not None:
            problems.append(f"concern {place} {item.lost}")
            is_whole = False
            continue
        if item.is_cut:
            problems.append(f"concern {place} is cut off")
        text, graded = without_lead(item.text)
        category, severity = category_of(item.category), severity_of(item.severity)
        if severity == UNKNOWN:
            severity = severity_of(graded)
        problems += _unknown(place, "category", item.category, category)
        problems += _unknown(place, "severity", item.severity, severity)
        concerns.append(Concern(text=text, category=category, severity=severity))
    if not concerns:
        return _failed(name, *problems, "no concern can be read")
    status: ParseStatus = "ok" if is_whole else "partial"
    return ParsedReview(id=name, status=status, concerns=tuple(concerns), problems=tuple(problems))


def _unknown(place: int, field: str, written: str | None, label: str) -> list[str]:
    if label != UNKNOWN or written is None or written.strip().lower() == UNKNOWN:
        return []
    return [f"concern {place}: unknown {field} {written[:SHOWN]!r}"]


def _failed(name: str, *problems: str) -> ParsedReview:
    return ParsedReview(id=name, status="failed", concerns=(), problems=problems)


def _read(text: str, problems: list[str]) -> _Found:
    """Return the items of an answer: of its JSON, or of its prose where that holds none."""
    lists = _lists(text)
    chosen = _chosen(lists)
    if any(_usable(found.items) for found in chosen):
        if not all(found.is_valid for found in chosen):
            problems.append("this is not valid JSON; it was read as far as it can be")
        if len(chosen) > 1:
            problems.append(f"there are {len(chosen)} lists; they were joined")
        joined = _without_twins([item for found in chosen for item in found.items], len(chosen))
        return _Found(joined, "", True, chosen[-1].is_cut)
    written = prose_items(text)
    if written:
        problems.append("this is a list in prose, not JSON")
        return _Found(written, "", False, False)
    return _Found([item for found in lists for item in found.items], "", False, False)


def _lists(text: str) -> list[_Found]:
    """Return the values of a text that hold items; values with only commas between are one list."""
    found: list[_Found] = []
    end = 0
    last_end = -1
    for region in regions(text):
        inside = items(region.value)
        if inside:
            before = text[end : region.start]
            if found and last_end == end and _SEPARATORS.fullmatch(before):
                found[-1] = _joined(found[-1], inside, region)
            else:
                found.append(_Found(inside, before, region.is_valid, region.is_cut))
            last_end = region.end
        end = region.end
    return found


def _joined(first: _Found, inside: list[Item], region: Region) -> _Found:
    return _Found(
        first.items + inside, first.before, first.is_valid and region.is_valid, region.is_cut
    )


def _chosen(lists: Sequence[_Found]) -> list[_Found]:
    """Return the lists that answer: the last that calls itself final, else all that are no drafts."""
    usable = [found for found in lists if _usable(found.items)]
    for found in reversed(usable[1:]):
        if _FINAL.search(found.before[-200:]):
            return [found]
    asked = [found for found in usable if not _DRAFT.search(found.before[-80:])]
    return asked or usable


def _without_twins(found: list[Item], n_lists: int) -> list[Item]:
    """Return items without those that a later list says again word for word."""
    if n_lists < 2:
        return found
    return list({item.text.casefold(): item for item in reversed(found)}.values())[::-1]


def _usable(found: Sequence[Item]) -> bool:
    return any(item.lost is None for item in found)


def _says_none(text: str) -> bool:
    """Return whether an answer says that there are no concerns."""
    bare = re.sub(r"^```\w*|```$", "", text.strip()).strip()
    if _NONE.fullmatch(bare):
        return True
    read = regions(bare)
    return any(_is_empty(region.value) for region in read) and not any(
        items(region.value) for region in read
    )


def _is_empty(value: object) -> bool:
    """Return whether a value is an empty list, or an object whose only list is empty."""
    if isinstance(value, list):
        return not value
    pairs = getattr(value, "pairs", ())
    return any(isinstance(inside, list) and not inside for _, inside in pairs)
