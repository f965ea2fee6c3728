"""What verdicts show of the claims that were read: subject, plain value, polarity, place, kind."""

import pytest

from evals.schema import ComparisonTruth, UncertaintyTruth
from evals.verifiers import verify_answer
from tests.evals.thymus import judged

SPLIT = UncertaintyTruth(
    tissue="thymus",
    pathway="HALLMARK_OXIDATIVE_PHOSPHORYLATION",
    missions_up=("MHU-2_dorsal", "RR-9"),
    missions_down=("RR-6",),
    missions_ns=("RR-8",),
)
AGREE = (
    "Do spaceflight missions agree on the direction of oxidative phosphorylation in mouse thymus?"
)


def test_a_denied_direction_keeps_its_plain_value() -> None:
    (claim,) = judged("Adipogenesis is not upregulated.").claims
    assert (claim.says, claim.is_denied, claim.about) == ("UP", True, "direction")


def test_an_asserted_direction_is_not_denied() -> None:
    (claim,) = judged("Adipogenesis is downregulated.").claims
    assert (claim.says, claim.is_denied, claim.about) == ("DOWN", False, "direction")


def test_a_statement_on_agreement_is_told_from_a_direction() -> None:
    claims = verify_answer(SPLIT, AGREE, "Missions disagree: it is up in RR-9.").claims
    assert [(claim.about, claim.says) for claim in claims] == [
        ("direction", "UP"),
        ("agreement", "DIFFER"),
    ]


def test_a_claim_stands_where_the_answer_says_it() -> None:
    answer = "\u2193 \u2014 the thymus **goes d\u043ewn** in flight"
    places = [(c.start, c.end) for c in judged(answer).claims]
    assert [answer[start:end] for start, end in places] == ["\u2193", "d\u043ewn"]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("It is up in RR-9 but down in RR-6.", "correct"),
        ("Up in RR-9 and MHU-2, down in RR-6.", "correct"),
        ("It goes up in some missions and down in others.", "correct"),
        ("Two missions are up, one is down.", "correct"),
        ("No direction holds for all missions.", "correct"),
        ("RR-6 goes the other way than RR-9.", "correct"),
        ("It is down in RR-9 but up in RR-6.", "incorrect"),
        ("It is up in RR-1 but down in RR-3.", "incorrect"),
        ("Missions disagree: up in RR-6, down in RR-9.", "contradictory"),
        ("Missions disagree: it is up in all missions.", "contradictory"),
        ("Missions disagree, but all of them go up.", "contradictory"),
        ("Most missions show it up, but they disagree.", "correct"),
        ("The answer to this question is no.", "correct"),
        ("The answer is yes.", "incorrect"),
        ("People disagree about missions.", "no_claim"),
        ("I disagree with the missions question.", "no_claim"),
        ("Missions differ in duration.", "no_claim"),
        ("Missions differ in direction.", "correct"),
        ("Different missions flew.", "no_claim"),
        ("They may agree or disagree.", "no_claim"),
        ("Whether missions agree is unclear.", "no_claim"),
        ("Some say that missions disagree; they are wrong.", "no_claim"),
        ("Missions disagree. That is false.", "no_claim"),
        ("You asked whether missions agree on the direction.", "no_claim"),
    ],
)
def test_naming_missions_says_that_they_disagree_only_if_each_is_on_its_side(
    answer: str, verdict: str
) -> None:
    found = verify_answer(SPLIT, AGREE, answer)
    assert found.verdict == verdict, (found.reason, found.claims)


def test_no_is_no_answer_to_how() -> None:
    question = "How consistent is the response of oxidative phosphorylation in mouse thymus?"
    assert verify_answer(SPLIT, question, "No.").verdict == "no_claim"


TISSUES = ComparisonTruth(
    pathway="HALLMARK_HYPOXIA",
    tissue_directions={"liver": "UP", "thymus": "DOWN", "eye": "UP"},
    is_consistent=False,
)
ALIKE = ComparisonTruth(
    pathway="HALLMARK_HYPOXIA",
    tissue_directions={"liver": "UP", "eye": "UP"},
    is_consistent=True,
)


@pytest.mark.parametrize(
    ("truth", "answer", "verdict"),
    [
        (TISSUES, "Hypoxia goes up in liver and eye but down in thymus, so it differs.", "correct"),
        (TISSUES, "Liver: up\nThymus: down\nEye: up", "correct"),
        (
            TISSUES,
            "| tissue | direction |\n|---|---|\n| liver | up |\n| thymus | down |\n| eye | up |",
            "correct",
        ),
        (TISSUES, "Liver, thymus and eye go up, down and up, respectively.", "correct"),
        (TISSUES, "It is tissue-specific.", "correct"),
        (TISSUES, "Down in liver and eye, up in thymus, so it differs.", "incorrect"),
        (TISSUES, "Liver: down\nThymus: up\nEye: down", "incorrect"),
        (TISSUES, "It goes up everywhere: liver, thymus and eye.", "incorrect"),
        (TISSUES, "The direction is the same in all tissues.", "incorrect"),
        (TISSUES, "Up in liver and eye, down in thymus: consistent.", "contradictory"),
        (TISSUES, "It is up in all but thymus.", "no_claim"),
        (ALIKE, "Hypoxia is up in both liver and eye.", "correct"),
        (ALIKE, "It is consistent between tissues.", "correct"),
        (ALIKE, "It differs between tissues.", "incorrect"),
        (ALIKE, "It is down in liver and eye, so it is consistent.", "incorrect"),
        (ALIKE, "Up in liver, down in eye.", "incorrect"),
    ],
)
def test_a_comparison_is_judged_in_every_tissue(
    truth: ComparisonTruth, answer: str, verdict: str
) -> None:
    question = "How does the direction of hypoxia in spaceflight compare between mouse tissues?"
    found = verify_answer(truth, question, answer)
    assert found.verdict == verdict, (found.reason, found.claims)
