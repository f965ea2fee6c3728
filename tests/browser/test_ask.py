"""Ask, Compare and Preferences: what a visitor asks, is shown, votes on blind and exports."""

import json
import sys
import zipfile

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import started
from tests.browser.pages import DONE, QUESTION, ask, choose, downloaded, open_tab, start_comparing

LAB = [sys.executable, "-c", "from lab.cli import main; main()", "lab", "--port"]
MINUTES = 60_000
EMBEDDED_QUESTION = "Which way does the adipogenesis gene set move in mouse thymus during spaceflight, up or down?"
STAGES = ("base", "sft", "grpo")


def test_answers_are_shown_while_they_are_written_and_can_be_stopped(open_page, scripted_lab):
    page = open_page(scripted_lab)
    page.fill(QUESTION, "What is HSF1? Say it slowly.")
    page.click("#ask-button")
    expect(page.locator(".card[data-state=writing]").first).to_be_visible()
    expect(page.locator("#ask-stop")).to_be_visible()
    expect(page.locator("#ask-button")).to_be_disabled()

    page.keyboard.press("Escape")

    expect(page.locator("#ask-answers .figures", has_text="stopped").first).to_be_visible()
    expect(page.locator("#ask-button")).to_be_enabled()

    page.fill(QUESTION, "x" * 100_000)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#ask-notice .problem")).to_contain_text("100,000 characters")
    assert len(page.input_value(QUESTION)) == 100_000, "what cannot be asked stays"


def test_text_is_shown_never_run_and_judged_and_comes_back_after_a_reload(open_page, scripted_lab):
    page = open_page(scripted_lab)
    example = page.locator(".examples button").first
    wording = example.inner_text()
    example.click()
    page.click("#ask-button")
    assert page.input_value(QUESTION) == wording
    expect(page.locator("#ask-answers .badge")).to_have_count(3)
    expect(page.locator("#ask-answers .reason").first).not_to_be_empty()

    page.goto("about:blank")
    page.goto(f"{scripted_lab}?tab=ask")
    page.wait_for_selector("#ask-button")
    ask(page, "Is <b onmouseover=alert(3)>this</b> remembered? <script>alert(4)</script>")
    base = page.locator(".card[data-title=Base] .answer").inner_text()
    assert base == "alpha <script>alert('answer')</script> <img src=x onerror=alert(1)> ${alert(2)} {{x}}"
    assert page.locator("#ask-answers script, #ask-answers img, #ask-answers b").count() == 0

    page.wait_for_url("**answer=*")
    page.reload()
    page.wait_for_selector("#ask-button")
    page.fill(QUESTION, "typed while the answers of the link come")
    page.click("#ask-history > button")
    expect(page.locator("#ask-history")).not_to_contain_text("Nothing asked yet")
    expect(page.locator("#ask-answers .card")).to_have_count(3)
    page.click("#ask-earlier input")
    page.locator("h1").click()
    expect(page.locator("#ask-answers .card")).to_have_count(3)
    assert page.input_value(QUESTION) == "typed while the answers of the link come"
    choose(page, "#ask-earlier input", "remembered?", stays=True)
    expect(page.locator("#ask-notice")).to_contain_text("Stored answers from")
    expect(page.locator("#ask-answers .card")).to_have_count(3)
    page.click("#ask-again button, button#ask-again")
    expect(page.locator("#ask-notice .good")).to_contain_text("word for word")


