"""The threshold of an encoder, from how alike human concerns on different papers are.

No two papers share their concerns, so whatever similarity human concerns on other papers of the same
source reach is reached by chance: style, field, the encoder's common direction (two texts that are equal
word for word are left out: they do say the same). For every human concern
the greatest similarity to one other paper's whole list is taken, for several other papers, because a match
is the best of a list too. The threshold is the quantile of these that lets the wanted share pass. It
depends on the reference and the encoder only, so every system is measured with the same one.
"""

from dataclasses import dataclass, replace

import numpy as np

from evals.concerns.clean import key_of
from evals.concerns.encoder import Encoder
from evals.concerns.panel import Panel
from evals.concerns.shuffle import partners
from evals.concerns.similarity import LexicalSimilarity, Similarity, VectorSimilarity
from evals.errors import BadConfig, LabError

FALSE_MATCH_RATE = 0.05
ROUNDS = 5
"""Other papers whose lists each paper's concerns are held against."""
HIGHEST = 0.9999
"""A text agrees with itself whatever chance does."""
FEW = 200
"""Similarities by chance below which the quantile is rough."""


@dataclass(frozen=True)
class Threshold:
    """A threshold, where it comes from, and what is known about how well it tells papers apart.

    `within` is the share of human concerns that another concern on the same paper passes with, which
    shows how much the encoder sees at all; `n` the similarities by chance behind the quantile.
    """

    value: float
    origin: str
    rate: float | None = None
    n: int = 0
    within: float | None = None

    @property
    def is_rough(self) -> bool:
        """Whether too few similarities are behind it."""
        return self.rate is not None and self.n < FEW


def calibrated(panel: Panel, encoder: Encoder | None, rate: float, seed: int) -> Threshold:
    """Return the threshold that lets `rate` of human concerns match on another paper; None is lexical.

    LabError where the reference has fewer than two papers with concerns.
    """
    if not 0 < rate < 1:
        raise LabError(f"a false-match rate lies between 0 and 1, seen {rate}; 0.05 is usual")
    similarity = _human_similarity(panel, encoder)
    by_chance = []
    for partner in partners(panel.sources, panel.human.sizes > 0, ROUNDS, seed):
        by_chance += _best(panel, similarity, partner)
    if not by_chance:
        raise LabError(
            "a threshold needs human concerns on two papers or more; give one: --threshold 0.5"
        )
    values = np.sort(np.concatenate(by_chance))
    place = min(len(values) - 1, int(np.ceil((1 - rate) * len(values))))
    value = min(HIGHEST, float(np.nextafter(values[place], np.float32(2), dtype=np.float32)))
    origin = f"calibrated: {100 * rate:g} % of human concerns match on another paper by chance"
    found = Threshold(value, origin, rate, len(values))
    return replace(found, within=_within(panel, similarity, value))


def number_of(written: str) -> float:
    """Return a threshold as a user wrote it; BadConfig if it is no similarity."""
    try:
        value = float(written)
    except ValueError:
        value = float("nan")
    if not -1 <= value <= 1:
        raise BadConfig(f"--threshold {written!r} is no similarity; give -1 to 1, or auto")
    return value


def _human_similarity(panel: Panel, encoder: Encoder | None) -> Similarity:
    if encoder is None:
        return LexicalSimilarity(panel.human, panel.human)
    vectors = encoder.encode(panel.human.texts)
    return VectorSimilarity(vectors, vectors, (panel.human, panel.human))


def _best(panel: Panel, similarity: Similarity, partner: np.ndarray) -> list[np.ndarray]:
    """Return for every concern of an article the greatest similarity to its partner's list."""
    tops = []
    key = np.unique([key_of(text) for text in panel.human.texts], return_inverse=True)[1]
    start = panel.human.start
    for article, other in enumerate(partner.tolist()):
        mine, theirs = (key[start[at] : start[at + 1]] for at in (article, other))
        if other >= 0 and len(mine) and len(theirs):
            block = np.array(similarity.block(article, other))
            block[mine[:, None] == theirs[None, :]] = -1.0
            tops.append(block.max(axis=1))
    return tops


def _within(panel: Panel, similarity: Similarity, value: float) -> float | None:
    """Return the share of human concerns with another one of the same paper above the threshold."""
    tops = []
    for article in np.flatnonzero(panel.human.sizes > 1).tolist():
        block = np.array(similarity.block(article, article))
        np.fill_diagonal(block, -np.inf)
        tops.append(block.max(axis=1))
    return float((np.concatenate(tops) >= value).mean()) if tops else None
