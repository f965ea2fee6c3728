"""Calibration, intervals, p-values, risk and agreement: against other packages, published values, and by hand."""

import math
import re
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression

from evals.confidence import Claims, Method, apply_curve, earned_curve, fit_curve, lowest_threshold, promise
from evals.errors import BadConfig
from evals.stats.agreement import NAMES, Rating, rater_agreement
from evals.stats.calibration import (
    Binning,
    Calibration,
    CalibrationSettings,
    aurc,
    bin_edges,
    calibrate,
    measure,
    risk_coverage,
    smooth_ece,
)
from evals.stats.intervals import (
    ALPHA,
    CELLS,
    Floats,
    Swaps,
    Units,
    holm,
    invert_test,
    mcnemar_p,
    percentile_interval,
    permutation_p,
    resample,
    wilson,
)
from tests.evals.reports import TABLES
from tests.evals.simulations import above_band, always_half, anything, apart, coverage, swapped

QUICK = CalibrationSettings(draws=100)
PAIRS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40)
few = settings(max_examples=50)


def sample(n: int, seed: int = 0) -> tuple[list[float], list[bool]]:
    generator = np.random.default_rng(seed)
    c = generator.choice(np.arange(0, 101, 5) / 100, n)
    return c.tolist(), (generator.random(n) < 0.8 * c).tolist()


def array(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


# ---- calibration ------------------------------------------------------------------------------


def mirrored(c: Floats, y: Floats, points: int = 300) -> float:
    """Return smECE from its definition: Gaussians and their mirror images at 0 and 1."""
    level, place = np.unique(c, return_inverse=True)
    residual = np.bincount(place, weights=y - c) / len(c)
    at = (np.arange(points) + 0.5) / points
    images = np.stack([sign * level + 2 * k for k in range(-2, 3) for sign in (1, -1)])
    away = (at[:, None, None] - images) ** 2

    def error(width: float) -> float:
        kernel = np.exp(-away / (2 * width**2)).sum(axis=1) / (width * np.sqrt(2 * np.pi))
        return float(np.abs(kernel @ residual).mean())

    low, high = 0.0, 1.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) > middle else (low, middle)
    return high


def looped(c: Floats, y: Floats) -> float:
    """Return AURC row by row; each row of a tie carries the mean error of the tie."""
    wrong = {level: float(np.mean(1 - y[c == level])) for level in set(c.tolist())}
    errors = np.cumsum([wrong[stated] for stated in sorted(c.tolist(), reverse=True)])
    return float((errors / np.arange(1, len(c) + 1)).mean())


@pytest.mark.parametrize("seed", range(16))
def test_every_metric_agrees_with_scikit_learn_and_with_plain_loops(seed: int) -> None:
    generator = np.random.default_rng(seed)
    c = generator.random(int(generator.integers(5, 301)))
    c = np.floor(10 * c) / 10 + 0.05 if seed % 2 else c  # half with ties, none on the edge of a bin
    y = (generator.random(len(c)) < c ** generator.uniform(0.3, 3)).astype(np.float64)
    y[:2] = 0, 1
    once, settings = np.ones((1, len(c))), CalibrationSettings()
    ours = {name: float(value[0]) for name, value in measure(c, y, once, bin_edges(c, settings)).items()}
    right, stated = calibration_curve(y, c, n_bins=10)
    counts = np.histogram(c, np.linspace(0, 1, 11))[0]
    gaps = np.abs(right - stated)
    theirs = {
        "brier": metrics.brier_score_loss(y, c),
        "log_loss": metrics.log_loss(y, c),
        "auroc": metrics.roc_auc_score(y, c),
        "ece": gaps @ counts[counts > 0] / len(c),
        "mce": gaps.max(),
        "aurc": looped(c, y),
    }
    assert {name: ours[name] for name in theirs} == pytest.approx(theirs, abs=1e-9)
    assert smooth_ece(c, y, once) == pytest.approx(mirrored(c, y), abs=1e-4)


