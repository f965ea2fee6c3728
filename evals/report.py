"""Reports of any task: every row in full, and summaries that can always be recomputed from the rows.

Metrics are those that the task names (`evals.task.MetricRule`). Beside the ECE stands the ECE that a perfectly calibrated
model with the same confidences would show by chance: its mean and its 95th percentile. Every summary counts how its
answers were read: from the answer line, from text, by a judge.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from pydantic import Discriminator, Tag, TypeAdapter, ValidationError

from evals import verifiers, wording
from evals.errors import BadConfig, LabError, first_problem
from evals.io import group_by, read_text, short_repr, write_whole
from evals.questions.task import DIRECTIONS, HEADLINE, MEANINGS, Questions
from evals.schema import EvalReport, Metric, StageSummary
from evals.schema.reports import GradedRow, RefinerReport, Report, ReviewReport
from evals.stats import calibration
from evals.stats.calibration import bootstrap_interval
from evals.stats.intervals import CELLS, DRAWS, Floats, Units, is_point, jackknife_interval, wilson
from evals.task import GradedAnswer, MetricRule, Task, task_class

__all__ = ["DIRECTIONS", "HEADLINE", "MEANINGS", "MEASURES"]

VERSION = "metrics-2"
KEPT = 2_000_000
"""Weights that are kept in memory for the next table."""
CONSTANT = "constant"
"""Note of a metric that is the same in every draw: it has a value and no interval."""
WAYS = {"answer": "line", "letter": "letter", "text": "text", "judge": "judge", "none": "not read"}
"""How an answer was read, as the reports store it and as people read it."""
MEASURES = Questions.metrics
LOWER_IS_BETTER = frozenset(name for name, each in MEASURES.items() if each.better == "lower")
Cell = tuple[float, bool]
"""A stated confidence, and whether the claim that it was stated for is correct."""
Kind = TypeVar("Kind", bound=Report[Any])


@dataclass(frozen=True)
class Tally:
    """The rows of one stage summed up by cluster, for some metrics.

    `sums` has one row per cluster, in the order of `clusters`. Of each metric, `places` are the columns: how many rows
    it applies to, then what they add. The last columns count the rows of each cell.
    """

    metrics: Mapping[str, MetricRule]
    clusters: tuple[str, ...]
    cells: tuple[Cell, ...]
    places: Mapping[str, slice]
    sums: Floats

    def totals(self) -> Floats:
        """Return the sums over all clusters, shape (1, columns)."""
        return self.sums.sum(axis=0, keepdims=True)

    def bootstrap_sums(self, draws: int, seed: int) -> Floats:
        """Return the sums of bootstrap draws of whole clusters, shape (draws, columns).

        Tallies of the same clusters get the same draws from the same seed, so they stay paired.
        """
        weights = _cached_weights if draws * len(self.clusters) <= KEPT else _weights
        return np.concatenate([part @ self.sums for part in weights(self.clusters, draws, seed)])

    def metric(self, name: str, totals: Floats) -> Floats:
        """Return one metric for each row of totals; nan where it is undefined."""
        measure, missing = self.metrics[name], np.full(len(totals), np.nan)
        if measure.of_claims is not None:
            if not self.cells:
                return missing
            c, y = (np.array(column, dtype=np.float64) for column in zip(*self.cells, strict=True))
            return measure.of_claims(c, y, self._claims(totals))
        n, *sums = totals[:, self.places[name]].T
        if not n.any():
            return missing
        if measure.of is None:
            return np.divide(sums[0], n, out=missing, where=n > 0)
        return np.where(n > 0, measure.of(n, *sums), missing)

    def n(self, name: str) -> int:
        """Return how many rows a metric is over."""
        totals = self.totals()
        if self.metrics[name].of_claims is not None:
            return round(self._claims(totals).sum())
        return round(totals[0, self.places[name].start])

    def _claims(self, totals: Floats) -> Floats:
        return totals[:, totals.shape[1] - len(self.cells) :]


def tally(
    rows: Sequence[GradedAnswer],
    metrics: Mapping[str, MetricRule] = MEASURES,
    cells: Iterable[Cell] | None = None,
    without: Mapping[str, Collection[str]] | None = None,
) -> Tally:
    """Return the rows summed up by cluster, clusters in alphabetical order.

    `cells` must hold every cell of the rows (None: exactly those); two stages that are tallied with the same cells can
    be mixed cluster by cluster. `without` are the ids of rows to be left out of a metric.
    """
    clusters = tuple(sorted({row.cluster for row in rows}))
    place = {name: index for index, name in enumerate(clusters)}
    member = np.array([place[row.cluster] for row in rows], dtype=np.intp)
    known: tuple[Cell, ...] = ()
    if any(each.of_claims is not None for each in metrics.values()):
        known = tuple(sorted(cells_of(rows) if cells is None else set(cells)))
    places: dict[str, slice] = {}
    columns: list[Floats] = []
    for name, measure in metrics.items():
        if measure.adds is None:
            continue
        left_out = (without or {}).get(name, ())
        added = [None if row.id in left_out else measure.adds(row) for row in rows]
        width = next((len(each) for each in added if isinstance(each, Sequence)), 1)
        table = np.zeros((len(rows), 1 + width))
        for line, each in zip(table, added, strict=True):
            if each is not None:
                line[0], line[1:] = 1.0, each
        places[name] = slice(sum(each.shape[1] for each in columns), sum(each.shape[1] for each in columns) + 1 + width)
        columns.append(table)
    claims = np.array([[found == one for found in known] for one in map(cell, rows)], dtype=float)
    claims = claims.reshape(len(rows), len(known))
    by_row = np.concatenate([*columns, claims], axis=1)
    sums = np.zeros((len(clusters), by_row.shape[1]))
    np.add.at(sums, member, by_row)
    return Tally(metrics, clusters, known, places, sums)


def cells_of(rows: Iterable[GradedAnswer]) -> set[Cell]:
    """Return every stated confidence of a claim, with whether the claim is correct."""
    return {found for row in rows if (found := cell(row)) is not None}


def cell(row: GradedAnswer) -> Cell | None:
    """Return the confidence that a row states for its claim, None without either."""
    grade = row.grade
    if grade.confidence is None or grade.verdict in (None, "no_claim"):
        return None
    return grade.confidence, grade.verdict == "correct"


def _weights(clusters: tuple[str, ...], draws: int, seed: int) -> Iterator[Floats]:
    """Yield how often each cluster counts in each draw, a bounded part at a time."""
    generator = np.random.default_rng(seed)
    step = max(1, CELLS // len(clusters))
    for start in range(0, draws, step):
        yield Units.of(clusters).draw(min(step, draws - start), generator)


@lru_cache(maxsize=4)
def _cached_weights(clusters: tuple[str, ...], draws: int, seed: int) -> tuple[Floats, ...]:
    """Return the same, kept for the next stage that answered the same questions."""
    return tuple(_weights(clusters, draws, seed))


def build_report(
    examples: Sequence[Any], rows: Sequence[GradedAnswer], task: type[Task[Any]] = Questions, **about: Any
) -> Any:
    """Return the report of rows answered to `examples`, with today's instrument and summaries; `about` are its other fields."""
    return task.report(
        task=task.name,
        data_sha256=task.sha256(examples),
        rows=tuple(rows),
        summaries=summarise(rows, task=task),
        versions=about.pop("versions", None) or instrument(),
        **about,
    )


