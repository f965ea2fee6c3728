"""Rates of pooled counts, and how far a score would move if other papers had been reviewed.

Articles are resampled with replacement and all counts pooled anew (percentile intervals).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.review.match import CATEGORY_NAMES, MAJOR, SEVERITY_NAMES, Lists, Matching, Panel
from evals.schema.reports import GroupSpans, LabelAccuracy, Labels, Macro, MeanRates, Rates, SoftMeans, SoftRates
from evals.stats.intervals import Floats, Interval, Units, Whole, is_point, percentile_interval, resample

UNATTRIBUTED = "unattributed"
"""Where predicted concerns go that are near no human concern, so that no group loses them."""


@dataclass(frozen=True)
class Counts:
    """What each article (or group) has; all of shape (articles,), counts as floats."""

    matched: Floats
    human: Floats
    predicted: Floats
    soft: Floats
    major_matched: Floats
    major: Floats

    @property
    def table(self) -> Floats:
        """The counts as columns, shape (articles, 6), in the order of the fields."""
        columns = (self.matched, self.human, self.predicted, self.soft)
        return np.stack([*columns, self.major_matched, self.major], axis=1)


def counts_of(panel: Panel, found: Matching) -> Counts:
    """Return the counts of each article."""
    n = len(panel.article_ids)
    article = panel.predicted.article
    is_major = panel.human.severity == MAJOR
    matched = found.human[found.is_matched]
    return Counts(
        matched=np.bincount(article[found.is_matched], minlength=n).astype(float),
        human=panel.human.sizes.astype(float),
        predicted=panel.predicted.sizes.astype(float),
        soft=np.bincount(article, weights=found.similarity, minlength=n).astype(float),
        major_matched=np.bincount(panel.human.article[matched[is_major[matched]]], minlength=n).astype(float),
        major=np.bincount(panel.human.article[is_major], minlength=n).astype(float),
    )


def ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, 0 where whole is 0."""
    return np.divide(part, whole, out=np.zeros_like(part, dtype=float), where=whole > 0)


def f1_of(matched: Floats, human: Floats, predicted: Floats) -> Floats:
    """Return F1, which is twice the matches over both lists together; 0 for two empty lists."""
    return ratio(2 * matched, human + predicted)


def rates_of(sums: Floats, n_articles: int) -> Rates:
    """Return the rates of pooled counts, in the order of `Counts.table`."""
    matched, human, predicted, _, major_matched, major = (float(each) for each in sums)
    return Rates(
        precision=matched / predicted if predicted else 0.0,
        recall=matched / human if human else 0.0,
        f1=2 * matched / (human + predicted) if human + predicted else 0.0,
        recall_major=major_matched / major if major else 0.0,
        n_human=round(human),
        n_predicted=predicted,
        n_matched=matched,
        n_articles=n_articles,
    )


def per_source(panel: Panel, counts: Counts) -> dict[str, Rates]:
    """Return the rates of each source, the one with most articles first."""
    names, member, sizes = np.unique(np.array(panel.sources), return_inverse=True, return_counts=True)
    table = counts.table
    sums = np.stack([np.bincount(member, weights=column, minlength=len(names)) for column in table.T], axis=1)
    order = sorted(range(len(names)), key=lambda i: (-sizes[i], names[i]))
    return {str(names[i]): rates_of(sums[i], int(sizes[i])) for i in order}


def per_category(panel: Panel, found: Matching) -> dict[str, Rates]:
    """Return the rates of each category that occurs among human concerns."""
    return _grouped(panel, found, panel.human.category, CATEGORY_NAMES)


def per_severity(panel: Panel, found: Matching) -> dict[str, Rates]:
    """Return the rates of each severity that occurs among human concerns."""
    return _grouped(panel, found, panel.human.severity, SEVERITY_NAMES)


def _grouped(panel: Panel, found: Matching, label: Whole, names: Sequence[str]) -> dict[str, Rates]:
    """Return rates by the human label.

    A predicted concern belongs to the group of its match, else of the human concern it is nearest to,
    else to none: `UNATTRIBUTED`.
    """
    k = len(names)
    human, major = panel.human, panel.human.severity == MAJOR
    near = np.where(found.is_matched, found.human, found.nearest)
    assigned = np.bincount(label[near[near >= 0]], minlength=k).astype(float)
    hit = found.human[found.is_matched]
    columns = [
        np.bincount(label[hit], minlength=k),
        np.bincount(label, minlength=k),
        assigned,
        np.bincount(label[hit], weights=found.similarity[found.is_matched], minlength=k),
        np.bincount(label[hit[major[hit]]], minlength=k),
        np.bincount(label[major], minlength=k),
    ]
    table = np.stack([np.asarray(each, dtype=float) for each in columns], axis=1)
    pairs = np.unique(np.stack([label, human.article], axis=1), axis=0)
    n_articles = np.bincount(pairs[:, 0], minlength=k)
    groups = {name: rates_of(table[i], int(n_articles[i])) for i, name in enumerate(names) if table[i, 1] > 0}
    n_lost = int((near < 0).sum())
    if n_lost:
        at = len(np.unique(panel.predicted.article[near < 0]))
        groups[UNATTRIBUTED] = rates_of(np.array([0, 0, n_lost, 0, 0, 0.0]), at)
    return groups


