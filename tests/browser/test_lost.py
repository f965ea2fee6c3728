"""A connection that is lost: what was asked is sent again, done once, and the visitor is told."""

import pytest
from playwright.sync_api import expect

from tests.browser.pages import DONE, QUESTION, open_tab, start_comparing


@pytest.mark.slow
def test_a_vote_without_a_connection_is_sent_when_there_is_one_again_or_by_a_button(chromium, scripted_lab):
    with chromium.new_context() as context:  # of a page that may fail to load what it asks for
        page = context.new_page()
        page.goto(scripted_lab)
        page.wait_for_selector("#tabs")
        page.wait_for_function(
            "(localStorage.getItem('assay-visitor') ?? '').length > 60"
        )  # the lab knows this browser
        start_comparing(page)
        before = page.inner_text("#compare-question")
        page.context.set_offline(True)
        page.click("#vote-left")
        expect(page.locator("#connection")).to_have_text("Connection lost; sending again…")
        page.context.set_offline(False)
        expect(page.locator("#compare-notice")).to_contain_text("Your vote is stored")
        expect(page.locator("#connection")).to_be_hidden()

        page.click("#compare-next")
        expect(page.locator("#compare-question")).not_to_have_text(before)
        expect(page.locator("#vote-left")).to_be_enabled()
        lost = []
        page.route("**/gradio_api/run/*", lambda route: (lost.append(1), route.abort("connectionrefused")))
        page.click("#vote-left")
        expect(page.locator("#connection")).to_contain_text("Not sent: the lab does not answer.")
        assert len(lost) >= 6
        page.unroute("**/gradio_api/run/*")
        page.get_by_role("button", name="Send again").click()
        expect(page.locator("#compare-notice")).to_contain_text("Your vote is stored")
        expect(page.locator("#connection")).to_be_hidden()

        open_tab(page, "Ask")
        page.route("**/gradio_api/*/*", lambda route: route.abort("connectionrefused"))
        page.fill(QUESTION, "Is it sent?")
        page.click("#ask-button")
        again = page.locator(".actions #connection").get_by_role("button", name="Ask again")
        expect(again).to_be_visible()
        expect(page.locator(QUESTION)).to_have_value("Is it sent?")
        page.unroute("**/gradio_api/*/*")
        again.click()
        expect(page.locator(DONE)).to_have_count(3)
        expect(page.locator("#connection")).to_be_hidden()
