import inspect
import pickle

import pytest

from evals.errors import BadConfig
from evals.questions import DATASETS
from evals.schema import Example
from evals.verifiers import verify
from training.data import grpo_row
from training.rewards import VerifierReward, verifier_reward

EXAMPLES = DATASETS["kmp-train"]()
DIRECT = next(each for each in DATASETS["pathways-train"]() if each.kind == "direct")
FREE = next(each for each in EXAMPLES if each.ground_truth.kind == "facts")


def column(*examples: Example) -> list[str]:
    return [str(grpo_row(example)["example"]) for example in examples]


def said(*texts: str) -> list[list[dict[str, str]]]:
    return [[{"role": "assistant", "content": text}] for text in texts]


def test_a_right_answer_earns_more_than_a_wrong_one_and_silence_earns_nothing():
    wrong = DIRECT.answer
    for up, down in (
        ("upregulated", "downregulated"),
        ("higher", "lower"),
        ("goes up", "goes down"),
    ):
        wrong = wrong.replace(up, "\0").replace(down, up).replace("\0", down)
    assert wrong != DIRECT.answer
    right_reward, wrong_reward, silent_reward = verifier_reward(
        completions=said(DIRECT.answer, wrong, ""), example=column(DIRECT, DIRECT, DIRECT)
    )
    assert right_reward is not None
    assert wrong_reward is not None
    assert right_reward > wrong_reward >= silent_reward == 0.0


def test_a_question_that_no_verifier_judges_is_not_scored():
    rewards = verifier_reward(
        completions=said(FREE.answer, DIRECT.answer), example=column(FREE, DIRECT)
    )
    assert rewards[0] is None
    assert rewards[1] is not None


def test_the_reward_is_what_the_verifiers_say_with_the_weights_given():
    weights = {"V1": 1.0}
    text = DIRECT.answer
    assert VerifierReward(weights)(completions=said(text), example=column(DIRECT)) == [
        verify(DIRECT, text, weights).reward
    ]


def test_plain_text_completions_are_scored_as_conversations_are():
    text = DIRECT.answer
    plain = verifier_reward(completions=[text], example=column(DIRECT))
    assert plain == verifier_reward(completions=said(text), example=column(DIRECT))


def test_the_parts_and_the_verdicts_go_to_the_trainers_log():
    metrics: dict[str, float] = {}
    extra: dict[str, list[object]] = {}
    verifier_reward(
        completions=said(DIRECT.answer, "no idea", "anything"),
        example=column(DIRECT, DIRECT, FREE),
        log_metric=metrics.__setitem__,
        log_extra=extra.__setitem__,
        trainer_state=None,
    )
    assert metrics["verdict/correct"] == 0.5
    assert metrics["verifier/V1"] == 0.5
    assert metrics["confidence/stated"] == 0.5
    assert metrics["confidence/mean"] == DIRECT.confidence
    assert "verifier/V2" not in metrics
    assert extra["verdict"] == ["correct", "no_claim", "no_claim"]
    assert extra["stated_confidence"] == [DIRECT.confidence, None, None]


def test_rows_without_an_example_are_an_error_that_names_the_column():
    with pytest.raises(BadConfig, match=r"no column `example`.*columns found: answer, prompts"):
        verifier_reward(completions=said("x"), prompts=["?"], answer=["x"])


def test_a_broken_row_raises_and_never_counts_as_a_wrong_answer():
    with pytest.raises(ValueError, match="validation error"):
        verifier_reward(completions=said("x"), example=['{"id": "half"}'])


def test_fewer_examples_than_completions_raise():
    with pytest.raises(ValueError, match="zip"):
        verifier_reward(completions=said("x", "y"), example=column(DIRECT))


def test_the_reward_survives_pickling_with_its_weights():
    reward = pickle.loads(pickle.dumps(VerifierReward({"V4": 1.0})))
    assert reward.weights == {"V4": 1.0}
    assert reward.__name__ == "verifier"
    again = pickle.loads(pickle.dumps(verifier_reward))
    assert again(completions=said(DIRECT.answer), example=column(DIRECT)) == verifier_reward(
        completions=said(DIRECT.answer), example=column(DIRECT)
    )


def test_trl_can_call_it_with_keywords_alone():
    parameters = inspect.signature(verifier_reward).parameters.values()
    assert not [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
