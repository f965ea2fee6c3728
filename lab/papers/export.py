"""A review as a file: JSON, Markdown, a letter to the authors, training rows, preference pairs.

Rows have the form that trainers take: the conversation that the model was asked in, and as its reply the
concerns that a person stands by. A concern that nobody decided on is no opinion and stands in no row.
"""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evals.errors import LabError
from evals.io import jsonl_text
from evals.papers.places import as_letter, as_markdown, line
from evals.schema.articles import DraftConcern, KeptReview, ReviewForm
from evals.schema.reviews import Concern
from lab.session import ExportedFile
from lab.ui.text import say

if TYPE_CHECKING:
    from lab.store.documents import Standing

ENDINGS = {"json": "json", "markdown": "md", "letter": "md", "sft": "jsonl", "dpo": "jsonl"}


def export(standing: "Standing[KeptReview, DraftConcern]", form: ReviewForm) -> ExportedFile:
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
