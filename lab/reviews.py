"""What the Review tab does with papers and reviews: plain functions that give what is to be shown."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from evals.concerns.places import Map
from evals.errors import LabError
from evals.schema import Article
from evals.schema.drafts import DraftConcern, KeptReview, ReviewForm
from lab import desk
from lab.console import counted
from lab.review_views import concerns as cards
from lab.review_views import paper as paper_view
from lab.reviewing import ReviewMoment, ReviewSettings, desk_of, reader_named, reviewing
from lab.services import Services, demonstration_paper, export_review, read_paper
from lab.views import notice
from lab.visitors import Visitor, new_visitor
from lab.wording import say

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
        yield ReviewView(
            words, paper_view(paper, moment.concerns), cards(moment.concerns, is_busy=True)
        )


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


def act(
    services: Services, visitor: Visitor | None, review_id: str | None, action: str, concern_id: str
) -> ReviewView:
    """Do what a button of a card says (accept, reject, up, down, delete) and show the review."""

    def change(before: desk.Concerns, _: KeptReview) -> desk.Concerns:
        if action in {"accept", "reject"}:
            return desk.decided(
                before, concern_id, "accepted" if action == "accept" else "rejected"
            )
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


def _standing(
    services: Services, visitor: Visitor | None, review_id: str | None, line: str
) -> ReviewView:
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
