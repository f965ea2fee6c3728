"""PDF to a paper: PDFium reads the words, our own code the columns, paragraphs and sections."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pypdfium2

from evals.errors import UnreadableArticle
from evals.papers.outline import Outline, outline_of
from evals.papers.pdf_blocks import blocks_of, title_of
from evals.papers.pdf_lines import (
    PageLines,
    Row,
    TextLine,
    Word,
    body_height,
    columns_of,
    is_at_edge,
    mark_of,
    page_gutters,
    rows_of,
    without_furniture,
    words_of,
)
from evals.worker import Send, read_apart

if TYPE_CHECKING:
    from PIL.Image import Image

TINY = 0.002
"""Of the page's height: smaller words cannot be seen."""
CONTRAST = 20
"""Of 255: faint text is seen if its place on the page has so much of a contrast."""
LOST = re.compile("[\0\3-\10\16-\37\ufffd\ue000-\uefff\uf100-\uf8e5]")
"""Signs without a letter in the file; those of Adobe's Symbol that only build large brackets are none."""
FEWEST_WORDS = 12
"""A page with fewer words is a picture, a scan or a divider."""
LONGEST_ABSTRACT = 3000
"""Characters; a longer one has swallowed what stands below it."""
MOST_PAGES = 400
MOST_CHARACTERS = 200_000
"""Of a page; a full one of a journal has some 8,000."""


@dataclass(frozen=True)
class PageWords:
    """The rows of a page as it is read upright, and what was left out of them: hidden words, how many turned ones."""

    rows: list[Row]
    width: float
    height: float
    turn: int
    hidden: str
    turned: int
    lost: int


