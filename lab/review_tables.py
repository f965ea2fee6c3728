"""Scores of concerns as tables for the terminal."""

from collections.abc import Mapping

from rich.console import Group
from rich.table import Table

from evals.schema.reviewscores import Control, CurvePoint, Rates, ReviewScore
from lab.console import table_of

RATES = ("human", "said", "match", "recall", "prec.", "F1", "major")
"""Columns of every table of rates: counts, then shares; "major" is the recall of major concerns."""


def score_tables(found: ReviewScore) -> Group:
    """Return the headline with its controls, then the score by source, category and severity."""
    tables = [_headline(found), _pooled(found)]
    tables += [
        _grouped("by source", found.per_source),
        _grouped("by category of the human concern", found.per_category),
        _grouped("by severity of the human concern", found.per_severity),
    ]
    if found.curves is not None:
        tables.append(_curve("over thresholds", "threshold", found.curves.thresholds))
        tables.append(_curve("over the first N concerns", "N", found.curves.lengths))
    return Group(*tables)


def _headline(found: ReviewScore) -> Table:
    head, matcher = found.headline, found.matcher
    cells: list[tuple[str, str]] = [
        ("F1 above permuted papers", f"{number(head.f1_above_permuted)} {span(head.interval)}"),
        ("F1", f"{number(head.f1)} {span(found.intervals.get('f1'))}"),
        ("recall", f"{number(found.micro.recall)} {span(found.intervals.get('recall'))}"),
        ("precision", f"{number(found.micro.precision)} {span(found.intervals.get('precision'))}"),
        ("F1, mean over articles", number(found.macro.f1)),
        ("F1, matches weighed by similarity", number(found.soft.f1)),
        ("category right on matched pairs", number(found.labels.category.accuracy)),
        ("severity right on matched pairs", number(found.labels.severity.accuracy)),
        ("best similarities that pass", number(found.best_similarities_passing)),
        ("answered", f"{found.coverage.n_answered} of {found.coverage.n_articles} articles"),
        ("matcher", f"{matcher.encoder} @ {matcher.revision}, {matcher.assignment}"),
        ("threshold", f"{matcher.threshold:.3f} ({matcher.threshold_from})"),
    ]
    return table_of(found.system, ("what", "value"), cells)


def _pooled(found: ReviewScore) -> Table:
    rows: dict[str, Rates] = {found.system: found.micro}
    if found.controls is not None:
        named: dict[str, Control | None] = {
            "permuted papers": found.controls.permuted,
            "generic list": found.controls.generic,
            "BM25": found.controls.bm25,
            "count bound": found.controls.count_bound,
        }
        rows |= {name: control for name, control in named.items() if control is not None}
    return _grouped("beside its controls", rows)


def _grouped(title: str, rows: Mapping[str, Rates]) -> Table:
    return table_of(title, ("", *RATES), [(name, *_cells(rates)) for name, rates in rows.items()])


def _cells(rates: Rates) -> tuple[str, ...]:
    counts = (rates.n_human, rates.n_predicted, rates.n_matched)
    shares = (rates.recall, rates.precision, rates.f1, rates.recall_major)
    return (*(f"{count:,.0f}" for count in counts), *map(number, shares))


def _curve(title: str, name: str, points: tuple[CurvePoint, ...]) -> Table:
    cells = [
        (
            f"{point.at:g}",
            f"{point.n_predicted:,}",
            number(point.recall),
            number(point.precision),
            number(point.f1),
            number(point.f1_permuted),
        )
        for point in points
    ]
    return table_of(title, (name, "predicted", "recall", "precision", "F1", "F1 permuted"), cells)


def number(value: float | None) -> str:
    """Return three decimals, a dash for what is undefined."""
    return "–" if value is None else f"{value:.3f}"


def span(interval: tuple[float, float] | None) -> str:
    """Return "[0.100, 0.200]", nothing where there is no interval."""
    return "" if interval is None else f"[{interval[0]:.3f}, {interval[1]:.3f}]"