def test_a_case_worked_by_hand() -> None:
    found = calibrate([0.95, None, 0.95, 0.15, 0.85], [True, True, False, False, True], settings=QUICK)
    assert (found.n, found.n_missing_confidence) == (5, 1)
    assert found.ece == pytest.approx((2 * 0.45 + 0.15 + 0.15) / 4)
    assert found.mce == pytest.approx(0.45)
    assert found.brier == pytest.approx((0.05**2 + 0.95**2 + 0.15**2 + 0.15**2) / 4)
    assert (found.base_rate_brier, found.mean_confidence, found.mean_accuracy) == pytest.approx((0.25, 0.725, 0.5))
    assert (found.overconfidence_rate, found.underconfidence_rate) == pytest.approx((1 / 3, 0))
    last = found.bins[9]
    assert (last.n, last.confidence, last.accuracy, last.gap) == pytest.approx((2, 0.95, 0.5, 0.45))
    assert calibrate([1.0, 0.0], [False, True], settings=QUICK).log_loss == pytest.approx(-math.log(1e-12))


@few
@given(PAIRS, st.integers(1, 30), st.sampled_from(["width", "mass"]))
def test_parts_make_the_brier_score_errors_stand_in_order_and_betting_against_changes_no_proper_score(
    pairs: list[tuple[float, bool]], bins: int, binning: Binning
) -> None:
    c, y = zip(*pairs, strict=True)
    found = calibrate(c, y, settings=CalibrationSettings(bins=bins, binning=binning, draws=1))
    parts = found.brier_reliability - found.brier_resolution + found.brier_uncertainty
    assert parts + found.brier_within_variance - found.brier_within_covariance == pytest.approx(found.brier, abs=1e-12)
    gap = abs(found.mean_accuracy - found.mean_confidence)
    assert gap - 1e-12 <= found.ece <= found.mce + 1e-12 <= 1 + 2e-12
    back = calibrate([1 - v for v in c], [not v for v in y], settings=CalibrationSettings(draws=1))
    assert (back.brier, back.brier_uncertainty) == pytest.approx((found.brier, found.brier_uncertainty), abs=1e-9)


def test_bins_are_cut_in_double_precision_and_of_equal_mass_keep_ties_together() -> None:
    def filled(c: list[float], **options: object) -> dict[int, int]:
        bins = calibrate(c, [True] * len(c), settings=CalibrationSettings(draws=10, **options)).bins
        return {index: each.n for index, each in enumerate(bins) if each.n}

    assert filled([0.3, 0.6, 0.7, 1.0]) == {2: 1, 5: 1, 6: 1, 9: 1}
    assert filled([0.0, 1.0]) == {0: 1, 9: 1}
    assert filled([0.6] * 10) == {5: 10}
    assert set(filled(np.random.default_rng(0).random(200).tolist(), binning="mass").values()) == {20}
    assert sorted(filled([0.5] * 9 + [0.9], binning="mass").values()) in ([1, 9], [10])


