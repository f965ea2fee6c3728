"""Figures of an evaluation as tables for the terminal."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Group
from rich.table import Table

from evals.calibration import Calibration, NullEce
from evals.report import HEADLINE
from evals.schema import Claim, EvalReport, Metric, Record, Share
from evals.verifiers import VERIFIERS
from lab.console import counted, table_of

SHOWN = ("accuracy", "reward", "ece", "brier")


class VerifiedRow(Record):
    """What `assay eval verify` says of a row."""

    id: str
    verdict: str
    stated_confidence: Share | None
    confidence_status: str
    scores: dict[str, Share | None]
    reward: Share
    reason: str
    claims: tuple[Claim, ...]


def verdict_table(rows: Sequence[VerifiedRow]) -> Table:
    """Return one line per judged answer; the title counts the verdicts."""
    cells = [
        (
            row.id,
            row.verdict,
            _share(row.stated_confidence),
            *(_share(row.scores[name]) for name in VERIFIERS),
            _share(row.reward),
            row.reason,
        )
        for row in rows
    ]
    counts = Counter(row.verdict for row in rows)
    title = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    return table_of(title, ("id", "verdict", "confidence", *VERIFIERS, "reward", "reason"), cells)


def verdict_totals(rows: Sequence[VerifiedRow]) -> Table:
    """Return how many answers got each verdict and confidence status, and the means of the scores."""
    verdicts = Counter(row.verdict for row in rows)
    statuses = Counter(row.confidence_status for row in rows)
    cells: list[tuple[str, object]] = [*verdicts.most_common()]
    cells += [(f"confidence {status}", count) for status, count in statuses.most_common()]
    for name in VERIFIERS:
        scores = [score for row in rows if (score := row.scores[name]) is not None]
        mean = sum(scores) / len(scores) if scores else None
        cells.append((f"mean {name} of {counted(len(scores), 'answer')}", _share(mean)))
    rewards = [row.reward for row in rows if any(s is not None for s in row.scores.values())]
    mean = sum(rewards) / len(rewards) if rewards else None
    cells.append((f"mean reward of {counted(len(rewards), 'answer')}", _share(mean)))
    return table_of(counted(len(rows), "answer"), ("", "value"), cells)


def summary_table(report: EvalReport) -> Table:
    """Return the stages and baselines of a report on the headline group; 80 columns hold it."""
    shown = [summary for summary in report.summaries if summary.group == HEADLINE]
    rows = [
        (
            s.stage if s.is_baseline else f"{s.stage} (stage)",
            *(_interval(s.metrics[name]) for name in SHOWN),
        )
        for s in shown
    ]
    title = f"{report.chain_name} on {report.data_name}, {HEADLINE} questions, 95 % intervals"
    return table_of(title, ("answers of", *SHOWN), rows)


def calibration_tables(measured: Calibration) -> Group:
    """Return every calibration metric with its interval or why it has none, and the bins."""
    rows = [
        (name, _cell(getattr(measured, name)), _span(measured, name))
        for name in type(measured).model_fields
        if name not in UNLISTED
    ]
    metrics = table_of("Calibration", ("metric", "value", "95 % interval"), rows)
    bins = [
        (
            f"{one.lower:.2f} to {one.upper:.2f}",
            one.n,
            *(_cell(value) for value in (one.confidence, one.accuracy, one.gap)),
            "" if one.interval is None else f"{_brackets(one.interval)} {one.interval_by}",
        )
        for one in measured.bins
        if one.n
    ]
    columns = ("stated", "n", "confidence", "accuracy", "gap", "95 % interval of accuracy")
    return Group(metrics, table_of("Bins that hold rows", columns, bins))


UNLISTED = ("intervals", "interval_notes", "bins", "risk_coverage", "method", "note")
"""Fields of a calibration that are no line of the table of metrics."""


def _cell(value: object) -> str:
    if isinstance(value, NullEce):
        return f"mean {value.mean:.3f}, q95 {value.q95:.3f}"
    return f"{value:.3f}" if isinstance(value, float) else "–" if value is None else str(value)


def _span(measured: Calibration, name: str) -> str:
    span, note = measured.intervals.get(name), measured.interval_notes.get(name)
    return " ".join(part for part in (span and _brackets(span), note) if part)


def _brackets(span: tuple[float, float]) -> str:
    return f"[{span[0]:.3f}, {span[1]:.3f}]"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _interval(metric: Metric) -> str:
    if metric.value is None:
        return "–"
    span = (
        ""
        if metric.low is None or metric.high is None
        else f"\n[{metric.low:.2f}, {metric.high:.2f}]"
    )
    return f"{metric.value:.3f}, n {metric.n}{span}"
