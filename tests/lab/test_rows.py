"""From a figure to the answers behind it: as many as it says, filtered by the address, with what people said."""

import re
from html import unescape

import gradio as gr
import pytest

from evals.schema.reports import GradedRow
from evals.schema.votes import Annotation, AnnotationItem, AnnotationProject, Guidelines
from lab.results.calibration import diagram
from lab.results.leaderboard import board
from lab.results.reports import behind_figure, groups_of
from lab.results.tab import ResultsTab
from lab.services import load_reports
from lab.session import Visitor, door
from lab.shared.evaluations import Evaluations
from lab.shared.rater import RATED, Rater, item_of_row, row_name
from lab.shared.rows import PER_PAGE, chosen_rows, judgements_of, link, read_place, row_card, rows_page
from tests.lab.evaluations import open_tab, plain, scripted_report
from tests.lab.votes import NOON, answer, services_in, vote

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


def row_of(text, **changes):
    (row,) = [row for row in REPORT.rows if row.stage == "grpo"][:1]
    return row.model_copy(update={"completion": text, **changes})


def test_claims_are_marked_as_right_or_wrong_also_where_the_report_does_not_hold_them():
    row = next(row for row in REPORT.rows if row.stage == "grpo" and row.grade.verdict == "incorrect")
    bare = row.verdict.model_copy(update={"claims": (), "read_by": None})
    assert row_card(row.model_copy(update={"verdict": bare})) == row_card(row)
    assert 'class="claim bad"' in row_card(row)


def test_words_that_another_answer_does_not_have_are_marked_and_markup_is_text():
    card = row_card(row_of("It goes <b>up</b> in liver"), other="It goes down in liver", said=["<i>no</i>"])
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
    for visitor, pressed in ((ann, [("down", item.id)]), (Visitor("c", "page", "name:Bob"), []), (None, [])):
        (shown,) = (each for each in show(visitor, link(PLACE, row=row.id)).values() if "rows-one" in str(each))
        found = re.findall(r'data-do="(\w+)" data-id="([^"]*)" aria-pressed="true"', shown)
        assert [(thumb, f"{RATED}:{unescape(name)}") for thumb, name in found] == pressed
