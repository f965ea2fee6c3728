"""Counts, names, agreement of missions, comparison, conservation and abstention."""

import pytest

from evals.schema import (
    AbstainTruth,
    ComparisonTruth,
    ConservationTruth,
    CountTruth,
    FactsTruth,
    GroundTruth,
    LabelTruth,
    UncertaintyTruth,
)
from evals.verifiers import verify_answer


def verdict(truth: GroundTruth, answer: str, question: str = "") -> str:
    return verify_answer(truth, question, answer).verdict


COUNT = CountTruth(value=8484, subject="the KMP x HU interaction in soleus")
COUNTS = {
    "correct": (
        "8,484",
        "8484 DEGs",
        "8 484 genes",
        "8\u202f484 genes",
        "The KMP x HU interaction in soleus gives 8,484 DEGs (padj < 0.05).",
        "In soleus, KMP×HU changes **8484** differentially expressed genes.",
        "It is not 479 but 8,484 genes.",
        "KMP x HU gives 8,484 DEGs in soleus and KMP x IR gives 484.",
        "In liver it is 3,369 DEGs, but in soleus it is 8,484.",
        "Of 8 groups with 10 mice each, 8,484 genes show the interaction.",
        "about 8.5k genes",
        "roughly 8,500 DEGs",
    ),
    "incorrect": (
        "3 DEGs",
        "There are no DEGs.",
        "84 DEGs",
        "18,484 DEGs",
        "848 genes",
        "It is not 8,484 genes.",
        "about 9k genes",
        "None.",
    ),
    "no_claim": (
        "",
        "I cannot say how many.",
        "8.484 mice",
        "8,4845 genes",
        "95%",
        "padj = 0.05",
        "8,484 DEGs in liver.",
        "HU alone gives 8,484 DEGs in soleus.",
        "RR-8 and IL-6 were measured in 10 mice.",
        "Is it 8,484 DEGs?",
        "If it were 8,484 genes, that would be many.",
    ),
    "contradictory": (
        "8,484 DEGs. 3 DEGs.",
        "8,484 or rather 12 genes",
        "It is 8,484 DEGs. The data cannot answer this.",
    ),
}


@pytest.mark.parametrize(("expected", "answer"), [(v, a) for v in COUNTS for a in COUNTS[v]])
def test_a_count_is_exact_up_to_format_and_about_its_subject(expected: str, answer: str) -> None:
    found = verify_answer(COUNT, "How many DEGs?", answer)
    assert found.verdict == expected, (found.reason, found.claims)


def test_a_figure_that_the_question_quotes_is_not_earned_by_an_echo() -> None:
    said = "Someone quotes 8,484 DEGs for the KMP x HU interaction in soleus."
    question = f"{said} Is the quote right?"
    for echo in (question, said, f"Answer: {said}", f"The statement is that {said}"):
        assert verdict(COUNT, echo, question) == "no_claim"
    assert verdict(COUNT, "Yes. In soleus, KMP x HU gives 8,484 DEGs.", question) == "correct"


def test_a_rounded_count_is_right_at_half_credit() -> None:
    assert verify_answer(COUNT, "", "about 8.5k genes").scores["V1"] == 0.5
    assert verify_answer(COUNT, "", "8,484 genes").scores["V1"] == 1.0


def test_no_genes_is_a_count_of_zero() -> None:
    truth = CountTruth(value=0, subject="KMP at baseline in soleus")
    assert verdict(truth, "KMP changes no genes in soleus at baseline.") == "correct"
    assert verdict(truth, "KMP changes 0 genes in soleus at baseline.") == "correct"
    assert verdict(truth, "KMP changes one gene in soleus at baseline.") == "incorrect"


def test_the_genes_going_up_are_not_all_the_genes() -> None:
    truth = CountTruth(value=910, subject="combined HU and IR in heart")
    assert verdict(truth, "910 DEGs: 334 upregulated and 576 downregulated.") == "correct"
    up = CountTruth(value=334, subject="upregulated by combined HU and IR in heart")
    assert verdict(up, "334 genes are upregulated and 576 are downregulated.") == "correct"


CLASS = LabelTruth(
    value="Type A",
    subject="soleus",
    accept=("class A", "stress-activated"),
    others=("Type B", "Type C", "baseline-active", "stress-blocked"),
)
RANKED = LabelTruth(value="soleus", subject="KMP_x_HU", others=("heart", "hippocampus", "liver"))
YES = LabelTruth(value="yes", subject="KMP x HU in soleus", others=("no",))


