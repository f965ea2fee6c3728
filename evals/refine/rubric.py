"""Rubric items and their score: what a judge saw of each behaviour, turned round for unwanted ones.

v = s for a wanted behaviour and 1 - s for an unwanted one, s = clamp(raw / scale, 0, 1);
the score is the weighted mean of v. A missing verdict makes the score missing, never 0.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from evals.schema.refiner import BehaviourItem, Polarity, RefinerRecord, RewardConfig


@dataclass(frozen=True, slots=True)
class Item:
    """One behaviour that an answer is graded by. `key` is unique among the items of a record."""

    key: str
    title: str
    description: str
    polarity: Polarity
    weight: float = 1.0
    origin: Literal["instance", "static"] = "instance"


def items_of(record: RefinerRecord, config: RewardConfig) -> tuple[Item, ...]:
    """Return the items of a record: its wanted ones, its unwanted ones, then the static set if it is on."""
    sides: tuple[tuple[str, Polarity, Sequence[BehaviourItem]], ...] = (
        ("+", "positive", record.positive_rubrics),
        ("-", "negative", record.negative_rubrics),
    )
    own = (
        Item(f"{sign}:{each.title}", each.title, each.description, polarity, each.weight)
        for sign, polarity, items in sides
        for each in items
    )
    return (*own, *(static_items() if config.static_rubrics else ()))


@cache
def static_items() -> tuple[Item, ...]:
    """Return the items that every record is graded by, from static.json."""
    rows = json.loads(files("evals.refine").joinpath("static.json").read_text(encoding="utf-8"))
    return tuple(
        Item(f"static:{row['title']}", row["title"], row["description"], row["polarity"], 1.0, "static") for row in rows
    )


def share(raw: float | None, scale: float) -> float | None:
    """Return a judge's number as a share 0..1 of the scale; what is out of range is clamped."""
    return None if raw is None else min(1.0, max(0.0, raw / scale))


def value(item: Item, score: float | None) -> float | None:
    """Return what a score earns: itself, or for an unwanted behaviour what is left of 1."""
    if score is None or item.polarity == "positive":
        return score
    return 1.0 - score


def rubric_score(items: Sequence[Item], raws: Iterable[float | None], scale: float) -> float | None:
    """Return the weighted mean of what the items earn, 0..1; None if a verdict is missing. Needs at least one item."""
    values = [value(item, share(raw, scale)) for item, raw in zip(items, raws, strict=True)]
    known = [each for each in values if each is not None]
    if len(known) < len(values):
        return None
    earned = math.fsum(item.weight * each for item, each in zip(items, known, strict=True))
    return min(1.0, earned / math.fsum(item.weight for item in items))