def test_chance_is_told_for_rows_and_for_clusters_that_go_together() -> None:
    c, names = [0.7] * 100, [str(i // 5) for i in range(100)]
    found = calibrate(c, [True] * 70 + [False] * 30, names, CalibrationSettings(draws=3000))
    # the mean of |share - 0.7| over n trials is near sqrt(2 / pi * 0.21 / n)
    assert found.ece_if_calibrated.mean == pytest.approx(math.sqrt(2 / math.pi * 0.21 / 100), rel=0.05)
    assert found.ece_if_dependent.mean == pytest.approx(math.sqrt(2 / math.pi * 0.21 / 20), rel=0.06)
    assert calibrate(c, [True] * 100, settings=QUICK).ece_if_dependent is None


def test_an_interval_over_clusters_is_wider_than_over_their_rows_and_a_seed_repeats_it() -> None:
    c, y = sample(60, 3)
    c3, y3 = np.repeat(c, 3).tolist(), np.repeat(y, 3).tolist()
    thrice = [str(i) for i in range(60) for _ in range(3)]
    chosen = CalibrationSettings(draws=1500)
    cases = ((c3, y3), (c3, y3, thrice), (c, y))
    alone, together, single = (calibrate(*rows, settings=chosen).intervals["brier"] for rows in cases)
    assert together[1] - together[0] > 1.4 * (alone[1] - alone[0])
    assert together == pytest.approx(single, abs=0.012)
    first, again, other = (calibrate(c, y, settings=CalibrationSettings(draws=99, seed=s)).intervals for s in (1, 1, 2))
    assert first == again != other


def test_nothing_to_measure_is_none_and_not_zero() -> None:
    for stated, note in (([], "no rows"), ([None, None], "no row states a confidence")):
        n = len(stated)
        assert calibrate(stated, [True] * n) == Calibration(n=n, n_missing_confidence=n, note=note)
    found = calibrate([0.5, 0.6], [True, True], settings=QUICK)
    assert (found.auroc, found.overconfidence_rate) == (None, None) and "auroc" not in found.intervals
    assert found.brier == pytest.approx((0.25 + 0.16) / 2)


def test_senseless_settings_and_confidences_outside_zero_to_one_are_refused() -> None:
    for wrong in ({"bins": 0}, {"draws": 0}, {"binning": "odd"}):
        with pytest.raises(BadConfig):
            calibrate([0.5], [True], settings=CalibrationSettings(**wrong))
    for value in (1.4, -0.1, math.nan):
        with pytest.raises(ValueError, match=r"share 0\.\.1"):
            calibrate([value], [True], settings=QUICK)


def test_few_or_equal_rows_get_wilson_intervals_or_none_and_never_one_of_no_width() -> None:
    one = calibrate([0.3], [True], settings=QUICK)
    assert (one.ece, one.mce, one.brier, one.aurc, one.smece) == pytest.approx((0.7, 0.7, 0.49, 0.0, 0.7))
    assert (one.auroc, one.intervals) == (None, {"mean_accuracy": pytest.approx((0.207, 1.0), abs=1e-3)})
    assert "Wilson interval over 1 clusters" in one.interval_notes["mean_accuracy"]
    assert "no spread" in one.interval_notes["ece"]
    pairs = [str(i // 2) for i in range(12)]
    for right in (True, False):
        found = calibrate([0.1, 0.85, 0.9, 0.95] * 3, [right] * 12, pairs, CalibrationSettings(draws=200))
        assert found.aurc == 1 - right and found.mean_accuracy == right
        low, high = found.intervals["mean_accuracy"]
        assert high - low == pytest.approx(0.39, abs=0.01)  # 6 clusters, not 12 rows
        assert "over 6 clusters" in found.interval_notes["mean_accuracy"]
        assert {"overconfidence_rate", "underconfidence_rate"} <= set(found.intervals)
        assert found.auroc is None and "correct and wrong" in found.interval_notes["auroc"]
        assert all(high > low for low, high in found.intervals.values())
    # The worst bin holds 5 of 300 rows: 7 draws of 1000 miss them all, too few for a percentile.
    right = [False] * 5 + [True, False] * 147 + [True]
    rare = calibrate([0.95] * 5 + [0.55] * 295, right, settings=CalibrationSettings(draws=3000))
    assert (rare.mce, "mce" in rare.intervals, "ece" in rare.intervals) == (pytest.approx(0.95), False, True)
    assert "no spread" in rare.interval_notes["mce"]


def test_an_ece_below_its_own_draws_has_no_interval_and_the_note_names_them() -> None:
    c, y = [0.5] * 60, [True, False] * 30  # right in exactly the share that is stated; draws never are
    found = calibrate([*c, *[0.7] * 10], [*y, *[True] * 7, *[False] * 3], settings=QUICK)
    assert found.ece == pytest.approx(0.0) and "ece" not in found.intervals and "mce" not in found.intervals
    assert re.search(r"draws lie above the value, 0\.0\d\d to 0\.\d", found.interval_notes["ece"])
    assert "brier" in found.intervals and found.ece < found.ece_if_calibrated.q95


def test_every_metric_has_an_interval_or_a_note_that_says_why_not_and_the_method_is_told() -> None:
    c, y = sample(60, 3)
    beside = {"n", "n_missing_confidence", "n_clusters", "ece_if_calibrated", "note", "method", "ece_if_dependent"}
    named = set(Calibration.model_fields) - beside - {"intervals", "interval_notes", "bins", "risk_coverage"}
    for chosen in (CalibrationSettings(draws=200), CalibrationSettings(bins=5, binning="mass", draws=50, seed=3)):
        found = calibrate(c, y, settings=chosen)
        assert set(found.intervals) | set(found.interval_notes) == named and len(named) == 17
        assert found.method.model_dump() == {**vars(chosen), "level": 0.95}
    few = calibrate([0.9, 0.5, 0.4], [True, False, True], settings=CalibrationSettings(draws=500))
    lost = few.interval_notes["auroc"]
    assert re.match(r"undefined in \d+\.\d % of the draws", lost)


def test_a_bin_gets_wilson_for_rows_alone_and_draws_of_clusters_otherwise() -> None:
    c = [0.15] * 20 + [0.95] * 40 + [0.55] * 6
    y = [True, False] * 10 + ([True] * 2 + [False] * 2) * 10 + [True] * 6
    names = [f"alone {i}" for i in range(20)] + [f"pair {i // 2}" for i in range(40)] + ["one"] * 6
    bins = calibrate(c, y, names, CalibrationSettings(draws=3000)).bins
    told = {i: (bins[i].n, bins[i].n_clusters, bins[i].interval_by) for i in (1, 9, 5)}
    assert told == {1: (20, 20, "wilson"), 9: (40, 20, "bootstrap"), 5: (6, 1, "wilson over clusters")}
    assert (bins[1].interval, bins[5].interval, bins[0].interval_by) == (wilson(10, 20), wilson(1, 1), None)
    assert bins[9].interval == pytest.approx((0.28, 0.72), abs=0.04)  # 20 pairs all right or wrong


# ---- what the documents claim about chance ----------------------------------------------------


@pytest.mark.slow
def test_simulations_show_what_the_documents_claim_about_chance() -> None:
    sets = 40
    unequal, alike = (always_half, anything), (anything, anything)
    assert swapped("ece", unequal, rows=150, sets=sets) > 0.15
    assert apart("ece", unequal, rows=150, sets=sets) > 0.15
    assert all(swapped(metric, alike, rows=60, sets=sets) <= 0.13 for metric in ("brier", "ece"))
    assert above_band(sets, together=False)["independent"] <= 0.13
    assert above_band(sets, together=True)["dependent"] <= 0.13
    found = coverage(rows=107, sets=sets)
    assert found["brier"] >= 0.87 and found["ece"] == 0


# ---- a threshold with a promise ------------------------------------------------------------------


@pytest.mark.parametrize(
    "right",
    [lambda c: np.full_like(c, 0.9), lambda c: c, lambda c: np.clip(c + 0.04, 0, 1), lambda c: 1.85 - c],
    ids=["exactly as many wrong as promised", "honest", "a little better", "surest where wrong"],
)
def test_the_promise_of_a_threshold_holds_in_95_of_100_draws(right) -> None:
    generator, draws = np.random.default_rng(0), 200
    levels = np.linspace(0.85, 1, 16)
    broken = 0
    for _ in range(draws):
        c = generator.choice(levels, 300)
        at = lowest_threshold(c, generator.random(300) > right(c), 0.1, 0.05)
        broken += at is not None and (1 - right(levels[levels >= at])).mean() > 0.1 + 1e-9
    assert broken <= 0.05 * draws


def test_a_threshold_is_the_lowest_that_can_promise_and_few_answers_promise_nothing() -> None:
    names = [str(n) for n in range(60)]
    stated = [0.9] * 40 + [0.8] * 19 + [None]
    found = promise(stated, [True] * 40 + [False] * 20, names)
    assert (found.threshold, found.chosen_on.kept, found.chosen_on.wrong, found.n_needed) == (0.9, 40, 0, 29)
    assert found.elsewhere.kept >= 25 and found.elsewhere.wrong == 0
    assert promise(stated, [True] * 60, names).threshold == 0.8, "no answer without a confidence is kept"
    assert promise(stated[:28], [True] * 28, names[:28]).threshold is None
    paired = promise(stated, [True] * 40 + [False] * 20, [str(n // 2) for n in range(60)])
    assert (paired.n, paired.threshold) == (30, None), "an answer of each cluster counts"
    with pytest.raises(BadConfig, match="give a share between 0 and 1"):
        promise(stated, [True] * 60, names, wrong_at_most=10)


# ---- recalibration -------------------------------------------------------------------------------

TRUTHS = {"honest": lambda c: c, "too sure": lambda c: 0.1 + 0.4 * c, "says nothing": lambda c: 0.4 + 0 * c}


@pytest.mark.slow
@pytest.mark.parametrize("method", get_args(Method))
@pytest.mark.parametrize("truth", TRUTHS)
def test_recalibration_never_worsens_the_brier_score_by_more_than_chance_and_betters_what_is_not_honest(
    method: Method, truth: str
) -> None:
    generator, worse, gains = np.random.default_rng(0), 0, []
    for _ in range(100):
        c = np.round(generator.beta(4, 2, 350), 2)
        y = (generator.random(350) < TRUTHS[truth](c)).astype(float)
        curve = earned_curve(Claims(c[:150], y[:150], tuple(map(str, range(150))), ("direct",) * 150), method)
        others, right = c[150:], y[150:]
        gain = (others - right) ** 2 - (apply_curve(curve, others) - right) ** 2
        worse += gain.mean() < -1.645 * gain.std(ddof=1) / math.sqrt(len(gain))
        gains.append(gain.mean())
    assert worse <= 5
    assert np.mean(gains) > (-0.001 if truth == "honest" else 0.05)


def test_curves_of_recalibration_are_what_scikit_learn_fits_and_never_fall() -> None:
    c, y = (np.array(each, dtype=float) for each in sample(200))
    theirs = IsotonicRegression(y_min=1 / 202, y_max=201 / 202).fit(c, y)
    x, curve = zip(*fit_curve(c, y, "isotonic"), strict=True)
    assert curve == pytest.approx(theirs.predict(x))
    for method in get_args(Method):
        for right in (y, 1 - y, np.ones(200)):
            x, curve = zip(*fit_curve(c, right, method), strict=True)
            assert list(x) == sorted(x) and min(curve) > 0 and max(curve) < 1
            assert method == "histogram" or list(curve) == sorted(curve)


# ---- smooth calibration error, risk and coverage ----------------------------------------------


def smooth(c: Floats, y: Floats) -> float:
    return smooth_ece(c, y, np.ones((1, len(c))))


def test_the_smooth_error_of_one_sided_errors_is_their_gap_and_of_a_calibrated_model_near_zero() -> None:
    cases = [([0.9, 0.9], [1, 0], 0.4), ([1.0, 1.0, 0.0], [1, 1, 0], 0.0), ([0.0, 1.0], [1, 1], 0.5)]
    cases += [([0.999] * 4, [1] * 4, 0.001), ([0.7], [0], 0.7)]
    for c, y, expected in cases:
        assert smooth(array(*c), array(*y)) == pytest.approx(expected, abs=1e-8)
    generator = np.random.default_rng(1)
    c = generator.random(20_000)
    assert smooth(c, (generator.random(20_000) < c).astype(float)) < 0.02
    assert smooth_ece(array(0.2, 0.9), array(1, 0), array([3, 1])) == smooth(array(*[0.2] * 3, 0.9), array(1, 1, 1, 0))


def test_the_curve_of_risk_over_coverage_is_that_worked_by_hand_and_ends_with_every_row() -> None:
    curve = risk_coverage(array(0.5, 0.9, 0.5), array(1, 1, 0), np.array([[2.0, 1.0, 1.0]]))
    assert [(one.threshold, one.coverage, one.risk) for one in curve] == [(0.9, 0.25, 0.0), (0.5, 1.0, 0.25)]
    stated, right = sample(50)
    whole = calibrate(stated, right, settings=QUICK)
    assert [point.threshold for point in whole.risk_coverage] == sorted(set(stated), reverse=True)
    end = whole.risk_coverage[-1]
    assert (end.coverage, end.risk) == pytest.approx((1, 1 - whole.mean_accuracy))
    assert np.isnan(aurc(array(0.1, 0.2), array(0, 1), np.zeros((1, 2)))).all()
    with pytest.raises(ValueError, match="whole numbers"):
        aurc(array(0.1, 0.2), array(0, 1), np.array([[0.5, 0.5]]))


# ---- intervals --------------------------------------------------------------------------------


@few
@given(n=st.integers(1, 500), share=st.floats(0, 1))
def test_wilson_agrees_with_scipy_and_the_published_intervals(n: int, share: float) -> None:
    successes = round(share * n)
    theirs = stats.binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert wilson(successes, n) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert wilson(0, 0) is None
    for k, of, low, high in ((18, 20, 0.699, 0.972), (5, 5, 0.566, 1.0), (8, 10, 0.490, 0.943)):
        assert wilson(k, of) == pytest.approx((low, high), abs=1e-3)


def test_a_draw_takes_all_or_none_of_a_cluster_whatever_the_order_and_alike_rows_as_often() -> None:
    names = ["b", "a", "c", "a"]
    weights = Units.of(names).draw(500, np.random.default_rng(0))
    assert weights.shape == (500, 4) and (weights[:, 1] == weights[:, 3]).all()
    assert (weights[:, :3].sum(axis=1) == 3).all()
    assert (weights == Units.of(names[::-1]).draw(500, np.random.default_rng(0))[:, ::-1]).all()
    for alike in (2, 40):
        weights = Units(np.array([alike, 3 * alike]), np.array([0, 1])).draw(20_000, np.random.default_rng(0))
        assert (weights.sum(axis=1) == 4 * alike).all()
        assert weights[:, 0].mean() == pytest.approx(alike, rel=0.02)
        assert weights[:, 0].var() == pytest.approx(alike * 3 / 4, rel=0.05)  # binomial


def test_an_interval_of_draws_is_the_normal_one_of_a_mean_and_of_nothing_there_is_none() -> None:
    values = np.random.default_rng(0).normal(size=400)
    alone = Units.of([str(i) for i in range(400)])
    span = percentile_interval(resample(lambda w: {"mean": w @ values / w.sum(axis=1)}, alone, 4000, 0)["mean"])
    assert span == pytest.approx(values.mean() + 1.96 * values.std() / 20 * array(-1, 1), abs=0.012)
    assert percentile_interval(array(np.nan)) is None


# ---- p-values ---------------------------------------------------------------------------------


def test_few_clusters_are_swapped_in_every_way_once_and_many_at_random_in_parts() -> None:
    every = Swaps(5, draws=10_000, seed=0)
    arrangements = [tuple(row) for part in every.flips() for row in part]
    assert every.is_exact and len(arrangements) == 32
    assert set(arrangements) == {tuple(float(digit) for digit in f"{number:05b}") for number in range(32)}
    found = Swaps(20, draws=1000, seed=3)
    flips = found.moved(np.eye(20))
    assert not found.is_exact and flips.shape == (1000, 20)
    assert set(np.unique(flips)) == {0.0, 1.0} and abs(flips.mean() - 0.5) < 0.02
    assert np.array_equal(flips, Swaps(20, draws=1000, seed=3).moved(np.eye(20)))
    parts = [part.size for part in Swaps(5000, draws=600, seed=0).flips()]
    assert sum(parts) == 5000 * 600 and max(parts) <= CELLS


def test_p_values_are_scipys_and_never_zero() -> None:
    chance = np.random.default_rng(7)
    for n in (4, 9):
        difference, arranged = chance.normal(0.4, 1, n), Swaps(n, draws=10_000, seed=0)
        ours = permutation_p(difference.mean(), (1 - 2 * arranged.moved(np.eye(n))) @ difference / n, arranged.is_exact)
        theirs = stats.permutation_test((difference,), np.mean, permutation_type="samples", n_resamples=np.inf)
        assert ours == pytest.approx(theirs.pvalue)
    assert permutation_p(5.0, np.zeros(99), is_exact=False) == pytest.approx(0.01)
    assert permutation_p(5.0, array(0, np.nan, 5), is_exact=False) == pytest.approx(2 / 3)
    assert permutation_p(0.0, np.zeros(99), is_exact=False) == 1.0
    assert mcnemar_p(0, 0) == 1.0
    for one, other in ((1, 0), (1, 7), (7, 1), (5, 5), (3, 40), (120, 80)):
        assert mcnemar_p(one, other) == pytest.approx(stats.binomtest(one, one + other).pvalue)


def paired(sums: Floats, draws: int = 2000) -> tuple[float, tuple[float, float] | None]:
    """Return p and interval of what each cluster adds to a difference, one row each."""
    n, arranged = len(sums), Swaps(len(sums), draws, seed=0)
    swapped = (1 - 2 * arranged.moved(np.eye(n))) @ sums / n
    told = float(sums.mean()), swapped, arranged.is_exact
    return permutation_p(*told), invert_test(*told, (sums.sum() - sums) / (n - 1))


def test_the_interval_of_a_difference_is_students_where_that_is_right_and_never_contradicts_its_p() -> None:
    chance = np.random.default_rng(3)
    values = chance.normal(0.2, 1, 80)
    span = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert paired(values, draws=20_000)[1] == pytest.approx((span.low, span.high), abs=0.02)
    assert paired(np.array([-1.0] * 4 + [0.0] * 21))[1] == pytest.approx((-0.32, 0.0), abs=1e-6)
    assert paired(np.ones(5)) == (2 / 32, None), "even the rarest swap is no evidence"
    verdicts = []
    for n in (7, 12, 30):
        for shift in np.linspace(0, 1.5, 16):
            p, span = paired(chance.integers(-1, 2, n) * chance.random(n).round(1) + shift)
            assert span and (p < ALPHA) == (not span[0] <= 0 <= span[1]), (n, shift, p, span)
            verdicts.append(p < ALPHA)
    assert set(verdicts) == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("n", [12, 25, 60])
def test_the_interval_of_a_difference_holds_the_true_one_as_often_as_it_says(n: int) -> None:
    chance, held, sets = np.random.default_rng(n), 0, 400
    for _ in range(sets):
        share = chance.beta(2, 2, n) * 0.84
        _, span = paired((chance.random(n) < share + 0.16).astype(float) - (chance.random(n) < share), 1000)
        held += span is not None and span[0] <= 0.16 <= span[1]
    assert 0.92 <= held / sets <= 0.99


@few
@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_steps_down_and_is_right_by_hand(raw: list[float]) -> None:
    order = np.argsort(raw, kind="stable")
    steps = np.maximum.accumulate([min(1, (len(raw) - k) * raw[i]) for k, i in enumerate(order)]) if raw else []
    assert sorted(holm(raw)) == pytest.approx(sorted(steps))
    # 4 * .01; 3 * .02; 2 * .02, raised to the one before; 1 * .9
    assert holm([0.02, 0.01, 0.9, 0.02]) == pytest.approx([0.06, 0.04, 0.9, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]


# ---- agreement of raters ----------------------------------------------------------------------

FOUR_CODERS = {"A": "123321412...", "B": "1233224125.3", "C": ".3332342251.", "D": "12332441251."}
"""Krippendorff's example of twelve units, as reprinted by Gwet; a dot is a unit not rated."""


def ratings(choices: dict[str, str]) -> list[Rating]:
    return [Rating(str(u), who, c) for who, given in choices.items() for u, c in enumerate(given) if c != "."]


def test_the_published_examples_of_agreement_give_the_published_figures() -> None:
    found = rater_agreement(ratings(FOUR_CODERS), draws=10)
    published = TABLES["statistics: published agreement of four coders"]
    assert {name: found[name].value for name in published} == pytest.approx(published, abs=1e-5)
    assert found["cohen_kappa"].value is None and "exactly two raters" in found["cohen_kappa"].note
    assert set(found) == set(NAMES) == set(rater_agreement([]))
    numbers = rater_agreement(ratings(FOUR_CODERS), draws=10, are_numbers=True)
    assert numbers["krippendorff_alpha"].value == pytest.approx(0.849, abs=5e-4)
    two = {"A": "y" * 25 + "n" * 25, "B": "y" * 20 + "n" * 5 + "y" * 10 + "n" * 15}
    kappa = rater_agreement(ratings(two), draws=300)["cohen_kappa"]
    assert (kappa.value, kappa.n) == (pytest.approx(0.4), 50) and kappa.low < 0.4 < kappa.high


def test_agreement_by_chance_of_few_units_of_one_category_or_of_one_rater_is_told_as_such() -> None:
    alone = rater_agreement(ratings({"A": "x" * 30}))
    assert {(one.value, one.n, one.note) for one in alone.values()} == {(None, 0, "no unit was rated by two raters")}
    same = rater_agreement(ratings({"A": "x" * 30, "B": "x" * 30}), categories=("x", "y", "z"), draws=50)
    assert same["percent_agreement"].value == same["gwet_ac1"].value == 1
    assert same["krippendorff_alpha"].value is None
    assert "all choices were the same" in same["krippendorff_alpha"].note
    chosen = np.random.default_rng(1).integers(0, 3, size=(3, 300))
    random = rater_agreement(ratings({str(i): "".join(map(str, row)) for i, row in enumerate(chosen)}), draws=200)
    assert all(random[name].low < 0 < random[name].high for name in ("krippendorff_alpha", "gwet_ac1", "fleiss_kappa"))
    four = rater_agreement(ratings({"A": "abab", "B": "abab"}))["krippendorff_alpha"]
    assert (four.value, four.low, four.note) == (1, None, "no interval from fewer than 10 units rated twice")
    again = [Rating("u", "A", "left"), Rating("u", "B", "right"), Rating("u", "A", "right")]
    assert rater_agreement(again)["percent_agreement"].value == 1  # the last choice of a rater counts
