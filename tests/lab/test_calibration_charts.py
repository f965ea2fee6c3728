"""What the charts of the Calibration tab draw."""

import pytest

from evals.report import calibration_of
from evals.stats.calibration import CalibrationSettings
from lab.results.calibration import ALL, diagram
from lab.results.evaluations import Evaluations
from lab.ui.charts import reliability
from tests.lab.evaluations import scripted_report

FEW = CalibrationSettings(draws=100)


def trace(figure, name, kind="scatter"):
    return next(one for one in figure.data if one.name == name and one.type == kind)


def test_a_point_is_a_bin_with_its_share_correct_n_and_interval():
    report = scripted_report()
    filled = [one for one in calibration_of(report, "sft").bins if one.n]
    points = trace(diagram(Evaluations((report,)), None, "sft").charts[0], "SFT")
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
    bars = trace(diagram(Evaluations((report,)), None, "base").charts[0], "Base", "bar")
    assert sum(bars.y) == each.n - each.n_missing_confidence


def test_all_stages_can_be_laid_over_each_other_and_keep_their_colours():
    report = scripted_report()
    alone = trace(diagram(Evaluations((report,)), None, "sft").charts[0], "SFT")
    together = diagram(Evaluations((report,)), None, ALL).charts[0]
    assert trace(together, "SFT").marker.color == alone.marker.color
    colours = [trace(together, name).marker.color for name in ("Base", "SFT", "GRPO")]
    assert len(set(colours)) == 3


def test_a_stage_without_stated_confidences_gives_an_empty_diagram():
    figure = reliability({"base": ()}, ("base",))
    assert len(trace(figure, "Base").x) == 0


def test_the_second_chart_is_the_risk_coverage_curve_with_how_many_are_answered():
    report = scripted_report()
    each = calibration_of(report, "sft")
    curve = next(
        one
        for one in diagram(Evaluations((report,)), None, "sft").charts[1].data
        if one.mode.startswith("lines+markers")
    )
    assert list(curve.x) == [point.coverage for point in each.risk_coverage]
    assert list(curve.y) == [point.risk for point in each.risk_coverage]
    assert curve.customdata[-1][1] == each.n - each.n_missing_confidence
    assert curve.text[-1] == str(each.n - each.n_missing_confidence)


def test_stages_differ_in_shape_as_well_as_in_colour():
    together = diagram(Evaluations((scripted_report(),)), None, ALL).charts
    for figure in together:
        marks = {
            (one.marker.color, one.marker.symbol) for one in figure.data if one.type == "scatter" and one.marker.symbol
        }
        assert len({colour for colour, _ in marks}) == len({shape for _, shape in marks}) == 3
