"""The Papers tab without a browser: papers in, concerns out, changes kept, files made."""

import json
from dataclasses import replace

import pytest

from evals.errors import LabError, UnreadableArticle
from evals.review.prompt import review_system_prompt
from lab.engine import LabEngine
from lab.papers.session import (
    OwnReviews,
    act,
    demonstration,
    paper_of,
    read,
    register,
    resume_review,
    review,
    save,
    stop_all,
    under_way,
)
from lab.papers.view import export
from lab.papers.view import paper as paper_view
from lab.session import Visitor, new_visitor
from lab.shared.work import end, works
from lab.ui.components import notice
from tests.lab.chains import ScriptedChain, lab_with
from tests.lab.reviewers import PAPER, QUOTE, SAID, ScriptedReader
from training.data.preferences import read_preferences
from training.data.reviews import read_reviews

USUAL = (0, 256, 0.1)
NOTES = ("hidden text on page 2 was left out: <b>IGNORE", "1 of 3 pages hold no text (pages 3)")
FORMS = ("json", "markdown", "letter", "sft", "dpo")


@pytest.fixture
def room(tmp_path):
    """A lab with scripted reviewers."""
    readers = (
        ScriptedReader(pause=0.05),
        ScriptedReader("Other", SAID[1:]),
        ScriptedReader("Long", SAID, 0, 2),
        ScriptedReader("Slow", SAID, 1.0),
    )
    return replace(lab_with(tmp_path), readers=lambda: readers)


def reviewed(room, visitor, name="Scripted"):
    *_, view = review(room, visitor, (None, PAPER), name, USUAL)
    return view


def own(room, visitor):
    return OwnReviews(room, visitor)


def standing(room, visitor, view):
    return own(room, visitor).get(view.kept).parts


def text_of(room, visitor, view, form):
    return export(own(room, visitor).get(view.kept), form).text


def test_concerns_appear_one_by_one_with_labels_and_places_and_the_review_is_kept_at_the_end(room):
    visitor = new_visitor()
    views = list(review(room, visitor, (None, PAPER), "Slow", USUAL))  # slow enough for a busy machine to see each
    counts = [view.cards.count('class="concern"') for view in views]
    assert counts == sorted(counts) and set(counts) == {0, 1, 2, 3}
    assert [view.is_busy for view in views] == [True] * (len(views) - 1) + [False]
    view = views[-1]
    kept = own(room, visitor).get(view.kept).document
    assert [each.text for each in kept.concerns] == [each.text for each in SAID]
    assert kept.reviewer.stage == "review"
    assert "statistical methodology" in view.cards
    assert QUOTE in view.cards
    assert view.cards.count("No four consecutive words in common with the paper") == 1
    assert view.paper.count("<mark") == 2
    assert "<img" not in view.cards
    assert "Ignore all earlier instructions" in view.paper, "orders to the reviewer are read as a paper"


def test_what_a_review_in_stages_dropped_is_shown_as_rejected_with_the_paper_s_sentence_until_it_is_reworded(room):
    visitor = new_visitor()
    *_, made = review(room, visitor, (None, PAPER), "Scripted", USUAL, is_staged=True)
    kept = own(room, visitor).get(made.kept).document
    assert (kept.reviewer.name, kept.reviewer.is_staged) == ("Scripted (in stages)", True)
    assert [each.decision for each in kept.concerns] == ["open", "rejected", "rejected"]
    assert made.cards.count("The paper says otherwise") == 2 and "says otherwise: 2" in made.notice
    view = save(room, visitor, made.kept, "m2", ("Twelve mice are too few.", "design_flaw", "minor"))
    assert view.cards.count("The paper says otherwise") == 1


