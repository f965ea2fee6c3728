"""The reviewer and the refiner that come with Assay, and what is said of them."""

import json
import re
from pathlib import Path

import pytest

from evals.io import read_rows
from evals.papers import demonstration
from evals.papers.collection import split_by_family
from evals.refine.bank import refiner_bank
from evals.report import load_report
from evals.review.clean import maker_of
from evals.review.score import control_rates, micro_rates
from evals.review.task import metric_name
from evals.schema.reports import RefinerReport, ReviewReport
from evals.schema.reviews import PredictionRow
from evals.schema.runs import DEMONSTRATION
from lab.settings import from_environment
from lab.shared.reader import find_readers
from tests.hub.test_cards import packed
from tests.models import embedded_cache
from training.models.chain import check_chain
from training.models.manifest import read_chain

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "training" / "embedded" / "review"
REPORTS = FOLDER / "reports"


@pytest.mark.embedded
@pytest.mark.slow
def test_the_reviewer_computes_what_it_did_when_it_was_trained():
    assert all(finding.is_ok for finding in check_chain("reviewer", cache=embedded_cache()))


def test_it_is_called_a_demonstration_wherever_it_is_named() -> None:
    readers = [each.name for each in find_readers(from_environment({}))]
    pages = [(ROOT / "docs/review.md").read_text(), packed(FOLDER).parts["README.md"].text()]
    assert all(DEMONSTRATION in " ".join(page.split()) for page in pages)
    assert readers[:2] == ["Demonstration (review)", "Base model, not trained to review"]


def test_it_was_scored_on_papers_whose_family_it_never_saw():
    split = {each.id: each.split for each in split_by_family(demonstration(), 0)}
    rows = (REPORTS / "held-out.jsonl").read_text(encoding="utf-8").splitlines()
    assert {split[json.loads(row)["article_id"]] for row in rows} == {"test"}


def rows_of(name: str, report: ReviewReport) -> list[str]:
    """Return the rows that the page has for a system: the system itself and every control."""
    controls = {f"{name}: {metric_name(control)}": each for control, each in control_rates(report.rows).items()}
    return [
        f"| {title} | {each.n_human} | {each.n_predicted:.0f} | {each.n_matched:.1f}"
        f" | {each.recall:.3f} | {each.precision:.3f} | {each.f1:.3f} |"
        for title, each in {name: micro_rates(report.rows), **controls}.items()
    ]


def test_the_page_says_what_the_scores_say_row_by_row():
    page = (ROOT / "docs" / "review.md").read_text(encoding="utf-8")
    table = page.split("## The embedded reviewer")[1].split("| human | said | matched |")[1]
    shown = [line for line in table.split("\n\n")[0].splitlines() if line.startswith("| ")]
    reviewer, base = (load_report(REPORTS / f"{name}.json", ReviewReport) for name in ("held-out", "held-out-base"))
    assert shown == [*rows_of("reviewer", reviewer), *rows_of("bare base", base)]
    above = reviewer.summaries[0].metrics["f1_above_strongest"]
    assert f"**F1 above the strongest control: {above.value:.3f} [{above.low:.3f}, {above.high:.3f}].**" in page


@pytest.mark.parametrize(("name", "stage"), [("held-out", "review"), ("held-out-base", "base")])
def test_the_answers_of_both_are_shipped_with_who_gave_them(name: str, stage: str):
    rows = read_rows(REPORTS / f"{name}.jsonl", PredictionRow, key=lambda row: row.article_id)
    made = maker_of(REPORTS / f"{name}.jsonl")
    assert made is not None
    assert made.stage == stage
    stages = read_chain("reviewer").manifest.stages
    assert made.checksums["review"] == stages[-1].sha256
    report = load_report(REPORTS / f"{name}.json", ReviewReport)
    assert report.stages[stage].made_by == made
    assert {row.article_id for row in rows} == {each.id for each in report.rows}


# ---- the refiner -------------------------------------------------------------------------------------


REFINER = ROOT / "training" / "embedded" / "refiner"
NAMES = {
    "bare base": "base",
    "SFT": "sft",
    "GRPO": "refiner",
    "says nothing": "silent",
    "reference answers": "reference",
}
"""Stages as the page calls them, where it has another word."""


@pytest.fixture(scope="module")
def refiner_report() -> RefinerReport:
    text = (REFINER / "grpo" / "reports" / "held-out.json").read_text(encoding="utf-8")
    return RefinerReport.model_validate_json(text)


@pytest.mark.embedded
@pytest.mark.slow
def test_the_refiner_computes_what_it_did_when_it_was_trained():
    assert all(finding.is_ok for finding in check_chain("refiner", cache=embedded_cache()))


def test_every_stage_and_baseline_was_asked_all_held_out_records(refiner_report: RefinerReport):
    stages = [row.stage for row in refiner_report.rows]
    held_out = len(refiner_bank().test)
    assert {stages.count(stage) for stage in stages} == {held_out}
    assert {"base", "sft", "refiner", "reference"} <= set(stages)


@pytest.mark.parametrize(("column", "metric"), [(0, "reward"), (1, "rubric"), (2, "citation_f1"), (3, "wellformed")])
def test_the_page_says_what_the_report_says(refiner_report: RefinerReport, column: int, metric: str):
    page = (ROOT / "docs" / "refiner.md").read_text(encoding="utf-8")
    section = page.split("## The embedded refiner")[1]
    rows = re.findall(r"^\| ([A-Za-z ]+) \| (\d.+) \|$", section, re.M)
    assert [NAMES.get(name, name) for name, _ in rows] == [each.stage for each in refiner_report.summaries]
    found = [each.metrics[metric] for each in refiner_report.summaries]
    shown = [cells.split(" | ")[column] for _, cells in rows]
    assert shown == [
        f"{each.value:.2f}" + (f" [{each.low:.2f}, {each.high:.2f}]" if column == 0 and each.low is not None else "")
        for each in found
    ]
