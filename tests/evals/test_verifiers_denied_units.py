"""What an answer denies of its own figure or name, and what a parenthesis says of another tissue."""

import pytest

from evals.schema import CountTruth, GroundTruth, LabelTruth
from evals.verifiers import verify_answer

COUNT = CountTruth(value=8484, subject="the KMP x HU interaction in soleus")


def verdict(truth: GroundTruth, answer: str, question: str = "") -> str:
    return verify_answer(truth, question, answer).verdict


@pytest.mark.parametrize(
    "answer",
    [
        "8,484 genes are not DEGs.",
        "8,484 genes are not DEGs, the rest are.",
        "8,484 genes are non-DEGs.",
        "8,484 genes aren't differentially expressed.",
    ],
)
def test_genes_that_are_expressly_no_degs_are_no_count_of_degs(answer: str) -> None:
    assert verdict(COUNT, answer) == "no_claim"


@pytest.mark.parametrize(
    "answer",
    [
        "8,484 genes are DEGs, not 479.",
        "8,484 DEGs are not a small number.",
        "8,484 in soleus, no DEGs in heart.",
    ],
)
def test_a_denial_of_something_else_leaves_a_count_standing(answer: str) -> None:
    assert verdict(COUNT, answer) == "correct"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Suppression (heart: rescue).", "correct"),
        ("Suppression (soleus and heart: rescue).", "correct"),
        ("Rescue (heart: suppression).", "incorrect"),
        ("Suppression of my doubts: rescue.", "contradictory"),
    ],
)
def test_a_label_in_parentheses_is_of_the_tissue_before_its_colon(
    answer: str, expected: str
) -> None:
    truth = LabelTruth(value="suppression", subject="liver", others=("rescue", "KMP only"))
    assert verdict(truth, answer, "Which OXPHOS label does the study give to liver?") == expected
