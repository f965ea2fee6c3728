"""A phrase that fits the gene set explains it only where it is said of the set, not merely mentioned."""

import pytest

from evals.schema import MechanismTruth, Verdict
from evals.verifiers import verify_answer

QUESTION = (
    "In mouse thymus, the Adipogenesis gene set is {way} in spaceflight. What could explain this?"
)
TRUTH = MechanismTruth(tissue="thymus", pathway="HALLMARK_ADIPOGENESIS", direction="DOWN")
MENTIONED = (
    "Adipogenesis is down. I like fat cell differentiation.",
    "Adipogenesis is down. I love fat cells in the thymus.",
    "Adipogenesis is down. Fat cell differentiation.",
    "Adipogenesis is down. Fat cell differentiation, lipid.",
    "Adipogenesis is down. We eat adipocytes with adipogenesis.",
    "Adipogenesis is down. My cat has fat cells in its thymus.",
    "Adipogenesis is down. It reminds me of fat cells.",
    "Adipogenesis is down. Keywords: adipogenesis, fat cell, adipocyte.",
    "Adipogenesis is down. Think of fat cell differentiation.",
    "Adipogenesis is down. See fat cell differentiation.",
    "Adipogenesis is down. I wrote about fat cell differentiation.",
    "Adipogenesis is down. Everyone loves fat cell differentiation.",
    "Adipogenesis is down. I have fat cells, adipogenesis!",
    "Adipogenesis is down. Adipocyte, fat cell differentiation.",
    "Adipogenesis is down. Let us talk about fat cell differentiation.",
    "Adipogenesis is down. I am fond of fat cell differentiation.",
    "Adipogenesis is down. I would like fat cell differentiation.",
    "Adipogenesis is down. She studies fat cell differentiation.",
    "Adipogenesis is down and I like fat cells.",
    "Adipogenesis is down; fat cell differentiation.",
    "Adipogenesis is down; I like fat cells.",
    "Adipogenesis is down, and my aunt has fat cells.",
)
SAID = (
    "Adipogenesis is downregulated: fat cell differentiation genes are off.",
    "Adipogenesis stands for fat cell differentiation, which is suppressed.",
    "Adipogenesis is down. It stands for fat cell formation.",
    "Adipogenesis is down. This set holds genes that make fat cells.",
    "Adipogenesis is down. I think that fewer fat cells form in the thymus.",
    "Adipogenesis is down. In my view, the thymus makes fewer fat cells.",
    "Adipogenesis is down. Our reading is that the thymus forms fewer adipocytes.",
    "Adipogenesis is down, so fat cells form less.",
    "Adipogenesis (fat cell differentiation) is down.",
    "Adipogenesis, the making of fat cells, is down.",
    "Adipogenesis is down. This tells us that fewer fat cells form.",
    "Adipogenesis is down. I would explain it by fewer adipocytes in the thymus.",
    "Adipogenesis is down, i.e. less fat cell formation.",
    "Adipogenesis is down. It means fewer fat cells.",
    "Adipogenesis is down; these genes make adipocytes.",
    "Adipogenesis is down. The thymus fills with fat less: adipocytes mature slowly.",
    "Adipogenesis is down. It has genes of fat cells.",
    "I think adipogenesis is down because fewer fat cells form.",
    "Adipogenesis is down. Such genes let precursors become fat cells.",
    "Adipogenesis is down. It stands for the type I fat cell programme.",
    "Adipogenesis is down, which means that we see fewer fat cells.",
    "Adipogenesis is down. Less fat cell differentiation.",
)


def judged(answer: str, way: str = "DOWN") -> Verdict:
    """Return the verdict on an answer about a set that goes one way."""
    truth = TRUTH.model_copy(update={"direction": way})
    return verify_answer(truth, QUESTION.format(way=way.lower()), answer)


@pytest.mark.parametrize("answer", MENTIONED)
def test_a_phrase_that_is_only_mentioned_explains_nothing(answer: str) -> None:
    assert judged(answer).verdict == "no_claim"
    assert judged(answer.replace("is down", "is up"), "UP").verdict == "no_claim"


@pytest.mark.parametrize("answer", SAID)
def test_a_phrase_that_is_said_of_the_set_explains_it(answer: str) -> None:
    found = judged(answer)
    assert found.verdict == "correct", found.reason
    assert judged(answer, "UP").verdict == "incorrect"
