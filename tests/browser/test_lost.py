"""A connection that is lost: what was asked is sent again, done once, and the visitor is told."""

import pytest
from playwright.sync_api import expect

from tests.browser.pages import DONE, QUESTION, ask, choose, open_tab, start_comparing


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


@pytest.mark.slow
def test_what_a_person_types_while_a_tab_is_filled_stays_and_is_what_is_asked(open_page, scripted_lab):
    page = open_page(scripted_lab)
    ask(page, "What is filled in late?")
    page.wait_for_url("**answer=*")
    held, is_busy = [], [True]
    page.route("**/gradio_api/queue/join*", lambda route: held.append(route) if is_busy else route.continue_())

    def release() -> None:
        is_busy.clear()
        while held:
            held.pop().continue_()

    page.reload()
    page.wait_for_selector(QUESTION)
    page.fill(QUESTION, "Typed before the page knew me?")
    release()
    expect(page.locator("#ask-answers .card")).to_have_count(3)
    expect(page.locator(QUESTION)).to_have_value("Typed before the page knew me?")
    ask(page, "What is filled in at once?")
    page.click("#ask-history > button")
    choose(page, "#ask-earlier input", "filled in at once", stays=True)
    expect(page.locator("#ask-notice")).to_contain_text("Stored answers from")
    is_busy.append(True)
    choose(page, "#ask-earlier input", "filled in late", stays=True)
    page.fill(QUESTION, "Typed while an earlier one comes?")
    before = page.locator("#ask-answers [data-kept]").get_attribute("data-kept")
    release()
    expect(page.locator("#ask-answers [data-kept]")).not_to_have_attribute("data-kept", before)
    expect(page.locator(QUESTION)).to_have_value("Typed while an earlier one comes?")
    with page.expect_request(lambda sent: "Typed while an earlier one comes?" in (sent.post_data or "")):
        page.click("#ask-button")
    expect(page.locator(DONE)).to_have_count(3)

    choose(page, "#ask-earlier input", "Typed while", stays=True)  # once it is listed the list is not filled any more
    choose(page, "#ask-earlier input", "filled in at once", stays=True)  # what is done after typing fills the field
    expect(page.locator(QUESTION)).to_have_value("What is filled in at once?")
