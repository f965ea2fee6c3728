"""Data in the browser, by keyboard: a file with a bad row is brought, mended, frozen, downloaded."""

from playwright.sync_api import expect

from tests.browser.pages import press


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
    expect(page.locator("#questions-freeze")).to_be_disabled()
    with page.expect_download() as started:  # by the first click
        press(page, "#questions-export")
    assert started.value.suggested_filename == "micro-v1.jsonl"
    tiles = page.locator("#questions-state .assay-tiles div")
    assert [int(tiles.nth(n).locator("dd").inner_text()) > 0 for n in (1, 2, 3)] == [True] * 3
    press(page, "#questions-manage button")
    press(page, "#questions-delete")
    expect(page.locator("#questions-manage")).to_contain_text("This deletes micro v1 with 13 questions")
