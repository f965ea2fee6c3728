"""What is said of an organ, species or state that no study looked at is no claim about the one asked."""

import pytest

from evals.verifiers import verify_answer
from tests.evals.thymus import QUESTION, TRUTH, judged

ORGANS = (
    "the hypothalamus",
    "the testis",
    "the ovary",
    "the pancreas",
    "mouse pancreas",
    "the pancreas of mice",
    "pancreatic islets",
    "the spinal cord",
    "the lens",
    "the lymph node",
    "the lymph nodes of flown mice",
    "the thyroid",
    "the thymoma",
    "the aorta",
    "the vena cava",
    "the tongue",
    "the placenta",
    "the bladder",
    "the stomach",
    "the stomach in flight",
    "the cartilage",
    "the hair follicle",
    "the cerebellum",
    "PBMC",
    "the prostate",
    "the prostate during spaceflight",
    "the adrenal cortex",
    "cultured fibroblasts",
    "thymus tumours",
    "thymic lymphoma",
    "the thymus of humans",
    "the thymus of rats",
    "astronaut thymus",
    "human thymus",
    "the thymus of ground controls",
    "thymus after bed rest",
)
SAYINGS = (
    "Hypothalamic adipogenesis is {way}.",
    "The hypothalamus shows {way}regulated adipogenesis.",
    "Pancreas: adipogenesis {way}.",
    "In the pancreas, adipogenesis is {way}.",
    "Adipogenesis in the pancreas is {way}.",
    "{way}regulation of adipogenesis in the pancreas.",
    "Adipogenesis goes {way} in flight in the pancreas.",
    "Adipogenesis is {way} across missions in mouse testis.",
    "Adipogenesis is {way}regulated after spaceflight in the ovary.",
    "Spaceflight {way}regulates adipogenesis in the pancreas.",
    "It goes {way} in the stomach.",
    "Adipogenesis is {way}, in the stomach.",
)
OURS = (
    "flight",
    "space",
    "mice",
    "male mice",
    "both missions",
    "the data",
    "the GeneLab data",
    "OSD-244",
    "C57BL/6J mice",
    "female BALB/c mice",
    "young adult females",
    "pooled samples",
    "treated and untreated samples",
    "spaceflown versus control mice",
    "the comparison of flight and ground",
    "our analysis",
    "GSEA",
    "the mouse thymus",
    "the stroma of the thymus",
    "thymic tissue",
    "the organ in question",
    "line with earlier work",
    "agreement with the literature",
    "contrast to the pancreas",
    "response to flight",
    "a consistent manner",
    "a mission-independent way",
    "magnitude",
    "parallel",
    "the end",
    "general",
    "most cases",
    "this set",
    "orbit",
    "vivo",
    "mou",
)
AT_HOME = (
    "In the flight mice, adipogenesis is {way}.",
    "Adipogenesis is {way}. The pancreas was not sampled.",
    "Adipogenesis is {way} in flight, which lowers fat storage in the pancreas.",
    "Adipogenesis is {way} in thymus and in the pancreas.",
    "Adipogenesis is {way} in mouse thymus, in contrast to the pancreas.",
    "Adipogenesis is {way} in the thymus of flown mice.",
    "Adipogenesis is {way} in thymus of flight mice relative to ground controls.",
    "Genes involved in fat storage follow: adipogenesis is {way} in the thymus.",
)


@pytest.mark.parametrize("way", ["down", "up"])
@pytest.mark.parametrize(
    "said", [*(f"Adipogenesis is {{way}} in {organ}." for organ in ORGANS), *SAYINGS]
)
def test_a_direction_elsewhere_is_no_claim_whichever_way_it_goes(said: str, way: str) -> None:
    found = judged(said.format(way=way))
    assert found.verdict == "no_claim", found.reason


@pytest.mark.parametrize(("way", "truth"), [("down", "DOWN"), ("up", "UP")])
@pytest.mark.parametrize(
    "said", [*(f"Adipogenesis is {{way}} in {place}." for place in OURS), *AT_HOME]
)
def test_what_the_studies_are_called_is_no_other_place(said: str, way: str, truth: str) -> None:
    text = said.format(way=way)
    right = TRUTH.model_copy(update={"direction": truth})
    wrong = TRUTH.model_copy(update={"direction": "UP" if truth == "DOWN" else "DOWN"})
    found = verify_answer(right, QUESTION, text)
    assert found.verdict == "correct", found.reason
    assert verify_answer(wrong, QUESTION, text).verdict == "incorrect"
