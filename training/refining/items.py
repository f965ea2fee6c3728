"""Which rubric items tell the answers to a question apart: how they weigh, and which are asked no more.

An item on which all answers of a group were alike, `retire_after` visits in a row, only adds a constant
and the judge's noise: it is retired for that record. One item of a record always stays. With contrast, an
item weighs by how far it told the answers apart at the last visit, beside the item that did most. Held-out
records are always graded by all items as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evals.refiner.rubric import Item
from training.refining.figures import spread

Seen = dict[str, dict[str, list[float]]]
"""Scores by record id and item key, one for each judged answer."""


@dataclass
class ItemBook:
    """How often in a row each item was without variance, by record id and item key, and its last spread.

    `contrast_floor` is the least share of its weight that an item keeps; 1 = all weigh as they are.
    `dropped` are keys of items that are never asked. The reward notes what it sees; `take` and `settle`
    are called between steps, so that several processes that share a group of answers agree on its items.
    """

    retire_after: int = 0
    contrast_floor: float = 1.0
    dropped: frozenset[str] = frozenset()
    alike: dict[str, dict[str, int]] = field(default_factory=dict)
    spreads: dict[str, dict[str, float]] = field(default_factory=dict)
    seen: Seen = field(default_factory=dict)

    def asked(self, record_id: str, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items that answers to a record are graded by, and their weights; at least one."""
        runs = self.alike.get(record_id, {})
        items = [item for item in items if item.key not in self.dropped]
        left = tuple(item for item in items if not self._is_retired(runs.get(item.key, 0)))
        return self._weighted(record_id, left or tuple(items[:1]))

    def note(self, record_id: str, items: Sequence[Item], scores: Sequence[float | None]) -> None:
        """Remember what a judge saw in one answer."""
        rows = self.seen.setdefault(record_id, {})
        for item, score in zip(items, scores, strict=True):
            if score is not None:
                rows.setdefault(item.key, []).append(score)

    def take(self) -> Seen:
        """Return what was noted since the last time."""
        taken, self.seen = self.seen, {}
        return taken

    def settle(self, parts: Sequence[Seen]) -> None:
        """Count one visit of every record in what all processes noted."""
        together: Seen = {}
        for part in parts:
            for record_id, rows in part.items():
                for key, scores in rows.items():
                    together.setdefault(record_id, {}).setdefault(key, []).extend(scores)
        for record_id, rows in together.items():
            runs = self.alike.setdefault(record_id, {})
            spreads = self.spreads.setdefault(record_id, {})
            for key, scores in rows.items():
                if len(scores) > 1:
                    runs[key] = runs.get(key, 0) + 1 if len(set(scores)) == 1 else 0
                    spreads[key] = spread(scores)

    @property
    def retired(self) -> int:
        """How many items are not asked any more, over all records."""
        return sum(self._is_retired(run) for runs in self.alike.values() for run in runs.values())

    def kept(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"alike": self.alike, "spreads": self.spreads}

    def load(self, kept: Mapping[str, Any]) -> None:
        """Go on from what a checkpoint kept."""
        self.alike = {record_id: dict(runs) for record_id, runs in kept["alike"].items()}
        spreads = kept.get("spreads", {})  # checkpoints written before there were any
        self.spreads = {record_id: dict(rows) for record_id, rows in spreads.items()}

    def _weighted(self, record_id: str, items: tuple[Item, ...]) -> tuple[Item, ...]:
        """Return the items with their weights by contrast; as they are where none told answers apart."""
        spreads = self.spreads.get(record_id, {})
        most = max((spreads.get(item.key, 0.0) for item in items), default=0.0)
        if self.contrast_floor >= 1.0 or not most:
            return items
        return tuple(
            replace(
                item,
                weight=item.weight * max(self.contrast_floor, spreads.get(item.key, most) / most),
            )
            for item in items
        )

    def _is_retired(self, run: int) -> bool:
        return bool(self.retire_after) and run >= self.retire_after
