import json
import re
import subprocess
import sys
from dataclasses import replace

import gradio as gr
import pytest
from fastapi.testclient import TestClient
from gradio.routes import App

from evals.calibration import Settings
from evals.report import calibration_of
from lab.charts import reliability
from lab.evaluations import Evaluations, Outdated
from lab.tabs import calibration
from lab.tabs.calibration import ALL, diagram, sentence
from tests.lab.evaluations import scripted_report
from tests.lab.votes import services_in

FEW = Settings(draws=100)


def plain(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def open_tab(services, *chosen):
    """Open the tab in a new browser; then, if something is `chosen`, choose it."""
    with gr.Blocks() as page, gr.Tab("Calibration") as tab:
        calibration.build(services, tab)
    client = TestClient(App.create_app(page))
    for data in [[None, None], list(chosen)] if chosen else [[None, None]]:
        sent = {"data": data, "session_hash": "one browser"}
        reply = client.post("/gradio_api/run/calibration", json=sent)
        assert reply.status_code == 200
    services.store.close()
    return reply.json()["data"]


def trace(figure, name, kind="scatter"):
    return next(one for one in figure.data if one.name == name and one.type == kind)


@pytest.mark.parametrize("current", [(), (scripted_report(),)])
def test_a_report_of_something_else_is_named_and_its_figures_are_not_shown(current, tmp_path):
    old = Outdated("old.json", "other weights than this chain's", "assay eval run --chain mine")
    services = replace(services_in(tmp_path), reports=lambda: Evaluations(current, (old,)))
    *_, figures = open_tab(services)
    assert "old.json was measured on other weights" in plain(figures)
    assert "assay eval run --chain mine" in plain(figures)
    assert ("<table" in figures) is bool(current)


def test_without_reports_the_tab_names_the_command_that_makes_one(tmp_path):
    data, stage, plot, figures = open_tab(services_in(tmp_path))
    assert [part["visible"] for part in (data, stage, plot)] == [False, False, False]
    assert "assay eval run" in plain(figures)


def test_the_diagram_reaches_the_browser_as_a_plotly_figure_of_the_last_stage(tmp_path):
    _, stage, plot, _ = open_tab(services_in(tmp_path, (scripted_report(),)))
    assert stage["value"] == "grpo"
    assert plot["value"]["type"] == "plotly"
    names = {one["name"] for one in json.loads(plot["value"]["plot"])["data"]}
    assert names == {"perfectly calibrated", "GRPO"}


def test_a_point_is_a_bin_with_its_share_correct_n_and_wilson_interval():
    report = scripted_report()
    filled = [one for one in calibration_of(report, "sft", settings=FEW).bins if one.n]
    points = trace(diagram((report,), None, "sft").figure, "SFT")
    assert list(points.x) == [one.confidence for one in filled]
    assert list(points.y) == [one.accuracy for one in filled]
    for one, (n, low, high), up, down in zip(
        filled, points.customdata, points.error_y.array, points.error_y.arrayminus, strict=True
    ):
        assert (n, (low, high)) == (one.n, one.interval)
        assert one.accuracy + up == pytest.approx(high)
        assert one.accuracy - down == pytest.approx(low)


def test_the_bars_beneath_count_every_answer_with_a_confidence():
    report = scripted_report()
    each = calibration_of(report, "base", settings=FEW)
    bars = trace(diagram((report,), None, "base").figure, "Base", "bar")
    assert sum(bars.y) == each.n - each.n_missing_confidence


def test_all_stages_can_be_laid_over_each_other_and_keep_their_colours():
    report = scripted_report()
    alone = trace(diagram((report,), None, "sft").figure, "SFT")
    together = diagram((report,), None, ALL).figure
    assert trace(together, "SFT").marker.color == alone.marker.color
    colours = [trace(together, name).marker.color for name in ("Base", "SFT", "GRPO")]
    assert len(set(colours)) == 3


def test_a_stage_without_stated_confidences_gives_an_empty_diagram():
    figure = reliability({"base": ()}, ("base",))
    assert len(trace(figure, "Base").x) == 0


def test_the_table_below_names_ece_brier_chance_and_missing_confidences():
    report = scripted_report()
    each = calibration_of(report, "base")
    shown = plain(diagram((report,), None, None).page)
    headline = next(
        row for row in report.summaries if (row.stage, row.group) == ("base", "unaided")
    ).metrics["ece"]
    assert headline.value == each.ece
    assert f"Base {each.ece:.3f} {headline.low:.3f} to {headline.high:.3f}" in shown
    assert f"{each.ece_if_calibrated.mean:.3f} 95 % stay below" in shown
    assert f"{each.brier:.3f}" in shown
    assert f"{each.base_rate_brier:.3f}" in shown
    assert f"{each.n_missing_confidence} of {each.n}" in shown


def test_an_overconfident_stage_is_said_to_be_so():
    each = calibration_of(scripted_report(), "base", settings=FEW)
    told = sentence("base", each)
    assert each.mean_confidence > each.mean_accuracy
    assert re.match(
        r"Base states \d+ % on average and is right \d+ % of the time: \d+ points over", told
    )
    assert "more than chance explains" in told


def test_a_stage_that_states_nothing_is_said_to_have_nothing_to_check():
    report = scripted_report()
    silent = tuple(
        row.model_copy(
            update={
                "verdict": row.verdict.model_copy(
                    update={
                        "confidence": row.verdict.confidence.model_copy(
                            update={"value": None, "status": "missing"}
                        )
                    }
                )
            }
        )
        if row.stage == "base"
        else row
        for row in report.rows
    )
    found = diagram((report.model_copy(update={"rows": silent}),), None, "base")
    assert "Base states no confidence that could be checked" in plain(found.page)


def test_the_figures_agree_with_the_leaderboard():
    report = scripted_report()
    (summary,) = [s for s in report.summaries if (s.stage, s.group) == ("grpo", "unaided")]
    assert calibration_of(report, "grpo", settings=FEW).ece == pytest.approx(
        summary.metrics["ece"].value
    )


def test_the_page_starts_without_loading_plotly_figures_or_scipy():
    code = (
        "import sys, lab.tabs.calibration, lab.tabs.leaderboard, lab.tabs.preferences; "
        "late = ('plotly.graph_objs._figure', 'scipy.stats', 'alembic', 'torch', 'datasets'); "
        "print([module for module in late if module in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert shown.stdout.strip() == "[]"
