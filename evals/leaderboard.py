"""Rows of the leaderboard: models and trivial baselines in one table, by one metric.

Only reports measured with the same instrument on the same questions stand in one table.
"""

from collections.abc import Sequence

from evals.errors import BadConfig, IncomparableReports
from evals.report import HEADLINE
from evals.schema import EvalReport, Metric, Record, StageSummary

LOWER_IS_BETTER = frozenset(("ece", "brier", "no_claim_share"))


class LeaderboardRow(Record):
    """One stage of one chain, or one trivial baseline (chain None)."""

    chain: str | None
    stage: str
    is_baseline: bool
    group: str
    metrics: dict[str, Metric]


def leaderboard(
    reports: Sequence[EvalReport], group: str = HEADLINE, order: str = "reward"
) -> tuple[LeaderboardRow, ...]:
    """Return the stages and baselines of `reports` in one group, the best by `order` first.

    A baseline that several reports hold appears once. Rows without a value come last. Nothing here
    says that a row is better than the next: that takes `paired_difference`. IncomparableReports if
    the reports differ in versions or questions; BadConfig for an unknown group or metric.
    """
    check_comparable(reports)
    rows: dict[tuple[str | None, str], LeaderboardRow] = {}
    for report in reports:
        for summary in report.summaries:
            if summary.group == group:
                row = _row(report, summary)
                rows.setdefault((row.chain, row.stage), row)
    if reports and not rows:
        known = ", ".join(dict.fromkeys(s.group for report in reports for s in report.summaries))
        raise BadConfig(f"no report has a group {group!r}; known are {known}")
    if any(order not in row.metrics for row in rows.values()):
        known = ", ".join(next(iter(rows.values())).metrics)
        raise BadConfig(f"no metric is called {order!r}; known are {known}")
    return tuple(sorted(rows.values(), key=lambda row: _rank(row.metrics[order], order)))


def check_comparable(reports: Sequence[EvalReport]) -> None:
    """Return if all reports were measured alike; IncomparableReports says what differs."""
    for report in reports[1:]:
        first = reports[0]
        if report.versions != first.versions:
            raise IncomparableReports(
                f"reports of {first.chain_name} and {report.chain_name} were measured with different"
                f" instruments: {first.versions} and {report.versions}; run the older one again"
            )
        if report.data_sha256 != first.data_sha256:
            raise IncomparableReports(
                f"reports of {first.chain_name} ({first.data_name}) and {report.chain_name}"
                f" ({report.data_name}) are on different questions; show one data set at a time"
            )


def _row(report: EvalReport, summary: StageSummary) -> LeaderboardRow:
    return LeaderboardRow(
        chain=None if summary.is_baseline else report.chain_name,
        stage=summary.stage,
        is_baseline=summary.is_baseline,
        group=summary.group,
        metrics=summary.metrics,
    )


def _rank(metric: Metric, order: str) -> tuple[bool, float]:
    if metric.value is None:
        return True, 0.0
    return False, metric.value if order in LOWER_IS_BETTER else -metric.value
