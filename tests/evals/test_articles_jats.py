import pytest

from evals.errors import UnreadableArticle
from evals.papers import read_article

JATS = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal Archiving v1.2//EN" "JATS-archivearticle1.dtd">
<article xmlns:xlink="http://www.w3.org/1999/xlink"><front>
<journal-meta><journal-title-group><journal-title>Journal of Tests</journal-title></journal-title-group></journal-meta>
<article-meta><article-id pub-id-type="doi">10.1/x.5</article-id>
<article-categories><subj-group><subject>Research Article</subject><subject>Neuroscience</subject></subj-group></article-categories>
<title-group><article-title>Sleep in <italic>Drosophila</italic></article-title></title-group>
<pub-date><year>2021</year><month>3</month></pub-date>
<abstract abstract-type="graphical"><p>Picture.</p></abstract>
<abstract><sec><title>Aim</title><p>Flies sleep&nbsp;less.</p></sec></abstract>
</article-meta></front>
<body><p>Before any section.</p>
<sec><title>Methods</title><p>We used 10<sup>6</sup> cells at H<sub>2</sub>O <xref>[1]</xref>.</p>
<sec><title>Flies</title><p>Wild type.</p><list><list-item><p>one</p></list-item><list-item><p>two</p></list-item></list></sec>
<fig><label>Figure 1.</label><caption><title>Sleep.</title><p>Bars, n = 3.</p></caption></fig></sec>
<sec><title>Methods</title><p>More.</p>
<table-wrap><label>Table 1</label><caption><p>Counts.</p></caption><table><tr><th>fly</th><th>h</th></tr><tr><td>wt</td><td>8</td></tr></table></table-wrap></sec>
</body><back><sec><title>Data availability</title><p>None.</p></sec>
<ref-list><ref><element-citation><name><surname>Smith</surname><given-names>J</given-names></name><year>2019</year>
<article-title>Flies</article-title><source>J Fly</source></element-citation></ref></ref-list></back>
<sub-article article-type="decision-letter"><body><p>SECRET decision.</p><fig><label>Figure R1</label></fig></body></sub-article>
</article>"""
BOMB = """<?xml version="1.0"?><!DOCTYPE article [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><article>&b;</article>"""
OUTSIDE = """<!DOCTYPE article [<!ENTITY x SYSTEM "file:///etc/passwd">]><article><body><p>&x;</p></body></article>"""


@pytest.fixture(scope="module")
def article():
    return read_article(JATS.encode(), "sleep.xml")


def test_jats_gives_title_abstract_subjects_date_and_doi(article):
    assert (article.title, article.doi) == ("Sleep in Drosophila", "10.1/x.5")
    assert article.abstract == "Aim\n\nFlies sleep less."
    assert article.subjects == ("Neuroscience",)
    assert str(article.published_date) == "2021-03-01"


def test_sections_keep_order_repeated_names_and_what_stands_below_them(article):
    assert [each.name for each in article.sections] == [
        "Main text",
        "Methods",
        "Methods",
        "Data availability",
    ]
    assert article.sections[1].text == ("We used 10^6 cells at H2O [1].\n\nFlies\n\nWild type.\n\n- one\n\n- two")


def test_figures_and_tables_stand_apart_with_captions_and_cells(article):
    assert [(each.label, each.kind, each.caption, each.content) for each in article.figures] == [
        ("Figure 1", "figure", "Sleep. Bars, n = 3.", ""),
        ("Table 1", "table", "Counts.", "fly | h\nwt | 8"),
    ]


def test_references_are_taken_apart(article):
    (reference,) = article.references
    assert (reference.authors, reference.year, reference.title, reference.journal) == (
        "Smith J",
        "2019",
        "Flies",
        "J Fly",
    )


def test_decision_letters_inside_the_file_are_never_read(article):
    assert "SECRET" not in article.model_dump_json()
    assert len(article.figures) == 2


def test_an_article_inside_a_collection_is_found():
    inner = JATS[JATS.index("<article ") :]
    article = read_article(f"<pmc-articleset>{inner}</pmc-articleset>".encode(), "pmc.xml")
    assert article.title == "Sleep in Drosophila"


@pytest.mark.parametrize(
    ("xml", "said"),
    [
        (BOMB, "declares the XML entity 'a'"),
        (OUTSIDE, "declares the XML entity 'x'"),
        ("<article><body><p>open", "not well-formed XML: .* line 1"),
        ("<?xml version='1.0'?><tei/>", r"without an <article> \(its root is <tei>"),
        ("<article>" + "<sec>" * 200 + "</sec>" * 200 + "</article>", "inside each other"),
    ],
)
def test_xml_that_is_broken_hostile_or_no_article_is_refused(xml, said):
    with pytest.raises(UnreadableArticle, match=said):
        read_article(xml.encode(), "a.xml")


def test_xml_in_another_declared_encoding_is_read_by_its_declaration():
    xml = "<?xml version='1.0' encoding='ISO-8859-1'?><article><body><p>5 µm</p></body></article>"
    assert read_article(xml.encode("latin-1"), "a.xml").sections[0].text == "5 µm"
