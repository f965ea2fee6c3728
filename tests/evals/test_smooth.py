"""Smooth calibration error: known cases, bounds, and the same value however it is asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.stats.scores import FINEST, smooth_ece, smoothed_error
from tests.evals.agreement import mirrored

pairs = st.lists(st.tuples(st.integers(0, 40).map(lambda i: i / 40), st.booleans()), min_size=1, max_size=30)


def once(c: np.ndarray, y: np.ndarray) -> float:
    return float(smooth_ece(c, y, np.ones((1, len(c))))[0])


@pytest.mark.parametrize(
    ("c", "y", "expected"),
    [
        ([0.9, 0.9], [1, 0], 0.4),  # one level: the gap itself, at any width
        ([1.0, 1.0, 0.0], [1, 1, 0], 0.0),
        ([0.0, 1.0], [1, 1], 0.5),
        ([0.999] * 4, [1] * 4, 0.001),
        ([0.7], [0], 0.7),
    ],
)
def test_errors_to_one_side_give_the_gap(c: list[float], y: list[int], expected: float) -> None:
    assert once(np.array(c), np.array(y, dtype=float)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_it_agrees_with_its_definition_summed_up_plainly(seed: int) -> None:
    generator = np.random.default_rng(seed)
    c = generator.random(40)
    y = (generator.random(40) < c).astype(float)
    assert once(c, y) == pytest.approx(mirrored(c, y), abs=1e-4)


@given(pairs)
def test_it_lies_between_the_gap_of_the_means_and_the_error_without_smoothing(
    found: list[tuple[float, bool]],
) -> None:
    c, y = (np.array(column, dtype=float) for column in zip(*found, strict=True))
    place = np.unique(c, return_inverse=True)[1]
    unsmoothed = np.abs(np.bincount(place, weights=y - c)).sum() / len(c)
    assert abs((y - c).mean()) - 1e-4 <= once(c, y) <= unsmoothed + 1e-4


@given(pairs)
def test_it_is_the_width_that_equals_its_own_error(found: list[tuple[float, bool]]) -> None:
    c, y = (np.array(column, dtype=float) for column in zip(*found, strict=True))
    value = once(c, y)
    if value > FINEST:
        error = smoothed_error(c, y, np.ones((1, len(c))), value)[0]
        assert error == pytest.approx(value, abs=1e-3)


def test_a_calibrated_model_comes_near_zero_as_rows_grow() -> None:
    generator = np.random.default_rng(1)
    c = generator.random(20_000)
    assert once(c, (generator.random(20_000) < c).astype(float)) < 0.02


def test_more_levels_than_the_grid_holds_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(4)
    c = generator.random(5000)
    y = (generator.random(5000) < c**1.3).astype(float)
    on_the_grid = once(c, y)
    monkeypatch.setattr("evals.stats.scores.GRID", 10**6)
    assert on_the_grid == pytest.approx(once(c, y), abs=1e-6)


def test_many_draws_at_once_give_what_each_gives_alone() -> None:
    generator = np.random.default_rng(0)
    c = generator.random(30)
    y = (generator.random(30) < 0.5).astype(float)
    w = generator.integers(0, 3, (50, 30)).astype(float)
    alone = [smooth_ece(c, y, row[None, :])[0] for row in w]
    assert smooth_ece(c, y, w) == pytest.approx(alone, abs=1e-9)


def test_a_draw_without_rows_has_none() -> None:
    assert np.isnan(smooth_ece(np.array([0.2, 0.4]), np.array([1.0, 0.0]), np.zeros((1, 2)))).all()
