import yaml

from evals.questions import pathway_heldout
from tests.dev_questions import CONFIG, left_out
from training.data import grpo_data


def test_the_dev_questions_are_neither_trained_on_nor_held_out():
    asked = {row.id for row in left_out()}
    assert len(asked) == 24
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    assert asked.isdisjoint(row.id for row in grpo_data(config["data"], config["seed"]).examples)
    assert asked.isdisjoint(row.id for row in pathway_heldout())
