"""The running text of JATS elements: paragraphs, headings below a section, lists, formulas, tables."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from evals.articles.markup import tidy

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
BLOCKS = frozenset(
    ("p", "disp-quote", "disp-formula", "def-item", "fn", "verse-group", "preformat", "code")
)
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
    rows = (
        " | ".join(one_line(cell) for cell in row if cell.tag in ("td", "th"))
        for row in table.iter("tr")
    )
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
        if (
            child.tag == "sup"
            and before[-1:].isdigit()
            and (child.text or "").strip("-−+").isdigit()
        ):
            yield "^"
        if child.tag in ("break", "p", "td", "title"):
            yield " "
        if child.tag not in SKIPPED and child.tag != "list":
            yield from _inline(child)
        if child.tag in ("p", "title", "td"):
            yield " "
        before = child.tail or ""
        yield before
