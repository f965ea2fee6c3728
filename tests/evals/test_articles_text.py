"""Papers as text, Markdown and JATS XML: `files/papers/`, and `cases/papers.yaml` for words and refusals."""

from pathlib import Path

import pytest
import yaml

from evals.errors import UnreadableArticle
from evals.papers import Limits, read_article, read_article_file
from evals.papers.outline import role_of
from evals.papers.text import without_markup

HERE = Path(__file__).parent
CASES = yaml.safe_load((HERE / "cases/papers.yaml").read_text(encoding="utf-8"))
PAPERS = HERE / "files/papers"


def named(article):
    return [section.name for section in article.sections]


def test_plain_text_is_read_with_its_title_abstract_sections_captions_and_references():
    article = read_article_file(PAPERS / "moss.txt")
    assert article.title.endswith("with a delay of two days")
    assert article.abstract == "Spores were turned in a clinostat."
    assert named(article) == ["Introduction", "Methods", "METHODS", "Results"]
    assert "Clinostat\n\nPlates were turned at 2 rpm.\n- n = 3 plates" in article.sections[1].text
    (figure,) = article.figures
    assert (figure.label, figure.caption) == ("Figure 1", "Germination over time. Bars are means.")
    assert [each.text for each in article.references] == ["Smith J. Moss. 2019.", "Doe A. Spores. 2020."]
    assert "Figure 2 shows the course." in article.sections[-1].text


def test_markdown_keeps_sections_of_the_same_name_tables_and_pictures():
    article = read_article_file(PAPERS / "bears.markdown")
    assert article.title == "Gut bacteria in *hibernating* bears"
    assert article.abstract == "Bears sleep."
    assert named(article) == ["Methods", "Methods"]
    assert "Sequencing\n\n16S, see the protocol." in article.sections[0].text
    assert "bear | reads\n1 | 900" in article.sections[0].text
    assert [each.caption for each in article.figures] == ["Figure 1. Diversity by month", "Reads per bear."]


def test_jats_gives_sections_figures_tables_and_references_but_never_the_decision_letter():
    article = read_article_file(PAPERS / "sleep.xml")
    assert (article.title, article.doi) == ("Sleep in Drosophila", "10.1/x.5")
    assert article.abstract == "Aim\n\nFlies sleep less."
    assert (article.subjects, str(article.published_date)) == (("Neuroscience",), "2021-03-01")
    assert named(article) == ["Main text", "Methods", "Methods", "Data availability"]
    assert article.sections[1].text == "We used 10^6 cells at H2O [1].\n\nFlies\n\nWild type.\n\n- one\n\n- two"
    assert [(each.label, each.kind, each.caption, each.content) for each in article.figures] == [
        ("Figure 1", "figure", "Sleep. Bars, n = 3.", ""),
        ("Table 1", "table", "Counts.", "fly | h\nwt | 8"),
    ]
    (reference,) = article.references
    cited = (reference.authors, reference.year, reference.title, reference.journal)
    assert cited == ("Smith J", "2019", "Flies", "J Fly")
    assert "SECRET" not in article.model_dump_json()


def test_an_article_inside_a_collection_is_found():
    xml = (PAPERS / "sleep.xml").read_text(encoding="utf-8")
    collection = f"<pmc-articleset>{xml[xml.index('<article ') :]}</pmc-articleset>"
    assert read_article(collection.encode(), "pmc.xml").title == "Sleep in Drosophila"


def test_xml_that_is_broken_hostile_or_no_article_is_refused():
    deep = "<article>" + "<sec>" * 200 + "</sec>" * 200 + "</article>"
    for xml, said in [*CASES["xml"], (deep, "inside each other")]:
        with pytest.raises(UnreadableArticle, match=said):
            read_article(xml.encode(), "a.xml")


def test_xml_in_another_declared_encoding_is_read_by_its_declaration():
    xml = "<?xml version='1.0' encoding='ISO-8859-1'?><article><body><p>5 µm</p></body></article>"
    assert read_article(xml.encode("latin-1"), "a.xml").sections[0].text == "5 µm"


def test_a_lone_first_heading_above_the_sections_is_the_title():
    article = read_article(b"# A title\n\n# Methods\n\nText.\n", "a.md")
    assert (article.title, named(article)) == ("A title", ["Methods"])


def test_text_without_any_heading_is_one_section_and_nothing_is_lost():
    text = "Only one paragraph of text that ends with a stop."
    article = read_article(text.encode(), "x.txt")
    assert [(each.name, each.text) for each in article.sections] == [("Main text", text)]


def test_the_same_file_has_the_same_id_whatever_folder_it_lay_in():
    one = read_article(b"Moss.", "C:\\papers\\Moss 1.txt")
    assert one.id == read_article(b"Moss.", "/home/someone/Moss 1.txt").id
    assert one.id.startswith("upload:moss-1-") and one.origin.file == "Moss 1.txt"


def test_html_in_text_goes_and_what_only_looks_like_it_stays():
    assert [without_markup(markup) for markup, _ in CASES["markup"]] == [text for _, text in CASES["markup"]]


def test_markup_of_any_size_is_read_in_one_pass():
    assert len(without_markup("<script>" * 20_000)) < 10


def test_what_a_section_is_for_is_told_from_its_words():
    assert [[name, role_of(name)] for name, _ in CASES["roles"]] == CASES["roles"]


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
    assert read_article("Methods\n\n5 µm".encode("utf-16"), "a.txt").sections[0].text == "5 µm"


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
