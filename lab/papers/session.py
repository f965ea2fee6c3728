"""What the Papers tab does with papers and reviews: plain functions that give what is to be shown."""

import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import partial
from pathlib import Path
from textwrap import shorten
from threading import Event
from typing import TYPE_CHECKING, Any

from evals.errors import LabError, UnreadableArticle
from evals.papers.places import Map
from evals.schema import Article
from evals.schema.articles import (
    AskedReview,
    DraftConcern,
    DroppedConcern,
    KeptReview,
    ReviewAnswer,
    Reviewer,
    ReviewStep,
)
from evals.schema.questions import Sampling
from evals.schema.reviews import CATEGORIES, SEVERITIES, UNKNOWN, Concern
from lab.engine import WriteRequest
from lab.jobs import JSON, Job, OnStep
from lab.papers.view import concerns as cards
from lab.papers.view import hold
from lab.papers.view import paper as paper_view
from lab.services import Services
from lab.session import Moment, View, Visitor, checked_sampling, moments, new_id, new_visitor, owner, plain_text
from lab.ui.components import notice, waiting_line
from lab.ui.text import say

if TYPE_CHECKING:
    from lab.shared.reader import Reader
    from lab.store.documents import Documents, Standing

    Review = Standing[KeptReview]

KIND = "review"
LOOK_SECONDS = 0.2
"""How often a page looks at a review that is being written; what another process writes, less often."""
USUAL = Sampling(max_new_tokens=768, temperature=0.1)
"""How a review is written; the length is for each part of the paper."""
SHORTEST, LONGEST = 32, 4096
CHARACTERS_PER_TOKEN = 4
"""Of English, about."""
SHORTEST_PAPER = 200
"""Characters below which a text is no paper that anything could be said of."""
HEADING = re.compile(r"^#{1,4} \S", re.M)
"""What tells pasted Markdown from plain text."""
LONGEST_CONCERN = 2_000
TypedSettings = tuple[object, object, object]
"""Seed, length and temperature, as they were typed."""


def reader_named(readers: "Sequence[Reader]", name: str | None) -> "Reader":
    """Return the reader that was chosen; LabError if it is none of those that are here."""
    for each in readers:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in readers) or say("review.no_readers")
    raise LabError(say("review.no_such_reader", name=name, known=known))


def reviewing(
    services: Services, owner: str, asked: AskedReview, before: JSON, keep: Callable[[JSON], None]
) -> Iterator[Moment[ReviewStep, KeptReview]]:
    """Yield moments until a review that was kept as asked is complete and kept. LabError if the model cannot review.

    `owner` as of `lab.engine.WriteRequest`; `before` and `keep` as of `Reader.write`.
    """
    reader = reader_named(services.readers(), asked.reader)
    how = asked.model_dump(include={"seed", "max_new_tokens", "temperature"})
    name = say("review.staged.name", name=reader.name) if asked.is_staged else reader.name

    def finish(step: ReviewStep) -> Moment[ReviewStep, KeptReview]:
        from evals.review.prompt import review_system_prompt

        row, engine = step.row, step.engine
        if row is None or engine is None or services.jobs.is_ending:
            raise LabError(say("review.stopped_early"))
        kept = KeptReview(
            **asked.model_dump(include={"id", "session"}),
            made_at=services.now(),
            article=asked.article,
            reviewer=Reviewer(
                name=name,
                is_staged=asked.is_staged,
                **engine.model_dump(include={"kind", "stage", "checksums", "constraint"}),
                system_prompt=review_system_prompt(),
                **how,
            ),
            answer=ReviewAnswer(
                requests=step.requests,
                raw=row.raw_output,
                n_tokens=step.n_tokens,
                **row.model_dump(include={"status", "problems", "finish_reason", "seconds", "tokens_lost"}),
            ),
            concerns=drafts((*row.concerns, *row.dropped), Map(asked.article)),
        )
        services.store.documents("review").turn(kept, "review_asked")
        return Moment(step, kept=kept)

    def write(chain: Any, stop: Event) -> Iterator[ReviewStep]:
        return reader.write(asked.article, Sampling(**how), chain, stop, before, keep, is_staged=asked.is_staged)

    return moments(services.engine, WriteRequest(owner, write, reader.chain), lambda _, steps: steps[-1], finish)


def drafts(concerns: Sequence[Concern], paper: Map) -> tuple[DraftConcern, ...]:
    """Return a model's concerns as people work on them, each with its place in the paper; dropped ones are rejected."""
    return tuple(
        DraftConcern(
            id=f"m{number}",
            by="model",
            place=paper.place(concern.text),
            contradiction=concern.sentence if isinstance(concern, DroppedConcern) else "",
            decision="rejected" if isinstance(concern, DroppedConcern) else "open",
            **concern.model_dump(include=set(Concern.model_fields)),
        )
        for number, concern in enumerate(concerns, start=1)
    )


