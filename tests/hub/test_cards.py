import re
from datetime import UTC, datetime

import pytest
import yaml

from evals.questions.pairs import Accuracy, PairRow, PairStatistics
from evals.schema import Metric, StagePairCounts
from evals.schema.votes import ArenaRow, DpoRow, ExportStatistics, KtoRow, SftRow
from hub.cards.dataset import dataset_card, pairs_card
from tests.hub.snapshots import was

STATISTICS = ExportStatistics(
    format="dpo",
    exported_at=datetime(2026, 1, 5, 9, 30, tzinfo=UTC),
    rows_file="train.jsonl",
    rows_sha256="ab" * 32,
    rows=7,
    votes=12,
    left_out={"tie": 3, "both_bad": 2, "identical_texts": 0},
    raters=2,
    questions=5,
    first_vote=datetime(2026, 1, 2, 12, 0, tzinfo=UTC),
    last_vote=datetime(2026, 1, 4, 12, 0, tzinfo=UTC),
    by_stages=(StagePairCounts(first="base", second="sft", first_chosen=3, second_chosen=4, ties=3, both_bad=2),),
    chains=("embedded",),
    licence=None,
)


def card_of(row_type=DpoRow, **changes):
    statistics = STATISTICS.model_copy(update=changes)
    return dataset_card(statistics, row_type, guidelines="GUIDELINES.md")


def test_the_card_of_votes_reads_as_it_did():
    told = {"krippendorff_alpha": Metric(value=0.4213, n=31, low=0.2, high=0.61)}
    text = str(card_of(agreement=told))
    assert text == was("votes-card", text)


def test_every_figure_on_the_card_comes_from_the_statistics():
    text = str(card_of())
    for line in (
        "| votes cast and not withdrawn | 12 |",
        "| left out: ties | 3 |",
        "| left out: both answers bad | 2 |",
        "| left out: a side chosen between identical texts | 0 |",
        "| rows in `train.jsonl` | 7 |",
        "| raters | 2 |",
        "| first and last vote used | 2026-01-02 to 2026-01-04 |",
        "| base, sft | 3 | 4 | 3 | 2 |",
    ):
        assert f"\n{line}\n" in text


def test_a_licence_nobody_chose_is_not_invented():
    card = card_of()
    assert "license" not in card.data.to_dict()
    assert "No licence has been chosen" in card.text


def test_a_chosen_licence_stands_in_the_front_matter_and_in_the_text():
    card = card_of(licence="cc-by-4.0")
    assert card.data.license == "cc-by-4.0"
    assert "released it under `cc-by-4.0`" in card.text


@pytest.mark.parametrize(
    ("form", "row_type"),
    [("dpo", DpoRow), ("kto", KtoRow), ("sft", SftRow), ("arena", ArenaRow)],
)
def test_every_column_is_explained(form, row_type):
    text = card_of(row_type, format=form).text
    for name, field in row_type.model_fields.items():
        assert field.description
        assert f"| `{name}` | {field.description} |" in text


@pytest.mark.parametrize("form", ["dpo", "kto", "sft", "arena"])
def test_no_placeholder_is_left(form):
    text = str(card_of(format=form))
    assert not re.search(r"\{\{|\}\}|\{%|More Information Needed|\bNone\b|Unknown|TODO", text)


def test_the_front_matter_is_yaml_the_hub_can_read():
    front = yaml.safe_load(str(card_of()).split("---\n")[1])
    assert front["tags"] == ["preference", "human-feedback", "assay", "dpo", "trl"]
    assert front["size_categories"] == ["n<1K"]
    assert front["configs"][0]["data_files"] == [{"split": "train", "path": "train.jsonl"}]


@pytest.mark.parametrize(("rows", "size"), [(999, "n<1K"), (1_000, "1K<n<10K"), (2_000_000, "n>1M")])
def test_the_size_category_follows_the_rows(rows, size):
    assert card_of(rows=rows).data.size_categories == [size]


def test_a_stage_name_cannot_break_the_table():
    pair = STATISTICS.by_stages[0].model_copy(update={"first": "a|b\n# heading"})
    assert "| a\\|b # heading, sft | 3 |" in card_of(by_stages=(pair,)).text


def test_the_card_points_to_the_instructions_and_warns_of_personal_data():
    text = card_of().text
    assert "the instructions in `GUIDELINES.md`" in text
    assert "Nobody has checked them for personal data" in text


PAIRS = PairStatistics(
    settings={"margin": 0.2, "answers from": "the run grpo | one"},
    versions={"verifiers": "verifiers-3"},
    rows_file="train.jsonl",
    rows_sha256="cd" * 32,
    rows=5,
    by_rule={"verdict": 4, "confidence": 1},
    by_kind={"direct": 5},
    samples=40,
    questions=6,
    questions_paired=4,
    left_out={"all_right": 2},
)


def test_the_card_of_synthetic_pairs_reads_as_it_did():
    text = str(pairs_card(PAIRS))
    assert text == was("pairs-card", text)


def test_a_card_of_synthetic_pairs_says_so_before_any_figure():
    card = pairs_card(PAIRS)
    first = card.text.strip().splitlines()[2]
    assert first.startswith("**Synthetic labels (`label_source: synthetic-verifier`)")
    assert "synthetic" in card.data.tags
    assert "human-feedback" not in card.data.tags


def test_every_figure_of_synthetic_pairs_comes_from_the_statistics():
    text = str(pairs_card(PAIRS))
    for line in (
        "| margin | 0.2 |",
        "| answers from | the run grpo \\| one |",
        "| version of verifiers | verifiers-3 |",
        "| rows in `train.jsonl` | 5 |",
        "| questions with a pair | 4 of 6 |",
        "| verdict pairs | 4 |",
        "| pairs about questions of kind direct | 5 |",
    ):
        assert f"\n{line}\n" in text
    assert "every answer got right, none with a clearly better confidence | 2 |" in text
    assert "license" not in pairs_card(PAIRS).data.to_dict()


def test_every_column_of_synthetic_pairs_is_described():
    text = str(pairs_card(PAIRS))
    assert all(f"\n| `{name}` | " in text for name in PairRow.model_fields)
    assert all(field.description for field in PairRow.model_fields.values())


def test_the_card_of_calibrated_pairs_tells_their_rule_and_how_often_answers_were_right():
    accuracy = {"direct": Accuracy(right=11, claims=30)}
    settings = {"by_rule": {"verdict": 3, "calibration": 2}, "accuracy": accuracy}
    text = str(pairs_card(PAIRS.model_copy(update=settings)))
    assert "\n| calibration pairs | 2 |\n" in text
    assert "\n| right, of the claims to questions of kind direct | 11 of 30 |\n" in text
    assert "(right + 1) / (claims + 2)" in text
    assert "the model's own text, except for the stated confidence" in text
    assert "A *confidence* pair" not in text
    assert not re.search(r"\{\{|\}\}|\{%|\n\n\n", text)


def test_the_card_tells_how_far_raters_agree_or_why_that_is_not_known():
    told = {
        "krippendorff_alpha": Metric(value=0.4213, n=31, low=0.2, high=0.61),
        "cohen_kappa": Metric(value=None, n=31, note="defined for exactly two raters"),
    }
    text = str(card_of(agreement=told))
    assert "| Krippendorff's alpha | 0.421 | 0.20 to 0.61 | 31 |" in text
    assert "| Cohen's kappa | defined for exactly two raters |  | 31 |" in text
