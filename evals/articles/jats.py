"""JATS XML, the format of PubMed Central and most publishers, to a paper.

Sub-articles (decision letters and author responses among them) are never read: they hold the answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from xml.etree.ElementTree import Element

from evals.articles.jats_text import caption_text, one_line, table_text, text_of
from evals.articles.outline import UNNAMED
from evals.articles.tree import tree_of
from evals.errors import UnreadableArticle
from evals.schema import Figure, Reference, Section

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
    return tuple(
        dict.fromkeys(name for name in names if name and name.lower() not in ARTICLE_TYPES)
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
            " ".join(
                filter(None, (one_line(each.find("surname")), one_line(each.find("given-names"))))
            )
            for each in cited.iter()
            if each.tag in ("name", "string-name")
        ]
        yield Reference(
            text=one_line(cited),
            authors=", ".join(names),
            year=one_line(cited.find(".//year")),
            title=one_line(cited.find(".//article-title"))
            or one_line(cited.find(".//chapter-title")),
            journal=one_line(cited.find(".//source")),
        )


CITATIONS = ("element-citation", "mixed-citation", "nlm-citation", "citation")