def macro_of(counts: Counts, categories: dict[str, Rates]) -> Macro:
    """Return means over articles, and over the categories that human concerns have."""
    means = _means(counts.table)
    named = [rates for name, rates in categories.items() if name != UNATTRIBUTED]
    table = np.array([[r.precision, r.recall, r.f1, r.recall_major] for r in named]).reshape(-1, 4)
    precision, recall, f1, major = table.mean(axis=0) if named else np.zeros(4)
    of_categories = MeanRates(precision=precision, recall=recall, f1=f1, recall_major=major, n=len(named))
    return Macro(**means.model_dump(), categories=of_categories)


def _means(table: Floats) -> MeanRates:
    matched, human, predicted, _, major_matched, major = table.T
    is_there = human + predicted > 0
    return MeanRates(
        precision=_mean(ratio(matched, predicted)[is_there]),
        recall=_mean(ratio(matched, human)[human > 0]),
        f1=_mean(f1_of(matched, human, predicted)[is_there]),
        recall_major=_mean(ratio(major_matched, major)[major > 0]),
        n=int(is_there.sum()),
    )


def soft_of(counts: Counts) -> SoftRates:
    """Return the rates in which a match counts by its similarity, averaged as the hard ones are."""
    table = counts.table
    as_hard = table[:, [3, 1, 2, 3, 4, 5]]
    pooled, means = rates_of(as_hard.sum(axis=0), len(table)), _means(as_hard)
    return SoftRates(
        precision=pooled.precision,
        recall=pooled.recall,
        f1=pooled.f1,
        macro=SoftMeans(precision=means.precision, recall=means.recall, f1=means.f1),
    )


def label_accuracy(panel: Panel, found: Matching) -> Labels:
    """Return how often matched concerns carry the human's labels."""
    mine, theirs = np.flatnonzero(found.is_matched), found.human[found.is_matched]

    def accuracy(said: Whole, true: Whole, names: Sequence[str]) -> LabelAccuracy:
        unknown = len(names) - 1
        is_labelled = (said[mine] != unknown) & (true[theirs] != unknown)
        right = (said[mine] == true[theirs])[is_labelled]
        return LabelAccuracy(
            accuracy=float(right.mean()) if len(right) else None, n=len(right), n_unlabelled=int((~is_labelled).sum())
        )

    sides: tuple[Lists, Lists] = panel.predicted, panel.human
    return Labels(
        category=accuracy(sides[0].category, sides[1].category, CATEGORY_NAMES),
        severity=accuracy(sides[0].severity, sides[1].severity, SEVERITY_NAMES),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


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
    tables = {kind: _table(panel, found, (label, said[kind]), len(groups)) for kind, (groups, label) in kinds.items()}
    spans = _spans(list(tables.values()), draws, seed)
    found_by_kind: GroupIntervals = {}
    start = 0
    for kind, (groups, label) in kinds.items():
        is_there = np.bincount(label, minlength=len(groups)) > 0
        found_by_kind[kind] = {name: spans[start + place] for place, name in enumerate(groups) if is_there[place]}
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
            f"{place} {name}": values[:, place] for name, values in rates.items() for place in range(values.shape[1])
        }

    drawn = resample(measure, units, draws, seed)
    return [
        GroupSpans(**{name: _span(drawn[f"{place} {name}"]) for name in GroupSpans.model_fields})
        for place in range(flat.shape[1] // COLUMNS)
    ]


def _span(values: Floats) -> tuple[float, float] | None:
    span = percentile_interval(values)
    return None if span is None or is_point(span) else span


DRAWS = 1000


def intervals_of(table: Floats, permuted: Floats | None, draws: int, seed: int) -> dict[str, Interval | None]:
    """Return 95 % intervals of pooled rates from the counts of articles (articles, 6).

    `permuted` (articles,) are matches by chance, for the interval of F1 above them. None where an
    interval is a point: then resampling showed no spread, which is no certainty.
    """
    columns = table if permuted is None else np.column_stack([table, permuted])
    units = Units(np.ones(len(table), dtype=np.intp), np.arange(len(table)))

    def measure(weights: Floats) -> dict[str, Floats]:
        sums = (weights @ columns).T
        f1 = f1_of(sums[0], sums[1], sums[2])
        found = {
            "recall": ratio(sums[0], sums[1]),
            "precision": ratio(sums[0], sums[2]),
            "f1": f1,
            "recall_major": ratio(sums[4], sums[5]),
        }
        if permuted is not None:
            found["f1_above_permuted"] = f1 - f1_of(sums[6], sums[1], sums[2])
        return found

    spans = {name: percentile_interval(values) for name, values in resample(measure, units, draws, seed).items()}
    return {name: None if span is None or is_point(span) else span for name, span in spans.items()}
