"""The Papers tab: a real PDF dropped, reviewed, edited, exported."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.pages import downloaded, open_tab
from tests.evals.pdfs import LEFT, column, pdf
from tests.lab.reviewers import QUOTE

TEXT = Path(__file__).with_name("diet.md").read_text(encoding="utf-8")


def paper_file(folder):
    """Write a PDF of one page and return it."""
    path = folder / "diet.pdf"
    path.write_bytes(pdf([column(TEXT, LEFT, 780, 80)]))
    return path


def opened(open_page, url, folder):
    page = open_page(url)
    open_tab(page, "Papers")
    page.set_input_files("#review-file input[type=file]", str(paper_file(folder)))
    expect(page.locator("#review-paper .paper")).to_contain_text("1 page")
    return page


@pytest.mark.slow  # without a browser: tests/lab/test_review_tab.py
def test_a_pdf_is_reviewed_edited_and_exported(scripted_lab, open_page, tmp_path):
    page = opened(open_page, scripted_lab, tmp_path)
    page.click("#review-start")
    cards = page.locator("#review-concerns .concern")
    expect(cards).to_have_count(3)
    expect(page.locator("#review-concerns .concern-buttons").first).to_be_visible()

    words = [
        page.locator(f"#review-{name}") for name in ("start", "demo", "undo", "edit-save", "edit-cancel", "export-make")
    ]
    assert len({each.bounding_box()["height"] for each in words}) == 1

    page.wait_for_url("**/?tab=papers&review=*")
    page.reload()
    expect(cards).to_have_count(3)
    page.click("[data-concern=m1] [data-do=show]")
    expect(page.locator("#review-paper mark.here")).to_have_text(QUOTE)
    expect(page.locator("#review-page img")).to_have_attribute("alt", re.compile(f"Page 1 of the paper.*{QUOTE}"))
    picture, frame = (page.locator(f"#review-page {each}").bounding_box() for each in ("img", ".page-here"))
    assert picture["y"] < frame["y"] < picture["y"] + picture["height"] / 3 and frame["height"] > 20
    page.locator("[data-concern=m1] [data-do=accept]").press("Enter")
    expect(page.locator("[data-concern=m1][data-decision=accepted]")).to_be_visible()
    expect(page.locator("[data-concern=m1] [data-do=accept]")).to_be_focused()

    page.click("[data-concern=m2] [data-do=edit]")
    box = page.locator("#review-edit-text textarea")
    expect(box).to_have_value("They were fed for two years without a control diet of equal calories.")
    box.fill("No control diet of equal calories was fed.")
    page.click("#review-edit-save")
    expect(page.locator("[data-concern=m2] .concern-before")).to_be_visible()
    page.click("[data-concern=m3] [data-do=delete]")
    expect(cards).to_have_count(2)
    page.click("#review-undo")
    expect(cards).to_have_count(3)

    page.click("#review-export-make")
    document = json.loads(downloaded(page, "#review-download").read_text(encoding="utf-8"))
    assert [each["decision"] for each in document["concerns"]] == ["accepted", "open", "open"]
    assert document["concerns"][1]["text"] == "No control diet of equal calories was fed."
    assert document["article"]["origin"]["format"] == "pdf"
