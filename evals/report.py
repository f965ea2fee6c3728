"""EvalReports: every row in full, and summaries that can always be recomputed from the rows.

Metrics are those of `evals.report`. Beside the ECE stands the ECE that a perfectly calibrated model
with the same confidences would show by chance: its mean and its 95th percentile.

Groups: "all"; "unaided", the headline; and each kind by its name. Where gene sets are asked for their
directions, "unaided" leaves out the questions on what a set stands for (kinds "mechanism" and "term"):
they name the direction, or ask for none. In any other set of questions it is all of them. Free answers
(kinds "rubric" and "facts") are not scored and are in no metric.

Every summary counts how its answers were read: from the answer line, from text, by a judge.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
from pydantic import ValidationError

from evals import confidence, verifiers
from evals.errors import BadConfig, LabError
from evals.io import rows_write_whole as write_whole
from evals.questions import data_sha256
from evals.questions.baselines import BASELINES
from evals.schema import EvalReport, EvalRow, Example, Metric, StageSummary
from evals.stats import calibration, scores
from evals.stats.calibration import Settings, bin_edges, ece, interval_note, null_ece
from evals.stats.intervals import CELLS, DRAWS, Floats, cluster_draws, is_point, percentile_interval, wilson
from evals.stats.scores import aurc
from evals.verifiers.score import SCORED, VERIFIERS

VERSION = "metrics-2"
KEPT = 2_000_000
"""Weights that are kept in memory for the next table."""
Better = Literal["higher", "lower"]
WeightedMetric = Callable[[Floats, Floats, Floats], Floats]
"""Confidences, outcomes and weights (draws, cells) -> one value per draw."""
Cell = tuple[float, bool]
"""A stated confidence, and whether the claim that it was stated for is correct."""


@dataclass(frozen=True)
class Tally:
    """The rows of one stage summed up by cluster.

    `sums` has one row per cluster, in the order of `clusters`; its first columns are those of COLUMNS,
    its last ones count the rows of each cell.
    """

    clusters: tuple[str, ...]
    cells: tuple[Cell, ...]
    sums: Floats

    def totals(self) -> Floats:
        """Return the sums over all clusters, shape (1, columns)."""
        return self.sums.sum(axis=0, keepdims=True)

    def drawn(self, draws: int, seed: int) -> Floats:
        """Return the sums of bootstrap draws of whole clusters, shape (draws, columns).

        Tallies of the same clusters get the same draws from the same seed, so they stay paired.
        """
        weights = _kept_weights if draws * len(self.clusters) <= KEPT else _weights
        parts = weights(self.clusters, draws, seed)
        return np.concatenate([part @ self.sums for part in parts])

    def metric(self, name: str, totals: Floats) -> Floats:
        """Return one metric for each row of totals; nan where it is undefined."""
        return MEASURES[name].of(self, totals)

    def n(self, name: str) -> int:
        """Return how many rows a metric is over."""
        return round(MEASURES[name].rows(self, self.totals())[0])


@dataclass(frozen=True)
class Measure:
    """A metric: its value from totals, the rows it is over, which end is better, whether it is a share.

    `is_tested` is false where no p is fit to compare two stages: noise adds to the ECE the more, the
    more their confidences are spread, so two stages without any error can differ in it.
    """

    of: Callable[[Tally, Floats], Floats]
    rows: Callable[[Tally, Floats], Floats]
    better: Better | None
    is_share: bool = False
    undefined: str = "no claim with a stated confidence"
    is_tested: bool = True


def tally(rows: Sequence[EvalRow], cells: Iterable[Cell] | None = None) -> Tally:
    """Return the rows summed up by cluster, clusters in alphabetical order.

    `cells` must hold every cell of the rows (None: exactly those); two stages that are tallied with
    the same cells can be mixed cluster by cluster.
    """
    known = tuple(sorted(cells_of(rows) if cells is None else set(cells)))
    clusters = tuple(sorted({row.example.cluster for row in rows}))
    place = {name: index for index, name in enumerate(clusters)}
    column = {cell: len(COLUMNS) + index for index, cell in enumerate(known)}
    sums = np.zeros((len(clusters), len(COLUMNS) + len(known)))
    for row in rows:
        line = sums[place[row.example.cluster]]
        line[: len(COLUMNS)] += _columns(row)
        found = cell(row)
        if found is not None:
            line[column[found]] += 1
    return Tally(clusters, known, sums)


def cells_of(rows: Iterable[EvalRow]) -> set[Cell]:
    """Return every stated confidence of a claim, with whether the claim is correct."""
    return {found for row in rows if (found := cell(row)) is not None}


def cell(row: EvalRow) -> Cell | None:
    """Return the confidence that a row states for its claim, None without either."""
    stated = row.verdict.confidence.value
    if stated is None or row.verdict.verdict == "no_claim":
        return None
    return stated, row.verdict.verdict == "correct"


COLUMNS = (
    *(
        "rows",
        "correct",
        "reward",
        "line",
        "contradictory",
        "no_claim",
        "stated",
        "missing",
        "invalid",
    ),
    *(f"{name} {what}" for name in VERIFIERS for what in ("score", "rows")),
)


def _columns(row: EvalRow) -> list[float]:
    verdict = row.verdict
    verdicts = [verdict.verdict == kind for kind in ("contradictory", "no_claim")]
    states = [verdict.confidence.status == kind for kind in ("stated", "missing", "invalid")]
    given = [verdict.scores.get(name) for name in VERIFIERS]
    parts = [part for score in given for part in (score or 0.0, score is not None)]
    return [
        1.0,
        verdict.verdict == "correct",
        verdict.reward or 0.0,
        has_line(row),
        *verdicts,
        *states,
        *parts,
    ]


def has_line(row: EvalRow) -> bool:
    """Return whether the answer line names one answer, and a confidence line 0 to 100 %."""
    verdict = row.verdict
    is_named = verdict.read_by == "answer" and verdict.verdict in ("correct", "incorrect")
    return is_named and verdict.confidence.status == "stated"


def _weights(clusters: tuple[str, ...], draws: int, seed: int) -> Iterator[Floats]:
    """Yield how often each cluster counts in each draw, a bounded part at a time."""
    generator = np.random.default_rng(seed)
    step = max(1, CELLS // len(clusters))
    for start in range(0, draws, step):
        yield cluster_draws(clusters, min(step, draws - start), generator)


@lru_cache(maxsize=4)
def _kept_weights(clusters: tuple[str, ...], draws: int, seed: int) -> tuple[Floats, ...]:
    """Return the same, kept for the next stage that answered the same questions."""
    return tuple(_weights(clusters, draws, seed))


# ---- the table of metrics ---------------------------------------------------------------------


def _mean(above: str, below: str = "rows") -> Callable[[Tally, Floats], Floats]:
    """Return the metric that divides one sum by another."""
    first, second = COLUMNS.index(above), COLUMNS.index(below)

    def of(table: Tally, totals: Floats) -> Floats:
        n = totals[:, second]
        return np.divide(totals[:, first], n, out=np.full(len(totals), np.nan), where=n > 0)

    return of


def _rows(name: str = "rows") -> Callable[[Tally, Floats], Floats]:
    column = COLUMNS.index(name)
    return lambda table, totals: totals[:, column]


def _share(name: str, better: Better) -> Measure:
    return Measure(_mean(name), _rows(), better, is_share=True)


def _verifier(name: str) -> Measure:
    of, rows = _mean(f"{name} score", f"{name} rows"), _rows(f"{name} rows")
    return Measure(of, rows, "higher", undefined="applies to none of these questions")


def _claims(table: Tally, totals: Floats) -> Floats:
    return totals[:, len(COLUMNS) :].sum(axis=1)


def _calibration(
    metric: WeightedMetric,
    better: Better | None,
    undefined: str = Measure.undefined,
    *,
    is_tested: bool = True,
) -> Measure:
    def of(table: Tally, totals: Floats) -> Floats:
        c, y = (np.array(column, dtype=np.float64) for column in zip(*table.cells, strict=True))
        return metric(c, y, totals[:, len(COLUMNS) :])

    def defined(table: Tally, totals: Floats) -> Floats:
        return of(table, totals) if table.cells else np.full(len(totals), np.nan)

    return Measure(defined, _claims, better, undefined=undefined, is_tested=is_tested)


def _ece(c: Floats, y: Floats, w: Floats) -> Floats:
    return ece(c, y, w, bin_edges(c, Settings()))


MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "accuracy": _share("correct", "higher"),
        "reward": Measure(_mean("reward"), _rows(), "higher"),
        **{name: _verifier(name) for name in VERIFIERS},
        "ece": _calibration(_ece, "lower", is_tested=False),
        "brier": _calibration(scores.brier, "lower"),
        "base_rate_brier": _calibration(scores.base_rate_brier, None),
        "log_loss": _calibration(scores.log_loss, "lower"),
        "auroc": _calibration(scores.auroc, "higher", "needs right and wrong claims with a stated confidence"),
        "aurc": _calibration(aurc, "lower"),
        "mean_confidence": _calibration(scores.mean_confidence, None),
        "line_share": _share("line", "higher"),
        "stated_share": _share("stated", "higher"),
        "missing_share": _share("missing", "lower"),
        "invalid_share": _share("invalid", "lower"),
        "no_claim_share": _share("no_claim", "lower"),
        "contradictory_share": _share("contradictory", "lower"),
    }
)
LOWER_IS_BETTER = frozenset(name for name, each in MEASURES.items() if each.better == "lower")


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


def build_report(examples: Sequence[Example], rows: Sequence[EvalRow], origin: Origin) -> EvalReport:
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
                known[same] = _metrics(tally(members), draws, seed) | _by_chance(members, draws, seed)
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
    return row.example.ground_truth.kind in SCORED or row.verdict.reward is not None


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
        "metrics": VERSION,
    }


def save_report(report: EvalReport, path: Path) -> None:
    """Write a report whole or not at all; LabError if it cannot be written there."""
    write_whole(path, report.model_dump_json(indent=1))


def load_report(path: Path) -> EvalReport:
    """Return a stored report; LabError if it is missing or not one, naming the field that is wrong."""
    try:
        report = EvalReport.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LabError(f"there is no report at {path}; make one with `assay eval run --out {path}`") from None
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
    return LabError(f"{path} is not a report ({problem}); give a file that `assay eval run` wrote, unchanged")


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
    claims = [found for row in rows if (found := cell(row)) is not None]
    if not claims:
        note = MEASURES["ece"].undefined
        return dict.fromkeys(BY_CHANCE, Metric(value=None, n=0, note=note))
    c = np.array([stated for stated, _ in claims], dtype=np.float64)
    settings = Settings(draws=draws, seed=seed)
    found = null_ece(c, bin_edges(c, settings), settings)
    values = zip(BY_CHANCE, (found.mean, found.q95), strict=True)
    return {name: Metric(value=v, n=len(c), note="by chance alone") for name, v in values}
