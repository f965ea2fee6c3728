"""Hand-labelled pairs of concerns, and how well a matcher tells which make the same point.

`labelled_pairs.jsonl` holds pairs about the papers that ship: a human concern (a) and what a model, a control, a rule or
another reviewer said (b), drawn over the range of similarity. Natural pairs hardly ever make the same point, so concerns
said again in other words (origin restated) and near misses were written for it. One reader labelled all of them.
"""

from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from evals.io import read_rows
from evals.review.match import Encoder, lists_of, similarity_of
from evals.schema.record import Record
from evals.schema.reports import Metric
from evals.schema.reviews import UNKNOWN
from evals.stats.intervals import Floats, Units, percentile_interval, resample
from evals.stats.scores import ratio

FILE = Path(__file__).with_name("labelled_pairs.jsonl")
DRAWS = 1000


class LabelledPair(Record):
    """Two concerns about one paper, and whether who answers the one has answered the other."""

    article_id: str
    a: str
    b: str
    label: Literal["yes", "partly", "no"]
    reason: str
    origin: str
    labelled_by: str


@cache
def labelled_pairs() -> tuple[LabelledPair, ...]:
    """Return the pairs that ship."""
    return tuple(read_rows(FILE, LabelledPair))


def agreement(encoder: Encoder | None, threshold: float, seed: int = 0) -> dict[str, Metric]:
    """Return the precision and recall of a matcher at its threshold on the pairs labelled yes or no; None compares words.

    Precision is over the pairs that it matches, recall over those labelled yes; 95 % intervals from draws of papers.
    """
    pairs = [pair for pair in labelled_pairs() if pair.label != "partly"]
    sides = [
        lists_of([[(text, UNKNOWN, UNKNOWN, 0)] for text in texts])
        for texts in zip(*((p.a, p.b) for p in pairs), strict=True)
    ]
    similarity = similarity_of(sides[0], sides[1], encoder)
    alike = np.array([similarity.block(at, at)[0, 0] for at in range(len(pairs))], dtype=np.float64)
    is_yes, is_matched = np.array([pair.label == "yes" for pair in pairs], dtype=float), (alike >= threshold) * 1.0

    def measure(weights: Floats) -> dict[str, Floats]:
        both = weights @ (is_yes * is_matched)
        return {"precision": ratio(both, weights @ is_matched), "recall": ratio(both, weights @ is_yes)}

    units = Units.of([pair.article_id for pair in pairs])
    whole, drawn = measure(units.whole()), resample(measure, units, DRAWS, seed)
    found = {}
    for name, of in (("precision", is_matched), ("recall", is_yes)):
        value, (low, high) = float(whole[name][0]), percentile_interval(drawn[name]) or (None, None)
        found[name] = Metric(value=None if np.isnan(value) else value, n=int(of.sum()), low=low, high=high)
    return found
