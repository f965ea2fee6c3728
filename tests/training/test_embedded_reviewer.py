"""The reviewer that comes with Assay: what lies in training/embedded/review, and what is said of it."""

import json
from pathlib import Path

import pytest

from evals.articles.corpus import demonstration
from evals.articles.families import split_by_family
from evals.reviewing import check_prompt
from evals.schema.reviewscores import ReviewScore
from tests.models import embedded_cache
from training.adapter import WEIGHTS_NAME
from training.chain import check_chain, read_chain

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "training" / "embedded" / "review"
REPORTS = FOLDER / "reports"


@pytest.mark.embedded
def test_the_reviewer_computes_what_it_did_when_it_was_trained():
    assert all(finding.is_ok for finding in check_chain("reviewer", cache=embedded_cache()))


def test_it_is_small_and_was_trained_with_the_instructions_that_it_is_asked_with():
    assert (FOLDER / "adapter" / WEIGHTS_NAME).stat().st_size <= 5_000_000
    check_prompt(read_chain("reviewer").manifest.system_prompt, "reviewer")


def test_it_was_scored_on_papers_whose_family_it_never_saw():
    split = {each.id: each.split for each in split_by_family(demonstration(), 0)}
    rows = (REPORTS / "held-out.jsonl").read_text(encoding="utf-8").splitlines()
    assert {split[json.loads(row)["article_id"]] for row in rows} == {"test"}


def test_the_page_says_what_the_report_says():
    score = ReviewScore.model_validate_json((REPORTS / "held-out.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "review.md").read_text(encoding="utf-8")
    assert f"F1 above permuted papers: {score.headline.f1_above_permuted:.3f}" in page
