"""One paper reviewed by a chain, at once or as it is written: what the lab calls.

engine = ChainEngine(load_chain("reviewer"), Asking())
row = review_article(article, engine, asking, clock)
for step in stream_review(article, engine, asking, stop, clock): ...
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from evals.concerns.parse import parse
from evals.schema import Article
from evals.schema.reviewruns import ReviewedRow
from evals.schema.reviews import Concern
from training.reviewing.engine import Asking, Engine, Reply
from training.reviewing.local import ChainEngine
from training.reviewing.paper import Asked, asked_about, row_of

Clock = Callable[[], float]
"""Seconds from any start, such as time.monotonic."""


@dataclass(frozen=True)
class Step:
    """How far a review is: which part of how many is read, and the concerns found so far.

    A concern stands in `concerns` as soon as it is whole. The last step has the finished `row`, whose
    order may differ where a paper has several parts.
    """

    part: int
    parts: int
    tokens_written: int
    concerns: tuple[Concern, ...]
    row: ReviewedRow | None = None


def review_article(article: Article, engine: Engine, asking: Asking, clock: Clock) -> ReviewedRow:
    """Return what an engine says about one paper, its parts in one batch.

    A part without an answer makes the row failed and says why. BadConfig if the context is too small.
    """
    asked = asked_about(article, engine.room, asking.budget(engine.room.context))
    started = clock()
    replies = engine.answer(asked.requests)
    return row_of(asked, replies, clock() - started)


def stream_review(
    article: Article, engine: ChainEngine, asking: Asking, stop: threading.Event, clock: Clock
) -> Iterator[Step]:
    """Yield a step whenever a concern is whole, and a last one with the row.

    Setting `stop` ends the review within a token; the row then holds what was found, and its
    finish reason is "cancelled". Bad input raises before the first step.
    """
    asked = asked_about(article, engine.room, asking.budget(engine.room.context))
    return _steps(asked, engine, stop, clock)


def _steps(
    asked: Asked, engine: ChainEngine, stop: threading.Event, clock: Clock
) -> Iterator[Step]:
    started, total = clock(), len(asked.requests)
    replies: list[Reply] = []
    found: tuple[Concern, ...] = ()
    written = 0
    yield Step(1, total, 0, ())
    for part, request in enumerate(asked.requests, start=1):
        text, reason, tokens = "", "cancelled", 0
        for piece in engine.stream(request, stop):
            text, tokens = text + piece.text, piece.n_tokens
            reason = piece.finish_reason or reason
            if "}" in piece.text:
                now = (*found, *_whole(text, asked.article_id))
                yield Step(part, total, written + tokens, now)
        found, written = (*found, *_whole(text, asked.article_id)), written + tokens
        replies.append(Reply(text, reason, None, tokens))
        if stop.is_set():
            break
    row = row_of(asked, _all(replies, total), clock() - started)
    yield Step(len(replies), total, written, row.concerns, row)


def _whole(text: str, name: str) -> Sequence[Concern]:
    """Return the concerns of a text up to its last closed brace."""
    end = text.rfind("}") + 1
    return parse(name, f"{text[:end]}]").concerns if end else ()


def _all(replies: Sequence[Reply], total: int) -> list[Reply]:
    """Return a reply for every part; those that were never asked say so."""
    missing = Reply(finish_reason="cancelled", error="the review was stopped before this part")
    return [*replies, *[missing] * (total - len(replies))]
