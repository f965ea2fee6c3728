"""`python -m tests.evals.jats_losses FOLDER`: what is lost of JATS files on the way to an article.

Formulas that are in the text, entries of references in which two parts grew together, and words of body and back matter that
stand nowhere in the article (figures, tables, formulas and references apart).
"""

import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from evals.papers import read_article_file
from evals.papers.jats import tree_of

APART = {
    "fig",
    "fig-group",
    "table-wrap",
    "ref-list",
    "disp-formula",
    "inline-formula",
    "label",
    "media",
    "graphic",
    "object-id",
}
SPACED = {"p", "title", "sec", "list", "list-item", "name", "surname", "given-names"}
PARTS = {
    "surname",
    "given-names",
    "year",
    "article-title",
    "source",
    "volume",
    "issue",
    "fpage",
    "lpage",
    "pub-id",
    "collab",
}


def _texts(element: Element) -> Iterator[str]:
    if element.tag not in APART:
        yield element.text or ""
        for child in element:
            yield " " * (child.tag in SPACED)
            yield from _texts(child)
            yield child.tail or ""


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[^\W\d_]{2,}", text.lower()))


def losses(file: Path) -> Counter[str]:
    """Return the counts of one file."""
    root, article = tree_of(file.read_bytes(), file.name), read_article_file(file)
    first = root if root.tag == "article" else next(root.iter("article"))
    parts = [*first.findall("body"), *first.findall("back")]
    found = Counter[str]()
    for formula in (each for part in parts for each in part.iter() if each.tag in ("disp-formula", "inline-formula")):
        kind = next((tag for tag in ("math", "tex-math") if formula.find(f".//{tag}") is not None), "picture or text")
        found[f"formulas: {kind}"] += 1
    text = "\n".join(
        [article.title, article.abstract, *(f"{each.name}\n{each.text}" for each in article.sections)]
        + [f"{each.caption} {each.content}" for each in article.figures]
    )
    found["formulas shown as [formula]"] = text.count("[formula]")
    refs = [ref for part in parts for ref in part.iter("ref")]
    found["references"] = len(refs)
    for ref, read in zip(refs, article.references, strict=False):
        leaves = ["".join(each.itertext()).strip() for each in ref.iter() if each.tag in PARTS]
        glued = (a + b for a, b in itertools.pairwise(leaves) if a[-1:].isalnum() and b[:1].isalnum())
        found["references with parts grown together"] += any(len(both) > 5 and both in read.text for both in glued)
    words = _words("".join(each for part in parts for each in _texts(part)))
    found["words"] = words.total()
    found["words lost"] = (words - _words(text)).total()
    return found


if __name__ == "__main__":
    every = Counter[str]()
    for path in sorted(each for each in Path(sys.argv[1]).iterdir() if each.suffix in (".xml", ".nxml")):
        every += (mine := losses(path))
        sys.stdout.write(f"{path.name} {dict(mine)}\n")
    sys.stdout.write(f"{dict(every)}\n")
