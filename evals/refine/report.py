"""From scored answers to figures with intervals, and two stages held against each other in pairs.

Rows about one tissue or one study are not independent: draws and swaps take whole clusters (the records'
`split_group`). A mean leaves out rows whose verdict is missing, and says how many there were.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import ValidationError

from evals.errors import BadConfig, IncomparableReports, LabError
from evals.model import Model, Progress, Sampling
from evals.refine.bank import BASELINES
from evals.refine.citation import copied
from evals.refine.grammar import HARD, WORD
from evals.refine.judge import Verdicts
from evals.refine.prompt import messages
from evals.refine.records import records_sha256
from evals.refine.score import Prepared, explain, prepare
from evals.schema.refiner import RefinerRecord, RewardConfig
from evals.schema.reports import (
    Metric,
    RefinerComparison,
    RefinerDifference,
    RefinerReport,
    RefinerRow,
    RefinerSummary,
)
from evals.stats.intervals import DRAWS, Floats, Units, is_point, percentile_interval, resample
from evals.stats.paired import Swaps, holm, permutation_p

Reason = Literal["stop", "length", "cancelled", "given"]
TOGETHER = 8
"""Records that are answered together."""


@dataclass(frozen=True)
class Answered:
    """One record answered by one stage, not yet judged."""

    stage: str
    record: RefinerRecord
    text: str
    finish_reason: Reason

    def prepared(self, config: RewardConfig) -> Prepared:
        """Return the answer read and checked, to be graded by all items."""
        return prepare(self.record, self.text, config)

    def row(self, prepared: Prepared, verdicts: Verdicts | None, judge: str) -> RefinerRow:
        """Return the answer's row of a report."""
        reading = prepared.reading
        texts = [part.text for part in (*reading.claims, *reading.uncited)]
        return RefinerRow(
            stage=self.stage,
            cluster=self.record.group,
            answerable=self.record.answerable,
            finish_reason=self.finish_reason,
            copied=copied(texts, prepared.evidence),
            words=sum(len(WORD.findall(text)) for text in texts),
            scored=explain(prepared, verdicts, judge),
        )


def answers(
    model: Model,
    records: Sequence[RefinerRecord],
    stages: Sequence[str],
    sampling: Sampling,
    progress: Progress | None = None,
) -> list[Answered]:
    """Return what every stage answers to every record, stage by stage."""
    found: Mapping[str, list[Answered]] = {stage: [] for stage in stages}
    for start in range(0, len(records), TOGETHER):
        batch = records[start : start + TOGETHER]
        given = model.generate([messages(record) for record in batch], stages, sampling)
        for record, row in zip(batch, given, strict=True):
            for answer in row:
                found[answer.stage].append(Answered(answer.stage, record, answer.text, answer.finish_reason))
        if progress is not None:
            done = start + len(batch)
            progress(done / len(records), f"{done} of {len(records)} records answered")
    return [each for stage in stages for each in found[stage]]


def baseline_answers(records: Sequence[RefinerRecord]) -> list[Answered]:
    """Return what takes no model, for every record."""
    return [Answered(name, record, policy(record), "given") for name, policy in BASELINES.items() for record in records]


METRICS = (
    "reward",
    "rubric",
    "citation_f1",
    "citation_precision",
    "citation_recall",
    "wellformed",
    "format_bonus",
    "right_to_abstain",
    "words",
    "copied",
)
"""Programmatic are wellformed (the hard checks), format_bonus, words and copied: no judge is in them."""


@dataclass(frozen=True)
class Origin:
    """Where the answers of a report come from, who judged them, and how to make them again."""

    data_name: str
    chain_name: str
    stage_checksums: Mapping[str, str]
    judge: str
    judge_mode: str
    reward: RewardConfig
    settings: Mapping[str, str | int | float | None]
    versions: Mapping[str, str]
    created_at: datetime
    command: str


def build(rows: Sequence[RefinerRow], records: Sequence[RefinerRecord], origin: Origin) -> RefinerReport:
    """Return the report of some rows."""
    return RefinerReport(
        data_name=origin.data_name,
        data_sha256=records_sha256(records),
        chain_name=origin.chain_name,
        stage_checksums=dict(origin.stage_checksums),
        judge=origin.judge,
        judge_mode=origin.judge_mode,
        reward=origin.reward,
        settings=dict(origin.settings),
        versions=dict(origin.versions),
        created_at=origin.created_at,
        command=origin.command,
        rows=tuple(rows),
        summaries=summaries(rows),
    )


def value_of(row: RefinerRow, metric: str) -> float | None:
    """Return a metric of one answer; None where it does not apply or a verdict is missing."""
    scored = row.scored
    if metric == "wellformed":
        return float(all(scored.format_checks[name] for name in HARD))
    if metric == "words":
        return float(row.words)
    if metric == "copied":
        return row.copied
    if metric == "right_to_abstain":  # no claim where there is no answer, a claim where there is one
        return float(bool(scored.claims) == row.answerable)
    return getattr(scored, metric)


