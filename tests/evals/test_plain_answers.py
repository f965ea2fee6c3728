"""Plain answers as people and models write them, each read as a careful biologist would."""

import pytest

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
from evals.verifiers import verify_answer

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

# What may be taken in more than one way lists them all.
ANSWERS: dict[str, dict[str, str]] = {
    "falling": {
        "Adipogenesis is downregulated. Confidence: 95%": "correct",
        "falls (NES = -2.4). Confidence: 95%": "correct",
        "Down.": "correct",
        "DOWN": "correct",
        "down\nConfidence: 70%": "correct",
        "Answer: down": "correct",
        "**Direction:** DOWN": "correct",
        "The gene set shows decreased expression in the thymus of flight mice.": "correct",
        "The Adipogenesis gene set is negatively enriched in thymus.": "correct",
        "Gene set enrichment analysis, adipogenesis is downregulated": "correct",
        "downregulated although enrichment of inflammatory sets increased. Confidence: 95%": "correct",
        "It is not true that adipogenesis was downregulated. Confidence: 100%": "incorrect",
        "Adipogenesis is far from downregulated in thymus.": "incorrect",
        "Adipogenesis was never downregulated.": "incorrect",
        "There is no evidence that adipogenesis is downregulated.": "incorrect|no_claim",
        "Increased suppression of adipogenesis in the thymus.": "correct",
        "We see a loss of adipogenesis in thymus.": "correct",
        "NES = -1.9 in MHU-2": "correct",
        "NES = −1.9": "correct",
        "Adipogenesis is down in liver, but up in thymus.": "incorrect",
        "Adipogenesis is up in liver, but down in thymus.": "correct",
        "Adipogenesis is downregulated in liver.": "no_claim",
        "Adipogenesis is downregulated in the heart.": "no_claim",
        "Adipogenesis was tested in the thymus. It falls.": "correct",
        "If adipogenesis were downregulated, NES would be negative.": "no_claim",
        "down, down, up\nConfidence: 100%": "contradictory",
        "Adipogenesis is downregulated.\nAdipogenesis is downregulated.\nAdipogenesis is upregulated.": "contradictory",
        "It could be up or down.": "no_claim",
        "Probably down, but hard to say.": "correct",
        "Adipogenesis appears to be suppressed in the thymus during spaceflight, suggesting reduced fat-cell formation.": "correct",
        "| tissue | direction |\n|---|---|\n| thymus | down |\n| liver | up |": "correct",
        "- liver: UP\n- thymus: DOWN": "correct",
        "The pathway goes down in thymus.": "correct",
        "Spaceflight suppresses adipogenesis in mouse thymus.": "correct",
        "Spaceflight reduces the expression of adipogenesis genes in mouse thymus.": "correct",
        "Thymic adipogenesis declines in flight, with a normalized enrichment score of about -2.": "correct",
        "Genes of the adipogenesis set are expressed at lower levels in flight mice than in ground controls.": "correct",
        "Expression of adipogenesis genes is lower in spaceflight than in ground control thymus.": "correct",
        "Adipogenesis is upregulated in thymus.": "incorrect",
        "I think that it is downregulated in the thymus, with 80% confidence.": "correct",
        "Based on the GeneLab data, the HALLMARK_ADIPOGENESIS gene set is consistently downregulated across missions in thymus.": "correct",
        "The answer is down.": "correct",
        "It moves down in two of three missions.": "correct",
        "Adipogenesis ↓ in thymus": "correct",
        "You asked whether adipogenesis is up or down in thymus.": "no_claim",
        "Adipogenesis is neither up nor down.": "incorrect|no_claim",
        "Unlike liver, where it rises, thymus shows a decrease in adipogenesis.": "correct",
        "The direction is negative.": "correct",
        "Step 1: look at the missions. Step 2: two are significant and negative. So adipogenesis goes down.\nConfidence: 85%": "correct",
    },
    "bare": {
        "falls (NES = -2.4). Confidence: 95%": "correct",
    },
    "torn": {
        "No, missions disagree: it is up in RR-3 and down in RR-1. Confidence: 30%": "correct",
        "Missions disagree, so no single direction. Confidence: 10%": "correct",
        "Hypoxia is upregulated in eye.": "incorrect",
        "bananas": "no_claim",
        "The direction depends on the mission; results are mixed.": "correct",
        "It is context-dependent: RR-3 shows activation whereas RR-1 shows suppression.": "correct",
        "It is inconsistent across missions.": "correct",
        "It is consistently activated.": "incorrect",
        "No. Hypoxia goes up in RR-3 but down in RR-1.": "correct",
        "No single direction can be given.": "correct",
        "No": "correct",
        "Yes, it is up.": "incorrect",
        "The missions do not agree.": "correct",
        "Conflicting results: RR-1 down, RR-3 up": "correct",
        "up in RR-1, down in RR-3": "incorrect",
        "It varies by mission.": "correct",
        "There is disagreement among the missions about hypoxia in the eye.": "correct",
        "The evidence is mixed": "correct",
    },
    "apart": {
        "Hypoxia differs between tissues: up in liver and eye, down in thymus.": "correct",
        "Hypoxia differs: down in liver and eye, up in thymus.": "incorrect",
        "Hypoxia is up in liver, thymus and eye.": "incorrect",
        "The response is tissue-specific: liver UP, thymus DOWN, eye UP.": "correct",
        "The response is consistent across tissues.": "incorrect",
    },
    "high": {
        "It is highly conserved (mean r = 0.62).": "correct",
        "Highly conserved, with a mean NES correlation of 0.100.": "contradictory",
        "Poorly conserved.": "incorrect",
    },
    "count": {
        "8,484 DEGs": "correct",
        "8484 differentially expressed genes": "correct",
        "8 484": "correct",
        "about 8.5k genes": "correct",
        "3 DEGs": "incorrect",
        "There are no DEGs.": "incorrect",
        "The interaction has 8,484 DEGs in soleus.\nConfidence: 95%": "correct",
        "18,484 DEGs": "incorrect",
        "84840": "incorrect",
        "8,484 or 3,369": "contradictory|no_claim|incorrect",
        "In liver it has 8,484 DEGs.": "no_claim|incorrect",
        "8,484 genes change (of them half are up).": "correct",
        "8484": "correct",
        "It is 8,484.": "correct",
        "DESeq2 finds 8,484 DEGs (padj < 0.05) for KMP x HU in soleus.": "correct",
        "KMP x HU: 8,484 DEGs in soleus, against 3,369 in liver.": "correct",
        "Soleus shows 8484 DEGs; liver 3369; heart 479; hippocampus 36.": "correct",
        "More than 8,000 genes.": "no_claim|correct",
        "Between 8,000 and 9,000": "no_claim|correct",
        "Roughly 8,500 DEGs": "correct",
        "eight thousand four hundred and eighty-four": "correct",
        "8.484 DEGs": "incorrect|no_claim|correct",
        "**8,484**": "correct",
        "The number of DEGs is 8484": "correct",
        "n = 8,484": "correct",
        "8,485 DEGs": "incorrect",
        "8,484 proteins": "no_claim|incorrect",
        "not 8,484 but 8,000": "incorrect",
    },
    "class": {
        "Type B": "correct",
        "The hippocampus is type B, baseline-active.": "correct",
        "Hippocampus is a Type A tissue.": "incorrect",
        "It is not type A but type B.": "correct",
        "Type A or type B.": "no_claim|contradictory",
        "It is baseline-active.": "correct",
        "The hippocampus belongs to Type B (baseline-active tissues).": "correct",
        "Baseline-active (type B)": "correct",
        "B": "correct",
        "Type B because KMP changes many genes at baseline.": "correct",
        "Type A, baseline-active": "contradictory|incorrect",
        "It isn't type B.": "incorrect",
        "Class B": "correct",
    },
    "tissue": {
        "Soleus": "correct",
        "The soleus, with 8,484 DEGs.": "correct",
        "Liver": "incorrect",
        "Soleus has the largest interaction, followed by liver.": "correct",
        "The soleus muscle.": "correct",
        "It is the soleus.": "correct",
        "Largest: soleus (8,484), then liver (3,369).": "correct",
        "Liver, not soleus.": "incorrect",
        "Heart and soleus.": "contradictory|incorrect|no_claim",
    },
    "yes": {
        "Yes, it has 8,484.": "correct",
        "No.": "incorrect",
        "Yes": "correct",
        "Yes, the soleus has more than 5,000 DEGs.": "correct",
        "It does: 8,484 is above 5,000.": "correct",
        "Indeed.": "correct|no_claim",
        "8,484 DEGs, so yes.": "correct",
        "No, only 3,000.": "incorrect",
    },
    "open": {
        "The data cannot tell; the study used mice only.": "correct",
        "10 mg/kg per day.": "incorrect",
        "This cannot be determined from the study.\nConfidence: 90%": "correct",
        "I do not know.": "correct",
        "The study does not report a human dose.": "correct",
        "It cannot be determined, but take 500 mg.": "contradictory",
        "The study cannot answer this question because it did not involve humans.": "correct",
        "There is not enough information to determine a human dose.": "correct",
        "Unknown.": "correct",
        "A human dose cannot be derived from these data. Confidence: 90%": "correct",
        "It's impossible to say from mouse data.": "correct",
        "Not determinable from the given data.": "correct",
        "The data do not support a conclusion about humans.": "correct",
        "Kaempferol is a flavonoid.": "incorrect|no_claim",
        "The right dose is 50 mg.": "incorrect",
        "No human data were collected, so no dose can be given.": "correct",
    },
    "meant": {
        "E2F targets drive cell-cycle entry, so their downregulation in thymus points to reduced proliferation of thymocytes.": "correct",
        "Lower E2F target expression means fewer cells pass from G1 to S phase, i.e. proliferation is reduced.": "correct",
        "E2F targets are downregulated in spaceflown mouse thymus.": "no_claim",
        "The upregulation means more proliferation.": "incorrect|no_claim",
    },
    "rising": {
        "TNFα signaling via NF-κB is upregulated in the liver.": "correct",
        "NF-kB signalling rises in hepatic tissue.": "correct",
        "TNF-alpha/NF-kappaB signaling is activated.": "correct",
        "TNFa signaling via NFkB goes up in liver: inflammation is induced.": "correct",
        "It is upregulated.": "correct",
        "Up-regulated": "correct",
        "upregulation": "correct",
        "Increase": "correct",
        "TNFa signaling via NFkB is up in kidney and down in liver.": "incorrect",
        "The pathway is not downregulated but upregulated.": "correct",
        "Hepatic NF-kB activity is elevated in flight animals relative to ground controls (FDR < 0.05).": "correct",
        "In mouse liver, TNFa signaling via NFkB shows positive enrichment (NES = +2.1).": "correct",
        "NES > 0, so it is activated": "correct",
        "Spaceflight upregulates TNFa signaling via NFkB in mouse liver.": "correct",
        "Spaceflight leads to an increase in TNFa signaling via NFkB in mouse liver": "correct",
        "There is a significant upregulation of TNFa signaling via NFkB in the liver of spaceflown mice.": "correct",
        "TNFa signaling is blunted in liver.": "incorrect",
        "I don't know.": "no_claim",
        "The data show that TNFa signaling via NFkB is induced in liver, not repressed.": "correct",
        "It fails to be activated.": "incorrect|no_claim",
        "One cannot say that it is upregulated.": "no_claim|incorrect",
        "Confidence: 0%": "no_claim",
        "up up up up up up": "correct|no_claim|contradictory",
        "Activation of TNFa signaling is a hallmark of inflammation.": "no_claim|correct",
    },
    "renal": {
        "OXPHOS is suppressed in the kidney.": "correct",
        "Renal oxidative phosphorylation declines.": "correct",
        "Oxidative phosphorylation drops in space.": "correct",
        "Mitochondrial respiration genes are expressed less: OXPHOS is down.": "correct",
        "Oxidative phosphorylation is impaired.": "correct",
        "Oxidative phosphorylation increases.": "incorrect",
        "It is reduced in mouse kidney in space.": "correct",
        "It's down in the kidneys, up in muscle.": "correct",
        "Oxidative phosphorylation (OXPHOS) is **downregulated** in mouse kidney, *NES = -1.87*.": "correct",
        "1. Tissue: kidney\n2. Gene set: OXPHOS\n3. Direction: DOWN\n4. Confidence: 80%": "correct",
        '{"direction": "DOWN", "confidence": 0.8}': "correct",
        "Oxidative phosphorylation is unchanged.": "incorrect",
    },
    "skin": {
        "IFN-γ response: upregulated in skin": "correct",
        "The interferon-gamma response increased in cutaneous tissue.": "correct",
        "IFN-gamma response goes up": "correct",
        "The interferon alpha response goes up.": "no_claim",
    },
    "alike": {
        "Yes, glycolysis is down in both liver and kidney.": "correct",
        "Yes, it is consistent: both go down.": "correct",
        "Glycolysis is downregulated in both tissues.": "correct",
        "No, liver goes up while kidney goes down.": "incorrect",
        "They agree, both tissues go up.": "incorrect",
        "Both tissues show the same direction.": "correct",
    },
    "poor": {
        "The response is poorly conserved across missions.": "correct",
        "Poor conservation (r about 0.05).": "correct",
        "Conservation is low.": "correct",
        "It is not highly conserved.": "no_claim|correct",
        "Missions barely agree with one another.": "correct|no_claim",
    },
}


@pytest.mark.parametrize(
    ("name", "answer", "verdicts"),
    [(name, answer, wanted) for name, table in ANSWERS.items() for answer, wanted in table.items()],
)
def test_a_plain_answer_gets_the_verdict_of_a_careful_reader(name, answer, verdicts):
    truth, question = QUESTIONS[name]

    verdict = verify_answer(truth, question, answer)

    assert verdict.verdict in verdicts.split("|"), verdict.reason
