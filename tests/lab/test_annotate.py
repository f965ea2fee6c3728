import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from threading import Event, Thread
from zipfile import ZipFile

import gradio as gr
import pytest

from evals.errors import LabError
from evals.preferences.annotations import (
    RUBRICS,
    agreements,
    disagreements,
    rubric_text,
    settle_annotations,
    usual_guidelines,
)
from evals.questions import kmp_test
from evals.schema.votes import AnnotationItem, AnnotationProject
from lab.annotate import tab
from lab.session import Visitor, door
from lab.shared.exports import annotations_file
from lab.shared.rater import RATED, Rater, item_of_answer, item_of_row, items_of_report, parse_guidelines, row_name
from lab.shared.rating import RatingPanel
from lab.ui.components import pieces
from tests.evals.reports import small_report
from tests.lab.served import caller
from tests.lab.votes import NOON, answer, new_store, url_in

ANN, BOB, CAT = (Visitor(name, f"page of {name}") for name in ("ann", "bob", "cat"))
PROJECT = AnnotationProject(
    id="liver", title="Liver", created_at=NOON, guidelines=usual_guidelines(), raters_per_item=2
)


@pytest.fixture
def project(services):
    store = services.store.annotations
    store.keep_project(PROJECT)
    store.add_items([item(number) for number in range(4)])
    return store


def item(number):
    text = f"α-cells rise in mission {number}."
    return AnnotationItem(
        id=f"i{number}", project="liver", added_at=NOON, question="Up?", text=text, stage="sft", chain="embedded"
    )


def rated(answers):
    return [item_of_answer(each, RATED) for each in answers]


def test_a_rater_works_through_the_queue_and_every_change_is_kept_as_a_draft_until_it_is_submitted(services, project):
    ann = Rater(services, ANN)
    first = ann.queue("liver").next()
    assert (first.item.id, first.said.state, ann.queue("liver").progress()[1][:26]) == (
        "i0",
        "pending",
        "0 of 4 answers complete · ",
    )
    assert ann.annotate("i0", comment="").said.state == "pending" and project.latest() == ()
    ann.annotate("i0", ratings={"factual": 4})
    ann.add_note("i0", "0-7", "wrong_fact", " which? ")
    assert Rater(services, ANN).queue("liver").next().said.notes[0].model_dump() == {
        "start": 0, "end": 7, "kind": "wrong_fact", "comment": "which?",
    }  # fmt: skip
    assert ann.annotate("i0", "submitted").said.ratings == {"factual": 4}
    assert ann.queue("liver").next().item.id == "i1"
    assert ann.queue("liver").next(["i1", "i2"]).item.id == "i3"
    assert ann.annotate("i1", "discarded", comment="empty").said.state == "discarded"
    assert [each.id for each in ann.queue("liver").waiting] == ["i2", "i3"]
    assert [each.id for each in Rater(services, BOB).queue("liver").waiting] == ["i0", "i1", "i2", "i3"]


def test_a_change_is_taken_back_step_by_step_and_a_submitted_word_stays_submitted_while_it_is_changed(
    services, project
):
    ann = Rater(services, ANN)
    ann.annotate("i0", ratings={"factual": 4})
    ann.annotate("i0", "submitted", thumb="up")
    assert ann.annotate("i0", comment="and more").said.state == "submitted"
    assert ann.undo("i0").said.comment == ""
    assert ann.undo("i0").said.state == "draft"
    assert ann.undo("i0").said.is_empty
    with pytest.raises(LabError, match="nothing to undo"):
        ann.undo("i0")
    assert ann.remove_note("i0", 5).said.is_empty


def test_in_a_queue_what_was_submitted_by_mistake_is_taken_back_from_the_answer_that_came_up_next(services, project):
    ann = Rater(services, ANN)
    ann.annotate("i0", ratings={"factual": 4})
    ann.annotate("i0", "submitted")
    assert ann.undo("i1", is_queue=True).said.state == "draft"
    assert ann.queue("liver").next().item.id == "i0"
    with pytest.raises(LabError, match="nothing to undo"):
        Rater(services, BOB).undo("i1", is_queue=True)


