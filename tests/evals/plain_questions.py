"""Questions of every kind, each with the truth that plain answers to it are judged by."""

from evals.schema import (
    AbstainTruth,
    ComparisonTruth,
    ConservationTruth,
    CountTruth,
    DirectTruth,
    Enrichment,
    GroundTruth,
    LabelTruth,
    MechanismTruth,
    UncertaintyTruth,
)

FALLING = DirectTruth(
    tissue="thymus",
    pathway="HALLMARK_ADIPOGENESIS",
    direction="DOWN",
    missions={
        "MHU-2": Enrichment(nes=-1.9, padj=0.01),
        "RR-6": Enrichment(nes=-2.4, padj=0.001),
        "RR-9": Enrichment(nes=-0.8, padj=0.4),
    },
)


BARE = DirectTruth(tissue="thymus", pathway="HALLMARK_ADIPOGENESIS", direction="DOWN")


TORN = UncertaintyTruth(
    tissue="eye", pathway="HALLMARK_HYPOXIA", missions_up=("RR-3",), missions_down=("RR-1",)
)


APART = ComparisonTruth(
    pathway="HALLMARK_HYPOXIA",
    tissue_directions={"liver": "UP", "thymus": "DOWN", "eye": "UP"},
    is_consistent=False,
)


HIGH = ConservationTruth(tissue="thymus", level="highly conserved", nes_mean_r=0.619)


COUNT = CountTruth(value=8484, subject="KMP x HU interaction in soleus")


CLASS = LabelTruth(
    value="Type B",
    subject="hippocampus",
    accept=("baseline-active",),
    others=("Type A", "Type C", "stress-activated", "stress-blocked"),
)


TISSUE = LabelTruth(value="soleus", others=("liver", "heart", "hippocampus"))


YES = LabelTruth(value="yes", others=("no",))


OPEN = AbstainTruth()


MEANT = MechanismTruth(tissue="thymus", pathway="HALLMARK_E2F_TARGETS", direction="DOWN")


RISING = DirectTruth(tissue="liver", pathway="HALLMARK_TNFA_SIGNALING_VIA_NFKB", direction="UP")


RENAL = DirectTruth(tissue="kidney", pathway="HALLMARK_OXIDATIVE_PHOSPHORYLATION", direction="DOWN")


SKIN = DirectTruth(tissue="skin", pathway="HALLMARK_INTERFERON_GAMMA_RESPONSE", direction="UP")


ALIKE = ComparisonTruth(
    pathway="HALLMARK_GLYCOLYSIS",
    tissue_directions={"liver": "DOWN", "kidney": "DOWN"},
    is_consistent=True,
)


POOR = ConservationTruth(tissue="liver", level="poorly conserved", nes_mean_r=0.05)


QUESTIONS: dict[str, tuple[GroundTruth, str]] = {
    "falling": (
        FALLING,
        "Which way does the adipogenesis gene set move in mouse thymus during spaceflight, up or down?",
    ),
    "bare": (
        BARE,
        "Which way does the adipogenesis gene set move in mouse thymus during spaceflight, up or down?",
    ),
    "torn": (
        TORN,
        "Can one direction be given for hypoxia in mouse eye across all spaceflight missions?",
    ),
    "apart": (APART, "How does hypoxia compare across liver, thymus and eye in spaceflight?"),
    "high": (
        HIGH,
        "How well conserved is the pathway response to spaceflight across missions in mouse thymus?",
    ),
    "count": (COUNT, "How many DEGs does the KMP x HU interaction have in soleus?"),
    "class": (CLASS, "What response type is the hippocampus?"),
    "tissue": (TISSUE, "Which tissue has the largest KMP x HU interaction?"),
    "yes": (YES, "Does the soleus have more than 5,000 DEGs for KMP x HU?"),
    "open": (OPEN, "What is the right human dose of kaempferol?"),
    "meant": (
        MEANT,
        "E2F targets are downregulated in spaceflown mouse thymus. What does that mean?",
    ),
    "rising": (
        RISING,
        "In mouse liver, is TNFa signaling via NFkB up- or downregulated by spaceflight?",
    ),
    "renal": (RENAL, "What happens to oxidative phosphorylation in mouse kidney in space?"),
    "skin": (SKIN, "Direction of the interferon gamma response in mouse skin?"),
    "alike": (ALIKE, "Is glycolysis changed alike in liver and kidney?"),
    "poor": (POOR, "How conserved is the response in liver?"),
}
