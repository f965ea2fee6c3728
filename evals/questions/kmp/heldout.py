"""The twenty test questions: 10 factual, 5 reasoning, 5 that the data cannot answer.

A count cannot be known without having been read, so the figures themselves are trained on and
the test asks for what follows from them: facts that no training row asks for or states. Answers
name only the right label, never its rivals, so that a verdict is never a matter of taste.
"""

from evals.facts import load_kmp
from evals.questions.kmp.draft import Draft, cell, derived_level, tissue_truth, yes_truth
from evals.questions.pathways import DERIVED, LIMIT
from evals.schema import AbstainTruth, CountTruth, LabelTruth

HU = ("HU", "hindlimb unloading", "unloading")
IR = ("IR", "ionizing radiation", "radiation", "irradiation")
MORE = ("more than additive", "super-additive", "superadditive", "synergistic")
LESS = ("less than additive", "sub-additive", "subadditive", "antagonistic")


def drafts() -> tuple[Draft, ...]:
    """Return the twenty questions in order."""
    return (*_stressors(), *_extremes(), *_partners(), *_sums(), *_reasoning(), *_limits())


def _stressors() -> tuple[Draft, ...]:
    heart, hippocampus = _deg("heart", "HU", "IR"), _deg("hippocampus", "HU", "IR")
    return (
        Draft(
            slug="dominant_stressor/heart",
            kind="factual",
            prompts=("Name the stressor that dominates in heart: unloading or radiation?",),
            answer="Hindlimb unloading (HU) dominates in heart.",
            level=_level(heart),
            truth=LabelTruth(value=HU[0], subject="heart", accept=HU[1:], others=IR),
            facts=("kmp/derived/dominant_stressor/heart",),
            support=heart,
            tissue="heart",
        ),
        Draft(
            slug="dominant_stressor/hippocampus",
            kind="factual",
            prompts=("Unloading against radiation: which one hits more hippocampal genes?",),
            answer="Ionizing radiation (IR) hits more genes in hippocampus.",
            level=_level(hippocampus),
            truth=LabelTruth(value=IR[0], subject="hippocampus", accept=IR[1:], others=HU),
            facts=("kmp/derived/dominant_stressor/hippocampus",),
            support=hippocampus,
            tissue="hippocampus",
        ),
    )


def _extremes() -> tuple[Draft, ...]:
    return (
        _extreme(
            "largest/KMP_x_HU",
            "Where among the four tissues do kaempferol and unloading interact on most genes?",
            "soleus",
            "The KMP x HU interaction covers most genes in soleus.",
        ),
        _extreme(
            "smallest/HU_x_IR",
            "Counted in DEGs, what tissue has the weakest interplay of unloading and radiation?",
            "hippocampus",
            "The HU x IR interaction is weakest in hippocampus.",
        ),
        _extreme(
            "largest/KMP_in_HU_IR",
            "With both stressors acting, the drug alters the most genes in what organ?",
            "heart",
            "Under both stressors, kaempferol alters most genes in heart.",
        ),
        _extreme(
            "largest/HU_x_IR",
            "What tissue tops the ranking for interaction between unloading and radiation?",
            "liver",
            "Liver tops the ranking for the HU x IR interaction.",
        ),
    )


def _extreme(slug: str, prompt: str, tissue: str, answer: str) -> Draft:
    contrast = slug.partition("/")[2]
    support = tuple(figure.id for figure in load_kmp().counts if figure.contrast == contrast)
    return Draft(
        slug=slug,
        kind="factual",
        prompts=(prompt,),
        answer=answer,
        level=_level(support),
        truth=tissue_truth(tissue, subject=contrast),
        facts=(f"kmp/derived/{slug}",),
        support=support,
    )


def _partners() -> tuple[Draft, ...]:
    return (
        Draft(
            slug="same_class/heart",
            kind="factual",
            prompts=("Heart is not alone in its class. What other tissue is in there with it?",),
            answer="Soleus is in the same class.",
            level=DERIVED,
            truth=tissue_truth("soleus", ("soleus", "liver", "hippocampus"), "class of heart"),
            facts=("kmp/derived/same_class/heart",),
            support=("kmp/class/heart", "kmp/class/soleus"),
        ),
        Draft(
            slug="same_pattern/soleus",
            kind="factual",
            prompts=("Soleus has a partner with an identical OXPHOS label. What tissue is that?",),
            answer="Heart has the same OXPHOS label.",
            level=DERIVED,
            truth=tissue_truth("heart", ("heart", "liver", "hippocampus"), "pattern of soleus"),
            facts=("kmp/derived/same_pattern/soleus",),
            support=("kmp/oxphos/heart", "kmp/oxphos/soleus"),
        ),
    )


