"""Answers are rated, marked and corrected; raters who disagree are settled; files come out."""

import csv
import io
import json
from contextlib import suppress

import pytest
from playwright.sync_api import TimeoutError, expect

from tests.browser.pages import choose, open_tab, script, settle


def at_work(open_page, lab, **looks):
    page = open_page(lab, **looks)
    open_tab(page, "Annotate")
    return page


def rated(page, dimension, step):
    page.locator(f"#annotate-rating-{dimension} label").nth(step - 1).click()
    expect(page.locator("#annotate-notice")).to_contain_text("Draft saved.")


def make_project(page, title, questions):
    page.locator("#annotate-progress").wait_for()
    with suppress(TimeoutError):  # it opens by itself where there is no project yet
        page.get_by_label("Title").wait_for(timeout=8_000)
    if not page.get_by_label("Title").is_visible():
        page.locator("#annotate-new button").first.click()
    page.get_by_label("Title").fill(title)
    choose(page, "#annotate-source input", "pathways-heldout")
    page.get_by_role("spinbutton", name="Questions").fill(str(questions))
    page.get_by_label("SFT", exact=True).uncheck()
    page.get_by_label("Base", exact=True).uncheck()
    page.locator("#annotate-make").click()


@pytest.mark.slow  # each step of it without a browser: tests/lab/test_annotate.py
def test_two_raters_annotate_a_third_person_settles_and_the_corrected_answer_is_exported(
    open_page, scripted_lab, tmp_path
):
    ann = at_work(open_page, scripted_lab)
    make_project(ann, "Thymus", 2)
    expect(ann.locator("#annotate-progress")).to_contain_text("0 of 2 answers complete · 0 of 4 annotations")

    rated(ann, 0, 1)
    ann.evaluate(script("select"), 3)
    ann.get_by_label("Why? (optional)").fill("which one?")
    ann.locator("#annotate-note-wrong_fact").click()
    mark = ann.locator("#annotate-answer mark.wrong_fact")
    expect(mark).to_have_count(1)
    words = mark.inner_text()
    ann.get_by_label("Remark").press_sequentially("Only RR-6")
    expect(ann.locator("#annotate-notice")).to_contain_text("Draft saved.")
    ann.reload()
    expect(ann.locator("#annotate-answer mark.wrong_fact")).to_have_text(words)
    expect(ann.locator("#annotate-rating-0 input").first).to_be_checked()
    expect(ann.get_by_label("Remark")).to_have_value("Only RR-6")
    expect(ann.locator("#annotate-answer h3")).to_have_count(0)
    question = ann.locator("#annotate-answer .question").inner_text()
    ann.locator("#annotate-submit").click()
    expect(ann.locator("#annotate-progress")).to_contain_text("1 of 4 annotations")
    expect(ann.locator("#annotate-answer .question")).not_to_have_text(question)
    ann.locator("#annotate-undo").click()
    expect(ann.locator("#annotate-progress")).to_contain_text("0 of 4 annotations")
    expect(ann.locator("#annotate-answer .question")).to_have_text(question)
    ann.locator("h1").click()
    ann.evaluate("scrollTo(0, 0)")
    box = ann.locator("#annotate-submit").bounding_box()
    assert box is not None and box["y"] + box["height"] < 900, "two keys for each answer and nothing to scroll"
    for key in ("b", "Enter"):
        ann.keyboard.press(key)
    expect(ann.locator("#annotate-progress")).to_contain_text("1 of 4 annotations")
    assert ann.evaluate("scrollY") == 0

    bob = at_work(open_page, scripted_lab, width=390, dark=True)
    expect(bob.locator("#annotate-answer .question")).to_have_text(question)
    rated(bob, 0, 5)
    bob.locator("#annotate-submit").click()
    expect(bob.locator("#annotate-progress")).to_contain_text("1 of 2 answers complete")
    bob.locator("#annotate-agreement button").first.click()
    bob.locator("#annotate-agreement li button").first.click()
    expect(bob.get_by_label("Adjudicator")).to_be_checked()
    expect(bob.locator("#annotate-others")).to_contain_text("which one?")
    replies = []
    with bob.expect_navigation(wait_until="commit"):
        bob.evaluate("location.reload()")
    bob.on("response", lambda reply: replies.append(reply) if "/run/predict" in reply.url else None)
    expect(bob.locator("#annotate-others")).to_contain_text("which one?")
    settle(bob)
    drawn = sum("which one?" in reply.text() for reply in replies)
    assert drawn == 1, "an answer that is drawn again takes away what was typed meanwhile"
    bob.locator("#annotate-copy").click()
    better = bob.get_by_label("Better answer")
    expect(better).not_to_have_value("")
    better.fill("It falls.\nAnswer: down")
    bob.locator("#annotate-submit").click()
    expect(bob.locator("#annotate-answer")).to_contain_text("no open disagreement")

    ann.locator("#annotate-agreement button").first.click()
    ann.get_by_text("All coefficients").click()
    expect(ann.locator("#annotate-agreement table").first).to_contain_text("Factual")
    open_tab(ann, "Data")
    choose(ann, "#data-said-what input", "Annotations:", stays=True)
    ann.locator("#data-said-format").get_by_label("CSV").check()
    ann.locator("#data-said-make").click()
    with ann.expect_download() as told:
        ann.locator("#data-said-download").click()
    table = told.value.path().read_text(encoding="utf-8-sig")
    said = [*csv.DictReader(io.StringIO(table, newline=""))]
    (marked,) = (each for each in said if each["notes"])
    (note,) = json.loads(marked["notes"])
    assert marked["text"][note["start"] : note["end"]] == words
    assert [each["corrected"] for each in said if each["is_adjudication"] == "True"] == ["It falls.\nAnswer: down"]