def task_of(report: Report[Any]) -> type[Task[Any]]:
    """Return the task of a report."""
    return task_class(report.task)


def summarise(
    rows: Iterable[GradedAnswer],
    draws: int = DRAWS,
    seed: int = 0,
    baselines: Collection[str] | None = None,
    task: type[Task[Any]] = Questions,
) -> tuple[StageSummary, ...]:
    """Return every metric of every stage in every group, with n and 95 % interval (percentile bootstrap over clusters).

    A share that is the same in every row gets Wilson's interval, with clusters for n, because resampling equal rows
    shows no spread; any other metric without spread gets none, and the note "constant". `baselines` are the stages
    that are none of the chain's.
    """
    trivial = task.policies if baselines is None else baselines
    summaries = []
    for stage, of_stage in group_by(rows, lambda row: row.stage).items():
        known: dict[tuple[int, ...], dict[str, Metric]] = {}
        for group, members in task.groups(of_stage).items():
            if (same := tuple(map(id, members))) not in known:
                known[same] = metrics_with_intervals(members, task, draws, seed)
            about = {"stage": stage, "is_baseline": stage in trivial, "group": group}
            summaries.append(StageSummary(**about, metrics=known[same], read_by=read_counts(members)))
    return tuple(summaries)


def metrics_with_intervals(
    rows: Sequence[GradedAnswer], task: type[Task[Any]], draws: int = DRAWS, seed: int = 0
) -> dict[str, Metric]:
    """Return every metric of some rows, with n and 95 % interval, and the task's figures that need no draws."""
    table = tally(rows, task.metrics)
    once, left_out = table.totals(), table.totals() - table.sums
    drawn = (
        table.bootstrap_sums(draws, seed)
        if any(each.interval == "bootstrap" for each in task.metrics.values())
        else once
    )
    found = {}
    for name, measure in table.metrics.items():
        value, n = float(table.metric(name, once)[0]), table.n(name)
        lacking = f"{len(rows) - n} of {len(rows)} {measure.lacking}" if measure.lacking and n < len(rows) else None
        if np.isnan(value):
            found[name] = Metric(value=None, n=n, note=lacking or measure.undefined)
            continue
        if measure.interval == "jackknife":
            span, note = jackknife_interval(value, table.metric(name, left_out)), None
            span = span and (max(span[0], measure.limits[0]), min(span[1], measure.limits[1]))
        else:
            values = table.metric(name, drawn)
            span, note = bootstrap_interval(value, values, len(table.clusters))
        if measure.is_share and value in (0.0, 1.0):
            n_clusters = len(table.clusters)
            span = wilson(round(value * n_clusters), n_clusters)
            note = f"the same in every row: Wilson interval over {n_clusters} clusters"
        elif span is None or is_point(span):
            span, note = None, note or CONSTANT
        low, high = span if span else (None, None)
        found[name] = Metric(value=value, n=n, low=low, high=high, note=lacking or note)
    return found | task.beside(rows, draws, seed)


