import numpy as np
import pytest

from evals.intervals import bootstrap, cluster_draws, percentile_interval, wilson


@pytest.mark.parametrize(
    ("successes", "n", "interval"),
    [(18, 20, (0.699, 0.972)), (5, 5, (0.566, 1.0)), (8, 10, (0.490, 0.943)), (0, 0, None)],
)
def test_wilson_gives_the_published_intervals(
    successes: int, n: int, interval: tuple[float, float] | None
) -> None:
    expected = None if interval is None else pytest.approx(interval, abs=1e-3)
    assert wilson(successes, n) == expected


def test_a_draw_takes_all_or_none_of_a_cluster() -> None:
    weights = cluster_draws(["a", "b", "a", "c"], 500, np.random.default_rng(0))
    assert weights.shape == (500, 4)
    assert (weights[:, 0] == weights[:, 2]).all()
    assert (weights[:, [0, 1, 3]].sum(axis=1) == 3).all()


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


def test_the_interval_does_not_depend_on_how_many_draws_fit_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.arange(50.0)
    names = [str(i) for i in range(50)]
    metric = {"mean": lambda w: w @ values / w.sum(axis=1)}
    at_once = bootstrap(metric, names, 300)
    monkeypatch.setattr("evals.intervals.CELLS", 500)
    assert bootstrap(metric, names, 300) == at_once
