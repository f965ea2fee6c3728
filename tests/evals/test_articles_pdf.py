from pathlib import Path

import pytest

from evals.errors import UnreadableArticle
from evals.papers import Limits, read_article, read_article_file
from tests.evals.pdfs import LEFT, LINE, MIDDLE, Put, column, pdf, row_by_row

LOCKED = Path(__file__).parent / "files" / "locked.pdf"
TITLE = Put(LEFT, 790, "Osteocytes and bone loss in flown mice", 17, bold=True)
ABSTRACT = "Abstract. We flew mice for 30 days and found less bone in all of them than on the ground."
LEFT_TEXT = """## 1. Introduction

Bone is lost in weightlessness and the loss goes on for half a year or more. We asked whether the cells that
sense load do so directly or through their neighbours, which is debated.

## 2. Materials and methods

Mice were flown for 30 days. Femora were scanned at 10 um and trabecular volume was measured in the
metaphysis. Groups had n = 4 animals each. Values were compared by many t tests, one for each site that was
"""
RIGHT_TEXT = """examined in each animal of the study.

## 3. Results

Trabecular volume fell by 32% in flight animals (p = 0.04). Sclerostin rose in the cortex of flown mice and
nowhere else that we looked.

Figure 1. Trabecular volume in flight and ground animals. Bars show means of four mice.

## References

Smith J (2019) Bone in space. J Bone 3, 4-9.
"""
ROWS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma"


def paper(n=1):
    body = row_by_row(column(LEFT_TEXT, LEFT, 690), column(RIGHT_TEXT, MIDDLE, 690))
    furniture = [
        Put(LEFT, 820, "Journal of Tests 2026"),
        Put(290, 25, str(n)),
        Put(18, 300, "preprint", 8, turned=True),
    ]
    return [TITLE, *column(ABSTRACT, LEFT, 750, 100), *body, *furniture]


@pytest.fixture(scope="module")
def article():
    return read_article(pdf([paper()]), "bone.pdf")


def test_two_columns_written_row_by_row_are_read_one_after_the_other(article):
    assert [each.name for each in article.sections[-3:]] == ["Introduction", "Materials and methods", "Results"]
    assert article.sections[-2].text.endswith("one for each site that was examined in each animal of the study.")


def test_headings_as_large_as_the_title_are_no_part_of_it():
    text = """## Results of a diet in mice

## and its control

## Abstract

We report that a diet changes the lifespan of mice in both sexes, at every age that was looked at.

## 2. Methods

Twelve mice were fed for two years and weighed each week by a person who knew nothing of the diet."""
    found = read_article(pdf([column(text, LEFT, 780, 80)]), "diet.pdf")
    assert found.title == "Results of a diet in mice and its control"
    assert found.abstract.startswith("We report that a diet")
    assert [each.name for each in found.sections] == ["Methods"]


def test_title_abstract_captions_and_references_of_a_pdf_are_found(article):
    assert article.title == "Osteocytes and bone loss in flown mice"
    assert article.abstract.startswith("We flew mice")
    assert [(each.label, each.page) for each in article.figures] == [("Figure 1", 1)]
    assert [each.text for each in article.references] == ["Smith J (2019) Bone in space. J Bone 3, 4-9."]


def test_running_heads_page_numbers_and_stamps_at_the_margin_are_left_out():
    whole = read_article(pdf([paper(1), paper(2), paper(3)]), "a.pdf").model_dump_json()
    assert "Journal of Tests" not in whole
    assert "preprint" not in whole


def test_lines_of_one_column_stay_whole():
    lines = [Put(LEFT, 700 - LINE * n, " ".join([*ROWS.split()[n % 9 :], ROWS])[:95]) for n in range(20)]
    found = read_article(pdf([lines]), "a.pdf")
    text = " ".join(section.text for section in found.sections).replace("\n\n", " ")
    assert text == " ".join(put.text for put in lines)


def test_three_columns_are_read_in_order():
    puts = [
        Put(x, 760 - LINE * n, f"{name}{n:02d} alpha beta gamma delta")
        for n in range(30)
        for name, x in (("left", 40), ("mid", 225), ("right", 410))
    ]
    found = read_article(pdf([puts]), "a.pdf")
    words = " ".join(each.text for each in found.sections).split()
    marks = [word for word in words if word[-2:].isdigit()]
    assert marks == [f"{name}{n:02d}" for name in ("left", "mid", "right") for n in range(30)]


def test_words_broken_at_line_ends_come_together_and_hyphens_that_belong_stay():
    puts = [
        Put(LEFT, 700, "The effect of weight-"),
        Put(LEFT, 688, "lessness on IL-"),
        Put(LEFT, 676, "6 was seen in many cells of the mice."),
    ]
    found = read_article(pdf([puts]), "a.pdf")
    assert found.sections[0].text == "The effect of weightlessness on IL-6 was seen in many cells of the mice."


def test_a_paragraph_that_a_page_cuts_in_two_is_whole_and_keeps_its_page():
    first = [
        *column("## Methods\n\n" + "Mice were kept in cages of four and fed a diet. " * 3, LEFT, 700),
        Put(LEFT, 600, "They were then"),
    ]
    second = column(
        "taken to the laboratory and weighed each week by the same person.\n\n" + "Later all were bled. " * 12,
        LEFT,
        780,
    )
    found = read_article(pdf([first, second]), "a.pdf")
    (section,) = found.sections
    assert "They were then taken to the laboratory" in section.text
    assert section.page_at(section.text.index("They")) == 1
    assert section.page_at(section.text.index("Later all")) == 2


def test_numbers_beside_the_lines_of_a_manuscript_are_taken_away():
    puts = []
    for n in range(25):
        puts += [
            Put(25, 760 - LINE * n, str(n + 1)),
            Put(60, 760 - LINE * n, "mice were weighed and bled on each day of the study"),
        ]
    text = read_article(pdf([puts]), "a.pdf").sections[0].text
    assert not any(word.isdigit() for word in text.split())


def test_a_scan_is_refused_with_the_way_out_and_single_pictures_are_noted():
    with pytest.raises(UnreadableArticle, match=r"3 of 3 pages are pictures.*ocrmypdf"):
        read_article(pdf([[], [], []]), "scan.pdf")
    found = read_article(pdf([paper(), paper(), []]), "a.pdf")
    assert found.origin.notes == ("1 of 3 pages hold no text (pages 3)",)


def test_locked_and_broken_files_say_what_to_do():
    with pytest.raises(UnreadableArticle, match="locked with a password"):
        read_article_file(LOCKED)
    with pytest.raises(UnreadableArticle, match="broken or was not downloaded whole"):
        read_article(b"%PDF-1.7\n" + b"junk" * 100, "a.pdf")


def test_a_book_of_500_pages_is_refused_and_pages_are_counted_while_reading():
    with pytest.raises(UnreadableArticle, match="has 500 pages; up to 400"):
        read_article(pdf([[]] * 500), "book.pdf")
    seen = []
    read_article(pdf([paper()] * 2), "a.pdf", Limits(pages=2), lambda done, of: seen.append((done, of)))
    assert seen == [(1, 2), (2, 2)]


def test_half_a_file_never_ends_in_anything_but_a_clear_refusal_or_an_article():
    data = pdf([paper()])
    for cut in range(0, len(data), 150):
        try:
            read_article(data[:cut], "a.pdf")
        except UnreadableArticle:
            continue
