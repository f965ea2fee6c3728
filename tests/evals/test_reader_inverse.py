"""A direction given by reference to another tissue: "up in liver, the reverse holds for thymus"."""

import pytest

from evals.schema import ComparisonTruth
from evals.verifiers import verify_answer
from tests.evals.thymus import judged

TURNED = (
    "Adipogenesis is {way} in liver, whereas the reverse holds for thymus.",
    "Adipogenesis, a set that is {way} in liver, goes the opposite way in thymus.",
    "Adipogenesis is {way} in liver and the opposite in thymus.",
    "Adipogenesis goes {way} in liver, while thymus shows the opposite.",
    "Adipogenesis is {way} in liver but goes the other way in thymus.",
    "Liver {way}, thymus the other way.",
    "Liver {way}, thymus the other way round.",
    "Adipogenesis is {way} in liver, whereas in thymus, the reverse is true.",
    "In liver it is {way}regulated, in thymus the opposite is seen.",
    "In contrast to liver, where it is {way}, thymus goes the other way.",
    "Adipogenesis is {way} in liver, the exact opposite in thymus.",
    "Adipogenesis is {way} in liver, the opposite of thymus.",
    "Adipogenesis is {way} in liver, the reverse of what is seen in the thymus.",
    "Adipogenesis is {way} in liver, an opposite direction to that in thymus.",
    "Whereas liver goes {way}, the thymus does the opposite.",
    "Adipogenesis is {way} in liver, with the inverse in thymus.",
    "Adipogenesis goes {way} in liver and kidney, but the reverse happens in thymus.",
    "Adipogenesis is {way} in liver, but the opposite trend is seen in thymus.",
)
STRAIGHT = (
    "Adipogenesis is {way} in thymus, the opposite of liver.",
    "Adipogenesis is {way} in thymus, and the opposite in liver.",
    "Adipogenesis is {way} in thymus, while liver shows the opposite.",
    "Thymus is {way}, unlike liver, which goes the other way.",
    "Unlike liver, which goes the other way, thymus is {way}.",
    "Adipogenesis is {way} in thymus, not the other way round.",
    "Adipogenesis is {way} in thymus, contrary to liver.",
    "On the contrary, thymus is {way}.",
    "Adipogenesis is {way} in thymus; in liver the reverse holds.",
)
UNCERTAIN = (
    "Adipogenesis is up in liver, down in eye, the reverse in thymus.",
    "Unlike in liver, it goes the other way in thymus.",
    "Adipogenesis is up in liver, whereas nobody knows whether the reverse holds for thymus.",
)


@pytest.mark.parametrize("said", TURNED)
def test_the_reverse_in_another_tissue_is_the_opposite_direction(said: str) -> None:
    right, wrong = judged(said.format(way="up")), judged(said.format(way="down"))
    assert right.verdict == "correct", right.reason
    assert wrong.verdict == "incorrect", wrong.reason


@pytest.mark.parametrize("said", STRAIGHT)
def test_the_reverse_elsewhere_leaves_the_asked_tissue_as_stated(said: str) -> None:
    right, wrong = judged(said.format(way="down")), judged(said.format(way="up"))
    assert right.verdict == "correct", right.reason
    assert wrong.verdict == "incorrect", wrong.reason


@pytest.mark.parametrize("said", UNCERTAIN)
def test_the_reverse_of_what_is_not_certain_is_no_claim(said: str) -> None:
    found = judged(said)
    assert found.verdict == "no_claim", found.reason


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("Adipogenesis is up in thymus. Correction: it is down.", "correct"),
        ("Up. Correction, down.", "correct"),
        ("Adipogenesis is down in thymus. Correction: it is up.", "incorrect"),
        ("Adipogenesis is down in thymus. Correction: Benjamini-Hochberg.", "correct"),
        ("Adipogenesis is down in thymus after correction for batch.", "correct"),
    ],
)
def test_a_correction_stands_in_for_the_sentence_before_it(said: str, verdict: str) -> None:
    found = judged(said)
    assert found.verdict == verdict, found.reason


@pytest.mark.parametrize(("way", "verdict"), [("up", "correct"), ("down", "incorrect")])
def test_a_comparison_may_turn_one_tissue_round(way: str, verdict: str) -> None:
    truth = ComparisonTruth(
        pathway="HALLMARK_HYPOXIA",
        tissue_directions={"liver": "UP", "kidney": "DOWN", "thymus": "UP"},
        is_consistent=False,
    )
    said = f"Liver and thymus go {way}, the reverse holds for kidney."
    found = verify_answer(truth, "Is hypoxia consistent across liver, kidney and thymus?", said)
    assert found.verdict == verdict, found.reason
