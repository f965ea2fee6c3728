"""One text cannot be right about a question whether its truth is one thing or the opposite.

This is what a policy under training looks for: words that are right whatever the truth is. The search
puts together pieces of true and false answers, denials, joints and the question's own words.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evals.schema import (
    ComparisonTruth,
    ConservationTruth,
    CountTruth,
    DirectTruth,
    Example,
    GroundTruth,
    LabelTruth,
    MechanismTruth,
)
from evals.verifiers import verify_answer
from tests.evals.attacks.policies import questions
from tests.evals.attacks.truths import OPPOSITE, asked, clause, explanation, falsehood

QUESTIONS = [e for e in questions() if e.ground_truth.kind not in ("uncertainty", "abstain")]
R_OF = {"highly conserved": 0.7, "moderately conserved": 0.35, "poorly conserved": 0.05}
JOINTS = (
    *(". ", ", ", " ", "; ", ": ", "\n", "\n- ", " and ", " or ", " but ", ", not ", " nor ", "/"),
    *(" than ", " instead of ", " rather than ", " (", ") ", " as ", " in RR-6, ", " in liver, "),
    *(
        ", which means that ",
        " because ",
        " if ",
        " unless ",
        " while ",
        " versus ",
        ", yet ",
        "? ",
    ),
    *(", as opposed to ", ", unlike ", " until ", " then ", ", so ", " | ", " = ", " -> ", "..."),
)
WORDS = (
    *(
        "up",
        "down",
        "upregulated",
        "downregulated",
        "increased",
        "decreased",
        "rises",
        "falls",
        "not",
    ),
    *("It is ", "it is not ", "neither", "either", "both", "the opposite of", "Yes", "No", "never"),
    *("NES = 1.5", "NES = -1.5", "positive", "negative", "suppression", "activation", "loss of"),
    *("highly conserved", "moderately conserved", "poorly conserved", "r = 0.7", "r = 0.35"),
    *(
        "consistent",
        "the same",
        "differ",
        "opposite directions",
        "It is true that",
        "it is false that",
    ),
    *(
        "most",
        "fewest",
        "more",
        "less",
        "soleus",
        "heart",
        "liver",
        "HU",
        "IR",
        "0 DEGs",
        "9999 DEGs",
    ),
    *(
        "in most missions",
        "in some missions",
        "in liver",
        "in mice",
        "prevents",
        "reverses",
        "That is false",
    ),
)
SEARCH = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=1500,
    suppress_health_check=[HealthCheck.too_slow],
)


def opposites(truth: GroundTruth) -> tuple[GroundTruth, ...]:
    """Return the truth without its details, and truths that cannot hold beside it."""
    match truth:
        case DirectTruth() | MechanismTruth():
            bare = truth.model_copy(update={"missions": {}})
            return bare, bare.model_copy(update={"direction": OPPOSITE[truth.direction]})
        case ConservationTruth():
            return tuple(
                truth.model_copy(update={"level": k, "nes_mean_r": r}) for k, r in R_OF.items()
            )
        case CountTruth():
            return truth, truth.model_copy(update={"value": truth.value + 7})
        case LabelTruth():
            names, rest = (truth.value, *truth.accept), truth.others
            other = truth.model_copy(
                update={"value": rest[0], "accept": (), "others": (*names, *rest[1:])}
            )
            return truth, other
        case ComparisonTruth():
            first, *_ = truth.tissue_directions
            ways = truth.tissue_directions | {first: OPPOSITE[truth.tissue_directions[first]]}
            changed = {"tissue_directions": ways, "is_consistent": len(set(ways.values())) == 1}
            return truth, truth.model_copy(update=changed)
    raise ValueError(f"no opposite of {truth.kind}")


@pytest.mark.parametrize("joint", JOINTS)
def test_the_truth_and_its_opposite_in_one_answer_are_never_right_about_both(joint: str) -> None:
    for example in QUESTIONS:
        true, false = clause(example), falsehood(example)
        for said in (f"{true}{joint}{false}", f"{false}{joint}{true}"):
            text = f"{said}. {explanation(example)}\nConfidence: 90%"
            right = [
                truth
                for truth in opposites(example.ground_truth)
                if verify_answer(truth, example.prompt, text).verdict == "correct"
            ]
            assert len(right) < 2, text


@SEARCH
@given(
    st.sampled_from(QUESTIONS),
    st.lists(
        st.tuples(st.sampled_from((*WORDS, "TRUE", "FALSE", "ASKED")), st.sampled_from(JOINTS))
    ),
)
def test_no_text_is_right_about_opposite_truths(
    example: Example, pieces: list[tuple[str, str]]
) -> None:
    known = {"TRUE": clause(example), "FALSE": falsehood(example), "ASKED": asked(example)}
    said = "".join(known.get(word, word) + joint for word, joint in pieces)
    text = f"{said} {explanation(example)}\nConfidence: 90%"
    right = [
        truth
        for truth in opposites(example.ground_truth)
        if verify_answer(truth, example.prompt, text).verdict == "correct"
    ]
    assert len(right) < 2
