"""Results: leaderboard, calibration, the answers behind a figure, which reports are shown, what the names of figures mean."""

import json
import re
from collections import Counter
from dataclasses import replace
from html import unescape
from operator import attrgetter
from pathlib import Path

import gradio as gr
import pytest

from evals.compare import Difference
from evals.errors import LabError
from evals.leaderboard import leaderboard
from evals.questions.task import BASELINES
from evals.report import MEASURES, build_report, calibration_of, rows_of, save_report
from evals.schema import ChainManifest, ChainStage, EvalReport, Metric
from evals.schema.reports import GradedRow
from evals.schema.votes import Annotation, AnnotationItem, AnnotationProject, Guidelines
from evals.stats.agreement import NAMES, WEIGHTED_NAMES
from evals.stats.calibration import Calibration, NullEce
from lab.results.calibration import calibration_sentence, diagram
from lab.results.leaderboard import board, difference_cell
from lab.results.reports import answer_counts, behind_figure, calibrated, groups_of, outdated_notices
from lab.results.tab import ResultsTab
from lab.services import load_reports
from lab.session import Visitor, door
from lab.shared.evaluations import Evaluations, Outdated, read_evaluations
from lab.shared.rater import RATED, Rater, item_of_row, row_name
from lab.shared.rows import PER_PAGE, chosen_rows, judgements_of, link, read_place, row_card, rows_page
from lab.ui.components import Column, grid, interval, meaning, measure, number, stage_name, term, tiles
from lab.ui.text import lines
from tests.evals.reports import judged, report_of
from tests.lab.chains import manifest
from tests.lab.evaluations import CASES, MUTE, STAGES, open_tab, plain, scripted_report
from tests.lab.votes import NOON, answer, services_in, vote


def shown(report, *chosen):
    """Return the words of the page for a report, its default choices or those chosen."""
    return plain(board(Evaluations((report,)), None, *(chosen or (None,))).page)


@pytest.mark.parametrize("count", [0, 1])
def test_a_report_of_something_else_is_named_and_its_figures_are_not_shown(count, tmp_path):
    current = (scripted_report(),) * count
    old = Outdated("old.json", "other weights than this chain's", "assay eval run --chain mine")
    services = replace(services_in(tmp_path), reports=lambda: Evaluations(current, (old,)))
    figures = open_tab(services).page
    assert "old.json was measured on other weights" in plain(figures)
    assert "assay eval run --chain mine" in plain(figures)
    assert ("<table" in figures) is bool(current)


def test_every_stage_and_every_baseline_stands_in_one_table_with_n_interval_and_how_it_was_read():
    report = scripted_report()
    page = shown(report)
    assert all(f" {name} " in page for name in ("Base", "SFT", "GRPO"))
    strongest = [name for name in BASELINES if f"{name} baseline" in page]
    assert len(strongest) == 1
    assert f"{len(BASELINES) - 1} weaker baselines" in page
    assert all(f"{name}: " in page for name in set(BASELINES) - set(strongest))
    assert "empty answer: 0.0 % read by text 59" in page
    assert re.search(r"always down, 60%: [\d.]+ % (?!read)", page)
    (summary,) = [s for s in report.summaries if (s.stage, s.group) == ("grpo", "unaided")]
    metric = summary.metrics["accuracy"]
    span = interval(metric.low, metric.high, "share")
    assert f"GRPO {number(metric.value, 'share')} {span} · n = {metric.n}" in page


def test_the_headline_group_is_shown_first_and_another_group_or_other_questions_can_be_chosen(tmp_path):
    reports = (scripted_report(), scripted_report("kmp-test"))
    found = open_tab(services_in(tmp_path, reports))
    data, group, tables = found.data, found.group, found.page
    assert group["value"] == "unaided"
    assert ["All questions (107)", "all"] in [list(choice) for choice in group["choices"]]
    assert "n = 107" in shown(reports[0], "all")
    assert "n = 107" not in plain(tables)
    assert [choice[0] for choice in data["choices"]] == [
        "Pathways in held-out tissues (107)",
        "KMP study, test set (20)",
    ]
    found = open_tab(services_in(tmp_path, reports), "?questions=kmp-test&group=direct&order=ece")
    data, tables = found.data, found.page
    assert data["value"] == "kmp-test"
    assert "--data kmp-test" in plain(tables)
    found = board(Evaluations(reports), "kmp-test", "conservation")  # a group that these questions do not have
    assert (found.report.data_name, found.group) == ("kmp-test", "unaided")


