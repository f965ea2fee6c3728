"""Whether an answer tells what a gene set stands for, as a careful biologist would say."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from evals.facts import load_hallmark
from evals.schema import MechanismTruth, Verdict
from evals.verifiers import verify_answer
from evals.verifiers.matter import MATTERS

WAYS = {"UP": "activated", "DOWN": "suppressed"}
LABELLED = Path(__file__).parent / "explanations.txt"
DEFINED = Path(__file__).parent / "definitions.txt"
WHOLE = re.compile(r"(?P<tissue>\w+) (?P<direction>UP|DOWN): (?P<text>.*)", re.DOTALL)
SETS = load_hallmark()


def judged(name: str, said: str, tissue: str = "thymus", direction: str = "DOWN") -> Verdict:
    """Return the verdict on an answer to the question what a finding suggests."""
    pathway = f"HALLMARK_{name}"
    truth = MechanismTruth(
        tissue=tissue, pathway=pathway, direction="UP" if direction == "UP" else "DOWN"
    )
    question = (
        f"Spaceflight leaves {SETS[pathway].name} {WAYS[direction]} in mouse {tissue}. What could"
        " that mean for the tissue?"
    )
    return verify_answer(truth, question, said)


def finding(name: str, said: str) -> str:
    """Return the finding that the question names, and what is said of it."""
    return f"The {SETS[f'HALLMARK_{name}'].name} gene set is downregulated in mouse thymus. {said}"


def labelled() -> Iterator[tuple[str, str, bool]]:
    """Return (gene set, answer, whether it explains the set) for every line of the table."""
    name = ""
    for line in LABELLED.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        elif line.startswith(("+ ", "- ")):
            yield (
                name,
                line[2:].encode("latin-1", "backslashreplace").decode("unicode_escape"),
                line[0] == "+",
            )


def defined() -> Iterator[tuple[str, str]]:
    """Return (gene set, definition) for every line of the table."""
    name = ""
    for line in DEFINED.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        elif line and not line.startswith("#"):
            yield name, line


@pytest.mark.parametrize(("name", "said", "is_right"), list(labelled()))
def test_an_answer_of_a_model_explains_a_set_where_a_biologist_says_so(
    name: str, said: str, is_right: bool
) -> None:
    whole = WHOLE.fullmatch(said)
    if said.startswith("~ "):
        found = judged(name, finding(name, f"It stands for {said[2:]}."))
    else:
        assert whole is not None, said
        found = judged(name, whole["text"], whole["tissue"], whole["direction"])
    assert found.verdict == ("correct" if is_right else "no_claim"), found.reason


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ADIPOGENESIS", "It means that fewer new adipocytes are formed."),
        ("ANDROGEN_RESPONSE", "It suggests a lower response to testosterone."),
        ("ANGIOGENESIS", "It suggests fewer new capillaries and less endothelial sprouting."),
        ("APICAL_JUNCTION", "It suggests weaker adhesion between epithelial cells."),
        ("APICAL_SURFACE", "It concerns the face of epithelial cells towards the lumen."),
        ("APOPTOSIS", "It points to less programmed cell death."),
        ("BILE_ACID_METABOLISM", "It suggests less conversion of cholesterol into bile acids."),
        ("CHOLESTEROL_HOMEOSTASIS", "It reflects lower sterol synthesis and uptake."),
        ("COAGULATION", "It hints at weaker blood clot formation."),
        ("COMPLEMENT", "This suggests a weaker innate immune defence."),
        ("E2F_TARGETS", "It suggests that fewer cells enter S phase and divide."),
        ("EPITHELIAL_MESENCHYMAL_TRANSITION", "It suggests less matrix remodelling and fibrosis."),
        ("ESTROGEN_RESPONSE_EARLY", "It suggests that genes answering to the female hormone rest."),
        ("FATTY_ACID_METABOLISM", "It suggests that less fat is burned for energy."),
        ("G2M_CHECKPOINT", "It implies fewer cells go through mitosis."),
        ("HEME_METABOLISM", "It fits with fewer red blood cells."),
        ("HYPOXIA", "This could mean that the tissue sees more oxygen."),
        ("IL2_STAT5_SIGNALING", "It fits with fewer T cells."),
        ("INFLAMMATORY_RESPONSE", "It suggests fewer cytokines and macrophages."),
        ("INTERFERON_ALPHA_RESPONSE", "This suggests a weaker antiviral state."),
        ("KRAS_SIGNALING_UP", "It fits with less MAPK activity."),
        ("MITOTIC_SPINDLE", "It suggests fewer dividing cells."),
        ("MTORC1_SIGNALING", "It suggests lower protein synthesis and nutrient sensing."),
        ("MYC_TARGETS_V2", "It suggests that fewer ribosomes are built."),
        ("MYOGENESIS", "It suggests less muscle formation."),
        ("NOTCH_SIGNALING", "This signal decides the lineage of thymocytes."),
        ("OXIDATIVE_PHOSPHORYLATION", "This suggests less mitochondrial ATP production."),
        ("P53_PATHWAY", "It suggests less response to DNA damage and cell cycle arrest."),
        ("PANCREAS_BETA_CELLS", "These genes mark insulin-producing cells."),
        ("PEROXISOME", "These organelles oxidise very long chain fatty acids."),
        ("PROTEIN_SECRETION", "It suggests less vesicle traffic from the Golgi."),
        ("REACTIVE_OXYGEN_SPECIES_PATHWAY", "It suggests weaker antioxidant defence."),
        ("SPERMATOGENESIS", "These genes are usually active in germ cells."),
        ("TGF_BETA_SIGNALING", "It suggests less fibrosis."),
        ("TNFA_SIGNALING_VIA_NFKB", "It suggests lower inflammation."),
        ("UNFOLDED_PROTEIN_RESPONSE", "It suggests fewer misfolded proteins."),
        ("UV_RESPONSE_UP", "It is what cells do after radiation damages DNA."),
        ("WNT_BETA_CATENIN_SIGNALING", "It governs stem cell renewal."),
        ("XENOBIOTIC_METABOLISM", "It suggests a lower capacity for detoxification."),
    ],
)
def test_a_set_may_be_explained_in_words_of_ones_own(name: str, said: str) -> None:
    found = judged(name, finding(name, said))
    assert found.verdict == "correct", found.reason


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ADIPOGENESIS", "It stands for a growth signal that guides a process."),
        ("ADIPOGENESIS", "It stands for adipogenosis and fattle cells."),
        ("ADIPOGENESIS", "It does not stand for making fat cells."),
        ("ADIPOGENESIS", "It has nothing to do with fat cells."),
        ("ADIPOGENESIS", "It stands for anything but making fat cells."),
        ("ADIPOGENESIS", "It stands neither for fat cells nor for muscle."),
        ("ADIPOGENESIS", "It stands for making fat cells and muscle."),
        ("ADIPOGENESIS", "These are fat cells, blood vessels, sperm, insulin and chromosomes."),
        ("FATTY_ACID_METABOLISM", "It stands for the digestion of fatty acids."),
        ("FATTY_ACID_METABOLISM", "It stands for the digestosis of fatty acids."),
        ("NOTCH_SIGNALING", "It stands for a signal."),
        ("SPERMATOGENESIS", "It stands for spermatic spermings."),
        ("UV_RESPONSE_DN", "It stands for genes that ultraviolet light switches on."),
    ],
)
def test_a_phrase_that_only_sounds_like_an_explanation_is_none(name: str, said: str) -> None:
    assert judged(name, finding(name, said)).verdict == "no_claim"


@pytest.mark.parametrize(("name", "said"), list(defined()))
def test_a_definition_in_free_words_explains_its_set(name: str, said: str) -> None:
    found = judged(name, finding(name, said))
    assert found.verdict == "correct", found.reason


@pytest.mark.parametrize(
    "said",
    [
        "Adipogenesis in the thymus is down, not up, so less fat cells form.",
        "Adipogenesis in the thymus is down and not going up and fewer fat cells form.",
        "Adipogenesis in the thymus is down. This is not about bone, it means fewer fat cells.",
        "Adipogenesis in the thymus is down. It is not that fat cells go, but fewer fat cells form.",
        "Adipogenesis in the thymus is down. It stands for fat cells rather than muscle.",
        "Adipogenesis in the thymus is down. It stands for fat cells, not only fat cells at rest.",
    ],
)
def test_a_denial_reaches_no_further_than_what_it_denies(said: str) -> None:
    found = judged("ADIPOGENESIS", said)
    assert found.verdict == "correct", found.reason


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ADIPOGENESIS", "It has nothing to do with muscle, blood or fat cells."),
        ("ADIPOGENESIS", "It is not about blood, nor about fat cells."),
        ("ADIPOGENESIS", "It does not increase fat cells."),
        ("ADIPOGENESIS", "It is not because fat cells form."),
        ("ADIPOGENESIS", "It is unrelated to fat cells and unlike adipocytes."),
        ("ADIPOGENESIS", "It stands for making fat cells that make muscle."),
        ("OXIDATIVE_PHOSPHORYLATION", "It represents glycolysis, not the mitochondria."),
        ("MYC_TARGETS_V1", "It stands for ribosomes, protein synthesis and insulin."),
    ],
)
def test_what_is_denied_or_mixed_with_another_set_explains_none(name: str, said: str) -> None:
    assert judged(name, finding(name, said)).verdict == "no_claim"


@pytest.mark.parametrize("name", MATTERS)
def test_a_set_is_explained_by_its_own_description_and_by_no_other(name: str) -> None:
    explained = [
        other
        for other in MATTERS
        if judged(name, finding(name, f"It stands for {SETS[f'HALLMARK_{other}'].about}.")).verdict
        == "correct"
    ]
    assert explained == [name]


def test_every_gene_set_has_its_matter() -> None:
    assert [f"HALLMARK_{name}" for name in MATTERS] == list(SETS)
