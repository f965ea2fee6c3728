"""Figures of an evaluation as tables for the terminal."""

from collections import Counter
from collections.abc import Mapping, Sequence

from rich.table import Table

from evals.calibration import Calibration
from evals.report import HEADLINE
from evals.schema import Claim, EvalReport, Metric, Record, Share
from evals.verifiers import VERIFIERS
from lab.console import table_of

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


def calibration_table(measured: Calibration) -> Table:
    """Return every calibration metric with its interval."""
    document: Mapping[str, object] = measured.model_dump(exclude={"bins", "intervals", "note"})
    rows = []
    for name, value in document.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {number:.3f}" for key, number in value.items())
        span = measured.intervals.get(name)
        text = f"{value:.3f}" if isinstance(value, float) else "–" if value is None else str(value)
        rows.append((name, text, f"[{span[0]:.3f}, {span[1]:.3f}]" if span else ""))
    return table_of("Calibration", ("metric", "value", "95 % interval"), rows)


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