def _sums() -> tuple[Draft, ...]:
    added, gained = _deg("heart", "HU", "IR"), _deg("hippocampus", "HU", "HU_IR")
    expected = cell("heart", "HU").genes + cell("heart", "IR").genes
    gain = cell("hippocampus", "HU_IR").genes - cell("hippocampus", "HU").genes
    return (
        Draft(
            slug="additive_sum/heart",
            kind="factual",
            prompts=("If HU and IR simply added up in heart, what DEG total would result?",),
            answer=f"Simple addition of HU and IR in heart would make {expected} DEGs.",
            level=_level(added),
            truth=CountTruth(value=expected, subject="HU plus IR added up in heart"),
            facts=("kmp/derived/additive_sum/heart",),
            support=added,
            tissue="heart",
        ),
        Draft(
            slug="gain/hippocampus",
            kind="factual",
            prompts=("How many extra DEGs does adding radiation to unloading bring in hippocampus?",),
            answer=f"Adding radiation to unloading brings {gain:,} DEGs more in hippocampus.",
            level=_level(gained),
            truth=CountTruth(value=gain, subject="gain of HU_IR over HU in hippocampus"),
            facts=("kmp/derived/gain/hippocampus",),
            support=gained,
            tissue="hippocampus",
        ),
    )


def _reasoning() -> tuple[Draft, ...]:
    additive = _deg("hippocampus", "HU", "IR", "HU_IR")
    return (
        _yes_no(
            "above_5000/liver/KMP_x_HU",
            "Does the liver pass the mark of 5,000 DEGs for KMP x HU?",
            "No, the KMP x HU interaction in liver stays below that mark.",
            _deg("liver", "KMP_x_HU"),
        ),
        _yes_no(
            "interaction_over_effect/soleus/KMP_x_HU",
            "In soleus, is KMP x HU a longer gene list than unloading itself produces?",
            "Yes, in soleus the interaction list is longer.",
            _deg("soleus", "KMP_x_HU", "HU"),
        ),
        Draft(
            slug="additivity/hippocampus",
            kind="reasoning",
            prompts=(
                "Judged by its gene counts, is the joint stress response of hippocampus more or less than additive?",
            ),
            answer="In hippocampus, the joint response is less than additive.",
            level=_level(additive),
            truth=LabelTruth(value=LESS[0], subject="hippocampus", accept=LESS[1:], others=MORE),
            facts=("kmp/derived/additivity/hippocampus",),
            support=additive,
            tissue="hippocampus",
        ),
        Draft(
            slug="baseline_or_stress/liver",
            kind="reasoning",
            prompts=("Kaempferol in liver: more active at baseline or once HU and IR both act?",),
            answer="Kaempferol is more active in liver at baseline.",
            level=_level(_deg("liver", "KMP_baseline", "KMP_in_HU_IR")),
            truth=LabelTruth(
                value="baseline",
                subject="liver",
                accept=("without stress", "unstressed", "without a stressor"),
                others=("HU and IR", "both stressors", "combined stress", "under stress"),
            ),
            facts=("kmp/derived/baseline_or_stress/liver",),
            support=_deg("liver", "KMP_baseline", "KMP_in_HU_IR"),
            tissue="liver",
        ),
        Draft(
            slug="order/heart/liver/KMP_x_HU",
            kind="reasoning",
            prompts=("Rank heart against liver by KMP x HU genes. Whose list is longer?",),
            answer="Liver has the longer KMP x HU list.",
            level=DERIVED,
            truth=tissue_truth("liver", ("heart", "liver"), "KMP_x_HU"),
            facts=("kmp/derived/order/KMP_x_HU/heart/liver",),
            support=(cell("heart", "KMP_x_HU").id, cell("liver", "KMP_x_HU").id),
        ),
    )


def _yes_no(slug: str, prompt: str, answer: str, support: tuple[str, ...]) -> Draft:
    tissue = slug.split("/")[1]
    return Draft(
        slug=slug,
        kind="reasoning",
        prompts=(prompt,),
        answer=answer,
        level=_level(support),
        truth=yes_truth(answer.startswith("Yes"), f"KMP x HU in {tissue}"),
        facts=(f"kmp/derived/{slug}",),
        support=support,
        tissue=tissue,
    )


def _limits() -> tuple[Draft, ...]:
    cases = (
        (
            "human_dose",
            "How much kaempferol should a person take each day?",
            "The data cannot answer this: it is a mouse study and tested no human dose.",
        ),
        (
            "astronauts",
            "Is kaempferol guaranteed to keep astronauts healthy in space?",
            "The data cannot answer this: gene counts in mice guarantee nothing for astronauts.",
        ),
        (
            "single_gene",
            "Name the one gene that is responsible for the soleus rescue.",
            "The data cannot answer this: the tables hold counts, not the names of genes.",
        ),
        (
            "transfer",
            "Will people react to kaempferol the way these mice did?",
            "The data cannot answer this: no human tissue was measured.",
        ),
        (
            "duration",
            "For how many weeks is treatment with kaempferol best?",
            "The data cannot answer this: durations of treatment were not compared.",
        ),
    )
    return tuple(
        Draft(
            slug=slug,
            kind="abstain",
            prompts=(prompt,),
            answer=answer,
            level=LIMIT,
            truth=AbstainTruth(),
            facts=(f"kmp/limit/{slug}",),
        )
        for slug, prompt, answer in cases
    )


def _deg(tissue: str, *contrasts: str) -> tuple[str, ...]:
    """Return the ids of figures of one tissue."""
    return tuple(cell(tissue, contrast).id for contrast in contrasts)


def _level(support: tuple[str, ...]) -> int:
    """Return how sure an answer from these figures may be."""
    return derived_level(figure for figure in load_kmp().counts if figure.id in support)
