"""XML to a tree without what XML can do to a reader: no entities of its own, no files, no depth.

Expat is driven directly because xml.etree hides the handlers that tell of declarations. A document
type is accepted (JATS files name theirs) and never fetched.
"""

import html
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from evals.errors import UnreadableArticle

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
