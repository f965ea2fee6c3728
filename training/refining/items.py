"""Which rubric items still tell the answers to a question apart, and which are not asked any more.

An item on which all answers of a group were alike, `retire_after` visits in a row, only adds a constant
and the judge's noise: it is retired for that record. One item of a record always stays. Held-out records
are always graded by all items.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evals.refiner.rubric import Item

Seen = dict[str, dict[str, list[float]]]
"""Scores by record id and item key, one for each judged answer."""


@dataclass
class ItemBook:
    """How often in a row each item was without variance, by record id and item key.

    The reward notes what it sees; `take` and `settle` are called between steps, so that several processes
    that share a group of answers agree on its items.
    """

    retire_after: int = 0
    alike: dict[str, dict[str, int]] = field(default_factory=dict)
    seen: Seen = field(default_factory=dict)

    def asked(self, record_id: str, items: Sequence[Item]) -> tuple[Item, ...]:
        """Return the items that answers to a record are graded by; at least one."""
        runs = self.alike.get(record_id, {})
        left = tuple(item for item in items if not self._is_retired(runs.get(item.key, 0)))
        return left or tuple(items[:1])

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
            for key, scores in rows.items():
                if len(scores) > 1:
                    runs[key] = runs.get(key, 0) + 1 if len(set(scores)) == 1 else 0

    @property
    def retired(self) -> int:
        """How many items are not asked any more, over all records."""
        return sum(self._is_retired(run) for runs in self.alike.values() for run in runs.values())

    def load(self, alike: Mapping[str, Mapping[str, int]]) -> None:
        """Go on from what a checkpoint kept."""
        self.alike = {record_id: dict(runs) for record_id, runs in alike.items()}

    def _is_retired(self, run: int) -> bool:
        return bool(self.retire_after) and run >= self.retire_after
