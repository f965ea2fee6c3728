"""Calibration of whole data sets: cases worked by hand, what must always hold, what chance would show."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.errors import BadConfig
from evals.stats.calibration import Binning, Calibration, Settings, calibrate

QUICK = Settings(draws=200)


def sample(n: int, seed: int = 0, grid: bool = True) -> tuple[list[float], list[bool]]:
    generator = np.random.default_rng(seed)
    c = generator.choice(np.arange(0, 101, 5) / 100, n) if grid else generator.random(n)
    return c.tolist(), (generator.random(n) < 0.8 * c).tolist()


def plain_ece(c: list[float], y: list[bool], bins: int = 10) -> tuple[float, float]:
    """ECE and MCE by a loop over [i*0.1, (i+1)*0.1), the last bin holding 1.0."""
    width, total, worst = 1 / bins, 0.0, 0.0
    for i in range(bins):
        here = [
            (a, b)
            for a, b in zip(c, y, strict=True)
            if (i * width <= a < (i + 1) * width) or (i == bins - 1 and a >= i * width)
        ]
        if here:
            gap = abs(sum(b for _, b in here) - sum(a for a, _ in here)) / len(here)
            total += gap * len(here) / len(c)
            worst = max(worst, gap)
    return total, worst


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bins", [1, 5, 10, 15])
def test_ece_and_mce_agree_with_a_plain_loop(seed: int, bins: int) -> None:
    c, y = sample(107, seed)
    found = calibrate(c, y, settings=Settings(bins=bins, draws=10))
    assert (found.ece, found.mce) == pytest.approx(plain_ece(c, y, bins))


def test_bins_are_cut_in_double_precision() -> None:
    found = calibrate([0.3, 0.6, 0.7, 1.0], [True] * 4, settings=QUICK)
    assert [index for index, each in enumerate(found.bins) if each.n] == [2, 5, 6, 9]


def test_a_case_worked_by_hand() -> None:
    found = calibrate([0.95, 0.95, 0.15, 0.85], [True, False, False, True], settings=QUICK)
    assert found.ece == pytest.approx((2 * 0.45 + 0.15 + 0.15) / 4)
    assert found.mce == pytest.approx(0.45)
    assert found.brier == pytest.approx((0.05**2 + 0.95**2 + 0.15**2 + 0.15**2) / 4)
    assert found.base_rate_brier == pytest.approx(0.25)
    assert found.mean_confidence == pytest.approx(0.725)
    assert found.mean_accuracy == pytest.approx(0.5)
    assert found.overconfidence_rate == pytest.approx(1 / 3)
    assert found.underconfidence_rate == 0.0
    last = found.bins[9]
    assert (last.n, last.confidence, last.accuracy) == (2, pytest.approx(0.95), 0.5)
    assert last.gap == pytest.approx(0.45)


def parts_of_brier(found: Calibration) -> tuple[float, float]:
    """Return what Murphy's three parts sum up to, and what the two terms within bins add."""
    reliability, resolution, uncertainty, variance, covariance = (
        getattr(found, f"brier_{part}") for part in ("reliability", "resolution", "uncertainty", *WITHIN)
    )
    return reliability - resolution + uncertainty, variance - covariance


WITHIN = ("within_variance", "within_covariance")
PAIRS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40)


def test_the_three_parts_make_the_brier_score_when_a_bin_holds_one_confidence() -> None:
    c, y = sample(300)
    c = [round(value, 1) for value in c]
    found = calibrate(c, y, settings=Settings(bins=20, draws=10))
    three, within = parts_of_brier(found)
    assert three == pytest.approx(found.brier)
    assert within == pytest.approx(0, abs=1e-12)


@given(PAIRS, st.integers(1, 30), st.sampled_from(["width", "mass"]))
def test_with_the_two_terms_within_bins_the_parts_always_make_the_brier_score(
    pairs: list[tuple[float, bool]], bins: int, binning: Binning
) -> None:
    c, y = zip(*pairs, strict=True)
    found = calibrate(c, y, settings=Settings(bins=bins, binning=binning, draws=1))
    assert sum(parts_of_brier(found)) == pytest.approx(found.brier, abs=1e-12)


@given(PAIRS)
def test_calibration_errors_stand_in_their_order(pairs: list[tuple[float, bool]]) -> None:
    c, y = zip(*pairs, strict=True)
    found = calibrate(c, y, settings=Settings(draws=1))
    assert None not in (found.ece, found.mce, found.mean_accuracy, found.mean_confidence)
    gap = abs((found.mean_accuracy or 0) - (found.mean_confidence or 0))
    assert gap - 1e-12 <= (found.ece or 0) <= (found.mce or 0) + 1e-12 <= 1 + 2e-12