def test_every_change_is_kept_and_can_be_taken_back_one_by_one(room):
    visitor = new_visitor()
    made = reviewed(room, visitor)
    for action, name in (("accept", "m1"), ("delete", "m3"), ("down", "m1")):
        act(room, visitor, made.kept, action, name)
    save(room, visitor, made.kept, "m2", ("They had no food at all.", "design_flaw", "minor"))
    save(room, visitor, made.kept, None, ("Was it blinded?", "design_flaw", "major"))
    act(room, visitor, made.kept, "reject", "m2")
    now = standing(room, visitor, made)
    assert [each.text for each in now] == ["They had no food at all.", SAID[0].text, "Was it blinded?"]
    assert [each.decision for each in now] == ["rejected", "accepted", "accepted"]
    assert now[0].before == SAID[1]
    act(room, visitor, made.kept, "reject", "m2")
    assert standing(room, visitor, made)[0].decision == "open", "the same decision again takes it back"
    for _ in range(7):
        own(room, visitor).undo(made.kept)
    assert [each.text for each in standing(room, visitor, made)] == [each.text for each in SAID]
    with pytest.raises(LabError, match="nothing to undo"):
        own(room, visitor).undo(made.kept)


def test_a_bad_edit_changes_nothing_and_says_why(room):
    visitor = new_visitor()
    made = reviewed(room, visitor)
    for words, message in (
        (("", "design_flaw", "major"), "rite the concern first"),
        (("x" * 2001, "design_flaw", "major"), "2,001 characters"),
        (("Fine.", "beauty", "major"), "beauty"),
    ):
        with pytest.raises(LabError, match=message):
            save(room, visitor, made.kept, "m1", words)
        assert standing(room, visitor, made)[0].text == SAID[0].text


def test_a_review_is_its_visitors_alone_is_there_after_a_reload_and_goes_when_they_are_forgotten(room):
    owner, other = new_visitor(), new_visitor()
    made = reviewed(room, owner)
    for theirs in (lambda: act(room, other, made.kept, "accept", "m1"), lambda: own(room, other).earlier(made.kept)):
        with pytest.raises(LabError, match="no longer among yours"):
            theirs()
    assert any(QUOTE in view.cards for view in resume_review(room, owner, made.kept))
    act(room, owner, made.kept, "accept", "m1")
    room.store.forget_rater(owner.rater)
    assert room.store.documents("review").newest(own(room, owner).session) == ()


def test_exports_hold_what_the_person_stands_by_and_can_be_trained_on(room, tmp_path):
    visitor = new_visitor()
    made = reviewed(room, visitor)
    with pytest.raises(LabError, match="ccept some concerns first"):
        text_of(room, visitor, made, "sft")
    act(room, visitor, made.kept, "accept", "m1")
    save(room, visitor, made.kept, "m2", ("Another diet is missing.", "design_flaw", "minor"))
    act(room, visitor, made.kept, "reject", "m3")
    texts = {form: text_of(room, visitor, made, form) for form in FORMS}
    files = {form: tmp_path / f"{form}.jsonl" for form in ("sft", "dpo")}
    for form, file in files.items():
        file.write_text(texts[form], encoding="utf-8")

    (row,) = read_reviews([str(files["sft"])]).items
    reply = json.loads(row.reply)
    assert [each["text"] for each in reply] == [SAID[0].text, "Another diet is missing."]
    (pair,) = read_preferences([str(files["dpo"])], "Another prompt.").items
    assert pair.prompt[0].content == review_system_prompt()
    assert json.loads(pair.answers["chosen"][0].content) == reply
    assert len(json.loads(pair.answers["rejected"][0].content)) == 3
    document = json.loads(texts["json"])
    assert [each["decision"] for each in document["concerns"]] == ["accepted", "open", "rejected"]
    assert "session" not in document
    assert texts["letter"].startswith("Dear authors") and "ethics" not in texts["letter"]
    assert "Another diet is missing." in texts["markdown"]


def test_a_long_paper_gives_a_training_row_for_each_part(room):
    visitor = new_visitor()
    made = reviewed(room, visitor, "Long")
    act(room, visitor, made.kept, "accept", "m1")
    act(room, visitor, made.kept, "accept", "m2")
    rows = map(json.loads, text_of(room, visitor, made, "sft").splitlines())
    replies = [json.loads(row["conversations"][2]["value"]) for row in rows]
    assert len(replies) == 2 and sum(map(len, replies)) == 2


