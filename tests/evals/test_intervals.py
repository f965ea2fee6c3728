"""Intervals against SciPy, published cases and what must hold whatever the data."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.stats.intervals import (
    Floats,
    Units,
    bca_interval,
    bootstrap,
    cluster_draws,
    jackknife,
    percentile_interval,
    resample,
    wilson,
)
from evals.stats.scores import auroc, brier, mean_accuracy


@pytest.mark.parametrize(
    ("successes", "n", "interval"),
    [(18, 20, (0.699, 0.972)), (5, 5, (0.566, 1.0)), (8, 10, (0.490, 0.943)), (0, 0, None)],
)
def test_wilson_gives_the_published_intervals(successes: int, n: int, interval: tuple[float, float] | None) -> None:
    expected = None if interval is None else pytest.approx(interval, abs=1e-3)
    assert wilson(successes, n) == expected


@given(n=st.integers(1, 500), share=st.floats(0, 1))
def test_wilson_agrees_with_scipy(n: int, share: float) -> None:
    from scipy.stats import binomtest

    successes = round(share * n)
    theirs = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert wilson(successes, n) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_a_draw_takes_all_or_none_of_a_cluster() -> None:
    weights = cluster_draws(["a", "b", "a", "c"], 500, np.random.default_rng(0))
    assert weights.shape == (500, 4)
    assert (weights[:, 0] == weights[:, 2]).all()
    assert (weights[:, [0, 1, 3]].sum(axis=1) == 3).all()


def test_the_order_of_rows_changes_no_draw_of_a_row() -> None:
    names = ["b", "a", "c", "a"]
    there = cluster_draws(names, 50, np.random.default_rng(0))
    back = cluster_draws(names[::-1], 50, np.random.default_rng(0))
    assert (there == back[:, ::-1]).all()


@pytest.mark.parametrize("alike", [2, 40])
def test_alike_rows_held_once_are_drawn_as_often_as_if_each_were_held(alike: int) -> None:
    kinds = Units(np.array([alike, 3 * alike]), np.array([0, 1]))
    weights = kinds.draw(20_000, np.random.default_rng(0))
    n = 4 * alike
    assert (weights.sum(axis=1) == n).all()
    assert weights[:, 0].mean() == pytest.approx(alike, rel=0.02)
    assert weights[:, 0].var() == pytest.approx(n / 4 * 3 / 4, rel=0.05)  # binomial


def test_the_jackknife_leaves_out_each_unit_once() -> None:
    values = np.array([1.0, 2.0, 4.0])
    units = Units(np.array([1, 2]), np.array([0, 0, 1]))
    found = jackknife(lambda w: {"sum": w @ values}, units)
    assert found["sum"].tolist() == [8.0, 7.0, 7.0]  # all are 1 + 2 + 2 * 4


def outcomes(n: int = 60, seed: int = 0) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(seed)
    c = generator.random(n)
    return c, (generator.random(n) < c**2).astype(np.float64)


@pytest.mark.parametrize("score", [brier, auroc, mean_accuracy])
@pytest.mark.parametrize("kind", ["BCa", "percentile"])
def test_intervals_agree_with_scipy_on_the_same_draws(
    score: Callable[[Floats, Floats, Floats], Floats], kind: str
) -> None:
    from scipy.stats import bootstrap as theirs

    c, y = outcomes()
    once = np.ones((1, len(c)))
    found = theirs(
        (c, y),
        lambda c, y: float(score(c, y, np.ones((1, len(c))))[0]),
        n_resamples=2000,
        vectorized=False,
        paired=True,
        method=kind,
        rng=np.random.default_rng(1),
    )
    draws = np.asarray(found.bootstrap_distribution)
    if kind == "percentile":
        ours = percentile_interval(draws)
    else:
        units = Units.of([str(i) for i in range(len(c))])
        left_out = jackknife(lambda w: {"score": score(c, y, w)}, units)["score"]
        ours = bca_interval(float(score(c, y, once)[0]), draws, left_out)
    assert ours == pytest.approx(found.confidence_interval, abs=1e-12)


def test_our_own_draws_give_the_interval_that_scipy_draws_give() -> None:
    from scipy.stats import bootstrap as theirs

    c, y = outcomes(200)
    found = theirs(
        ((c - y) ** 2,), np.mean, n_resamples=10_000, method="BCa", rng=np.random.default_rng(1)
    ).confidence_interval
    units = Units.of([str(i) for i in range(len(c))])

    def score(w: Floats) -> dict[str, Floats]:
        return {"brier": brier(c, y, w)}

    ours = bca_interval(
        float(brier(c, y, units.whole())[0]),
        resample(score, units, 10_000, 0)["brier"],
        jackknife(score, units)["brier"],
    )
    assert ours == pytest.approx((found.low, found.high), abs=0.002)


def test_bca_holds_what_it_promises_where_percentile_falls_short() -> None:
    """The mean of 20 exponential values: skewed, so percentile intervals lie too low."""
    generator = np.random.default_rng(0)
    units = Units.of([f"{i:02}" for i in range(20)])
    held = {"percentile": 0, "bca": 0}
    for seed in range(400):
        values = generator.exponential(size=20)

        def mean(w: Floats, values: Floats = values) -> dict[str, Floats]:
            return {"mean": w @ values / w.sum(axis=1)}

        draws = resample(mean, units, 500, seed)["mean"]
        spans = {
            "percentile": percentile_interval(draws),
            "bca": bca_interval(values.mean(), draws, jackknife(mean, units)["mean"]),
        }
        for name, span in spans.items():
            assert span is not None
            held[name] += span[0] <= 1 <= span[1]
    assert held["percentile"] < held["bca"]
    assert held["bca"] >= 0.88 * 400


@pytest.mark.parametrize(
    ("draws", "left_out"),
    [([np.nan], [1.0, 2.0]), ([3.0, 4.0], [1.0, 2.0]), ([1.0, 3.0], [1.0, np.nan])],
    ids=["no draw is defined", "all draws on one side", "undefined without some unit"],
)
def test_a_bca_interval_that_does_not_exist_is_none(draws: list[float], left_out: list[float]) -> None:
    assert bca_interval(2.0, np.array(draws), np.array(left_out)) is None


def test_the_bootstrap_of_a_mean_agrees_with_its_standard_error() -> None:
    values = np.random.default_rng(0).normal(size=400)
    names = [str(i) for i in range(400)]
    spans = bootstrap({"mean": lambda w: w @ values / w.sum(axis=1)}, names, 4000)
    half = 1.96 * values.std() / 20
    assert spans["mean"] == pytest.approx((values.mean() - half, values.mean() + half), abs=0.01)


def test_what_is_undefined_has_no_interval() -> None:
    assert bootstrap({"nothing": lambda w: np.full(len(w), np.nan)}, ["a"], 10) == {}
    assert bootstrap({"mean": lambda w: w.sum(axis=1)}, [], 10) == {}
    assert percentile_interval(np.array([np.nan])) is None


@pytest.mark.parametrize(
    "units",
    [
        Units.of([str(i) for i in range(50)]),
        Units(np.full(50, 9), np.arange(50)),
    ],
    ids=["rows", "alike rows held once"],
)
def test_the_interval_does_not_depend_on_how_many_draws_fit_in_memory(
    units: Units, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.arange(50.0)

    def mean(w: Floats) -> dict[str, Floats]:
        return {"mean": w @ values / w.sum(axis=1)}

    at_once = resample(mean, units, 300, 0)["mean"]
    monkeypatch.setattr("evals.stats.intervals.CELLS", 350)
    assert resample(mean, units, 300, 0)["mean"] == pytest.approx(at_once, rel=1e-12)