def summaries(rows: Sequence[RefinerRow], draws: int = DRAWS, seed: int = 0) -> tuple[RefinerSummary, ...]:
    """Return the means of every stage, in the order of the rows."""
    return tuple(
        RefinerSummary(
            stage=stage,
            is_baseline=stage in BASELINES,
            metrics=_metrics([row for row in rows if row.stage == stage], draws, seed),
        )
        for stage in dict.fromkeys(row.stage for row in rows)
    )


def compare(
    report: RefinerReport, stage: str, other: RefinerReport, other_stage: str, seed: int = 0
) -> RefinerComparison:
    """Return the paired differences of two stages, second minus first.

    p after Holm is over all `METRICS`. IncomparableReports unless records, judge and reward are the same;
    BadConfig for an unknown stage.
    """
    for name in ("data_sha256", "judge", "judge_mode", "reward"):
        if getattr(report, name) != getattr(other, name):
            raise IncomparableReports(
                f"the reports differ in {name} ({_short(getattr(report, name))} and"
                f" {_short(getattr(other, name))}), so a difference would say nothing about the stages;"
                " answer the same records under the same judge: assay refiner run."
            )
    first, second = _rows(report, stage), _rows(other, other_stage)
    pairs = [(first[name], second[name]) for name in first]
    found = [_difference(pairs, metric, seed) for metric in METRICS]
    known = [(d.metric, d.p_permutation) for d in found if d.p_permutation is not None]
    adjusted = dict(zip((name for name, _ in known), holm([p for _, p in known]), strict=True))
    return RefinerComparison(
        first=stage,
        second=other_stage,
        data_name=report.data_name,
        judge=report.judge,
        n=len(pairs),
        n_clusters=len({row.cluster for row, _ in pairs}),
        differences=tuple(d.model_copy(update={"p_holm": adjusted.get(d.metric)}) for d in found),
    )


def read_report(path: Path) -> RefinerReport:
    """Return a stored report; LabError if it is missing or not one."""
    try:
        return RefinerReport.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise LabError(
            f"there is no report of a refiner at {path}; make one with `assay refiner run --out {path}`."
        ) from None
    except (ValidationError, OSError) as error:
        problem = str(error).splitlines()[0]
        raise LabError(
            f"{path} is no report of a refiner ({problem}); name one that `assay refiner run` wrote."
        ) from None


def _metrics(rows: Sequence[RefinerRow], draws: int, seed: int) -> dict[str, Metric]:
    found = {}
    for name in METRICS:
        known = [(row.cluster, value) for row in rows if (value := value_of(row, name)) is not None]
        missing = len(rows) - len(known)
        note = f"{missing} of {len(rows)} answers without a verdict" if missing else None
        if not known:
            found[name] = Metric(value=None, n=0, note=note or "no answer")
            continue
        values = np.array([value for _, value in known])
        span = _interval([cluster for cluster, _ in known], values, draws, seed)
        low, high = span or (None, None)
        found[name] = Metric(value=float(values.mean()), n=len(known), low=low, high=high, note=note)
    return found


def _interval(clusters: Sequence[str], values: Floats, draws: int, seed: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a mean; None where resampling shows no spread."""

    def mean(weights: Floats) -> Mapping[str, Floats]:
        return {"mean": weights @ values / weights.sum(axis=1)}

    span = percentile_interval(resample(mean, Units.of(clusters), draws, seed)["mean"])
    return None if span is None or is_point(span) else span


def _difference(pairs: Sequence[tuple[RefinerRow, RefinerRow]], metric: str, seed: int) -> RefinerDifference:
    known = [
        (one.cluster, before, after)
        for one, other in pairs
        if (before := value_of(one, metric)) is not None and (after := value_of(other, metric)) is not None
    ]
    if not known:
        return RefinerDifference(
            metric=metric, n=0, first=None, second=None, difference=None, interval=None, p_permutation=None
        )  # fmt: skip
    clusters = [cluster for cluster, _, _ in known]
    before, after = (np.array([row[at] for row in known]) for at in (1, 2))
    change = after - before
    return RefinerDifference(
        metric=metric,
        n=len(known),
        first=float(before.mean()),
        second=float(after.mean()),
        difference=float(change.mean()),
        interval=_interval(clusters, change, DRAWS, seed),
        p_permutation=_p(clusters, change, seed),
    )


def _p(clusters: Sequence[str], change: Floats, seed: int) -> float:
    """Return the two-sided p of a mean difference when whole clusters swap sides."""
    names, member = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    sums = np.bincount(member, weights=change, minlength=len(names)).astype(np.float64)
    swaps = Swaps(len(names), DRAWS, seed)
    swapped = (sums.sum() - 2 * swaps.moved(sums[:, None])[:, 0]) / len(change)
    return permutation_p(float(change.mean()), swapped, swaps.is_exact)


def _rows(report: RefinerReport, stage: str) -> dict[str, RefinerRow]:
    found = {row.scored.record_id: row for row in report.rows if row.stage == stage}
    if not found:
        stages = dict.fromkeys(row.stage for row in report.rows)
        raise BadConfig(f"no stage {stage!r} in the report; it has {', '.join(stages)}.")
    return found


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
