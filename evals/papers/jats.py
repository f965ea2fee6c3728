"""JATS XML, the format of PubMed Central and most publishers, to a paper.

Sub-articles (decision letters and author responses among them) are never read: they hold the answer.
"""

import tomllib
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from html.entities import html5
from pathlib import Path
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
        self.depth += 1
        self.elements += 1
        if self.depth > DEEPEST or self.elements > MOST_ELEMENTS:
            raise UnreadableArticle(
                f"{self.name} has more than {DEEPEST} elements inside each other or more than"
                f" {MOST_ELEMENTS:,} in all, which no article needs; give the publisher's own XML file."
            )
        return super().start(tag.rpartition("}")[2], {key.rpartition("}")[2]: value for key, value in attrs.items()})

    def end(self, tag: str) -> Element:
        self.depth -= 1
        return super().end(tag.rpartition("}")[2])


def tree_of(data: bytes, name: str) -> Element:
    """Return the root element of an XML document, names without prefixes.

    UnreadableArticle for XML that is not well-formed (with line and column), declares entities, is in
    an encoding that is not known, or is nested beyond any article.
    """
    parser = DefusedXMLParser(target=_LocalNames(name))
    told = "Download it again, or give the PDF."
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
        raise UnreadableArticle(f"{name} is not well-formed XML: {error}. {told}") from None


WORDS = tomllib.loads(Path(__file__).with_name("jats.toml").read_text(encoding="utf-8"))
SKIPPED, BLOCKS, PLACES, BESIDE, ARTICLE_TYPES = (
    frozenset(WORDS[name]) for name in ("skipped", "blocks", "places", "beside", "article_types")
)
FLOATS = ("fig", "table-wrap")


def text_of(element: Element, *, without_title: bool = False) -> str:
    """Return an element's paragraphs with blank lines between; headings below it are lines of their own."""
    return "\n\n".join(filter(None, _blocks(element, is_top=without_title)))


def one_line(element: Element | None) -> str:
    """Return the text of an element in one line, "" for None."""
    return " ".join(tidy("".join(_inline(element))).split()) if element is not None else ""


def _blocks(element: Element, *, is_top: bool = False) -> Iterator[str]:
    """Give the paragraphs below an element, in order; the heading of a part is a paragraph, lists stand behind theirs."""
    if element.tag in BLOCKS or element.tag not in PLACES:
        yield one_line(element)
        for inner in element.iter("list"):
            if inner is not element:
                yield from _blocks(inner)
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
            if child.tag in ("sec", "app", "ack", "fn-group", "notes", "app-group"):
                if loose and child.tag != "app-group":
                    yield Section(name=UNNAMED, text="\n\n".join(loose))
                    loose = []
                for each in child.findall("app") if child.tag == "app-group" else (child,):
                    text, title = text_of(each, without_title=True), one_line(each.find("title"))
                    if text:
                        yield Section(name=title or WORDS["names"].get(each.tag, UNNAMED), text=text)
            elif part == "body" and child.tag not in FLOATS and (text := text_of(child)):
                loose.append(text)
        if loose:
            yield Section(name=UNNAMED, text="\n\n".join(loose))


def _figures(article: Element) -> Iterator[Figure]:
    for part in ("body", "back", "floats-group"):
        place = article.find(part)
        for element in place.iter() if place is not None else ():
            if element.tag not in FLOATS:
                continue
            caption = element.find("caption")
            told = [*(() if caption is None else caption), *element.findall("table-wrap-foot")]
            rows = [
                [cell for cell in row if cell.tag in ("td", "th")]
                for table in element.iter("table")
                for row in table.iter("tr")
            ]
            yield Figure(
                label=one_line(element.find("label")).rstrip("."),
                kind="figure" if element.tag == "fig" else "table",
                caption=" ".join(filter(None, map(one_line, told))),
                content="\n".join(" | ".join(map(one_line, row)) for row in rows),
            )


def _references(article: Element) -> Iterator[Reference]:
    for ref in article.findall("back//ref-list//ref"):
        cited = next((ref.find(name) for name in WORDS["citations"] if ref.find(name) is not None), None)
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
