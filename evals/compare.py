"""Paired comparison: two stages or models on the same rows, metric by metric.

Reports are compared only if the same instrument measured the same questions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from pydantic import Field

from evals.errors import BadConfig, IncomparableReports
from evals.report import CONSTANT, Tally, cells_of, read_counts, reading, rows_of, tally, task_of
from evals.schema import Metric, Record, Share
from evals.schema.reports import Report
from evals.stats.calibration import interval_note
from evals.stats.intervals import (
    ALPHA,
    DRAWS,
    Floats,
    Swaps,
    holm,
    invert_test,
    is_point,
    jackknife_interval,
    mcnemar_p,
    percentile_interval,
    permutation_p,
)
from evals.task import Better, MetricRule


class Difference(Metric):
    """metric(second) - metric(first) with its 95 % interval and its p-values.

    `n` is the smaller number of rows that either side's metric is over. `p_permutation` is exact if `is_exact`, and the
    interval holds the differences that its test does not reject: both always say the same. `p_holm`
    is corrected for every difference that was asked for at once; `p_mcnemar` takes rows for independent and stands
    beside accuracy only. None where undefined. `is_tested` and `better` are those of the metric (`evals.task.MetricRule`).
    """

    metric: str
    first: float | None
    second: float | None
    p_permutation: Share | None = None
    is_exact: bool = False
    p_holm: Share | None = None
    p_mcnemar: Share | None = None
    is_tested: bool = True
    better: Better | None = "higher"

    @property
    def excludes_zero(self) -> bool:
        """Return whether the interval lies on one side of zero."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    @property
    def is_shown(self) -> bool:
        """Return whether the difference is more than chance: by interval and by corrected p."""
        tested = self.is_tested and self.excludes_zero
        return tested and self.p_holm is not None and self.p_holm < ALPHA

    @property
    def is_better(self) -> bool:
        """Return whether the second side has the better value; a difference of 0 is not better."""
        if self.value is None:
            return False
        return self.value < 0 if self.better == "lower" else self.value > 0


class Resampled:
    """A tally with its bootstrap draws; every metric is computed once, and the draws where one needs them."""

    def __init__(self, table: Tally, draws: int, seed: int) -> None:
        self.table = table
        self._drawn: dict[str, Floats] = {}
        self._sums = partial(table.bootstrap_sums, draws, seed)

    def value(self, name: str) -> float | None:
        """Return a metric of the rows as they are, None where it is undefined."""
        value = float(self.table.metric(name, self.table.totals())[0])
        return None if np.isnan(value) else value

    def draws_of(self, name: str) -> Floats:
        """Return a metric of every draw, nan where it is undefined."""
        if name not in self._drawn:
            self._drawn[name] = self.table.metric(name, self._sums())
        return self._drawn[name]


def difference(name: str, first: Resampled, second: Resampled, arranged: Swaps | None = None) -> Difference:
    """Return one metric's difference between two sides, with p and interval of one test where it is `arranged`.

    Without, and for a metric that no p is fit for, the interval is one for reading, by draws or jackknife.
    """
    before, after = first.value(name), second.value(name)
    n = min(first.table.n(name), second.table.n(name))
    measure = first.table.metrics[name]
    arranged = arranged if measure.is_tested else None
    found = Difference(
        metric=name, n=n, first=before, second=after, value=None, is_tested=bool(arranged), better=measure.better
    )
    if before is None or after is None:
        sides = (("first", before), ("second", after))
        which = " and ".join(f"the {order} side" for order, value in sides if value is None)
        return found.model_copy(update={"note": f"{which}: {measure.undefined}"})
    apart = after - before
    one, other = (table.metric(name, table.totals() - table.sums) for table in (first.table, second.table))
    left_out = other - one  # the difference with each cluster left out once; nan where that leaves it undefined
    told: dict[str, object] = {"value": apart}
    if arranged:
        swapped = swap(name, first.table, second.table, arranged)
        span, note = invert_test(apart, swapped, arranged.is_exact, left_out), swap_note(swapped, len(left_out))
        told |= {"p_permutation": permutation_p(apart, swapped, arranged.is_exact), "is_exact": arranged.is_exact}
        is_constant = not np.isnan(left_out).any() and is_point((left_out.min(), left_out.max()))
    else:
        drawn = second.draws_of(name) - first.draws_of(name)
        span, note = percentile_interval(drawn), interval_note(drawn, len(left_out))
        if measure.interval == "jackknife":
            span, note = jackknife_interval(apart, left_out), None
        is_constant = span is None or is_point(span)
    if is_constant:
        return found.model_copy(update=told | {"note": CONSTANT})
    low, high = span or (None, None)
    return found.model_copy(update=told | {"low": low, "high": high, "note": note})


