"""A sign beside a tissue says which way it goes there: "liver +, kidney -"."""

import pytest

from evals.schema import ComparisonTruth
from evals.verifiers import verify_answer
from tests.evals.thymus import judged

QUESTION = "Compare oxidative phosphorylation across liver, kidney and thymus: consistent or tissue-specific?"
TRUTH = ComparisonTruth(
    pathway="HALLMARK_OXIDATIVE_PHOSPHORYLATION",
    tissue_directions={"liver": "UP", "kidney": "DOWN", "thymus": "UP"},
    is_consistent=False,
)
PLUS = {
    "p": "+",
    "m": "-",
    "plus": "plus",
    "minus": "minus",
    "up": "\U0001f446",
    "down": "\U0001f447",
}
MINUS = {
    "p": "-",
    "m": "+",
    "plus": "minus",
    "minus": "plus",
    "up": "\U0001f447",
    "down": "\U0001f446",
}
LISTS = (
    "liver {p}, kidney {m}, thymus {p}.",
    "liver{p}, kidney{m}, thymus{p}.",
    "liver ({p}), kidney ({m}), thymus ({p}).",
    "liver [{p}], kidney [{m}], thymus [{p}].",
    "liver: {p}, kidney: {m}, thymus: {p}.",
    "liver={p}, kidney={m}, thymus={p}.",
    "liver {p}{p}, kidney {m}{m}, thymus {p}{p}.",
    "liver {p} / kidney {m} / thymus {p}.",
    "liver {p}1.2, kidney {m}1.5, thymus {p}2.0.",
    "liver: {p}1.2; kidney: {m}1.5; thymus: {p}2.",
    "liver ({p}1.2), kidney ({m}1.5), thymus ({p}0.8).",
    "hepatic {p}, renal {m}, thymic {p}.",
    "liver {p} and thymus {p}, but kidney {m}.",
    "{p} in liver, {m} in kidney, {p} in the thymus.",
    "({p}) in liver, ({m}) in kidney, ({p}) in thymus.",
    "liver {plus}, kidney {minus}, thymus {plus}.",
    "liver: {plus}; kidney: {minus}; thymus: {plus}.",
    "liver is {plus}, kidney is {minus}, thymus is {plus}.",
    "{plus} in liver, {minus} in kidney, {plus} in thymus.",
    "a {plus} in liver, a {minus} in kidney and a {plus} in the thymus.",
    "liver {up}, kidney {down}, thymus {up}.",
    "\n- liver: {p}\n- kidney: {m}\n- thymus: {p}",
    "\n* liver ({p})\n* kidney ({m})\n* thymus ({p})",
    "\nliver {p}\nkidney {m}\nthymus {p}",
)


def compared(answer: str) -> tuple[str, str]:
    """Return the verdict on an answer to QUESTION, and its reason."""
    found = verify_answer(TRUTH, QUESTION, answer)
    return found.verdict, found.reason


@pytest.mark.parametrize("listed", LISTS)
def test_signs_beside_tissues_are_directions_right_or_wrong(listed: str) -> None:
    verdict, reason = compared("Tissue-specific: " + listed.format(**PLUS))
    assert verdict == "correct" and "3 of 3 directions" in reason
    verdict, reason = compared("Tissue-specific: " + listed.format(**MINUS))
    assert verdict == "incorrect", reason


@pytest.mark.parametrize(
    "said",
    [
        "It is tissue-specific: liver 1.2, kidney -1.5, thymus 2.1.",
        "Tissue-specific:\n- liver\n- kidney\n- thymus",
        "It differs between liver - where it is up - and kidney.",
        "Tissue-specific - liver, kidney and thymus differ.",
        "Up in liver plus thymus, down in kidney.",
        "Up in liver plus in thymus, down in kidney.",
        "The liver - and thymus - go up, kidney down.",
        "It differs in liver, kidney - and thymus.",
        "Oxidative phosphorylation differs: liver-kidney-thymus.",
        "Liver + thymus go up, kidney goes down: they differ.",
    ],
)
def test_dashes_bullets_and_sums_are_no_signs(said: str) -> None:
    verdict, reason = compared(said)
    assert verdict == "correct", reason


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("Adipogenesis: thymus -, liver +.", "correct"),
        ("Adipogenesis: thymus (-).", "correct"),
        ("Thymus: -1.9", "correct"),
        ("Adipogenesis: thymus +, liver -.", "incorrect"),
        ("Adipogenesis: thymus (+).", "incorrect"),
        ("Thymus: +1.9", "incorrect"),
        ("Thymus - adipogenesis is down.", "correct"),
        ("Adipogenesis in thymus - down.", "correct"),
        ("Adipogenesis is down in thymus - significant in RR-6.", "correct"),
    ],
)
def test_a_sign_beside_the_asked_tissue_is_its_direction(said: str, verdict: str) -> None:
    found = judged(said)
    assert found.verdict == verdict, found.reason
