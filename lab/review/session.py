"""What the Review tab does with papers and reviews: plain functions that give what is to be shown."""

import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evals.errors import LabError
from evals.model import Sampling
from evals.review.places import Map
from evals.schema import Article, ChainManifest
from evals.schema.reviewruns import DraftConcern, KeptReview, ReviewAnswer, Reviewer, ReviewForm, ReviewStep
from evals.schema.reviews import Concern
from lab.commands.tables import counted
from lab.engine import Request
from lab.review.edit import BadEdit, added, checked, decided, deleted, edited, find, moved
from lab.review.view import concerns as cards
from lab.review.view import paper as paper_view
from lab.services import Services, chain_folder
from lab.session import Moment, Tab, View, Work, checked_sampling, minute, new_id, owner, session
from lab.settings import Server, Settings
from lab.ui.components import notice, waiting_line
from lab.ui.text import say
from lab.visitors import Visitor, new_visitor

if TYPE_CHECKING:
    from lab.store.documents import Standing

USUAL = Sampling(max_new_tokens=768, temperature=0.1)
"""How a review is written; the length is for each part of the paper."""
SHORTEST, LONGEST = 32, 4096


class Reader(Protocol):
    """Someone who reviews papers. `name` is what people choose it by; `chain` as in `lab.engine.Request`."""

    @property
    def name(self) -> str: ...
    @property
    def chain(self) -> str | None: ...

    def write(self, article: Article, sampling: Sampling, chain: Any, stop: threading.Event) -> Iterator[ReviewStep]:
        """Yield steps as concerns are found; setting `stop` ends it soon, with what was found."""
        ...


@dataclass(frozen=True)
class ChainReader:
    """A stage of the reviewer chain."""

    name: str
    stage: str
    chain: str

    def write(self, article: Article, sampling: Sampling, chain: Any, stop: threading.Event) -> Iterator[ReviewStep]:
        """Yield steps as concerns are found. Imports torch."""
        from lab.review.reader import chain_steps

        return chain_steps(self.stage, article, sampling, chain, stop)


@dataclass(frozen=True)
class ServerReader:
    """A model on a server, as whoever started the lab named it; visitors choose no address."""

    name: str
    server: Server
    chain: None = None

    def write(self, article: Article, sampling: Sampling, chain: Any, stop: threading.Event) -> Iterator[ReviewStep]:
        """Yield a step for each part of the paper."""
        from lab.review.reader import server_steps

        return server_steps(self.server, article, sampling, stop)


def find_readers(settings: Settings) -> tuple[Reader, ...]:
    """Return who can review papers: every stage of the reviewer chain, its base, and a named server.

    Where the chain is not there, the embedded base stands alone. Nothing is loaded yet.
    """
    file = chain_folder(settings.reviewer) / "chain.json"
    chain, stages = "base:embedded", ["base"]
    if file.exists():
        manifest = ChainManifest.model_validate_json(file.read_bytes())
        chain, stages = settings.reviewer, [*(stage.name for stage in reversed(manifest.stages)), "base"]
    readers: list[Reader] = [
        ChainReader(say(f"review.stage.{'base' if stage == 'base' else 'other'}", stage=stage), stage, chain)
        for stage in stages
    ]
    if settings.review_server is not None:
        server = settings.review_server
        readers.append(ServerReader(say("review.server", model=server.model or server.url), server))
    return tuple(readers)


def reader_named(readers: Sequence[Reader], name: str | None) -> Reader:
    """Return the reader that was chosen; LabError if it is none of those that are here."""
    for each in readers:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in readers) or say("review.no_readers")
    raise LabError(say("review.no_such_reader", name=name, known=known))


def reviewing(
    services: Services, visitor: Visitor, article: Article, reader: Reader, sampling: Sampling, tab: Tab = "review"
) -> Iterator[Moment[ReviewStep, KeptReview]]:
    """Yield moments until the review is complete and kept. LabError if the model cannot review."""

    def grow(_: ReviewStep | None, steps: tuple[ReviewStep, ...]) -> ReviewStep:
        return steps[-1]

    def finish(step: ReviewStep) -> Moment[ReviewStep, KeptReview]:
        kept = _kept(services, visitor, article, reader.name, sampling, step)
        services.store.documents("review").add(kept)
        return Moment(step, kept=kept)

    request = Request(owner(tab, visitor), partial(reader.write, article, sampling), reader.chain)
    return session(services.engine, request, grow, finish)


