"""EvalReports: every row in full, and summaries that can always be recomputed from the rows.

Metrics are those of `evals.measures`. Beside the ECE stands the ECE that a perfectly calibrated model
with the same confidences would show by chance: its mean and its 95th percentile.

Groups: "all"; "unaided", the headline; and each kind by its name. Where gene sets are asked for their
directions, "unaided" leaves out the questions on what a set stands for (kinds "mechanism" and "term"):
they name the direction, or ask for none. In any other set of questions it is all of them. Free answers
(kinds "rubric" and "facts") are not scored and are in no metric.

Every summary counts how its answers were read: from the answer line, from text, by a judge.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from evals import calibration, confidence, measures, verifiers
from evals.baselines import BASELINES
from evals.binning import Settings, bin_edges, null_ece
from evals.errors import BadConfig, LabError
from evals.intervals import (
    DRAWS,
    Floats,
    is_point,
    percentile_interval,
    wilson,
)
from evals.measures import MEASURES, Tally, tally
from evals.questions import data_sha256
from evals.questions.rows import write_whole
from evals.schema import EvalReport, EvalRow, Example, Metric, StageSummary
from evals.spread import interval_note

HEADLINE = "unaided"
CONSTANT = "constant"
"""Note of a metric that is the same in every draw: it has a value and no interval."""
BY_CHANCE = ("ece_if_calibrated", "ece_if_calibrated_q95")
METRICS = (*MEASURES, *BY_CHANCE)
DIRECTIONS = frozenset(("direct", "uncertainty", "comparison", "conservation", "mechanism"))
"""Kinds of question on gene sets in flight."""
MEANINGS = frozenset(("mechanism", "term"))
"""Kinds that never stand in one headline with directions."""
WAYS = {"answer": "line", "text": "text", "judge": "judge", "none": "not read"}
"""How an answer was read, as the reports store it and as people read it."""


@dataclass(frozen=True)
class Origin:
    """What a report is about, apart from its rows."""

    data_name: str
    chain_name: str
    stage_checksums: Mapping[str, str]
    settings: Mapping[str, str | int | float | None]
    created_at: datetime
    command: str
    libraries: Mapping[str, str] = field(default_factory=dict)


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
        libraries=dict(origin.libraries),
        rows=tuple(rows),
        summaries=summarise(rows),
    )


def summarise(
    rows: Iterable[EvalRow],
    draws: int = DRAWS,
    seed: int = 0,
    baselines: Collection[str] = BASELINES,
) -> tuple[StageSummary, ...]:
    """Return every metric of every stage in every group, with n and 95 % interval.

    Stages come in the order of the rows, groups as "all", "unaided", then kinds. Intervals are
    percentile bootstrap over clusters; a share that is the same in every row gets Wilson's instead,
    with clusters for n, because resampling equal rows shows no spread; any other metric without
    spread gets none, and the note "constant". `baselines` are the stages that are none of the chain's.
    """
    stages: dict[str, list[EvalRow]] = {}
    for row in rows:
        if is_scored(row):
            stages.setdefault(row.stage, []).append(row)
    summaries = []
    for stage, of_stage in stages.items():
        known: dict[tuple[int, ...], dict[str, Metric]] = {}
        for group, members in grouped(of_stage).items():
            same = tuple(map(id, members))
            if same not in known:
                known[same] = _metrics(tally(members), draws, seed) | _by_chance(
                    members, draws, seed
                )
            summaries.append(
                StageSummary(
                    stage=stage,
                    is_baseline=stage in baselines,
                    group=group,
                    metrics=known[same],
                    read_by=read_counts(members),
                )
            )
    return tuple(summaries)


def read_counts(rows: Iterable[EvalRow]) -> dict[str, int]:
    """Return how many answers were read how (WAYS); empty where the rows do not say, as before verifiers-6."""
    counts: Counter[str] = Counter()
    for row in rows:
        if row.verdict.read_by is None and row.verdict.verdict != "no_claim":
            return {}
        counts[row.verdict.read_by or "none"] += 1
    return {way: counts[way] for way in WAYS if counts[way]}


def reading(counts: Mapping[str, int]) -> str:
    """Return counts as people read them: "line 57, text 2", or "not recorded"."""
    return ", ".join(f"{WAYS[way]} {n}" for way, n in counts.items()) or "not recorded"


def grouped(rows: Sequence[EvalRow]) -> dict[str, list[EvalRow]]:
    """Return the rows by group; a group without rows is left out."""
    kinds = {row.example.ground_truth.kind for row in rows}
    aided = MEANINGS if kinds & DIRECTIONS else frozenset()
    groups = {
        "all": list(rows),
        HEADLINE: [row for row in rows if row.example.ground_truth.kind not in aided],
    }
    for row in rows:
        groups.setdefault(row.example.ground_truth.kind, []).append(row)
    return {name: members for name, members in groups.items() if members}


def rows_of(report: EvalReport, stage: str, group: str = HEADLINE) -> list[EvalRow]:
    """Return the scored rows of one stage in one group; BadConfig if the report has none."""
    scored = [row for row in report.rows if row.stage == stage and is_scored(row)]
    members = grouped(scored).get(group)
    if members:
        return members
    stages = ", ".join(dict.fromkeys(row.stage for row in report.rows))
    groups = ", ".join(grouped([row for row in report.rows if is_scored(row)]))
    raise BadConfig(
        f"no rows of stage {stage!r} in group {group!r}; the report of {report.chain_name} has the"
        f" stages {stages} and the groups {groups}"
    )


def stages_of(report: EvalReport) -> tuple[str, ...]:
    """Return the stages of the chain in their order, without the baselines."""
    named = (summary.stage for summary in report.summaries if not summary.is_baseline)
    return tuple(dict.fromkeys(named))


def is_scored(row: EvalRow) -> bool:
    """Return whether the row is scored, so that it counts in metrics; a rubric is only by a judge."""
    return row.example.ground_truth.kind in verifiers.SCORED or row.verdict.reward is not None


def calibration_of(
    report: EvalReport,
    stage: str,
    group: str = HEADLINE,
    settings: calibration.Settings | None = None,
) -> calibration.Calibration:
    """Return the calibration of one stage in one group, over the rows that make a claim.

    BadConfig for a stage or group that the report does not have.
    """
    claimed = [row for row in rows_of(report, stage, group) if row.verdict.verdict != "no_claim"]
    return calibration.calibrate(
        [row.verdict.confidence.value for row in claimed],
        [row.verdict.verdict == "correct" for row in claimed],
        [row.example.cluster for row in claimed],
        settings,
    )


def instrument() -> dict[str, str]:
    """Return the versions of what measures. Reports of different instruments are not comparable."""
    return {
        "verifiers": verifiers.VERSION,
        "confidence": confidence.VERSION,
        "metrics": measures.VERSION,
    }


def save_report(report: EvalReport, path: Path) -> None:
    """Write a report whole or not at all; LabError if it cannot be written there."""
    write_whole(path, report.model_dump_json(indent=1))


def load_report(path: Path) -> EvalReport:
    """Return a stored report; LabError if it is missing or not one, naming the field that is wrong."""
    try:
        report = EvalReport.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LabError(
            f"there is no report at {path}; make one with `assay eval run --out {path}`"
        ) from None
    except IsADirectoryError:
        raise LabError(f"{path} is a folder; name a report that `assay eval run` wrote") from None
    except UnicodeDecodeError as error:
        raise _no_report(path, f"not UTF-8 at byte {error.start}") from None
    except ValidationError as error:
        raise _no_report(path, _complaint(error)) from None
    repeated = [key for key, n in Counter(map(_key, report.rows)).items() if n > 1]
    if repeated:
        example, stage = repeated[0]
        raise _no_report(path, f"field 'rows': {stage!r} answers {example!r} more than once")
    return report


def _key(row: EvalRow) -> tuple[str, str]:
    return row.example.id, row.stage


def _complaint(error: ValidationError) -> str:
    """Return field, problem and the value seen of the first thing that is wrong, and how many more."""
    first, more = error.errors()[0], error.error_count() - 1
    field = ".".join(str(part) for part in first["loc"]) or "(whole file)"
    seen = repr(first["input"])
    seen = seen if len(seen) <= 80 else seen[:77] + "..."
    others = f"; {more} more" if more else ""
    return f"field {field!r}: {first['msg']}, seen {seen}{others}"


def _no_report(path: Path, problem: str) -> LabError:
    return LabError(
        f"{path} is not a report ({problem}); give a file that `assay eval run` wrote, unchanged"
    )


def _metrics(table: Tally, draws: int, seed: int) -> dict[str, Metric]:
    once, drawn = table.totals(), table.drawn(draws, seed)
    found = {}
    for name in MEASURES:
        value = float(table.metric(name, once)[0])
        if np.isnan(value):
            found[name] = Metric(value=None, n=table.n(name), note=MEASURES[name].undefined)
        else:
            found[name] = _metric(table, name, value, table.metric(name, drawn))
    return found


def _metric(table: Tally, name: str, value: float, drawn: Floats) -> Metric:
    span, note = percentile_interval(drawn), interval_note(drawn, len(table.clusters))
    if MEASURES[name].is_share and value in (0.0, 1.0):
        n_clusters = len(table.clusters)
        span = wilson(round(value * n_clusters), n_clusters)
        note = f"the same in every row: Wilson interval over {n_clusters} clusters"
    elif span is None or is_point(span):
        span, note = None, CONSTANT
    low, high = span if span else (None, None)
    return Metric(value=value, n=table.n(name), low=low, high=high, note=note)


def _by_chance(rows: Sequence[EvalRow], draws: int, seed: int) -> dict[str, Metric]:
    """Return the ECE that these confidences would show if they were right: mean, 95th percentile."""
    claims = [cell for row in rows if (cell := measures.cell(row)) is not None]
    if not claims:
        note = MEASURES["ece"].undefined
        return dict.fromkeys(BY_CHANCE, Metric(value=None, n=0, note=note))
    c = np.array([stated for stated, _ in claims], dtype=np.float64)
    settings = Settings(draws=draws, seed=seed)
    found = null_ece(c, bin_edges(c, settings), settings)
    values = zip(BY_CHANCE, (found.mean, found.q95), strict=True)
    return {name: Metric(value=v, n=len(c), note="by chance alone") for name, v in values}
