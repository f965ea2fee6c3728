import pytest
import yaml

from evals.io import read_rows
from evals.questions import kmp_test, pathway_heldout
from evals.questions.pairs import PairRow
from tests.dev_questions import CONFIG, left_out
from training.data.questions import grpo_data, sft_data

BY_TISSUE = CONFIG.with_stem("grpo-by-tissue")
DIRECTIONS = CONFIG.with_stem("grpo-directions")
MISSIONS = CONFIG.with_stem("grpo-missions")
LONE = CONFIG.with_stem("grpo-lone-missions")
SFT = {BY_TISSUE: CONFIG.with_stem("sft-by-tissue")}


@pytest.mark.parametrize(
    ("config", "count"),
    [(CONFIG, 53), (LONE, 55), (DIRECTIONS, 24), (MISSIONS, 42), (BY_TISSUE, 47)],
)
def test_the_dev_questions_are_neither_trained_on_nor_held_out(config, count: int):
    asked = {row.id for row in left_out(config)}
    assert len(asked) == count
    for stage, data in (("grpo", grpo_data), ("sft", sft_data)):
        named = config if stage == "grpo" else SFT.get(config, CONFIG.with_stem("sft"))
        settings = yaml.safe_load(named.read_text(encoding="utf-8"))
        trained = data(settings["data"], settings["seed"]).examples
        assert asked.isdisjoint(row.id for row in trained)
    assert asked.isdisjoint(row.id for row in (*pathway_heldout(), *kmp_test()))


def test_runs_told_apart_by_tissue_are_compared_on_a_tissue_and_facts_that_no_stage_has_seen():
    dev = left_out(BY_TISSUE)
    assert {row.tissue for row in dev if row.source == "genelab"} == {"kidney"}
    for stage in ("sft", "grpo"):
        settings = yaml.safe_load(BY_TISSUE.with_stem(f"{stage}-by-tissue").read_text("utf-8"))
        trained = sft_data(settings["data"], settings["seed"]).examples
        assert all(row.tissue != "kidney" for row in trained if row.source == "genelab")
        assert {row.cluster for row in dev}.isdisjoint(row.cluster for row in trained)


def test_no_pair_of_the_dpo_stage_is_about_a_dev_question_of_the_shipped_run():
    dev = left_out()
    rows = read_rows(CONFIG.parents[2] / "embedded/pairs/train.jsonl", PairRow)
    assert rows
    assert {row.example_id for row in rows}.isdisjoint(row.id for row in dev)
    assert {row.prompt[-1].content for row in rows}.isdisjoint(row.prompt for row in dev)
