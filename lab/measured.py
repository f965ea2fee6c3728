"""What the tabs compute from a report, computed once: opening a tab again draws nothing anew.

Stored summaries hold most figures. Ranks, paired differences and reliability bins are resampled from
the rows, ten thousand draws each, so they are kept for as long as the same report is shown.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from itertools import combinations
from typing import TypeVar, TypeVarTuple

from evals.calibration import Calibration
from evals.comparison import Comparisons, Pairing, compare
from evals.leaderboard import LeaderboardRow, leaderboard
from evals.measures import MEASURES
from evals.report import calibration_of, rows_of, stages_of
from evals.schema import EvalReport
from evals.scores import OVERCONFIDENT, UNDERCONFIDENT
from lab.grid import Scale
from lab.wording import say

KEPT = 128
Rest = TypeVarTuple("Rest")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Counted:
    """How many answers of a stage there are, and how many of them enter calibration.

    `stated` make a claim and state a confidence; `missing` and `invalid` make one without. `sure` and
    `unsure` are those of the stated that the rates of over- and underconfidence are shares of.
    """

    all: int
    stated: int
    missing: int
    invalid: int
    no_claim: int
    sure: int
    unsure: int


class _Same:
    """A report as a key: equal only to itself, so that comparing takes no time."""

    def __init__(self, report: EvalReport) -> None:
        self.report = report

    def __hash__(self) -> int:
        return id(self.report)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.report is self.report


def once_per_report(
    compute: Callable[[EvalReport, *Rest], Found],
) -> Callable[[EvalReport, *Rest], Found]:
    """Return `compute`, which then runs once for each report object and further arguments."""

    @lru_cache(maxsize=KEPT)
    def kept(same: _Same, *rest: *Rest) -> Found:
        return compute(same.report, *rest)

    @wraps(compute)
    def found(report: EvalReport, *rest: *Rest) -> Found:
        return kept(_Same(report), *rest)

    return found


@once_per_report
def ranked(report: EvalReport, group: str, order: str) -> tuple[LeaderboardRow, ...]:
    """Return stages and baselines of one group, the best by `order` first, with their ranks."""
    return leaderboard([report], group, order)


@once_per_report
def differences(report: EvalReport, group: str, metrics: tuple[str, ...]) -> Comparisons | None:
    """Return the paired differences between every two stages; None where there is one stage only."""
    pairs = [((report, one), (report, other)) for one, other in combinations(stages_of(report), 2)]
    return compare(pairs, Pairing(metrics=metrics, group=group)) if pairs else None


@once_per_report
def calibrated(report: EvalReport, stage: str, group: str) -> Calibration:
    """Return the calibration of one stage in one group, over the answers that make a claim."""
    return calibration_of(report, stage, group)


@once_per_report
def counted(report: EvalReport, stage: str, group: str) -> Counted:
    """Return how many answers of a stage count in its calibration, and why the others do not."""
    rows = rows_of(report, stage, group)
    claims = [row.verdict.confidence for row in rows if row.verdict.verdict != "no_claim"]
    by_status = Counter(claim.status for claim in claims)
    values = [claim.value for claim in claims if claim.value is not None]
    return Counted(
        all=len(rows),
        stated=len(values),
        missing=by_status["missing"],
        invalid=by_status["invalid"],
        no_claim=len(rows) - len(claims),
        sure=sum(value > OVERCONFIDENT for value in values),
        unsure=sum(value < UNDERCONFIDENT for value in values),
    )


def orders_of(report: EvalReport) -> tuple[str, ...]:
    """Return the metrics that every entry of the report has and that have a better end."""
    held = [summary.metrics for summary in report.summaries]
    return tuple(
        name
        for name, each in MEASURES.items()
        if each.better and all(name in metrics for metrics in held)
    )


def scale_of(metric: str) -> Scale:
    """Return how a metric is written: in percent where it is a share of answers."""
    if metric == "log_loss":
        return "open"
    return "share" if metric in MEASURES and MEASURES[metric].is_share else "number"


def headed(metric: str) -> str:
    """Return the name of a metric as a heading, with an arrow towards its better end.

    >>> headed("accuracy"), headed("ece")
    ('Accuracy ↑', 'ECE ↓')
    """
    name = say(f"metric.{metric}")
    name = name[:1].upper() + name[1:]
    better = MEASURES[metric].better
    return say(f"metric.{better}", name=name) if better else name
