"""Questions about what the study cannot say, what in it is in doubt, and how far a reading goes.

None of the five topics of the test set (dose, astronauts, one gene, transfer to people, duration)
is touched here.
"""

from collections.abc import Iterator

from evals.questions.kmp.draft import Draft
from evals.questions.pathways import (
    DEFINED,
    DERIVED,
    DOUBTED,
    LIMIT,
    NOT_SIGNIFICANT,
    READ_INTO,
    SECONDARY,
    SUGGESTED,
)
from evals.schema import AbstainTruth, FactsTruth

UNKNOWN = (
    ("sex", "Do female and male mice differ in their response to KMP?", "How does sex change the soleus response?", "the tables do not split by sex"),
    ("age", "Would old mice respond to kaempferol like young ones?", "How does age alter the KMP effect?", "age groups were not compared"),
    ("kidney", "What does kaempferol do to gene expression in the kidney?", "How many DEGs does KMP give in kidney?", "kidney is not among the four tissues"),
    ("lung", "How many lung genes does HU change in this study?", "Is the lung Type A, B or C?", "lung is not among the four tissues"),
    ("bone", "Does KMP protect bone during unloading?", "How does bone respond to HU in this study?", "bone is not among the four tissues"),
    ("protein", "Does the OXPHOS rescue show up at the protein level?", "How do protein amounts change with KMP in heart?", "the tables hold gene expression, not proteins"),
    ("time_course", "When after the start of unloading do soleus genes begin to change?", "How do the DEG counts develop from day to day?", "the tables hold one figure per contrast, not a series"),
    ("quercetin", "Is quercetin better than kaempferol in soleus?", "How many genes would quercetin change in liver?", "kaempferol is the only compound tested"),
    ("individual", "Which single mouse responded most strongly to KMP?", "Did every mouse in the KMP group respond?", "the tables show groups, not single animals"),
    ("reversal", "Do the gene changes go back to normal after HU ends?", "Is the liver response to stress reversible?", "the tables hold no recovery period"),
    ("cost", "What would a kaempferol treatment cost?", "Is KMP cheaper than exercise as a countermeasure?", "prices are no part of the study"),
    ("microbiome", "Does kaempferol work through gut bacteria?", "How does KMP change the microbiome?", "gut bacteria are not in the tables"),
    ("strength", "Are mice on KMP stronger after unloading?", "Does soleus force improve with kaempferol?", "muscle force is not in the tables"),
    ("behaviour", "Does kaempferol improve memory in irradiated mice?", "How does IR change learning in these mice?", "behaviour is not in the tables"),
    ("survival", "Does KMP lengthen the life of irradiated mice?", "What is the survival rate after combined stress?", "survival is not reported"),
    ("cell_type", "Which cell type in hippocampus answers to radiation?", "Are neurons or glia behind the hippocampus DEGs?", "the tables list whole tissues, not cell types"),
    ("blood", "What level of kaempferol was reached in the blood?", "How fast is KMP cleared from plasma?", "drug levels are not reported"),
    ("receptor", "Through which receptor does kaempferol act in heart?", "What does KMP bind to in liver cells?", "binding is not in the tables"),
    ("spaceflight", "How did soleus respond to KMP on the space station?", "Were these mice flown in orbit?", "stress was simulated on the ground, nothing was flown"),
    ("fold_change", "What is the mean fold change of the heart DEGs?", "How strongly does each soleus gene change under HU?", "the tables give counts, not sizes of change"),
    ("methylation", "Does combined stress alter DNA methylation in liver?", "Are the KMP effects epigenetic?", "methylation is not in the tables"),
    ("strain", "Would another mouse strain give the same classes?", "Do the classes depend on the genetic background?", "strains are not compared in the tables"),
    ("side_effects", "Does kaempferol have side effects in these mice?", "Is KMP toxic to the liver?", "the tables hold gene expression, not harm"),
    ("diet", "Did the KMP mice eat less than controls?", "How much weight did the unloaded mice lose?", "food intake and weight are not in the tables"),
    ("raw_data", "Can the DEG lists be recomputed from public raw data?", "Where are the raw reads of the KMP study?", "no raw data of the study are public"),
    ("cause", "Does OXPHOS cause the muscle loss in soleus?", "Is mitochondrial change the cause of the heart response?", "expression differences do not show cause"),
    ("overlap", "How many DEGs do heart and liver have in common under HU?", "Which DEGs of soleus are shared with hippocampus?", "overlaps between gene lists are not given"),
    ("radiation_kind", "Would protons change as many genes as the radiation used?", "How does the hippocampus react to heavy ions?", "kinds of radiation were not compared"),
)  # fmt: skip
"""Topic, two ways to ask, and why the data cannot answer."""

