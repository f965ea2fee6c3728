"""Metrics from sums over clusters agree with the same metrics row by row."""

from pathlib import Path

import numpy as np
import pytest

from evals.report import LOWER_IS_BETTER, MEASURES, METRICS, cells_of, tally
from evals.stats import scores
from evals.stats.intervals import cluster_draws
from evals.stats.scores import aurc
from tests.evals.reports import judged, small_report

ROWS = [row for row in small_report(40).rows if row.stage == "sft"]
CLAIMS = [row for row in ROWS if row.verdict.verdict != "no_claim"]
BY_ROW = {
    "brier": scores.brier,
    "base_rate_brier": scores.base_rate_brier,
    "log_loss": scores.log_loss,
    "auroc": scores.auroc,
    "aurc": aurc,
    "mean_confidence": scores.mean_confidence,
}


@pytest.mark.parametrize("name", BY_ROW)
def test_draws_of_clusters_give_what_draws_of_rows_give(name: str) -> None:
    table = tally(ROWS)
    weights = cluster_draws(table.clusters, 200, np.random.default_rng(0))
    place = [table.clusters.index(row.example.cluster) for row in CLAIMS]
    c = np.array([row.verdict.confidence.value for row in CLAIMS], dtype=np.float64)
    y = np.array([row.verdict.verdict == "correct" for row in CLAIMS], dtype=np.float64)
    expected = BY_ROW[name](c, y, weights[:, place])
    found = table.metric(name, table.drawn(200, seed=0))
    assert found == pytest.approx(expected, nan_ok=True)


def test_a_metric_without_rows_is_undefined_in_every_draw() -> None:
    table = tally(judged("silent", [("correct", None), ("no_claim", 0.9)]))
    for name, each in MEASURES.items():
        value = table.metric(name, table.totals())[0]
        assert np.isnan(value) == (table.n(name) == 0), name
        assert each.undefined
    assert table.metric("stated_share", table.totals())[0] == 0.5


def test_extra_cells_change_no_metric() -> None:
    plain, padded = tally(ROWS), tally(ROWS, cells_of(ROWS) | {(0.01, True), (0.99, False)})
    for name in MEASURES:
        values = [table.metric(name, table.totals())[0] for table in (plain, padded)]
        assert values[0] == pytest.approx(values[1], nan_ok=True), name


def test_errors_are_better_low_and_a_mean_confidence_has_no_better_end() -> None:
    assert {
        "ece",
        "brier",
        "log_loss",
        "aurc",
        "missing_share",
        "no_claim_share",
    } <= LOWER_IS_BETTER
    assert not {"accuracy", "reward", "auroc", "line_share", "stated_share"} & LOWER_IS_BETTER
    assert MEASURES["mean_confidence"].better is None


def test_the_page_on_metrics_names_every_metric_of_a_report() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    spelt = page.replace("`V1` … `V4`", "`V1` `V2` `V3` `V4`")
    assert [name for name in METRICS if f"`{name}`" not in spelt] == []
