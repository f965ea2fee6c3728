"""A second judge that reads some of the answers too, at the same time: how far are the two apart?"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

from evals.errors import BadConfig
from evals.refine.citation import copied
from evals.refine.grammar import WORD
from evals.refine.items import is_shared
from evals.refine.items import without as items_without
from evals.refine.judge import Verdicts, support_by_words
from evals.refine.report import read_made
from evals.refine.rubric import Item, share, static_items, value
from evals.refine.score import Prepared, Settled, settle
from evals.schema.refiner import STATIC, ItemReport, RefinerRecord
from training.config import RefinerSettings
from training.data.refiner import RefinerData

Judged = tuple[Prepared, Verdicts]
Noisy = Mapping[str, frozenset[str]]
"""Keys of items by record id."""


def noisy_items(judged: Iterable[Judged], limit: float) -> Noisy:
    """Return the items whose votes lie further apart than `limit`, a share 0..1 of the scale.

    An answer without votes, such as one that was judged too late, says nothing about any item.
    """
    seen: dict[str, dict[str, list[float]]] = {}
    for prepared, verdicts in judged:
        rows = seen.setdefault(prepared.record.id, {})
        if not verdicts.apart:
            continue
        for item, apart in zip(prepared.items, verdicts.apart, strict=True):
            rows.setdefault(item.key, []).append(apart)
    return {
        record_id: frozenset(key for key, values in rows.items() if fmean(values) > limit)
        for record_id, rows in seen.items()
    }


def without(prepared: Prepared, verdicts: Verdicts, keys: frozenset[str]) -> Judged:
    """Return an answer and its verdicts without some items; all verdicts missing if none is left."""
    left = [place for place, item in enumerate(prepared.items) if item.key not in keys]
    if not left:
        problem = "the judge does not agree with itself on any item"
        raws = (None,) * len(prepared.items)
        return prepared, replace(verdicts, raws=raws, problems=(*verdicts.problems, problem))
    return (
        replace(prepared, items=tuple(prepared.items[place] for place in left)),
        replace(
            verdicts,
            raws=tuple(verdicts.raws[place] for place in left),
            quotes=tuple(verdicts.quotes[place] for place in left),
            apart=tuple(verdicts.apart[place] for place in left) if verdicts.apart else (),
        ),
    )


Figures = Mapping[str, float | None]


def figures_of(prepared: Prepared, verdicts: Verdicts | None, settled: Settled) -> Figures:
    """Return the figures of one answer by the name they are logged under."""
    reading = prepared.reading
    ids = [name for claim in reading.claims for name in claim.ids]
    texts = [part.text for part in (*reading.claims, *reading.uncited)]
    return {
        "answer/words": float(sum(len(WORD.findall(text)) for text in texts)),
        "answer/claims": float(len(reading.claims)),
        "answer/ids_per_claim": len(ids) / len(reading.claims) if reading.claims else None,
        "answer/unknown_ids": (
            sum(name not in prepared.evidence for name in ids) / len(ids) if ids else None
        ),
        "answer/copied": copied(texts, prepared.evidence),
        "score/format": prepared.bonus,
        "score/rubric": settled.rubric,
        "score/citation_f1": settled.citation.f1,
        "score/from_negatives": from_negatives(prepared, verdicts),
        "judge/over_words": over_words(prepared, verdicts),
        "judge/apart": fmean(verdicts.apart) if verdicts is not None and verdicts.apart else None,
        "judge/canary": None if verdicts is None or verdicts.canary is None
        else float(verdicts.canary > 0),
    }  # fmt: skip


def means(rows: Iterable[Figures]) -> dict[str, float]:
    """Return the mean of each figure over the answers that it applies to; what applies to none is left out."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, each in row.items():
            if each is not None:
                columns.setdefault(name, []).append(each)
    return {name: fmean(column) for name, column in columns.items()}


def from_negatives(prepared: Prepared, verdicts: Verdicts | None) -> float | None:
    """Return the share of the rubric score that is earned by what an answer does not do."""
    if verdicts is None or any(raw is None for raw in verdicts.raws):
        return None
    earned = {"positive": 0.0, "negative": 0.0}
    for item, raw in zip(prepared.items, verdicts.raws, strict=True):
        got = value(item, share(raw, prepared.config.score_scale))
        earned[item.polarity] += item.weight * (got or 0.0)
    total = sum(earned.values())
    return earned["negative"] / total if total else None


def over_words(prepared: Prepared, verdicts: Verdicts | None) -> float | None:
    """Return how much more support the judge sees for the claims than a comparison of words, -1..1."""
    if verdicts is None:
        return None
    gaps = [
        got - support_by_words(claim.text, [prepared.evidence[name] for name in ids])
        for claim, ids, got in zip(prepared.reading.claims, prepared.cited, verdicts.support, strict=True)
        if ids and got is not None
    ]
    return fmean(gaps) if gaps else None


