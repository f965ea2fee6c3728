"""The page for people who see, hear and move otherwise: what moves under the hand, and the keyboard alone (axe-core's rules: test_looks.py)."""

import pytest
from playwright.sync_api import expect

from tests.browser.pages import press, script
from tests.browser.test_looks import SEE


@pytest.mark.slow
def test_nothing_moves_under_the_hand_while_a_page_comes_up(open_page, scripted_lab):
    page = open_page(scripted_lab)
    moved = {}
    for name in {each.partition(":")[0].lower() for each in SEE}:
        page.goto("about:blank")  # a page that still comes up can cut the next one off
        page.goto(f"{scripted_lab}?tab={name}")
        page.wait_for_selector("#tabs")
        page.wait_for_timeout(1500)
        moved[name] = page.evaluate(script("shifts"))
    assert {name: seen for name, seen in moved.items() if sum(by for by, _ in seen) >= 0.1} == {}


@pytest.mark.slow
def test_tabs_are_chosen_with_arrows_and_the_focus_stays_where_its_button_goes(open_page, scripted_lab):
    page = open_page(scripted_lab, ready="#home-figures dt")
    page.get_by_role("tab", name="Ask", exact=True).focus()
    for key, name in [("ArrowRight", "Compare"), ("ArrowLeft", "Ask"), ("ArrowRight", "Compare")]:
        page.keyboard.press(key)
        tab = page.get_by_role("tab", name=name, exact=True)
        expect(tab).to_be_focused()
        expect(tab).to_have_attribute("aria-selected", "true")
    expect(page.locator("#tabs [role=tab]:visible:not([tabindex='-1'])")).to_have_count(1)
    press(page, "#compare-next")
    expect(page.locator("#vote-left")).to_be_enabled()
    page.wait_for_function(
        "document.activeElement.closest('#tabs [role=tabpanel]')"
    )  # the button is gone, the focus not
    page.get_by_role("tab", name="Compare", exact=True).focus()
    page.keyboard.press("End")
    press(page, "#publish > button")
    press(page, "#publish-repo :is(input, textarea)", "y")
    press(page, "#publish-look")
    expect(page.locator("#publish-plan, #publish-line").locator(".notice")).not_to_have_count(0)
    expect(page.locator("#publish-look")).to_be_focused()
