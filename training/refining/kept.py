"""Rubric items that sided with the worse answer of held-out pairs, taken out of training.

The report comes from `assay refiner items`. Its pairs are about other groups of records, questions and passages
than those that are trained on, which is checked here. Knows nothing of torch.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from evals.errors import BadConfig
from evals.refiner.consistency import without
from evals.refiner.pairs import is_shared
from evals.refiner.report import read_made
from evals.refiner.rubric import static_items
from evals.schema.refinerpairs import ItemReport
from evals.schema.refining import STATIC, RefinerRecord
from training.refining.data import RefinerData
from training.refining.settings import RefinerSettings


@dataclass(frozen=True)
class KeptItems:
    """A report on rubric items and the checksum of its file."""

    report: ItemReport
    sha256: str

    @property
    def dropped_static(self) -> frozenset[str]:
        """Keys of the items of the set that fits every record which are not asked."""
        return frozenset(
            item.key
            for item in static_items()
            if (STATIC, item.polarity, item.title) in self.report.dropped
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
    left = data.changed(lambda record: without(record, dropped))
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
