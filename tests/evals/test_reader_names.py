"""Gene sets and tissues under all their names, and letters that only look like others."""

import pytest

from evals.plain import plain
from evals.schema import DirectTruth
from evals.verifiers import verify_answer
from evals.verifiers.names import OTHER_NAMES, pathway_phrases, same_pathway
from tests.evals.thymus import cases, judged

PHRASES = sorted({(" ".join(phrase), pathway) for phrase, pathway in pathway_phrases()})


def direct(pathway: str, tissue: str = "thymus") -> DirectTruth:
    return DirectTruth(tissue=tissue, pathway=pathway, direction="DOWN")


@pytest.mark.parametrize(("name", "pathway"), PHRASES)
def test_every_name_means_its_gene_set_and_no_other(name: str, pathway: str) -> None:
    ours = next(p for _, p in PHRASES if same_pathway(pathway, p) and p not in FAMILIES)
    answer = f"{name.title()} is suppressed in the thymus."
    assert verify_answer(direct(ours), "Which way?", answer).verdict == "correct"
    other = "HALLMARK_MYOGENESIS" if ours != "HALLMARK_MYOGENESIS" else "HALLMARK_HYPOXIA"
    assert verify_answer(direct(other), "Which way?", answer).verdict == "no_claim"


FAMILIES = {name for name in OTHER_NAMES if any(p.startswith(f"{name}_") for _, p in PHRASES)}


def test_no_name_means_two_gene_sets() -> None:
    names = [name for name, _ in PHRASES]
    assert len(names) == len(set(names))


SPELLINGS = (
    ("HALLMARK_TNFA_SIGNALING_VIA_NFKB", "TNF\u03b1 via NF-\u03baB falls."),
    ("HALLMARK_TNFA_SIGNALING_VIA_NFKB", "TNF-\u03b1 signalling via NF-\u03baB falls."),
    ("HALLMARK_TNFA_SIGNALING_VIA_NFKB", "TNFa/NFkB falls."),
    ("HALLMARK_TGF_BETA_SIGNALING", "TGF-\u03b2 falls."),
    ("HALLMARK_TGF_BETA_SIGNALING", "TGF\u03b2 signalling falls."),
    ("HALLMARK_TGF_BETA_SIGNALING", "TGFb falls."),
    ("HALLMARK_INTERFERON_GAMMA_RESPONSE", "IFN-\u03b3 falls."),
    ("HALLMARK_INTERFERON_GAMMA_RESPONSE", "The IFN\u03b3 response falls."),
    ("HALLMARK_INTERFERON_GAMMA_RESPONSE", "Interferon gamma falls."),
    ("HALLMARK_INTERFERON_ALPHA_RESPONSE", "IFN-\u03b1 falls."),
    ("HALLMARK_WNT_BETA_CATENIN_SIGNALING", "Wnt/\u03b2-catenin falls."),
    ("HALLMARK_PANCREAS_BETA_CELLS", "Pancreatic \u03b2-cell genes fall."),
    ("HALLMARK_MTORC1_SIGNALING", "mTORC1 signalling falls."),
    ("HALLMARK_OXIDATIVE_PHOSPHORYLATION", "OXPHOS falls."),
    ("HALLMARK_EPITHELIAL_MESENCHYMAL_TRANSITION", "The EMT programme falls."),
    ("HALLMARK_UNFOLDED_PROTEIN_RESPONSE", "UPR falls."),
    ("HALLMARK_HEME_METABOLISM", "Haem metabolism falls."),
    ("HALLMARK_ESTROGEN_RESPONSE_EARLY", "The early oestrogen response falls."),
    ("HALLMARK_G2M_CHECKPOINT", "G2/M falls."),
    ("HALLMARK_G2M_CHECKPOINT", "The G2-M checkpoint falls."),
    ("HALLMARK_IL6_JAK_STAT3_SIGNALING", "IL-6/JAK/STAT3 falls."),
    ("HALLMARK_PI3K_AKT_MTOR_SIGNALING", "PI3K\u2013AKT\u2013mTOR falls."),
    ("HALLMARK_E2F_TARGETS", "hallmark_e2f_targets falls."),
    ("HALLMARK_ANDROGEN_RESPONSE", "The __androgen__ response gene set falls."),
    ("HALLMARK_ANDROGEN_RESPONSE", "The ***androgen response*** gene set falls."),
    ("HALLMARK_UV_RESPONSE_DN", "The UV response falls."),
    ("HALLMARK_KRAS_SIGNALING_UP", "KRAS signaling (up genes) in spaceflown thymus is suppressed."),
)


@pytest.mark.parametrize(("pathway", "answer"), SPELLINGS)
def test_a_gene_set_is_known_in_greek_british_and_short(pathway: str, answer: str) -> None:
    assert verify_answer(direct(pathway), "Which way?", answer).verdict == "correct"
    other = "HALLMARK_MYOGENESIS"
    assert verify_answer(direct(other), "Which way?", answer).verdict == "no_claim"


TISSUE_WORDS = (
    ("liver", "hepatic tissue"),
    ("kidney", "renal tissue"),
    ("thymus", "thymic tissue"),
    ("eye", "ocular tissue"),
    ("eye", "the retina"),
    ("skin", "cutaneous tissue"),
    ("skin", "the dermis"),
    ("gastrocnemius", "the gastroc"),
    ("gastrocnemius", "calf muscle"),
    ("gastrocnemius", "muscle"),
    ("soleus", "skeletal muscle"),
    ("heart", "cardiac tissue"),
)


@pytest.mark.parametrize(("tissue", "named"), TISSUE_WORDS)
def test_a_tissue_is_known_by_its_other_names(tissue: str, named: str) -> None:
    answer = f"Hypoxia falls in {named}."
    truth = direct("HALLMARK_HYPOXIA", tissue)
    assert verify_answer(truth, "Which way?", answer).verdict == "correct"
    elsewhere = direct("HALLMARK_HYPOXIA", "spleen")
    assert verify_answer(elsewhere, "Which way?", answer).verdict == "no_claim"


DISGUISES = {
    "correct": (
        "Adipogenesis is \uff44\uff4f\uff57\uff4e.",
        "Adipogenesis is d\u043ewnregulated.",
        "Adip\u03bfgenesis is downregul\u03b1ted.",
        "Adipogenesis is do\u200bwn.",
        "Adipogenesis is d\u00f3wnreg\u00fclated.",
        "Adipogenesis is do\u0301wn.",
        "Adipogenesis is \U0001d41d\U0001d428\U0001d430\U0001d427.",
        "A\u0501ipogenesis is \u1d05\u1d0f\u1d21\u0274.",
    ),
    "incorrect": (
        "Adipogenesis is n\u043et downregulated.",
        "Adipogenesis is n\u03bft downregulated.",
        "Adipogenesis is n\u200bo\u200bt downregulated.",
        "Adipogenesis is \u0578ot downregulated.",
        "Adipogenesis is \uff35\uff30.",
    ),
}


@pytest.mark.parametrize(("answer", "verdict"), cases(DISGUISES))
def test_letters_in_disguise_are_read_as_what_they_look_like(answer: str, verdict: str) -> None:
    assert judged(answer).verdict == verdict


@pytest.mark.parametrize(
    "text",
    ["\u00bc", "\ufb03 x", "d\u043ewn", "\u2193 it", "a\u200b\u200bb", "\uff35\uff30", "__a__ b"],
)
def test_places_in_readable_text_lead_back_into_the_original(text: str) -> None:
    page = plain(text)
    places = [page.origin(place) for place in range(len(page.text))]
    assert all(0 <= place < len(text) for place in places)
    assert places == sorted(places)