def finished_line(kept: KeptReview) -> str:
    """Return how a review went, in a sentence or two."""
    answer, n = kept.answer, len(kept.concerns)
    parts = [say(f"review.done.{answer.status}", n=n, name=kept.reviewer.name)]
    if dropped := sum(bool(each.contradiction) for each in kept.concerns):
        parts.append(say("review.done.dropped", n=dropped))
    if answer.finish_reason in {"length", "cancelled"}:
        parts.append(say(f"review.done.{answer.finish_reason}"))
    if answer.problems:
        parts.append(say("review.done.problems", problems="; ".join(answer.problems[:3])))
    if answer.tokens_lost:
        parts.append(say("review.done.lost", tokens=answer.tokens_lost))
    parts.append(say("review.done.seconds", seconds=answer.seconds))
    return " ".join(parts)


def paper_of(file: str | None, text: str | None) -> Article:
    """Return the paper that was uploaded or, without a file, pasted; UnreadableArticle says what is wrong."""
    from evals.papers import read_article, read_article_file  # late: the vote arena has no library for PDF

    if file:
        return hold(read_article_file(Path(file)), Path(file))
    pasted = (text or "").strip()
    if not pasted:
        raise UnreadableArticle(say("review.nothing"))
    name = "pasted.md" if HEADING.search(pasted) else "pasted.txt"
    article = read_article(pasted.encode("utf-8", "replace"), name)
    if len(article.abstract) + sum(len(each.text) for each in article.sections) < SHORTEST_PAPER:
        raise UnreadableArticle(say("review.short", length=len(pasted), limit=SHORTEST_PAPER))
    return article


def read(file: str | None, text: str | None) -> tuple[Article, View]:
    """Return the paper that was given and its view; UnreadableArticle says what is wrong with it."""
    article = paper_of(file, text)
    from evals.review.prompt import Budget

    length = len(article.abstract) + sum(len(each.text) for each in article.sections)
    most = CHARACTERS_PER_TOKEN * Budget().context * Budget().max_parts
    line = say("review.reading.long", length=length, limit=most) if length > most else say("review.reading")
    return article, View(notice(line), cards(()), paper=paper_view(article))


def demonstration() -> tuple[Article, View]:
    """Return a paper to try the reviewer on, and its view: of the test split, no reviewer was trained on it."""
    from evals.papers import demonstration

    article = next(each for each in demonstration() if each.split == "test").article
    return article, View(notice(say("review.reading")), cards(()), paper=paper_view(article))


def review(
    services: Services,
    visitor: Visitor | None,
    given: tuple[Article | None, str | None],
    reader_name: str | None,
    settings: TypedSettings,
    *,
    is_staged: bool = False,
) -> Iterator[View]:
    """Yield what to show until a review is complete and kept; it goes on where nobody looks at it any more.

    `given`: the paper that was read, and a pasted text that counts before it. `is_staged`: section by section. LabError
    for what is no paper, or cannot be reviewed so.
    """
    article, text = given
    visitor = visitor or new_visitor()
    article = paper_of(None, text) if (text or "").strip() or article is None else article
    reader = reader_named(services.readers(), reader_name)
    sampling = checked_sampling(*settings, SHORTEST, LONGEST)
    asked = AskedReview(
        id=new_id(),
        made_at=services.now(),
        session=services.store.hash_rater(visitor.rater),
        article=article,
        reader=reader.name,
        seed=sampling.seed,
        max_new_tokens=sampling.max_new_tokens,
        temperature=sampling.temperature,
        is_staged=is_staged,
    )
    register(services)
    services.store.documents("review_asked").add(asked)
    known = {"session": asked.session, "page": owner("review", visitor), "name": visitor.name}
    title = say("review.job", title=shorten(article.title, 70, placeholder="…") or article.id)
    services.jobs.begin(KIND, title, {"review": asked.id, **known}, asked.session, asked.id)
    yield from watch(services, visitor, asked.id)


def register(services: Services) -> None:
    """Let the lab go on with reviews."""
    services.jobs.register(KIND, partial(write, services))