def page_words(page: Any, called: str) -> PageWords:
    """Return what stands on a PDFium page, turned as most of its words are; UnreadableArticle for too many letters."""
    left, bottom, right, top = page.get_cropbox()
    width, height = right - left, top - bottom
    with closing(page.get_textpage()) as text_page:
        if (count := text_page.count_chars()) > MOST_CHARACTERS:
            raise UnreadableArticle(
                f"{called} has {count:,} characters; up to {MOST_CHARACTERS:,} are read. Give the article without its"
                " data, or export it to PDF again."
            )
        words = [
            replace(w, left=w.left - left, right=w.right - left, bottom=w.bottom - bottom, top=w.top - bottom)
            for w in words_of(text_page)
        ]
        lost = len(LOST.findall(text_page.get_text_range(errors="replace")))
    hidden = _hidden(page, words, width, height)
    seen = [word for word in words if word not in hidden]
    quarters = Counter(word.quarter for word in seen if word.quarter is not None)
    quarter = quarters.most_common(1)[0][0] if quarters else 0
    kept = [word for word in seen if word.quarter == quarter]
    for _ in range(-quarter % 4):
        kept = [replace(w, left=w.bottom, right=w.top, bottom=width - w.right, top=width - w.left) for w in kept]
        width, height = height, width
    turn = (page.get_rotation() // 90 + quarter) % 4
    quote = " ".join(word.text for word in words if word in hidden)
    return PageWords(rows_of(kept), width, height, turn, quote, len(seen) - len(kept), lost)


def _hidden(page: Any, words: Sequence[Word], width: float, height: float) -> set[Word]:
    """Return the words that nobody sees: tiny, beside the page, in its colour, or not drawn.

    Where most words are not drawn, they are the layer that text recognition puts over a scan: those over a picture
    stay.
    """
    hidden = {
        word
        for word in words
        if word.height < TINY * height or not (word.right > 0 and word.left < width and 0 < word.top < height * 1.02)
    }
    doubtful = [word for word in words if word.is_faint or not word.is_drawn]
    if not doubtful:
        return hidden
    is_layer = sum(not word.is_drawn for word in words) > len(words) / 2
    shown = page.render(scale=1, grayscale=True, rotation=-page.get_rotation() % 360).to_pil()
    for word in doubtful:
        margin = word.height / 4 if word.is_drawn else -word.height / 2  # recognised words are not quite in place
        place = (word.left, height - word.top + margin, word.right + 1, height - word.bottom - margin + 1)
        lowest, highest = shown.crop(tuple(map(int, place))).getextrema()
        if highest - lowest < CONTRAST or not (word.is_drawn or is_layer):
            hidden.add(word)
    return hidden


def read_pdf(data: bytes, name: str, progress: Callable[[int, int], None]) -> tuple[Outline, int, tuple[str, ...]]:
    """Return what stands in a PDF, how many pages it has, and notes on what could not be read, by page.

    `progress` is told pages done and in all. UnreadableArticle for a file that is broken, locked with a
    password, too long, or a scan.
    """
    read, told = _pages(data, name, progress)
    empty = [n for n, page in enumerate(read, start=1) if sum(map(len, page.rows)) < FEWEST_WORDS]
    if len(empty) > len(read) / 2:
        raise UnreadableArticle(
            f"{name} holds hardly any text: {len(empty)} of {len(read)} pages have fewer than {FEWEST_WORDS} words,"
            " as in a scan. Recognise the text first (`ocrmypdf in.pdf out.pdf`), or give the publisher's PDF or XML."
        )
    gutters = page_gutters([page.rows for page in read])
    found = [
        PageLines(
            n, page.width, page.height, tuple(TextLine(*e, n) for e in columns_of(page.rows, places, 0)), page.turn
        )
        for n, (page, places) in enumerate(zip(read, gutters, strict=True), start=1)
    ]
    pages = without_furniture(found)
    body = body_height(pages)
    heads = {mark_of(line) for page in found[1:] for line in page.lines if is_at_edge(line, page)}
    title, pages = title_of(pages, body, heads, told)
    outline = outline_of(blocks_of(pages, body), title)
    hidden: dict[str, list[int]] = {}  # the pages by what is hidden on them, page numbers in it aside
    for n, page in enumerate(read, start=1):
        if re.search(r"\w{3}", page.hidden):
            hidden.setdefault(re.sub(r"\d+", "#", page.hidden), []).append(n)
    notes = [
        *(
            f"hidden text on page{'s' if ns[1:] else ''} {', '.join(map(str, ns))} was left out:"
            f" “{read[ns[0] - 1].hidden[:200]}”"
            for ns in hidden.values()
        ),
        _note(read, lambda page: page.turned >= FEWEST_WORDS, "turned text was left out on"),
        _note(read, lambda page: page.lost, "letters without a name in the file are missing or wrong on"),
        _note(read, lambda page: sum(map(len, page.rows)) < FEWEST_WORDS, "hardly any text was found on"),
    ]
    if len(outline.abstract) > LONGEST_ABSTRACT:
        notes.append(f"the abstract may be wrong: it has {len(outline.abstract):,} characters")
    return outline, len(found), tuple(filter(None, notes))


def _note(read: Sequence[PageWords], is_so: Callable[[PageWords], object], what: str) -> str:
    """Return a sentence that names the pages of which something is so; "" if there is none."""
    pages = [str(n) for n, page in enumerate(read, start=1) if is_so(page)]
    shown = ", ".join(pages[:10]) + (" …" if len(pages) > 10 else "")
    return f"{what} {len(pages)} of {len(read)} pages ({shown})" if pages else ""


def picture(data: bytes, number: int, scale: float) -> "Image":
    """Return a page (from 1) as a picture with so many pixels per point; UnreadableArticle if it is not there."""
    (drawn,) = read_apart(_draw, data, number, scale, what=lambda: f"page {number}", error=UnreadableArticle)
    return drawn


def _draw(send: Send, data: bytes, number: int, scale: float) -> None:
    try:
        with closing(pypdfium2.PdfDocument(data)) as document, closing(document[number - 1]) as page:
            send(page.render(scale=scale).to_pil())
    except (pypdfium2.PdfiumError, IndexError) as error:
        raise UnreadableArticle(f"page {number} cannot be drawn ({error}); drop the file again.") from None


def _pages(data: bytes, name: str, progress: Callable[[int, int], None]) -> tuple[list[PageWords], str]:
    """Return the pages of a PDF and the title that it gives itself."""
    try:
        with closing(pypdfium2.PdfDocument(data)) as document:
            count = len(document)
            if count > MOST_PAGES:
                raise UnreadableArticle(
                    f"{name} has {count} pages; up to {MOST_PAGES} are read. Give one article rather than a whole issue,"
                    " thesis or book."
                )
            if not count:
                raise pypdfium2.PdfiumError("it has no pages")
            read: list[PageWords] = []
            for number in range(count):
                with closing(document[number]) as page:
                    read.append(page_words(page, f"page {number + 1} of {name}"))
                progress(number + 1, count)
            return read, document.get_metadata_value("Title")
    except pypdfium2.PdfiumError as error:
        problem = str(error)
        if "password" in problem.lower() or "security" in problem.lower():
            raise UnreadableArticle(
                f"{name} is locked with a password; save a copy without one (print it to PDF, or"
                " `qpdf --decrypt --password=… in.pdf out.pdf`) and give that."
            ) from None
        raise UnreadableArticle(
            f"{name} cannot be read as a PDF ({problem.rstrip('.')}); it is broken or was not downloaded whole."
            " Download it again, or open it in a viewer and print it to a new PDF."
        ) from None
