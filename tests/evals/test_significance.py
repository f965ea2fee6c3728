"""p-values, held against SciPy and against counting by hand."""

import numpy as np
import pytest
from scipy import stats

from evals.stats.intervals import CELLS, percentile_interval
from evals.stats.paired import Swaps, bootstrap_p, holm, mcnemar_p, permutation_p

RANDOM = np.random.default_rng(7)


def test_few_clusters_are_swapped_in_every_way_once() -> None:
    found = Swaps(5, draws=10_000, seed=0)
    assert found.is_exact
    arrangements = [tuple(row) for part in found.flips() for row in part]
    assert len(arrangements) == 32
    assert set(arrangements) == {tuple(float(digit) for digit in f"{number:05b}") for number in range(32)}


def test_many_clusters_are_swapped_at_random_and_the_same_way_again() -> None:
    found = Swaps(20, draws=1000, seed=3)
    flips = found.moved(np.eye(20))
    assert not found.is_exact and flips.shape == (1000, 20)
    assert set(np.unique(flips)) == {0.0, 1.0} and abs(flips.mean() - 0.5) < 0.02
    assert np.array_equal(flips, Swaps(20, draws=1000, seed=3).moved(np.eye(20)))


def test_many_draws_of_many_clusters_never_lie_in_memory_at_once() -> None:
    parts = [part.size for part in Swaps(5000, draws=600, seed=0).flips()]
    assert sum(parts) == 5000 * 600
    assert max(parts) <= CELLS


@pytest.mark.parametrize("n", [4, 9])
def test_the_permutation_p_of_a_mean_is_scipys(n: int) -> None:
    difference = RANDOM.normal(0.4, 1, n)
    arranged = Swaps(n, draws=10_000, seed=0)
    signs = 1 - 2 * arranged.moved(np.eye(n))
    ours = permutation_p(difference.mean(), signs @ difference / n, arranged.is_exact)
    theirs = stats.permutation_test(
        (difference,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=False
    )
    assert ours == pytest.approx(theirs.pvalue)


def test_a_sampled_permutation_p_is_never_zero_and_leaves_out_what_is_undefined() -> None:
    assert permutation_p(5.0, np.zeros(99), is_exact=False) == pytest.approx(0.01)
    assert permutation_p(5.0, np.array([0.0, np.nan, 5.0]), is_exact=False) == pytest.approx(2 / 3)
    assert permutation_p(0.0, np.zeros(99), is_exact=False) == 1.0


@pytest.mark.parametrize("shift", [0.0, 0.5, 1.5, 1.9, 2.1, 3.0])
def test_the_bootstrap_p_is_below_five_percent_where_the_interval_excludes_zero(
    shift: float,
) -> None:
    drawn = RANDOM.normal(shift, 1, 20_000)
    span = percentile_interval(drawn)
    assert span is not None
    assert (bootstrap_p(drawn) < 0.05) == (not span[0] <= 0 <= span[1])
    assert bootstrap_p(drawn) == pytest.approx(2 * stats.norm.sf(shift), abs=0.02)


def test_the_bootstrap_p_of_no_difference_is_one_and_never_zero() -> None:
    assert bootstrap_p(np.zeros(100)) == 1.0
    assert bootstrap_p(np.ones(99)) == pytest.approx(0.02)


@pytest.mark.parametrize("counts", [(0, 0), (1, 0), (1, 7), (7, 1), (5, 5), (3, 40), (120, 80)])
def test_mcnemar_is_scipys_exact_binomial_test(counts: tuple[int, int]) -> None:
    n = sum(counts)
    expected = stats.binomtest(counts[0], n).pvalue if n else 1.0
    assert mcnemar_p(*counts) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("raw", "adjusted"),
    [
        ([], []),
        ([0.2], [0.2]),
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        # worked by hand: 4 * .01; 3 * .02; 2 * .02, raised to the one before; 1 * .9
        ([0.02, 0.01, 0.9, 0.02], [0.06, 0.04, 0.9, 0.06]),
        ([0.6, 0.7], [1.0, 1.0]),
    ],
)
def test_holm_corrects_the_smallest_most_and_keeps_the_order(raw: list[float], adjusted: list[float]) -> None:
    assert holm(raw) == pytest.approx(adjusted)
