"""Agreement between raters: published examples, two raters, and what cannot be told."""

import numpy as np
import pytest

from evals.stats.agreement import NAMES, Rating, agreement

FOUR_CODERS = {
    "A": "123321412...",
    "B": "1233224125.3",
    "C": ".3332342251.",
    "D": "1233244125 1".replace(" ", ""),
}
"""Krippendorff's example of twelve units, as reprinted by Gwet; a dot is a unit not rated."""


def four_coders() -> list[Rating]:
    return [
        Rating(str(unit), coder, choice)
        for coder, choices in FOUR_CODERS.items()
        for unit, choice in enumerate(choices)
        if choice != "."
    ]


@pytest.mark.parametrize(
    ("figure", "published"),
    [
        ("percent_agreement", 0.81818),
        ("krippendorff_alpha", 0.74342),
        ("gwet_ac1", 0.77544),
        ("fleiss_kappa", 0.76117),
    ],
)
def test_the_published_example_gives_the_published_figures(figure: str, published: float) -> None:
    assert agreement(four_coders(), draws=10)[figure].value == pytest.approx(published, abs=1e-5)


def test_cohens_kappa_of_two_raters_is_the_textbook_value() -> None:
    cells = {("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15}
    rows = [pair for pair, count in cells.items() for _ in range(count)]
    ratings = [
        Rating(str(unit), rater, choice)
        for unit, pair in enumerate(rows)
        for rater, choice in zip("AB", pair, strict=True)
    ]
    found = agreement(ratings, draws=500)["cohen_kappa"]
    assert (found.value, found.n) == (pytest.approx(0.4), 50)
    assert found.low is not None and found.high is not None
    assert found.low < 0.4 < found.high


def test_more_than_two_raters_have_no_cohens_kappa_and_are_told_what_to_read() -> None:
    found = agreement(four_coders(), draws=10)["cohen_kappa"]
    assert found.value is None
    assert found.note is not None and "exactly two raters" in found.note


def test_without_a_unit_rated_twice_there_is_no_agreement_to_tell() -> None:
    alone = [Rating(str(unit), "A", "left") for unit in range(30)]
    for figure in agreement(alone).values():
        assert (figure.value, figure.n) == (None, 0)
        assert figure.note == "no unit was rated by two raters"


def test_raters_who_always_choose_the_same_category_have_no_alpha_but_full_agreement() -> None:
    same = [Rating(str(unit), rater, "left") for unit in range(30) for rater in "AB"]
    found = agreement(same, categories=("left", "right", "tie", "both_bad"), draws=50)
    assert found["percent_agreement"].value == found["gwet_ac1"].value == 1
    assert found["krippendorff_alpha"].value is None
    assert "all choices were the same" in (found["krippendorff_alpha"].note or "")


def test_choices_at_random_agree_no_more_than_by_chance() -> None:
    chosen = np.random.default_rng(1).integers(0, 3, size=(400, 3))
    ratings = [Rating(str(u), str(r), str(c)) for (u, r), c in np.ndenumerate(chosen)]
    found = agreement(ratings, draws=200)
    for name in ("krippendorff_alpha", "gwet_ac1", "fleiss_kappa"):
        low, high = found[name].low, found[name].high
        assert low is not None and high is not None
        assert low < 0 < high


def test_few_units_get_a_figure_but_no_interval() -> None:
    few = [Rating(str(unit), rater, "ab"[unit % 2]) for unit in range(4) for rater in "AB"]
    found = agreement(few)["krippendorff_alpha"]
    assert (found.value, found.low) == (1, None)
    assert found.note == "no interval from fewer than 10 units rated twice"


def test_the_last_choice_of_a_rater_for_a_unit_counts() -> None:
    ratings = [Rating("u", "A", "left"), Rating("u", "B", "right"), Rating("u", "A", "right")]
    assert agreement(ratings)["percent_agreement"].value == 1


def test_all_figures_are_always_there() -> None:
    assert set(agreement(four_coders(), draws=10)) == set(NAMES) == set(agreement([]))