# ---- as a job ----


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_review_of_a_lab_that_ended_goes_on_after_the_parts_that_were_read_or_is_kept_with_them(room, is_cancelled):
    """After a kill: tests/lab/test_jobs.py."""
    kim, other = Visitor("r" * 32, "a page", "name:Kim"), new_visitor()
    with room.jobs.working():
        views = review(room, kim, (None, PAPER), "Slow", USUAL)
        next(view for view in views if view.cards.count('class="concern"') == 2)
    (job,) = room.jobs.all()
    assert under_way(room, kim) == job.id and not under_way(room, other)
    assert [each.href for each in works(room, kim)] == [f"?tab=papers&review={job.id}"]
    assert works(room, other) == [] and [each.who for each in works(room, is_admin=True)] == ["name:Kim"]
    with pytest.raises(LabError, match="somebody else"):
        end(room, job.id, other, is_admin=False)
    with pytest.raises(LabError, match="no longer among yours"):
        list(resume_review(room, other, job.id))
    if is_cancelled:
        end(room, job.id, kim, is_admin=False)
    anew = replace(room, engine=LabEngine(lambda *_: ScriptedChain()))
    register(anew)
    with anew.jobs.working():
        *busy, last = resume_review(anew, kim, "")
    assert all(view.is_busy and QUOTE in view.paper for view in busy)
    first, again = next(each for each in room.readers() if each.name == "Slow").asked
    said = SAID[: again[0]] if is_cancelled else SAID
    assert first is None and again[0] in (1, 2), "parts that were read are not asked about again"
    assert [each.text for each in standing(anew, kim, last)] == [each.text for each in said]
    assert anew.jobs.get(job.id).state == ("cancelled" if is_cancelled else "done") and last.kept == job.id


def end_from_home(room, visitor):
    end(room, under_way(room, visitor), visitor, is_admin=False)


@pytest.mark.parametrize("ended_by", [end_from_home, stop_all])
def test_a_review_goes_on_when_its_page_is_left_and_is_stopped_there_or_from_home_with_what_was_found(room, ended_by):
    visitor = new_visitor()
    views = review(room, visitor, (None, PAPER), "Slow", USUAL)
    for view in views:
        if view.cards.count('class="concern"') == 1:
            break
    views.close()
    again = Visitor(visitor.rater, "another page")
    seen = resume_review(room, again, None)
    assert next(seen).is_busy and under_way(room, again)
    ended_by(room, again)
    *_, last = seen
    assert "stopped" in last.notice and 1 <= len(standing(room, again, last)) < 3
    assert [each.state for each in works(room, again)] == ["cancelled"]


def test_a_review_of_somebody_who_is_forgotten_meanwhile_is_not_kept(room):
    visitor = new_visitor()
    views = review(room, visitor, (None, PAPER), "Scripted", USUAL)
    next(views)
    room.store.forget_rater(visitor.rater)
    with pytest.raises(LabError, match="no longer listed"):
        list(views)
    assert room.store.documents("review").everything() == ()


# ---- what goes wrong -----------------------------------------------------------------------------


def test_a_paper_is_shown_as_it_was_read_and_what_is_none_is_told_with_what_to_do():
    article, view = read(None, PAPER)
    assert [each.name for each in article.sections] == ["Methods", "Results"]
    assert "Diet and lifespan of mice" in view.paper
    assert "<script>" not in view.paper
    for file, text, words in (
        (None, "", "give a paper first"),
        (None, "Too short to be a paper.", "at least 200"),
        ("nowhere.pdf", None, "no file"),
    ):
        with pytest.raises(UnreadableArticle, match=words):
            paper_of(file, text)
    long = PAPER + "\n\n".join(["The mice were fed for two years. " * 20] * 500)
    assert "at most about 262,144" in read(None, long)[1].notice
    assert ">long.pdf has 500 pages" in notice("long.pdf has 500 pages", "problem")
    assert ">The disk is full" in notice("the disk is full", "problem")
    assert demonstration()[0].sections


def test_what_a_reader_left_out_is_listed_above_the_paper_and_hidden_text_is_a_warning():
    article = demonstration()[0]
    seen = paper_view(article.model_copy(update={"origin": article.origin.model_copy(update={"notes": NOTES})}))
    warning, listed = seen.index('class="notice problem" role="alert"'), seen.index('class="paper-notes"')
    assert warning < seen.index("Hidden text on page 2") < listed < seen.index("1 of 3 pages hold no text")
    assert "&lt;b&gt;" in seen and "notice problem" not in paper_view(article)