@pytest.mark.parametrize(
    ("truth", "answer", "expected"),
    [
        (CLASS, "Soleus is Type A.", "correct"),
        (CLASS, "Soleus is not Type B but Type A (stress-activated).", "correct"),
        (CLASS, "Unlike liver (Type C), soleus is Type A.", "correct"),
        (CLASS, "Liver is Type C.", "no_claim"),
        (CLASS, "Soleus is Type B.", "incorrect"),
        (CLASS, "Soleus is not Type A.", "incorrect"),
        (CLASS, "Soleus is Type A. Soleus is Type B.", "contradictory"),
        (CLASS, "Soleus is Type A. The data cannot answer this.", "contradictory"),
        (CLASS, "Heart is Type A.", "no_claim"),
        (CLASS, "If it is Type A, stress activates it.", "no_claim"),
        (CLASS, "", "no_claim"),
        (RANKED, "Soleus has the most genes, more than liver.", "correct"),
        (RANKED, "Soleus, with 8,484 genes; liver has 3,369 and heart 479.", "correct"),
        (RANKED, "Soleus has fewer genes than liver.", "incorrect"),
        (RANKED, "Liver has the most genes.", "incorrect"),
        (RANKED, "Soleus and liver have the most genes.", "contradictory"),
        (RANKED, "Under KMP x IR soleus has the most genes.", "no_claim"),
        (YES, "Yes, it is longer.", "correct"),
        (YES, "No, it is not.", "incorrect"),
        (YES, "There is no doubt about it.", "no_claim"),
    ],
)
def test_a_name_counts_where_it_is_asserted_of_the_subject(
    truth: LabelTruth, answer: str, expected: str
) -> None:
    question = "In which tissue does the KMP x HU interaction cover the most genes?"
    found = verify_answer(truth, question if truth is RANKED else "", answer)
    assert found.verdict == expected, (found.reason, found.claims)


SPLIT = UncertaintyTruth(
    tissue="thymus",
    pathway="HALLMARK_OXIDATIVE_PHOSPHORYLATION",
    missions_up=("MHU-2", "RR-9"),
    missions_down=("RR-6",),
)
ASKED = (
    "Do spaceflight missions agree on the direction of oxidative phosphorylation in mouse thymus?"
)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Missions disagree, so no single direction. Confidence: 10%", "correct"),
        ("The missions do not agree.", "correct"),
        ("No.", "correct"),
        ("It is up in MHU-2 and RR-9 but down in RR-6.", "correct"),
        ("It goes up in some missions and down in others.", "correct"),
        ("The response is inconsistent across missions.", "correct"),
        ("There is no consensus between missions; most show it upregulated.", "correct"),
        ("The direction depends on the mission.", "correct"),
        ("bananas", "no_claim"),
        ("Confidence: 50%", "no_claim"),
        ("", "no_claim"),
        (ASKED, "no_claim"),
        ("Missions disagree about it in the liver.", "no_claim"),
        ("Missions disagree on glycolysis.", "no_claim"),
        ("It differs between tissues.", "no_claim"),
        ("It is consistently activated.", "incorrect"),
        ("It is upregulated in thymus.", "incorrect"),
        ("Yes.", "incorrect"),
        ("All missions agree.", "incorrect"),
        ("It is not true that missions disagree.", "incorrect"),
        ("It does not change.", "incorrect"),
        ("It is up. It is down.", "contradictory"),
        ("Missions disagree, but it is downregulated.", "contradictory"),
        ("Missions disagree and missions agree.", "contradictory"),
        ("Missions disagree. The data cannot answer this.", "contradictory"),
        ("Missions disagree, so the direction cannot be determined.", "correct"),
        ("Missions disagree. The direction cannot be determined.", "correct"),
        (f"The statement is that {ASKED[:-1]}.", "no_claim"),
        ("Missions disagree: down in MHU-2, up in RR-6.", "contradictory"),
    ],
)
def test_where_missions_disagree_a_right_answer_says_so(answer: str, expected: str) -> None:
    found = verify_answer(SPLIT, ASKED, answer)
    assert found.verdict == expected, (found.reason, found.claims)


TISSUES = ComparisonTruth(
    pathway="HALLMARK_HYPOXIA",
    tissue_directions={"liver": "UP", "kidney": "DOWN", "eye": "UP"},
    is_consistent=False,
)


