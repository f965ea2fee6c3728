"""Every tab with something on it, on a desk and on a phone, by day and by night."""

import json
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.pages import ask, ask_with_evidence, choose, flaws, open_tab, script, settle, start_comparing
from tests.browser.test_review import paper_file

READ = json.loads(Path(__file__).with_name("read.json").read_text(encoding="utf-8"))
"""For each tab, what a visitor reads on it."""
AXE = "axe-core@4.14.1"
LONG = "verylongword" * 30


def see_ask(page, folder):
    ask(page, f"What is HSF1? {LONG}")
    if page.viewport_size["width"] < 640:
        boxes = [card.bounding_box() for card in page.locator("#ask-answers .card").all()]
        assert len({round(box["x"]) for box in boxes}) == 1, "on a phone the stages stand under each other"
        assert boxes[0]["y"] < boxes[1]["y"] < boxes[2]["y"]


def see_compare(page, folder):
    start_comparing(page)
    page.click("#preferences > button")
    expect(page.locator("#preferences-figures :is(table, .empty)").first).to_be_visible()


def see_leaderboard(page, folder):
    choose(page, "input[aria-label='Group of questions']:visible", "All questions (107)")
    expect(page.locator("#results-page")).to_contain_text("n = 107")


def see_calibration(page, folder):
    page.get_by_label("Calibration", exact=True).check()
    for name in ("reliability", "risk"):
        chart = page.locator(f"#calibration-{name} .main-svg").first
        expect(chart).to_be_visible()
        expect(page.locator(f"#calibration-{name} .trace").first).to_be_attached()
        box = chart.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= page.viewport_size["width"]
        assert box["width"] >= 300


def see_review(page, folder):
    page.set_input_files("#review-file input[type=file]", str(paper_file(folder)))
    expect(page.locator("#review-paper .paper")).to_be_visible()
    page.click("#review-start")
    expect(page.locator("#review-concerns .concern-buttons").first).to_be_visible()


def see_evidence(page, folder):
    ask_with_evidence(page, f"Which way does OXPHOS move? {LONG}")
    claims, why = (page.locator(f"#ask-answers .refined[data-title=GRPO] {each}") for each in (".claim", ".claim-why"))
    claims.first.click()
    expect(why.first).to_contain_text("it is down in flight")
    claims.nth(1).press("Enter")
    expect(why.first).to_be_hidden()


def see_train(page, folder):
    expect(page.locator("#train-answers .rows-one").first).to_be_visible()
    page.click("#publish > button")
    expect(page.locator("#publish-where .notice")).to_be_visible()


def see_home(page, folder):
    expect(page.locator("#home-work :is(p, li)").first).to_be_visible()


def see_annotate(page, folder):
    expect(page.locator("#annotate-progress").locator(".empty, .rate-progress")).to_be_visible()


def see_questions(page, folder):
    bring = page.locator("#questions-bring > button")
    expect(bring).to_have_attribute("aria-expanded", re.compile("true|false"))
    settle(page)  # it is opened or closed once the sets are known
    if bring.get_attribute("aria-expanded") == "false":
        bring.click()
    page.click("#questions-example")
    expect(page.locator("#questions-state table")).to_be_visible()


SEE = {
    "Home": see_home,
    "Ask": see_ask,
    "Ask: with evidence": see_evidence,
    "Compare": see_compare,
    "Annotate": see_annotate,
    "Data": see_questions,
    "Results": see_leaderboard,
    "Results: calibration": see_calibration,
    "Papers": see_review,
    "Train": see_train,
}


def see_theme_and_keys(page):
    """Look at the list of keys, and choose the other theme, which the page remembers."""
    page.locator("h1").click()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_contain_text("the left answer is better")
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    is_dark = "document.body.classList.contains('dark')"
    was_dark = page.evaluate(is_dark)
    page.click("#theme-toggle")
    page.reload()
    page.wait_for_selector("#tabs")
    page.wait_for_function(f"{is_dark} !== {str(was_dark).lower()}")


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The script of axe-core; nothing where npm cannot fetch it, and in CI a failure."""
    folder, line = tmp_path_factory.mktemp("axe"), ["npm", "pack", "--silent", "--fetch-retries", "0", AXE]
    packed = subprocess.run(line, cwd=folder, capture_output=True, text=True, check="CI" in os.environ)
    if packed.returncode:
        return ""
    with tarfile.open(folder / packed.stdout.strip()) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("width", "dark"), [(390, True), (1440, False)])
def test_text_of_every_tab_stands_out_axe_finds_nothing_serious_and_nothing_is_wider_than_the_page(
    open_page, scripted_lab, tmp_path, axe, width, dark
):
    page = open_page(scripted_lab, width=width, dark=dark)
    page.evaluate(axe)
    found = {}
    for name, see in SEE.items():
        open_tab(page, name.partition(":")[0])
        if see:
            see(page, tmp_path)
        found[name] = flaws(page, READ[name])
        if undefined := page.evaluate(script("undefined")):
            found[name]["without a definition"] = undefined
        if axe and (serious := page.evaluate(script("violations"))):
            found[name]["axe"] = serious
    page.evaluate("""() => {
      const pill = document.querySelector('#model-status .pill');
      pill.className = 'pill loading';
      pill.lastChild.data = 'Loading model · 100%';
    }""")
    if width == 390:
        assert page.evaluate("document.querySelector('#header').getBoundingClientRect().height") < 70, "one line"
    assert {name: each for name, each in found.items() if each} == {}
    if width == 1440:
        see_theme_and_keys(page)