def read_counts(rows: Iterable[GradedAnswer]) -> dict[str, int]:
    """Return how many answers were read how (WAYS); empty where the rows do not say, as before verifiers-6."""
    counts: Counter[str] = Counter()
    for row in rows:
        if row.grade.read_by is None and row.grade.verdict not in (None, "no_claim"):
            return {}
        counts[row.grade.read_by or "none"] += 1
    return {way: counts[way] for way in WAYS if counts[way]}


def reading(counts: Mapping[str, int]) -> str:
    """Return counts as people read them: "line 57, text 2", or "not recorded"."""
    return ", ".join(f"{WAYS[way]} {n}" for way, n in counts.items()) or "not recorded"


def rows_of(report: Report[Any], stage: str, group: str | None = None) -> list[Any]:
    """Return the scored rows of one stage in one group, the headline if None; BadConfig if the report has none."""
    task = task_of(report)
    group = group or task.headline
    members = task.groups([row for row in report.rows if row.stage == stage]).get(group)
    if members:
        return members
    stages = ", ".join(dict.fromkeys(row.stage for row in report.rows))
    raise BadConfig(
        f"no rows of stage {stage!r} in group {group!r}; the report of {report.chain_name} has the"
        f" stages {stages} and the groups {', '.join(task.groups(report.rows))}"
    )