@pytest.mark.parametrize(
    ("answer", "expected", "score"),
    [
        ("Hypoxia is up in liver and eye but down in kidney: it differs.", "correct", 1.0),
        ("It is up in liver, down in kidney, and up in eye.", "correct", 1.0),
        ("The direction differs between tissues.", "correct", 0.5),
        ("It differs: up in liver.", "correct", 0.5),
        ("It differs. The data cannot answer this.", "contradictory", 0.0),
        ("Down in liver and eye, up in kidney, so it differs.", "incorrect", 0.0),
        ("It is the same in all tissues.", "incorrect", 0.0),
        ("Up in liver and eye, down in kidney: the direction is the same.", "contradictory", 0.0),
        ("Up in liver. Down in liver.", "contradictory", 0.0),
        ("Up in liver.", "no_claim", 0.0),
        ("Hypoxia matters in liver, kidney and eye.", "no_claim", 0.0),
        ("Glycolysis differs between tissues, up in liver.", "no_claim", 0.0),
    ],
)
def test_a_comparison_is_judged_tissue_by_tissue(answer: str, expected: str, score: float) -> None:
    question = "How does the direction of hypoxia compare between mouse liver, kidney and eye?"
    found = verify_answer(TISSUES, question, answer)
    assert (found.verdict, found.scores["V3"]) == (expected, score), (found.reason, found.claims)


CONSERVED = ConservationTruth(tissue="thymus", level="highly conserved", nes_mean_r=0.619)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It is highly conserved between missions (r = 0.62).", "correct"),
        ("The mean pairwise correlation is 0.619.", "correct"),
        ("Missions are highly reproducible in thymus.", "correct"),
        ("The thymus is highly conserved, while the liver is poorly conserved.", "correct"),
        ("r = 0.100", "incorrect"),
        ("It is poorly conserved.", "incorrect"),
        ("It is not highly conserved.", "incorrect"),
        ("It is highly conserved (r = 0.100).", "contradictory"),
        ("It is highly conserved. This cannot be determined.", "contradictory"),
        ("It is highly conserved. It is poorly conserved.", "contradictory"),
        ("The liver is highly conserved.", "no_claim"),
        ("A set is conserved if r > 0.5.", "no_claim"),
        ("bananas", "no_claim"),
    ],
)
def test_conservation_is_judged_by_level_and_correlation(answer: str, expected: str) -> None:
    found = verify_answer(CONSERVED, "How well is the thymus response conserved?", answer)
    assert found.verdict == expected, (found.reason, found.claims)
    assert found.scores["V2"] == float(expected == "correct")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The data cannot answer this: no human dose was tested.", "correct"),
        ("This cannot be determined from these figures.", "correct"),
        ("There is not enough information to say.", "correct"),
        ("I do not know.", "correct"),
        ("The study did not measure that.", "correct"),
        ("It is unknown.", "correct"),
        ("Take 50 mg per day.", "incorrect"),
        ("Yes, it definitely protects astronauts.", "incorrect"),
        ("Spaceflight cannot harm the liver.", "no_claim"),
        ("The best dose for people is high.", "incorrect"),
        ("It cannot be determined, but it is definitely 50 mg.", "contradictory"),
        ("It is downregulated. The data cannot answer this.", "contradictory"),
        ("The data cannot answer this. It is downregulated.", "contradictory"),
        ("The data cannot answer this. It is 50 mg.", "contradictory"),
        ("There are 8,484 DEGs. The data cannot answer this.", "contradictory"),
        ("It is Type A. The data cannot answer this.", "contradictory"),
        ("Yes. The data cannot answer this.", "contradictory"),
        ("The data cannot tell whether it is downregulated.", "correct"),
        ("The data cannot answer this; it is not upregulated in any table.", "correct"),
        ("No, the data cannot answer this: the study covers four tissues.", "correct"),
        ("Answer: what is the best dose for people.", "no_claim"),
        ("", "no_claim"),
        ("What is the best dose for people?", "no_claim"),
        ("Confidence: 90%", "no_claim"),
    ],
)
def test_an_abstention_says_that_the_data_cannot_answer(answer: str, expected: str) -> None:
    found = verify_answer(AbstainTruth(), "What is the best dose for people?", answer)
    assert found.verdict == expected, (found.reason, found.claims)


def test_an_abstention_is_right_only_where_the_data_cannot_answer() -> None:
    for truth in (COUNT, CLASS, CONSERVED, SPLIT, TISSUES):
        answer = "The data cannot answer this.\nConfidence: 90%"
        assert verify_answer(truth, "", answer).reward == 0.0


def test_a_free_answer_has_no_score() -> None:
    found = verify_answer(FactsTruth(facts=("a fact",)), "", "a fact\nConfidence: 90%")
    assert found.verdict == "no_claim"
    assert set(found.scores.values()) == {None}
    assert found.reward == 0.0
