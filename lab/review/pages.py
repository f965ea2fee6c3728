"""Pages of the PDFs that were dropped, as pictures with the place of a concern marked."""

import base64
import io
import threading
from collections import OrderedDict
from pathlib import Path

from evals.schema import Article
from evals.schema.articles import Place
from lab.ui.components import notice, render
from lab.ui.text import say

MOST_BYTES = 200_000_000
"""Of PDFs that are held in memory; the one that was dropped first goes first."""
SCALE = 1.6
"""Pixels per point: a page of A4 is about 950 pixels wide."""


_HELD: OrderedDict[str, bytes] = OrderedDict()
_LOCK = threading.Lock()


def hold(article: Article, file: Path) -> Article:
    """Keep the PDF an article was read from, so that its pages can be shown; return the article."""
    if article.origin.format == "pdf":
        with _LOCK:
            _HELD[article.origin.sha256] = file.read_bytes()
            _HELD.move_to_end(article.origin.sha256)
            while len(_HELD) > 1 and sum(map(len, _HELD.values())) > MOST_BYTES:
                _HELD.popitem(last=False)
    return article


def page_view(article: Article, place: Place | None) -> str:
    """Return the page of a place as a picture with the paragraph marked; nothing where the paper has no pages."""
    if place is None or place.page is None:
        return ""
    data = _HELD.get(article.origin.sha256)
    if data is None:
        return notice(say("review.page.gone", file=article.origin.file, page=place.page))
    from evals.papers.pdf import picture  # late: the vote arena has no library for PDF

    with io.BytesIO() as file:
        drawn = picture(data, place.page, SCALE)
        drawn.save(file, "PNG")
        encoded = base64.b64encode(file.getvalue()).decode("ascii")
    quote = " ".join(place.quote.split())
    return render(
        "review/view.html.jinja",
        "page",
        title=say("review.page", page=place.page, pages=article.origin.pages, file=article.origin.file),
        alt=say("review.page.alt", page=place.page, quote=quote if len(quote) < 200 else quote[:199] + "…"),
        source=f"data:image/png;base64,{encoded}",
        size=drawn.size,
        box=place.box,
    )
