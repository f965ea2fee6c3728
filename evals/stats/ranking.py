"""Ratings from votes between two: Bradley-Terry with ties, 95 % intervals, ranks, and which match would teach most.

A win of i over j, of j over i and a tie are as likely as exp(r_i), exp(r_j) and exp(t + (r_i + r_j) / 2) to each other
(Davidson 1970, JASA 65:317, written as log-linear; without ties Bradley and Terry 1952). Fitted by maximum likelihood
with a weak normal prior (`PRIOR`): without one there is no estimate where somebody won every vote (Ford 1957).

Intervals: estimate ± t · standard error, the wider of two: from the curvature, and by the sandwich over questions, and
over raters where there are `FEWEST_RATERS` (two ways at once: Cameron, Gelbach and Miller 2011, JBES 29:238). Those who
were never compared, directly or through others, stand in groups of their own, each around 1000.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import NamedTuple

import numpy as np

from evals.errors import BadConfig
from evals.schema import Choice
from evals.schema.votes import BoardRow
from evals.stats.intervals import LEVEL, Floats, student

PRIOR = 4.0
"""Standard deviation of ratings before any vote, in logits: some 700 points."""
POINTS = 400 / math.log(10)
"""Points of a logit: 400 more are odds of ten to one, as in chess."""
MIDDLE = 1000.0
FEWEST_RATERS = 10
EXPLORED = 0.1
"""Share of matches that are drawn among all, whatever they would teach."""


class Vote(NamedTuple):
    """Who was compared, by name; `score` is the share of the first: 1, 0, or 0.5 for a tie."""

    first: str
    second: str
    score: float
    question: str
    rater: str


class Fit(NamedTuple):
    """Ratings in logits, then the tie parameter, then effects; the inverse of the curvature, and how likely a win and a tie are."""

    values: Floats
    covariance: Floats
    chances: Floats


def fit(names: Sequence[str], pairs: Sequence[tuple[str, str]], counts: Floats, beside: Floats | None = None) -> Fit:
    """Return the ratings of `names`; `counts` (pairs, 3) are wins of the first, of the second, ties; Newton's method.

    `beside` (pairs, covariates) is what else the first has more of than the second; their effects, in logits, come last.
    """
    design = _design(names, pairs, beside)
    values, n = np.zeros(design.shape[2]), counts.sum(axis=1)
    for _ in range(100):
        chances = _chances(design @ values)
        slope = np.einsum("po,pok->k", counts - n[:, None] * chances, design) - values / PRIOR**2
        middle = np.einsum("po,pok->pk", chances, design)
        spread = np.einsum("po,pok,pol->kl", n[:, None] * chances, design, design)
        spread -= np.einsum("p,pk,pl->kl", n, middle, middle)
        covariance = np.linalg.inv(spread + np.eye(len(values)) / PRIOR**2)
        step = covariance @ slope
        values += step * min(1.0, 2 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-9:
            break
    return Fit(values, covariance, _chances(design @ values))


@dataclass(frozen=True)
class FittedRatings:
    """How models stand by votes, in logits; numbers of one `group` are around 0, and those of two cannot be compared.

    `reach` is half of the 95 % interval of each, `apart` (models, models) that of each difference. `effects` are those of
    covariates, with their standard errors and degrees of freedom.
    """

    names: tuple[str, ...]
    group: np.ndarray
    values: Floats
    reach: Floats
    apart: Floats
    effects: Floats
    errors: Floats
    degrees: int

    def ahead(self, one: str, other: str) -> float | None:
        """Return by how much one is ahead of another; None where no votes connect them."""
        if one not in self.names or other not in self.names:
            return None
        i, j = self.names.index(one), self.names.index(other)
        return float(self.values[i] - self.values[j]) if self.group[i] == self.group[j] else None

    def half(self, one: str, other: str) -> float:
        """Return half of the 95 % interval of a difference."""
        return float(self.apart[self.names.index(one), self.names.index(other)])

    def error(self, one: str, other: str) -> float:
        """Return the standard error of a difference."""
        return self.half(one, other) / student((1 + LEVEL) / 2, self.degrees)


def fit_ratings(votes: Sequence[Vote], beside: Floats | None = None) -> FittedRatings:
    """Return how everybody in the votes stands, with the effects of covariates (votes, covariates) beside who is compared.

    BadConfig for a vote between one and the same, or no share.
    """
    for vote in votes:
        if vote.first == vote.second or vote.score not in (0.0, 0.5, 1.0):
            raise BadConfig(
                f"a vote between {vote.first!r} and {vote.second!r} has the score {vote.score:g}; a vote is between two, and its"
                " score is 1, 0 or 0.5 (a tie): take the vote out."
            )
    names = sorted({name for vote in votes for name in (vote.first, vote.second)})
    met = [(vote.first, vote.second) for vote in votes]
    pairs, at = met, np.arange(len(votes))
    if beside is None:  # votes on the same two are alike
        pairs = sorted(set(met))
        at = np.array([pairs.index(each) for each in met])
    outcome = np.array([{1.0: 0, 0.0: 1}.get(vote.score, 2) for vote in votes], dtype=int)
    counts = np.zeros((len(pairs), 3))
    np.add.at(counts, (at, outcome), 1)
    found, design = fit(names, pairs, counts, beside), _design(names, pairs, beside)
    middle = np.einsum("po,pok->pk", found.chances, design)
    sandwich, degrees = _sandwich(design[at, outcome] - middle[at], votes, found.covariance)
    n, group = len(names), _groups(names, pairs, counts.sum(axis=1))
    same = group[:, None] == group
    unit = np.eye(n, len(found.values))
    centred = (np.eye(n) - same / same.sum(axis=1)) @ unit

    def error(contrasts: Floats) -> Floats:
        known = [np.einsum("...k,kl,...l->...", contrasts, each, contrasts) for each in (found.covariance, sandwich)]
        return np.sqrt(np.maximum(0.0, np.maximum(*known)))

    factor = student((1 + LEVEL) / 2, max(degrees, 2))
    return FittedRatings(
        names=tuple(names),
        group=group,
        values=centred @ found.values,
        reach=factor * error(centred),
        apart=factor * error(unit[:, None] - unit),
        effects=found.values[n + 1 :],
        errors=error(np.eye(len(found.values))[n + 1 :]),
        degrees=max(degrees, 2),
    )


def ratings(votes: Sequence[Vote]) -> list[BoardRow]:
    """Return everybody in the votes, best first within each group."""
    if not votes:
        return []
    found = fit_ratings(votes)
    made = []
    for k, name in enumerate(found.names):
        rated = [vote for vote in votes if name in (vote.first, vote.second)]
        scores = [vote.score if vote.first == name else 1 - vote.score for vote in rated]
        value, reach = MIDDLE + POINTS * float(found.values[k]), POINTS * float(found.reach[k])
        better = [found.values > found.values[k] + found.apart[:, k], found.group == found.group[k]]
        row = BoardRow(
            group=int(found.group[k]),
            rank=1 + int(np.logical_and(*better).sum()),
            model=name,
            rating=value,
            low=value - reach,
            high=value + reach,
            votes=len(rated),
            wins=scores.count(1.0),
            ties=scores.count(0.5),
            win_rate=sum(scores) / len(rated),
        )
        made.append(row)
    return sorted(made, key=lambda each: (each.group, -each.rating))


def gains(
    names: Sequence[str], pairs: Sequence[tuple[str, str]], counts: Floats, asked: Sequence[tuple[str, str]]
) -> Floats:
    """Return for each pair in `asked` by how much one vote on it would lower the variances of all ratings together.

    That is information of a vote on the difference × what the difference shares with every rating, squared.
    """
    found, n = fit(names, pairs, counts), len(names)
    design = _design(names, asked)
    chances = _chances(design @ found.values)
    contrast = design[:, 0, :] - design[:, 1, :]
    information = (chances[:, 0] + chances[:, 1] - (chances[:, 0] - chances[:, 1]) ** 2) / 4
    shared = contrast @ found.covariance
    own = np.einsum("pk,pk->p", shared, contrast)
    return information * (shared[:, :n] ** 2).sum(axis=1) / (1 + information * own)


def next_match(
    stages: Sequence[str],
    fell: Mapping[tuple[str, str, Choice], int],
    mine: Mapping[tuple[str, str], int],
    chance: Random,
) -> tuple[str, str]:
    """Return which two of the stages to compare next, left and right.

    The two on whom a vote would lower the variances of the ratings most; of equals those with fewest votes, then by chance.
    The first stands on the side where the rater (`mine`: votes by left and right) saw it less often beside the other.
    """
    pairs = list(combinations(stages, 2))
    if chance.random() >= EXPLORED and len(pairs) > 1:
        counts = np.zeros((len(pairs), 3))
        for k, (one, other) in enumerate(pairs):
            for (left, right), column in (((one, other), 0), ((other, one), 1)):
                counts[k, column] += fell.get((left, right, "left"), 0)
                counts[k, 1 - column] += fell.get((left, right, "right"), 0)
                counts[k, 2] += fell.get((left, right, "tie"), 0) + fell.get((left, right, "both_bad"), 0)
        gained = gains(stages, pairs, counts, pairs)
        order = [(round(-gain / gained.max(), 9), n) for gain, n in zip(gained, counts.sum(axis=1), strict=True)]
        pairs = [pair for pair, each in zip(pairs, order, strict=True) if each == min(order)]
    one, other = chance.choice(pairs)
    seen = mine.get((one, other), 0) - mine.get((other, one), 0)
    return (one, other) if seen < 0 or (seen == 0 and chance.random() < 0.5) else (other, one)


def _design(names: Sequence[str], pairs: Sequence[tuple[str, str]], beside: Floats | None = None) -> Floats:
    """Return what each outcome of each pair adds up: shape (pairs, 3 outcomes, names + 1 + covariates)."""
    at, n = {name: k for k, name in enumerate(names)}, len(names)
    design = np.zeros((len(pairs), 3, n + 1 + (0 if beside is None else beside.shape[1])))
    for k, (first, second) in enumerate(pairs):
        design[k, 0, at[first]] = design[k, 1, at[second]] = design[k, 2, n] = 1
        design[k, 2, [at[first], at[second]]] = 0.5
    if beside is not None:
        design[:, 0, n + 1 :], design[:, 1, n + 1 :] = beside / 2, -beside / 2
    return design


def _chances(worth: Floats) -> Floats:
    odds = np.exp(worth - worth.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def _sandwich(scores: Floats, votes: Sequence[Vote], bread: Floats) -> tuple[Floats, int]:
    """Return the covariance that holds where votes on a question, and of a rater, go together; and its degrees of freedom."""

    def meat(clusters: Sequence[object]) -> tuple[Floats, int]:
        at = {each: k for k, each in enumerate(dict.fromkeys(clusters))}
        sums = np.zeros((len(at), scores.shape[1]))
        np.add.at(sums, [at[each] for each in clusters], scores)
        return sums.T @ sums * len(at) / max(len(at) - 1, 1), len(at)

    filling, n = meat([vote.question for vote in votes])
    raters, n_raters = meat([vote.rater for vote in votes])
    if n_raters >= FEWEST_RATERS:
        both, _ = meat([(vote.question, vote.rater) for vote in votes])
        filling, n = filling + raters - both, min(n, n_raters)
    return bread @ filling @ bread, n - 1


def _groups(names: Sequence[str], pairs: Sequence[tuple[str, str]], n: Floats) -> np.ndarray:
    """Return a number for each name, the same for those whom votes connect; 1 for the group with most of the `n` votes."""
    group = {name: name for name in names}
    for first, second in pairs:
        old, new = group[second], group[first]
        group = {name: new if each == old else each for name, each in group.items()}
    votes: Counter[str] = Counter()
    for (first, _), number in zip(pairs, n, strict=True):
        votes[group[first]] += int(number)
    order = [each for each, _ in votes.most_common()]
    return np.array([1 + order.index(group[name]) for name in names])
