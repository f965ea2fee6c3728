"""The Refine tab: claims coloured and opened, rated, corrected, exported."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.pages import choose, downloaded, open_tab

PASTED = (
    "<answer><snippet id=S1>OXPHOS is down in flight in mouse liver.</snippet> It fell by 40 percent."
    " <snippet id=S9>Kidney <img src=x onerror=alert(1)> is up.</snippet></answer>"
)
BETTER = "<answer><snippet id=S1>OXPHOS is down in flight.</snippet></answer>"
EVIDENCE = (
    "<snippet id=S1>RR-1, mouse liver: OXPHOS NES -1.9, it is down in flight.</snippet>\n"
    "<snippet id=S2>RR-3 <script>alert(2)</script> kidney: no change.</snippet>"
)
ANSWERS = "#refine-answers .refined"


def grade(page, answer=PASTED):
    page.fill("#refine-question textarea", "Which way does OXPHOS move in mouse liver?")
    page.fill("#refine-evidence textarea", EVIDENCE)
    page.fill("#refine-pasted textarea", answer)
    page.click("#refine-score")
    expect(page.locator(ANSWERS)).to_have_count(1)


@pytest.mark.slow  # without a browser: tests/lab/test_refine_tab.py
def test_answers_are_graded_claim_by_claim_rated_corrected_exported_compared_and_come_back(open_page, scripted_lab):
    page = open_page(scripted_lab)
    open_tab(page, "Refine")
    grade(page)
    answer = page.locator(f"{ANSWERS} .answer")
    expect(answer.locator(".claim")).to_have_count(2)
    assert answer.locator("img, script").count() == 0
    expect(page.locator("#refine-answers .refine-judge")).to_contain_text("word overlap")

    why = page.locator("#refine-answers .claim-why")
    expect(why.first).to_be_hidden()
    page.click("#refine-answers .refine-legend .claim.full")
    answer.locator(".claim.full").click()
    expect(why.first).to_be_visible()
    expect(why.first).to_contain_text("it is down in flight")
    answer.locator(".claim.none").focus()
    page.keyboard.press("Enter")
    expect(why.first).to_be_hidden()
    expect(why.last).to_contain_text("is not in the evidence")

    page.click("#refine-answers [data-do=bad]")
    expect(page.locator("#refine-answers [data-do=bad]")).to_have_attribute("aria-pressed", "true")
    page.click("#refine-answers [data-do=correct]")
    expect(page.locator("#refine-edit-text textarea")).to_have_value(PASTED)
    page.fill("#refine-edit-text textarea", BETTER)
    page.click("#refine-edit-save")
    expect(page.locator(ANSWERS)).to_have_count(2)

    page.click("#refine-export-make")
    expect(page.locator("#refine-export-message")).to_contain_text("1 row")
    (line,) = downloaded(page, "#refine-download").read_text(encoding="utf-8").splitlines()
    row = json.loads(line)
    assert row["reference"] == BETTER
    assert row["tool_output"] == EVIDENCE

    expect(page.locator("#refine-keys kbd")).to_have_count(3)
    page.click("#refine-demo")
    expect(page.locator("#refine-evidence textarea")).not_to_have_value("")
    question = page.input_value("#refine-question textarea")
    page.click("#refine-start")
    expect(page.locator(ANSWERS)).to_have_count(3)
    expect(page.locator("#refine-answers caption")).to_have_text("Answers compared")

    page.fill("#refine-question textarea", "Which way does OXPHOS move, slowly?")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#refine-answers [data-state=writing]").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#refine-answers")).to_contain_text("stopped")
    expect(page.locator(ANSWERS)).to_have_count(3)
    page.fill("#refine-pasted textarea", BETTER)
    page.keyboard.press("Control+Enter")
    expect(page.locator(ANSWERS)).to_have_count(1)
    expect(page.locator("#refine-undo")).to_be_visible()

    page.click("#refine-mine > button")
    choose(page, "#refine-earlier input", question[:40])
    expect(page.locator("#refine-question textarea")).to_have_value(question)