def swap(name: str, first: Tally, second: Tally, arranged: Swaps) -> Floats:
    """Return a metric's difference in each arrangement of clusters that change sides.

    Both must have been tallied with the same cells. A p from them is exact for the null hypothesis that the two
    sides' answers to a cluster are exchangeable.
    """
    moved = arranged.moved(second.sums - first.sums)
    return second.metric(name, second.totals() - moved) - first.metric(name, first.totals() + moved)


def swap_note(swapped: Floats, n_clusters: int) -> str | None:
    """Return what a reader must know about a test by swaps: those without a value, too few clusters for an interval."""
    if 2**n_clusters * ALPHA <= 2:
        return f"{n_clusters} clusters are too few for an interval"
    lost = float(np.isnan(swapped).mean())
    return f"undefined in {100 * lost:.1f} % of the swaps, left out" if lost else None


@dataclass(frozen=True)
class Pairing:
    """What is compared: the metrics on one group of rows, by default the task's; and how often it is resampled."""

    metrics: Sequence[str] = ()
    group: str = ""
    draws: int = DRAWS
    seed: int = 0


class Side(Record):
    """A stage of a chain, or a baseline in its report. `read_by` counts how its answers were read."""

    chain: str
    stage: str
    read_by: dict[str, int] = Field(default_factory=dict)


class PairedComparison(Record):
    """Two sides on the same rows; differences are second minus first.

    `notes` say what else differs between two reports, such as the longest answer allowed, and where their
    answers were read in different ways.
    """

    first: Side
    second: Side
    group: str
    n: int
    n_clusters: int
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()


class Comparisons(Record):
    """Everything that was compared at once, and so is corrected for at once."""

    task: str = "questions"
    data_name: str
    data_sha256: str
    versions: dict[str, str]
    group: str
    draws: int
    seed: int
    n_tests: int
    comparisons: tuple[PairedComparison, ...]


Answers = tuple[Report[Any], str]
"""A report, and a stage in it."""


def compare(pairs: Sequence[tuple[Answers, Answers]], pairing: Pairing | None = None) -> Comparisons:
    """Return the paired differences of every pair of stages, corrected together.

    IncomparableReports if reports differ in instrument or questions; BadConfig for an unknown stage,
    group or metric, for no pair at all, and for stages that did not answer the same questions.
    """
    pairing = pairing or Pairing()
    if not pairs:
        raise BadConfig("there is nothing to compare; name two stages, or two reports of one stage")
    task = task_of(pairs[0][0][0])
    names = pairing.metrics or task.compared or tuple(task.metrics)
    pairing = replace(pairing, metrics=names, group=pairing.group or task.headline)
    unknown = [repr(name) for name in names if name not in task.metrics]
    if unknown:
        raise BadConfig(f"cannot compare by {', '.join(unknown)}; known metrics are {', '.join(task.metrics)}")
    check_comparable(list({id(report): report for pair in pairs for report, _ in pair}.values()))
    found = _correct_p_values([_compare_pair(first, second, pairing) for first, second in pairs])
    report = pairs[0][0][0]
    return Comparisons(
        task=task.name,
        data_name=report.data_name,
        data_sha256=report.data_sha256,
        versions=report.instrument,
        group=pairing.group,
        draws=pairing.draws,
        seed=pairing.seed,
        n_tests=sum(d.p_permutation is not None for each in found for d in each.differences),
        comparisons=tuple(found),
    )


def check_comparable(reports: Sequence[Report[Any]]) -> None:
    """Return if all reports were measured alike; IncomparableReports says what differs."""
    check_instrument(reports)
    for first, other in pairwise(reports):
        if other.data_sha256 != first.data_sha256:
            raise IncomparableReports(
                f"the reports of {first.chain_name} ({first.data_name}, {first.data_sha256[:12]}) and"
                f" {other.chain_name} ({other.data_name}, {other.data_sha256[:12]}) are on different"
                f" questions; answer the same ones with `assay eval run --data {first.data_name}"
                " --out REPORT.json`"
            )