def group_spread(rows: Mapping[str, Mapping[str, Sequence[float]]]) -> float | None:
    """Return the mean standard deviation of an item's scores inside a group; None without a group."""
    spreads = [spread(scores) for items in rows.values() for scores in items.values() if len(scores) > 1]
    return fmean(spreads) if spreads else None


def spread(scores: Sequence[float]) -> float:
    """Return the standard deviation with n; ten times as fast as `statistics.pstdev`, which is exact."""
    mean = fmean(scores)
    return sqrt(fsum((score - mean) ** 2 for score in scores) / len(scores))


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


@dataclass(frozen=True)
class KeptItems:
    """A report on rubric items and the checksum of its file."""

    report: ItemReport
    sha256: str

    @property
    def dropped_static(self) -> frozenset[str]:
        """Keys of the items of the set that fits every record which are not asked."""
        return frozenset(
            item.key for item in static_items() if (STATIC, item.polarity, item.title) in self.report.dropped
        )


def kept_items(settings: RefinerSettings) -> KeptItems | None:
    """Return the report that settings name; None if they name none. LabError if it is not one."""
    return read_items(Path(settings.items_report).expanduser()) if settings.items_report else None


def read_items(path: Path) -> KeptItems:
    """Return a report as `assay refiner items` wrote it; LabError if it is missing or not one."""
    report, content = read_made(path, ItemReport, "report on rubric items", "assay refiner items")
    return KeptItems(report, hashlib.sha256(content).hexdigest())


def with_kept_items(data: RefinerData, kept: KeptItems | None, *, has_static: bool) -> RefinerData:
    """Return the data without the items that were dropped; records without an item left are left out.

    BadConfig if a pair that chose the items is about a group that is trained on, or if no item is left.
    """
    if kept is None:
        return data
    _refuse_shared(data, kept.report)
    dropped = kept.report.dropped
    left = data.changed(lambda record: items_without(record, dropped))
    lost = sum(map(_count, data.records)) - sum(map(_count, left.records))
    data = replace(left, dropped=_facts(kept, lost), dropped_static=kept.dropped_static)
    if has_static and len(kept.dropped_static) < len(static_items()):
        return data
    bare = [each.id for each in data.records if not _count(each)]
    if len(bare) == data.count:
        raise BadConfig(
            f"items_report drops every rubric item of all {data.count} records, so nothing is left to reward;"
            " look at the report's judge and pairs, or train without items_report."
        )
    return data.without(bare, "no rubric item left") if bare else data


def _facts(kept: KeptItems, lost: int) -> dict[str, str | int]:
    """Return what run.json keeps of how items were chosen; `lost` were dropped from records."""
    report = kept.report
    return {
        "items report sha256": kept.sha256,
        "items dropped from records": lost,
        "items dropped from the set for all records": len(kept.dropped_static),
        "items held against": f"{report.pairs - report.unreadable} held-out pairs, preferred by "
        + ", ".join(f"{who} ({n})" for who, n in report.preferred_by.items()),
        "items judged by": report.judge,
    }


def _refuse_shared(data: RefinerData, report: ItemReport) -> None:
    groups, traces = set(report.groups), set(report.traces)
    shared = [each for each in data.records if is_shared(each, groups, traces)]
    if not shared:
        return
    by_group = sorted({each.group for each in shared if each.group in groups})
    named = by_group or [f"what {each.id} asks or shows" for each in shared]
    raise BadConfig(
        f"items_report was made from pairs about {', '.join(named[:3])}"
        f"{' and others' if len(named) > 3 else ''}, which are trained on too, so its items were not"
        " chosen on held-out pairs; take them out of the data (assay refiner items --filtered"
        " writes the others), or use other pairs."
    )


def _count(record: RefinerRecord) -> int:
    return len(record.positive_rubrics) + len(record.negative_rubrics)


Look = tuple[Prepared, Settled, Prepared, Verdicts]
"""An answer as it was rewarded, with its reward; and as the second judge was asked, with its verdicts."""


def is_read_twice(case: Prepared, share: float) -> bool:
    """Whether an answer is in the share of the second judge: by its text, the same in every run."""
    text = f"{case.record.id}\n{case.completion}"
    place = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
    return place < share


def gap(looks: Iterable[Look], highest: float) -> float | None:
    """Return the mean distance of the two judges' rewards, 0..1 of the highest; None without a pair.

    Items that were left out of the reward are left out of the second judge's too.
    """
    gaps = []
    for rewarded, settled, asked, verdicts in looks:
        kept = {item.key for item in rewarded.items}
        left_out = frozenset(item.key for item in asked.items if item.key not in kept)
        other = settle(rewarded, without(asked, verdicts, left_out)[1]).reward
        if settled.reward is not None and other is not None:
            gaps.append(abs(settled.reward - other))
    return fmean(gaps) / highest if gaps else None