@given(PAIRS)
def test_betting_against_every_answer_with_the_rest_changes_no_proper_score(
    pairs: list[tuple[float, bool]],
) -> None:
    c, y = zip(*pairs, strict=True)
    there = calibrate(c, y, settings=Settings(draws=1))
    back = calibrate([1 - v for v in c], [not v for v in y], settings=Settings(draws=1))
    assert back.brier == pytest.approx(there.brier, abs=1e-9)
    assert back.brier_uncertainty == pytest.approx(there.brier_uncertainty, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=2, max_size=40))
def test_ranks_do_not_care_how_confidences_are_spaced(pairs: list[tuple[int, bool]]) -> None:
    levels, y = zip(*pairs, strict=True)
    even = calibrate([v / 20 for v in levels], y, settings=Settings(draws=1))
    uneven = calibrate([(v / 20) ** 3 for v in levels], y, settings=Settings(draws=1))
    assert (even.auroc, even.aurc) == (uneven.auroc, uneven.aurc)


def test_bins_of_equal_mass_hold_equally_many_and_keep_ties_together() -> None:
    c, y = sample(200, grid=False)
    equal = calibrate(c, y, settings=Settings(binning="mass", draws=10))
    assert {each.n for each in equal.bins} == {20}
    tied = calibrate([0.5] * 9 + [0.9], [True] * 10, settings=Settings(binning="mass", draws=10))
    assert sorted(each.n for each in tied.bins if each.n) in ([1, 9], [10])


@pytest.mark.parametrize("go_together", [False, True])
def test_a_calibrated_model_stands_above_the_95th_percentile_of_chance_in_5_percent(
    go_together: bool,
) -> None:
    generator = np.random.default_rng(2)
    pair = np.arange(107) // 2
    names = [str(i) for i in pair]
    above = 0
    for seed in range(150):
        c = generator.choice([0.55, 0.75, 0.95], 107)
        luck = generator.random(54)[pair] if go_together else generator.random(107)
        settings = Settings(draws=300, seed=seed)
        found = calibrate(c.tolist(), (luck < c).tolist(), names, settings)
        chance = found.ece_if_dependent if go_together else found.ece_if_calibrated
        assert chance is not None and found.ece is not None
        above += found.ece > chance.q95
    assert 1 <= above <= 16  # 7.5 expected, standard deviation 2.7


def test_an_interval_over_clusters_is_wider_than_over_their_rows() -> None:
    c, y = sample(60, 3)
    thrice = [str(i) for i in range(60) for _ in range(3)]
    c3, y3 = [v for v in c for _ in range(3)], [v for v in y for _ in range(3)]
    alone = calibrate(c3, y3, settings=Settings(draws=2000)).intervals["brier"]
    together = calibrate(c3, y3, thrice, Settings(draws=2000)).intervals["brier"]
    single = calibrate(c, y, settings=Settings(draws=2000)).intervals["brier"]
    assert together[1] - together[0] > 1.4 * (alone[1] - alone[0])
    assert together == pytest.approx(single, abs=0.01)


def test_the_same_seed_gives_the_same_intervals() -> None:
    c, y = sample(50)
    first, again, other = (calibrate(c, y, settings=Settings(draws=500, seed=seed)).intervals for seed in (1, 1, 2))
    assert first == again != other


def test_a_missing_confidence_is_counted_and_left_out() -> None:
    found = calibrate([0.8, None, 0.8], [True, True, False], settings=QUICK)
    assert (found.n, found.n_missing_confidence) == (3, 1)
    assert found.mean_accuracy == 0.5


@pytest.mark.parametrize(("confidence", "note"), [([], "no rows"), ([None, None], "no row states a confidence")])
def test_nothing_to_measure_is_none_and_not_zero(confidence: list[None], note: str) -> None:
    found = calibrate(confidence, [True] * len(confidence))
    assert found == Calibration(n=len(confidence), n_missing_confidence=len(confidence), note=note)


def test_what_is_undefined_is_none() -> None:
    found = calibrate([0.5, 0.6], [True, True], settings=QUICK)
    assert found.auroc is None and found.overconfidence_rate is None
    assert "auroc" not in found.intervals
    assert found.brier == pytest.approx((0.25 + 0.16) / 2)


def test_a_certain_and_wrong_row_has_a_finite_log_loss() -> None:
    found = calibrate([1.0, 0.0], [False, True], settings=QUICK)
    assert found.log_loss == pytest.approx(-math.log(1e-12))


SENSELESS = [
    Settings(bins=0),
    Settings(draws=0),
    Settings(binning="odd"),  # ty: ignore[invalid-argument-type]
    Settings(interval="odd"),  # ty: ignore[invalid-argument-type]
]


@pytest.mark.parametrize("settings", SENSELESS)
def test_settings_that_make_no_sense_are_refused(settings: Settings) -> None:
    with pytest.raises(BadConfig):
        calibrate([0.5], [True], settings=settings)


@pytest.mark.parametrize("value", [1.4, -0.1, math.nan])
def test_a_confidence_outside_zero_to_one_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"share 0\.\.1"):
        calibrate([value], [True], settings=QUICK)
