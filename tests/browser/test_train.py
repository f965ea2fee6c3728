"""A training run started, watched, stopped and gone on with from the page, by the real trainer."""

import re
import sys

import pytest
import yaml
from playwright.sync_api import expect

from tests.browser.conftest import end_runs, started
from tests.browser.pages import choose, open_tab

PATIENCE = 120_000


@pytest.fixture
def place(tmp_path):
    """A folder with settings for GRPO on the tiny chain; what trains in it at the end is ended."""
    from tests.models import tiny_chain
    from tests.training.runs import GRPO, settings_file

    chain = tiny_chain(tmp_path).parent / "sft"
    wanted = {**GRPO, "chain": str(chain), "max_steps": 2000, "save_steps": 2000}
    settings = yaml.safe_load(settings_file(tmp_path, wanted).read_text())
    own = tmp_path / "configs" / "tiny.yaml"
    own.parent.mkdir()
    own.write_text(f"# assay train grpo --config tiny.yaml\n{yaml.safe_dump(settings)}")
    yield tmp_path
    end_runs(tmp_path / "runs")


def wait_for_step(page, step):
    page.wait_for_function(
        "step => (document.querySelector('#train-panel').innerText.match(/Step (\\d+)/) || [0, 0])[1] >= step",
        arg=step,
        timeout=PATIENCE,
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_is_started_survives_its_page_is_stopped_and_gone_on_with(open_page, place):
    run = place / "runs" / "mine"
    places = {"ASSAY_RUNS": str(place / "runs"), "ASSAY_CONFIGS": str(place / "configs"), "OMP_NUM_THREADS": "1"}
    with started([sys.executable, "-m", "tests.browser.scripted"], place, **places) as url:
        page = open_page(url)
        open_tab(page, "Train")
        expect(page.locator("#train-panel")).to_contain_text("No runs yet")
        page.click("#train-new > button")
        choose(page, "#train-config input", "mine: tiny")
        settings = page.locator("#train-text textarea")
        expect(settings).to_have_value(re.compile("num_generations: 4"))
        text = re.sub("output: .*", f"output: {run}", settings.input_value())
        settings.fill(re.sub("lora_r: .*", "lora_r: 0", text))
        page.click("#train-check")
        expect(page.locator("#train-told .problem")).to_contain_text("greater than or equal to 1")
        settings.fill(re.sub("lora_r: .*", "lora_r: 2", text))
        page.click("#train-check")
        line = f"accelerate launch --num_processes 1 -m training.grpo --config {run}.lab/settings.yaml"
        expect(page.locator("#train-told .train-line")).to_have_text(line)
        assert not run.exists()

        page.click("#train-begin")
        expect(page.locator("#train-notice .good")).to_contain_text("It continues if you close")
        expect(settings).to_be_hidden()
        expect(page.locator("#train-panel")).to_be_in_viewport()
        expect(page.locator("#train-panel .running")).to_be_visible(timeout=PATIENCE)
        for chart in ("reward", "kl", "zero", "length", "rate"):
            expect(page.locator(f"#train-{chart} .js-plotly-plot")).to_be_visible(timeout=PATIENCE)
        expect(page.locator("#train-answers .rows-one")).to_have_count(4)

        page.reload()
        page.wait_for_selector("#tabs")
        open_tab(page, "Train")
        expect(page.locator("#train-panel .running")).to_be_visible()
        shown = re.search(r"Step (\d+)", page.inner_text("#train-panel"))
        wait_for_step(page, int(shown[1]) + 1 if shown else 1)
        page.click("#train-stop")
        expect(page.locator("#train-panel .stopped")).to_be_visible(timeout=PATIENCE)
        (checkpoint,) = run.glob("checkpoint-*")
        stopped_at = int(checkpoint.name.rpartition("-")[2])
        expect(page.locator("#train-panel")).to_contain_text(f"Step {stopped_at} of 2000")

        page.click("#train-resume")
        wait_for_step(page, stopped_at + 1)
        log = (place / "runs" / "mine.lab" / "log.txt").read_text()
        assert f"going on from {checkpoint.name}" in log
