"""TEI XML as GROBID writes it, to a paper."""

from collections.abc import Iterator
from dataclasses import replace
from xml.etree.ElementTree import Element

from evals.errors import UnreadableArticle
from evals.papers.jats import one_line, tree_of
from evals.papers.outline import Block, Outline, outline_of
from evals.schema import Figure, Reference


def read_tei(data: bytes, name: str) -> Outline:
    """Return title, abstract, sections, figures, tables and references; UnreadableArticle if there is no text in it.

    A heading with a number of two parts or more (`<head n="2.1">`) stands below the section before it.
    """
    root = tree_of(data, name)
    header, text = root.find("teiHeader"), root.find("text")
    if header is None and text is None:
        raise UnreadableArticle(
            f"{name} is TEI without <teiHeader> and <text>; give what GROBID's processFulltextDocument wrote."
        )
    header, text = (Element("none") if each is None else each for each in (header, text))
    blocks = [Block("heading", "Abstract"), *_blocks(header.find("profileDesc/abstract"))]
    for part in ("body", "back"):
        for div in (each for each in text.findall(f"{part}//div") if each.find("listBibl") is None):
            blocks += _blocks(div)
    blocks += [Block("figure", "", figure=_figure(each)) for each in text.iter("figure")]
    found = outline_of(
        [each for each in blocks if each.text or each.figure], one_line(header.find(".//titleStmt/title"))
    )
    doi = next((one_line(each) for each in header.iter("idno") if (each.get("type") or "").upper() == "DOI"), "")
    cited = tuple(map(_reference, text.iter("biblStruct")))
    return replace(found, doi=doi, references=cited)


def _blocks(part: Element | None) -> Iterator[Block]:
    for each in part if part is not None else ():
        if each.tag == "head":
            yield Block("heading", one_line(each), 1 + (each.get("n") or "").rstrip(".").count("."))
        elif each.tag == "div" and part is not None and part.tag == "abstract":
            yield from (Block("paragraph", block.text) for block in _blocks(each))
        elif each.tag in ("p", "formula", "list", "note"):
            yield Block("paragraph", one_line(each))


def _figure(figure: Element) -> Figure:
    rows = [[one_line(cell) for cell in row.iter("cell")] for row in figure.iter("row")]
    is_table = figure.get("type") == "table"
    label = one_line(figure.find("label"))
    return Figure(
        label=f"{'Table' if is_table else 'Figure'} {label}"
        if label[:1].isdigit()
        else label or one_line(figure.find("head")),
        kind="table" if is_table else "figure",
        caption=one_line(figure.find("figDesc")),
        content="\n".join(map(" | ".join, rows)),
    )


def _reference(cited: Element) -> Reference:
    people = ([*each.findall("surname"), *each.findall("forename")] for each in cited.iter("persName"))
    names = [" ".join(map(one_line, person)) for person in people]
    title = next((each for level in "am" for each in cited.iter("title") if each.get("level") == level), None)
    journal = next((each for each in cited.iter("title") if each.get("level") == "j"), None)
    date = next(cited.iter("date"), None)
    raw = next((each for each in cited.iter("note") if each.get("type") == "raw_reference"), None)
    parts = {"authors": ", ".join(names), "title": one_line(title), "journal": one_line(journal)}
    parts["year"] = (date.get("when") or one_line(date))[:4] if date is not None else ""
    return Reference(text=one_line(raw) or ". ".join(filter(None, parts.values())), **parts)
