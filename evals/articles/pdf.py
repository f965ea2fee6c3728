"""PDF to a paper: PDFium finds the characters, our own code the columns, paragraphs and sections."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pypdfium2

from evals.articles.columns import reading_order
from evals.articles.limits import Limits
from evals.articles.outline import Outline, outline_of
from evals.articles.paragraphs import (
    PageLines,
    blocks_of,
    body_height,
    title_of,
    without_furniture,
)
from evals.articles.words import words_of
from evals.errors import UnreadableArticle
from evals.schema import Article, TextOrigin

FEWEST_WORDS = 12
"""A page with fewer words is a picture, a scan or a divider."""
ONE_AT_A_TIME = threading.Lock()
"""PDFium may not be called from two threads at once."""


@dataclass(frozen=True)
class ReadPdf:
    """What was found in a PDF of so many pages; `empty` are the pages without text, from 1."""

    name: str
    title: str
    outline: Outline
    pages: int
    empty: tuple[int, ...]

    def article(self, identity: str, checksum: str) -> Article:
        """Return the article under this id."""
        notes = ()
        if self.empty:
            shown = ", ".join(map(str, self.empty[:10])) + (" …" if len(self.empty) > 10 else "")
            notes = (f"{len(self.empty)} of {self.pages} pages hold no text (pages {shown})",)
        return Article(
            id=identity,
            source="upload",
            title=self.title,
            abstract=self.outline.abstract,
            sections=self.outline.sections,
            figures=self.outline.figures,
            references=self.outline.references,
            origin=TextOrigin(
                format="pdf", file=self.name, sha256=checksum, pages=self.pages, notes=notes
            ),
        )


def read_pdf(
    data: bytes, name: str, limits: Limits, progress: Callable[[int, int], None] | None = None
) -> ReadPdf:
    """Return what stands in a PDF; `progress` is told pages done and in all.

    UnreadableArticle for a file that is broken, locked with a password, too long, or a scan.
    """
    found = _page_lines(data, name, limits, progress)
    empty = [
        page.number for page in found if sum(len(line.words) for line in page.lines) < FEWEST_WORDS
    ]
    if len(empty) > len(found) / 2:
        raise UnreadableArticle(
            f"{name} holds hardly any text: {len(empty)} of {len(found)} pages are pictures, as in a scan."
            " Recognise the text first (`ocrmypdf in.pdf out.pdf`), or give the publisher's PDF or XML."
        )
    pages = without_furniture(found)
    body = body_height(pages)
    title, pages = title_of(pages, body)
    return ReadPdf(name, title, outline_of(blocks_of(pages, body)), len(found), tuple(empty))


def _page_lines(
    data: bytes, name: str, limits: Limits, progress: Callable[[int, int], None] | None
) -> list[PageLines]:
    with ONE_AT_A_TIME:
        document = None
        try:
            document = pypdfium2.PdfDocument(data)
            count = len(document)
            limits.check_pages(count, name)
            if not count:
                raise _broken(name, "it has no pages")
            found = []
            for index in range(count):
                page = document[index]
                text_page = page.get_textpage()
                lines = reading_order(words_of(text_page))
                found.append(PageLines(index + 1, page.get_height(), tuple(lines)))
                text_page.close()
                page.close()
                if progress is not None:
                    progress(index + 1, count)
            return found
        except pypdfium2.PdfiumError as error:
            raise _refused(name, str(error)) from None
        finally:
            if document is not None:
                document.close()


def _refused(name: str, problem: str) -> UnreadableArticle:
    if "password" in problem.lower() or "security" in problem.lower():
        return UnreadableArticle(
            f"{name} is locked with a password; save a copy without one (print it to PDF, or"
            " `qpdf --decrypt --password=… in.pdf out.pdf`) and give that."
        )
    return _broken(name, problem)


def _broken(name: str, problem: str) -> UnreadableArticle:
    return UnreadableArticle(
        f"{name} cannot be read as a PDF ({problem.rstrip('.')}); it is broken or was not downloaded whole."
        " Download it again, or open it in a viewer and print it to a new PDF."
    )
