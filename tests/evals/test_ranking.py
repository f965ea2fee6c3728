"""Ratings from votes: against SciPy's optimiser, by hand, and on simulated votes whose truth is known."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from evals.stats.ranking import MIDDLE, POINTS, PRIOR, ratings
from tests.evals.ranking import CASES, coverage, voted, votes_needed


def test_ratings_are_those_that_make_the_votes_likeliest() -> None:
    counts = {("a", "b"): (9, 4, 3), ("b", "c"): (8, 5, 6), ("c", "a"): (3, 10, 2)}

    def unlikely(values: np.ndarray) -> float:
        worth = dict(zip("abc", values, strict=False))
        total = (values**2).sum() / 2 / PRIOR**2
        for (one, other), n in counts.items():
            odds = np.exp([worth[one], worth[other], values[3] + (worth[one] + worth[other]) / 2])
            total -= float(np.dot(n, np.log(odds / odds.sum())))
        return total

    best = minimize(unlikely, np.zeros(4)).x
    found = {each.model: each for each in ratings(voted(counts))}
    for name, value in zip("abc", best, strict=False):
        assert found[name].rating == pytest.approx(MIDDLE + POINTS * value, abs=0.1)
    assert [(each.votes, each.wins, each.ties) for each in found.values()] == [(31, 19, 5), (35, 12, 9), (34, 8, 8)]
    assert found["a"].win_rate == pytest.approx(21.5 / 31)


def test_odds_of_ten_to_one_are_400_points_apart() -> None:
    first, second = ratings(voted({("a", "b"): (1000, 100, 0)}))
    assert first.rating - second.rating == pytest.approx(400, abs=2)
    assert first.rating + second.rating == pytest.approx(2 * MIDDLE)
    assert (first.rank, second.rank) == (1, 2)


def test_who_won_every_vote_has_a_rating_and_an_interval_that_says_how_little_is_known() -> None:
    first, second = ratings(voted({("a", "b"): (5, 0, 0)}))
    assert math.isfinite(first.rating)
    assert first.high - first.low > 800
    assert first.rank == second.rank == 1, "five votes show nothing"


def test_who_was_never_compared_with_the_others_stands_in_a_group_of_its_own() -> None:
    found = ratings(voted({("a", "b"): (30, 3, 2), ("x", "y"): (0, 8, 1)}))
    ranks = [(each.model, each.group, each.rank) for each in found]
    assert ranks == [("a", 1, 1), ("b", 1, 2), ("y", 2, 1), ("x", 2, 2)]
    for group in (1, 2):
        assert sum(each.rating for each in found if each.group == group) == pytest.approx(2 * MIDDLE)
    assert ratings([]) == []


def test_votes_that_repeat_each_other_on_few_questions_widen_the_interval() -> None:
    many = voted({("a", "b"): (40, 20, 0)})
    few = [vote._replace(question=str(int(vote.question) // 10)) for vote in many]
    widths = [row.high - row.low for row in (ratings(each)[0] for each in (many, few))]
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.parametrize("case", CASES[1::2])
def test_intervals_hold_the_true_rating_about_95_times_of_100(case: tuple[int, int, int, float]) -> None:
    assert 0.92 <= coverage(*case, sets=60) <= 0.995


def test_chosen_matches_reach_known_ratings_with_fewer_votes_than_matches_drawn_alike_often() -> None:
    chosen, drawn = ([votes_needed(choose, seed) for seed in range(9)] for choose in (True, False))
    assert np.median(chosen) < 0.95 * np.median(drawn)
