"""What a card tells of a reviewer and of a refiner, which no report of `assay eval run` has measured."""

import json
import shutil
from pathlib import Path

import pytest

from evals.errors import LabError
from hub.cards.lint import lint_card
from hub.runs import read_run
from tests.hub.test_adapter_card import card_of, packed

EMBEDDED = Path(__file__).parents[2] / "training/embedded"


@pytest.fixture(scope="module")
def reviewer(tmp_path_factory) -> Path:
    """Return the reviewer that comes with Assay, its score naming who answered."""
    folder = tmp_path_factory.mktemp("reviewer") / "review"
    shutil.copytree(EMBEDDED / "review", folder)
    file = folder / "reports" / "held-out.json"
    score = json.loads(file.read_text())
    stage = json.loads((folder / "chain.json").read_text())["stages"][-1]
    score["made_by"] = {
        "kind": "chain",
        "name": "review",
        "stage": "review",
        "settings": {},
        "constraint": "array schema",
        "prompt_version": "review-1",
        "checksums": {"review": stage["sha256"]},
        "date": "2026-11-21",
    }
    file.write_text(json.dumps(score))
    return folder


def section(card: str) -> str:
    return card.split("## Evaluation")[1].split("## Limits")[0]


def test_the_card_of_a_refiner_has_its_rewards_beside_those_of_trivial_answers():
    told = section(card_of(EMBEDDED / "refiner/grpo", base="org/base"))
    assert "### refiner-test, all records" in told
    for name in ("sft", "refiner", "silent", "reference"):
        assert f"| {name} | 53 |" in told
    assert "comparing words" in told or "word overlap" in told
    assert "nothing is claimed" not in told


def test_a_figure_over_fewer_answers_than_the_others_of_its_row_has_its_own_n(tmp_path: Path):
    folder = shutil.copytree(EMBEDDED / "refiner", tmp_path / "refiner") / "grpo"
    file = folder / "reports" / "held-out.json"
    report = json.loads(file.read_text())
    (metrics,) = (each["metrics"] for each in report["summaries"] if each["stage"] == "refiner")
    metrics["citation_f1"] |= {"value": 0.5, "low": 0.4, "high": 0.6, "n": 12}
    file.write_text(json.dumps(report))
    told = section(card_of(folder, base="org/base"))
    (row,) = (line for line in told.splitlines() if line.startswith("| refiner |"))
    assert row.startswith("| refiner | 53 |") and row.count(", n ") == 1
    assert "| 0.500 [0.400, 0.600], n 12 |" in row


def test_the_card_of_a_reviewer_has_its_score_above_the_permuted_control(reviewer):
    told = section(card_of(reviewer, base="org/base"))
    assert "| review | 8 | 0.265 [0.158, 0.370] | 0.371 [0.288, 0.458] |" in told
    assert "| permuted papers | 8 | – | 0.106 |" in told
    assert "by resampling papers" in told


@pytest.mark.parametrize("run", ["review", "refiner/grpo", "refiner/sft"])
def test_every_run_that_comes_with_assay_can_be_packed_with_a_sound_card(run: str):
    parcel = packed(EMBEDDED / run, base="org/base")
    assert not [each for each in parcel.findings if each.is_error]
    assert not [each for each in lint_card(card_of(EMBEDDED / run, base="org/base"), "model") if each.is_error]


def test_a_score_of_another_adapter_is_not_told(reviewer, tmp_path):
    folder = tmp_path / "review"
    shutil.copytree(reviewer, folder)
    file = folder / "reports" / "held-out.json"
    score = json.loads(file.read_text())
    score["made_by"]["checksums"]["review"] = "0" * 64
    file.write_text(json.dumps(score))
    assert "held-out.json" not in {each.file.name for each in read_run(folder).graded}


def test_a_broken_score_is_named_with_its_field(reviewer, tmp_path):
    folder = tmp_path / "review"
    shutil.copytree(reviewer, folder)
    file = folder / "reports" / "held-out.json"
    score = json.loads(file.read_text())
    score["headline"] = {}
    file.write_text(json.dumps(score))
    with pytest.raises(LabError, match=r"held-out\.json is no ReviewScore .*field 'headline\.f1"):
        read_run(folder)
