"""A paper and the concerns about it as HTML, the pages of a PDF with the place of a concern marked, and a review as a file."""

import base64
import io
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evals.errors import LabError
from evals.io import jsonl_text, write_whole
from evals.papers.places import as_letter, as_markdown, line
from evals.schema import Article
from evals.schema.articles import ABSTRACT, DraftConcern, KeptReview, Place, ReviewForm
from evals.schema.reviews import Concern
from evals.wording import read_confidence
from lab.ui.components import empty, notice, render
from lab.ui.text import plural, say

if TYPE_CHECKING:
    from lab.store.documents import Standing

TEMPLATE = "papers/view.html.jinja"
Marks = list[tuple[Place, str]]
HIDDEN = "hidden text"
"""How notes begin on text that is in a file and that nobody sees."""
LONGEST = 90
"""Characters of a quote that are shown."""


def paper(article: Article | None, concerns: Sequence[DraftConcern] = ()) -> str:
    """Return the paper as it was read, each place of a concern marked; without a paper, what to do."""
    if article is None:
        return empty(say("review.empty"))
    marks, origin = places_of(concerns), article.origin
    texts = [(ABSTRACT, "Abstract", article.abstract)]
    texts += [(number, each.name, each.text) for number, each in enumerate(article.sections)]
    counts = (
        (len(article.sections), "section"),
        (origin.pages or 0, "page"),
        (len(article.figures), "figure"),
        (len(article.references), "reference"),
    )
    return render(
        TEMPLATE,
        "paper",
        title=article.title.strip() or origin.file or article.id,
        facts=" · ".join(plural(n, noun) for n, noun in counts if n),
        hidden=[each for each in origin.notes if each.startswith(HIDDEN)],
        notes=[each for each in origin.notes if not each.startswith(HIDDEN)],
        sections=[
            (name, f"{len(text.split()):,}", _pieces(text, marks.get(section, [])))
            for section, name, text in texts
            if text.strip()
        ],
    )


def concerns(shown: Sequence[DraftConcern], *, is_busy: bool = False) -> str:
    """Return the concerns as a list of cards; while they are being written they cannot be changed."""
    if not shown:
        return "" if is_busy else empty(say("review.concerns.empty"))
    marks, rows = places_of(shown), []
    for each in shown:
        mark, quote = None, ""
        if each.place is not None:
            at, near = each.place.start, marks.get(each.place.section, [])
            mark = next((name for place, name in near if place.start <= at < place.end), None)
            quote = " ".join(each.place.quote.split())
        rows.append(
            (
                each,
                read_confidence(each.text).value,
                mark,
                quote if len(quote) <= LONGEST else quote[: LONGEST - 1] + "…",
            )
        )
    return render(TEMPLATE, "concerns", rows=rows, is_busy=is_busy)


def places_of(concerns: Sequence[DraftConcern]) -> dict[int, Marks]:
    """Return the places to mark by section, in order; of places that overlap the first has the mark."""
    found: dict[int, Marks] = {}
    placed = [(each.place, each.id) for each in concerns if each.place is not None]
    for place, name in sorted(placed, key=lambda each: (each[0].start, -each[0].end)):
        mine = found.setdefault(place.section, [])
        if not mine or mine[-1][0].end <= place.start:
            mine.append((place, name))
    return found


def _pieces(text: str, marks: Marks) -> list[tuple[str, str]]:
    pieces, at = [], 0
    for place, name in marks:
        pieces += [(text[at : place.start], ""), (text[place.start : place.end], name)]
        at = place.end
    return [*pieces, (text[at:], "")]


# ---- pages of the PDFs that were dropped ------------------------------------------------------------

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
        TEMPLATE,
        "page",
        title=say("review.page", page=place.page, pages=article.origin.pages, file=article.origin.file),
        alt=say("review.page.alt", page=place.page, quote=quote if len(quote) < 200 else quote[:199] + "…"),
        source=f"data:image/png;base64,{encoded}",
        size=drawn.size,
        box=place.box,
    )


# ---- a review as a file ----------------------------------------------------------------------------
# Rows have the form that trainers take: the conversation that the model was asked in, and as its reply the concerns
# that a person stands by. A concern that nobody decided on is no opinion and stands in no row.


class ExportedFile(NamedTuple):
    """A file before it is written, and what it holds, counted."""

    name: str
    text: str
    n: int
    noun: str = "row"


