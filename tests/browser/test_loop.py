"""One loop without leaving the app: a sheet, votes, a DPO run, its answers, its report, its card, published, over a restart."""

import re
import sys
import time
from collections import Counter

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import end_runs, started
from tests.browser.pages import open_tab, script

PATIENCE = 240_000
TRAINING = """base: {base}
max_length: 1024
autocast: none
warmup: 0
schedule: constant
eval_steps: 0
log_steps: 1
"""


@pytest.fixture
def place(tmp_path):
    """A folder with a tiny chain of one stage, a sheet, and a Hub beside it; what trains there is ended."""
    from tests.hub.conftest import TOKEN, client_settings
    from tests.hub.local import Hub, LocalHub
    from tests.lab.trainings import record
    from tests.models import tiny_chain
    from training.run.folder import RunFolder

    folder = tiny_chain(tmp_path / "runs", ranks={"sft": 4})
    RunFolder(folder).write(record("sft", stage="sft", status="finished", config={"data": ["kmp-train"]}))
    stains = "".join(f"Is strain {n} of the dish Gram positive?,yes,no,yes\n" for n in range(25))
    (tmp_path / "Gram.csv").write_text(f"Question,A,B,Answer\n{stains}")
    with LocalHub(Hub(tmp_path / "hub", {TOKEN: "you"})) as running:
        yield tmp_path, client_settings(running.url, tmp_path / "hf"), running.hub
    end_runs(tmp_path / "runs")


def counted(page, done):
    """Return a page whose clicks and keys are counted in `done` from now on."""
    page.expose_function("assayDone", lambda kind: done.update([kind]))
    page.add_init_script(f"({script('done')})()")
    page.evaluate(script("done"))
    return page


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_sheet_and_ten_votes_become_a_stage_that_is_measured_and_published_and_a_restart_loses_nothing(
    open_page, place
):
    folder, settings, hub = place
    began, done = time.monotonic(), Counter()
    runs = folder / "runs"
    command = [sys.executable, "-c", "from lab.cli import main; main()", "lab", "--chain", str(runs / "sft"), "--port"]
    lab = {**settings, "ASSAY_RUNS": str(runs), "ASSAY_CONFIGS": str(folder / "configs"), "OMP_NUM_THREADS": "1"}
    lab |= {"ASSAY_CACHE": str(folder / "cache"), "ASSAY_DTYPE": "float32"}
    with started(command, folder, **lab) as url:
        page = counted(open_page(url, ready="#home-figures dt"), done)
        open_tab(page, "Data")
        with page.expect_file_chooser() as chooser:
            page.click("#questions-file")
        chooser.value.set_files(folder / "Gram.csv")
        expect(page.locator("#questions-told")).to_contain_text("Gram holds 25 questions")
        page.click("#questions-freeze")
        expect(page.locator("#questions-told")).to_contain_text("Gram v1 is frozen")

        open_tab(page, "Compare")
        page.click("#compare-next")
        for _ in range(10):
            expect(page.locator("#compare-answers .card[data-state=done]")).to_have_count(2, timeout=PATIENCE)
            expect(page.locator("#vote-left")).to_be_enabled()
            question = page.inner_text("#compare-question blockquote")
            assert "of the dish Gram positive?" in question
            page.keyboard.press("a")
            expect(page.locator("#compare-notice")).to_contain_text("left is better")
            page.keyboard.press("Enter")
            expect(page.locator("#compare-question blockquote")).not_to_have_text(question)
        page.click("#preferences > button")
        page.click("#preferences-offers [data-id=dpo]")  # the votes are made a data set, and the form opens filled in
        expect(page.locator("#train-config input")).to_have_value("embedded/dpo")
        settings = page.locator("#train-text textarea")
        for words in ("preferences/.*train.jsonl", f"chain: {runs / 'sft'}", f"output: {runs / 'dpo-1'}"):
            expect(settings).to_have_value(re.compile(words))
        known = [
            line
            for line in settings.input_value().splitlines()
            if line.startswith(("data:", "- ", "chain:", "output:"))
        ]
        settings.fill(
            "\n".join([*known, "max_steps: 3", "batch: 2", "lora_r: 2", TRAINING.format(base=runs / "model")])
        )
        page.click("#train-begin")
        expect(page.locator("#train-notice .good")).to_contain_text("It continues if you close")
        expect(settings).to_be_hidden()
        expect(page.locator("#train-panel")).to_be_in_viewport()
        page.goto("about:blank")

    with started(command, folder, **lab) as url:  # the lab was killed, the run was not
        page = counted(open_page(url, ready="#home-figures dt"), done)
        expect(page.locator("#home-work")).to_contain_text("runs/dpo-1")
        expect(page.locator("#home-offers")).to_contain_text("DPO: 10 preference pairs")
        page.click("#home-work a")
        expect(page.locator("#train-panel .finished")).to_be_visible(timeout=PATIENCE)
        page.get_by_role("link", name="Ask it").click()
        expect(page.locator("#ask-chain input")).to_have_value(re.compile("dpo-1"))
        page.locator("#ask-question textarea").press_sequentially("What is HSF1?")
        page.click("#ask-button")
        expect(page.locator("#ask-answers .card[data-title=DPO][data-state=done]")).to_be_visible(timeout=PATIENCE)

        open_tab(page, "Train")
        page.click("#train-measure")
        page.get_by_role("link", name="See its report").click(timeout=PATIENCE)
        expect(page.locator("#results-page")).to_contain_text("DPO")
        expect(page.locator("#results-page")).to_contain_text("These are the reports of runs/dpo-1")

        open_tab(page, "Train")
        page.get_by_role("link", name="Publish it").click()
        page.locator("#publish-repo :is(input, textarea)").press_sequentially("you/tiny-dpo")
        page.click("#publish-look")
        expect(page.locator("#publish-card h1")).to_have_text("tiny-dpo", timeout=PATIENCE)
        page.click("#publish-go")
        expect(page.locator("#publish-receipts tbody")).to_contain_text("you/tiny-dpo-base", timeout=PATIENCE)
        page.goto("about:blank")

    with started(command, folder, **lab) as url:
        page = open_page(f"{url}?tab=publish&run=runs%2Fdpo-1", ready="#publish-receipts table")
        # base, SFT and DPO, once each: publishing that the end of the lab cut off went on
        expect(page.locator("#publish-receipts tbody tr")).to_have_count(3, timeout=PATIENCE)
        expect(page.locator("#publish-work")).to_contain_text("done")
        page.goto("about:blank")
    took = time.monotonic() - began
    assert done["click"] <= 30, done
    assert took + 3 * done["click"] <= 12 * 60, (done, took)  # with 3 s to look and point for each
    head = hub.find("model", "you/tiny-dpo")
    assert head is not None
