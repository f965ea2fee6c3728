"""Rates of pooled counts, means over articles and categories, and how often labels agree."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from evals.review.match import CATEGORY_NAMES, MAJOR, SEVERITY_NAMES, UNATTRIBUTED, Lists, Matching, Panel
from evals.schema.reports import ArticleScore, LabelAccuracy, Labels, Macro, MeanRates, Rates, SoftMeans, SoftRates
from evals.stats.intervals import Floats, Whole
from evals.task import ratio

COLUMNS = ("n_matched", "n_human", "n_predicted", "soft", "n_major_matched", "n_major")


def counts_of(panel: Panel, found: Matching) -> Floats:
    """Return the counts of each article as COLUMNS, shape (articles, 6)."""
    n = len(panel.article_ids)
    article = panel.predicted.article
    is_major = panel.human.severity == MAJOR
    matched = found.human[found.is_matched]
    counts = (
        np.bincount(article[found.is_matched], minlength=n),
        panel.human.sizes,
        panel.predicted.sizes,
        np.bincount(article, weights=found.similarity, minlength=n),
        np.bincount(panel.human.article[matched[is_major[matched]]], minlength=n),
        np.bincount(panel.human.article[is_major], minlength=n),
    )
    return np.stack(counts, axis=1).astype(float)


def f1_of(matched: Floats, human: Floats, predicted: Floats) -> Floats:
    """Return F1, which is twice the matches over both lists together; 0 for two empty lists."""
    return ratio(2 * matched, human + predicted)


def rates_of(sums: Iterable[float], n_articles: int) -> Rates:
    """Return the rates of pooled counts, in the order of COLUMNS."""
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


def rates_by(kind: str, groups: Mapping[str, Sequence[ArticleScore]]) -> dict[str, Rates]:
    """Return the rates of the groups of one kind: source, category or severity (`evals.review.task.Review.groups`).

    A predicted concern belongs to the group of its match, else of the human concern it is nearest to, else to none.
    """
    found = {}
    for name, rows in groups.items():
        if name.startswith(f"{kind} "):
            counts = [row.grade.counts for row in rows]
            sums = np.array([[each[column] for column in COLUMNS] for each in counts]).sum(axis=0)
            has_human = sum(row.n_human > 0 for row in rows)
            found[name.removeprefix(f"{kind} ")] = rates_of(
                sums, len(rows) if kind == "source" else has_human or len(rows)
            )
    return found


def macro_of(counts: Floats, categories: dict[str, Rates]) -> Macro:
    """Return means over articles, and over the categories that human concerns have."""
    means = _means(counts)
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


def soft_of(counts: Floats) -> SoftRates:
    """Return the rates in which a match counts by its similarity, averaged as the hard ones are."""
    as_hard = counts[:, [3, 1, 2, 3, 4, 5]]
    pooled, means = rates_of(as_hard.sum(axis=0), len(counts)), _means(as_hard)
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
