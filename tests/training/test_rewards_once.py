"""TRL calls one function per verifier on the same batch; the answers in it are judged once."""

from itertools import product

import pytest

from evals.questions import DATASETS
from evals.verifiers import MODES, VERIFIERS, Scoring, judge
from training.rewards import OneVerifier, scores_of

KINDS = {example.ground_truth.kind: example for name in sorted(DATASETS) for example in DATASETS[name]()}


@pytest.mark.parametrize("v4", MODES)
def test_all_verifiers_together_judge_each_different_answer_once(v4: str):
    texts = [f"I think so.\nAnswer: down\nConfidence: {percent}%" for percent in (20, 90)]
    rows = list(product(KINDS.values(), [*texts, texts[0]]))
    completions = [text for _, text in rows]
    examples = [example.model_dump_json() for example, _ in rows]
    scores_of.cache_clear()
    found = {name: OneVerifier(name, v4)(completions=completions, example=examples) for name in VERIFIERS}
    assert scores_of.cache_info().misses == 2 * len(KINDS)
    for name in VERIFIERS:
        alone = Scoring({name: 1.0}, v4)
        assert found[name] == [
            judge(example.ground_truth, example.prompt, text, alone, "answer").scores[name] for example, text in rows
        ]