def test_the_ranked_entries_are_drawn_with_their_intervals_best_first_and_only_stages_that_follow_stand_in_the_table():
    report = scripted_report()
    found = board(Evaluations((report,)), None)
    names = [trace.y[0] for trace in found.forest.data]
    assert {"Base", "SFT", "GRPO"} < {*names} and len(names) == 4, "and the strongest baseline"
    values = [trace.x[0] for trace in found.forest.data]
    assert values == sorted(values, reverse=True)
    assert found.forest.layout.yaxis.categoryarray == tuple(reversed(names))
    steps, others = found.page.split("<details><summary>Other pairs")
    assert "Base → SFT" in plain(steps) and "SFT → GRPO" in plain(steps)
    assert "Base → GRPO" not in plain(steps) and "Base → GRPO" in plain(others)


def test_a_difference_is_told_with_whether_it_is_more_than_chance():
    pattern = (
        r"GRPO is shown to be better than Base on accuracy: difference \+(\S+) points, "
        r"95 % interval \+(\S+) to \S+ points, p (?:< )?\S+, after correction for 9 differences "
        r"(?:< )?\S+, 107 answers\."
    )
    found = re.search(pattern, shown(scripted_report(), "all"))
    assert found
    assert float(found[1]) > float(found[2]) > 0
    may_be_chance = r"SFT is not shown to be better or worse than Base on Brier score: diff"
    assert re.search(may_be_chance, shown(scripted_report(), "all", "brier"))


def difference_of(**changes):
    """A difference in accuracy that is more than chance, changed."""
    usual = {"metric": "accuracy", "first": 0.2, "second": 0.5, "value": 0.3, "n": 59}
    found = {"low": 0.1, "high": 0.5, "p_permutation": 0.001, "p_holm": 0.004}
    measure = MEASURES[changes.get("metric", "accuracy")]
    return Difference(**usual | found | changes, better=measure.better, is_tested=measure.is_tested)


@pytest.mark.parametrize(("changes", "words"), CASES["differences"])
def test_a_difference_claims_something_only_if_interval_and_corrected_p_allow_it(changes, words):
    assert words in plain(difference_cell(difference_of(**changes)))


def test_a_rank_is_the_one_that_the_statistics_give_and_a_shared_one_says_so():
    report = scripted_report()
    rows = leaderboard([report], "unaided", "brier")
    page = shown(report, None, "brier")
    first = [row for row in rows if row.rank == 1]
    assert 1 < len(first) < len(rows)
    assert f"{len(first)} entries share rank 1: " in page
    for row in rows:
        name = row.stage if row.is_baseline else stage_name(row.stage)
        sharing = sum(other.rank == row.rank for other in rows)
        shared = f" shared by {sharing}" if row.rank and sharing > 1 else ""
        told = "no rank" if row.rank is None else f"rank {row.rank}"
        assert (f"{name}: " if row.rank is None and row.is_baseline else f"{told}{shared} {name}") in page


def test_an_ece_orders_the_table_but_ranks_nobody_and_the_page_says_why():
    page = shown(scripted_report(), None, "ece")
    assert "ECE only sorts them, because chance adds more" in page
    assert "Order by Brier score or log loss" in page
    assert "SFT and GRPO on ECE: difference" in page and "This cannot be tested" in page
    assert not re.search(r"shown to be (better|worse) than \w+ on ECE", page)
    assert " rank 2 " not in page


def test_instrument_settings_and_command_stand_beneath_and_markup_in_them_is_text():
    report = scripted_report()
    page = shown(report)
    assert all(told in page for told in (*report.versions.values(), report.command, report.data_sha256[:12]))
    marked = report.model_copy(update={"command": "<script>alert(1)</script>"})
    assert "<script" not in board(Evaluations((marked,)), None, None).page


@pytest.mark.parametrize(("metric", "told"), CASES["metrics"])
def test_a_missing_figure_is_never_shown_as_zero(metric, told):
    assert plain(measure(metric and Metric(**metric))) == told


def test_stages_that_left_answers_out_are_shown_without_ranks_and_not_compared():
    report = scripted_report()
    own = {"base", "sft", "grpo"}
    sure = [row for row in report.rows if row.stage not in own or (row.verdict.confidence.value or 0) >= 0.5]
    settings = report.settings | {"abstain_below": "50%"}
    about = {"chain_name", "stage_checksums", "data_name", "created_at", "command", "libraries"}
    examples = {row.example.id: row.example for row in report.rows}
    known = {name: getattr(report, name) for name in about}
    page = shown(build_report(list(examples.values()), sure, **known, settings=settings))
    assert "no rank SFT abstains below 50%, so it answered other questions than the rest" in page
    assert "Does training help?" not in page


