"""The refiner that comes with Assay: what lies in training/embedded/refiner, and what is said of it."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.refine.bank import refiner_bank
from evals.refine.records import records_sha256
from evals.report import load_report
from evals.schema.reports import RefinerReport
from lab.cli import app
from tests.models import embedded_cache
from training.models.adapters import WEIGHTS_NAME
from training.models.chain import check_chain

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "training" / "embedded" / "refiner"
NAMES = {
    "bare base": "base",
    "SFT": "sft",
    "GRPO": "refiner",
    "says nothing": "silent",
    "reference answers": "reference",
}
"""Stages as the page calls them, where it has another word."""


@pytest.fixture(scope="module")
def report() -> RefinerReport:
    text = (FOLDER / "grpo" / "reports" / "held-out.json").read_text(encoding="utf-8")
    return RefinerReport.model_validate_json(text)


@pytest.mark.embedded
@pytest.mark.slow
def test_the_refiner_computes_what_it_did_when_it_was_trained():
    assert all(finding.is_ok for finding in check_chain("refiner", cache=embedded_cache()))


@pytest.mark.parametrize("stage", ["sft", "grpo"])
def test_each_stage_is_small(stage: str):
    assert (FOLDER / stage / "adapter" / WEIGHTS_NAME).stat().st_size <= 2_600_000


def test_every_stage_and_baseline_was_asked_all_held_out_records(report: RefinerReport):
    stages = [row.stage for row in report.rows]
    held_out = len(refiner_bank().test)
    assert {stages.count(stage) for stage in stages} == {held_out}
    assert {"base", "sft", "refiner", "reference"} <= set(stages)


@pytest.mark.parametrize(("column", "metric"), [(0, "reward"), (1, "rubric"), (2, "citation_f1"), (3, "wellformed")])
def test_the_page_says_what_the_report_says(report: RefinerReport, column: int, metric: str):
    page = (ROOT / "docs" / "refiner.md").read_text(encoding="utf-8")
    section = page.split("## The embedded refiner")[1]
    rows = re.findall(r"^\| ([A-Za-z ]+) \| (\d.+) \|$", section, re.M)
    assert [NAMES.get(name, name) for name, _ in rows] == [each.stage for each in report.summaries]
    found = [each.metrics[metric] for each in report.summaries]
    shown = [cells.split(" | ")[column] for _, cells in rows]
    assert shown == [
        f"{each.value:.2f}" + (f" [{each.low:.2f}, {each.high:.2f}]" if column == 0 and each.low is not None else "")
        for each in found
    ]


def test_a_report_on_the_first_records_is_judged_again(report: RefinerReport, tmp_path: Path):
    first = refiner_bank().test[:2]
    rows = [row for row in report.rows if row.scored.record_id in {each.id for each in first}]
    told = {"data_name": "refiner-test (first 2)", "data_sha256": records_sha256(first)}
    file, out = tmp_path / "report.json", tmp_path / "again.json"
    file.write_text(report.model_copy(update={**told, "rows": tuple(rows)}).model_dump_json())
    words = ["eval", "rescore", str(file), "--judge", "heuristic", "--out", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    again = load_report(out, RefinerReport)
    assert again.rows == tuple(rows)
