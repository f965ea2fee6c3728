"""The metrics of a report. Each is a function of sums over clusters of rows.

The rows of a stage are summed up by cluster once (`tally`). An estimate, a bootstrap draw and a
permutation are then the same product: how often each cluster counts, times its sums. So every metric
gets its interval and its test from the code that gives its value.

Rows that make a claim and state a confidence for it enter the calibration metrics, as counts of each
(confidence, outcome); a confidence without a claim can neither earn nor spoil calibration.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

import numpy as np

from evals import scores
from evals.binning import Settings, bin_edges, ece
from evals.intervals import CELLS, Floats, cluster_draws
from evals.risk import aurc
from evals.schema import EvalRow
from evals.verifiers import VERIFIERS

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
        "auroc": _calibration(
            scores.auroc, "higher", "needs right and wrong claims with a stated confidence"
        ),
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
