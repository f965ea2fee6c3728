"""Numbers in every usual form, and which of them count genes."""

import pytest

from evals.schema import CountTruth
from evals.verifiers import verify_answer
from evals.verifiers.number import agrees, numbers, rounds_to
from evals.verifiers.reading import read


def found(text: str) -> list[tuple[str, str, str]]:
    """Return (as quoted, form, unit) of every number in a text."""
    reading = read(text)
    return [
        (number.says(), number.form, number.unit)
        for sentence in reading.sentences
        for number in numbers(reading, sentence)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "8\u202f484 genes",
        "8\u2009484 genes",
        "8\u00a0484 genes",
        "8'484 genes",
        "8484,0 genes",
        "8.484,0 genes",
        "8,484.0 genes",
        "8.484e3 genes",
        "8.484\u00d710^3 genes",
        "8.484k genes",
        "8.484 k genes",
        "8484DEGs",
        "**8,484** genes",
        "eight thousand four hundred and eighty-four genes",
        "Eight thousand four hundred eighty-four genes",
        "8484",
        "8 484",
        "8,484",
    ],
)
def test_every_usual_form_of_a_number_is_the_same_number(text: str) -> None:
    assert [(says, form) for says, form, _ in found(text)] == [("8484", "exact")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("about 8,500", [("about 8500", "rounded", "")]),
        ("~8.5k", [("about 8500", "rounded", "")]),
        ("8.5 thousand", [("about 8500", "rounded", "")]),
        ("8,500 or so", [("about 8500", "rounded", "")]),
        ("roughly eight and a half thousand", [("about 8500", "rounded", "")]),
        ("3 x 10^4", [("about 30000", "rounded", "")]),
        ("8,000-9,000", [("8000 to 9000", "range", "")]),
        ("between 8,000 and 9,000", [("8000 to 9000", "range", "")]),
        ("8,000 to 9,000", [("8000 to 9000", "range", "")]),
        ("NES from -1.9 to -1.2", [("-1.9 to -1.2", "range", "")]),
        ("more than 8,000", [("over 8000", "bound", "")]),
        ("at least 8,000", [("over 8000", "bound", "")]),
        ("fewer than 9,000", [("under 9000", "bound", "")]),
        ("padj < 0.05", [("under 0.05", "bound", "")]),
        ("p = .03", [("0.03", "exact", "")]),
        ("NES = -1.9", [("-1.9", "exact", "")]),
        ("NES \u22121,9", [("-1.9", "exact", "")]),
        ("0,619", [("0.619", "exact", "")]),
        ("1e-5", [("1e-05", "exact", "")]),
        ("2-fold", [("2", "exact", "fold")]),
        ("95 %", [("95", "exact", "percent")]),
        ("95 percent", [("95", "exact", "percent")]),
        ("two dozen", [("24", "exact", "")]),
        ("not a single gene", [("0", "exact", "")]),
        ("12 345 678", [("12345678", "exact", "")]),
        ("TP53, IL-6, RR-9, type 2, day 37", []),
        ("3:1 and 3/4", []),
        ("2x2x2 and 2 x 2", []),
        ("84,84,1", []),
        ("1st and 22nd", []),
        ("no more than we knew", []),
    ],
)
def test_a_number_is_read_with_its_form_and_unit(
    text: str, expected: list[tuple[str, str, str]]
) -> None:
    assert found(text) == expected


def test_a_rounded_number_is_right_to_the_digits_given() -> None:
    reading = read("8.5k 8.48k about 8,000 about 9k about 8,490")
    figures = numbers(reading, reading.sentences[0])
    assert [rounds_to(figure, 8484) for figure in figures] == [True, True, True, False, False]


def test_a_measured_value_agrees_to_the_digits_given() -> None:
    reading = read("-3.1 -3.05 -3.0 -3")
    figures = numbers(reading, reading.sentences[0])
    assert [agrees(figure, -3.0528) for figure in figures] == [True, True, False, True]


