"""What reports say about one adapter, for its card: tables, the calibration plot, the model-index."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals.report import HEADLINE, calibration_of, reading, stages_of
from evals.schema import EvalReport, Metric, StageSummary
from hub.reliability import reliability_png

SHOWN = ("accuracy", "reward", "ece", "ece_if_calibrated_q95", "brier", "base_rate_brier", "auroc")
NAMES = {
    "accuracy": "accuracy",
    "reward": "verifier reward",
    "ece": "ECE",
    "ece_if_calibrated_q95": "ECE by chance, 95th percentile",
    "brier": "Brier score",
    "base_rate_brier": "Brier score of always stating the share correct",
    "auroc": "AUROC of the confidence",
}
INDEXED = ("accuracy", "ece", "brier")
"""Metrics that the model-index holds."""
TASK = {"type": "question-answering", "name": "Biology questions with known answers"}


EVAL_NOTE = (
    "In brackets: 95 % intervals, by resampling whole clusters of related questions. An answer is correct if it"
    " asserts the truth and nothing that contradicts it. ECE and Brier score are over answers that make a claim"
    " and state a confidence; an ECE below what chance gives is no sign of anything."
)


@dataclass(frozen=True)
class Measured:
    """One report on one group of questions, as tables of text; `figure` is the plot's file name."""

    data: str
    group: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    baselines: tuple[tuple[str, ...], ...]
    facts: tuple[tuple[str, str], ...]
    figure: str | None
    note: str = EVAL_NOTE
    asked: str = "questions"

    @property
    def title(self) -> str:
        """What was measured on what."""
        return f"{self.data}, {self.group} {self.asked}"


def measured(
    reports: Mapping[str, EvalReport], stage: str
) -> tuple[list[Measured], dict[str, bytes]]:
    """Return each report's tables, and the plots by file name."""
    found, figures = [], {}
    for name, report in reports.items():
        group = HEADLINE if _of(report, stage, HEADLINE) else "all"
        figure = f"calibration-{name.removesuffix('.json')}.png"
        image = _figure(report, stage, group)
        if image is not None:
            figures[figure] = image
        found.append(_measured(report, stage, group, figure if image else None))
    return found, figures


def tables_of(report: EvalReport) -> Measured | None:
    """Return the tables of all stages of a report, without a plot; None where it holds no figures."""
    stages = stages_of(report)
    if not stages or not report.summaries:
        return None
    group = HEADLINE if _of(report, stages[-1], HEADLINE) else "all"
    return _measured(report, stages[-1], group, None)


def model_index(
    name: str, reports: Iterable[EvalReport], stage: str
) -> list[dict[str, Any]] | None:
    """Return the front matter's model-index, n and interval with every figure; None without any."""
    results = []
    for report in reports:
        known: list[dict[str, Any]] = []
        for group in (HEADLINE, "all"):
            summary = _of(report, stage, group)
            metrics = _indexed(summary.metrics) if summary else []
            if metrics and metrics != known:  # where no question is aided, both groups are one
                known = metrics
                data = {
                    "type": report.data_name,
                    "name": f"{report.data_name}, {group} questions",
                    "split": "test",
                    "args": {"sha256": report.data_sha256, "group": group},
                }
                results.append({"task": dict(TASK), "dataset": data, "metrics": metrics})
    return [{"name": name, "results": results}] if results else None


def shown(metric: Metric | None) -> str:
    """Return a figure with its interval; a dash where it is undefined.

    >>> shown(Metric(value=0.5, n=10, low=0.25, high=0.75))
    '0.500 [0.250, 0.750]'
    """
    if metric is None or metric.value is None:
        return "–"
    if metric.low is None or metric.high is None:
        return f"{metric.value:.3f}"
    return f"{metric.value:.3f} [{metric.low:.3f}, {metric.high:.3f}]"


def _indexed(metrics: Mapping[str, Metric]) -> list[dict[str, Any]]:
    found = []
    for name in INDEXED:
        metric = metrics.get(name)
        if metric is None or metric.value is None:
            continue
        args: dict[str, Any] = {"n": metric.n}
        words = f"n {metric.n}"
        if metric.low is not None and metric.high is not None:
            args |= {"low": round(metric.low, 4), "high": round(metric.high, 4), "level": 0.95}
            words += f", 95 % interval {metric.low:.3f} to {metric.high:.3f}"
        found.append(
            {
                "type": name,
                "name": f"{NAMES[name]} ({words})",
                "value": round(metric.value, 4),
                "args": args,
            }
        )
    return found


def _measured(report: EvalReport, stage: str, group: str, figure: str | None) -> Measured:
    stages = list(stages_of(report))
    stages = stages[: stages.index(stage) + 1]
    baselines = [each for each in report.summaries if each.is_baseline and each.group == group]
    present = {name for each in stages for name in _metrics(report, each, group)}
    keys = [name for name in SHOWN if name in present]
    counts = {each: summary.read_by for each in stages if (summary := _of(report, each, group))}
    facts = {
        "questions": f"{report.data_name}, group {group}",
        "how answers were read": "; ".join(f"{each}: {reading(n)}" for each, n in counts.items()),
        "sha256 of the questions": f"`{report.data_sha256}`",
        "settings": ", ".join(
            f"{key} {value}" for key, value in report.settings.items() if value is not None
        ),
        "judged by": ", ".join(report.versions.values()),
        "measured": f"{report.created_at:%Y-%m-%d}",
    }
    return Measured(
        data=report.data_name,
        group=group,
        columns=("stage", "n", *(NAMES[key] for key in keys)),
        rows=tuple(_row(each, _metrics(report, each, group), keys) for each in stages),
        baselines=_best(baselines, keys),
        facts=tuple(facts.items()),
        figure=figure,
    )


def _best(baselines: Sequence[StageSummary], keys: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return all trivial baselines, the most accurate first."""

    def accuracy(summary: StageSummary) -> float:
        metric = summary.metrics.get("accuracy")
        return -(metric.value or 0.0) if metric else 0.0

    ordered = sorted(baselines, key=accuracy)
    return tuple(_row(each.stage, each.metrics, keys) for each in ordered)


def _row(name: str, metrics: Mapping[str, Metric], keys: Sequence[str]) -> tuple[str, ...]:
    accuracy = metrics.get("accuracy")
    n = str(accuracy.n) if accuracy else "–"
    return (name, n, *(shown(metrics.get(key)) for key in keys))


def _metrics(report: EvalReport, stage: str, group: str) -> Mapping[str, Metric]:
    summary = _of(report, stage, group)
    return summary.metrics if summary else {}


def _of(report: EvalReport, stage: str, group: str) -> StageSummary | None:
    found = (each for each in report.summaries if (each.stage, each.group) == (stage, group))
    return next(found, None)


def _figure(report: EvalReport, stage: str, group: str) -> bytes | None:
    """Return the calibration plot, None where no answer states a confidence for a claim."""
    if _of(report, stage, group) is None:
        return None
    found = calibration_of(report, stage, group)
    if not found.bins:
        return None
    n = found.n - found.n_missing_confidence
    return reliability_png(found.bins, f"{stage}: {report.data_name}, {group}, n {n}")