def test_where_raters_are_checked_no_rater_is_shown_a_right_answer_and_who_settles_sees_those_not_checked(services):
    question, store = kmp_test()[0].prompt, services.store.annotations
    store.keep_project(PROJECT)
    store.add_items(
        [item(n).model_copy(update={"question": question, "gold": "correct" if n else None}) for n in (0, 1)]
    )
    with gr.Blocks():
        panel = RatingPanel(services, door(), "annotate", shows_stages=False)

    def shown(n, is_adjudicating=False):
        return panel.view(Rater(services, ANN, is_adjudicating).open(f"i{n}"))

    assert not any("Right answer" in shown(n) for n in (0, 1))
    assert ["Right answer" in shown(n, is_adjudicating=True) for n in (0, 1)] == [True, False]
    store.keep_project(PROJECT.model_copy(update={"id": "plain"}))
    store.add_items([item(2).model_copy(update={"question": question, "project": "plain"})])
    assert "Right answer" in shown(2)


def test_what_says_nothing_or_does_not_fit_is_refused_and_loses_nothing(services, project):
    ann = Rater(services, ANN)
    ann.annotate("i0", ratings={"factual": 4})
    refused = {
        "nothing is rated": lambda: ann.annotate("i1", "submitted"),
        "factual: 9 is not within 1 to 5": lambda: ann.annotate("i0", ratings={"factual": 9}),
        "no words are selected": lambda: ann.add_note("i0", "", "good", ""),
        "no words are selected.": lambda: ann.add_note("i0", "3-900", "good", ""),
        "marks nothing": lambda: ann.add_note("i0", "3-3", "good", ""),
        "no longer in the store": lambda: ann.open("elsewhere"),
        "who you are": lambda: Rater(services, None).open("i0"),
        "no annotation project": lambda: ann.store.project("other"),
    }
    for words, ask in refused.items():
        with pytest.raises(LabError, match=words):
            ask()
    assert ann.open("i0").said.ratings == {"factual": 4}


def test_raters_who_disagree_are_settled_by_an_adjudicator_who_sees_only_those(services, project):
    for rater, value in ((ANN, 5), (BOB, 1)):
        Rater(services, rater).annotate("i0", "submitted", ratings={"factual": value})
        Rater(services, rater).annotate("i1", "submitted", ratings={"factual": 3})
    judge = Rater(services, CAT, is_adjudicating=True)
    assert [each.id for each in judge.queue("liver").waiting] == ["i0"]
    judge.annotate("i0", "discarded")
    assert judge.queue("liver").next() is None
    judge.undo("i0")
    judge.annotate("i0", "submitted", ratings={"factual": 2}, corrected="They fall.")
    assert judge.queue("liver").next() is None
    settled = settle_annotations(project.items("liver"), project.latest("liver"))
    assert (settled[0].ratings, settled[0].corrected, settled[0].by) == ({"factual": 2}, "They fall.", judge.name)
    assert [disagreements(PROJECT, each) for each in settled] == [[], []]
    assert agreements(PROJECT, project.latest("liver"), draws=10)["factual"]["cohen_kappa"].n == 2


def test_answers_of_ask_are_rated_where_they_stand_once_for_each_rater(services):
    answers = [answer("a1"), answer("a2", "sft")]
    first, second = Rater(services, ANN).add_items(rated(answers))
    assert Rater(services, BOB).add_items(rated(answers)) == [first, second]
    Rater(services, ANN).annotate(second, "submitted", thumb="down")
    assert Rater(services, BOB).open(second).said.is_empty
    assert [each.source for each in services.store.annotations.items(RATED)] == ["answer a1", "answer a2"]
    assert [each.id for each in Rater(services, ANN).queue(RATED).waiting] == [first]
    assert Rater(services, BOB).queue(RATED).waiting == []


def test_a_thumb_on_a_card_is_submitted_at_once_and_pressed_again_is_taken_back_alone(services):
    ann, answers = Rater(services, ANN), [answer("a1"), answer("a2", "sft")]
    first, second = ann.add_items(rated(answers))
    assert ann.set_thumb(first, "up").said.state == "submitted"
    assert (ann.thumbs(), Rater(services, BOB).thumbs()) == ({"a1": "up"}, {})
    assert ann.set_thumb(first, "down").said.thumb == "down"
    assert ann.set_thumb(first, "down").said.model_dump(include={"state", "thumb"}) == {"state": "draft", "thumb": None}
    ann.annotate(second, ratings={"factual": 2})
    ann.set_thumb(second, "up")
    assert ann.set_thumb(second, "up").said.model_dump(include={"state", "ratings"}) == {
        "state": "submitted", "ratings": {"factual": 2},
    }  # fmt: skip


