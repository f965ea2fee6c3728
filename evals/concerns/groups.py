"""Intervals of the rates of a source, a category, a severity: articles are drawn, groups follow."""

from collections.abc import Sequence

import numpy as np

from evals.concerns.counts import f1_of, ratio
from evals.concerns.match import Matching
from evals.concerns.panel import CATEGORY_NAMES, SEVERITY_NAMES, Panel
from evals.intervals import Floats, Units, Whole, is_point, percentile_interval, resample
from evals.schema.reviewscores import GroupSpans

GroupIntervals = dict[str, dict[str, GroupSpans]]
COLUMNS = 3
"""Matched, human and predicted concerns."""


def group_intervals_of(panel: Panel, found: Matching, draws: int, seed: int) -> GroupIntervals:
    """Return intervals by "source", "category" and "severity" for the groups that humans wrote in."""
    names, member = np.unique(np.array(panel.sources), return_inverse=True)
    of_source = member.astype(np.intp)
    kinds: dict[str, tuple[Sequence[str], Whole]] = {
        "source": ([str(name) for name in names], of_source[panel.human.article]),
        "category": (CATEGORY_NAMES, panel.human.category),
        "severity": (SEVERITY_NAMES, panel.human.severity),
    }
    # A predicted concern of a source belongs to its article, elsewhere to the human one it is nearest to.
    near = np.where(found.is_matched, found.human, found.nearest)
    said = {
        "source": of_source[panel.predicted.article],
        **{kind: _labels(kinds[kind][1], near) for kind in ("category", "severity")},
    }
    tables = {
        kind: _table(panel, found, (label, said[kind]), len(groups))
        for kind, (groups, label) in kinds.items()
    }
    spans = _spans(list(tables.values()), draws, seed)
    found_by_kind: GroupIntervals = {}
    start = 0
    for kind, (groups, label) in kinds.items():
        is_there = np.bincount(label, minlength=len(groups)) > 0
        found_by_kind[kind] = {
            name: spans[start + place] for place, name in enumerate(groups) if is_there[place]
        }
        start += len(groups)
    return found_by_kind


def _labels(label: Whole, near: Whole) -> Whole:
    """Return the label of the nearest human concern, -1 where there is none."""
    return np.array([label[place] if place >= 0 else -1 for place in near.tolist()], dtype=np.intp)


def _table(panel: Panel, found: Matching, labels: tuple[Whole, Whole], n_groups: int) -> Floats:
    """Return counts of shape (articles, groups, COLUMNS); `labels` of human and of predicted."""
    human, said = labels
    shape = (len(panel.article_ids), n_groups)

    def counted(article: Whole, group: Whole) -> Floats:
        places = article * n_groups + group
        return np.bincount(places, minlength=shape[0] * n_groups).astype(float).reshape(shape)

    hit = found.human[found.is_matched]
    is_placed = said >= 0
    columns = (
        counted(panel.human.article[hit], human[hit]),
        counted(panel.human.article, human),
        counted(panel.predicted.article[is_placed], said[is_placed]),
    )
    return np.stack(columns, axis=2)


def _spans(tables: Sequence[Floats], draws: int, seed: int) -> list[GroupSpans]:
    """Return the intervals of all groups of all tables, from the same draws."""
    n = len(tables[0])
    flat = np.concatenate([table.reshape(n, -1) for table in tables], axis=1)
    units = Units(np.ones(n, dtype=np.intp), np.arange(n))

    def measure(weights: Floats) -> dict[str, Floats]:
        sums = (weights @ flat).reshape(len(weights), -1, COLUMNS)
        matched, human, predicted = (sums[:, :, column] for column in range(COLUMNS))
        is_there, is_said = human > 0, predicted > 0
        # A draw without an article of the group says nothing of it; 0 would pull every interval down.
        rates = {
            "recall": np.where(is_there, ratio(matched, human), np.nan),
            "precision": np.where(is_said, ratio(matched, predicted), np.nan),
            "f1": np.where(is_there | is_said, f1_of(matched, human, predicted), np.nan),
        }
        return {
            f"{place} {name}": values[:, place]
            for name, values in rates.items()
            for place in range(values.shape[1])
        }

    drawn = resample(measure, units, draws, seed)
    return [
        GroupSpans(**{name: _span(drawn[f"{place} {name}"]) for name in GroupSpans.model_fields})
        for place in range(flat.shape[1] // COLUMNS)
    ]


def _span(values: Floats) -> tuple[float, float] | None:
    span = percentile_interval(values)
    return None if span is None or is_point(span) else span
