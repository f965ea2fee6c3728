"""A paper being reviewed: from an article to concerns as they are written, kept at the end.

Who reviews comes in as a `Reader`: the page, the store and the tests know no model. One review is
written at a time; whoever comes later waits and is told so.
"""

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from evals.concerns.places import Map
from evals.errors import LabError
from evals.schema import Article
from evals.schema.drafts import DraftConcern, KeptReview, ReviewAnswer, Reviewer
from evals.schema.reviews import Concern
from lab.wording import say

if TYPE_CHECKING:
    from lab.services import Services
    from lab.visitors import Visitor

WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class ReviewSettings:
    """How a review is written; `max_new_tokens` is for each part of the paper."""

    seed: int = 0
    max_new_tokens: int = 768
    temperature: float = 0.1


@dataclass(frozen=True)
class Step:
    """How far a review is; the last step has the `answer`. `line` says what else is being done."""

    line: str = ""
    part: int = 1
    parts: int = 1
    n_tokens: int = 0
    concerns: tuple[Concern, ...] = ()
    answer: ReviewAnswer | None = None


class Reader(Protocol):
    """Someone who reviews papers."""

    @property
    def name(self) -> str:
        """What people choose it by."""
        ...

    def reviewer(self, settings: ReviewSettings) -> Reviewer:
        """Return who this is, for the record; complete once a review was written."""
        ...

    def review(
        self, article: Article, settings: ReviewSettings, stop: threading.Event
    ) -> Iterator[Step]:
        """Yield steps as concerns are found; setting `stop` ends it soon, with what was found."""
        ...


@dataclass(frozen=True)
class LateReader:
    """A reader of which only the name is known until it is wanted; `made` gives it, the same each time."""

    name: str
    made: Callable[[], Reader]

    def reviewer(self, settings: ReviewSettings) -> Reviewer:
        """Return who this is, as the reader itself says."""
        return self.made().reviewer(settings)

    def review(
        self, article: Article, settings: ReviewSettings, stop: threading.Event
    ) -> Iterator[Step]:
        """Say that it is loading, then yield the reader's own steps."""
        yield Step(line=say("review.loading", name=self.name))
        yield from self.made().review(article, settings, stop)


@dataclass(frozen=True)
class ReviewMoment:
    """What there is to show: the paper, how far the review is, and the kept review at the end."""

    article: Article
    line: str = ""
    concerns: tuple[DraftConcern, ...] = ()
    kept: KeptReview | None = None
    is_done: bool = False


def reader_named(readers: Sequence[Reader], name: str | None) -> Reader:
    """Return the reader that was chosen; LabError if it is none of those that are here."""
    for each in readers:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in readers) or say("review.no_readers")
    raise LabError(say("review.no_such_reader", name=name, known=known))


def reviewing(
    services: "Services",
    visitor: "Visitor",
    article: Article,
    reader: Reader,
    settings: ReviewSettings,
) -> Iterator[ReviewMoment]:
    """Yield moments until the review is complete and kept. LabError if the model cannot review."""
    stop = services.turns.begin(visitor.page)
    try:
        yield from _in_turn(services, visitor, (article, reader), (settings, stop))
    finally:
        services.turns.end(visitor.page, stop)


def desk_of(services: "Services", visitor: "Visitor") -> str:
    """Return the name under which a visitor's reviews are kept."""
    return services.store.hash_rater(visitor.rater)


def drafts(concerns: Sequence[Concern], paper: Map) -> tuple[DraftConcern, ...]:
    """Return a model's concerns as they lie on a desk, each with its place in the paper."""
    return tuple(
        DraftConcern(
            id=f"m{number}",
            by="model",
            place=paper.place(concern.text),
            **concern.model_dump(include=set(Concern.model_fields)),
        )
        for number, concern in enumerate(concerns, start=1)
    )


def finished_line(kept: KeptReview) -> str:
    """Return how a review went, in a sentence or two."""
    answer, n = kept.answer, len(kept.concerns)
    parts = [say(f"review.done.{answer.status}", n=n, name=kept.reviewer.name)]
    if answer.finish_reason in {"length", "cancelled"}:
        parts.append(say(f"review.done.{answer.finish_reason}"))
    if answer.tokens_lost:
        parts.append(say("review.done.lost", tokens=answer.tokens_lost))
    parts.append(say("review.done.seconds", seconds=answer.seconds))
    return " ".join(parts)


def _in_turn(
    services: "Services",
    visitor: "Visitor",
    what: tuple[Article, Reader],
    how: tuple[ReviewSettings, threading.Event],
) -> Iterator[ReviewMoment]:
    """Yield moments of waiting, then of the review; the turn is given back however it ends."""
    (article, reader), (settings, stop) = what, how
    paper = Map(article)
    moment = ReviewMoment(article, line=say("review.reading"))
    yield moment
    while not services.turns.turn.acquire(timeout=WAIT_SECONDS):
        if stop.is_set():
            yield replace(moment, line=say("review.stopped_early"), is_done=True)
            return
        yield replace(moment, line=say("review.waiting"))
    try:
        for step in reader.review(article, settings, stop):
            moment = _moment(article, step, paper)
            if step.answer is None:
                yield moment
                continue
            kept = _kept(services, visitor, moment, (reader.reviewer(settings), step.answer))
            services.store.shelf.add(kept)
            yield replace(moment, kept=kept, line=finished_line(kept), is_done=True)
    finally:
        services.turns.turn.release()


def _moment(article: Article, step: Step, paper: Map) -> ReviewMoment:
    line = step.line or say(
        "review.writing",
        part=step.part,
        parts=step.parts,
        n=len(step.concerns),
        tokens=step.n_tokens,
    )
    return ReviewMoment(article, line, drafts(step.concerns, paper))


def _kept(
    services: "Services",
    visitor: "Visitor",
    moment: ReviewMoment,
    written: tuple[Reviewer, ReviewAnswer],
) -> KeptReview:
    reviewer, answer = written
    return KeptReview(
        id=uuid.uuid4().hex,
        made_at=services.now(),
        session=desk_of(services, visitor),
        article=moment.article,
        reviewer=reviewer,
        answer=answer,
        concerns=moment.concerns,
    )
