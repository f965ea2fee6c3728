import yaml

from evals.io import read_rows
from evals.questions import kmp_test, pathway_heldout
from evals.questions.pairs import PairRow
from tests.dev_questions import CONFIG, left_out
from training.data.questions import grpo_data, sft_data


def test_the_dev_questions_are_neither_trained_on_nor_held_out():
    asked = {row.id for row in left_out()}
    assert len(asked) == 53
    for stage, data in (("grpo", grpo_data), ("sft", sft_data)):
        settings = yaml.safe_load(CONFIG.with_stem(stage).read_text(encoding="utf-8"))
        assert asked.isdisjoint(row.id for row in data(settings["data"], settings["seed"]).items)
    assert asked.isdisjoint(row.id for row in (*pathway_heldout(), *kmp_test()))


def test_no_pair_of_the_dpo_stage_is_about_a_dev_question():
    dev = left_out()
    rows = read_rows(CONFIG.parents[2] / "embedded/pairs/train.jsonl", PairRow)
    assert rows
    assert {row.example_id for row in rows}.isdisjoint(row.id for row in dev)
    assert {row.prompt[-1].content for row in rows}.isdisjoint(row.prompt for row in dev)