def test_an_answer_of_a_report_is_rated_under_a_name_that_another_answer_in_its_place_does_not_have(services):
    report, ann = small_report(), Rater(services, ANN)
    row = report.rows[0]
    name = row_name(report, row)
    (item,) = ann.add_items([item_of_row(report, row, RATED, name, NOON)])
    ann.set_thumb(item, "down")
    assert (ann.thumbs(), ann.open(item).item.verdict) == ({name: "down"}, row.verdict)
    assert row_name(report, row.model_copy(update={"completion": "else"})) != name
    assert len({row_name(report, each) for each in report.rows}) == len(report.rows)


def test_who_gave_a_name_is_the_same_rater_in_every_browser(services, project):
    home, work = (
        Visitor(browser, f"page of {browser}", name) for browser, name in (("b1", "name:Ann"), ("b2", "name:ann"))
    )
    Rater(services, home).annotate("i0", thumb="up")
    assert Rater(services, work).open("i0").said.thumb == "up"
    assert Rater(services, ANN).open("i0").said.is_empty
    assert Rater(services, home).name == services.store.hash_rater(home.voter)


def test_leaving_a_field_while_submit_is_pressed_takes_no_submission_back(services, project, monkeypatch):
    ann, is_reading, may_go_on = Rater(services, ANN), Event(), Event()
    keep = type(project).save

    def slow(self, annotations, *name):
        if annotations[0].state == "draft":
            is_reading.set()
            may_go_on.wait(5)
        keep(self, annotations, *name)

    monkeypatch.setattr(type(project), "save", slow)
    left = Thread(target=ann.annotate, args=("i0",), kwargs={"comment": "why"})
    submitted = Thread(target=ann.annotate, args=("i0", "submitted"), kwargs={"comment": "why"})
    left.start()
    is_reading.wait(5)
    submitted.start()
    submitted.join(0.3)
    may_go_on.set()
    left.join()
    submitted.join()
    assert ann.open("i0").said.state == "submitted"
    ann.annotate("i1", "discarded", comment="why")
    assert ann.annotate("i1", comment="why").said.state == "discarded"


def test_a_rubric_is_chosen_and_changed_as_toml():
    for name in RUBRICS:
        assert len(parse_guidelines(rubric_text(name)).dimensions) == 5
    dimension = '[[dimensions]]\nname = "{0}"\ntitle = "{0}"\n'
    for text, words in (
        ("so what", "not TOML"),
        (dimension.format("a") * 2, "stands twice"),
        (dimension.format("thumb"), "already asked of every answer"),
        ("".join(dimension.format(f"a{n}") for n in range(9)), "9 dimensions are too many"),
    ):
        with pytest.raises(LabError, match=words):
            parse_guidelines(text)


def test_one_word_is_for_all_answers_to_a_question_in_the_same_words_and_taken_back_for_all(services):
    services.store.annotations.keep_project(PROJECT)
    texts = {"sft": "It falls.", "dpo": "It falls.", "grpo": "It rises."}
    services.store.annotations.add_items([
        AnnotationItem(id=stage, project="liver", added_at=NOON, question="Does it?", text=text, stage=stage, chain="c")
        for stage, text in texts.items()
    ])  # fmt: skip
    ann = Rater(services, ANN)
    ann.annotate("dpo", "submitted", thumb="up")
    assert [each.id for each in ann.queue("liver").waiting] == ["grpo"]
    assert [line for line, _ in ann.queue("liver").choices()][::2] == ["1. Submitted: Does it?", "3. Pending: Does it?"]
    services.store.annotations.add_items([
        AnnotationItem(id="late", project="liver", added_at=NOON, question="Does it?", text="It falls.", stage="kto", chain="c")
    ])  # fmt: skip
    ann.undo("sft")
    assert len(ann.queue("liver").waiting) == 4, "one of them that came later has nothing to undo"


def test_a_project_of_a_report_holds_the_answers_of_the_stages_that_were_chosen_in_an_order_that_tells_no_stage():
    report = small_report()
    stages = sorted({row.stage for row in report.rows})
    items = items_of_report(report, PROJECT, stages, 2)
    assert len(items) == 2 * len(stages) == len({each.id for each in items})
    assert items == items_of_report(report, PROJECT, stages, 2)
    rows = {(row.stage, row.example.id): row for row in report.rows}
    assert all(each.verdict == rows[each.stage, each.example_id].verdict for each in items)


