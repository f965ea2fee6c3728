"""Papers from files: published review benchmarks, JATS and TEI XML, Markdown, plain text, PDF, and what pandoc reads.

    article = read_article(Path("paper.pdf").read_bytes(), "paper.pdf")

Every reader gives the same `Article`. What a file is, is told from its bytes and then from its name; what it says is
data: nothing in it is followed or run.
"""

import hashlib
import io
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, Literal

from evals.errors import UnreadableArticle
from evals.papers.jats import read_jats, read_tei
from evals.papers.outline import check_size, decode_text, read_markdown, read_plain
from evals.papers.pandoc import Manuscript, read_manuscript
from evals.papers.pdf import read_pdf
from evals.schema import Article, ReviewExample, TextOrigin
from evals.worker import Send, read_apart

__all__ = ["demonstration", "read_article", "read_article_file"]

ACCEPTED = (
    "accepted are PDF, JATS XML, TEI XML of GROBID, Markdown (.md), plain text (.txt) and, where pandoc is installed,"
    " .docx, .odt, .html and .tex"
)
OTHERS = (
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\xd0\xcf\x11\xe0", "an old Office document (.doc)"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"{\\rtf", "an RTF document"),
    (b"%!PS", "PostScript"),
    (b"\x1f\x8b", "a gzip archive"),
)
LONGEST_TEXT = 100_000
"""Bytes of a text or XML file that is read in this process (a paper has fewer); others are read under limits."""
HTML_START = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!DOCTYPE\s+html|html)\b", re.I | re.S)
LATEX_START = re.compile(rb"^\s*\\document(?:class|style)\b", re.M)
XML_START = re.compile(rb"\s*<(?:\?xml|!DOCTYPE\s+article|article\b|pmc-articleset\b)", re.I)
TEI_START = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:tei:)?TEI\b", re.S)


def read_article_file(path: Path) -> Article:
    """Return the article in a file; LabError if the file is missing, else as `read_article`."""
    try:
        with path.open("rb") as file:
            check_size(path.stat().st_size, path.name, file.read(1024))
            file.seek(0)
            data = file.read()
    except FileNotFoundError:
        raise UnreadableArticle(f"there is no file {path}; name the file of a paper.") from None
    except IsADirectoryError:
        raise UnreadableArticle(f"{path} is a folder; name the file of one paper in it.") from None
    return read_article(data, path.name)


def read_article(data: bytes, name: str) -> Article:
    """Return the article in the bytes of a file called `name` (which is shown, never opened).

    Its id is made of the name and a checksum, so the same file has the same id. UnreadableArticle says
    what is wrong with a file that is no paper: scanned, locked, broken, too large, another format.
    """
    name = Path(name.replace("\\", "/")).name or "the file"
    if not data:
        raise UnreadableArticle(f"{name} is empty; give a file that holds the text of a paper.")
    is_pdf = b"%PDF-" in data[:1024]
    check_size(len(data), name, data[:1024])
    kind = None if is_pdf else manuscript_kind(data, name)
    what = None if is_pdf or kind else next((what for start, what in OTHERS if data.startswith(start)), None)
    if what:
        raise UnreadableArticle(f"{name} is {what}; {ACCEPTED}. Export it as PDF.")
    given = (data, name, "pdf" if is_pdf else kind)
    if not (is_pdf or kind or len(data) > LONGEST_TEXT):
        articles = list[Any]()
        _read(articles.append, *given)
        return articles[0]
    pages = list[tuple[int, int]]()

    def place() -> str:
        return f"page {len(pages) + 1} of {name}" if is_pdf and (not pages or len(pages) < pages[0][1]) else name

    for each in read_apart(_read, *given, what=place, error=UnreadableArticle):
        if isinstance(each, Article):
            return each
        pages.append(each)
    raise AssertionError("the reader ended without an article")


def manuscript_kind(data: bytes, name: str) -> Manuscript | None:
    """Return what kind of manuscript a file is, by its content first, None if it is none of these."""
    if data.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                names = archive.namelist()
                with archive.open("mimetype" if "mimetype" in names else names[0]) as first:
                    mimetype = first.read(50)
        except (zipfile.BadZipFile, OSError, RuntimeError, IndexError):
            return None
        return "docx" if "word/document.xml" in names else "odt" if mimetype.endswith(b".opendocument.text") else None
    if HTML_START.match(data[:2000]):
        return "html"
    is_other = name.lower().endswith((".md", ".markdown", ".xml", ".nxml"))
    is_latex = name.lower().endswith((".tex", ".latex", ".ltx")) or (not is_other and LATEX_START.search(data[:20_000]))
    return "latex" if is_latex else None


def _read(send: Send, data: bytes, name: str, kind: Manuscript | Literal["pdf"] | None) -> None:
    """Send pages done and pages in all while a PDF is read, and then the article."""
    checksum = hashlib.sha256(data).hexdigest()
    origin: dict[str, Any] = {"file": name, "sha256": checksum}
    if kind == "pdf":
        found, pages, notes = read_pdf(data, name, lambda *done: send(done))
        origin |= {"format": "pdf", "pages": pages, "notes": notes}
    elif kind is not None:
        found = read_manuscript(data, name, kind)
        origin["format"] = kind
    elif TEI_START.match(data.removeprefix(b"\xef\xbb\xbf")[:2000]):
        found = read_tei(data, name)
        origin["format"] = "tei"
    elif XML_START.match(data.removeprefix(b"\xef\xbb\xbf")[:2000]) or name.lower().endswith((".xml", ".nxml")):
        found = read_jats(data, name)
        origin["format"] = "jats"
    elif name.lower().endswith((".md", ".markdown")):
        found = read_markdown(decode_text(data, name))
        origin["format"] = "markdown"
    else:
        found = read_plain(decode_text(data, name))
        origin["format"] = "plain"
    if not (found.title or found.abstract or found.sections):
        raise UnreadableArticle(f"{name} holds neither title nor text of an article; {ACCEPTED}. Give the whole paper.")
    read = vars(found).copy()
    lacks = () if found.sections or kind == "pdf" else ("the file holds no full text, only title and abstract",)
    origin["notes"] = (*origin.get("notes", ()), *read.pop("notes"), *lacks)
    slug = re.sub(r"[^a-z0-9]+", "-", Path(name).stem.lower()).strip("-")[:40] or "paper"
    send(Article(id=f"upload:{slug}-{checksum[:8]}", source="upload", origin=TextOrigin(**origin), **read))


@cache
def demonstration() -> tuple[ReviewExample, ...]:
    """Return papers of our own with planted flaws, each with its split; none of it is real (README.md beside them)."""
    file = Path(__file__).with_name("demonstration.jsonl")
    return tuple(map(ReviewExample.model_validate_json, file.read_text(encoding="utf-8").splitlines()))
