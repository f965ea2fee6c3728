"""Counts of a matching, by article and by group, and the rates that follow from them.

Every rate is 0 where its denominator is: nothing said, or nothing to be found.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evals.concerns.match import Matching
from evals.concerns.panel import CATEGORY_NAMES, MAJOR, SEVERITY_NAMES, Lists, Panel
from evals.intervals import Floats, Whole
from evals.schema.reviewscores import (
    LabelAccuracy,
    Labels,
    Macro,
    MeanRates,
    Rates,
    SoftMeans,
    SoftRates,
)

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
        major_matched=np.bincount(
            panel.human.article[matched[is_major[matched]]], minlength=n
        ).astype(float),
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
    names, member, sizes = np.unique(
        np.array(panel.sources), return_inverse=True, return_counts=True
    )
    table = counts.table
    sums = np.stack(
        [np.bincount(member, weights=column, minlength=len(names)) for column in table.T], axis=1
    )
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
    groups = {
        name: rates_of(table[i], int(n_articles[i]))
        for i, name in enumerate(names)
        if table[i, 1] > 0
    }
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
    of_categories = MeanRates(
        precision=precision, recall=recall, f1=f1, recall_major=major, n=len(named)
    )
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
            accuracy=float(right.mean()) if len(right) else None,
            n=len(right),
            n_unlabelled=int((~is_labelled).sum()),
        )

    sides: tuple[Lists, Lists] = panel.predicted, panel.human
    return Labels(
        category=accuracy(sides[0].category, sides[1].category, CATEGORY_NAMES),
        severity=accuracy(sides[0].severity, sides[1].severity, SEVERITY_NAMES),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0