def test_overlapping_notes_mark_every_piece_of_the_text_once():
    assert pieces("abcdefghij", [(0, 5, "good"), (3, 8, "unsupported")]) == [
        ("abc", "good"), ("de", "good unsupported"), ("fgh", "unsupported"), ("ij", ""),
    ]  # fmt: skip


def test_the_page_makes_a_project_rates_exports_and_takes_a_file_in(services, tmp_path):
    services.store.add_answers([answer("a1", session=services.store.hash_rater("ask ann"))])
    with gr.Blocks() as page, gr.Tab("Annotate") as shown:
        visitor = door()
        visitor.known.value = ANN
        tab.build(services, visitor, shown)
    called = caller(page)
    told, chosen = called("annotate_make", None, "MYC <b>", "", [], 5, 1, rubric_text("general"), 0, 100)
    name = chosen["value"]
    assert "MYC &lt;b&gt;: 1 answer to annotate" in told
    assert len(services.store.annotations.items(chosen["value"])) == 2, "it is asked a second time"
    assert [name] == [each for _, each in called("annotate_projects", None, "rater")[0]["choices"]]
    assert "base says yes." in str(called("annotate_project", None, name, "rater", [], None))
    for empty in ((None, 1), (5, None)):
        assert "enter a number" in called("annotate_make", None, "MYC", "", [], *empty, "", 0, 0)[0]
    with pytest.raises(LabError, match="nothing was submitted yet"):
        annotations_file(services, name, "csv", tmp_path)
    store = services.store.annotations
    ann = Rater(services, Visitor("ann", "page", "name:Ann"))
    ann.annotate(store.items(name)[0].id, "submitted", ratings={"factual": 5})
    message, archive = annotations_file(services, name, "csv", tmp_path)
    with ZipFile(archive) as held:
        table, checked = (
            held.read(f"annotations-csv/{name}.csv").decode("utf-8-sig") for name in ("annotations", "raters")
        )
    assert checked.splitlines()[1].split(",")[1:3] == ["Ann", "1"], "raters are checked where answers are asked twice"
    assert ",5," in table and ",Ann," in table and "1 row" in message
    assert "Agreement appears once two raters" in called("annotate_agreement", name)[0]
    Rater(services, BOB).annotate(store.items(name)[0].id, "submitted", ratings={"factual": 4}, thumb="up")
    shown = called("annotate_agreement", name)[0]
    assert "Gwet&#x27;s AC2" in shown and "answers: 1, settled: 0" in shown
    assert "Factual: not known yet, only 1 answer rated twice" in shown and "disagree on" not in shown
    Rater(services, BOB).annotate(store.items(name)[0].id, "submitted", ratings={"factual": 1})
    assert f'data-id="{store.items(name)[0].id}"' in called("annotate_agreement", name)[0]


@pytest.mark.parametrize("kills", [8, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_nothing_that_was_acknowledged_is_lost_when_the_writer_is_killed(tmp_path, kills):
    new_store(tmp_path).close()
    command = [sys.executable, "-m", "tests.lab.killed", url_in(tmp_path), str(kills), "7"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (found["kills"], found["lost"]) == (kills, [])
    assert found["acknowledged"] >= kills
    with closing(sqlite3.connect(tmp_path / "assay.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_project_says_before_anybody_rates_which_answers_train_nothing(services, project):
    asked = kmp_test()[0]
    held = item(4).model_copy(update={"question": asked.prompt, "example_id": asked.id})
    assert "Held out" not in Rater(services, ANN).queue("liver").progress()[1]
    project.add_items([held])
    assert "Held out for measuring: 1 of 5 answers" in Rater(services, ANN).queue("liver").progress()[1]


def test_a_project_is_deleted_with_its_answers_and_what_was_said_of_them_and_others_stay(services, project):
    project.keep_project(PROJECT.model_copy(update={"id": "kidney"}))
    project.add_items([item(9).model_copy(update={"id": "k9", "project": "kidney"})])
    for name in ("i0", "k9"):
        Rater(services, ANN).annotate(name, "submitted", comment="fine")
    project.delete("liver")
    assert [each.id for each in project.projects()] == ["kidney"]
    assert [each.id for each in project.items()] == ["k9"] == [each.item for each in project.latest("kidney")]
    assert project.count() == 1