def rows_behind(report: Report[Any], stage: str, group: str | None, metric: str) -> list[Any]:
    """Return the rows of one stage in one group that a metric is over, as many as its n."""
    rows, measure = rows_of(report, stage, group), task_of(report).metrics[metric]
    if measure.adds is None:
        return [row for row in rows if cell(row) is not None]
    return [row for row in rows if measure.adds(row) is not None]


def stages_of(report: Report[Any]) -> tuple[str, ...]:
    """Return the stages of the chain in their order, without the baselines."""
    named = (summary.stage for summary in report.summaries if not summary.is_baseline)
    return tuple(dict.fromkeys(named))


def calibration_of(report: EvalReport, stage: str, group: str = HEADLINE) -> calibration.Calibration:
    """Return the calibration of one stage in one group, over the rows that make a claim; BadConfig as `rows_of`."""
    return calibration.calibrate(*claims_of(report, stage, group))


def claims_of(report: EvalReport, stage: str, group: str | None) -> tuple[list[float | None], list[bool], list[str]]:
    """Return stated confidence, correctness and cluster of the rows that make a claim; BadConfig as `rows_of`."""
    claimed = [row for row in rows_of(report, stage, group) if row.verdict.verdict != "no_claim"]
    return (
        [row.verdict.confidence.value for row in claimed],
        [row.verdict.verdict == "correct" for row in claimed],
        [row.example.cluster for row in claimed],
    )


def instrument() -> dict[str, str]:
    """Return the versions of what measures. Reports of different instruments are not comparable."""
    return {"verifiers": verifiers.VERSION, "confidence": wording.VERSION, "metrics": VERSION}


def save_report(report: Report[Any], path: Path) -> None:
    """Write a report, a line for each row, whole or not at all; LabError if it cannot be written there."""
    head, rows = report.model_dump_json(exclude={"rows"}), ",\n".join(row.model_dump_json() for row in report.rows)
    write_whole(path, f'{head[:-1]},"rows":[\n{rows}\n]}}\n')


def _task_name(document: Any) -> str:
    """Return which form a stored report has; one that names no task is on questions."""
    task = document.get("task", "questions") if isinstance(document, dict) else "questions"
    return task if task in ("questions", "refine", "review") else "other"


STORED: TypeAdapter[Report[Any]] = TypeAdapter(
    Annotated[
        Annotated[EvalReport, Tag("questions")]
        | Annotated[RefinerReport, Tag("refine")]
        | Annotated[ReviewReport, Tag("review")]
        | Annotated[Report[GradedRow], Tag("other")],
        Discriminator(_task_name),
    ]
)


def load_report(path: Path, kind: type[Kind] = EvalReport) -> Kind:  # ty: ignore[invalid-parameter-default]
    """Return a stored report of one kind, of any if `kind` is `Report`; LabError if it is missing or not one.

    The message names the field that is wrong.
    """
    try:
        report = STORED.validate_json(read_text(path, f"make one with `assay {kind.made_with} --out {path}`"))
    except ValidationError as error:
        (place, problem, seen), more = first_problem(error), error.error_count() - 1
        field = place.partition(".")[2] or "(whole file)"  # behind the task
        told = f"field {field!r}: {problem}, seen {short_repr(seen)}{f'; {more} more' if more else ''}"
        raise _no_report(path, kind, told) from None
    if not isinstance(report, kind):
        raise _no_report(path, kind, f"it is one of the task {report.task}")
    repeated = [key for key, n in Counter((row.id, row.stage) for row in report.rows).items() if n > 1]
    if repeated:
        example, stage = repeated[0]
        raise _no_report(path, kind, f"field 'rows': {stage!r} answers {example!r} more than once")
    return report


def _no_report(path: Path, kind: type[Report[Any]], problem: str) -> LabError:
    return LabError(f"{path} is not a report ({problem}); give a file that `assay {kind.made_with}` wrote, unchanged")
