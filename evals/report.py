"""EvalReports: every row in full, and summaries that can always be recomputed from the rows.

ECE, Brier and mean confidence are over the rows that make a claim and state a confidence for it; a
confidence without a claim can neither earn nor spoil calibration.

Groups: "all"; "unaided", which is all but the mechanism questions; and each kind by its name. A
mechanism question names the direction it asks about, so it never counts as direction accuracy: the
headline figure is always the group "unaided". Free answers (kind "facts") are not scored and are in no
metric.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from evals import calibration, confidence, verifiers
from evals.baselines import BASELINES
from evals.errors import BadConfig, LabError
from evals.intervals import DRAWS, Floats, bootstrap, wilson
from evals.questions import data_sha256
from evals.schema import EvalReport, EvalRow, Example, Metric, StageSummary

HEADLINE = "unaided"
CONSTANT = "constant"
"""Note of a metric that is the same in every draw: it has a value and no interval."""
METRICS = (
    "accuracy",
    "reward",
    "ece",
    "brier",
    "mean_confidence",
    "stated_share",
    "no_claim_share",
)


@dataclass(frozen=True)
class Origin:
    """What a report is about, apart from its rows."""

    data_name: str
    chain_name: str
    stage_checksums: Mapping[str, str]
    settings: Mapping[str, str | int | float | None]
    created_at: datetime
    command: str


class Table:
    """The rows of one stage in one group as columns; a confidence that is not stated is nan."""

    def __init__(self, rows: Sequence[EvalRow]) -> None:
        self.rows = rows
        self.clusters = [row.example.cluster for row in rows]

    @cached_property
    def columns(self) -> dict[str, Floats]:
        """Correct, reward, confidence, whether it is stated, and stated for a claim, and no claim."""
        verdicts = [row.verdict for row in self.rows]
        stated = [verdict.confidence.value for verdict in verdicts]
        return {
            "correct": np.array([v.verdict == "correct" for v in verdicts], dtype=np.float64),
            "reward": np.array([v.reward for v in verdicts], dtype=np.float64),
            "confidence": np.array([np.nan if c is None else c for c in stated], dtype=np.float64),
            "stated": np.array([c is not None for c in stated], dtype=np.float64),
            "claimed": np.array(
                [
                    c is not None and v.verdict != "no_claim"
                    for v, c in zip(verdicts, stated, strict=True)
                ]
            ),
            "no_claim": np.array([v.verdict == "no_claim" for v in verdicts], dtype=np.float64),
        }

    def metric(self, name: str, weights: Floats) -> Floats:
        """Return one metric for each row of weights (draws, rows); nan where it is undefined."""
        columns = self.columns
        whole = {
            "accuracy": "correct",
            "reward": "reward",
            "stated_share": "stated",
            "no_claim_share": "no_claim",
        }
        if name in whole:
            return weights @ columns[whole[name]] / weights.sum(axis=1)
        has = columns["claimed"] > 0
        c, y, w = columns["confidence"][has], columns["correct"][has], weights[:, has]
        if name == "ece":
            return calibration.ece(c, y, w, calibration.bin_edges(c, calibration.Settings()))
        return {"brier": calibration.brier, "mean_confidence": calibration.mean_confidence}[name](
            c, y, w
        )

    def n(self, name: str) -> int:
        """Return how many rows a metric is over."""
        if name in ("ece", "brier", "mean_confidence"):
            return int(self.columns["claimed"].sum())
        return len(self.rows)


def build_report(
    examples: Sequence[Example], rows: Sequence[EvalRow], origin: Origin
) -> EvalReport:
    """Return the report of rows answered to `examples`, with today's instrument and summaries."""
    return EvalReport(
        data_name=origin.data_name,
        data_sha256=data_sha256(examples),
        chain_name=origin.chain_name,
        stage_checksums=dict(origin.stage_checksums),
        settings=dict(origin.settings),
        versions=instrument(),
        created_at=origin.created_at,
        command=origin.command,
        rows=tuple(rows),
        summaries=summarise(rows),
    )


def summarise(
    rows: Iterable[EvalRow], draws: int = DRAWS, seed: int = 0
) -> tuple[StageSummary, ...]:
    """Return every metric of every stage in every group, with n and 95 % interval.

    Stages come in the order of the rows, groups as "all", "unaided", then kinds. Intervals are
    percentile bootstrap over clusters; a share that is the same in every row gets Wilson's instead,
    with clusters for n, because resampling equal rows shows no spread; any other metric without
    spread gets none, and the note "constant".
    """
    stages: dict[str, list[EvalRow]] = {}
    for row in rows:
        if row.example.ground_truth.kind in verifiers.CONTENT:
            stages.setdefault(row.stage, []).append(row)
    return tuple(
        StageSummary(
            stage=stage,
            is_baseline=stage in BASELINES,
            group=group,
            metrics=_metrics(Table(members), draws, seed),
        )
        for stage, of_stage in stages.items()
        for group, members in grouped(of_stage).items()
    )


