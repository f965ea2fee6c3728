"""What the Review tab does with papers and reviews: plain functions that give what is to be shown."""

import re
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evals.errors import LabError, UnreadableArticle
from evals.model import Sampling
from evals.schema import Article
from evals.schema.reviewruns import DraftConcern, KeptReview, ReviewAnswer, Reviewer, ReviewForm, ReviewStep
from evals.schema.reviews import CATEGORIES, SEVERITIES, UNKNOWN, Concern
from evals.validity.grounding import PaperSentences
from lab.document_session import Exported, Work, write_export
from lab.engine import WriteRequest
from lab.review.export import export
from lab.review.pages import hold
from lab.review.reader import Reader, reader_named
from lab.review.view import concerns as cards
from lab.review.view import paper as paper_view
from lab.services import Services
from lab.session import Moment, Tab, View, checked_sampling, new_id, owner, plain_text, session
from lab.ui.components import notice, waiting_line
from lab.ui.text import say
from lab.visitors import Visitor, new_visitor

if TYPE_CHECKING:
    from lab.store.documents import Standing

    Review = Standing[KeptReview, DraftConcern]

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


def reviewing(
    services: Services, visitor: Visitor, article: Article, reader: Reader, sampling: Sampling, tab: Tab = "review"
) -> Iterator[Moment[ReviewStep, KeptReview]]:
    """Yield moments until the review is complete and kept. LabError if the model cannot review."""

    def finish(step: ReviewStep) -> Moment[ReviewStep, KeptReview]:
        from evals.review.prompt import system_prompt

        row, engine = step.row, step.engine
        if row is None or engine is None:
            raise LabError(say("review.stopped_early"))
        kept = KeptReview(
            id=new_id(),
            made_at=services.now(),
            session=services.store.hash_rater(visitor.rater),
            article=article,
            reviewer=Reviewer(
                name=reader.name,
                **engine.model_dump(include={"kind", "stage", "checksums", "constraint"}),
                system_prompt=system_prompt(),
                seed=sampling.seed,
                max_new_tokens=sampling.max_new_tokens,
                temperature=sampling.temperature,
            ),
            answer=ReviewAnswer(
                requests=step.requests,
                raw=row.raw_output,
                n_tokens=step.n_tokens,
                **row.model_dump(include={"status", "problems", "finish_reason", "seconds", "tokens_lost"}),
            ),
            concerns=drafts(row.concerns, PaperSentences(article)),
        )
        services.store.documents("review").add(kept)
        return Moment(step, kept=kept)

    request = WriteRequest(owner(tab, visitor), partial(reader.write, article, sampling), reader.chain)
    return session(services.engine, request, lambda _, steps: steps[-1], finish)


def drafts(concerns: Sequence[Concern], paper: PaperSentences) -> tuple[DraftConcern, ...]:
    """Return a model's concerns as people work on them, each with its place in the paper and what contradicts it."""
    return tuple(
        DraftConcern(
            id=f"m{number}",
            by="model",
            place=paper.map.place(concern.text),
            contradiction=paper.contradiction(concern.text),
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


def read(file: str | None, text: str | None) -> tuple[Article | None, View]:
    """Return the paper that was given and its view, or what is wrong with it."""
    try:
        article = paper_of(file, text)
    except LabError as error:
        return None, View(notice(str(error), "problem"), cards(()), paper=paper_view(None))
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
) -> Iterator[View]:
    """Yield what to show until a review is complete and kept.

    `given`: the paper that was read, and a pasted text that counts before it.
    """
    article, text = given
    found: tuple[DraftConcern, ...] = ()
    try:
        article = paper_of(None, text) if (text or "").strip() or article is None else article
        reader = reader_named(services.readers(), reader_name)
        sampling, paper = checked_sampling(*settings, SHORTEST, LONGEST), PaperSentences(article)
        for moment in reviewing(services, visitor or new_visitor(), article, reader, sampling):
            if moment.is_replaced:
                return
            kept, step, tone = moment.kept, moment.written, "info"
            found = kept.concerns if kept else drafts(step.concerns, paper) if step else ()
            if kept:
                line, tone = finished_line(kept), "good"
            elif moment.waiting:
                line = waiting_line(moment.waiting)
            elif step:
                n, tokens = len(step.concerns), step.n_tokens
                line = say("review.writing", part=step.part, parts=step.parts, n=n, tokens=tokens)
                line += f" {say('review.writing.lost', tokens=step.tokens_lost)}" if step.tokens_lost else ""
            else:
                line = say("review.stopped_early" if moment.is_done else "review.reading")
            shown, page = cards(found, is_busy=not kept), paper_view(article, found)
            yield View(notice(line, tone), shown, kept.id if kept else None, not moment.is_done, page)
    except LabError as error:
        words = notice(str(error), "problem")
        yield View(words, cards(found, is_busy=bool(found)), paper=paper_view(article, found))


# ---- what a person makes of a review -------------------------------------------------------------


def work(services: Services, visitor: Visitor | None) -> Work:
    """Return what a visitor does with kept reviews."""

    def show(standing: "Review | None", line: str) -> View:
        if standing is None:
            return View(line, cards(()), paper=paper_view(None))
        kept, concerns = standing.document, standing.parts
        return View(line, cards(concerns), kept.id, paper=paper_view(kept.article, concerns))

    def label(kept: KeptReview) -> str:
        return f"{kept.reviewer.name} · {kept.article.title[:70] or kept.article.id}"

    return Work(services, visitor, "review", show, label)


def act(services: Services, visitor: Visitor | None, review_id: str | None, action: str, concern_id: str) -> View:
    """Do what a button of a card says (accept, reject, up, down, delete) and show the review.

    A decision that stands is taken back by the same button; at an end of the list a concern stays.
    """

    def change(standing: "Review") -> Sequence[DraftConcern]:
        before = list(standing.parts)
        at, mine = find(before, concern_id)
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

    return work(services, visitor).change(review_id, action, change)


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
        typed = checked(*words)
        paper = PaperSentences(standing.document.article)
        place, wrong = paper.map.place(typed.text), paper.contradiction(typed.text)
        if concern_id is None:
            name = f"p{uuid.uuid4().hex[:8]}"
            own = DraftConcern(id=name, by="person", decision="accepted", place=place, **typed.model_dump())
            own = own.model_copy(update={"contradiction": wrong})
            return [*standing.parts, own]
        at, mine = find(standing.parts, concern_id)
        if mine.concern == typed:
            return standing.parts
        before = mine.before or (mine.concern if mine.by == "model" else None)
        changed = {
            **typed.model_dump(),
            "before": None if before == typed else before,
            "place": place,
            "contradiction": wrong,
        }
        return [*standing.parts[:at], mine.model_copy(update=changed), *standing.parts[at + 1 :]]

    return work(services, visitor).change(review_id, "edit" if concern_id else "add", change)


def checked(text: str | None, category: str | None, severity: str | None) -> Concern:
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


def find(concerns: Sequence[DraftConcern], concern_id: str) -> tuple[int, DraftConcern]:
    """Return the place of a concern, from 0, and the concern; LabError if it is not there (any more)."""
    for at, each in enumerate(concerns):
        if each.id == concern_id:
            return at, each
    raise LabError(say("review.edit.gone"))


def make_file(mine: Work, review_id: str | None, form: ReviewForm, folder: Path) -> tuple[str, str | None]:
    """Return a line and the file of a review in one form, or why there is none."""

    def make() -> tuple[Path, Exported]:
        standing = mine.get(review_id)
        return folder / standing.document.id, export(standing, form, mine.documents.votes(mine.session))

    return write_export(make, "review")
