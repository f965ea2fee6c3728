"""One paper to requests, and the replies to them to one row: parts are merged, nothing is lost unseen."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from evals.concerns.clean import key_of
from evals.concerns.parse import parse
from evals.reviewing import Budget, pieces_of, request
from evals.reviewing.marks import without_marks
from evals.schema import Article
from evals.schema.reviewruns import PartReply, ReviewedRow
from evals.schema.reviews import SEVERITIES, UNKNOWN, Concern, ParsedReview, ParseStatus
from training.reviewing.engine import Reply, Room

IMPORTANCE = {severity: place for place, severity in enumerate((*SEVERITIES, UNKNOWN))}


@dataclass(frozen=True)
class Asked:
    """A paper as it is asked about: one request per part, and what was noticed on the way."""

    article_id: str
    source: str
    requests: tuple[str, ...]
    tokens_lost: int
    notes: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """Checksum of all that is asked."""
        return hashlib.sha256("\0".join(self.requests).encode()).hexdigest()


def asked_about(article: Article, room: Room, budget: Budget) -> Asked:
    """Return the requests about a paper, each within the budget; notes say what had to be done to it."""
    harmless, marks = without_marks(article, room.marks)
    pieces = pieces_of(
        harmless, budget.paper(room.counter), room.counter, budget.overlap, budget.max_parts
    )
    notes = []
    if marks:
        notes.append(f"{marks} control mark(s) of chat templates in the paper were taken apart")
    if pieces[0].lost:
        notes.append(f"{pieces[0].lost} of {pieces[0].whole} tokens of the paper could not be read")
    requests = tuple(request(piece.text, piece.part, piece.parts) for piece in pieces)
    return Asked(article.id, article.source, requests, pieces[0].lost, tuple(notes))


def row_of(asked: Asked, replies: Sequence[Reply], seconds: float) -> ReviewedRow:
    """Return the row of a paper: the replies to its parts read and merged.

    Failed if a part has no answer or nothing can be read at all; partial if some of it is lost.
    """
    read = [parse(asked.article_id, reply.text) for reply in replies]
    parts = tuple(
        PartReply(
            part=place,
            status=each.status,
            finish_reason=reply.finish_reason,
            n_concerns=len(each.concerns),
            tokens_read=reply.tokens_read,
            tokens_written=reply.tokens_written,
            error=reply.error,
        )
        for place, (each, reply) in enumerate(zip(read, replies, strict=True), start=1)
    )
    concerns, repeats = merged([each.concerns for each in read])
    problems = [*asked.notes, *_problems(read, replies)]
    if repeats:
        problems.append(f"{repeats} concern(s) were raised by more than one part")
    return ReviewedRow(
        article_id=asked.article_id,
        source=asked.source,
        status=_status(parts),
        concerns=concerns,
        problems=tuple(problems),
        finish_reason=next((p.finish_reason for p in parts if p.finish_reason != "stop"), "stop"),
        parts=parts,
        tokens_lost=asked.tokens_lost,
        seconds=round(seconds, 3),
        asked_sha256=asked.sha256,
        raw_output="\n".join(reply.text for reply in replies),
    )


def merged(parts: Sequence[Sequence[Concern]]) -> tuple[tuple[Concern, ...], int]:
    """Return the concerns of all parts, important ones first, and how many a later part only repeats.

    One part alone is left as it is: its order and its repeats are the model's own. Of several, each
    part's first comes before any part's second among concerns of one severity.
    """
    if len(parts) == 1:
        return tuple(parts[0]), 0
    ranked = sorted(
        (
            (IMPORTANCE[concern.severity], rank, part, concern)
            for part, concerns in enumerate(parts)
            for rank, concern in enumerate(concerns)
        ),
        key=lambda each: each[:3],
    )
    first_part: dict[str, int] = {}
    kept, repeats = [], 0
    for _, _, part, concern in ranked:
        key = key_of(concern.text)
        if first_part.setdefault(key, part) != part:
            repeats += 1
        else:
            kept.append(concern)
    return tuple(kept), repeats


def _status(parts: Sequence[PartReply]) -> ParseStatus:
    statuses = {part.status for part in parts}
    if any(part.error for part in parts) or statuses == {"failed"}:
        return "failed"
    if statuses & {"failed", "partial"}:
        return "partial"
    return "empty" if statuses == {"empty"} else "ok"


def _problems(read: Sequence[ParsedReview], replies: Sequence[Reply]) -> list[str]:
    """Return what was wrong with the replies, with the part where there are several."""
    found = []
    for place, (each, reply) in enumerate(zip(read, replies, strict=True), start=1):
        where = f"part {place}: " if len(replies) > 1 else ""
        told = (reply.error,) if reply.error else each.problems
        found += [f"{where}{problem}" for problem in told]
    return found
