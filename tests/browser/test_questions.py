"""Data in the browser: a file with bad rows is brought, frozen, asked of every stage."""

import sys

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import started
from tests.browser.pages import press
from tests.lab.test_questions import CSV


@pytest.fixture
def lab(chromium, tmp_path):
    """The real lab on the embedded chain, with nothing in its store."""
    command = [sys.executable, "-c", "import os; from lab.commands.lab import *; open_lab(from_environment())"]
    folders = {"ASSAY_REPORTS": str(tmp_path / "reports"), "ASSAY_RUNS": str(tmp_path / "runs")}
    with started(command, tmp_path, **folders) as url:
        yield url


def test_a_sheet_from_excel_becomes_a_frozen_set_with_three_splits(open_page, scripted_lab, tmp_path):
    rows = "".join(f"Frage {n}, in µm?;Löffler {n};Koch {n};Löffler {n};test\r\n" for n in range(12))
    (tmp_path / "micro.csv").write_bytes(
        f"Frage;Antwort 1;Antwort 2;Richtige Antwort;Split\r\n{rows}Wer?;Louis Pasteur;Robert Koch;Robert Kohc;test\r\n".encode(
            "cp1252"
        )
    )  # as Excel saves "CSV" where commas stand in numbers
    page = open_page(f"{scripted_lab}?tab=data", ready="#questions-set")
    with page.expect_file_chooser() as chooser:
        press(page, "#questions-file")
    chooser.value.set_files(tmp_path / "micro.csv")
    told, sheet = page.locator("#questions-told"), page.locator("#questions-sheet")
    expect(told).to_contain_text("Micro holds 12 questions. Left out: 1 bad row")
    expect(sheet).to_contain_text("Windows-1252: µm, Löffler. Right?")
    expect(sheet.locator("tbody tr")).to_have_count(5)
    expect(page.locator("#questions-role-answer input")).to_have_value("Richtige Antwort")
    expect(page.locator("#questions-mend")).to_contain_text("Did you mean 'Robert Koch'?")
    press(page, "#questions-take")
    expect(told).to_contain_text("Micro holds 13 questions.")
    press(page, "#questions-freeze")
    expect(page.locator("#questions-one-split")).to_contain_text("All of the 13 questions are test rows")
    press(page, "#questions-split")
    expect(told).to_contain_text("Micro v1 is frozen")
    tiles = page.locator("#questions-state .assay-tiles div")
    assert [int(tiles.nth(n).locator("dd").inner_text()) > 0 for n in (1, 2, 3)] == [True] * 3
    press(page, "#questions-manage button")
    press(page, "#questions-delete")
    expect(page.locator("#questions-manage")).to_contain_text("This deletes micro v1 with 13 questions")


@pytest.mark.slow  # it loads the embedded chain; each step without a browser: tests/lab/test_questions.py
def test_a_file_with_two_bad_rows_goes_all_the_way_to_its_results(open_page, lab, tmp_path):
    page = open_page(f"{lab}?tab=questions", ready="#questions-set")
    told = page.locator("#questions-told")
    expect(page.locator("#questions-state")).to_contain_text("No question set is open")
    (tmp_path / "codons.csv").write_text(CSV, encoding="utf-8")
    with page.expect_file_chooser() as chooser:  # every button by keyboard
        press(page, "#questions-file")
    chooser.value.set_files(tmp_path / "codons.csv")
    expect(told).to_contain_text("Codons holds 3 questions. Left out: 2 bad rows")
    press(page, "#questions-check button")
    for cell in ("truth.value", "glycine", "sixty"):
        expect(page.locator("#questions-check")).to_contain_text(cell)

    page.reload()  # the address and the store know what was done
    expect(page.locator("#questions-state table")).to_contain_text("18.015 g/mol")
    press(page, "#questions-freeze")
    expect(told).to_contain_text("Codons v1 is frozen")
    expect(page.locator("#questions-freeze")).to_be_disabled()
    with page.expect_download() as started:  # by the first click
        press(page, "#questions-export")
    assert started.value.suggested_filename == "codons-v1.jsonl"

    press(page, "#batch-ask")
    page.reload()
    expect(page.locator("#batch-table")).to_contain_text("2 of 2", timeout=300_000)
    expect(page.locator("#batch-table a")).to_be_visible(timeout=60_000)  # once the report is written
    press(page, "#batch-table a")
    expect(page.get_by_role("radio", name="codons v1")).to_be_checked()
