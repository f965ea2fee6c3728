"""What rows hold, counted in one pass: how many of what, and how far those who labelled them agree."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.agreement import Rating, agreement
from evals.schema.reports import Metric
from evals.schema.reviews import CATEGORIES, SEVERITIES, UNKNOWN
from hub.rowkinds import Row, RowKind, values

RATERS = ("rater", "annotator", "user", "rater_id", "annotator_id", "user_id")
"""Columns that tell who judged."""
LABELS = {"category": (*CATEGORIES, UNKNOWN), "severity": (*SEVERITIES, UNKNOWN)}
SHOWN = 60
"""Different values that a table shows."""
NOT_GIVEN = "not given"


@dataclass
class Counts:
    """How many rows, how many different things, and tables of values with their n, most frequent first."""

    rows: int = 0
    distinct: dict[str, int] = field(default_factory=dict)
    spread: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    columns: dict[str, None] = field(default_factory=dict)
    inner: dict[str, dict[str, None]] = field(default_factory=dict)


def count(rows: Iterable[Row], kind: RowKind) -> Counts:
    """Return what rows of a kind hold; what no row has is not counted."""
    found = Counts()
    seen: dict[str, set[str]] = {name: set() for name in kind.distinct}
    tables: dict[str, Counter[str]] = {name: Counter() for name in kind.count_by}
    lengths: list[int] = []
    for row in rows:
        found.rows += 1
        found.columns |= dict.fromkeys(row)
        for name, path in kind.distinct.items():
            seen[name].update(map(str, values(row, path)))
        for name, path in kind.count_by.items():
            tables[name].update(map(_word, values(row, path)))
        for name in kind.inner:
            for each in values(row, f"{name}[]"):
                found.inner.setdefault(name, {}).update(dict.fromkeys(_columns(each)))
        if "concerns" in kind.inner:
            lengths.append(len(row.get("concerns") or []))
    found.distinct = {name: len(each) for name, each in seen.items()}
    found.spread = _lengths(lengths)
    found.tables = {name: _most(each) for name, each in tables.items() if set(each) - {NOT_GIVEN}}
    return found


def agreements(rows: Iterable[Row]) -> list[tuple[str, int, dict[str, Metric]]]:
    """Return, for each label of a concern, how many annotators gave it and how far they agree.

    A unit is a concern of a paper: by its `concern_id`, else by its words. Empty where no column tells
    who labelled.
    """
    ratings: dict[str, list[Rating]] = {label: [] for label in LABELS}
    for row in rows:
        for label, rating in _ratings(row):
            ratings[label].append(rating)
    return [
        (label, len({each.rater for each in given}), agreement(given, LABELS[label]))
        for label, given in ratings.items()
        if given
    ]


def _ratings(row: Row) -> Iterator[tuple[str, Rating]]:
    article = next(iter(values(row, "article_id|id")), "")
    for concern in row.get("concerns") or []:
        if not isinstance(concern, dict):
            continue
        who = _rater(concern) or _rater(row)
        words = concern.get("text") or concern.get("concern_text") or ""
        what = concern.get("concern_id") or " ".join(str(words).split())
        if not who or not what:
            continue
        for label in LABELS:
            if isinstance(concern.get(label), str):
                yield label, Rating(f"{article}\n{what}", who, concern[label])


def _rater(told: Mapping[str, Any]) -> str | None:
    return next((str(told[name]) for name in RATERS if told.get(name)), None)


def _columns(element: Any) -> Sequence[str]:
    return list(element) if isinstance(element, dict) else []


def _lengths(lengths: Sequence[int]) -> dict[str, str]:
    if not lengths:
        return {}
    mean = sum(lengths) / len(lengths)
    return {
        "concerns": f"{sum(lengths)}",
        "concerns in a row": f"{min(lengths)} to {max(lengths)}, {mean:.1f} on average",
        "rows without concerns": f"{sum(not each for each in lengths)}",
    }


def _most(counted: Counter[str]) -> list[tuple[str, int]]:
    ordered = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    rest = ordered[SHOWN:]
    more = [(f"{len(rest)} others", sum(n for _, n in rest))] if rest else []
    return ordered[:SHOWN] + more


def _word(value: Any) -> str:
    if value is None or value == "":
        return NOT_GIVEN
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