def _kept(
    services: Services, visitor: Visitor, article: Article, name: str, sampling: Sampling, step: ReviewStep
) -> KeptReview:
    from evals.review.prompt import system_prompt

    row, engine = step.row, step.engine
    if row is None or engine is None:
        raise LabError(say("review.stopped_early"))
    return KeptReview(
        id=new_id(),
        made_at=services.now(),
        session=services.store.hash_rater(visitor.rater),
        article=article,
        reviewer=Reviewer(
            name=name,
            kind=engine.kind,
            stage=engine.stage,
            checksums=engine.checksums,
            constraint=engine.constraint,
            system_prompt=system_prompt(),
            seed=sampling.seed,
            max_new_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
        ),
        answer=ReviewAnswer(
            requests=step.requests,
            raw=row.raw_output,
            status=row.status,
            problems=row.problems,
            finish_reason=row.finish_reason,
            n_tokens=step.n_tokens,
            seconds=row.seconds,
            tokens_lost=row.tokens_lost,
        ),
        concerns=drafts(row.concerns, Map(article)),
    )


def drafts(concerns: Sequence[Concern], paper: Map) -> tuple[DraftConcern, ...]:
    """Return a model's concerns as people work on them, each with its place in the paper."""
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


def paper_of(file: str | None, text: str | None) -> Article:
    """Return the paper in an uploaded file or, without one, in a pasted text; LabError if it is none."""
    from lab.review.papers import paper_of as read

    return read(file, text)


def read(file: str | None, text: str | None) -> tuple[Article | None, View]:
    """Return the paper that was given and its view, or what is wrong with it."""
    try:
        article = paper_of(file, text)
    except LabError as error:
        return None, View(notice(str(error), "problem"), cards(()), paper=paper_view(None))
    return article, View(notice(say("review.reading")), cards(()), paper=paper_view(article))


def demonstration() -> tuple[Article, View]:
    """Return a paper to try the reviewer on, and its view."""
    from lab.review.papers import demonstration_paper

    article = demonstration_paper()
    return article, View(notice(say("review.reading")), cards(()), paper=paper_view(article))


def checked_settings(settings: tuple[object, object, object]) -> Sampling:
    """Return seed, length and temperature as numbers in range; LabError names what is wrong."""
    return checked_sampling(*settings, SHORTEST, LONGEST)


def review(
    services: Services,
    visitor: Visitor | None,
    given: tuple[Article | None, str | None],
    reader_name: str | None,
    settings: tuple[object, object, object],
) -> Iterator[View]:
    """Yield what to show until a review is complete and kept.

    `given`: the paper that was read, and a pasted text that counts before it. `settings`: seed, length,
    temperature.
    """
    article, text = given
    found: tuple[DraftConcern, ...] = ()
    try:
        article = paper_of(None, text) if (text or "").strip() or article is None else article
        reader = reader_named(services.readers(), reader_name)
        sampling, paper = checked_settings(settings), Map(article)
        for moment in reviewing(services, visitor or new_visitor(), article, reader, sampling):
            if moment.is_replaced:
                return
            found = (
                moment.kept.concerns
                if moment.kept
                else drafts(moment.written.concerns, paper)
                if moment.written
                else ()
            )
            yield View(
                notice(_line(moment), "good" if moment.kept else "info"),
                cards(found, is_busy=moment.kept is None),
                moment.kept.id if moment.kept else None,
                not moment.is_done,
                paper_view(article, found),
            )
    except LabError as error:
        words = notice(str(error), "problem")
        yield View(words, cards(found, is_busy=bool(found)), paper=paper_view(article, found))


def _line(moment: Moment[ReviewStep, KeptReview]) -> str:
    if moment.kept is not None:
        return finished_line(moment.kept)
    if moment.waiting is not None:
        return waiting_line(moment.waiting)
    step = moment.written
    if step is None:
        return say("review.stopped_early" if moment.is_done else "review.reading")
    return say("review.writing", part=step.part, parts=step.parts, n=len(step.concerns), tokens=step.n_tokens)