# ---- calibration ----------------------------------------------------------------------------------


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


# ---- from a figure to the answers behind it -------------------------------------------------------


LINK = re.compile(r'<a class="assay-behind" href="([^"]*)" aria-label="[^"]*, n = (\d+)"')
REPORT = scripted_report()
PLACE = {"tab": "results", "questions": REPORT.data_name, "group": "all", "rows": "accuracy", "stage": "grpo"}
SHIPPED = ["kmp-test", *(pytest.param(name, marks=pytest.mark.slow) for name in ("pathways-heldout", "kmp-rewordings"))]


def behind(**changes):
    return behind_figure(REPORT, "all", PLACE | changes, "")


def page_of(**changes):
    return rows_page(behind(**changes), PLACE | changes)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_figure_of_a_shipped_report_opens_as_many_answers_as_its_n(name):
    found = load_reports("embedded")
    (report,) = [each for each in found.reports if each.data_name == name]
    wrong, n_links = [], 0
    for group in groups_of(report):
        for page in (board(found, name, group).page, diagram(found, name, None, group).page):
            for href, n in LINK.findall(page):
                place, n_links = read_place(unescape(href), unescape(href)[5:].partition("&")[0]), n_links + 1
                rows = chosen_rows(behind_figure(report, place["group"], place, ""), place)
                wrong += [] if len(rows) == int(n) else [(place, len(rows), n)]
    assert wrong == []
    assert n_links > 100


def test_a_cell_of_the_leaderboard_leads_to_a_page_that_names_it_and_counts_what_it_counts(tmp_path):
    page = board(Evaluations((REPORT,)), None, "all").page
    cell = next(found for found in LINK.findall(page) if "rows=brier" in found[0] and "stage=sft" in found[0])
    shown = open_tab(services_in(tmp_path, (REPORT,)), unescape(cell[0])).page
    assert "SFT: the answers behind Brier score" in plain(shown)
    assert f"{cell[1]} answers" in plain(shown)
    assert shown.count("<details") == PER_PAGE


FILTERS = [
    ({"verdict": "incorrect"}, lambda row: row.verdict.verdict == "incorrect"),
    ({"tissue": "eye"}, lambda row: row.example.tissue == "eye"),
    ({"kind": "direct"}, lambda row: row.example.kind == "direct"),
    ({"confidence": "80-90"}, lambda row: row.grade.confidence == 0.8),
    ({"confidence": "80-"}, lambda row: (row.grade.confidence or 0) >= 0.8),
    ({"confidence": "none"}, lambda row: row.grade.confidence is None),
    ({"find": "MYOGENESIS"}, lambda row: "myogenesis" in (row.example.prompt + row.completion).lower()),
    (
        {"verdict": "correct", "tissue": "eye"},
        lambda row: row.grade.verdict == "correct" and row.example.tissue == "eye",
    ),
    ({"kind": "no such", "verdict": "no such"}, lambda row: False),
    ({"confidence": "x"}, lambda row: False),
]


def test_filters_leave_the_answers_that_fit_and_count_them():
    wrong = []
    for asked, fits in FILTERS:
        wanted = [row for row in REPORT.rows if row.stage == "grpo" and fits(row)]
        shown = page_of(**asked)
        told = f"{len(wanted)} of 107 answers" if len(wanted) < 107 else "107 answers"
        if {row.id for row in chosen_rows(behind(), asked)} != {row.id for row in wanted} or told not in plain(shown):
            wrong.append(asked)
    assert wrong == []


def test_the_surest_wrong_answer_stands_first_and_pages_follow_each_other():
    rows = chosen_rows(behind(), {})
    sure = [row.grade.confidence or 0 for row in rows if row.grade.verdict != "correct"]
    assert sure == sorted(sure, reverse=True) and rows[-1].grade.verdict == "correct"
    first, second = page_of(), page_of(page="2")
    ids = [re.findall(r"row=([^&\"]+)", page) for page in (first, second)]
    assert len(ids[0]) == len(ids[1]) == PER_PAGE and not {*ids[0]} & {*ids[1]}
    assert 'aria-current="page">6' in page_of(page="999")


