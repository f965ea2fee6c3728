import pytest

from evals.errors import UnreadableArticle
from evals.papers import Limits, read_article, read_article_file
from evals.papers.outline import role_of
from evals.papers.text import without_markup

PLAIN = """Moss spores germinate in simulated microgravity
with a delay of two days

Abstract: Spores were turned in a clinostat.

1. Introduction
Moss is a model.

2. Methods

2.1 Clinostat
Plates were turned at 2 rpm.
- n = 3 plates
- 2 days

METHODS
Second methods section.

Results
Germination fell to 40%. Figure 2 shows the course.

Figure 1. Germination over time. Bars are means.

References
Smith J. Moss. 2019.

Doe A. Spores. 2020.
"""
MARKDOWN = """---
title: Gut bacteria in *hibernating* bears
authors: [nobody]
---
## Abstract
Bears sleep.

## Methods
Stool of 3 bears.

### Sequencing
16S, see [the protocol](http://example.org/x).

| bear | reads |
|---|---|
| 1 | 900 |

![Figure 1. Diversity by month](a.png)

Figure 2. Reads per bear.

## Methods
Again.

## References
- One 2019.
"""


def named(article):
    return [section.name for section in article.sections]


def test_plain_text_is_read_with_its_title_abstract_sections_captions_and_references():
    article = read_article(PLAIN.encode(), "moss.txt")
    assert article.title.endswith("with a delay of two days")
    assert article.abstract == "Spores were turned in a clinostat."
    assert named(article) == ["Introduction", "Methods", "METHODS", "Results"]
    assert "Clinostat\n\nPlates were turned at 2 rpm.\n- n = 3 plates" in article.sections[1].text
    assert [(each.label, each.caption) for each in article.figures] == [
        ("Figure 1", "Germination over time. Bars are means.")
    ]
    assert [each.text for each in article.references] == [
        "Smith J. Moss. 2019.",
        "Doe A. Spores. 2020.",
    ]
    assert "Figure 2 shows the course." in article.sections[-1].text


def test_markdown_keeps_sections_of_the_same_name_tables_and_pictures():
    article = read_article(MARKDOWN.encode(), "bears.md")
    assert article.title == "Gut bacteria in *hibernating* bears"
    assert article.abstract == "Bears sleep."
    assert named(article) == ["Methods", "Methods"]
    assert "Sequencing\n\n16S, see the protocol." in article.sections[0].text
    assert "bear | reads\n1 | 900" in article.sections[0].text
    assert [each.caption for each in article.figures] == [
        "Figure 1. Diversity by month",
        "Reads per bear.",
    ]


def test_a_lone_first_heading_above_the_sections_is_the_title():
    article = read_article(b"# A title\n\n# Methods\n\nText.\n", "a.md")
    assert (article.title, named(article)) == ("A title", ["Methods"])


def test_text_without_any_heading_is_one_section_and_nothing_is_lost():
    article = read_article(b"Only one paragraph of text that ends with a stop.", "x.txt")
    assert [(each.name, each.text) for each in article.sections] == [
        ("Main text", "Only one paragraph of text that ends with a stop.")
    ]


def test_the_same_file_has_the_same_id_whatever_folder_it_lay_in():
    one = read_article(PLAIN.encode(), "C:\\papers\\Moss 1.txt")
    assert one.id == read_article(PLAIN.encode(), "/home/someone/Moss 1.txt").id
    assert one.id.startswith("upload:moss-1-") and one.origin.file == "Moss 1.txt"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("p < 0.05 and n > 3 <LOD>", "p < 0.05 and n > 3 <LOD>"),
        ("10<sup>6</sup> cells of <i>E. coli</i>", "10^6 cells of E. coli"),
        ("<script>alert('x')</script>Mice<br/>were", "Mice\nwere"),
        ("a <script> that never ends", "a that never ends"),
        ("a<!-- b -->c", "a c"),
        ("&lt;LOD&nbsp;&amp; &notanentity;", "<LOD & &notanentity;"),
        ("<img src=x onerror=alert(1)>Text", "Text"),
        ("soft\u00adhyphen", "softhyphen"),
    ],
)
def test_html_in_text_goes_and_what_only_looks_like_it_stays(markup, text):
    assert without_markup(markup) == text


def test_markup_of_any_size_is_read_in_one_pass():
    assert len(without_markup("<script>" * 20_000)) < 10


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("2. Patients and Methods", "methods"),
        ("STAR Methods", "methods"),
        ("Statistical analysis", "methods"),
        ("Results and discussion", "results"),
        ("Resulting cohort", "other"),
        ("Code availability", "statement"),
        ("IV. Discussion", "discussion"),
        ("Supporting information", "supplement"),
        ("Ethics approval", "statement"),
        ("Introductory lectures", "other"),
    ],
)
def test_what_a_section_is_for_is_told_from_its_words(name, role):
    assert role_of(name) == role


@pytest.mark.parametrize(
    ("data", "name", "said"),
    [
        (b"", "a.txt", "is empty"),
        (b" \n ", "a.txt", "is empty"),
        ("5 µm ± 1".encode("latin-1"), "a.txt", "not UTF-8: byte 2 is 0xb5"),
        (bytes(range(256)) * 4, "a.txt", "not UTF-8"),
        (b"\x01\x02\x03" * 50, "a.txt", "no text"),
        (b"PK\x03\x04rest", "a.docx", "Office document"),
        (b"<!DOCTYPE html><html>", "a.html", "web page"),
        (b"\x89PNG\r\n", "a.png", "picture"),
    ],
)
def test_a_file_that_is_no_paper_is_refused_with_the_reason(data, name, said):
    with pytest.raises(UnreadableArticle, match=said):
        read_article(data, name)


def test_utf16_with_a_byte_order_mark_is_read():
    article = read_article("Methods\n\n5 µm".encode("utf-16"), "a.txt")
    assert article.sections[0].text == "5 µm"


def test_a_text_of_many_megabytes_is_refused_before_it_is_read(tmp_path):
    file = tmp_path / "big.txt"
    with file.open("wb") as big:
        big.truncate(200_000_000)
    with pytest.raises(UnreadableArticle, match=r"200\.0 MB.*up to 20 MB"):
        read_article_file(file)
    with pytest.raises(UnreadableArticle, match="up to 1 MB"):
        read_article(b"x" * 1_100_000, "x.txt", Limits(text_megabytes=1))


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(UnreadableArticle, match="there is no file"):
        read_article_file(tmp_path / "none.txt")
    with pytest.raises(UnreadableArticle, match="is a folder"):
        read_article_file(tmp_path)
