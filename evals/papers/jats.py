"""JATS XML, the format of PubMed Central and most publishers, to a paper.

Sub-articles (decision letters and author responses among them) are never read: they hold the answer.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import date
from html.entities import html5
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import EntitiesForbidden
from defusedxml.ElementTree import DefusedXMLParser

from evals.errors import UnreadableArticle
from evals.papers.outline import UNNAMED, Outline
from evals.papers.text import tidy
from evals.schema import Figure, Reference, Section

DEEPEST = 120
"""Elements inside each other; articles have about 20."""
MOST_ELEMENTS = 1_000_000


class _LocalNames(TreeBuilder):
    """Builds a tree with names without prefixes and refuses one that is deeper or larger than any article."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.depth, self.elements = name, 0, 0

    def start(self, tag: str, attrs: dict[str, str]) -> Element:
        """Open an element."""
        self.depth += 1
        self.elements += 1
        if self.depth > DEEPEST or self.elements > MOST_ELEMENTS:
            raise UnreadableArticle(
                f"{self.name} has more than {DEEPEST} elements inside each other or more than"
                f" {MOST_ELEMENTS:,} in all, which no article needs; give the publisher's own XML file."
            )
        return super().start(tag.rpartition("}")[2], {key.rpartition("}")[2]: value for key, value in attrs.items()})

    def end(self, tag: str) -> Element:
        """Close an element."""
        self.depth -= 1
        return super().end(tag.rpartition("}")[2])


def tree_of(data: bytes, name: str) -> Element:
    """Return the root element of an XML document, names without prefixes.

    UnreadableArticle for XML that is not well-formed (with line and column), declares entities, is in
    an encoding that is not known, or is nested beyond any article.
    """
    parser = DefusedXMLParser(target=_LocalNames(name))
    parser.parser.UseForeignDTD(True)  # so that an entity which the document type would declare is no error
    parser.entity = defaultdict(str, {entity.rstrip(";"): character for entity, character in html5.items()})
    try:
        parser.feed(data)
        return parser.close()
    except EntitiesForbidden as error:
        raise UnreadableArticle(
            f"{name} declares the XML entity {error.name!r}, which can make a small file huge or name other"
            " files; nothing of it is read. Article XML needs no entities of its own: take the DOCTYPE's"
            " declarations out, or give the publisher's original file."
        ) from None
    except (ParseError, LookupError) as error:
        raise UnreadableArticle(
            f"{name} is not well-formed XML: {error}. Download it again, or give the PDF."
        ) from None


SKIPPED = frozenset(
    (
        *("fig", "fig-group", "table-wrap", "table-wrap-group", "supplementary-material", "media"),
        *("graphic", "inline-graphic", "ref-list", "object-id", "permissions", "label"),
        *("sec-meta", "sub-article", "response", "tex-math"),
    )
)
"""Not part of the running text; figures and tables are taken up apart."""
BLOCKS = frozenset(("p", "disp-quote", "disp-formula", "def-item", "fn", "verse-group", "preformat", "code"))
PLACES = frozenset(("sec", "abstract", "body", "app", "ack", "fn-group", "notes", "boxed-text", "statement", "list"))


def text_of(element: Element, *, without_title: bool = False) -> str:
    """Return an element's paragraphs with blank lines between; headings below it are lines of their own."""
    parts = _blocks(element, is_top=without_title)
    return "\n\n".join(part for part in parts if part)


def one_line(element: Element | None) -> str:
    """Return the text of an element in one line, "" for None."""
    return " ".join(tidy("".join(_inline(element))).split()) if element is not None else ""


def caption_text(element: Element) -> str:
    """Return title and text of a figure's or table's caption, and a table's footnotes."""
    caption = element.find("caption")
    parts = [one_line(child) for child in caption] if caption is not None else []
    parts += [one_line(each) for each in element.findall("table-wrap-foot")]
    return " ".join(part for part in parts if part)


def table_text(table: Element) -> str:
    """Return a table's rows, one a line, with | between cells."""
    rows = (" | ".join(one_line(cell) for cell in row if cell.tag in ("td", "th")) for row in table.iter("tr"))
    return "\n".join(rows)


def _blocks(element: Element, *, is_top: bool = False) -> Iterator[str]:
    """Give the paragraphs below an element, in order; the heading of a part is a paragraph."""
    if element.tag in BLOCKS or element.tag not in PLACES | {"list-item"}:
        yield from _paragraph(element)
        return
    for child in element:
        if child.tag in SKIPPED:
            continue
        if child.tag == "title":
            if not is_top:
                yield one_line(child)
        elif child.tag == "list-item":
            yield "- " + " ".join(_blocks(child))
        else:
            yield from _blocks(child)


def _paragraph(element: Element) -> Iterator[str]:
    """Give a paragraph; lists inside it are paragraphs behind it."""
    yield one_line(element)
    for inner in element.iter("list"):
        if inner is not element:
            yield from _blocks(inner)


