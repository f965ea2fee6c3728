"""Wide tables: each cell is of what the head of its column and its row name."""

import pytest

from evals.schema import ComparisonTruth, CountTruth, DirectTruth, UncertaintyTruth
from evals.verifiers import verify_answer

SET = "HALLMARK_ADIPOGENESIS"
DIRECT = DirectTruth(tissue="thymus", pathway=SET, direction="DOWN")
ASKED = (
    "Which way does the adipogenesis gene set move in mouse thymus during spaceflight, up or down?"
)
COUNT = CountTruth(value=8484, subject="KMP_x_HU in soleus")
COUNTED = "How many DEGs does the KMP x HU interaction give in soleus?"
COMPARED = ComparisonTruth(
    pathway=SET,
    tissue_directions={"liver": "UP", "kidney": "DOWN", "thymus": "UP"},
    is_consistent=False,
)
SPLIT = UncertaintyTruth(
    tissue="eye",
    pathway="HALLMARK_MYOGENESIS",
    missions_up=("RR-1",),
    missions_down=("RR-3",),
    missions_ns=(),
)


def table(head: str, *rows: str) -> str:
    """Return a markdown table of "a, b, c" lines."""
    head_cells = head.split(", ")
    lines = [head_cells, ["---"] * len(head_cells), *(row.split(", ") for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n\nConfidence: 80%"


DIRECTIONS = (
    (table("Gene set, liver, thymus", "Adipogenesis, up, down"), "correct"),
    (table("Gene set, liver, thymus", "Adipogenesis, down, up"), "incorrect"),
    (table("Gene set, liver, thymus", "Adipogenesis, ↑, ↓"), "correct"),
    (table("Gene set, liver, thymus", "Adipogenesis, ↓, ↑"), "incorrect"),
    (table("Gene set, liver, thymus", "Adipogenesis, 1.4, -1.9"), "correct"),
    (table("Gene set, liver, thymus", "Adipogenesis, -1.4, 1.9"), "incorrect"),
    (table("Gene set, liver NES, thymus NES", "Adipogenesis, 1.4, -1.9"), "correct"),
    (table("Gene set, liver NES, thymus NES", "Adipogenesis, -1.4, 1.9"), "incorrect"),
    (table(", liver, thymus", "NES, 1.4, -1.9"), "correct"),
    (table(", liver, thymus", "NES, -1.4, 1.9"), "incorrect"),
    (table("liver, thymus", "up, down"), "correct"),
    (table("liver, thymus", "down, up"), "incorrect"),
    (table("Tissue, Adipogenesis, Myogenesis", "thymus, down, up"), "correct"),
    (table("Tissue, Adipogenesis, Myogenesis", "thymus, up, down"), "incorrect"),
    (table("Tissue, Adipogenesis, Myogenesis", "liver, up, up", "thymus, down, up"), "correct"),
    (
        table("Tissue, Adipogenesis, Myogenesis", "liver, down, up", "thymus, up, down"),
        "incorrect",
    ),
    (
        table("Gene set, liver, thymus", "Myogenesis, up, up", "Adipogenesis, up, down"),
        "correct",
    ),
    (
        table("Gene set, liver, thymus", "Myogenesis, up, down", "Adipogenesis, up, up"),
        "incorrect",
    ),
    (
        table("Gene set, liver, kidney, thymus, eye, skin", "Adipogenesis, up, up, down, up, up"),
        "correct",
    ),
    (table("Gene set, liver, thymus", "Adipogenesis, up, not down"), "incorrect"),
    (table("Gene set, liver, thymus", "Adipogenesis, , down"), "correct"),
    (table("Gene set, liver, thymus", "Adipogenesis, up, "), "no_claim"),
    (table("Gene set, liver, kidney", "Adipogenesis, up, down"), "no_claim"),
    (table("Gene set, liver, thymus", "Myogenesis, up, down"), "no_claim"),
    (table("Gene set, Thymus, Comment", "Adipogenesis, down, fewer fat cells"), "correct"),
    (table("Gene set, Tissue, Direction", "Adipogenesis, thymus, down"), "correct"),
    (
        "Adipogenesis is down in thymus.\n\n" + table("Gene set, thymus", "Adipogenesis, up"),
        "contradictory",
    ),
)
COUNTS = (
    (table(", Heart, Soleus", "KMP x HU, 479, 8484"), "correct"),
    (table(", Heart, Soleus", "KMP x HU, 8484, 479"), "incorrect"),
    (table("Tissue, HU, KMP x HU", "Soleus, 6053, 8484"), "correct"),
    (table("Tissue, HU, KMP x HU", "Soleus, 8484, 6053"), "incorrect"),
    (table("Contrast, Heart, Soleus", "HU, 33, 6053", "KMP x HU, 479, 8484"), "correct"),
    (table("Contrast, Heart, Soleus", "HU, 33, 8484", "KMP x HU, 479, 6053"), "incorrect"),
    (table("Contrast, Up, Down, Total", "KMP x HU, 3955, 4529, 8484"), "correct"),
    (table("Contrast, Up, Down, Total", "KMP x HU, 8484, 4529, 3955"), "incorrect"),
    (table("Contrast, Heart", "KMP x HU, 8484"), "no_claim"),
    (table("Tissue, KMP x HU DEGs", "Heart, 479", "Soleus, 8484"), "correct"),
    (table("Tissue, KMP x HU DEGs", "Heart, 8484", "Soleus, 479"), "incorrect"),
)
COMPARISONS = (
    (table("liver, kidney, thymus", "up, down, up"), "correct"),
    (table("liver, kidney, thymus", "down, up, down"), "incorrect"),
    (table("Gene set, liver, kidney, thymus", "Adipogenesis, up, down, up"), "correct"),
    (table("Gene set, liver, kidney, thymus", "Adipogenesis, down, up, down"), "incorrect"),
    (table("Gene set, liver, kidney, thymus", "Adipogenesis, 1.2, -1.5, 1.3"), "correct"),
    (table("Gene set, liver, kidney, thymus", "Adipogenesis, -1.2, 1.5, -1.3"), "incorrect"),
)
MISSIONS = (
    (table("Gene set, RR-1, RR-3", "Myogenesis, up, down"), "correct"),
    (table("Gene set, RR-1, RR-3", "Myogenesis, down, up"), "incorrect"),
    (table(", RR-1, RR-3", "NES, 1.4, -1.6"), "correct"),
    (table(", RR-1, RR-3", "NES, 1.4, 1.6"), "incorrect"),
)


@pytest.mark.parametrize(("answer", "verdict"), DIRECTIONS)
def test_a_cell_is_of_the_tissue_and_the_gene_set_of_its_column_and_row(
    answer: str, verdict: str
) -> None:
    assert verify_answer(DIRECT, ASKED, answer).verdict == verdict


@pytest.mark.parametrize(("answer", "verdict"), COUNTS)
def test_a_count_is_of_the_tissue_and_the_contrast_of_its_column_and_row(
    answer: str, verdict: str
) -> None:
    assert verify_answer(COUNT, COUNTED, answer).verdict == verdict


@pytest.mark.parametrize(("answer", "verdict"), COMPARISONS)
def test_a_table_with_a_column_per_tissue_compares_tissues(answer: str, verdict: str) -> None:
    question = "How does the direction of adipogenesis compare between mouse tissues?"
    assert verify_answer(COMPARED, question, answer).verdict == verdict


@pytest.mark.parametrize(("answer", "verdict"), MISSIONS)
def test_a_table_with_a_column_per_mission_puts_each_mission_on_its_side(
    answer: str, verdict: str
) -> None:
    question = "Can one direction be given for myogenesis in mouse eye across all missions?"
    assert verify_answer(SPLIT, question, answer).verdict == verdict
