"""What in an answer contradicts itself, whatever the data say."""

import pytest

from evals.questions import DATASETS
from evals.schema import (
    ComparisonTruth,
    CountTruth,
    DirectTruth,
    Enrichment,
    GroundTruth,
    LabelTruth,
    UncertaintyTruth,
)
from evals.verifiers.consistency import self_contradictions
from evals.verifiers.reading import read

CLASS = LabelTruth(
    value="Type A",
    subject="soleus",
    accept=("class A", "stress-activated"),
    others=("Type B", "Type C", "baseline-active", "stress-blocked"),
)
PATTERN = LabelTruth(value="rescue", subject="soleus", others=("suppression", "KMP only"))
COUNT = CountTruth(value=165, subject="HU alone in heart")
DIRECT = DirectTruth(
    tissue="thymus",
    pathway="HALLMARK_HYPOXIA",
    direction="UP",
    missions={
        "RR-6": Enrichment(nes=1.5, padj=0.01),
        "RR-9": Enrichment(nes=1.4, padj=0.01),
        "MHU-2": Enrichment(nes=-1.0, padj=0.2),
    },
)
SPLIT = UncertaintyTruth(
    tissue="thymus",
    pathway="HALLMARK_HYPOXIA",
    missions_up=("RR-6",),
    missions_down=("RR-9",),
    missions_ns=("MHU-2",),
)
TISSUES = ComparisonTruth(
    pathway="HALLMARK_HYPOXIA",
    tissue_directions={"liver": "UP", "kidney": "DOWN", "eye": "UP"},
    is_consistent=False,
)
QUOTES_RIGHT = "A summary gives 165 DEGs for HU alone in heart. Does that match the table?"
QUOTES_WRONG = QUOTES_RIGHT.replace("165", "156")
AGREE = "Do spaceflight missions agree on the direction of hypoxia in mouse thymus?"

