"""The Results tab, on reports of scripted answers."""

import csv
import re

import pytest
from playwright.sync_api import expect

from tests.browser.pages import choose, downloaded, flaws, open_tab


@pytest.mark.slow  # without a browser: tests/lab/test_results_tab.py
def test_the_leaderboard_is_ordered_and_a_cell_opens_answers_that_an_address_leads_to(open_page, scripted_lab):
    page = open_page(scripted_lab)
    open_tab(page, "Results")
    expect(page.locator("#results-page table").first).to_be_visible()
    choose(page, "input[aria-label='Order by']:visible", "Brier score ↓")
    ordered = page.locator("#results-page th[aria-sort]")
    expect(ordered).to_have_text("Brier score ↓")
    expect(ordered).to_have_attribute("aria-sort", "ascending")
    page.locator("#results-page thead a", has_text="Accuracy").first.click()
    expect(ordered).to_have_text("Accuracy ↑")
    choose(page, "input[aria-label='Group of questions']:visible", "All questions (107)")
    page.wait_for_url("**group=all*")
    expect(page.locator("#results-page")).to_contain_text("n = 107")
    named = re.compile(r"%: open the answers behind it, n = 107$")
    cell = page.locator("#results-page tr", has_text="GRPO").get_by_role("link", name=named).first
    cell.focus()
    page.keyboard.press("Enter")
    rows, count = page.locator("#results-page .rows-one"), page.locator(".rows-count")
    expect(count).to_have_text("107 answers")
    expect(page.locator(".rows h2")).to_be_focused()

    page.select_option("[name=verdict]", "incorrect")
    expect(count).to_contain_text("of 107 answers")
    expect(page.locator("[name=verdict]")).to_be_focused()
    left = count.inner_text()
    rows.first.locator("summary").click()
    expect(rows.first.locator(".card")).to_have_count(3)
    expect(rows.first.locator("mark.claim.bad").first).to_be_visible()
    link = page.url
    rows.first.get_by_role("link", name="Link to this row").click()
    expect(rows).to_have_count(1)
    page.go_back()
    expect(count).to_have_text(left)

    other = open_page(link, width=390, dark=True, ready=".rows-count")
    expect(other.locator(".rows-count")).to_have_text(left)
    other.locator(".rows-one summary").first.click()
    seen = [".rows-count", ".row-facts", ".rows-one .badge", ".rows-one mark.claim", ".row-body .figures", ".rows-back"]
    assert flaws(other, seen) == {}
    other.locator("[name=find]").fill("<script>alert(1)</script>")
    other.keyboard.press("Enter")
    expect(other.locator(".rows .empty")).to_contain_text("No answer matches")
    other.get_by_role("link", name="Show all answers").click()
    expect(other.locator(".rows-count")).to_have_text("107 answers")
    other.go_back()
    expect(other.locator(".rows .empty")).to_be_visible()


@pytest.mark.slow  # without a browser: tests/lab/test_results_tab.py
def test_charts_have_a_name_and_files_and_a_point_opens_the_answers_of_its_bin(open_page, scripted_lab):
    page = open_page(f"{scripted_lab}?tab=calibration&drawn=sft", ready="#results-page table")  # as it was called once
    page.wait_for_url("**/?tab=results*stages=sft*")
    expect(page.locator("#results-page table.assay-grid").first).to_be_attached()
    for name in ("reliability", "risk"):
        chart = page.locator(f"#calibration-{name} .main-svg").first
        expect(chart).to_be_visible()
        assert chart.bounding_box()["width"] > 400
    expect(page.get_by_role("figure", name="share correct, confidence")).to_be_visible()
    saved = "#calibration-reliability .chart-files button"
    with page.expect_download() as picture:
        page.locator(saved, has_text="SVG").press("Enter")
    assert "<svg" in picture.value.path().read_text(encoding="utf-8")
    written = downloaded(page, f"{saved}:has-text('CSV')").read_text(encoding="utf-8")
    rows = list(csv.DictReader(written.splitlines()))
    shown = page.evaluate(
        "document.querySelector('#calibration-reliability .js-plotly-plot').data.flatMap(({ y }) => [...y])"
    )
    assert [float(row["y"]) for row in rows] == shown
    assert {row["x axis"] for row in rows} == {"confidence"}
    assert all(float(row["interval below"]) >= 0 for row in rows if row["interval below"])
    point = page.locator("#calibration-reliability .scatterlayer .trace .points path").last
    point.hover(force=True)
    page.mouse.down()
    page.mouse.up()
    page.wait_for_url("**confidence=*")
    expect(page.locator("#results-page .rows-count")).to_contain_text("answers")
    page.get_by_role("link", name="All figures").click()
    expect(page.locator("#calibration-reliability .main-svg").first).to_be_visible()
