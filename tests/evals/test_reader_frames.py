"""What frames a statement: it is the answer's own only where every word of the frame says so."""

import pytest

from evals.questions import kmp_test, pathway_heldout
from evals.verifiers import verify

QUESTIONS = {example.id: example for example in (*pathway_heldout(), *kmp_test())}
DIRECT = "genelab/direct/thymus/HALLMARK_ADIPOGENESIS"  # DOWN
MECHANISM = "genelab/mechanism/thymus/HALLMARK_ADIPOGENESIS"
UNCERTAINTY = "genelab/uncertainty/thymus/HALLMARK_MTORC1_SIGNALING"
NOT_ASSERTED = """
Flat-earthers insist that adipogenesis is downregulated.
It was once thought that adipogenesis is downregulated.
According to a rumour, adipogenesis is downregulated.
A fool would say adipogenesis is downregulated.
Critics claim adipogenesis is downregulated.
My horoscope says that adipogenesis is downregulated.
On opposite day, adipogenesis is downregulated.
In the novel, adipogenesis is downregulated.
Once upon a time adipogenesis was downregulated.
False statement: adipogenesis is downregulated.
Example of a bad answer: adipogenesis is downregulated.
Write the sentence: adipogenesis is downregulated.
I was told to say that adipogenesis is downregulated.
It remains to be seen that adipogenesis is downregulated.
"Adipogenesis is downregulated" is what a layman might say.
How downregulation works: RNA falls.
Trust in adipogenesis fell.
The cost of adipogenesis decreased.
Only part of adipogenesis is downregulated.
Several adipogenesis genes are downregulated.
Gene sets can be downregulated.
Adipogenesis can be downregulated.
Adipogenesis is downregulated every other Tuesday.
Adipogenesis recovers from suppression.
The decline of adipogenesis was halted.
Adipogenesis is as downregulated as the Moon is cheese.
Adipogenesis is downregulated. Actually, scratch that.
Adipogenesis is downregulated. I am making this up.
Adipogenesis is downregulated. Do not believe a word of it.
Adipogenesis is downregulated. No, that is the wrong way round.
Adipogenesis is downregulated, said no one ever.
"""
ASSERTED = """
The data show that adipogenesis is downregulated.
The results suggest that adipogenesis is downregulated in the thymus.
We found that adipogenesis was downregulated.
Results reveal that adipogenesis is suppressed.
It is well established that adipogenesis is downregulated in thymus.
I am fairly confident that adipogenesis is downregulated.
It turns out that adipogenesis is downregulated.
From the NES we can infer that adipogenesis is downregulated.
The negative NES tells us that adipogenesis is downregulated.
Taken together, the missions show that adipogenesis is downregulated.
In the GeneLab data, adipogenesis is downregulated.
Genes involved in adipogenesis are downregulated.
The expression of genes related to adipogenesis is decreased.
Most adipogenesis genes are downregulated.
Spaceflight leads to downregulation of adipogenesis.
Adipogenesis suffers from suppression in flight.
A decrease in adipogenesis is seen.
Adipogenesis trends down.
The NES of adipogenesis is negative.
Bottom line: adipogenesis goes down.
"""


def verdict(question: str, said: str) -> str:
    """Return the verdict on an answer that states its confidence."""
    return verify(QUESTIONS[question], f"{said}\nConfidence: 90%").verdict


@pytest.mark.parametrize("said", NOT_ASSERTED.strip().split("\n"))
def test_what_somebody_else_or_nobody_asserts_is_not_the_answer(said: str) -> None:
    assert verdict(DIRECT, said) != "correct"


@pytest.mark.parametrize("said", ASSERTED.strip().split("\n"))
def test_what_the_answer_itself_asserts_is_read(said: str) -> None:
    assert verdict(DIRECT, said) == "correct"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("False statements:\n1. Adipogenesis is downregulated.\n2. It falls.", "no_claim"),
        ("False statements:\n\n1. Adipogenesis is upregulated.\n\nIt falls.", "correct"),
    ],
)
def test_a_heading_that_calls_its_list_false_takes_it_back_up_to_a_blank_line(
    said: str, expected: str
) -> None:
    assert verdict(DIRECT, said) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Missions disagree on the direction.", "correct"),
        ("The response differs from mission to mission.", "correct"),
        ("The results are mixed.", "correct"),
        ("Missions could disagree.", "no_claim"),
        ("Mixed feelings.", "no_claim"),
        ("They are different from plants.", "no_claim"),
        ("Missions differ in payload, and agree in direction.", "incorrect"),
    ],
)
def test_missions_disagree_only_where_they_differ_in_direction(said: str, expected: str) -> None:
    assert verdict(UNCERTAINTY, said) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("It stands for making fat cells.", "correct"),
        ("So fewer adipocytes store lipids, which fits with thymic involution.", "correct"),
        ("It stands for fat, protein, DNA, muscle and blood genes.", "no_claim"),
        ("It stands for fat, protein, DNA and immune genes.", "no_claim"),
        ("It stands for fat, growth, damage, receptors, transport and synthesis.", "no_claim"),
        ("It stands for the p53 reaction to cell damage.", "no_claim"),
        ("It stands for making proteins in cells.", "no_claim"),
    ],
)
def test_an_explanation_is_about_the_asked_set_and_not_about_everything(
    said: str, expected: str
) -> None:
    assert verdict(MECHANISM, f"Adipogenesis is downregulated. {said}") == expected


@pytest.mark.parametrize(
    ("question", "said", "expected"),
    [
        ("kmp/test/additivity/hippocampus", "Yes.", "no_claim"),
        ("kmp/test/above_5000/liver/KMP_x_HU", "The answer is no, but the answer is yes.", "x"),
        ("genelab/conservation/thymus", "r is not 0.123.", "no_claim"),
        ("kmp/test/human_dose", "I do not know whether the data cannot answer this.", "x"),
        ("kmp/test/human_dose", "If pigs could fly, the data cannot answer this.", "x"),
        ("kmp/test/human_dose", "I do not know whether kaempferol helps humans.", "correct"),
    ],
)
def test_other_kinds_are_read_with_the_same_care(question: str, said: str, expected: str) -> None:
    """Where it says x, all that matters is that the answer is not correct."""
    found = verdict(question, said)
    assert found != "correct" if expected == "x" else found == expected