def grouped(rows: Sequence[EvalRow]) -> dict[str, list[EvalRow]]:
    """Return the rows by group; a group without rows is left out."""
    groups = {
        "all": list(rows),
        HEADLINE: [row for row in rows if row.example.ground_truth.kind != "mechanism"],
    }
    for row in rows:
        groups.setdefault(row.example.ground_truth.kind, []).append(row)
    return {name: members for name, members in groups.items() if members}


def paired_difference(
    report: EvalReport, stages: tuple[str, str], metric: str, group: str = HEADLINE, seed: int = 0
) -> Metric:
    """Return metric(second stage) - metric(first stage) on the same questions, with its interval.

    Both stages are resampled together, by cluster. BadConfig if a stage lacks answers to some of
    the other's questions, or for an unknown stage, group or metric.
    """
    if metric not in METRICS:
        raise BadConfig(f"no metric is called {metric!r}; known are {', '.join(METRICS)}")
    tables = [_table(report, stage, group) for stage in stages]
    asked = [[row.example.id for row in table.rows] for table in tables]
    if asked[0] != asked[1]:
        raise BadConfig(
            f"{stages[0]!r} and {stages[1]!r} did not answer the same questions of {group!r}"
        )
    first, second = tables

    def difference(weights: Floats) -> Floats:
        return second.metric(metric, weights) - first.metric(metric, weights)

    value = float(difference(np.ones((1, len(first.rows))))[0])
    n = min(first.n(metric), second.n(metric))
    if np.isnan(value):
        return Metric(
            value=None,
            n=n,
            note="undefined: one of the stages has no claim with a stated confidence",
        )
    span = bootstrap({metric: difference}, first.clusters, DRAWS, seed)[metric]
    if _is_point(span):
        return Metric(value=value, n=n, note=CONSTANT)
    return Metric(value=value, n=n, low=span[0], high=span[1])


def calibration_of(
    report: EvalReport,
    stage: str,
    group: str = HEADLINE,
    settings: calibration.Settings | None = None,
) -> calibration.Calibration:
    """Return the calibration of one stage in one group, over the rows that make a claim.

    BadConfig for a stage or group that the report does not have.
    """
    claimed = [
        row for row in _table(report, stage, group).rows if row.verdict.verdict != "no_claim"
    ]
    return calibration.calibrate(
        [row.verdict.confidence.value for row in claimed],
        [row.verdict.verdict == "correct" for row in claimed],
        [row.example.cluster for row in claimed],
        settings,
    )


def instrument() -> dict[str, str]:
    """Return the versions of what measures. Reports of different instruments are not comparable."""
    return {"verifiers": verifiers.VERSION, "confidence": confidence.VERSION}


def save_report(report: EvalReport, path: Path) -> None:
    """Write a report whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(report.model_dump_json(indent=1), encoding="utf-8")
    unfinished.replace(path)


def load_report(path: Path) -> EvalReport:
    """Return a stored report; LabError if it is missing or not one."""
    try:
        return EvalReport.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LabError(
            f"there is no report at {path}; make one with `assay eval run --out {path}`"
        ) from None
    except (ValidationError, UnicodeDecodeError) as error:
        detail = str(error).splitlines()[0]
        raise LabError(
            f"{path} is not a report ({detail}); give a file that `assay eval run` wrote"
        ) from None


def _metrics(table: Table, draws: int, seed: int) -> dict[str, Metric]:
    ones = np.ones((1, len(table.rows)))
    values = {name: float(table.metric(name, ones)[0]) for name in METRICS}
    drawn = {
        name: lambda w, name=name: table.metric(name, w)
        for name in METRICS
        if not np.isnan(values[name])
    }
    spans = bootstrap(drawn, table.clusters, draws, seed)
    return {name: _metric(table, name, values[name], spans.get(name)) for name in METRICS}


def _metric(table: Table, name: str, value: float, span: tuple[float, float] | None) -> Metric:
    if np.isnan(value):
        return Metric(value=None, n=0, note="no claim with a stated confidence")
    note = None
    if name in ("accuracy", "stated_share", "no_claim_share") and value in (0.0, 1.0):
        n_clusters = len(set(table.clusters))
        span = wilson(round(value * n_clusters), n_clusters)
        note = f"the same in every row: Wilson interval over {n_clusters} clusters"
    elif span is not None and _is_point(span):
        span, note = None, CONSTANT
    low, high = span if span else (None, None)
    return Metric(value=value, n=table.n(name), low=low, high=high, note=note)


def _is_point(span: tuple[float, float]) -> bool:
    """Return whether resampling showed no spread at all (up to rounding): that is no certainty."""
    return span[1] - span[0] < 1e-12


def _table(report: EvalReport, stage: str, group: str) -> Table:
    scored = [
        row
        for row in report.rows
        if row.stage == stage and row.example.ground_truth.kind in verifiers.CONTENT
    ]
    members = grouped(scored).get(group)
    if not members:
        known = ", ".join(dict.fromkeys(row.stage for row in report.rows))
        raise BadConfig(
            f"no rows of stage {stage!r} in group {group!r}; the report's stages are {known}"
        )
    return Table(members)