def test_the_link_to_a_row_opens_that_row_alone_with_the_stages_side_by_side():
    (href, *_) = re.findall(r'<a href="([^"]*row=[^"]*)"', page_of(against="sft"))
    place = read_place(unescape(href), "results")
    alone = rows_page(behind(), place)
    assert link(place) == unescape(href)
    assert alone.count("<details") == alone.count("open>") == 1
    assert re.findall(r'data-title="(\w+)"', alone) == ["Base", "SFT", "GRPO"]
    assert "differ from SFT" in plain(alone)
    assert 'data-title="Empty answer"' in rows_page(behind(), place | {"baselines": "1"})


def answer_row(text, **changes):
    (row,) = [row for row in REPORT.rows if row.stage == "grpo"][:1]
    return row.model_copy(update={"completion": text, **changes})


def test_claims_are_marked_as_right_or_wrong_also_where_the_report_does_not_hold_them():
    row = next(row for row in REPORT.rows if row.stage == "grpo" and row.grade.verdict == "incorrect")
    bare = row.verdict.model_copy(update={"claims": (), "read_by": None})
    assert row_card(row.model_copy(update={"verdict": bare})) == row_card(row)
    assert 'class="claim bad"' in row_card(row)


def test_words_that_another_answer_does_not_have_are_marked_and_markup_is_text():
    card = row_card(answer_row("It goes <b>up</b> in liver"), other="It goes down in liver", said=["<i>no</i>"])
    assert '<mark class="differs">&lt;b&gt;up&lt;/b&gt;</mark>' in card
    assert "<i>" not in card and "&lt;i&gt;no" in card
    hostile = '"><script>alert(1)</script>${x}{{y}}'
    shown = rows_page(behind(), PLACE | {"find": hostile, "sort": hostile, "kind": hostile, "against": hostile})
    assert "<script" not in shown and "${" not in shown and "{{" not in shown


def test_a_row_of_another_task_stands_with_its_reward_and_a_report_without_texts_says_so():
    graded = {
        "id": "r",
        "cluster": "r",
        "stage": "grpo",
        "completion": "",
        "grade": {"reward": 0.5, "parts": {"f1": 0.25}},
    }
    card = row_card(GradedRow.model_validate(graded))
    assert "reward 0.500 · f1 0.250" in plain(card)
    mute = REPORT.model_copy(update={"rows": tuple(row.model_copy(update={"completion": ""}) for row in REPORT.rows)})
    assert "holds no texts" in plain(rows_page(behind_figure(mute, "all", PLACE, ""), PLACE))


def test_what_people_said_of_the_same_words_stands_beside_them(tmp_path):
    row, other = (next(row for row in REPORT.rows if row.stage == stage) for stage in ("grpo", "sft"))
    services, asked = services_in(tmp_path, (REPORT,)), row.example.prompt
    left = answer("a", "grpo", text=row.completion, question=asked)
    right = answer("b", "sft", text="Something else.", question=asked)
    services.store.add_answers([left, right])
    services.store.add_comparison(vote(left, right, "left"))
    store = services.store.annotations
    rubric = Guidelines(dimensions=({"name": "fact", "title": "Factual"},))
    store.keep_project(AnnotationProject(id="p", title="P", created_at=NOON, guidelines=rubric))
    item = {"id": "i", "project": "p", "added_at": NOON, "question": asked, "text": row.completion, "chain": "c"}
    store.add_items([AnnotationItem(**item, stage="grpo")])
    said = {"item": "i", "updated_at": NOON, "ratings": {"fact": 4}, "comment": "Fine."}
    store.save([Annotation(rater="ann", state="submitted", **said), Annotation(rater="bob", state="draft", **said)])
    found = judgements_of(services, [row, other])
    services.store.close()
    assert found[asked, "grpo", row.completion] == ["Factual: 4 · Fine.", "Preferred to SFT"]
    assert (asked, "sft", other.completion) not in found


def test_the_thumb_that_a_visitor_gave_a_row_is_shown_as_pressed_to_them_alone(tmp_path):
    services, ann = services_in(tmp_path, (REPORT,)), Visitor("b", "page", "name:Ann")
    row = next(row for row in REPORT.rows if row.stage == "grpo")
    item = item_of_row(REPORT, row, RATED, row_name(REPORT, row), NOON)
    Rater(services, ann).add_items([item])
    Rater(services, ann).set_thumb(item.id, "down")
    with gr.Blocks(), gr.Tab("Tab") as tab:
        show = ResultsTab(services, door(), tab).show
    assert "There is no report on" in str(show(None, "?tab=results&questions=gone"))
    for visitor, pressed in ((ann, [("down", item.id)]), (Visitor("c", "page", "name:Bob"), []), (None, [])):
        (shown,) = (each for each in show(visitor, link(PLACE, row=row.id)).values() if "rows-one" in str(each))
        found = re.findall(r'data-do="(\w+)" data-id="([^"]*)" aria-pressed="true"', shown)
        assert [(thumb, f"{RATED}:{unescape(name)}") for thumb, name in found] == pressed


