import yaml

from evals.questions import kmp_test, pathway_heldout
from tests.dev_questions import CONFIG, left_out
from training.data import grpo_data


def test_the_dev_questions_are_neither_trained_on_by_any_stage_nor_held_out():
    dev = left_out()
    clusters = {row.cluster for row in dev}
    assert {row.tissue for row in dev if row.source == "genelab"} == {"kidney"}
    for stage in ("sft", "grpo"):
        config = yaml.safe_load(CONFIG.with_stem(stage).read_text(encoding="utf-8"))
        trained = grpo_data(config["data"], config["seed"]).examples
        assert clusters.isdisjoint(row.cluster for row in trained)
        assert all(row.tissue != "kidney" for row in trained if row.source == "genelab")
    assert clusters.isdisjoint(row.cluster for row in (*pathway_heldout(), *kmp_test()))
