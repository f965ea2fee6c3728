"""The main job on the embedded chain: ask, read four answers, vote blind, export the vote."""

import json
import zipfile

import pytest
from playwright.sync_api import expect

from tests.browser.test_page import open_tab

pytestmark = [pytest.mark.browser, pytest.mark.embedded, pytest.mark.timeout(900)]

MINUTES = 60_000
QUESTION = "Which way does the adipogenesis gene set move in mouse thymus during spaceflight, up or down?"


def test_a_visitor_asks_votes_and_finds_the_vote_in_the_exported_data_set(embedded_lab, open_page, tmp_path):
    page = open_page(embedded_lab, accept_downloads=True)

    page.fill("#ask-question textarea", QUESTION)
    page.click("#ask-button")
    answered = page.locator("#ask-answers .card[data-state=done]")
    expect(answered).to_have_count(4, timeout=6 * MINUTES)
    texts = [answer.inner_text() for answer in page.locator("#ask-answers .answer").all()]
    assert all(len(text.split()) > 3 for text in texts), texts
    assert len(set(texts)) > 1, "every stage says the same"
    expect(page.locator("#ask-answers .badge")).to_have_count(4)
    expect(page.locator("#model-status")).to_contain_text("ready")

    left, right, question = compare_until_they_differ(page)
    page.click("#vote-right")
    expect(page.locator("#compare-revealed summary")).to_contain_text("right is better")
    row = exported_row(page, tmp_path)

    assert row["prompt"][-1] == {"role": "user", "content": question}
    assert row["chosen"] == [{"role": "assistant", "content": right}]
    assert row["rejected"] == [{"role": "assistant", "content": left}]
    assert row["stage_chosen"] != row["stage_rejected"]
    assert row["choice"] == "right"


def compare_until_they_differ(page):
    """Return both texts and the question of a pair whose texts differ; equal ones are skipped."""
    open_tab(page, "Compare")
    page.click("#compare-start")
    for _ in range(5):
        expect(page.locator("#vote-right")).to_be_enabled(timeout=3 * MINUTES)
        answers = page.locator("#compare-answers .answer").all()
        left, right = (answer.evaluate("element => element.textContent") for answer in answers)
        if left != right:
            return left, right, page.locator("#compare-question .question").inner_text()
        page.click("#compare-skip")
        expect(page.locator("#vote-right")).to_be_disabled()
    raise AssertionError("five pairs in a row were equal, word for word")


def exported_row(page, folder):
    """Export the votes as DPO rows and return the only one."""
    open_tab(page, "Preferences")
    page.click("#preferences-make")
    button = page.locator("#preferences-download")
    expect(button).to_be_visible()
    with page.expect_download() as download:
        button.click()
    download.value.save_as(folder / "votes.zip")
    with zipfile.ZipFile(folder / "votes.zip") as archive:
        name = next(name for name in archive.namelist() if name.endswith("train.jsonl"))
        (line,) = archive.read(name).decode().splitlines()
    return json.loads(line)
