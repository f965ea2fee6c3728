"""The Leaderboard and Calibration tabs, on reports of scripted answers."""

import pytest
from playwright.sync_api import expect

from tests.browser.pages import choose, open_tab


def test_the_leaderboard_is_ordered_by_another_metric_and_says_what_it_means(open_page, scripted_lab):
    page = open_page(scripted_lab)
    open_tab(page, "Leaderboard")
    expect(page.locator("#leaderboard-tables table.assay-grid").first).to_be_attached()

    choose(page, "Order by", "Brier score ↓")

    ordered = page.locator("#leaderboard-tables th[aria-sort]")
    expect(ordered).to_have_text("Brier score ↓")
    expect(ordered).to_have_attribute("aria-sort", "ascending")
    reading = page.locator(".assay-reading:visible")
    reading.locator("> button").focus()
    page.keyboard.press("Enter")
    expect(reading).to_contain_text("one more than the number of entries that are shown")


@pytest.mark.slow  # tests/lab/test_calibration_tab.py; drawn: test_looks.py
def test_charts_go_for_a_stage_without_confidence_come_back_and_are_tables_too(open_page, scripted_lab):
    page = open_page(scripted_lab)
    open_tab(page, "Calibration")
    expect(page.locator("#calibration-figures table.assay-grid").first).to_be_attached()
    page.get_by_label("KMP study, test set (20)").locator("visible=true").check()
    page.get_by_label("Mute", exact=True).check()
    expect(page.locator("#calibration-words .empty")).to_contain_text("states no confidence")
    expect(page.locator("#calibration-reliability")).not_to_be_visible()

    page.get_by_label("SFT", exact=True).check()

    expect(page.locator("#calibration-words .empty")).to_have_count(0)
    for name in ("reliability", "risk"):
        chart = page.locator(f"#calibration-{name} .main-svg").first
        expect(chart).to_be_visible()
        assert chart.bounding_box()["width"] > 400
    page.locator(".assay-more summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".assay-more table").first).to_be_visible()
    assert page.locator(".assay-more table").count() == 2
    assert page.locator(".assay-more tbody tr").count() > 4
