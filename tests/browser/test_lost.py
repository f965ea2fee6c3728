"""A connection that is lost: what was asked is sent again, done once, and the visitor is told."""

import sqlite3
import sys
import time
from contextlib import closing

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import free_port, started
from tests.browser.pages import start_comparing

SCRIPTED = [sys.executable, "-m", "tests.browser.scripted"]


@pytest.fixture
def visit(chromium):
    """Open a page that may fail to load what it asks for, which `open_page` takes for a fault."""
    contexts = []

    def opened(url):
        contexts.append(chromium.new_context())
        page = contexts[-1].new_page()
        page.goto(url)
        page.wait_for_selector("#tabs")
        page.wait_for_function(
            "(localStorage.getItem('assay-visitor') ?? '').length > 60"
        )  # the lab knows this browser
        start_comparing(page)
        return page

    yield opened
    for context in contexts:
        context.close()


def votes(file):
    with closing(sqlite3.connect(file)) as database:
        return database.execute("SELECT choice FROM comparisons WHERE voided_at IS NULL").fetchall()


@pytest.mark.slow
def test_a_vote_without_a_connection_is_sent_when_there_is_one_again_or_by_a_button(visit, scripted_lab):
    page = visit(scripted_lab)
    before = page.inner_text("#compare-question")
    page.context.set_offline(True)
    page.click("#vote-left")
    expect(page.locator("#connection")).to_have_text("Connection lost; sending again…")
    page.context.set_offline(False)
    expect(page.locator("#compare-revealed")).to_contain_text("Your vote is stored")
    expect(page.locator("#connection")).to_be_hidden()

    expect(page.locator("#compare-question")).not_to_have_text(before)
    expect(page.locator("#vote-left")).to_be_enabled()
    before, lost = page.inner_text("#compare-question"), []
    page.route("**/gradio_api/run/*", lambda route: (lost.append(1), route.abort("connectionrefused")))
    page.click("#vote-left")
    expect(page.locator("#connection")).to_contain_text("Not sent: the lab does not answer.")
    assert len(lost) >= 6
    page.unroute("**/gradio_api/run/*")
    page.get_by_role("button", name="Send again").click()
    expect(page.locator("#compare-question")).not_to_have_text(before)
    expect(page.locator("#connection")).to_be_hidden()


@pytest.mark.slow  # without a browser: tests/lab/test_lost.py
def test_a_vote_whose_answer_is_lost_with_the_server_is_found_once_and_the_visitor_is_told(visit, tmp_path):
    port, file = free_port(), tmp_path / "assay.db"

    def lose(route):
        route.fetch()
        limit = time.monotonic() + 30
        while not votes(file) and time.monotonic() < limit:
            time.sleep(0.1)
        route.abort("connectionreset")

    with started(SCRIPTED, tmp_path, port=port) as lab:
        page = visit(lab)
        page.route("**/queue/join*", lose, times=1)
        page.click("#vote-left")
        expect(page.locator("#connection")).to_contain_text("sending again")
    with started(SCRIPTED, tmp_path, port=port):
        expect(page.locator("#connection")).to_contain_text("This was kept before the connection was lost.")
        expect(page.locator("#compare-revealed")).to_contain_text("Your vote is stored")
        expect(page.locator("#vote-left")).to_be_enabled()
    assert votes(file) == [("left",)]
