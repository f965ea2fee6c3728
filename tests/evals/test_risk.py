"""Risk and coverage: cases worked by hand, ties, and what must hold whatever the data."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.stats.intervals import Floats
from evals.stats.scores import aurc, optimal_aurc, risk_coverage

rows = st.lists(
    st.tuples(st.integers(0, 4).map(lambda i: i / 4), st.booleans(), st.integers(0, 3)),
    min_size=1,
    max_size=12,
).filter(lambda found: sum(count for _, _, count in found) > 0)


def columns(found: list[tuple[float, bool, int]]) -> tuple[Floats, Floats, Floats]:
    c, y, count = (np.array(column, dtype=np.float64) for column in zip(*found, strict=True))
    return c, y, count[None, :]


def test_the_area_is_the_mean_of_the_risks_as_more_is_answered() -> None:
    c, y, once = np.array([0.9, 0.8, 0.6, 0.2]), np.array([1.0, 0.0, 1.0, 0.0]), np.ones((1, 4))
    assert aurc(c, y, once)[0] == pytest.approx((0 + 1 / 2 + 1 / 3 + 2 / 4) / 4)
    assert optimal_aurc(c, y, once)[0] == pytest.approx((0 + 0 + 1 / 3 + 2 / 4) / 4)


def test_a_tie_counts_as_the_mean_over_the_orders_it_could_come_in() -> None:
    c, y = np.array([0.9, 0.7, 0.7, 0.7, 0.1]), np.array([0.0, 1.0, 0.0, 0.0, 1.0])
    apart = np.array([0.9, 0.73, 0.72, 0.71, 0.1])
    each = [aurc(apart, np.array([0.0, *order, 1.0]), np.ones((1, 5)))[0] for order in permutations(y[1:4].tolist())]
    assert aurc(c, y, np.ones((1, 5)))[0] == pytest.approx(np.mean(each))


def test_the_curve_answers_rows_that_state_the_same_together() -> None:
    found = risk_coverage(np.array([0.5, 0.9, 0.5]), np.array([1.0, 1.0, 0.0]), np.array([[2.0, 1.0, 1.0]]))
    assert [(one.threshold, one.coverage, one.risk) for one in found] == [
        (0.9, 0.25, 0.0),
        (0.5, 1.0, 0.25),
    ]


@given(rows)
def test_the_area_lies_between_the_best_and_the_worst_order(
    found: list[tuple[float, bool, int]],
) -> None:
    c, y, w = columns(found)
    assert optimal_aurc(c, y, w)[0] - 1e-12 <= aurc(c, y, w)[0]
    assert aurc(c, y, w)[0] <= aurc(1 - y, y, w)[0] + 1e-12  # every wrong row first


@given(rows)
def test_a_weight_of_two_is_the_row_twice(found: list[tuple[float, bool, int]]) -> None:
    c, y, w = columns(found)
    times = w[0].astype(int)
    c2, y2 = np.repeat(c, times), np.repeat(y, times)
    assert aurc(c, y, w) == pytest.approx(aurc(c2, y2, np.ones((1, len(c2)))))


def test_a_draw_without_rows_has_no_area() -> None:
    nothing = np.zeros((1, 2))
    assert np.isnan(aurc(np.array([0.1, 0.2]), np.array([0.0, 1.0]), nothing)).all()
    assert np.isnan(optimal_aurc(np.array([0.1, 0.2]), np.array([0.0, 1.0]), nothing)).all()


def test_weights_that_count_no_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="whole numbers"):
        aurc(np.array([0.1, 0.2]), np.array([0.0, 1.0]), np.array([[0.5, 0.5]]))
