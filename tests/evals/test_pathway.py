"""Enrichment statements against the table, mission by mission."""

import pytest

from evals.questions import DATASETS
from evals.schema import ComparisonTruth, DirectTruth, Enrichment, UncertaintyTruth
from evals.verifiers.pathway import enrichment_faults
from evals.verifiers.reading import read

QUESTION = "Which way does the adipogenesis gene set move in mouse thymus during spaceflight?"
DIRECT = DirectTruth(
    tissue="thymus",
    pathway="HALLMARK_ADIPOGENESIS",
    direction="DOWN",
    missions={
        "MHU-2": Enrichment(nes=-1.0824, padj=0.256),
        "RR-6": Enrichment(nes=-3.0528, padj=1.69e-24),
        "RR-9": Enrichment(nes=-2.2316, padj=1.72e-11),
    },
)
SPLIT = UncertaintyTruth(
    tissue="thymus",
    pathway="HALLMARK_ADIPOGENESIS",
    missions_up=("RR-9",),
    missions_down=("RR-6",),
    missions_ns=("MHU-2",),
)

TRUE = (
    "RR-9 (NES -2.2), MHU-2 (NES -1.1, not significant)",
    "not significant (padj = 0.256) in MHU-2",
    "NES -1.08 and -3.05 in MHU-2 and RR-6",
    "It falls in RR-6 (NES -3.05, padj 1.7e-24).",
    "NES = -3.05 in RR-6",
    "NES -3.1 in RR-6",
    "The NES of RR-6 is about -3.",
    "NES is -2.5",
    "NES values between -3.05 and -1.08",
    "NES < 0 in all missions",
    "It is down (negative NES).",
    "significant in 2 of 3 missions",
    "significant in two of the three missions",
    "in 2 of 3 missions significant",
    "not significant in 1 of 3 missions",
    "down in all three missions",
    "down in 2 of 3 missions",
    "significant in some missions",
    "n.s. in MHU-2",
    "not significant in MHU-2",
    "padj < 0.05",
    "padj < 0.001 in RR-6",
    "FDR 0.01",
    "MHU-2 has padj = 0.3",
    "p = 0.3 in MHU-2",
    "down in MHU-2, RR-6 and RR-9",
    "This has significant implications.",
    "In liver, NES is 5.",
    "Glycolysis is up. Its NES is 2.1.",
    "If NES were 5, it would be up.",
    "",
)
FALSE = (
    "NES = -1.2 in RR-6",
    "The NES of RR-6 is -1.2.",
    "NES -3.05 and -1.08 in MHU-2 and RR-6",
    "MHU-2: NES -1.08; RR-6: NES -3.05; RR-9: NES 2.23",
    "NES is -4.0",
    "NES 2.2 in RR-9",
    "NES > 0 in RR-9",
    "positive NES",
    "The NES is positive in RR-6.",
    "RR-9 (NES -2.2, padj 0.01)",
    "FDR 0.01 in RR-6",
    "p = 0.3",
    "p = 0.3 in RR-6",
    "ns in RR-6",
    "significant in MHU-2",
    "It is not significant.",
    "significant in all missions",
    "significant in 3 of 3 missions",
    "significant in 1 of 3 missions",
    "significant in 2 of 6 missions (1 against)",
    "significant in 2 of 3 missions (1 against)",
    "up in MHU-2",
    "It is down, significant in a single mission.",
    "It goes down, in all six missions.",
    "It goes down in thymus, in 5 of 5 missions.",
    "It goes down in every one of 7 missions.",
    "It goes down. Four missions agree.",
    "down in 1 of 3 missions",
    "The NES of RR-17 is 5.",
    "down in RR-17",
)


@pytest.mark.parametrize("answer", TRUE)
def test_a_true_or_unknowable_statement_of_enrichment_is_no_fault(answer: str) -> None:
    assert enrichment_faults(DIRECT, read(answer, QUESTION), QUESTION) == ()


@pytest.mark.parametrize("answer", FALSE)
def test_a_false_statement_of_enrichment_is_named(answer: str) -> None:
    assert enrichment_faults(DIRECT, read(answer, QUESTION), QUESTION)


@pytest.mark.parametrize(
    ("answer", "is_false"),
    [
        ("up in RR-9 and down in RR-6", False),
        ("up in RR-6 and down in RR-9", True),
        ("NES 1.9 in RR-9", False),
        ("NES -1.9 in RR-9", True),
        ("MHU-2 is not significant.", False),
        ("It is significant in MHU-2.", True),
        ("RR-6 is not significant.", True),
        ("significant in 2 of 3 missions", False),
        ("significant in 3 of 3 missions", True),
    ],
)
def test_where_missions_disagree_their_sides_are_checked(answer: str, is_false: bool) -> None:
    assert bool(enrichment_faults(SPLIT, read(answer, QUESTION), QUESTION)) == is_false


def test_a_truth_without_missions_knows_no_fault() -> None:
    bare = DIRECT.model_copy(update={"missions": {}})
    several = ComparisonTruth(
        pathway=DIRECT.pathway, tissue_directions={"liver": "UP"}, is_consistent=True
    )
    for truth in (bare, several):
        assert enrichment_faults(truth, read("NES is 9 in RR-6", QUESTION), QUESTION) == ()


def test_no_gold_answer_has_a_fault() -> None:
    examples = [example for name in DATASETS for example in DATASETS[name]()]
    faults = {
        example.id: found
        for example in examples
        if (
            found := enrichment_faults(
                example.ground_truth, read(example.answer, example.prompt), example.prompt
            )
        )
    }
    assert faults == {}
