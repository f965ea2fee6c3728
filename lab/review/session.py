"""What the Review tab does with papers and reviews: plain functions that give what is to be shown."""

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import Protocol

from evals.errors import LabError
from evals.review.places import Map
from evals.schema import Article
from evals.schema.reviewruns import (
    DraftConcern,
    KeptReview,
    ReviewAnswer,
    Reviewer,
    ReviewForm,
)
from evals.schema.reviews import Concern
from lab.commands.tables import counted
from lab.review import edit as desk
from lab.review.view import concerns as cards
from lab.review.view import paper as paper_view
from lab.services import Services, demonstration_paper, export_review, read_paper
from lab.ui.components import notice
from lab.ui.text import say
from lab.visitors import Visitor, new_visitor

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

    def review(self, article: Article, settings: ReviewSettings, stop: threading.Event) -> Iterator[Step]:
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

    def review(self, article: Article, settings: ReviewSettings, stop: threading.Event) -> Iterator[Step]:
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
    services: Services,
    visitor: Visitor,
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


def desk_of(services: Services, visitor: Visitor) -> str:
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
    services: Services,
    visitor: Visitor,
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
    services: Services,
    visitor: Visitor,
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


HIGHEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class ReviewView:
    """What the tab shows at one moment; the first three are HTML. `review` is the id of a kept one."""

    notice: str
    paper: str
    concerns: str
    review: str | None = None
    is_busy: bool = False


def read(file: str | None, text: str | None) -> tuple[Article | None, ReviewView]:
    """Return the paper that was given and its view, or what is wrong with it."""
    try:
        article = read_paper(file, text)
    except LabError as error:
        return None, ReviewView(notice(str(error), "problem"), paper_view(None), cards(()))
    return article, ReviewView(notice(say("review.reading")), paper_view(article), cards(()))


def demonstration() -> tuple[Article, ReviewView]:
    """Return a paper to try the reviewer on, and its view."""
    article = demonstration_paper()
    return article, ReviewView(notice(say("review.reading")), paper_view(article), cards(()))


def review(
    services: Services,
    visitor: Visitor | None,
    given: tuple[Article | None, str | None],
    reader_name: str | None,
    settings: tuple[object, object, object],
) -> Iterator[ReviewView]:
    """Yield what to show until a review is complete and kept.

    `given`: the paper that was read, and a pasted text that counts before it. `settings`: seed, length,
    temperature.
    """
    article, text = given
    try:
        paper = read_paper(None, text) if (text or "").strip() or article is None else article
        reader = reader_named(services.readers(), reader_name)
        how = checked(settings)
    except LabError as error:
        yield ReviewView(notice(str(error), "problem"), paper_view(article), cards(()))
        return
    moment = ReviewMoment(paper)
    try:
        for moment in reviewing(services, visitor or new_visitor(), paper, reader, how):
            yield shown(moment)
    except LabError as error:
        words = notice(str(error), "problem")
        yield ReviewView(words, paper_view(paper, moment.concerns), cards(moment.concerns, is_busy=True))


def shown(moment: ReviewMoment) -> ReviewView:
    """Return the view of one moment of a review."""
    tone = "good" if moment.kept else "info"
    return ReviewView(
        notice(moment.line, tone),
        paper_view(moment.article, moment.concerns),
        cards(moment.concerns, is_busy=moment.kept is None),
        moment.kept.id if moment.kept else None,
        is_busy=not moment.is_done,
    )


def checked(settings: tuple[object, object, object]) -> ReviewSettings:
    """Return seed, length and temperature as numbers in range; LabError names what is wrong."""
    limits = (("seed", 0, HIGHEST_SEED), ("max_new_tokens", 32, 4096), ("temperature", 0, 2))
    found: list[float] = []
    for value, (name, low, high) in zip(settings, limits, strict=True):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise LabError(say(f"setting.{name}", value=value, low=low, high=high))
        found.append(float(value))
    return ReviewSettings(int(found[0]), int(found[1]), found[2])


def act(services: Services, visitor: Visitor | None, review_id: str | None, action: str, concern_id: str) -> ReviewView:
    """Do what a button of a card says (accept, reject, up, down, delete) and show the review."""

    def change(before: desk.Concerns, _: KeptReview) -> desk.Concerns:
        if action in {"accept", "reject"}:
            return desk.decided(before, concern_id, "accepted" if action == "accept" else "rejected")
        if action in {"up", "down"}:
            return desk.moved(before, concern_id, -1 if action == "up" else 1)
        if action == "delete":
            return desk.deleted(before, concern_id)
        raise desk.BadEdit(say("review.edit.gone"))

    return _changed(services, visitor, review_id, (action, change))