def test_votes_are_blind_cast_with_keys_and_taken_back(open_page, scripted_lab):
    page = open_page(scripted_lab)
    bodies = []
    page.on("response", lambda reply: bodies.append(reply) if "queue" in reply.url else None)
    start_comparing(page)
    told = " ".join(reply.text() for reply in bodies if "join" in reply.url).lower()
    shown = page.locator("#tabs").inner_html().lower()
    pair = shown[shown.index('id="compare-question"') : shown.index('id="compare-own"')]
    assert [name for name in STAGES if name in told] == [], "the browser is not told who wrote what"
    assert [name for name in STAGES if f'"{name}"' in pair or f">{name}<" in pair] == []

    page.click("#compare-own > button")
    page.locator("#compare-own-question textarea").press_sequentially("a bat? ns")
    page.wait_for_timeout(500)
    assert page.locator("#compare-revealed summary").count() == 0, "keys do not vote while a question is typed"
    assert not page.locator("#keys").is_visible()
    page.locator("h1").click()

    for key, words in (("a", "left is better"), ("b", "right is better"), ("t", "tie"), ("n", "both are bad")):
        before = page.inner_text("#compare-question")
        page.keyboard.press(key)
        expect(page.locator("#compare-revealed summary")).to_contain_text(words)
        expect(page.locator("#compare-question")).not_to_have_text(before)
        expect(page.locator("#vote-left")).to_be_enabled()
        expect(page.locator("#compare-why")).to_be_visible(visible=key in "ab")
        if key == "a":
            page.keyboard.press("2")
            page.keyboard.press("3")
            expect(page.locator("#compare-why :checked")).to_have_count(2)
            expect(page.locator("#compare-why-kept")).to_contain_text("Kept with your vote")
        expect(page.locator("#compare-why :checked")).to_have_count(2 if key == "a" else 0)

    before = page.inner_text("#compare-question")
    page.keyboard.press("u")
    expect(page.locator("#compare-revealed .notice.good")).to_contain_text("taken back")
    expect(page.locator("#compare-question")).not_to_have_text(before)
    expect(page.locator("#compare-undo")).not_to_be_visible()
    expect(page.locator("#vote-left")).to_be_enabled()
    said = {(row["choice"], row["strength"], *row["reasons"]) for row in exported(page)}
    assert said >= {("left", "clear", "fact"), ("right", None)}


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.timeout(900)
def test_a_visitor_of_the_embedded_chain_asks_votes_and_finds_the_vote_exported(chromium, open_page, tmp_path):
    from tests.models import embedded_cache

    with started(LAB, tmp_path, ASSAY_CACHE=str(embedded_cache())) as url:
        page = open_page(url)
        page.fill(QUESTION, EMBEDDED_QUESTION)
        page.click("#ask-button")
        expect(page.locator(DONE)).to_have_count(4, timeout=6 * MINUTES)
        texts = [answer.inner_text() for answer in page.locator("#ask-answers .answer").all()]
        assert all(len(text.split()) > 3 for text in texts), texts
        assert len(set(texts)) > 1, "every stage says the same"
        expect(page.locator("#ask-answers .badge")).to_have_count(4)
        expect(page.locator("#model-status")).to_contain_text("ready")

        left, right, question = compare_until_they_differ(page)
        page.click("#vote-right")
        expect(page.locator("#compare-revealed summary")).to_contain_text("right is better")

        (row,) = exported(page)
    assert row["prompt"][-1] == {"role": "user", "content": question}
    assert row["chosen"] == [{"role": "assistant", "content": right}]
    assert row["rejected"] == [{"role": "assistant", "content": left}]
    assert row["stage_chosen"] != row["stage_rejected"]
    assert row["choice"] == "right"


def exported(page):
    """Export the votes as DPO rows and return them."""
    open_tab(page, "Preferences")
    page.click("#preferences-make")
    with zipfile.ZipFile(downloaded(page, "#preferences-download")) as archive:
        name = next(name for name in archive.namelist() if name.endswith("train.jsonl"))
        return [json.loads(line) for line in archive.read(name).decode().splitlines()]


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


@pytest.mark.slow
def test_a_reload_and_back_lead_to_the_same_tab_answers_and_pair(open_page, scripted_lab):
    page = open_page(scripted_lab)
    ask(page, "What is HSF1?")
    page.wait_for_url("**/?tab=ask&answer=*")
    link = page.url
    open_tab(page, "Leaderboard")
    page.wait_for_url("**/?tab=leaderboard*")
    page.go_back()
    expect(page.locator("#ask-button")).to_be_visible()
    page.reload()
    expect(page.locator(DONE)).to_have_count(3)
    expect(page.locator(QUESTION)).to_have_value("What is HSF1?")

    start_comparing(page)
    expect(page.locator("#compare-notice")).to_contain_text("Which answer is better?")
    shown = page.inner_text("#compare-question"), page.inner_text("#compare-answers")
    page.reload()
    expect(page.locator("#vote-left")).to_be_enabled()
    assert (page.inner_text("#compare-question"), page.inner_text("#compare-answers")) == shown
    page.click("#vote-left")
    expect(page.locator("#compare-revealed summary")).to_contain_text("left is better")
    page.click("#compare-own > button")
    page.fill("#compare-own-question textarea", "Does it go slowly up in the liver?")
    page.click("#compare-own-button")
    expect(page.locator("#compare-answers .card[data-state=writing]").first).to_be_visible()
    page.reload()
    expect(page.locator("#vote-left")).to_be_enabled()
    expect(page.locator("#vote-left")).to_contain_text("Left is better")
    expect(page.locator("#compare-question")).to_contain_text("Does it go slowly up")

    page.goto(link)
    expect(page.locator("#ask-notice")).to_contain_text("Stored answers from")