DOUBTS = (
    (
        "stands_twice",
        (
            "Why should the figure 4,110 be treated with care?",
            "Which DEG count of the KMP tables may be a copy error?",
            "Is there a suspicious repetition in the DEG tables?",
        ),
        "The figure 4,110 stands twice, for HU in liver and for KMP at baseline in hippocampus."
        " One of them may be a copy error, and no raw data can settle it.",
        DOUBTED,
    ),
    (
        "liver_hu_doubt",
        (
            "How reliable is the liver count for HU alone?",
            "Would you rely on the liver figure for hindlimb unloading?",
        ),
        "Only with care: 4,110 DEGs for HU in liver is also the baseline KMP figure of"
        " hippocampus, so one may be a copy.",
        DOUBTED,
    ),
    (
        "hippocampus_baseline_doubt",
        (
            "How reliable is the baseline KMP count of hippocampus?",
            "Would you rely on the hippocampus figure for KMP without stress?",
        ),
        "Only with care: 4,110 DEGs for KMP at baseline in hippocampus is also the HU figure of"
        " liver, so one may be a copy.",
        DOUBTED,
    ),
    (
        "hippocampus_class_doubt",
        ("How firm is the class of hippocampus?", "What does Type B for hippocampus rest on?"),
        "Type B for hippocampus rests on its baseline count of 4,110, a figure that stands twice in"
        " the tables. If that is a copy error, the class falls too.",
        SUGGESTED,
    ),
    (
        "hippocampus_oxphos_doubt",
        (
            "Does stress really raise OXPHOS in hippocampus?",
            "How much weight can the stress score of hippocampus OXPHOS bear?",
            "Is the OXPHOS change of stressed hippocampus significant?",
        ),
        "Little can be said: the OXPHOS score of hippocampus under stress, NES 0.931, is described as not significant.",
        NOT_SIGNIFICANT,
    ),
    (
        "splits_secondary",
        (
            "How well documented are the up and down counts?",
            "Are the directions of the DEGs as certain as their totals?",
        ),
        "Less well than the totals: the up and down counts come from later texts of the study, not from its tables.",
        SECONDARY,
    ),
    (
        "single_source",
        (
            "Have the DEG counts been confirmed by a second source?",
            "How many independent sources back the KMP tables?",
        ),
        "No second source confirms them: all figures come from one study's tables.",
        DERIVED,
    ),
    (
        "one_gene",
        (
            "What does a count of 1 DEG for KMP during HU in soleus tell?",
            "Is 1 DEG for KMP during HU in hippocampus an effect?",
        ),
        "Very little: a single gene below the threshold may be chance, so no effect should be claimed from it.",
        SUGGESTED,
    ),
)

READINGS = (
    (
        "interaction_soleus",
        (
            "What might the large KMP x HU interaction in soleus mean?",
            "How would you interpret 8,484 interaction DEGs in soleus?",
        ),
        "It suggests that the effect of kaempferol in soleus depends strongly on loading. The count"
        " alone does not show benefit or harm.",
        SUGGESTED,
    ),
    (
        "rescue_meaning",
        (
            "Does an OXPHOS rescue mean the muscle is healthier?",
            "What follows for function from the rescue pattern?",
        ),
        "Possibly, but it is not shown: rescue describes gene expression, and the tables hold no function.",
        READ_INTO,
    ),
    (
        "liver_suppression",
        (
            "Why might kaempferol suppress OXPHOS in liver?",
            "What could be behind the suppression pattern of liver?",
        ),
        "Stress raises OXPHOS in liver and kaempferol may be damping that rise. This is a reading,"
        " not a tested mechanism.",
        READ_INTO,
    ),
    (
        "tissue_specific",
        (
            "Is the kaempferol effect general or specific to tissues?",
            "Can one statement about KMP cover all four tissues?",
        ),
        "It looks specific: the four tissues fall into three classes, so a general statement about"
        " kaempferol is not supported.",
        SUGGESTED,
    ),
    (
        "hippocampus_radiation",
        (
            "Why could the hippocampus be sensitive to radiation?",
            "What might explain the 5,477 IR genes of hippocampus?",
        ),
        "Brain tissue may react strongly to oxidative damage, but the study counts genes and does not test the reason.",
        READ_INTO,
    ),
    (
        "group_size",
        (
            "Are about ten mice per group enough for firm conclusions?",
            "How does the group size limit the KMP study?",
        ),
        "About ten mice per group find strong effects, but small ones may be missed, so a low count"
        " is no proof of no effect.",
        SUGGESTED,
    ),
)

