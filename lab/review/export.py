"""A review as a file: JSON, Markdown, a letter to the authors, training rows, preference pairs.

Rows have the form that trainers take: the conversation that the model was asked in, and as its reply the
concerns that a person stands by. A concern that nobody decided on is no opinion and stands in no row.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.errors import LabError
from evals.io import write_whole
from evals.review.corpus import assigned
from evals.schema.reviewruns import DraftConcern, KeptReview, ReviewForm
from evals.schema.reviews import Concern
from lab.store.documents import DocumentVote
from lab.ui.text import say

ENDINGS = {"json": "json", "markdown": "md", "letter": "md", "sft": "jsonl", "dpo": "jsonl"}
SEVERITIES = (("major", "Major concerns"), ("minor", "Minor concerns"), ("optional", "Suggestions"))


@dataclass(frozen=True)
class Exported:
    """A file before it is written, and what it holds, counted."""

    name: str
    text: str
    n: int
    noun: str


def export(
    review: KeptReview,
    concerns: Sequence[DraftConcern],
    form: ReviewForm,
    votes: Sequence[DocumentVote[KeptReview]] = (),
) -> Exported:
    """Return a review in one form; LabError where there is nothing that the person stands by."""
    name = f"review-{_slug(review.article.title)}-{form}.{ENDINGS[form]}"
    if form == "json":
        return Exported(name, _json(review, concerns), len(concerns), "concern")
    if form == "markdown":
        return Exported(name, _markdown(review, concerns), len(_kept(concerns)), "concern")
    if form == "letter":
        stood_by = _stood_by(concerns)
        return Exported(name, _letter(review, stood_by), len(stood_by), "concern")
    rows = _training(review, concerns) if form == "sft" else _pairs(review, concerns, votes)
    return Exported(name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), len(rows), "row")


def write(made: Exported, folder: Path) -> Path:
    """Write a file whole and return where it is."""
    path = folder / made.name
    write_whole(path, made.text)
    return path


def _kept(concerns: Sequence[DraftConcern]) -> list[DraftConcern]:
    return [each for each in concerns if each.decision != "rejected"]


def _stood_by(concerns: Sequence[DraftConcern]) -> list[DraftConcern]:
    """Return what a person accepted, changed or wrote, and did not reject."""
    found = [
        each
        for each in _kept(concerns)
        if each.decision == "accepted" or each.before is not None or each.by == "person"
    ]
    if not found:
        raise LabError(say("review.export.undecided"))
    return found


def _json(review: KeptReview, concerns: Sequence[DraftConcern]) -> str:
    document = review.model_dump(mode="json", exclude={"session", "concerns"})
    document["concerns"] = [each.model_dump(mode="json") for each in concerns]
    document["as_written"] = [each.model_dump(mode="json") for each in review.concerns]
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _markdown(review: KeptReview, concerns: Sequence[DraftConcern]) -> str:
    lines = [f"# Review of “{_title(review)}”", ""]
    for number, each in enumerate(_kept(concerns), 1):
        lines.append(f"{number}. **{each.severity}, {each.category.replace('_', ' ')}.** {_line(each.text)}")
        if each.place is not None:
            page = f" (page {each.place.page})" if each.place.page else ""
            lines.append(f"   > {_line(each.place.quote)}{page}")
    stand = sum(each.decision == "accepted" for each in concerns)
    lines += ["", f"Written by {review.reviewer.name} on {review.made_at:%Y-%m-%d}; {stand} accepted by a person."]
    return "\n".join(lines) + "\n"


def _letter(review: KeptReview, concerns: Sequence[DraftConcern]) -> str:
    lines = ["Dear authors,", "", f"thank you for “{_title(review)}”. These are my concerns.", ""]
    number = 0
    for severity, heading in (*SEVERITIES, ("unknown", "Further concerns")):
        mine = [each for each in concerns if each.severity == severity]
        if not mine:
            continue
        lines += [f"## {heading}", ""]
        for each in mine:
            number += 1
            lines += [f"{number}. {_line(each.text)}", ""]
    return "\n".join(lines)


def _training(review: KeptReview, concerns: Sequence[DraftConcern]) -> list[dict[str, object]]:
    """Return a chat row per part of the paper; each concern stands in the part that it is about."""
    replies = _replies(review, [each.concern for each in _stood_by(concerns)])
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
        for part, (request, reply) in enumerate(zip(review.answer.requests, replies, strict=True), 1)
    ]


def _pairs(
    review: KeptReview, concerns: Sequence[DraftConcern], votes: Sequence[DocumentVote[KeptReview]]
) -> list[dict[str, object]]:
    """Return pairs of one paper's reviews: the person's before the model's, and blind votes' winners."""
    rows: list[dict[str, object]] = []
    written = [each.concern for each in review.concerns]
    try:
        mine = [each.concern for each in _stood_by(concerns)]
    except LabError:
        mine = []
    if mine and mine != written:
        rows += _preferred(review, (mine, written), {"origin": "edited", "reviewer": review.reviewer.name})
    for vote in votes:
        if vote.choice not in {"left", "right"} or vote.left.article.id != review.article.id:
            continue
        chosen, rejected = (vote.left, vote.right) if vote.choice == "left" else (vote.right, vote.left)
        lists = ([each.concern for each in chosen.concerns], [each.concern for each in rejected.concerns])
        if lists[0] != lists[1]:
            names = {"chosen_by": chosen.reviewer.name, "rejected_by": rejected.reviewer.name}
            rows += _preferred(chosen, lists, {"origin": "blind vote", "vote": vote.id, **names})
    if not rows:
        raise LabError(say("review.export.same"))
    return rows


def _preferred(
    review: KeptReview, lists: tuple[list[Concern], list[Concern]], known: dict[str, str]
) -> list[dict[str, object]]:
    chosen, rejected = (_replies(review, each) for each in lists)
    return [
        {
            "id": f"{review.id}#{part}",
            "article_id": review.article.id,
            "prompt": [
                {"role": "system", "content": review.reviewer.system_prompt},
                {"role": "user", "content": request},
            ],
            "chosen": [{"role": "assistant", "content": good}],
            "rejected": [{"role": "assistant", "content": bad}],
            **known,
        }
        for part, (request, good, bad) in enumerate(zip(review.answer.requests, chosen, rejected, strict=True), 1)
        if good != bad
    ]


def _replies(review: KeptReview, concerns: Sequence[Concern]) -> list[str]:
    """Return the reply to each part as the model is taught to write it."""
    requests = review.answer.requests
    places = assigned([each.text for each in concerns], list(requests))
    return [
        json.dumps(
            [each.model_dump() for each, place in zip(concerns, places, strict=True) if place == part],
            ensure_ascii=False,
        )
        for part in range(len(requests))
    ]


def _title(review: KeptReview) -> str:
    return _line(review.article.title) or review.article.origin.file or review.article.id


def _line(text: str) -> str:
    return " ".join(text.split())


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].rstrip("-") or "paper"