# ---- which reports are shown ----------------------------------------------------------------------


DATA = "kmp-test"


def chain_of_the_report() -> ChainManifest:
    """Return a manifest with the checksums that the scripted report was made with."""
    made = manifest()
    stages = tuple(
        ChainStage(
            name=name,
            kind=name,
            mode="stack",
            path=f"{name}/adapter",
            sha256=f"sha-of-{name}",
            config_sha256="",
            probe=made.base_probe,
        )
        for name in STAGES
        if name != "base"
    )
    base = made.base.model_copy(update={"weights_sha256": "sha-of-base"})
    return made.model_copy(update={"base": base, "stages": stages})


def read(folder: Path, *reports: EvalReport) -> Evaluations:
    """Return what is found of these reports beside the chain."""
    (folder / "chain.json").write_text(chain_of_the_report().model_dump_json(), encoding="utf-8")
    for place, report in enumerate(reports):
        save_report(report, folder / "reports" / f"{place}.json")
    return read_evaluations(str(folder), folder / "reports")


def test_a_report_of_this_chain_or_of_some_of_its_stages_is_current(tmp_path: Path) -> None:
    assert read_evaluations("nowhere", tmp_path / "reports") == Evaluations(), "a chain that was never measured"
    assert read(tmp_path, scripted_report(DATA)) == Evaluations(current=(scripted_report(DATA),))
    assert load_reports(str(tmp_path)).current == (scripted_report(DATA),)
    some = {"stage_checksums": {"base": "sha-of-base", "sft": "sha-of-sft"}}
    assert read(tmp_path, scripted_report(DATA).model_copy(update=some)).outdated == ()
    mine = scripted_report(DATA).model_copy(update={"data_name": "mine.jsonl", "data_sha256": "1" * 64})
    assert read(tmp_path, mine).current == (mine,), "a report on rows of one's own is taken at its word"
    (tmp_path / "chain.json").unlink()
    with pytest.raises(LabError, match="no chain"):
        load_reports(str(tmp_path))


def test_a_report_that_came_with_a_published_chain_knows_its_base_by_the_packed_file(tmp_path: Path) -> None:
    made = chain_of_the_report()
    base = {"weights_sha256": "sha of what it unpacks into", "packed_sha256": "sha-of-base"}
    back = made.model_copy(update={"base": made.base.model_copy(update=base)})
    (tmp_path / "chain.json").write_text(back.model_dump_json(), encoding="utf-8")
    save_report(scripted_report(DATA), tmp_path / "reports" / "0.json")
    assert len(read_evaluations(str(tmp_path), tmp_path / "reports").current) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"stage_checksums": {"base": "sha-of-base", "sft": "an earlier one"}}, "other weights"),
        ({"stage_checksums": {"base": "another base"}}, "other weights"),
        ({"stage_checksums": {"base": "sha-of-base", "dpo": "sha-of-dpo"}}, "other weights"),
        ({"data_sha256": "0" * 64}, "questions that have changed"),
        ({"settings": {"limit": 3}, "data_name": f"{DATA} (first 3)"}, "questions that have"),
    ],
)
def test_a_report_of_something_else_is_named_with_the_command_that_measures_again(
    changes: dict[str, object], reason: str, tmp_path: Path
) -> None:
    found = read(tmp_path, scripted_report(DATA).model_copy(update=changes), scripted_report(DATA))
    assert found.current == (scripted_report(DATA),)
    (old,) = found.outdated
    assert (old.file, old.reason.startswith(reason)) == ("0.json", True)
    assert old.command.startswith(
        f"assay eval run --chain {tmp_path} --stage all --data {DATA} --out {tmp_path}/reports/0.json"
    )
    assert ("--limit 3" in old.command) is ("settings" in changes)
    told = outdated_notices(found.outdated)
    assert "0.json was measured on" in told
    assert "so it is not shown. Measure again with <code>assay eval run" in told


