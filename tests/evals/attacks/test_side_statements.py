"""A right answer with false details loses V2, one that contradicts itself loses V3; the verdict stays."""

import pytest

from evals.schema import Example, Verdict
from evals.verifiers import verify
from tests.evals.attacks.policies import questions
from tests.evals.attacks.truths import CONFIDENCE

BY_ID = {example.id: example for example in questions()}
QUESTION = BY_ID["genelab/direct/thymus/HALLMARK_ADIPOGENESIS"]
CLAIM = "Adipogenesis is downregulated in mouse thymus"
"""MHU-2: NES -1.08, padj 0.26. RR-6: NES -3.05, padj 2e-24. RR-9: NES -2.23, padj 2e-11."""

FALSE_DETAILS = (
    ", significant in 2 of 6 missions (1 against).",
    ", significant in 3 of 3 missions.",
    ", significant in 2 of 3 missions (1 against).",
    ", significant in all missions.",
    ", significant in no mission.",
    ", significant in a single mission.",
    ", not significant in RR-6.",
    ", significant in MHU-2.",
    ", NES -5.0.",
    " (NES = -0.2).",
    ", NES -1.5 in RR-6.",
    ", NES -3.05 in RR-9.",
    ", with NES -3.1 in MHU-2.",
    ", padj 0.5 in RR-6.",
    ", padj < 0.001 in MHU-2.",
    ", NES between -9 and -5.",
    ", significant in both missions.",
    ", in all six missions.",
    ", in 5 of 5 missions.",
    ". It is not significant in RR-6 (p = 0.9).",
    ", mean NES -9.",
    ", FDR 0.4 in all missions.",
    " in RR-1 and RR-3.",
    " in RR-1.",
    " in MHU-2, RR-6 and RR-1.",
    ". It is down in RR-23.",
    ", in MHU-8 too.",
    ", NES -2.0 in RR-1.",
    ": RR-1 -2.0.",
    ": MHU-2 (-3.9).",
    ": MHU-2 -3.9.",
    ": MHU-2 = -3.9.",
    " (MHU-2 +1.1).",
    ": MHU-2 -3.9, RR-6 -3.1, RR-9 -2.2.",
    ": MHU-2 -1.1, RR-6 -3.1, RR-9 -3.2.",
    ", MHU-2: -3.9; RR-6: -3.1.",
    ".\n- MHU-2: -3.9\n- RR-6: -3.1",
)
TRUE_DETAILS = (
    ".",
    ", significant in 2 of 3 missions.",
    ", significant in two of three missions.",
    ", significant in most missions.",
    ", NES -3.05 in RR-6.",
    ", NES -3.1 in RR-6 and -2.2 in RR-9.",
    ", NES from -3.1 to -1.1.",
    ", padj 1.7e-24 in RR-6.",
    ", not significant in MHU-2.",
    ", significant in RR-6 and RR-9.",
    ", down in all three missions.",
    ", p < 0.05 in RR-9.",
    " in RR-6 and RR-9.",
    " in MHU-2.",
    ": MHU-2 (-1.1).",
    ": MHU-2 -1.1, RR-6 -3.1, RR-9 -2.2.",
    ".\n- MHU-2: -1.1\n- RR-6: -3.05",
    ": MHU-2 (log2FC -3.9).",
    ": MHU-2 -3.9 log2FC.",
    ": RR-6 - significant.",
    " in some missions.",
    ", not in RR-1.",
    ", unlike in RR-1.",
    ". RR-1 did not fly thymus.",
    ". RR-1 and RR-3 sampled liver.",
    ". In liver it is up in RR-1.",
    ". Glycolysis: RR-6 -9.9.",
    ": RR-6 -3.1 and in liver RR-1 -3.9.",
)
SELF_CONTRADICTIONS = (
    ". Hypoxia is up in thymus. Hypoxia is down in thymus.",
    ", significant in 3 of 3 missions (1 against).",
    ", significant in 4 of 3 missions.",
    ". Missions agree. Missions disagree.",
    ". In liver it is up. In liver it is down.",
    ", significant in 2 of 3 missions. It is significant in 3 of 3 missions.",
)
CONSISTENT = (
    ". In liver it is up.",
    ". Hypoxia is up.",
    "; apoptosis and hypoxia are up in thymus.",
    " but up in liver, while hypoxia is down in liver.",
)


def judged(details: str) -> Verdict:
    """Return the verdict on the right claim with these details."""
    return verify(QUESTION, CLAIM + details + CONFIDENCE)


@pytest.mark.parametrize("details", FALSE_DETAILS)
def test_a_false_detail_costs_v2(details: str) -> None:
    verdict = judged(details)
    assert verdict.verdict in ("correct", "contradictory")
    assert verdict.scores["V2"] == 0.0


@pytest.mark.parametrize("details", TRUE_DETAILS)
def test_a_true_detail_costs_nothing(details: str) -> None:
    assert judged(details).scores == judged(".").scores
    assert judged(details).scores["V2"] == 1.0


@pytest.mark.parametrize("details", SELF_CONTRADICTIONS)
def test_a_side_statement_that_contradicts_another_costs_v3(details: str) -> None:
    assert judged(details).scores["V3"] == 0.0


@pytest.mark.parametrize("details", CONSISTENT)
def test_speaking_of_other_tissues_and_sets_costs_nothing(details: str) -> None:
    assert judged(details).scores == judged(".").scores


@pytest.mark.parametrize("example", questions(), ids=lambda example: example.id)
def test_which_verifiers_apply_does_not_depend_on_the_answer(example: Example) -> None:
    texts = (
        "",
        "bananas",
        example.answer,
        example.prompt,
        "It is up.",
        "NES = -9 in RR-6.",
        "Yes.",
    )
    patterns = {
        tuple(name for name, score in verify(example, text).scores.items() if score is not None)
        for text in texts
    }
    assert len(patterns) == 1
