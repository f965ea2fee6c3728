"""Blind votes in a real browser: nobody is named before the vote, and keys cast it."""

import pytest
from playwright.sync_api import expect

from tests.browser.test_page import open_tab, start_comparing

pytestmark = pytest.mark.browser


NAMES = ("base", "sft", "grpo")


def test_the_browser_is_not_told_who_wrote_what_before_the_vote(open_page, scripted_lab):
    page = open_page(scripted_lab)
    open_tab(page, "Compare")
    bodies = []
    page.context.new_cdp_session(page).send("Network.enable")
    page.on("response", lambda reply: bodies.append(reply) if "queue" in reply.url else None)

    page.click("#compare-start")
    expect(page.locator("#vote-left")).to_be_enabled(timeout=30_000)

    told = " ".join(reply.text() for reply in bodies if "join" in reply.url).lower()
    shown = page.locator("#tabs").inner_html().lower()
    pair = shown[shown.index('id="compare-question"') : shown.index('id="compare-own"')]
    assert [name for name in NAMES if name in told] == []
    assert [name for name in NAMES if f'"{name}"' in pair or f">{name}<" in pair] == []


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("a", "left is better"),
        ("b", "right is better"),
        ("t", "tie"),
        ("n", "both are bad"),
    ],
)
def test_a_key_votes_names_are_told_and_the_next_question_comes(open_page, scripted_lab, key, words):
    page = open_page(scripted_lab)
    start_comparing(page)
    before = page.inner_text("#compare-question")

    page.keyboard.press(key)

    expect(page.locator("#compare-revealed summary")).to_contain_text(words)
    expect(page.locator("#compare-question")).not_to_have_text(before)
    expect(page.locator("#vote-left")).to_be_enabled(timeout=30_000)


def test_keys_do_not_vote_while_a_question_is_typed(open_page, scripted_lab):
    page = open_page(scripted_lab)
    start_comparing(page)
    page.click("#compare-own > button")

    page.locator("#compare-own-question textarea").press_sequentially("a bat? ns")

    page.wait_for_timeout(500)
    assert page.locator("#compare-revealed summary").count() == 0
    assert not page.locator("#keys").is_visible()
    expect(page.locator("#vote-left")).to_be_enabled()


def test_a_vote_taken_back_with_a_key_goes_on_with_another_pair(open_page, scripted_lab):
    page = open_page(scripted_lab)
    start_comparing(page)
    before = page.inner_text("#compare-question")
    page.keyboard.press("a")
    expect(page.locator("#compare-undo")).to_be_visible()

    page.keyboard.press("u")

    expect(page.locator("#compare-revealed .good")).to_contain_text("taken back")
    expect(page.locator("#compare-question")).not_to_have_text(before)
    expect(page.locator("#compare-undo")).not_to_be_visible()
    expect(page.locator("#vote-left")).to_be_enabled(timeout=30_000)
