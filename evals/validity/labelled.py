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
from evals.review.match import LEXICAL, Encoder, lists_of, similarity_of
from evals.schema.record import Record
from evals.schema.reviews import UNKNOWN
from evals.stats.intervals import Floats, Interval, Units, percentile_interval, resample
from evals.stats.scores import ratio

FILE = Path(__file__).with_name("labelled_pairs.jsonl")


class LabelledPair(Record):
    """Two concerns about one paper, and whether who answers the one has answered the other."""

    article_id: str
    a: str
    b: str
    label: Literal["yes", "partly", "no"]
    reason: str
    origin: str
    labelled_by: str


class MatcherAgreement(Record):
    """A matcher at its threshold against the labels yes and no; `partly` is the share of those pairs that it matches.

    Precision is over what it matches, recall over what was labelled yes, kappa is Cohen's; 95 % intervals from draws of
    papers. `auroc` needs no threshold. `false_matches` is the share of pairs labelled no that match, by where b came from.
    """

    matcher: str
    revision: str
    threshold: float
    pairs: int
    yes: int
    no: int
    precision: float | None
    recall: float
    kappa: float
    auroc: float
    partly: float
    intervals: dict[str, Interval | None]
    false_matches: dict[str, float]


@cache
def labelled_pairs() -> tuple[LabelledPair, ...]:
    """Return the pairs that ship."""
    return tuple(read_rows(FILE, LabelledPair))


def agreement(encoder: Encoder | None, threshold: float, draws: int = 1000, seed: int = 0) -> MatcherAgreement:
    """Return how a matcher agrees with the labels; None compares words."""
    pairs = labelled_pairs()
    sides = [
        lists_of([[(text, UNKNOWN, UNKNOWN, 0)] for text in texts])
        for texts in zip(*((p.a, p.b) for p in pairs), strict=True)
    ]
    similarity = similarity_of(sides[0], sides[1], encoder)
    alike = np.array([similarity.block(at, at)[0, 0] for at in range(len(pairs))], dtype=np.float64)
    label = np.array([pair.label for pair in pairs])
    kept = label != "partly"
    is_yes, is_matched = (label[kept] == "yes").astype(float), (alike[kept] >= threshold).astype(float)

    def measure(weights: Floats) -> dict[str, Floats]:
        n, both = weights.sum(axis=1), weights @ (is_yes * is_matched)
        yes, matched = weights @ is_yes, weights @ is_matched
        observed = (n - yes - matched + 2 * both) / n
        by_chance = (yes * matched + (n - yes) * (n - matched)) / n**2
        return {
            "precision": ratio(both, matched),
            "recall": ratio(both, yes),
            "kappa": ratio(observed - by_chance, 1 - by_chance),
        }

    units = Units.of([pair.article_id for pair, stays in zip(pairs, kept, strict=True) if stays])
    values = {name: float(each[0]) for name, each in measure(units.whole()).items()}
    drawn = resample(measure, units, draws, seed)
    above = alike[label == "yes"][:, None] - alike[label == "no"][None, :]
    origins = sorted({pair.origin for pair in pairs if pair.label == "no"})
    is_no = {name: np.array([pair.origin == name and pair.label == "no" for pair in pairs]) for name in origins}
    return MatcherAgreement(
        matcher=encoder.name if encoder is not None else LEXICAL,
        revision=encoder.revision if encoder is not None else "",
        threshold=threshold,
        pairs=len(pairs),
        yes=int(is_yes.sum()),
        no=int(len(is_yes) - is_yes.sum()),
        precision=None if np.isnan(values["precision"]) else values["precision"],
        recall=values["recall"],
        kappa=values["kappa"],
        auroc=float(((above > 0) + 0.5 * (above == 0)).mean()),
        partly=float((alike[label == "partly"] >= threshold).mean()),
        intervals={name: percentile_interval(each) for name, each in drawn.items()},
        false_matches={name: float((alike[chosen] >= threshold).mean()) for name, chosen in is_no.items()},
    )


def agreement_line(found: MatcherAgreement) -> str:
    """Return a matcher's agreement as a sentence to stand beside its scores."""

    def told(name: str) -> str:
        value, span = getattr(found, name), found.intervals[name]
        return "undefined" if value is None else f"{value:.2f}" + (f" [{span[0]:.2f}, {span[1]:.2f}]" if span else "")

    return (
        f"{found.matcher} at {found.threshold:.3f} against {found.yes + found.no} hand-labelled pairs: precision"
        f" {told('precision')}, recall {told('recall')}, kappa {told('kappa')}"
    )