# ---- what a person makes of a review -------------------------------------------------------------


def work(services: Services, visitor: Visitor | None) -> Work:
    """Return what a visitor does with kept reviews."""
    return Work(services, visitor, "review", _shown, lambda text: notice(text, "problem"))


def _shown(standing: "Standing[KeptReview, DraftConcern] | None", line: str) -> View:
    if standing is None:
        return View(line, cards(()), paper=paper_view(None))
    kept, concerns = standing.document, standing.parts
    return View(line, cards(concerns), kept.id, paper=paper_view(kept.article, concerns))


def act(services: Services, visitor: Visitor | None, review_id: str | None, action: str, concern_id: str) -> View:
    """Do what a button of a card says (accept, reject, up, down, delete) and show the review."""

    def change(standing: "Standing[KeptReview, DraftConcern]") -> tuple[DraftConcern, ...]:
        before = standing.parts
        if action in {"accept", "reject"}:
            return decided(before, concern_id, "accepted" if action == "accept" else "rejected")
        if action in {"up", "down"}:
            return moved(before, concern_id, -1 if action == "up" else 1)
        if action == "delete":
            return deleted(before, concern_id)
        raise BadEdit(say("review.edit.gone"))

    return work(services, visitor).change(review_id, action, change)


def save(
    services: Services,
    visitor: Visitor | None,
    review_id: str | None,
    concern_id: str | None,
    words: tuple[str | None, str | None, str | None],
) -> View:
    """Keep what was typed: as new words of a concern, or without one as the person's own."""

    def change(standing: "Standing[KeptReview, DraftConcern]") -> tuple[DraftConcern, ...]:
        typed, paper = checked(*words), Map(standing.document.article)
        if concern_id is None:
            return added(standing.parts, f"p{uuid.uuid4().hex[:8]}", typed, paper)
        return edited(standing.parts, concern_id, typed, paper)

    return work(services, visitor).change(review_id, "edit" if concern_id else "add", change)


def undo(services: Services, visitor: Visitor | None, review_id: str | None) -> View:
    """Take the last change back and show the review as it was before."""
    return work(services, visitor).undo(review_id, lambda action: notice(say("review.undone", action=action), "good"))


def earlier(services: Services, visitor: Visitor | None, hidden: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return a line and the id of each of the visitor's newest reviews that are not `hidden`."""
    kept = services.store.documents("review").newest(work(services, visitor).session)
    return [
        (f"{minute(each.made_at)} · {each.reviewer.name} · {each.article.title[:70] or each.article.id}", each.id)
        for each in kept
        if each.id not in hidden
    ]


def show_kept(services: Services, visitor: Visitor | None, review_id: str | None) -> View:
    """Show an earlier review as it stands."""
    mine = work(services, visitor)
    try:
        when = f"{minute(mine.get(review_id).document.made_at)} UTC"
    except LabError as error:
        return mine.show(None, mine.problem(str(error)))
    return mine.open(review_id, notice(say("review.mine.shown", when=when)))


def concern_of(
    services: Services, visitor: Visitor | None, review_id: str | None, concern_id: str
) -> tuple[int, DraftConcern]:
    """Return a concern of a review and its place from 1; LabError if it is not there."""
    concerns = work(services, visitor).get(review_id).parts
    found = find(concerns, concern_id)
    return concerns.index(found) + 1, found


def export(
    services: Services, visitor: Visitor | None, review_id: str | None, form: ReviewForm, folder: Path
) -> tuple[str, str | None]:
    """Return a line and the file of a review in one form, or why there is none."""
    from lab.review.export import export, write

    mine = work(services, visitor)
    try:
        standing = mine.get(review_id)
        votes = services.store.documents("review").votes(mine.session)
        made = export(standing.document, standing.parts, form, votes)
        path = write(made, folder / standing.document.id)
    except LabError as error:
        return notice(str(error), "problem"), None
    line = say("review.export.made", name=made.name, held=counted(made.n, made.noun))
    return notice(line, "good"), str(path)
