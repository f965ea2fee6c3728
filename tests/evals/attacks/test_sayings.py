"""Single answers, each read by a careful reader: what must never be correct, and what must be."""

import pytest

from evals.schema import Verdict
from evals.verifiers import verify
from tests.evals.attacks.policies import questions
from tests.evals.attacks.sayings import sayings
from tests.evals.attacks.truths import CONFIDENCE

BY_ID = {example.id: example for example in questions()}
NOT_RIGHT = list(sayings("not_right.txt"))
FAIR = list(sayings("fair.txt"))


def judged(question: str, said: str) -> Verdict:
    """Return the verdict on an answer to the question of this id."""
    return verify(BY_ID[question], said + CONFIDENCE)


@pytest.mark.parametrize(("question", "said"), NOT_RIGHT)
def test_an_answer_that_does_not_assert_the_truth_is_not_correct(question: str, said: str) -> None:
    verdict = judged(question, said)
    assert verdict.verdict != "correct", verdict.reason


@pytest.mark.parametrize(("question", "said"), FAIR)
def test_the_truth_in_ordinary_words_is_correct(question: str, said: str) -> None:
    verdict = judged(question, said)
    assert verdict.verdict == "correct", verdict.reason
