import json
import re
from collections import Counter
from operator import attrgetter

import pytest

from evals.report import calibration_of, rows_of
from evals.stats.calibration import Calibration, NullEce
from lab.results.calibration import calibration_sentence, diagram
from lab.results.reports import answer_counts, calibrated
from lab.shared.evaluations import Evaluations
from lab.ui.components import measure
from tests.evals.reports import judged, report_of
from tests.lab.evaluations import CASES, MUTE, open_tab, plain, scripted_report
from tests.lab.votes import services_in


def test_without_reports_the_tab_names_the_command_that_makes_one(tmp_path):
    found = open_tab(services_in(tmp_path), "?view=calibration")
    assert [part["visible"] for part in (found.data, found.group, found.stages, found.charts)] == [False] * 4
    assert [found.reliability, found.risk] == [None, None]
    assert "assay eval run" in plain(found.page)


def test_the_diagram_reaches_the_browser_as_a_plotly_figure_of_the_stages_that_are_chosen(tmp_path):
    services = services_in(tmp_path, (scripted_report(),))
    found = open_tab(services, "?view=calibration&stages=grpo,base")
    assert found.stages["value"] == ["base", "grpo"]
    assert {found.reliability["type"], found.risk["type"]} == {"plotly"}
    names = {one["name"] for one in json.loads(found.reliability["plot"])["data"]}
    assert names == {"perfectly calibrated", "Base", "GRPO"}
    assert {one["name"] for one in json.loads(found.risk["plot"])["data"]} == {"Base", "GRPO"}


def row_of(page, heading):
    """The words of one row of the table of figures."""
    (row,) = (r for r in re.findall(r"<tr>.*?</tr>", page) if plain(r).startswith(f"{heading} "))
    return plain(row)


def test_the_table_holds_every_figure_of_every_stage_and_those_of_the_report_read_as_in_the_leaderboard():
    report = scripted_report()
    page = diagram(Evaluations((report,)), None, None).page
    for stage in ("base", "sft", "grpo"):
        each = calibration_of(report, stage)
        for heading, field in CASES["rows"]:
            assert f"{attrgetter(field)(each):.3f}" in row_of(page, heading), (stage, heading)
        assert f"{100 * each.mean_confidence:.1f} %" in row_of(page, "Mean confidence")
        assert f"{100 * each.mean_accuracy:.1f} %" in row_of(page, "Share correct")
    (summary,) = [s for s in report.summaries if (s.stage, s.group) == ("grpo", "unaided")]
    for name, heading in (("ece", "ECE ↓"), ("brier", "Brier score ↓"), ("auroc", "AUROC ↑")):
        assert plain(measure(summary.metrics[name], "number")) in row_of(page, heading)


def test_answers_that_do_not_count_are_counted_by_reason():
    report = scripted_report()
    (row, *others) = (r for r in report.rows if r.stage == "grpo")
    unread = row.verdict.confidence.model_copy(update={"value": None, "status": "invalid"})
    verdict = row.verdict.model_copy(update={"confidence": unread, "verdict": "incorrect"})
    odd = report.model_copy(update={"rows": (row.model_copy(update={"verdict": verdict}), *others)})
    of_kind = Counter(
        "no claim" if one.verdict.verdict == "no_claim" else one.verdict.confidence.status
        for one in rows_of(odd, "grpo", "all")
    )
    found = answer_counts(odd, "grpo", "all")
    assert found.invalid == of_kind["invalid"] == 1
    assert (found.stated, found.missing) == (of_kind["stated"], of_kind["missing"])
    assert found.no_claim == of_kind["no claim"]
    assert found.all == found.stated + found.missing + found.invalid + found.no_claim


@pytest.mark.parametrize(("ece", "ends", "words"), CASES["chance"])
def test_an_ece_is_held_against_what_chance_alone_would_show(ece, ends, words):
    bands = [end and NullEce(mean=0.05, q95=end) for end in ends]
    each = Calibration(
        n=50,
        n_missing_confidence=0,
        ece=ece,
        mean_confidence=0.8,
        mean_accuracy=0.7,
        ece_if_calibrated=bands[0],
        ece_if_dependent=bands[1],
    )
    assert words in calibration_sentence("sft", each)


def test_a_stage_that_states_nothing_gets_a_sentence_in_place_of_empty_charts(tmp_path):
    report = scripted_report("kmp-test", (MUTE, "sft"))
    services = services_in(tmp_path, (report,))
    found = open_tab(services, f"?view=calibration&group=all&stages={MUTE}")
    assert found.charts["visible"] is False
    assert (found.reliability, found.risk) == (None, None)
    assert "Mute has no confidence that could be checked" in plain(found.words)
    assert "– no claim with a stated confidence" in row_of(found.page, "ECE ↓")
    assert re.search(r"0 of 20 no claim: \d+ · claim without", row_of(found.page, "Answers counted"))


def test_opening_the_tab_again_does_not_resample_anything():
    measured = Evaluations((scripted_report(),))
    diagram(measured, None, None)
    kept = calibrated(measured.current[0], "grpo", "unaided")
    diagram(measured, None, None)
    assert calibrated(measured.current[0], "grpo", "unaided") is kept


def trace(figure, name, kind="scatter"):
    return next(one for one in figure.data if one.name == name and one.type == kind)


def test_the_charts_draw_bins_with_their_intervals_every_stated_confidence_and_the_risk_coverage_curve():
    report = scripted_report()
    each = calibration_of(report, "sft")
    reliable, risk = diagram(Evaluations((report,)), None, "sft").charts
    filled, points = [one for one in each.bins if one.n], trace(reliable, "SFT")
    assert (list(points.x), list(points.y)) == ([one.confidence for one in filled], [one.accuracy for one in filled])
    for one, told, up, down in zip(
        filled, points.customdata, points.error_y.array, points.error_y.arrayminus, strict=True
    ):
        assert (told[0], tuple(told[1:3])) == (one.n, one.interval)
        assert (one.accuracy - down, one.accuracy + up) == pytest.approx(one.interval)
    stated = each.n - each.n_missing_confidence
    assert sum(trace(reliable, "SFT", "bar").y) == stated
    curve = next(one for one in risk.data if one.mode.startswith("lines+markers"))
    assert list(curve.x) == [point.coverage for point in each.risk_coverage]
    assert list(curve.y) == [point.risk for point in each.risk_coverage]
    assert (curve.customdata[-1][1], curve.text[-1]) == (stated, str(stated))


def test_a_threshold_with_a_promise_is_a_ring_in_the_chart_and_a_sentence_and_none_is_said_to_be_none():
    sure = report_of(*judged("sft", [("correct", 0.9)] * 40 + [("incorrect", 0.4)] * 8))
    found = diagram(Evaluations((sure,)), None)
    (ring,) = [each for each in found.charts[1].data if each.marker.symbol == "circle-open"]
    assert (list(ring.x), list(ring.y)) == ([40 / 48], [0.0])
    assert "from 90% up, at most 10 % are wrong with 95 % certainty" in plain(found.words)
    unsure = report_of(*judged("sft", [("correct", 0.9), ("incorrect", 0.9)] * 20))
    found = diagram(Evaluations((unsure,)), None)
    assert "No confidence guarantees with 95 % certainty that at most 10 % are wrong: SFT" in plain(found.words)
