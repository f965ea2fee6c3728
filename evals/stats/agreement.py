"""How far raters agree: Krippendorff's alpha, Fleiss' and Cohen's kappa, Gwet's AC1, each with n and interval.

Choices are categories without order, or numbers: then a miss by one step is nearly agreement, by quadratic
weights (alpha for interval data, weighted kappa, AC2). Raters may have rated different units; a unit that only
one of them rated shows which choices are common, but no agreement. Intervals are percentile bootstraps over units.

Sources: Krippendorff 2011 (alpha from coincidences); Fleiss 1971 and Cohen 1960, and for units with
different numbers of raters, as for AC1, Gwet 2014, Handbook of Inter-Rater Reliability, 4th edition.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from evals.schema import Metric
from evals.stats.intervals import DRAWS, Floats, Units, is_point, percentile_interval, resample

NAMES = {
    "percent_agreement": "observed agreement",
    "krippendorff_alpha": "Krippendorff's alpha",
    "gwet_ac1": "Gwet's AC1",
    "fleiss_kappa": "Fleiss' kappa",
    "cohen_kappa": "Cohen's kappa",
}
"""What people call them."""
WEIGHTED_NAMES = {
    "percent_agreement": "weighted agreement",
    "krippendorff_alpha": "Krippendorff's alpha (interval)",
    "gwet_ac1": "Gwet's AC2",
    "fleiss_kappa": "weighted Fleiss' kappa",
    "cohen_kappa": "weighted Cohen's kappa",
}
"""What people call them where the choices are numbers."""
FEWEST = 10
"""Units below which an interval would say more than they can."""


class Rating(NamedTuple):
    """What one rater chose for one unit."""

    unit: str
    rater: str
    choice: str


def rater_agreement(
    ratings: Iterable[Rating],
    categories: Iterable[str] = (),
    draws: int = DRAWS,
    seed: int = 0,
    *,
    are_numbers: bool = False,
) -> dict[str, Metric]:
    """Return each of NAMES with its n, the units that two raters or more have rated.

    `categories` are those that could have been chosen, which AC1 asks for; those that were are added. Choices
    that `are_numbers` ("1" to "5") agree the more the nearer they are: WEIGHTED_NAMES.
    Of a rater's several choices for a unit the last counts. A figure is None, with the reason, where it is
    undefined: no unit was rated twice, or nobody ever chose but one category.
    """
    kinds, counts, pairs = _table(ratings, categories)
    shared = int((counts.sum(axis=1) >= 2).sum())
    if not shared:
        return {name: Metric(value=None, n=0, note="no unit was rated by two raters") for name in NAMES}
    units = Units.of([str(unit) for unit in range(len(counts))])
    near = np.eye(len(kinds))
    if are_numbers and len(kinds) > 1:
        values = np.array([float(kind) for kind in kinds])
        near = 1 - ((values[:, None] - values) / np.ptp(values)) ** 2

    def measure(weights: Floats) -> Mapping[str, Floats]:
        return _figures(counts, pairs, near, weights)

    figures = measure(units.whole())
    drawn = resample(measure, units, draws, seed) if shared >= FEWEST else {}
    found: dict[str, Metric] = {}
    for name in NAMES:
        value, span, note = float(figures[name][0]), None, None
        if np.isnan(value):
            note = "all choices were the same, so chance alone explains the agreement"
            if name == "cohen_kappa" and pairs is None:
                note = "defined for exactly two raters; alpha, AC1 and Fleiss' kappa take any number"
        elif not drawn:
            note = f"no interval from fewer than {FEWEST} units rated twice"
        else:
            span = percentile_interval(drawn[name])
            if span is None or is_point(span):
                span, note = None, "no interval: the same in every draw"
        low, high = span or (None, None)
        found[name] = Metric(value=None if np.isnan(value) else value, n=shared, low=low, high=high, note=note)
    return found


def agreement_level(alpha: Metric) -> Literal["good", "fair", "poor", "chance", "few", "same"]:
    """Return how far raters agree by their alpha: "chance" where its interval reaches 0, "few" without an interval.

    0.8 and 0.667 are what Krippendorff (Content Analysis, 2004, p. 241) asks for conclusions and for tentative ones.
    """
    if alpha.value is None:
        return "same" if alpha.n else "few"
    if alpha.low is None:
        return "few"
    if alpha.low <= 0:
        return "chance"
    return "good" if alpha.value >= 0.8 else "fair" if alpha.value >= 0.667 else "poor"


def _table(ratings: Iterable[Rating], categories: Iterable[str]) -> tuple[list[str], Floats, np.ndarray | None]:
    """Return the categories, how often each category was chosen for each unit, and the pairs of choices of exactly two raters.

    Shapes (units, categories) and (units, 2), -1 where one of the two did not choose; None for other numbers of raters.
    """
    last = {(each.unit, each.rater): each.choice for each in ratings}
    kinds = sorted({*categories, *last.values()})
    units = list(dict.fromkeys(unit for unit, _ in last))
    raters = list(dict.fromkeys(rater for _, rater in last))
    counts = np.zeros((len(units), len(kinds)))
    chosen = np.full((len(units), len(raters)), -1) if len(raters) == 2 else None
    row = {unit: place for place, unit in enumerate(units)}
    column = {kind: place for place, kind in enumerate(kinds)}
    for (unit, rater), choice in last.items():
        counts[row[unit], column[choice]] += 1
        if chosen is not None:
            chosen[row[unit], raters.index(rater)] = column[choice]
    return kinds, counts, chosen


def _figures(counts: Floats, pairs: np.ndarray | None, near: Floats, weights: Floats) -> dict[str, Floats]:
    """Return all figures for weights of shape (draws, units), nan where one is undefined.

    `near` (categories, categories) says how far two categories agree, 0 to 1.
    """
    rated = counts.sum(axis=1)
    is_shared = rated >= 2
    more = np.where(is_shared, rated - 1, 1)
    equal = np.where(is_shared, (counts * (counts @ near - 1)).sum(axis=1) / more, 0.0)
    shares = counts / rated[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        n_shared = weights @ is_shared.astype(float)
        observed = (weights @ (equal / rated)) / n_shared
        common = (weights @ shares) / weights.sum(axis=1, keepdims=True)
        by_chance = (common @ near * common).sum(axis=1)
        different = (common * (1 - common)).sum(axis=1) * near.sum() / (len(near) * (len(near) - 1))
        return {
            "percent_agreement": observed,
            "krippendorff_alpha": _alpha(weights * is_shared, counts, near, equal, rated),
            "gwet_ac1": _above(observed, different),
            "fleiss_kappa": _above(observed, by_chance),
            "cohen_kappa": _cohen(weights, pairs, near),
        }


def _alpha(weights: Floats, counts: Floats, near: Floats, equal: Floats, rated: Floats) -> Floats:
    """Return 1 - observed / expected disagreement, from the units that were rated twice or more."""
    n = weights @ rated
    chosen = weights @ counts
    observed = 1 - (weights @ equal) / n
    expected = 1 - (chosen * (chosen @ near - 1)).sum(axis=1) / (n * (n - 1))
    return np.where(expected > 0, 1 - observed / expected, np.nan)


def _cohen(weights: Floats, pairs: np.ndarray | None, near: Floats) -> Floats:
    """Return Cohen's kappa of two raters over the units that both rated."""
    if pairs is None:
        return np.full(len(weights), np.nan)
    both = weights * (pairs >= 0).all(axis=1)
    first, second = (pairs[:, [side]] == np.arange(len(near)) for side in (0, 1))
    n = both.sum(axis=1, keepdims=True)
    by_chance = ((both @ first) / n @ near * ((both @ second) / n)).sum(axis=1)
    same = both @ near[pairs[:, 0], pairs[:, 1]]
    return _above(same / n[:, 0], by_chance)


def _above(observed: Floats, by_chance: Floats) -> Floats:
    """Return the share of the agreement beyond chance that was reached; nan where chance explains all."""
    return np.where(by_chance < 1, (observed - by_chance) / (1 - by_chance), np.nan)
