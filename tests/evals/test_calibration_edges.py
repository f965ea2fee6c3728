"""Calibration where data are few, uniform or clustered: what has an interval, of which kind, and why not."""

import math
import re
from functools import partial

import numpy as np
import pytest

from evals.stats.calibration import Calibration, Settings, calibrate
from evals.stats.intervals import IntervalKind, bootstrap, wilson
from evals.stats.scores import brier

QUICK = Settings(draws=200)


def sample(n: int, seed: int = 0) -> tuple[list[float], list[bool]]:
    generator = np.random.default_rng(seed)
    c = generator.choice(np.arange(0, 101, 5) / 100, n)
    return c.tolist(), (generator.random(n) < 0.8 * c).tolist()


def test_one_row_has_values_and_no_interval_but_the_one_of_its_share() -> None:
    found = calibrate([0.3], [True], settings=QUICK)
    assert (found.ece, found.mce, found.brier) == pytest.approx((0.7, 0.7, 0.49))
    assert (found.aurc, found.smece, found.auroc) == (0.0, pytest.approx(0.7), None)
    assert set(found.intervals) == {"mean_accuracy"}
    assert found.intervals["mean_accuracy"] == pytest.approx((0.207, 1.0), abs=1e-3)
    assert "Wilson interval over 1 clusters" in found.interval_notes["mean_accuracy"]
    assert "no spread" in found.interval_notes["ece"]