def write(
    services: Services, settings: Mapping[str, JSON], told: OnStep, is_cancelled: Callable[[], bool], resume: JSON
) -> JSON:
    """Write a review as a job, or go on after the parts of the paper that were read; return which one is kept."""
    name, whose, page = (str(settings[each]) for each in ("review", "session", "page"))
    try:
        asked = services.store.documents("review_asked").get(name, whose).document
    except LabError:  # it was kept, and its process ended before it said so
        services.store.documents("review").get(name, whose)
        return {"review": name}
    before, keep = (resume or {}).get("kept"), partial(services.jobs.keep, name)
    for moment in reviewing(services, page, asked, before, keep):
        services.jobs.live[name] = moment
        if is_cancelled() and (moment.written or not before):  # parts that were read are kept once the model is there
            services.engine.stop(page)
        if step := moment.written:
            told(step.part - 1, step.parts, say("review.job.line", part=step.part, parts=step.parts))
        if moment.kept:
            return {"review": name}
    raise LabError(say("review.stopped_early"))


def watch(services: Services, visitor: Visitor, name: str) -> Iterator[View]:
    """Yield what to show of a review of the visitor's that is being written, until it is kept."""
    shown: View | None = None
    found: tuple[DraftConcern, ...] = ()
    mine = OwnReviews(services, visitor)
    try:
        article = services.store.documents("review_asked").get(name, mine.session).document.article
    except LabError:
        article = mine.get(name).document.article
    paper, seen, job = Map(article), None, None
    while job is None or not job.is_over:
        moment = services.jobs.live.get(name)
        if moment is None:
            job = services.jobs.get(name)  # it waits, is done by another process, or is over
        elif moment is not seen:
            found = drafts(step.concerns, paper) if (step := moment.written) else ()
            seen = moment
        now = View(notice(_line(moment, job)), cards(found, is_busy=True), None, True, paper_view(article, found))
        if now != shown and (job is None or not job.is_over):
            yield (shown := now)
        time.sleep(LOOK_SECONDS if moment else LOOK_SECONDS * 5)
    if job.result:
        kept = mine.get(name)
        yield review_view(kept, notice(finished_line(kept.document), "good"))
    else:
        words = notice(job.error or say("review.stopped_early"), "problem")
        yield View(words, cards(found, is_busy=bool(found)), paper=paper_view(article, found))


def _line(moment: Moment[ReviewStep, KeptReview] | None, job: Job | None) -> str:
    """Return how far a review is, in a sentence."""
    if moment is None:
        return say("review.job.waits") if job and job.state == "waiting" else say("review.reading")
    if moment.waiting:
        return waiting_line(moment.waiting)
    if (step := moment.written) is None:
        return say("review.reading")
    line = say("review.writing", part=step.part, parts=step.parts, n=len(step.concerns), tokens=step.n_tokens)
    if not step.n_tokens:
        line = say("review.writing.not_yet", part=step.part, parts=step.parts)
    line += f" {say('review.writing.stage', stage=step.stage)}" if step.stage else ""
    return line + (f" {say('review.writing.lost', tokens=step.tokens_lost)}" if step.tokens_lost else "")


def under_way(services: Services, visitor: Visitor) -> str:
    """Return the id of the visitor's newest review that is being written; "" if none is."""
    mine = services.jobs.all(OwnReviews(services, visitor).session)
    return next((each.id for each in mine if each.kind == KIND and not each.is_over), "")


def resume_review(services: Services, visitor: Visitor | None, name: str | None) -> Iterator[View]:
    """Yield what to show to who comes (back) to the page: a review that the address names, or theirs that is being written."""
    going = under_way(services, visitor) if visitor else ""
    if visitor and going and name in (None, "", going):
        yield from watch(services, visitor, going)
    elif name:
        yield OwnReviews(services, visitor).earlier(name)


def stop_all(services: Services, visitor: Visitor | None) -> None:
    """End the visitor's review that is being written, wherever it is; what was found is kept."""
    if visitor and (name := under_way(services, visitor)):
        services.jobs.cancel(name)
        if (moment := services.jobs.live.get(name)) and moment.written:
            services.engine.stop(str(services.jobs.get(name).settings["page"]))


# ---- what a person makes of a review -------------------------------------------------------------


def review_view(standing: "Review", line: str = "") -> View:
    """Return a review as it stands, under a line."""
    kept, concerns = standing.document, standing.parts
    return View(line, cards(concerns), kept.id, paper=paper_view(kept.article, concerns))


