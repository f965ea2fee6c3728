"""JATS XML, the format of PubMed Central and most publishers, to a paper.

Sub-articles (decision letters and author responses among them) are never read: they hold the answer.
"""

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from evals.errors import UnreadableArticle
from evals.papers.outline import UNNAMED
from evals.papers.text import tidy
from evals.schema import Figure, Reference, Section

DEEPEST = 120
"""Elements inside each other; articles have about 20."""
MOST_ELEMENTS = 1_000_000


class Reader:
    """Collects one document; expat calls it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.builder = TreeBuilder()
        self.depth = 0
        self.elements = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Open an element, its name without a prefix."""
        self.depth += 1
        self.elements += 1
        if self.depth > DEEPEST or self.elements > MOST_ELEMENTS:
            raise UnreadableArticle(
                f"{self.name} has more than {DEEPEST} elements inside each other or more than"
                f" {MOST_ELEMENTS:,} in all, which no article needs; give the publisher's own XML file."
            )
        local = {key.rpartition(":")[2]: value for key, value in attributes.items()}
        self.builder.start(tag.rpartition(":")[2], local)

    def end(self, tag: str) -> None:
        """Close an element."""
        self.depth -= 1
        self.builder.end(tag.rpartition(":")[2])

    def entity(self, name: str, *others: object) -> None:
        """Refuse a document that declares entities: expanded, they can grow without bound or name files."""
        raise UnreadableArticle(
            f"{self.name} declares the XML entity {name!r}, which can make a small file huge or name other"
            " files; nothing of it is read. Article XML needs no entities of its own: take the DOCTYPE's"
            " declarations out, or give the publisher's original file."
        )

    def skipped(self, name: str, is_parameter: bool) -> None:
        """Put in the character of an entity such as &nbsp; that the document type would declare."""
        if not is_parameter:
            character = html.unescape(f"&{name};")
            self.builder.data(character if character != f"&{name};" else "")


def tree_of(data: bytes, name: str) -> Element:
    """Return the root element of an XML document, names without prefixes.

    UnreadableArticle for XML that is not well-formed (with line and column), declares entities, is in
    an encoding that expat does not know, or is nested beyond any article.
    """
    reader = Reader(name)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.builder.data
    parser.EntityDeclHandler = reader.entity
    parser.SkippedEntityHandler = reader.skipped
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    parser.UseForeignDTD(True)
    try:
        parser.Parse(data, True)
        return reader.builder.close()
    except expat.ExpatError as error:
        raise UnreadableArticle(
            f"{name} is not well-formed XML: {expat.ErrorString(error.code)}, line {error.lineno}, column"
            f" {error.offset}. Download it again, or give the PDF."
        ) from None


SKIPPED = frozenset(
    (
        "fig",
        "fig-group",
        "table-wrap",
        "table-wrap-group",
        "supplementary-material",
        "media",
        "graphic",
        "inline-graphic",
        "ref-list",
        "object-id",
        "permissions",
        "label",
        "sec-meta",
        "sub-article",
        "response",
        "tex-math",
    )
)
"""Not part of the running text; figures and tables are taken up apart."""
BLOCKS = frozenset(("p", "disp-quote", "disp-formula", "def-item", "fn", "verse-group", "preformat", "code"))
PLACES = frozenset(
    (
        "sec",
        "abstract",
        "body",
        "app",
        "ack",
        "fn-group",
        "notes",
        "boxed-text",
        "statement",
        "list",
    )
)


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
    name.lower()
    for name in (
        "Research Article",
        "Research Advance",
        "Insight",
        "Correction",
        "Short Report",
        "Review Article",
        "Tools and Resources",
        "Feature Article",
        "Editorial",
        "Registered Report",
        "Replication Study",
        "Scientific Correspondence",
        "Article",
    )
)
"""Subject labels that say what kind of article it is, not what it is about."""


@dataclass(frozen=True)
class JatsArticle:
    """What a JATS file says of its article."""

    title: str
    abstract: str
    doi: str
    journal: str
    subjects: tuple[str, ...]
    published: date | None
    sections: tuple[Section, ...]
    figures: tuple[Figure, ...]
    references: tuple[Reference, ...]


def read_jats(data: bytes, name: str) -> JatsArticle:
    """Return the article of a JATS file; UnreadableArticle if there is none in it, or no body text."""
    root = tree_of(data, name)
    article = root if root.tag == "article" else root.find(".//article")
    if article is None:
        raise UnreadableArticle(
            f"{name} is XML without an <article> (its root is <{root.tag}>); accepted is JATS, as PubMed"
            " Central and publishers offer it for download."
        )
    sections = tuple(_sections(article))
    meta = article.find("front/article-meta")
    meta = Element("article-meta") if meta is None else meta
    return JatsArticle(
        title=one_line(meta.find("title-group/article-title")),
        abstract=_abstract(meta),
        doi=_doi(meta),
        journal=one_line(article.find("front/journal-meta//journal-title")),
        subjects=_subjects(meta),
        published=_date(meta),
        sections=sections,
        figures=tuple(_figures(article)),
        references=tuple(_references(article)),
    )


def _abstract(meta: Element) -> str:
    found = [each for each in meta.findall("abstract") if each.get("abstract-type") not in BESIDE]
    return text_of(found[0]) if found else ""


def _doi(meta: Element) -> str:
    ids = {each.get("pub-id-type"): one_line(each) for each in meta.findall("article-id")}
    return ids.get("doi", "")


def _subjects(meta: Element) -> tuple[str, ...]:
    names = (one_line(each) for each in meta.findall("article-categories//subject"))
    return tuple(dict.fromkeys(name for name in names if name and name.lower() not in ARTICLE_TYPES))


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
