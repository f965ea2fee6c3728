"""Scores of reviewers to one report: gates, groups, errors, paired tests, and what cannot be."""

from collections.abc import Mapping, Sequence

from evals.concerns.board import METRICS, check_comparable, paired_tests
from evals.concerns.consistency import faults_of_score
from evals.concerns.failures import errors_of, shared_of
from evals.errors import LabError
from evals.schema.reviewreports import (
    Gate,
    Gates,
    GroupRow,
    PublishedResult,
    ReviewReport,
    SystemReport,
)
from evals.schema.reviews import PredictionRow
from evals.schema.reviewscores import ArticleScore, GroupSpans, Rates, ReviewScore

F1_GATE, RECALL_GATE = 0.58, 0.45
Rows = Mapping[str, PredictionRow]


def report_of(
    scores: Sequence[ReviewScore],
    answers: Mapping[str, Rows],
    against: str | None = None,
    published: Sequence[PublishedResult] = (),
) -> ReviewReport:
    """Return the report on systems scored alike; `answers` are rows by system, then by article.

    `against` names the system that stands first in comparisons, else the first one. LabError for a name
    that no score has, IncomparableReports for scores that were not made alike.
    """
    check_comparable(scores)
    names = [score.system for score in scores]
    for name in (*([against] if against else []), *answers):
        if name not in names:
            raise LabError(f"there is no score of {name!r}; scored are {', '.join(names)}.")
    first = against or names[0]
    ordered = sorted(scores, key=lambda score: score.system != first)
    return ReviewReport(
        against=first,
        systems=tuple(_system(score, answers.get(score.system)) for score in ordered),
        tests=paired_tests(ordered, METRICS, scores[0].draws, scores[0].seed),
        shared=shared_of(ordered),
        published=tuple(published),
    )


def gates_of(score: ReviewScore) -> Gates:
    """Return the published gates, F1 of 0.58 and recall of 0.45, each shown apart."""
    f1 = _gate(score, "f1", F1_GATE)
    recall = _gate(score, "recall", RECALL_GATE)
    return Gates(
        f1=f1,
        recall=recall,
        as_documented=f1.passes or recall.passes,
        as_coded=f1.passes and recall.passes,
    )


def _gate(score: ReviewScore, metric: str, needed: float) -> Gate:
    value, span = float(getattr(score.micro, metric)), score.intervals.get(metric)
    return Gate.model_validate(
        {
            "metric": metric,
            "value": value,
            "needed": needed,
            "passes": value >= needed,
            "is_sure": span is not None and span[0] >= needed,
        }
    )


def _system(score: ReviewScore, rows: Rows | None) -> SystemReport:
    articles = score.articles
    if articles is None:
        raise LabError(
            f"the score of {score.system} holds no articles; write it with `assay review score --out`."
        )
    return SystemReport(
        score=score.model_copy(update={"articles": None}),
        gates=gates_of(score),
        sources=_groups(score, "source", score.per_source, articles),
        categories=_groups(score, "category", score.per_category),
        severities=_groups(score, "severity", score.per_severity),
        errors=errors_of(articles, rows),
        faults=faults_of_score(score),
    )


def _groups(
    score: ReviewScore,
    kind: str,
    rates: Mapping[str, Rates],
    articles: Sequence[ArticleScore] | None = None,
) -> tuple[GroupRow, ...]:
    spans = score.group_intervals.get(kind, {})
    return tuple(_group(name, each, spans.get(name), articles) for name, each in rates.items())


def _group(
    name: str, rates: Rates, spans: GroupSpans | None, articles: Sequence[ArticleScore] | None
) -> GroupRow:
    known = {} if articles is None else _by_article([a for a in articles if a.source == name])
    return GroupRow(
        **rates.model_dump(),
        name=name,
        interval_recall=None if spans is None else spans.recall,
        interval_precision=None if spans is None else spans.precision,
        interval_f1=None if spans is None else spans.f1,
        **known,
    )


def _by_article(articles: Sequence[ArticleScore]) -> dict[str, float | int | None]:
    """Return what a source's articles say together; the control only where every article has one."""
    size = sum(each.n_human + each.n_predicted for each in articles)
    by_chance = [each.n_matched_permuted for each in articles]
    permuted = None if None in by_chance else 2 * sum(n or 0 for n in by_chance) / max(1, size)
    with_humans = [each for each in articles if each.n_human]
    return {
        "f1_permuted": permuted,
        "n_answered": sum(each.is_answered for each in articles),
        "n_none": sum(each.n_matched == 0 for each in with_humans),
        "n_all": sum(each.n_matched == each.n_human for each in with_humans),
    }