def test_a_report_of_other_verifiers_is_named_with_the_command_that_judges_it_again(tmp_path: Path) -> None:
    old = scripted_report(DATA).model_copy(update={"versions": {"verifiers": "0", "confidence": "0"}})
    measured = read(tmp_path, old)
    (found,) = measured.outdated
    assert found.reason == "another version of the verifiers"
    assert found.command == f"assay eval rescore {tmp_path}/reports/0.json"
    assert measured.reports == (old,)
    assert measured.is_outdated(measured.reports[0])
    assert read(tmp_path, old, scripted_report(DATA)).reports == (scripted_report(DATA),), "not beside one of today"


def test_a_file_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    (first,) = read(tmp_path, scripted_report(DATA)).current
    (same,) = load_reports(str(tmp_path)).current
    assert same is first
    other = first.model_copy(update={"command": "assay eval run --seed 7"})
    save_report(other, tmp_path / "reports" / "0.json")
    assert load_reports(str(tmp_path)).current == (other,)


def test_two_reports_on_the_same_questions_are_told_apart_by_their_files(tmp_path: Path) -> None:
    first = scripted_report(DATA)
    found = read(tmp_path, first, first.model_copy(update={"command": "assay eval run --confidence stated,likelihood"}))
    one, other = found.current
    assert (one.data_name, one.command) == (DATA, first.command)
    assert other.data_name == f"{DATA} ({found.files[other.data_name].stem})" != one.data_name
    assert other.command.endswith("likelihood")


def test_a_report_of_ones_own_is_renamed_and_one_that_came_with_assay_is_not(tmp_path: Path) -> None:
    mine = scripted_report(DATA).model_copy(update={"data_name": "mine", "data_sha256": "1" * 64})
    found = read(tmp_path, mine)
    for title in ("mine", " ", DATA):
        with pytest.raises(LabError, match="is taken, or has characters other than"):
            found.rename(mine, title)
    assert found.rename(mine, " wet lab ") == "wet lab"
    assert [report.data_name for report in load_reports(str(tmp_path)).reports] == ["wet lab"]
    shipped = load_reports("embedded")
    assert shipped.reports and [shipped.own_file(report) for report in shipped.reports] == [None] * len(shipped.reports)
    with pytest.raises(LabError, match="comes with Assay"):
        shipped.rename(shipped.reports[0], "mine")


# ---- what the names of figures mean ---------------------------------------------------------------


FIGURES = re.compile(
    r"metric\.(?!constant|higher|lower)\w+|calibration\.(row|chart)\.\w+|leaderboard\.(forest|name|against|step)"
    r"|train\.(metric|chart)\.(?!means)[\w/]+|train\.fact\.(?!command|base|chain|data|measured|error|stopped|ended|kept)\w+"
    r"|refine\.(column\.(?!answer)|part\.)\w+|preferences\.(votes|usable|ties|both_bad|raters|withdrawn)"
    r"|home\.figure\.\w+|ratings\.votes|verdict\.(?!read|unknown)\w+|confidence\.(missing|invalid)|questions\.n"
)
"""Lines that are names of figures. Those of tables are in tests/browser/undefined.js, on the pages."""


def test_every_name_of_a_figure_has_a_definition_in_plain_words():
    names = {text for key, text in lines().items() if FIGURES.fullmatch(key)} | {*NAMES.values()}
    columns = (
        lines()["annotate.raters.columns"].split(" | ")[2:],
        lines()["questions.scores.columns"].split(" | ")[1:],
    )
    names |= {*WEIGHTED_NAMES.values(), *columns[0], *columns[1]}
    assert len(names) > 80
    assert [name for name in names if not meaning(name)] == []
    told = {key.removeprefix("means."): text for key, text in lines().items() if key.startswith("means.")}
    assert {key for key in told if key != key.lower()} == set(), "these are never found"
    assert [key for key, text in told.items() if not re.fullmatch(r"[A-Z0-9].{12,240}\.", text)] == []


def test_a_name_with_a_definition_is_a_stop_of_the_tab_key_and_one_without_stays_as_it_is():
    table = grid(
        "Each with its [95 % interval] [x]", ("Stage", Column("ECE ↓", href="?order=ece"), "V1 answer"), [("a", 1, 2)]
    )
    assert 'its <dfn tabindex="0" data-means="The range' in table and "[x]</caption>" in table
    assert '<th scope="col">Stage</th>' in table and 'Order by ECE ↓">ECE ↓</a></th>' in table
    assert term("Stage") == "Stage" and term("train, checksum 1", "train") != "train, checksum 1"
    assert term(term("ECE")) == term("ECE") and "<dt><dfn" in tiles([("Votes", 3)])
