"""The leaderboard: models and trivial baselines in one table, by one metric, with ranks that are earned.

Only reports measured with the same instrument on the same questions stand in one table. Every row says how
its answers were read; a stage or baseline that two reports read in different ways has a row for each.

Rank = 1 + the number of entries that are shown to be better. One entry is shown to be better than
another if the 95 % interval of their paired difference excludes zero and the permutation p of that
difference, corrected by Holm for all pairs of stages and of a stage with the strongest baseline, is below 0.05
(`Difference.is_shown`). The other baselines have no rank: nobody asks whether one beats another. Entries
that no one is shown to beat share rank 1; by ECE, which has no p, that is everybody. Ranks may skip
numbers, and an entry may stand below another of its own rank, or of a worse one. A stage that left out answers
(`assay eval run --abstain-below`) stands last and has no rank: what it answered are other questions.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, pairwise
from statistics import median
from typing import Any

import numpy as np
from pydantic import Field

from evals.compare import Difference, Resampled, Side, check_comparable, check_instrument, check_same_rows, difference
from evals.errors import BadConfig, IncomparableReports
from evals.io import group_by
from evals.report import cells_of, tally, task_of
from evals.schema import Metric, Record, StageSummary
from evals.schema.reports import Report
from evals.stats.intervals import DRAWS, LEVEL, NORMAL, Swaps, holm
from evals.task import GradedAnswer, MetricRule

READING = (
    "“=” marks a rank that several share. A rank counts who is shown to be better, not who stands above, so"
    " numbers can be left out: =1, =1, 3."
)
RULE = (
    "Rank = 1 + the number of entries that are shown to be better: p of the paired difference, whose 95 % interval"
    " excludes zero where p is below 0.05, stays below it when it is corrected by Holm for all pairs of ranked entries. Of the"
    " baselines the strongest is ranked."
    " A stage that left out answers has none: it chose its questions."
    f" No entry of rank 1 is shown to be worse than another. {READING}"
)


def shown_ranks(ranks: Sequence[int | None]) -> list[str]:
    """Return the ranks of a table as people read them; None, an entry that has none, as a dash.

    >>> shown_ranks([1, 1, 3, None])
    ['=1', '=1', '3', '–']
    """
    sharing = Counter(ranks)
    return ["–" if rank is None else f"={rank}" if sharing[rank] > 1 else str(rank) for rank in ranks]


APART = 0.15
"""The difference that it is said how many questions would show, in the units of a metric of 0..1."""
POWER = 2.8
"""Standard errors that a difference must be wide to be shown in four of five draws: 1.96 + 0.84."""


def has_ranks(rows: Sequence["LeaderboardRow"]) -> bool:
    """Return whether any entry is shown to be better than another; else nothing is said by who stands above."""
    return len({row.rank for row in rows} - {None}) > 1


def questions_needed(rows: Sequence["LeaderboardRow"]) -> int | None:
    """Return about how many questions would show a difference of APART, by the intervals of the ranked; None without any."""
    halves = [
        ((d.high - d.low) / 2, d.n)
        for row in rows
        if row.rank and (d := row.from_best) and d.low is not None and d.high is not None
    ]
    if not halves:
        return None
    needed = median(n * (half / NORMAL.inv_cdf((1 + LEVEL) / 2) * POWER / APART) ** 2 for half, n in halves)
    return 10 * math.ceil(needed / 10)


ANSWERED_BY = ("dtype", "max_new_tokens")
"""Settings of a report that change the texts of the same stage."""
CLOSE = 1e-9
"""Stored values that are closer than this to those of the rows are the same."""


class LeaderboardRow(Record):
    """One stage of one chain, or one trivial baseline (chain None).

    `read_by` counts how the answers were read (`StageSummary`). `rank` is None where the metric is
    undefined, and for all baselines but the strongest. `from_best` is the paired difference to the first row in
    the order, its p corrected for all pairs of ranked entries, without a p for one that has no rank; None for
    that row itself. `abstains_below` is the confidence below which its answers were left out.
    """

    chain: str | None
    stage: str
    is_baseline: bool
    group: str
    metrics: dict[str, Metric]
    read_by: dict[str, int] = Field(default_factory=dict)
    rank: int | None = None
    from_best: Difference | None = None
    abstains_below: str | None = None


class Standings(Record):
    """One table: every entry that was measured on one set of questions, by one metric."""

    task: str = "questions"
    data_name: str
    data_sha256: str
    versions: dict[str, str]
    group: str
    order: str
    rows: tuple[LeaderboardRow, ...]


Entry = tuple[LeaderboardRow, Sequence[GradedAnswer]]
"""A row of the table before ranking, with the answers that it stands on."""


def standings(reports: Sequence[Report[Any]], group: str = "", order: str = "") -> tuple[Standings, ...]:
    """Return one table per set of questions, in the order of the reports.

    IncomparableReports if any two of the reports differ in versions; else as `leaderboard`.
    """
    check_instrument(reports)
    task = task_of(reports[0])
    group, order = group or task.headline, order or task.order
    return tuple(
        Standings(
            data_name=members[0].data_name,
            data_sha256=sha256,
            task=task.name,
            versions=members[0].instrument,
            group=group,
            order=order,
            rows=leaderboard(members, group, order),
        )
        for sha256, members in group_by(reports, lambda each: each.data_sha256).items()
    )


def leaderboard(
    reports: Sequence[Report[Any]], group: str = "", order: str = "", draws: int = DRAWS, seed: int = 0
) -> tuple[LeaderboardRow, ...]:
    """Return the stages and baselines of `reports` in one group, the best by `order` first, ranked.

    A baseline that several reports hold appears once. Rows without a value come last, without a
    rank. IncomparableReports if the reports differ in versions or questions; BadConfig for an
    unknown group, a metric that is unknown or has no better end, one name on two models, and for stored
    figures that are not those of the rows.
    """
    check_comparable(reports)
    check_asked_alike(reports)
    if not reports:
        return ()
    task = task_of(reports[0])
    group, order = group or task.headline, order or task.order
    entries = _entries(reports, group)
    if not entries:
        known = ", ".join(dict.fromkeys(s.group for report in reports for s in report.summaries))
        raise BadConfig(f"no report has a group {group!r}; known are {known}")
    known = [name for name, each in task.metrics.items() if each.better]
    if order not in known:
        raise BadConfig(f"a leaderboard cannot be ordered by {order!r}; it can be by {', '.join(known)}")
    missing = [row.stage for row, _ in entries if order not in row.metrics]
    if missing:
        raise BadConfig(
            f"the report has no {order!r} for {missing[0]!r}, it is older than that metric; bring it"
            " up to date with `assay eval rescore REPORT.json`"
        )
    measure = task.metrics[order]
    sign = 1 if measure.better == "lower" else -1
    valued = sorted(
        (entry for entry in entries if entry[0].metrics[order].value is not None),
        key=lambda entry: sign * (entry[0].metrics[order].value or 0.0),
    )
    apart = [row for row, _ in valued if row.abstains_below]
    others = (row for row, _ in entries if row.metrics[order].value is None)
    whole = [entry for entry in valued if not entry[0].abstains_below]
    return *_rank_entries(whole, order, measure, draws, seed), *apart, *others


def check_asked_alike(reports: Sequence[Report[Any]]) -> None:
    """Return if answers were as long and of the same number type; IncomparableReports says what differs."""
    for first, other in pairwise(reports):
        one, two = first.settings, other.settings
        known = [key for key in ANSWERED_BY if key in one and key in two]
        unlike = [f"{key} {one[key]} and {two[key]}" for key in known if one[key] != two[key]]
        if unlike:
            options = " ".join(f"--{key.replace('_', '-')} {one[key]}" for key in known)
            raise IncomparableReports(
                f"the answers of {first.chain_name} and of {other.chain_name} to {other.data_name} were written in"
                f" different ways, which changes texts: {', '.join(unlike)}; answer again with `assay eval run {options}`"
            )


def _entries(reports: Sequence[Report[Any]], group: str) -> list[Entry]:
    found: dict[tuple[object, ...], Entry] = {}
    for report in reports:
        below = report.settings.get("abstain_below")
        stages = group_by(report.rows, lambda row: row.stage)
        for summary in report.summaries:
            if summary.group != group:
                continue
            row = LeaderboardRow(
                chain=None if summary.is_baseline else report.chain_name,
                stage=summary.stage,
                is_baseline=summary.is_baseline,
                group=summary.group,
                metrics=summary.metrics,
                read_by=summary.read_by,
                abstains_below=None if summary.is_baseline or below is None else str(below),
            )
            key = row.chain, row.stage, row.abstains_below, frozenset(row.read_by.keys() - {"none"})
            if key in found and not row.is_baseline:
                raise BadConfig(
                    f"two reports measure {row.stage!r} of {row.chain!r} on these questions; give one"
                    " report per chain, or give the chains different names"
                )
            answers = task_of(report).groups(stages.get(row.stage, [])).get(group, [])
            _check_summary(report, summary, answers)
            found.setdefault(key, (row, answers))
    return list(found.values())


def _check_summary(report: Report[Any], summary: StageSummary, answers: Sequence[GradedAnswer]) -> None:
    """Return if the stored values are those of the rows; BadConfig names one that is not."""
    every = task_of(report).metrics
    table = tally(answers, {name: every[name] for name in summary.metrics if name in every})
    totals = table.totals()
    for name in table.metrics:
        stored = summary.metrics[name]
        found, n = float(table.metric(name, totals)[0]), table.n(name)
        value = math.nan if stored.value is None else stored.value
        if stored.n != n or not np.isclose(found, value, rtol=0, atol=CLOSE, equal_nan=True):
            raise BadConfig(
                f"the report of {report.chain_name} on {report.data_name} stores {name} {stored.value}"
                f" (n {stored.n}) for {summary.stage!r}, its rows give {found} (n {n}); make"
                " its summaries anew with `assay eval rescore REPORT.json`"
            )


def _rank_entries(
    entries: Sequence[Entry], order: str, measure: MetricRule, draws: int, seed: int
) -> Iterator[LeaderboardRow]:
    """Yield the rows with their ranks; `entries` must stand in order, the best first."""
    if entries:
        check_same_rows([(Side(chain=row.chain or "baseline", stage=row.stage), answers) for row, answers in entries])
    baselines = [place for place, (row, _) in enumerate(entries) if row.is_baseline]
    compared = set(range(len(entries))) - set(baselines[1:])
    differences = pairwise_differences([answers for _, answers in entries], order, measure, draws, seed, compared)
    lost = [pair for pair, apart in differences.items() if apart.is_shown and apart.value and not apart.is_better]
    for place, (row, _) in enumerate(entries):
        rank = 1 + sum(worse == place for _, worse in lost) if place in compared else None
        yield row.model_copy(update={"rank": rank, "from_best": differences.get((0, place))})


Differences = dict[tuple[int, int], Difference]
"""By the places of two entries, the better placed one first: the later minus the earlier."""


def pairwise_differences(
    sides: Sequence[Sequence[Any]],
    name: str,
    measure: MetricRule,
    draws: int = DRAWS,
    seed: int = 0,
    compared: Collection[int] | None = None,
) -> Differences:
    """Return one metric's difference between every two of several sides, corrected by Holm for all pairs.

    `compared` are the places of those that are compared, None = all; of the others only the difference to the first
    is taken, and not tested. A metric that no p is fit for gets none.
    """
    if len(sides) < 2:
        return {}
    cells = cells_of(row for rows in sides for row in rows)
    tables = [tally(rows, {name: measure}, cells) for rows in sides]
    arranged = Swaps(len(tables[0].clusters), draws, seed)
    drawn = [Resampled(table, draws, seed) for table in tables]
    found = {}
    for one, other in combinations(range(len(tables)), 2):
        is_compared = compared is None or {one, other} <= set(compared)
        if one and not is_compared:
            continue
        found[one, other] = difference(name, drawn[one], drawn[other], arranged if is_compared else None)
    if not measure.is_tested:
        return found
    tested = {pair: d for pair, d in found.items() if d.is_tested}
    corrected = holm([1.0 if d.p_permutation is None else d.p_permutation for d in tested.values()])
    return found | {
        pair: d.model_copy(update={"p_holm": p}) for (pair, d), p in zip(tested.items(), corrected, strict=True)
    }