ENDINGS = {"json": "json", "markdown": "md", "letter": "md", "sft": "jsonl", "dpo": "jsonl"}


def export(standing: "Standing[KeptReview]", form: ReviewForm) -> ExportedFile:
    """Return a review in one form; LabError where there is nothing that the person stands by."""
    review, concerns = standing.document, standing.parts
    slug = re.sub(r"[^a-z0-9]+", "-", review.article.title.lower()).strip("-")[:40].rstrip("-") or "paper"
    name = f"review-{slug}-{form}.{ENDINGS[form]}"
    kept = [each for each in concerns if each.decision != "rejected"]
    mine = [each for each in kept if each.decision == "accepted" or each.before is not None or each.by == "person"]
    title = line(review.article.title) or review.article.origin.file or review.article.id
    if form == "json":
        document = review.model_dump(mode="json", exclude={"session", "concerns"})
        document["concerns"] = [each.model_dump(mode="json") for each in concerns]
        document["as_written"] = [each.model_dump(mode="json") for each in review.concerns]
        text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
        return ExportedFile(name, text, len(concerns), "concern")
    if form == "markdown":
        n_accepted = sum(each.decision == "accepted" for each in concerns)
        by = f"Written by {review.reviewer.name} on {review.made_at:%Y-%m-%d}; {n_accepted} accepted by a person."
        return ExportedFile(name, as_markdown(title, [(each, each.place) for each in kept], by), len(kept), "concern")
    if not mine and form != "dpo":
        raise LabError(say("review.export.undecided"))
    if form == "letter":
        return ExportedFile(name, as_letter(title, mine), len(mine), "concern")
    stood_by = [each.concern for each in mine]
    rows = _training(review, stood_by) if form == "sft" else _pairs(review, stood_by)
    return ExportedFile(name, jsonl_text(rows), len(rows))


def write_review(standing: "Standing[KeptReview]", form: ReviewForm, folder: Path) -> tuple[str, str]:
    """Write a review in one form into a folder; return a line about the file, and its path."""
    made = export(standing, form)
    write_whole(folder / made.name, made.text)
    line = say("export.made", name=made.name, held=plural(made.n, made.noun))
    return notice(line, "good"), str(folder / made.name)


def _training(review: KeptReview, stood_by: list[Concern]) -> list[dict[str, object]]:
    """Return a chat row per part of the paper; each concern stands in the part that it is about."""
    turns = zip(review.answer.requests, _replies(review, stood_by), strict=True)
    return [
        {
            "id": f"{review.id}#{part}",
            "article_id": review.article.id,
            "conversations": [
                {"from": "system", "value": review.reviewer.system_prompt},
                {"from": "human", "value": request},
                {"from": "gpt", "value": reply},
            ],
        }
        for part, (request, reply) in enumerate(turns, 1)
    ]


def _pairs(review: KeptReview, stood_by: list[Concern]) -> list[dict[str, object]]:
    """Return a row for each part of the paper that a person's list says something else about than the model's."""
    written = [each.concern for each in review.concerns]
    if not stood_by or stood_by == written:
        raise LabError(say("review.export.same"))
    turns = zip(review.answer.requests, _replies(review, stood_by), _replies(review, written), strict=True)
    return [
        {
            "id": f"{review.id}#{part}",
            "article_id": review.article.id,
            "prompt": [
                {"role": "system", "content": review.reviewer.system_prompt},
                {"role": "user", "content": request},
            ],
            "chosen": [{"role": "assistant", "content": chosen}],
            "rejected": [{"role": "assistant", "content": rejected}],
            "origin": "edited",
            "reviewer": review.reviewer.name,
        }
        for part, (request, chosen, rejected) in enumerate(turns, 1)
        if chosen != rejected
    ]


def _replies(review: KeptReview, concerns: Sequence[Concern]) -> list[str]:
    """Return the reply to each part as the model is taught to write it."""
    requests = review.answer.requests
    from evals.review.corpus import best_parts

    places = best_parts([each.text for each in concerns], list(requests))
    parts: list[list[dict[str, object]]] = [[] for _ in requests]
    for each, place in zip(concerns, places, strict=True):
        parts[place].append(each.model_dump())
    return [json.dumps(part, ensure_ascii=False) for part in parts]