@dataclass(frozen=True)
class OwnReviews:
    """A visitor's own reviews: found again, changed, undone.

    All raise LabError for a review that is not there or not theirs, and for nobody.
    """

    services: Services
    visitor: Visitor | None

    @property
    def session(self) -> str:
        """The name under which the visitor's reviews are kept."""
        if self.visitor is None:
            raise LabError(say("review.gone"))
        return self.services.store.hash_rater(self.visitor.rater)

    @property
    def documents(self) -> "Documents[KeptReview]":
        return self.services.store.documents("review")

    def get(self, name: str | None) -> "Review":
        """Return a review as it stands."""
        return self.documents.get(name or "", self.session)

    def change(self, name: str | None, action: str, change: "Callable[[Review], Sequence[DraftConcern]]") -> View:
        """Keep what `change` makes of a review's concerns, and show the review."""
        standing = self.get(name)
        parts = tuple(change(standing))
        if parts != standing.parts:
            self.documents.change(standing.document.id, self.session, action, parts)
        return review_view(replace(standing, parts=parts))

    def undo(self, name: str | None) -> View:
        """Undo the last change, and show the review under a line that says what was undone."""
        action = self.documents.undo(name or "", self.session)
        return review_view(self.get(name), notice(say("review.undone", action=action), "good"))

    def earlier(self, name: str | None) -> View:
        """Show a review under a line that says when it was made."""
        standing = self.get(name)
        return review_view(standing, notice(say("review.mine.shown", when=f"{_minute(standing.document)} UTC")))

    def choices(self) -> list[tuple[str, str]]:
        """Return a line to find it by, and the id, of each of the newest reviews."""
        kept = self.documents.newest(self.session)
        titles = [each.article.title[:70] or each.article.id for each in kept]
        lines = [f"{_minute(each)} · {each.reviewer.name} · {title}" for each, title in zip(kept, titles, strict=True)]
        return [(line, each.id) for line, each in zip(lines, kept, strict=True)]


def _minute(kept: KeptReview) -> str:
    return f"{kept.made_at.astimezone(UTC):%Y-%m-%d %H:%M}"


def act(services: Services, visitor: Visitor | None, review_id: str | None, action: str, concern_id: str) -> View:
    """Do what a button of a card says (accept, reject, up, down, delete) and show the review.

    A decision that stands is taken back by the same button; at an end of the list a concern stays.
    """

    def change(standing: "Review") -> Sequence[DraftConcern]:
        before = list(standing.parts)
        at, mine = find_concern(before, concern_id)
        decision = {"accept": "accepted", "reject": "rejected"}.get(action)
        if decision is not None:
            new = "open" if mine.decision == decision else decision
            return [*before[:at], mine.model_copy(update={"decision": new}), *before[at + 1 :]]
        del before[at]
        if action in {"up", "down"}:
            before.insert(max(at - 1, 0) if action == "up" else at + 1, mine)
        elif action != "delete":
            raise LabError(say("review.edit.gone"))
        return before

    return OwnReviews(services, visitor).change(review_id, action, change)


def save(
    services: Services,
    visitor: Visitor | None,
    review_id: str | None,
    concern_id: str | None,
    words: tuple[str | None, str | None, str | None],
) -> View:
    """Keep what was typed (text, category, severity) as new words of a concern or, without one, as the person's own.

    What a model wrote is kept beside its new words; a person's own concern is accepted.
    """

    def change(standing: "Review") -> Sequence[DraftConcern]:
        typed = checked_concern(*words)
        place = Map(standing.document.article).place(typed.text)
        if concern_id is None:
            name = f"p{uuid.uuid4().hex[:8]}"
            own = DraftConcern(id=name, by="person", decision="accepted", place=place, **typed.model_dump())
            return [*standing.parts, own]
        at, mine = find_concern(standing.parts, concern_id)
        if mine.concern == typed:
            return standing.parts
        before = mine.before or (mine.concern if mine.by == "model" else None)
        changed = {
            **typed.model_dump(),
            "before": None if before == typed else before,
            "place": place,
            "contradiction": "",
        }
        return [*standing.parts[:at], mine.model_copy(update=changed), *standing.parts[at + 1 :]]

    return OwnReviews(services, visitor).change(review_id, "edit" if concern_id else "add", change)


def checked_concern(text: str | None, category: str | None, severity: str | None) -> Concern:
    """Return what was typed as a concern; LabError for an empty or endless text or a strange label."""
    words = plain_text(text)
    if not any(character.isalnum() for character in words):
        raise LabError(say("review.edit.empty"))
    if len(words) > LONGEST_CONCERN:
        raise LabError(say("review.edit.long", length=len(words), limit=LONGEST_CONCERN))
    for name, value, known in (
        ("category", category, (*CATEGORIES, UNKNOWN)),
        ("severity", severity, (*SEVERITIES, UNKNOWN)),
    ):
        if value not in known:
            raise LabError(f"the {name} is {value!r}; it takes {', '.join(known)}.")
    return Concern.model_validate({"text": words, "category": category, "severity": severity})


def find_concern(concerns: Sequence[DraftConcern], concern_id: str) -> tuple[int, DraftConcern]:
    """Return the place of a concern, from 0, and the concern; LabError if it is not there (any more)."""
    for at, each in enumerate(concerns):
        if each.id == concern_id:
            return at, each
    raise LabError(say("review.edit.gone"))
