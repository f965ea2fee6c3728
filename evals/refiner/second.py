"""A second set of rubric items for our held-out records: a gain on the first set alone shows beside it.

No record is trained with these items. They were written after the first set and without looking at an
answer of a model: for the invented studies by hand (second.json), for the enrichment scores by rule, from
the passages. Both sets are ours, so this is another set and not another teacher; sets of others come
from a file (`read_other_items`).
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from evals.errors import BadConfig
from evals.facts import load_hallmark
from evals.jsonl import read_rows
from evals.refiner.bank import refiner_bank
from evals.refiner.evidence import evidence_of
from evals.refiner.rubric import Item, instance_items
from evals.schema.refineritems import OtherItems
from evals.schema.refining import RefinerRecord, RubricItem

SOURCE = "second set"
PASSAGE = re.compile(
    r"(?P<mission>.+?) \([^)]+\), mouse \w+, gene set (?P<name>.+): NES .+, (?:it is (?P<way>up|down) in"
    r" flight|no significant change)\."
)


@dataclass(frozen=True)
class OtherSet:
    """Items by record id, what their set is called, and a checksum of it.

    `unasked` counts the rows of a file about records that are not asked.
    """

    name: str
    items: Mapping[str, tuple[Item, ...]]
    sha256: str
    unasked: int = 0

    @classmethod
    def of(cls, name: str, rows: Iterable[OtherItems]) -> "OtherSet":
        """Return the set that the rows make; several rows may be about one record."""
        found: dict[str, tuple[Item, ...]] = {}
        lines = []
        for row in rows:
            lines.append(json.dumps(row.model_dump(mode="json"), sort_keys=True))
            sides = (row.positive_rubrics, row.negative_rubrics)
            wanted, unwanted = ([_by(each, row.source) for each in side] for side in sides)
            found[row.record] = (*found.get(row.record, ()), *instance_items(wanted, unwanted))
        digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
        return cls(name, found, digest)


def read_other_items(path: Path, records: Sequence[RefinerRecord], name: str) -> OtherSet:
    """Return the items of a JSONL file; BadRow names line and field of what is wrong.

    BadConfig if they are about none of the records, or if a writer has items inside the records too.
    """
    rows = read_rows(path, OtherItems, key=lambda row: f"{row.record} by {row.source}")
    known = {record.id for record in records}
    unasked = sum(row.record not in known for row in rows)
    if unasked == len(rows):
        raise BadConfig(
            f"{path} has items for {len(rows)} records, such as {rows[0].record!r}, but none of them is asked;"
            " `record` is the id of a record in the data."
        )
    inside = {
        each.source
        for record in records
        for each in (*record.positive_rubrics, *record.negative_rubrics)
    }
    if both := sorted({row.source for row in rows} & inside):
        raise BadConfig(
            f"{path} has items by {both[0]!r}, who wrote items of the records too, and one figure cannot stand"
            " for both; give the set's rows another `source`, or leave it out."
        )
    return replace(OtherSet.of(name, rows), unasked=unasked)


@cache
def second_set() -> OtherSet:
    """Return our own second set, for the records of refiner-test."""
    return OtherSet.of(SOURCE, map(_row, sorted(refiner_bank().test, key=lambda record: record.id)))


def _by(item: RubricItem, source: str) -> RubricItem:
    return item.model_copy(update={"source": source})


def _row(record: RefinerRecord) -> OtherItems:
    sides = _written().get(record.id) or _by_rule(record)
    wanted, unwanted = (
        tuple(RubricItem(title=title, description=text) for title, text in sides[side])
        for side in ("wanted", "unwanted")
    )
    return OtherItems(
        record=record.id, source=SOURCE, positive_rubrics=wanted, negative_rubrics=unwanted
    )


Sides = Mapping[str, Sequence[Sequence[str]]]


@cache
def _written() -> Mapping[str, Sides]:
    return json.loads(files("evals.refiner").joinpath("second.json").read_text(encoding="utf-8"))


def _by_rule(record: RefinerRecord) -> Sides:
    """Return items for a question about a gene set in a tissue, from what its passages say."""
    name = load_hallmark()[record.id.removesuffix("/without").rpartition("/")[2]].name
    read = [
        found
        for text in evidence_of(record.tool_output).values()
        if (found := PASSAGE.fullmatch(text))
    ]
    others = sorted({found["name"] for found in read} - {name})
    unwanted = [
        ("Another gene set", f'Speaks of a gene set that was not asked for, "{"|".join(others)}".'),
        ("Beyond mice", 'Speaks of "humans|people|astronauts|patients".'),
    ]
    if not record.answerable:
        missions = sorted({found["mission"] for found in read})
        named = ("Names a mission", f'Names a mission, "{"|".join(missions)}", though none tells.')
        return {"wanted": [("Subject", f'Speaks of "{name}".')], "unwanted": [named, *unwanted]}
    ways = {found["mission"]: found["way"] for found in read if found["name"] == name}
    shown = _shown(ways, is_dispute="/uncertainty/" in record.id)
    all_missions = " and ".join(f'"{mission}"' for mission in shown)
    wanted = [
        ("Subject", f'Speaks of "{name}" in "{record.group.rpartition("/")[2]}".'),
        ("All missions", f"Names all missions that show it: {all_missions}."),
    ]
    return {"wanted": wanted, "unwanted": unwanted}


def _shown(ways: Mapping[str, str | None], *, is_dispute: bool) -> list[str]:
    """Return the missions with a direction, or those with the direction that most have."""
    told = [way for way in ways.values() if way]
    most = max(sorted(set(told)), key=told.count)
    return sorted(mission for mission, way in ways.items() if way and (is_dispute or way == most))
