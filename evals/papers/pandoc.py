"""Manuscripts in DOCX, ODT, HTML and LaTeX, read by pandoc where it is installed, by way of the JATS that it writes."""

import io
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal
from xml.etree.ElementTree import Element

from evals.errors import UnreadableArticle
from evals.papers.jats import FLOATS, one_line, outline_of_jats, text_of, tree_of
from evals.papers.outline import Block, Outline, outline_of, role_of
from evals.papers.text import heading_level, is_title, read_plain, with_title
from evals.schema import Section

Manuscript = Literal["docx", "odt", "html", "latex"]
CALLED = {"docx": "a Word document", "odt": "an OpenDocument text", "html": "a web page", "latex": "LaTeX"}
SECONDS = 60
HTML_START = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!DOCTYPE\s+html|html)\b", re.I | re.S)
LATEX_START = re.compile(rb"^\s*\\document(?:class|style)\b", re.M)
BIBLIOGRAPHY = re.compile(rb"\\begin\s*\{thebibliography\}\s*\{[^{}]*\}(.*?)\\end\s*\{thebibliography\}", re.S)
OTHER_LIST = re.compile(rb"\\(?:bibliography|addbibresource)\s*(?:\[[^\[\]]*\])?\s*\{([^{}]*)\}")
BIBITEM = re.compile(rb"\\bibitem\s*(?:\[[^\[\]]*\])?\s*\{[^{}]*\}")
MOST_WARNINGS = 5


def manuscript_kind(data: bytes, name: str) -> Manuscript | None:
    """Return what kind of manuscript a file is, by its content first, None if it is none of these."""
    if data.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                names = archive.namelist()
                mimetype = archive.read("mimetype")[:50] if "mimetype" in names else b""
        except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError):
            return None
        return "docx" if "word/document.xml" in names else "odt" if mimetype.endswith(b".opendocument.text") else None
    if HTML_START.match(data[:2000]):
        return "html"
    is_other = name.lower().endswith((".md", ".markdown", ".xml", ".nxml"))
    is_latex = name.lower().endswith((".tex", ".latex", ".ltx")) or (not is_other and LATEX_START.search(data[:20_000]))
    return "latex" if is_latex else None


def read_manuscript(data: bytes, name: str, kind: Manuscript) -> Outline:
    """Return the paper in a manuscript; UnreadableArticle where pandoc is missing, gives up, or takes over a minute."""
    lists: list[str] = []
    if kind == "latex":  # pandoc makes one paragraph of the entries, and gives up where a file of them is missing
        data = BIBLIOGRAPHY.sub(lambda found: rb"\section{References}" + BIBITEM.sub(rb"\n\n", found[1]), data)
        lists = [found[1].decode("utf-8", "replace") for found in OTHER_LIST.finditer(data)]
        data = OTHER_LIST.sub(b"", data)
    xml, notes = _jats(data, name, kind)
    root = tree_of(xml, name)
    known, body = outline_of_jats([root]), root.find("body")
    parts = [*_blocks(body, 1)] if body is not None else []
    if all(each.kind == "paragraph" for each in parts):
        abstract = f"Abstract\n\n{known.abstract}" if known.abstract else ""
        texts = (known.title.rstrip("."), abstract, *(each.text for each in parts))
        found = read_plain("\n\n".join(filter(None, texts)))
    else:
        title, parts = with_title(parts, "" if kind == "html" else known.title)
        title = title or known.title
        if not title and parts[0].kind == "paragraph" and is_title(parts[0].text):
            title = parts.pop(0).text
        before = [Block("heading", "Abstract"), Block("paragraph", known.abstract)] if known.abstract else []
        found = outline_of([*before, *parts], title)
    below = "\n\n".join(f"{one_line(each.find('label'))} {text_of(each)}" for each in root.findall("back/fn-group/fn"))
    return replace(
        found,
        sections=(*found.sections, *([Section(name="Notes", text=below)] if below else ())),
        figures=(*known.figures, *found.figures),
        notes=(*notes, *(f"the list of references is in another file, {each}" for each in lists), *known.notes),
    )


def _blocks(place: Element, level: int) -> Iterator[Block]:
    """Give headings and paragraphs; a paragraph that is the name of a section, as "Methods", is a heading too."""
    for child in place:
        if child.tag in ("sec", "boxed-text"):
            yield from _blocks(child, level if child.tag == "boxed-text" else level + 1)
        elif child.tag not in (*FLOATS, "label") and (text := text_of(child)):
            is_heading = child.tag == "title" or (heading_level(text) == 1 and role_of(text) != "other")
            yield Block("heading" if is_heading else "paragraph", text, level)


def _jats(data: bytes, name: str, kind: Manuscript) -> tuple[bytes, list[str]]:
    """Return the JATS that pandoc makes of a file, and what it could not do; it reads no other file and no address."""
    program = shutil.which("pandoc")
    if program is None:
        raise UnreadableArticle(
            f"{name} is {CALLED[kind]}, which is read where pandoc is installed; it is not on this machine. Install pandoc"
            " (https://pandoc.org/installing.html, or `apt install pandoc`) and give the file again, or export it as PDF."
        )
    command = [
        program,
        "+RTS",
        "-M1G",
        "-RTS",
        "--sandbox",
        "--citeproc",
        "--from",
        kind,
        "--to",
        "jats",
        "--standalone",
    ]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise UnreadableArticle(f"pandoc did not end with {name} within {SECONDS} s; export it as PDF.") from None
    said = done.stderr.decode("utf-8", "replace")
    if done.returncode:
        raise UnreadableArticle(
            f"pandoc could not read {name}, {CALLED[kind]}: {' '.join(said.split())[:300] or f'it ended with {done.returncode}'}."
            " Versions from 2.15 on are needed. Save the file again, or export it as PDF."
        )
    warnings = [" ".join(each.split()) for each in said.split("[WARNING]")[1:]]
    keys = sum("citation" in each and "not found" in each for each in warnings)
    others = [each for each in warnings if "not found" not in each or "citation" not in each]
    notes = [f"read by pandoc, by way of JATS, from {CALLED[kind]}"]
    if keys:
        notes.append(f"{keys} citation{'s are' if keys > 1 else ' is'} shown by key and ?, as (smith2020?)")
    notes += [f"pandoc: {each}" for each in others[:MOST_WARNINGS]]
    if len(others) > MOST_WARNINGS:
        notes.append(f"pandoc: {len(others) - MOST_WARNINGS} more warnings")
    return done.stdout, notes