TORN = [
    (DIRECT, "", "It is significant in all missions. It is significant in no mission."),
    (DIRECT, "", "NES -2.0 in RR-6. NES -3.5 in RR-6."),
    (DIRECT, "", "significant in 2 of 3 missions. It is significant in 3 of 3 missions."),
    (COUNT, "", "HU has 155 DEGs in liver. HU has 166 DEGs in liver."),
    (CLASS, "", "Soleus is Type A, because kaempferol acts mainly without stress."),
    (CLASS, "", "Soleus is Type A (baseline-active)."),
    (CLASS, "", "Soleus is Type B, since KMP acts mainly under stress."),
    (CLASS, "", "Soleus is Type C because KMP is most active under stress."),
    (CLASS, "", "Soleus is Type A. It acts mainly at baseline."),
    (CLASS, "", "Type A. Type B."),
    (
        PATTERN,
        "",
        "In soleus OXPHOS shows the rescue pattern: stress raises it and kaempferol lowers it.",
    ),
    (PATTERN, "", "Rescue, because kaempferol suppresses OXPHOS in soleus."),
    (PATTERN, "", "In soleus it is the KMP only pattern, since stress lowers OXPHOS."),
    (COUNT, "", "Heart has more DEGs than liver: 165 against 4,110."),
    (
        COUNT,
        "",
        "HU gives 165 DEGs in heart. In liver, HU gives 4,110 DEGs. HU gives 33 DEGs in liver.",
    ),
    (COUNT, "", "In heart, HU and IR give 910 DEGs: 334 upregulated and 500 downregulated."),
    (COUNT, QUOTES_RIGHT, "No, it does not. HU alone gives 165 DEGs in heart."),
    (COUNT, QUOTES_WRONG, "Yes, it matches. HU alone gives 165 DEGs in heart."),
    (DIRECT, "", "It is up. It is down."),
    (
        DIRECT,
        "",
        "Hypoxia is up in thymus. Glycolysis is up in liver. Glycolysis is down in liver.",
    ),
    (DIRECT, "", "All missions agree: up in RR-6, down in MHU-2."),
    (DIRECT, "", "It is upregulated, significant in 3 of 3 missions (1 against)."),
    (DIRECT, "", "It is up in thymus. In the thymus it is not up."),
    (DIRECT, "", "It is up in RR-6 and down in RR-6."),
    (DIRECT, "", "It is up (NES = -1.9)."),
    (DIRECT, "", "significant in 5 of 3 missions"),
    (SPLIT, AGREE, "Yes, the missions disagree."),
    (SPLIT, AGREE, "No, all missions agree."),
    (SPLIT, AGREE, "Missions disagree. Missions agree."),
    (TISSUES, "", "It is the same in all tissues: up in liver, down in kidney."),
    (TISSUES, "", "It differs between tissues: up in liver, up in kidney and up in eye."),
    (TISSUES, "", "It differs between tissues. It is the same in all tissues."),
]
SOUND = [
    (DIRECT, "", "significant in 2 of 3 missions, not significant in 1 of 3 missions"),
    (CLASS, "", "Soleus is Type A (stress-activated)."),
    (CLASS, "", "Soleus is Type A, because kaempferol acts mainly under stress."),
    (CLASS, "", "Soleus is Type A, not Type B."),
    (CLASS, "", "Soleus is Type A. Hippocampus is Type B, where KMP acts mainly without stress."),
    (CLASS, "", "Liver is Type C: stress takes the effect away."),
    (CLASS, "", "Soleus is Type A: KMP does nothing without stress."),
    (CLASS, "", "Unlike liver (Type C), soleus is Type A."),
    (
        CLASS,
        "",
        "Hippocampus is Type B (baseline-active): KMP changes far more genes there without stress.",
    ),
    (
        PATTERN,
        "",
        "In soleus OXPHOS shows the rescue pattern: stress lowers it and kaempferol raises it.",
    ),
    (PATTERN, "", "Rescue."),
    (
        PATTERN,
        "",
        "In liver it is the suppression pattern: stress raises OXPHOS and kaempferol lowers it.",
    ),
    (COUNT, "", "Liver has more DEGs than heart: 4,110 against 165."),
    (COUNT, "", "HU gives 165 DEGs in heart and IR gives 33 DEGs in heart."),
    (COUNT, "", "In heart, HU and IR give 910 DEGs: 334 upregulated and 576 downregulated."),
    (
        COUNT,
        "",
        "Alone, the two stressors give 4,110 and 1,273 DEGs in liver, 5,383 in sum. Combined they give 6,213.",
    ),
    (COUNT, QUOTES_RIGHT, "Yes. HU alone gives 165 DEGs in heart."),
    (COUNT, QUOTES_RIGHT, "HU alone gives 165 DEGs in heart."),
    (COUNT, QUOTES_WRONG, "No. HU alone gives 165 DEGs in heart."),
    (DIRECT, "", "It is up in thymus."),
    (DIRECT, "", "It is up in RR-6 and RR-9, but down in MHU-2."),
    (DIRECT, "", "Up in thymus, down in liver."),
    (DIRECT, "", "It is upregulated, significant in 2 of 3 missions (1 against)."),
    (DIRECT, "", "It is up overall, though down in MHU-2."),
    (SPLIT, AGREE, "No, the missions disagree: up in RR-6, down in RR-9."),
    (SPLIT, AGREE, "Missions disagree."),
    (SPLIT, AGREE, "No."),
    (SPLIT, AGREE, "Two of three missions agree, but RR-9 differs."),
    (TISSUES, "", "It differs between tissues: up in liver and eye, down in kidney."),
    (TISSUES, "", "Up in liver."),
    (TISSUES, "", "The same direction in liver and eye, but not in kidney."),
]


@pytest.mark.parametrize(("truth", "question", "answer"), TORN)
def test_an_answer_that_contradicts_itself_is_told_so(
    truth: GroundTruth, question: str, answer: str
) -> None:
    assert self_contradictions(read(answer, question), truth, question)


@pytest.mark.parametrize(("truth", "question", "answer"), SOUND)
def test_an_answer_at_one_with_itself_is_left_alone(
    truth: GroundTruth, question: str, answer: str
) -> None:
    assert self_contradictions(read(answer, question), truth, question) == ()


def test_no_gold_answer_contradicts_itself() -> None:
    examples = [example for name in DATASETS for example in DATASETS[name]()]
    torn = {
        example.id: found
        for example in examples
        if (
            found := self_contradictions(
                read(example.answer, example.prompt), example.ground_truth, example.prompt
            )
        )
    }
    assert torn == {}