def _inline(element: Element) -> Iterator[str]:
    """Give the pieces of text of an element, without what stands apart; powers keep their sign."""
    before = element.text or ""
    yield before
    for child in element:
        if child.tag == "sup" and before[-1:].isdigit() and (child.text or "").strip("-−+").isdigit():
            yield "^"
        if child.tag in ("break", "p", "td", "title"):
            yield " "
        if child.tag not in SKIPPED and child.tag != "list":
            yield from _inline(child)
        if child.tag in ("p", "title", "td"):
            yield " "
        before = child.tail or ""
        yield before


FLOATS = {"fig": "figure", "table-wrap": "table"}
BESIDE = ("graphical", "teaser", "plain-language-summary", "executive-summary", "toc", "key-points")
"""Types of abstract that are not the abstract."""
ARTICLE_TYPES = frozenset(
    (
        *("research article", "research advance", "insight", "correction", "short report"),
        *("review article", "tools and resources", "feature article", "editorial", "registered report"),
        *("replication study", "scientific correspondence", "article"),
    )
)
"""Subject labels that say what kind of article it is, not what it is about."""


def read_jats(data: bytes, name: str) -> Outline:
    """Return the article of a JATS file; UnreadableArticle if there is none in it."""
    root = tree_of(data, name)
    article = root if root.tag == "article" else root.find(".//article")
    if article is None:
        raise UnreadableArticle(
            f"{name} is XML without an <article> (its root is <{root.tag}>); accepted is JATS, as PubMed"
            " Central and publishers offer it for download."
        )
    meta = article.find("front/article-meta")
    meta = Element("article-meta") if meta is None else meta
    abstract = next((each for each in meta.findall("abstract") if each.get("abstract-type") not in BESIDE), None)
    subjects = (one_line(each) for each in meta.findall("article-categories//subject"))
    return Outline(
        title=one_line(meta.find("title-group/article-title")),
        abstract="" if abstract is None else text_of(abstract),
        doi={each.get("pub-id-type"): one_line(each) for each in meta.findall("article-id")}.get("doi", ""),
        subjects=tuple(dict.fromkeys(each for each in subjects if each and each.lower() not in ARTICLE_TYPES)),
        published_date=_date(meta),
        sections=tuple(_sections(article)),
        figures=tuple(_figures(article)),
        references=tuple(_references(article)),
    )


def _date(meta: Element) -> date | None:
    """Return the earliest date of publication that is whole; a missing month or day counts as the first."""
    found = []
    for each in meta.findall("pub-date"):
        parts = [one_line(each.find(name)) for name in ("year", "month", "day")]
        numbers = [int(part) if part.isascii() and part.isdigit() else 1 for part in parts]
        if parts[0]:
            try:
                found.append(date(*numbers))
            except ValueError:
                continue
    return min(found, default=None)


def _sections(article: Element) -> Iterator[Section]:
    """Give the sections of body and back in order, each with all that is below it."""
    for part in ("body", "back"):
        place = article.find(part)
        if place is None:
            continue
        loose: list[str] = []
        for child in place:
            if child.tag in ("sec", "app", "ack", "fn-group", "notes"):
                yield from _flush(loose)
                yield from _section(child)
            elif child.tag == "app-group":
                for app in child.findall("app"):
                    yield from _section(app)
            elif part == "body" and child.tag not in FLOATS:
                loose.append(text_of(child))
        yield from _flush(loose)


def _flush(loose: list[str]) -> Iterator[Section]:
    text = "\n\n".join(part for part in loose if part)
    loose.clear()
    if text:
        yield Section(name=UNNAMED, text=text)


def _section(element: Element) -> Iterator[Section]:
    names: Mapping[str, str] = {"ack": "Acknowledgements", "fn-group": "Notes", "notes": "Notes"}
    text = text_of(element, without_title=True)
    if text:
        title = one_line(element.find("title"))
        yield Section(name=title or names.get(element.tag, UNNAMED), text=text)


def _figures(article: Element) -> Iterator[Figure]:
    """Give figures and tables in order, sub-articles left out."""
    for part in ("body", "back", "floats-group"):
        place = article.find(part)
        for element in place.iter() if place is not None else ():
            if element.tag not in FLOATS:
                continue
            label = one_line(element.find("label")).rstrip(".")
            yield Figure(
                label=label,
                kind="table" if FLOATS[element.tag] == "table" else "figure",
                caption=caption_text(element),
                content="\n".join(table_text(table) for table in element.iter("table")),
            )


def _references(article: Element) -> Iterator[Reference]:
    for ref in article.findall("back//ref-list//ref"):
        cited = next((ref.find(name) for name in CITATIONS if ref.find(name) is not None), None)
        cited = ref if cited is None else cited
        names = [
            " ".join(filter(None, (one_line(each.find("surname")), one_line(each.find("given-names")))))
            for each in cited.iter()
            if each.tag in ("name", "string-name")
        ]
        yield Reference(
            text=one_line(cited),
            authors=", ".join(names),
            year=one_line(cited.find(".//year")),
            title=one_line(cited.find(".//article-title")) or one_line(cited.find(".//chapter-title")),
            journal=one_line(cited.find(".//source")),
        )


CITATIONS = ("element-citation", "mixed-citation", "nlm-citation", "citation")
