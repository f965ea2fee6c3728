"""The Leaderboard and Calibration tabs in a real browser, on reports of scripted answers."""

import pytest
from playwright.sync_api import expect

from tests.browser.test_page import CONTRAST, open_tab

pytestmark = pytest.mark.browser

SIZES = [(1440, 900), (390, 844)]
LEADERBOARD_READ = [
    ".assay-verdict",
    "#leaderboard-tables caption",
    "#leaderboard-tables .assay-rank b",
    "#leaderboard-tables .assay-rank small",
    "#leaderboard-tables .assay-stage",
    "#leaderboard-tables .assay-tag",
    "#leaderboard-tables .assay-measure b",
    "#leaderboard-tables .assay-measure small",
    "#leaderboard-tables .assay-good em",
    "#leaderboard-tables .assay-bad em",
    "#leaderboard-tables .assay-sentences li",
    "#leaderboard-tables .assay-source dt",
    "#leaderboard-tables .assay-source code",
]
CALIBRATION_READ = [
    "#calibration-words li",
    ".assay-chart-title",
    ".assay-chart-alt",
    ".assay-more summary",
    "#calibration-figures .assay-meaning",
    "#calibration-figures .assay-meaning small",
    "#calibration-figures .assay-aside",
    "#calibration-figures .assay-missing",
    "#calibration-figures .assay-measure em",
]


def show(page, name):
    """Open a tab and wait for its first table; reports are measured when they are first asked for."""
    open_tab(page, name)
    place = "#leaderboard-tables" if name == "Leaderboard" else "#calibration-figures"
    expect(page.locator(f"{place} table.assay-grid").first).to_be_attached(timeout=60_000)
    return page


def choose(page, label, option):
    """Choose in a list of the tab that is open."""
    page.locator(f"input[aria-label='{label}']:visible").click()
    page.get_by_role("option", name=option, exact=True).click()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
def test_both_charts_are_drawn_within_the_page(open_page, scripted_lab, size, dark):
    page = show(open_page(scripted_lab, *size, dark=dark), "Calibration")

    for name in ("reliability", "risk"):
        chart = page.locator(f"#calibration-{name} .main-svg").first
        expect(chart).to_be_visible()
        expect(page.locator(f"#calibration-{name} .trace").first).to_be_attached()
        box = chart.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
        assert box["width"] >= 300
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_figures_stand_out_from_their_background(open_page, scripted_lab, dark):
    page = show(open_page(scripted_lab, dark=dark), "Leaderboard")
    choose(page, "Group of questions", "All questions (107)")
    expect(page.locator("#leaderboard-tables")).to_contain_text("n = 107")
    ratios = page.evaluate(CONTRAST, LEADERBOARD_READ)
    show(page, "Calibration")
    ratios += page.evaluate(CONTRAST, CALIBRATION_READ)

    assert [(name, round(ratio, 2)) for name, ratio in ratios if ratio < 4.5] == []


def test_another_metric_orders_the_table_anew(open_page, scripted_lab):
    page = show(open_page(scripted_lab), "Leaderboard")

    choose(page, "Order by", "Brier score ↓")

    ordered = page.locator("#leaderboard-tables th[aria-sort]")
    expect(ordered).to_have_text("Brier score ↓")
    expect(ordered).to_have_attribute("aria-sort", "ascending")


def test_a_stage_without_confidence_takes_the_charts_away_and_another_brings_them_back(open_page, scripted_lab):
    page = show(open_page(scripted_lab), "Calibration")
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


def test_the_charts_can_be_read_as_tables_with_the_keyboard(open_page, scripted_lab):
    page = show(open_page(scripted_lab), "Calibration")
    summary = page.locator(".assay-more summary")
    summary.focus()

    page.keyboard.press("Enter")

    tables = page.locator(".assay-more table")
    expect(tables.first).to_be_visible()
    assert tables.count() == 2
    assert page.locator(".assay-more tbody tr").count() > 4


def test_what_the_figures_mean_opens_on_demand(open_page, scripted_lab):
    page = show(open_page(scripted_lab), "Leaderboard")
    reading = page.locator(".assay-reading:visible")
    reading.locator("> button").focus()

    page.keyboard.press("Enter")

    expect(reading).to_contain_text("one more than the number of entries that are shown")
