"""Which predicted concern says what a human said: one to one within an article.

Optimal: as many eligible pairs as can be, and among those the greatest sum of similarities. Greedy: the
most alike pair first. A pair is eligible from the threshold on.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from evals.concerns.panel import Panel
from evals.concerns.similarity import Block, Similarity
from evals.intervals import Floats, Whole
from evals.schema.reviewscores import Assignment

FORBIDDEN = 1e6
"""Cost of a pair that is not eligible: more than all eligible ones together."""


@dataclass(frozen=True)
class Matching:
    """For each predicted concern (flat, as in the panel): whom it matches and whom it is nearest to.

    `human` and `nearest` are flat places of human concerns, -1 for none; `similarity` is that of the
    match (0 for none), `best` the greatest to any human concern (nan where the article has none).
    """

    human: Whole
    similarity: Floats
    nearest: Whole
    best: Floats

    @property
    def is_matched(self) -> np.ndarray:
        """Which predicted concerns have a match."""
        return self.human >= 0


def match(
    panel: Panel,
    similarity: Similarity,
    threshold: float,
    assignment: Assignment = "optimal",
    partner: Whole | None = None,
) -> Matching:
    """Return who matches whom; `partner` (articles) names whose human concerns each list is held against.

    Without `partner` that is the article itself; -1 leaves an article out.
    """
    n = len(panel.predicted.texts)
    human, nearest = np.full(n, -1, dtype=np.intp), np.full(n, -1, dtype=np.intp)
    alike, best = np.zeros(n), np.full(n, np.nan)
    start, columns = panel.predicted.start.tolist(), panel.human.start.tolist()
    others = range(len(panel.article_ids)) if partner is None else partner.tolist()
    assign = optimal if assignment == "optimal" else greedy
    for article, other in enumerate(others):
        first, last = start[article], start[article + 1]
        if other < 0 or first == last or columns[other] == columns[other + 1]:
            continue
        block = similarity.block(article, other)
        place = block.argmax(axis=1)
        top = block[np.arange(last - first), place]
        best[first:last] = top
        nearest[first:last] = np.where(top > 0, place + columns[other], -1)
        rows, found = assign(block, threshold)
        human[first + rows] = found + columns[other]
        alike[first + rows] = block[rows, found]
    return Matching(human, alike, nearest, best)


def optimal(block: Block, threshold: float) -> tuple[Whole, Whole]:
    """Return rows and columns of the best one-to-one assignment of eligible pairs."""
    is_eligible = block >= block.dtype.type(threshold)
    if not is_eligible.any():
        return _NONE, _NONE
    rows, columns = linear_sum_assignment(np.where(is_eligible, 1.0 - block, FORBIDDEN))
    kept = is_eligible[rows, columns]
    return rows[kept], columns[kept]


def greedy(block: Block, threshold: float) -> tuple[Whole, Whole]:
    """Return rows and columns of eligible pairs, most alike first; ties go to the later pair."""
    rows, columns = np.nonzero(block >= block.dtype.type(threshold))
    order = np.lexsort((columns, rows, block[rows, columns]))[::-1]
    taken_rows: dict[int, int] = {}
    taken_columns: set[int] = set()
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if row not in taken_rows and column not in taken_columns:
            taken_rows[row] = column
            taken_columns.add(column)
    pairs = sorted(taken_rows.items())
    found = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    return found[:, 0], found[:, 1]


_NONE = np.zeros(0, dtype=np.intp)