@pytest.mark.parametrize("interval", ["percentile", "bca"])
@pytest.mark.parametrize("right", [True, False])
def test_all_right_or_all_wrong_gets_wilson_intervals_and_never_one_of_no_width(
    right: bool, interval: IntervalKind
) -> None:
    c = [0.1, 0.85, 0.9, 0.95] * 3
    found = calibrate(c, [right] * 12, [str(i // 2) for i in range(12)], Settings(draws=300, interval=interval))
    assert found.aurc == found.aurc_optimal == 1 - right
    assert found.mean_accuracy == right
    low, high = found.intervals["mean_accuracy"]
    assert high - low == pytest.approx(0.39, abs=0.01)  # 6 clusters, not 12 rows
    assert "over 6 clusters" in found.interval_notes["mean_accuracy"]
    assert {"overconfidence_rate", "underconfidence_rate"} <= set(found.intervals)
    assert found.auroc is None and "correct and wrong" in found.interval_notes["auroc"]
    assert all(high > low for low, high in found.intervals.values())


def test_one_confidence_for_all_rows_is_one_bin_and_a_guess() -> None:
    found = calibrate([0.6] * 10, [True] * 5 + [False] * 5, settings=QUICK)
    assert (found.ece, found.mce, found.smece) == pytest.approx((0.1, 0.1, 0.1))
    assert (found.auroc, found.aurc) == (0.5, pytest.approx(0.5))
    assert [one.n for one in found.bins if one.n] == [10]
    assert "mean_confidence" not in found.intervals


def test_confidences_of_zero_and_one_fall_into_the_first_and_last_bin() -> None:
    found = calibrate([0.0, 1.0], [False, True], settings=QUICK)
    assert (found.bins[0].n, found.bins[9].n) == (1, 1)
    assert (found.ece, found.brier, found.smece, found.e_aurc) == (0, 0, 0, 0)


def test_every_metric_has_an_interval_or_a_note_that_says_why_not() -> None:
    c, y = sample(60, 3)
    for settings in (Settings(draws=300), Settings(draws=300, interval="bca")):
        found = calibrate(c, y, settings=settings)
        metrics = set(Calibration.model_fields) - {
            *("n", "n_missing_confidence", "n_clusters", "ece_if_calibrated", "note", "method"),
            *("ece_if_dependent", "intervals", "interval_notes", "bins", "risk_coverage"),
        }
        assert len(metrics) == 19
        assert set(found.intervals) | set(found.interval_notes) == metrics


def test_draws_that_leave_a_metric_undefined_are_counted() -> None:
    found = calibrate([0.9, 0.5, 0.4], [True, False, True], settings=Settings(draws=2000))
    assert re.match(r"undefined in \d+\.\d % of the draws", found.interval_notes["auroc"])


# ---- clusters ----------------------------------------------------------------------------------


def test_a_bin_gets_wilson_for_rows_alone_and_draws_of_clusters_otherwise() -> None:
    c = [0.15] * 20 + [0.95] * 40 + [0.55] * 6
    y = [True, False] * 10 + ([True] * 2 + [False] * 2) * 10 + [True] * 6
    names = [f"alone {i}" for i in range(20)] + [f"pair {i // 2}" for i in range(40)] + ["one"] * 6
    found = calibrate(c, y, names, Settings(draws=4000))
    alone, together, one = found.bins[1], found.bins[9], found.bins[5]
    assert (alone.n, alone.n_clusters, alone.interval_by) == (20, 20, "wilson")
    assert alone.interval == wilson(10, 20)
    assert (together.n, together.n_clusters, together.interval_by) == (40, 20, "bootstrap")
    assert together.interval == pytest.approx((0.28, 0.72), abs=0.04)  # 20 pairs all right or wrong
    assert (one.n, one.n_clusters, one.interval_by) == (6, 1, "wilson over clusters")
    assert one.interval == wilson(1, 1)
    assert found.bins[0].interval_by is None


def test_rows_of_a_cluster_that_go_together_leave_more_to_chance() -> None:
    c, names = [0.7] * 100, [str(i // 5) for i in range(100)]
    found = calibrate(c, [True] * 70 + [False] * 30, names, Settings(draws=4000))
    apart, together = found.ece_if_calibrated, found.ece_if_dependent
    assert apart is not None and together is not None
    # the mean of |share - 0.7| over n trials is near sqrt(2 / pi * 0.21 / n)
    assert apart.mean == pytest.approx(math.sqrt(2 / math.pi * 0.21 / 100), rel=0.05)
    assert together.mean == pytest.approx(math.sqrt(2 / math.pi * 0.21 / 20), rel=0.05)
    assert calibrate(c, [True] * 100, settings=QUICK).ece_if_dependent is None


def test_the_order_of_rows_changes_nothing() -> None:
    c, y = sample(40, 2)
    names = [str(i // 2) for i in range(40)]
    order = np.random.default_rng(0).permutation(40).tolist()
    for clusters in (None, names):
        there = calibrate(c, y, clusters, QUICK)
        back = calibrate(
            [c[i] for i in order],
            [y[i] for i in order],
            None if clusters is None else [names[i] for i in order],
            QUICK,
        )
        assert back.aurc == pytest.approx(there.aurc)
        assert set(back.intervals) == set(there.intervals)
        for name, span in there.intervals.items():
            assert back.intervals[name] == pytest.approx(span, abs=1e-9), name


def test_rows_that_are_alike_give_the_intervals_that_naming_each_gives() -> None:
    """Rows without a cluster are counted by (confidence, outcome) instead of drawn one by one."""
    c, y = sample(400)
    counted = calibrate(c, y, settings=Settings(draws=4000))
    drawn = bootstrap(
        {"brier": partial(brier, np.array(c), np.array(y, dtype=float))},
        [str(i) for i in range(400)],
        4000,
    )
    assert counted.intervals["brier"] == pytest.approx(drawn["brier"], abs=0.004)


def test_the_risk_coverage_curve_ends_with_every_row_answered() -> None:
    c, y = sample(50)
    found = calibrate(c, y, settings=QUICK)
    last = found.risk_coverage[-1]
    assert (last.threshold, last.coverage) == (min(c), 1.0)
    assert last.risk == pytest.approx(1 - (found.mean_accuracy or 0))
    thresholds = [point.threshold for point in found.risk_coverage]
    assert thresholds == sorted(set(c), reverse=True)


def test_the_method_is_told_with_the_figures() -> None:
    settings = Settings(bins=5, binning="mass", draws=50, seed=3, interval="bca")
    found = calibrate([0.2, 0.9, 0.4], [True, False, True], settings=settings)
    assert found.method is not None
    assert found.method.model_dump() == {**vars(settings), "level": 0.95}


def test_a_metric_that_hardly_any_draw_moves_has_a_note_and_no_interval_of_no_width() -> None:
    """The worst bin holds 5 of 300 rows: 7 draws of 1000 miss them all, too few for a percentile."""
    c, y = [0.95] * 5 + [0.55] * 295, [False] * 5 + [True, False] * 147 + [True]
    found = calibrate(c, y, settings=Settings(draws=4000))
    assert found.mce == pytest.approx(0.95)
    assert "mce" not in found.intervals
    assert "no spread" in found.interval_notes["mce"]
    assert "ece" in found.intervals
