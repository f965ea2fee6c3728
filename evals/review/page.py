"""A report on reviewers as tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from evals.review.score import control_rates, micro_rates
from evals.review.task import Review
from evals.schema import Metric
from evals.schema.reports import Rates, ReviewedStage, ReviewReport

NAMES = {
    "f1": "F1",
    "macro_f1": "F1, mean over papers",
    "f1_above_strongest": "F1 above the strongest control",
    "f1_above_permuted": "F1 above permuted",
    "recall_major": "recall of major concerns",
    "generic_titled": "generic + title",
    "bm25": "BM25",
    "echo": "copied sentences",
    "echo_objected": "copied + “not stated”",
    "count_bound": "count bound",
}
GROUPED = ("f1", "recall", "precision")
"""Metrics of the table of groups."""


def metric_name(metric: str) -> str:
    """Return a metric or control as people write it."""
    return NAMES.get(metric, metric.replace("_", " "))


def control_figures(metrics: Mapping[str, Metric], controls: Iterable[str]) -> list[str]:
    """Return the F1 of each control that there is, the strongest first and the bound last."""
    known = [(name == "count_bound", -(metrics[name].value or 0.0), name) for name in controls if name in metrics]
    return [f"{metric_name(name)} {-value:.3f}" for _, value, name in sorted(known)]


def strongest_line(stage: ReviewedStage, controls: Mapping[str, Rates]) -> str:
    """Return the strongest control with its F1 and the p of the test against it: "copied sentences 0.423, p 0.0940"."""
    if stage.strongest is None:
        return "–"
    p = "" if stage.p is None else f", p {stage.p:.4f}{' (exact)' if stage.is_exact else ''}"
    return f"{metric_name(stage.strongest)} {controls[stage.strongest].f1:.3f}{p}"


def restatement_note(report: ReviewReport) -> str:
    """Return how much of what was said again by hand the matcher sees, as a sentence; "" where that is not known."""
    seen = report.matcher_agreement.get("recall")
    if seen is None or seen.value is None:
        return ""
    span = "" if seen.low is None or seen.high is None else f" [{seen.low:.0%}, {seen.high:.0%}]"
    return (
        f"At {report.matcher.threshold:.3f} this matcher sees {seen.value:.0%}{span} of {seen.n} concerns that were said"
        f" again in other words (hand-labelled pairs): what it does not see counts as not found, so read F1 beside other thresholds."
    )


class PageTable(NamedTuple):
    """A table of a report, and what has to be known to read it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def report_sections(report: ReviewReport) -> list[PageTable]:
    """Return what is known of each stage as tables: metrics, F1 over thresholds, controls, groups."""
    matcher, sections = report.matcher, list[PageTable]()
    for stage, known in report.stages.items():
        groups = {each.group: each.metrics for each in report.summaries if each.stage == stage}
        articles = [row for row in report.rows if row.stage == stage]
        controls, metrics = control_rates(articles), groups["all"]
        cells = [
            *((metric_name(name), number_with_interval(metrics.get(name))) for name in Review.metrics),
            ("strongest control", strongest_line(known, controls)),
            ("matcher", f"{matcher.encoder} @ {matcher.revision}, {matcher.assignment}"),
            ("threshold", f"{matcher.threshold:.3f} ({matcher.threshold_from})"),
        ]
        sections.append(PageTable(stage, ("what", "value"), cells, restatement_note(report)))
        rows = [
            (
                f"{each.threshold:.3f}{' (used)' if each.is_used else ''}",
                *map(number, (each.f1, each.recall, each.precision, each.f1_permuted)),
            )
            for each in known.thresholds
        ]
        columns = ("threshold", "F1", "recall", "precision", "F1 on other papers")
        sections.append(
            PageTable("F1 over thresholds", columns, rows, "other papers: what the same lists get by chance")
        )
        rows = [
            (metric_name(name), *(f"{n:,.0f}" for n in (each.n_predicted, each.n_matched)), *map(number, rates))
            for name, each in {stage: micro_rates(articles), **controls}.items()
            for rates in ((each.f1, each.recall, each.precision),)
        ]
        reasons = dict.fromkeys(known.no_control.values())
        whose = [
            ", ".join(metric_name(name) for name, each in known.no_control.items() if each == why) for why in reasons
        ]
        missing = "; ".join(f"{names}: {why}" for names, why in zip(whose, reasons, strict=True))
        columns = ("", "said", "matched", "F1", "recall", "precision")
        sections.append(PageTable("beside its controls", columns, rows, missing))
        rows = [
            (group, str(each["f1"].n), *(number_with_interval(each.get(name)) for name in GROUPED))
            for group, each in groups.items()
            if group != "all"
        ]
        near = "precision is over concerns by the nearest human concern, not by the label that the system gave"
        sections.append(PageTable("by group", ("", "papers", *map(metric_name, GROUPED)), rows, near))
    return [each for each in sections if each.rows]


def number(value: float | None) -> str:
    """Return a number with three decimals; a dash for what is not known."""
    return "–" if value is None else f"{value:.3f}"


def number_with_interval(metric: Metric | None) -> str:
    """Return a metric with three decimals and its interval; a dash for what is not known."""
    if metric is None:
        return number(None)
    if metric.low is None or metric.high is None:
        return number(metric.value)
    return f"{number(metric.value)} [{metric.low:.3f}, {metric.high:.3f}]"