TERMS = (
    ("kmp", ("What does KMP stand for in this study?", "What is KMP?"), "KMP is kaempferol, a plant flavonoid that was given to the mice."),
    ("hu", ("What is hindlimb unloading?", "What does HU model?"), "Hindlimb unloading (HU) lifts the hind legs of a mouse off the floor; it models weightlessness."),
    ("ir", ("What does IR mean in the KMP study?", "What does the radiation factor model?"), "IR is ionizing radiation; it models the radiation of space, against a sham group."),
    ("deg", ("What is a DEG?", "When does a gene count as differentially expressed?"), "A DEG is a differentially expressed gene: its adjusted p-value (padj) is below 0.05."),
    ("padj", ("What is padj?", "Why are p-values adjusted?"), "The padj value is a p-value corrected for testing many genes at once, so fewer hits are chance."),
    ("nes", ("What is an NES?", "How is the sign of an enrichment score read?"), "NES is the normalised enrichment score of a gene set: above zero it is up, below zero it is down."),
    ("oxphos", ("What is OXPHOS?", "What does the OXPHOS gene set cover?"), "OXPHOS is oxidative phosphorylation, the making of energy in mitochondria."),
    ("type_a", ("What does Type A mean?", "Define stress-activated."), "Type A (stress-activated) means that kaempferol acts mainly when the tissue is under stress."),
    ("type_b", ("What does Type B mean?", "Define baseline-active."), "Type B (baseline-active) means that kaempferol acts mainly without stress."),
    ("type_c", ("What does Type C mean?", "Define stress-blocked."), "Type C (stress-blocked) means that stress takes away the effect of kaempferol."),
    ("rescue", ("What is meant by OXPHOS rescue?", "Define the rescue pattern."), "Rescue means that stress lowers OXPHOS and kaempferol raises it again."),
    ("suppression", ("What is meant by OXPHOS suppression?", "Define the suppression pattern."), "Suppression means that stress raises OXPHOS and kaempferol lowers it."),
    ("kmp_only", ("What is meant by KMP only?", "Define the KMP only pattern."), "KMP only means that kaempferol changes OXPHOS while stress has no clear effect on it."),
    ("interaction", ("What is an interaction in this design?", "What do interaction DEGs show?"), "An interaction means that the effect of one factor depends on another, such as KMP on HU."),
    ("design", ("How is the KMP study designed?", "How many groups does the KMP study have?"), "The KMP study is a 2x2x2 design of drug, loading and radiation with eight groups of mice."),
    ("tissues", ("Which tissues does the KMP study cover?", "How many tissues were sequenced?"), "The KMP study covers four tissues: heart, hippocampus, liver and soleus."),
    ("deseq2", ("Which software found the DEGs?", "How were DEGs computed?"), "The DEGs were computed with DESeq2 at padj below 0.05."),
    ("baseline", ("What does baseline mean for the KMP effect?", "What is compared at baseline?"), "At baseline, kaempferol is compared with control in mice without unloading or radiation."),
    ("additive", ("When is a combined stress response additive?", "What does more than additive mean?"), "A response is additive when the combination gives as many DEGs as the single stressors in sum."),
)  # fmt: skip


def drafts() -> Iterator[Draft]:
    """Yield what cannot be known, what is in doubt, what may be read into it, and the terms."""
    for topic, first, second, reason in UNKNOWN:
        yield Draft(
            slug=f"unknown/{topic}",
            kind="calibration",
            prompts=(first, second),
            answer=f"The data cannot answer this: {reason}.",
            level=LIMIT,
            truth=AbstainTruth(),
            facts=(f"kmp/limit/{topic}",),
            take=2,
        )
    for slug, prompts, answer, level in (*DOUBTS, *READINGS):
        yield Draft(
            slug=slug,
            kind="calibration",
            prompts=prompts,
            answer=answer,
            level=level,
            truth=FactsTruth(facts=(answer,)),
            facts=(f"kmp/reading/{slug}",),
            take=len(prompts) - 1 if len(prompts) > 2 else 1,
        )
    for term, prompts, answer in TERMS:
        yield Draft(
            slug=term,
            kind="definition",
            prompts=prompts,
            answer=answer,
            level=DEFINED,
            truth=FactsTruth(facts=(answer,)),
            facts=(f"kmp/term/{term}",),
            take=2,
        )
