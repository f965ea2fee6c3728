"""A small run of what the documents claim about chance; the command in them makes the large one."""

import pytest

from tests.evals.simulations import (
    above_band,
    always_half,
    anything,
    apart,
    coverage,
    swapped,
)

SETS = 60


def test_two_stages_without_any_error_often_differ_in_ece_so_nothing_is_tested_by_it():
    unequal = (always_half, anything)

    assert swapped("ece", unequal, rows=150, sets=SETS).value > 0.15
    assert apart("ece", unequal, rows=150, sets=SETS).value > 0.15


@pytest.mark.parametrize("metric", ["brier", "ece"])
def test_stages_that_are_alike_are_seldom_called_different(metric):
    assert swapped(metric, (anything, anything), rows=60, sets=SETS).value <= 0.12


def test_a_calibrated_model_seldom_stands_above_the_band_of_chance():
    apart_rows, together = (above_band(SETS, together=each) for each in (False, True))

    assert apart_rows["independent"].value <= 0.12
    assert together["dependent"].value <= 0.12


def test_an_interval_holds_the_true_brier_score_but_never_the_true_ece_of_zero():
    found = coverage(rows=107, kind="percentile", sets=SETS)

    assert found["brier"].value >= 0.88
    assert found["ece"].hits == 0
