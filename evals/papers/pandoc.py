"""Manuscripts in DOCX, ODT, HTML and LaTeX, read by pandoc where it is installed, by way of the JATS that it writes."""

import html
import io
import re
import shutil
import subprocess
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Literal
from xml.etree.ElementTree import Element

from evals.errors import UnreadableArticle
from evals.papers.jats import FLOATS, one_line, outline_of_jats, text_of, tree_of
from evals.papers.outline import (
    Block,
    Outline,
    decode_text,
    heading_level,
    is_title,
    outline_of,
    read_plain,
    role_of,
    with_title,
)
from evals.schema import Section

Manuscript = Literal["docx", "odt", "html", "latex"]
CALLED = {"docx": "a Word document", "odt": "an OpenDocument text", "html": "a web page", "latex": "LaTeX"}
OPTIONS = "+RTS -M1G -RTS --sandbox --citeproc --standalone --to jats --from"
"""With up to 1 GB of memory, and no access to other files."""
SECONDS = 60
MOST_UNPACKED = 500_000_000
"""Bytes."""
BIBLIOGRAPHY = re.compile(rb"\\begin\s*\{thebibliography\}\s*\{[^{}]*\}(.*?)\\end\s*\{thebibliography\}", re.S)
OTHER_LIST = re.compile(rb"\\(?:bibliography|addbibresource)\s*(?:\[[^\[\]]*\])?\s*\{([^{}]*)\}")
WHITE_TEX = re.compile(rb"\\textcolor\s*\{white\}\s*\{([^{}]*)\}|\{\s*\\color\s*\{white\}([^{}]*)\}")
BIBITEM = re.compile(rb"\\bibitem\s*(?:\[[^\[\]]*\])?\s*\{[^{}]*\}")
MOST_WARNINGS = 5


def read_manuscript(data: bytes, name: str, kind: Manuscript) -> Outline:
    """Return the paper in a manuscript; UnreadableArticle where pandoc is missing, gives up, or takes over a minute."""
    lists, hidden = list[str](), ""
    if kind == "latex":  # pandoc makes one paragraph of the entries, and gives up where a file of them is missing
        data = BIBLIOGRAPHY.sub(lambda found: rb"\section{References}" + BIBITEM.sub(rb"\n\n", found[1]), data)
        lists = [found[1].decode("utf-8", "replace") for found in OTHER_LIST.finditer(data)]
        data = OTHER_LIST.sub(b"", data)
        white = [(found[1] or found[2] or b"").decode("utf-8", "replace") for found in WHITE_TEX.finditer(data)]
        data, hidden = WHITE_TEX.sub(b"", data), " ".join(" ".join(white).split())
    elif kind == "docx":
        try:
            data, hidden = _without_hidden_runs(data)
        except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as error:
            raise UnreadableArticle(f"{name} is a damaged Word document ({error}); save it again.") from None
    elif kind == "html":
        data, hidden = _without_hidden_parts(data, name)
    xml, notes = _jats(data, name, kind)
    if re.search(r"\w{3}", hidden):
        notes.insert(0, f"hidden text was left out: “{hidden[:200]}”")
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


RUN = re.compile(r"<w:r(?: [^<>]*)?>(?:(?!<w:r[ >]).)*?</w:r>", re.S)
TABLE = re.compile(r"<w:tbl>.*?</w:tbl>", re.S)
VANISHED = re.compile(r'<w:vanish(?: w:val="(?:1|true|on)")?/>|<w:sz w:val="[0-4]"/>')
WHITE = re.compile(r'<w:color [^<>]*w:val="FFFFFF"', re.I)


def _without_hidden_runs(data: bytes) -> tuple[bytes, str]:
    """Return a Word file without runs that nobody sees, and their words: hidden, up to 2 points high, or white outside a table."""
    removed: list[str] = []

    def seen(found: re.Match[str]) -> str:
        run = found[0]
        is_white = WHITE.search(run) and "<w:shd" not in run and "<w:highlight" not in run
        if not VANISHED.search(run) and (not is_white or any(start <= found.start() < end for start, end in tables)):
            return run
        removed.extend(re.findall(r"<w:t(?: [^<>]*)?>([^<>]*)</w:t>", run))
        return ""

    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as copy:
        if (size := sum(each.file_size for each in archive.infolist())) > MOST_UNPACKED:
            raise UnreadableArticle(
                f"the Word document has {size:,} bytes unpacked; up to {MOST_UNPACKED:,} are read. Save it with smaller images."
            )
        for name in archive.namelist():
            content = archive.read(name)
            if name in ("word/document.xml", "word/footnotes.xml", "word/endnotes.xml"):
                xml = content.decode("utf-8", "replace")
                tables = [each.span() for each in TABLE.finditer(xml)]
                content = RUN.sub(seen, xml).encode()
            copy.writestr(name, content)
    return written.getvalue(), " ".join(" ".join(map(html.unescape, removed)).split())


class _Page(HTMLParser):
    """Takes apart what a web page shows and what its own marks hide."""

    HIDING = re.compile(r"display:none|visibility:hidden|font-size:0|opacity:0(?![.\d])")
    VOID = frozenset(
        ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
    )

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.seen, self.removed, self.hiding, self.depth = list[str](), list[str](), "", 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        style = re.sub(r"\s", "", dict(attrs).get("style") or "").lower()
        if not self.hiding and tag not in self.VOID and (self.HIDING.search(style) or "hidden" in dict(attrs)):
            self.hiding = tag
        if not self.hiding:
            self.seen.append(self.get_starttag_text() or "")
        self.depth += tag == self.hiding

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_data(self.get_starttag_text() or "", is_text=False)

    def handle_endtag(self, tag: str) -> None:
        self.handle_data(f"</{tag}>", is_text=False)
        self.depth -= tag == self.hiding
        self.hiding = self.hiding if self.depth else ""

    def handle_data(self, data: str, *, is_text: bool = True) -> None:
        if not self.hiding:
            self.seen.append(data)
        elif is_text:
            self.removed.append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")


def _without_hidden_parts(data: bytes, name: str) -> tuple[bytes, str]:
    page = _Page()
    page.feed(decode_text(data, name))
    page.close()
    return "".join(page.seen).encode(), " ".join("".join(page.removed).split())


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
    command = [program, *OPTIONS.split(), kind]
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
