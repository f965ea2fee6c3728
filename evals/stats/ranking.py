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
    """Ratings in logits, the tie parameter last, with the inverse of the curvature, and how likely a win and a tie are."""

    values: Floats
    covariance: Floats
    chances: Floats


def fit(names: Sequence[str], pairs: Sequence[tuple[str, str]], counts: Floats) -> Fit:
    """Return the ratings of `names`; `counts` (pairs, 3) are wins of the first, of the second, ties; Newton's method."""
    design = _design(names, pairs)
    values, n = np.zeros(len(names) + 1), counts.sum(axis=1)
    for _ in range(100):
        chances = _chances(design @ values)
        slope = np.einsum("po,pok->k", counts - n[:, None] * chances, design) - values / PRIOR**2
        middle = np.einsum("po,pok->pk", chances, design)
        spread = np.einsum("p,po,pok,pol->kl", n, chances, design, design) - np.einsum("p,pk,pl->kl", n, middle, middle)
        covariance = np.linalg.inv(spread + np.eye(len(values)) / PRIOR**2)
        step = covariance @ slope
        values += step * min(1.0, 2 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-9:
            break
    return Fit(values, covariance, _chances(design @ values))


def ratings(votes: Sequence[Vote]) -> list[BoardRow]:
    """Return everybody in the votes, best first within each group; BadConfig for a vote between one and the same, or no share."""
    if not votes:
        return []
    for vote in votes:
        if vote.first == vote.second or vote.score not in (0.0, 0.5, 1.0):
            raise BadConfig(
                f"a vote between {vote.first!r} and {vote.second!r} has the score {vote.score:g}; a vote is between two, and its"
                " score is 1, 0 or 0.5 (a tie): take the vote out."
            )
    names = sorted({name for vote in votes for name in (vote.first, vote.second)})
    pairs = sorted({(vote.first, vote.second) for vote in votes})
    place = {pair: k for k, pair in enumerate(pairs)}
    at = np.array([place[vote.first, vote.second] for vote in votes])
    outcome = np.array([{1.0: 0, 0.0: 1}.get(vote.score, 2) for vote in votes])
    counts = np.zeros((len(pairs), 3))
    np.add.at(counts, (at, outcome), 1)
    found, design = fit(names, pairs, counts), _design(names, pairs)
    middle = np.einsum("po,pok->pk", found.chances, design)
    scores = design[at, outcome] - middle[at]
    sandwich, degrees = _sandwich(scores, votes, found.covariance)
    group = _groups(names, pairs, counts.sum(axis=1))
    same = group[:, None] == group
    centred = (np.eye(len(names)) - same / same.sum(axis=1)) @ np.eye(len(names), len(names) + 1)
    factor = student((1 + LEVEL) / 2, max(degrees, 2))

    def half(contrast: Floats) -> float:
        known = (float(contrast @ each @ contrast) for each in (found.covariance, sandwich))
        return factor * math.sqrt(max(0.0, *known))

    made = []
    for k, name in enumerate(names):
        unit = np.eye(len(names) + 1)
        others = np.flatnonzero(same[k])
        n_better = sum(found.values[j] - found.values[k] > half(unit[j] - unit[k]) for j in others)
        value, reach = MIDDLE + POINTS * float(centred[k] @ found.values), POINTS * half(centred[k])
        first, second = (np.array([pair[side] == name for pair in pairs]) for side in (0, 1))
        wins = int(counts[first, 0].sum() + counts[second, 1].sum())
        n, ties = int(counts[first | second].sum()), int(counts[first | second, 2].sum())
        row = BoardRow(
            group=int(group[k]),
            rank=1 + int(n_better),
            model=name,
            rating=value,
            low=value - reach,
            high=value + reach,
            votes=n,
            wins=wins,
            ties=ties,
            win_rate=(wins + ties / 2) / n,
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


def _design(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> Floats:
    """Return what each outcome of each pair adds up: shape (pairs, 3 outcomes, names + 1)."""
    at = {name: k for k, name in enumerate(names)}
    design = np.zeros((len(pairs), 3, len(names) + 1))
    for k, (first, second) in enumerate(pairs):
        design[k, 0, at[first]] = design[k, 1, at[second]] = design[k, 2, -1] = 1
        design[k, 2, [at[first], at[second]]] = 0.5
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