COUNT = CountTruth(value=8484, subject="the KMP x HU interaction in soleus")
JUDGED = {
    "correct": (
        "1. 8,484 DEGs",
        "In 2021, 8,484 DEGs were found.",
        "3,273 + 5,211 = 8,484 DEGs",
        "8,484 of 20,000 genes measured",
        "12 of the 8,484 DEGs are mitochondrial.",
        "Of the 20,000 genes tested, 8,484 were significant.",
        "8,484 DEGs, i.e. about 8.5k",
        "8,484 (eight thousand four hundred eighty-four) DEGs",
        "8,484 KMP x HU genes",
        "8,484 differentially-expressed genes",
        "8,484 DEGs (5 %), a twofold rise, p = 0.03",
        "| soleus | 8,484 |",
        "soleus: 8,484",
        "The total is 8,484 with 10 mice per group and 4 tissues.",
        "between 8,450 and 8,500 genes",
        "about 8,000 DEGs",
        "8.48k genes",
    ),
    "incorrect": (
        "-8484 genes",
        "8484 thousand genes",
        "more than 9,000 DEGs",
        "fewer than 100 genes",
        "8,500 DEGs",
        "about 8,490 genes",
        "no significant DEGs",
        "not a single DEG",
        "zero DEGs",
        "two DEGs",
        "8,484 DEGs: false",
        "The figure 8,484 is wrong.",
    ),
    "no_claim": (
        "8,484 mice",
        "8,484 proteins",
        "8,484 bananas",
        "8,484 gene sets",
        "8,484 km",
        "$8484",
        "2 x 8484 genes",
        "8484 + 100 genes",
        "twice 8,484 DEGs",
        "half of 8,484 DEGs",
        "the first 8,484 genes",
        "8,484 genes were unchanged.",
        "8,484 of 20,000 genes were not changed.",
        "8,484 \u00b1 5,000 genes",
        "page 8484",
        "in the year 8484",
        "8484.5 genes",
        "8,000-9,000 DEGs",
        "more than 8,000 DEGs",
        "KMP in HU gives 8,484 DEGs in soleus.",
        "Soleus has 8,484 DEGs in HU.",
        "Liver is strong. It has 8,484 DEGs.",
        "It's either 8,484 or 479.",
        "Suppose that it is 8,484 DEGs.",
    ),
    "contradictory": ("4,848 DEGs. 8,484 DEGs.", "8,484 or rather 479 genes", "8,484 or 479 DEGs"),
}


@pytest.mark.parametrize(("expected", "answer"), [(v, a) for v in JUDGED for a in JUDGED[v]])
def test_a_number_counts_genes_of_the_subject_or_nothing(expected: str, answer: str) -> None:
    judged = verify_answer(COUNT, "How many DEGs?", answer)
    assert judged.verdict == expected, (judged.reason, judged.claims)
    assert all(claim.about == "number" for claim in judged.claims)


WRONG = "A summary gives 4,848 DEGs for KMP x HU in soleus. Does that match the table?"
RIGHT = WRONG.replace("4,848", "8,484")


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        (WRONG, "Yes.", "incorrect"),
        (WRONG, "No.", "no_claim"),
        (WRONG, "The summary says 4,848, but it is 8,484.", "correct"),
        (WRONG, "No, not 4,848 but 8,484.", "correct"),
        (WRONG, "The quoted 4,848 is right.", "incorrect"),
        (WRONG, "Yes, it matches. It is 8,484.", "contradictory"),
        (RIGHT, "Yes.", "correct"),
        (RIGHT, "The answer is yes.", "correct"),
        (RIGHT, "No.", "incorrect"),
        (RIGHT, "No. It is 8,484.", "contradictory"),
        (RIGHT, "The summary gives 8,484 DEGs.", "no_claim"),
        (RIGHT, "The quoted 8,484 is right.", "correct"),
        (RIGHT, "The quoted 8,484 is wrong.", "incorrect"),
        (RIGHT, "Yes and no.", "no_claim"),
        (RIGHT, "No idea.", "no_claim"),
    ],
)
def test_a_figure_of_the_question_counts_where_it_is_confirmed(
    question: str, answer: str, expected: str
) -> None:
    judged = verify_answer(COUNT, question, answer)
    assert judged.verdict == expected, (judged.reason, judged.claims)


def test_a_long_row_of_digits_is_read_in_linear_steps() -> None:
    reading = read("1," * 20_000)
    assert sum(len(numbers(reading, sentence)) for sentence in reading.sentences) == 0
