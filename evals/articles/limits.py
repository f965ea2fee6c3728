"""How large a file may be before it is refused: a paper is never that large, a trap may be."""

from dataclasses import dataclass

from evals.errors import UnreadableArticle

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Largest PDF and largest text file in megabytes (10^6 bytes), and most pages of a PDF."""

    pdf_megabytes: float = 100.0
    text_megabytes: float = 20.0
    pages: int = 400

    def check_size(self, size: int, name: str, *, is_pdf: bool) -> None:
        """Raise UnreadableArticle if a file of `size` bytes is too large."""
        allowed = self.pdf_megabytes if is_pdf else self.text_megabytes
        if size > allowed * MEGABYTE:
            raise UnreadableArticle(
                f"{name} has {size / MEGABYTE:.1f} MB; a {'PDF' if is_pdf else 'text or XML file'} may have"
                f" up to {allowed:g} MB. Give the article without its supplementary files, or save it with"
                " smaller images."
            )

    def check_pages(self, pages: int, name: str) -> None:
        """Raise UnreadableArticle if a PDF has too many pages."""
        if pages > self.pages:
            raise UnreadableArticle(
                f"{name} has {pages} pages; up to {self.pages} are read. Give one article rather than a whole"
                " issue, thesis or book."
            )