def check_instrument(reports: Sequence[Report[Any]]) -> None:
    """Return if the same versions measured all reports; IncomparableReports names what differs."""
    for first, other in pairwise(reports):
        if other.task != first.task:
            raise IncomparableReports(
                f"the report of {first.chain_name} is on {first.task}, that of {other.chain_name} on {other.task}; name"
                " reports of one task"
            )
        one, two = first.instrument, other.instrument
        if one != two:
            unlike = ", ".join(
                f"{k} {one.get(k, 'none')} and {two.get(k, 'none')}" for k in one | two if one.get(k) != two.get(k)
            )
            raise IncomparableReports(
                f"the reports of {first.chain_name} on {first.data_name} and of {other.chain_name} on"
                f" {other.data_name} were measured with different instruments: {unlike}; {first.made_alike}"
            )
    judges = {str(each.settings["judge"]): None for each in reports if "judge" in each.settings}
    if len(judges) > 1:
        raise IncomparableReports(
            f"the answers of these reports were read by different judges: {'; '.join(judges)}; read them by one,"
            " with `assay eval rescore REPORT.json --read judge --judge URL#MODEL`"
        )


def check_same_rows(sides: Sequence[tuple[Side, Sequence[Any]]]) -> None:
    """Return if every side answered the same questions; BadConfig names one that was not."""
    (one, first), *others = sides
    asked = {row.id: getattr(row, "example", None) for row in first}
    for other, rows in others:
        answered = {row.id: getattr(row, "example", None) for row in rows}
        odd = sorted(asked.keys() ^ answered.keys())
        odd += sorted(id_ for id_ in asked.keys() & answered.keys() if asked[id_] != answered[id_])
        if odd:
            raise BadConfig(
                f"{one.stage!r} of {one.chain} and {other.stage!r} of {other.chain} did not answer the"
                f" same questions: {odd[0]!r} differs, {len(odd)} in all; run both on the same data, without --abstain-below"
            )


def _compare_pair(first: Answers, second: Answers, pairing: Pairing) -> PairedComparison:
    sides = []
    for report, stage in (first, second):
        found = rows_of(report, stage, pairing.group)
        sides.append((Side(chain=report.chain_name, stage=stage, read_by=read_counts(found)), found))
    check_same_rows(sides)
    (one, rows), (other, against) = sides
    notes, mine, theirs = [], first[0].settings, second[0].settings
    if first[0] is not second[0]:
        names = sorted(mine.keys() | theirs.keys())
        notes = [f"{k}: {mine.get(k)} and {theirs.get(k)}" for k in names if mine.get(k) != theirs.get(k)]
        if one.read_by.keys() - {"none"} != other.read_by.keys() - {"none"}:
            notes.append(f"answers read by: {reading(one.read_by)} and {reading(other.read_by)}")
    every = task_of(first[0]).metrics
    metrics = {name: every[name] for name in pairing.metrics}
    differences, n_clusters = paired_differences((rows, against), metrics, pairing)
    return PairedComparison(
        first=one,
        second=other,
        group=pairing.group,
        n=len(rows),
        n_clusters=n_clusters,
        differences=tuple(differences),
        notes=tuple(notes),
    )


def paired_differences(
    sides: Sequence[Sequence[Any]], metrics: Mapping[str, MetricRule], pairing: Pairing
) -> tuple[list[Difference], int]:
    """Return every metric's difference between two sides, p not yet corrected, and the number of clusters.

    A row that a metric does not apply to on one side, for want of a verdict, is left out on both.
    """
    rows = [*sides[0], *sides[1]]
    without = {
        name: {row.id for row in rows if each.adds(row) is None}
        for name, each in metrics.items()
        if each.adds is not None
    }
    cells = cells_of(rows)
    tables = [tally(of_side, metrics, cells, without) for of_side in sides]
    before, after = (Resampled(table, pairing.draws, pairing.seed) for table in tables)
    arranged = Swaps(len(tables[0].clusters), pairing.draws, pairing.seed)
    differences = []
    for name in metrics:
        found = difference(name, before, after, arranged)
        if found.value is not None and name == "accuracy":
            right = [{row.id: row.grade.verdict == "correct" for row in of_side} for of_side in sides]
            both = [(right[0][each], right[1][each]) for each in right[0]]
            p = mcnemar_p(both.count((True, False)), both.count((False, True)))
            found = found.model_copy(update={"p_mcnemar": p})
        differences.append(found)
    return differences, len(tables[0].clusters)


def _correct_p_values(compared: Sequence[PairedComparison]) -> list[PairedComparison]:
    """Return the comparisons with Holm's correction over all tests in them."""
    tests = [d.p_permutation for each in compared for d in each.differences if d.p_permutation is not None]
    adjusted = iter(holm(tests))

    def with_corrected_p(d: Difference) -> Difference:
        return d if d.p_permutation is None else d.model_copy(update={"p_holm": next(adjusted)})

    return [
        each.model_copy(update={"differences": tuple(map(with_corrected_p, each.differences))}) for each in compared
    ]
