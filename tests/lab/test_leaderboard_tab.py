import re
from dataclasses import replace

import gradio as gr
import pytest
from fastapi.testclient import TestClient
from gradio.routes import App

from evals.baselines import BASELINES
from evals.schema import Metric
from lab.evaluations import Evaluations, Outdated
from lab.grid import grid, interval, measure, number
from lab.tabs import leaderboard
from lab.tabs.leaderboard import board
from tests.lab.evaluations import scripted_report
from tests.lab.votes import services_in


def plain(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def open_tab(services, *chosen):
    """Open the tab in a new browser; then, if something is `chosen`, choose it."""
    with gr.Blocks() as page, gr.Tab("Leaderboard") as tab:
        leaderboard.build(services, tab)
    client = TestClient(App.create_app(page))
    for data in [[None, None], list(chosen)] if chosen else [[None, None]]:
        sent = {"data": data, "session_hash": "one browser"}
        reply = client.post("/gradio_api/run/leaderboard", json=sent)
        assert reply.status_code == 200
    services.store.close()
    return reply.json()["data"]


@pytest.mark.parametrize("current", [(), (scripted_report(),)])
def test_a_report_of_something_else_is_named_and_its_figures_are_not_shown(current, tmp_path):
    old = Outdated("old.json", "other weights than this chain's", "assay eval run --chain mine")
    services = replace(services_in(tmp_path), reports=lambda: Evaluations(current, (old,)))
    *_, figures = open_tab(services)
    assert "old.json was measured on other weights" in plain(figures)
    assert "assay eval run --chain mine" in plain(figures)
    assert ("<table" in figures) is bool(current)


def test_without_reports_the_tab_names_the_command_that_makes_one(tmp_path):
    data, group, tables = open_tab(services_in(tmp_path))
    assert (data["visible"], group["visible"]) == (False, False)
    assert "assay eval run --chain embedded --stage all --data pathways-heldout" in plain(tables)


def test_every_stage_and_every_baseline_stands_in_one_table(tmp_path):
    *_, tables = open_tab(services_in(tmp_path, (scripted_report(),)))
    shown = plain(tables)
    for name in ("Base", "SFT", "GRPO"):
        assert f" {name} " in shown
    for name in BASELINES:
        assert f"{name} baseline" in shown


def test_accuracy_stands_with_its_n_and_interval():
    report = scripted_report()
    (summary,) = [s for s in report.summaries if (s.stage, s.group) == ("grpo", "unaided")]
    metric = summary.metrics["accuracy"]
    span = interval(metric.low, metric.high, "share")
    expected = f"{number(metric.value, 'share')} {span} · n = {metric.n}"
    assert f"GRPO {expected}" in plain(board((report,), None, None).page)


def test_the_headline_group_is_shown_first_and_another_can_be_chosen(tmp_path):
    _, group, tables = open_tab(services_in(tmp_path, (scripted_report(),)))
    assert group["value"] == "unaided"
    assert ["All questions (107)", "all"] in [list(choice) for choice in group["choices"]]
    other = board((scripted_report(),), None, "all")
    assert "n = 107" in plain(other.page)
    assert "n = 107" not in plain(tables)


def test_a_group_the_other_questions_do_not_have_falls_back_to_the_headline():
    reports = (scripted_report(), scripted_report("kmp-test"))
    found = board(reports, "kmp-test", "conservation")
    assert (found.report.data_name, found.group) == ("kmp-test", "unaided")


def test_the_other_questions_can_be_chosen(tmp_path):
    reports = (scripted_report(), scripted_report("kmp-test"))
    data, _, tables = open_tab(services_in(tmp_path, reports), "kmp-test", "direct")
    assert data["value"] == "kmp-test"
    assert [choice[0] for choice in data["choices"]] == [
        "Pathways in held-out tissues (107)",
        "KMP study, test set (20)",
    ]
    assert "--data kmp-test" in plain(tables)


def test_a_difference_is_told_with_whether_its_interval_excludes_zero():
    shown = plain(board((scripted_report(),), None, "all").page)
    pattern = (
        r"On 107 questions GRPO is right (\S+) points more often than Base; "
        r"the 95 % interval, (\S+) to \S+ points, excludes zero\."
    )
    found = re.search(pattern, shown)
    assert found
    assert float(found[1]) > 0
    assert float(found[2]) > 0


def test_a_stage_compared_with_its_equal_is_not_called_better():
    report = scripted_report()
    rows = [row for row in report.rows if row.stage == "grpo"]
    twin = [row.model_copy(update={"stage": "twin"}) for row in rows]
    summaries = [s for s in report.summaries if s.stage == "grpo"]
    both = [*summaries, *(s.model_copy(update={"stage": "twin"}) for s in summaries)]
    same = report.model_copy(update={"rows": (*rows, *twin), "summaries": tuple(both)})
    shown = plain(board((same,), None, None).page)
    assert "Twin is right exactly as often as GRPO" in shown
    assert "excludes zero" not in shown


def test_a_difference_that_is_the_same_in_every_draw_is_told_without_an_interval():
    report = scripted_report()
    (row, *_) = (r for r in report.rows if r.stage == "grpo" and r.verdict.verdict == "correct")
    wrong = row.verdict.model_copy(update={"verdict": "incorrect"})
    before = row.model_copy(update={"stage": "sft", "verdict": wrong})
    summaries = tuple(s for s in report.summaries if s.stage in ("sft", "grpo"))
    lone = report.model_copy(update={"rows": (before, row), "summaries": summaries})
    shown = plain(board((lone,), None, "all").page)
    assert "GRPO is right 100.0 points more often than SFT; resampling the questions shows" in shown
    assert "excludes zero" not in shown


def test_instrument_settings_and_command_stand_beneath():
    report = scripted_report()
    shown = plain(board((report,), None, None).page)
    for version in report.versions.values():
        assert version in shown
    assert report.command in shown
    assert report.data_sha256[:12] in shown


def test_markup_in_a_report_is_shown_as_text():
    report = scripted_report().model_copy(update={"command": "<script>alert(1)</script>"})
    assert "<script" not in board((report,), None, None).page


@pytest.mark.parametrize(
    ("metric", "shown"),
    [
        (None, "not measured"),
        (Metric(value=None, n=0, note="no claim"), "– no claim"),
        (Metric(value=0.0, n=5), "0.0 % n = 5"),
        (Metric(value=0.8, n=5, note="constant"), "80.0 % n = 5 · constant"),
        (Metric(value=0.626, n=107, low=0.533, high=0.712), "62.6 % 53.3 to 71.2 % · n = 107"),
    ],
)
def test_a_missing_figure_is_never_shown_as_zero(metric, shown):
    assert plain(measure(metric)) == shown


def test_a_table_row_with_a_cell_too_few_is_a_bug_not_a_shifted_table():
    with pytest.raises(ValueError, match="zip"):
        grid("caption", ("a", "b"), [("only one",)])


def test_an_unreadable_report_is_told_with_its_remedy(tmp_path):
    from lab.services import load_reports

    folder = tmp_path / "chain" / "reports"
    folder.mkdir(parents=True)
    (folder / "broken.json").write_text("{")
    services = replace(services_in(tmp_path), reports=lambda: load_reports(str(tmp_path / "chain")))
    *_, tables = open_tab(services)
    assert "broken.json is not a report" in plain(tables)