def save(
    services: Services,
    visitor: Visitor | None,
    review_id: str | None,
    concern_id: str | None,
    words: tuple[str | None, str | None, str | None],
) -> ReviewView:
    """Keep what was typed: as new words of a concern, or without one as the person's own."""

    def change(before: desk.Concerns, kept: KeptReview) -> desk.Concerns:
        typed, paper = desk.checked(*words), Map(kept.article)
        if concern_id is None:
            return desk.added(before, f"p{uuid.uuid4().hex[:8]}", typed, paper)
        return desk.edited(before, concern_id, typed, paper)

    return _changed(services, visitor, review_id, ("edit" if concern_id else "add", change))


def undo(services: Services, visitor: Visitor | None, review_id: str | None) -> ReviewView:
    """Take the last change back and show the review as it was before."""
    try:
        mine = desk_name(services, visitor)
        action = services.store.shelf.undo(review_id or "", mine)
    except LabError as error:
        return _standing(services, visitor, review_id, notice(str(error), "problem"))
    line = notice(say("review.undone", action=action), "good")
    return _standing(services, visitor, review_id, line)


def show_kept(services: Services, visitor: Visitor | None, review_id: str | None) -> ReviewView:
    """Show an earlier review as it stands."""
    try:
        kept = services.store.shelf.review(review_id or "", desk_name(services, visitor))
    except LabError as error:
        return ReviewView(notice(str(error), "problem"), paper_view(None), cards(()))
    when = kept.made_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return _standing(services, visitor, review_id, notice(say("review.mine.shown", when=when)))


def find(
    services: Services, visitor: Visitor | None, review_id: str | None, concern_id: str
) -> tuple[int, DraftConcern]:
    """Return a concern of a review and its place from 1; LabError if it is not there."""
    concerns = services.store.shelf.concerns(review_id or "", desk_name(services, visitor))
    found = desk.find(concerns, concern_id)
    return concerns.index(found) + 1, found


def export(
    services: Services,
    visitor: Visitor | None,
    review_id: str | None,
    form: ReviewForm,
    folder: Path,
) -> tuple[str, str | None]:
    """Return a line and the file of a review in one form, or why there is none."""
    try:
        mine, shelf = desk_name(services, visitor), services.store.shelf
        kept = shelf.review(review_id or "", mine)
        concerns = shelf.concerns(kept.id, mine)
        made, path = export_review(kept, concerns, form, shelf.votes(mine), folder / kept.id)
    except LabError as error:
        return notice(str(error), "problem"), None
    line = say("review.export.made", name=made.name, held=counted(made.n, made.noun))
    return notice(line, "good"), str(path)


def _changed(
    services: Services,
    visitor: Visitor | None,
    review_id: str | None,
    what: tuple[str, desk.Change],
) -> ReviewView:
    action, change = what
    try:
        mine, shelf = desk_name(services, visitor), services.store.shelf
        kept = shelf.review(review_id or "", mine)
        before = shelf.concerns(kept.id, mine)
        after = change(before, kept)
        if after != before:
            shelf.change(kept.id, mine, action, after)
    except LabError as error:
        return _standing(services, visitor, review_id, notice(str(error), "problem"))
    return _standing(services, visitor, review_id, "")


def _standing(services: Services, visitor: Visitor | None, review_id: str | None, line: str) -> ReviewView:
    """Return a kept review as it stands, under a line."""
    try:
        mine = desk_name(services, visitor)
        kept = services.store.shelf.review(review_id or "", mine)
        concerns = services.store.shelf.concerns(kept.id, mine)
    except LabError as error:
        return ReviewView(line or notice(str(error), "problem"), paper_view(None), cards(()))
    return ReviewView(line, paper_view(kept.article, concerns), cards(concerns), kept.id)


def desk_name(services: Services, visitor: Visitor | None) -> str:
    """Return the name under which a visitor's reviews are kept; LabError for nobody."""
    if visitor is None:
        raise LabError(say("review.gone"))
    return desk_of(services, visitor)
