"""What a visitor asked before: found in the store, shown again, and asked again to compare."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Literal

from evals import questions
from evals.errors import LabError
from evals.model import Sampling
from evals.schema import Answer, Example, Verdict
from evals.verifiers import verify
from lab.engine import Engine, Finish, Piece, Request, Ticket, Waiting
from lab.services import Services
from lab.ui.text import say
from lab.visitors import Visitor

Tab = Literal["ask", "compare"]
LONGEST_QUESTION = 2_000
LONGEST_ANSWER = 512
SHORTEST_ANSWER = 8
HIGHEST_SEED = 2**31 - 1
HIGHEST_TEMPERATURE = 2.0


class BadQuestion(LabError, ValueError):
    """A question or setting that cannot be sent to a model; the message says what to change."""


@dataclass(frozen=True)
class Asking:
    """A question that was checked, and how to answer it. `tab` is where it was asked."""

    visitor: Visitor
    question: str
    sampling: Sampling
    tab: Tab
    pick: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda stages: stages


@dataclass(frozen=True)
class Draft:
    """What one stage has written so far. `seconds` count from the first word of any stage."""

    stage: str
    text: str = ""
    n_tokens: int = 0
    finish_reason: Finish | None = None
    seconds: float = 0.0
    verdict: Verdict | None = None

    def grown(self, piece: Piece, seconds: float) -> "Draft":
        """Return the draft with one more piece."""
        return replace(
            self,
            text=self.text + piece.text,
            n_tokens=piece.n_tokens,
            finish_reason=piece.finish_reason,
            seconds=seconds,
        )


@dataclass(frozen=True)
class Snapshot:
    """One moment of an answer being written.

    `waiting` while it has not begun; `answers` once complete and stored; `problem` if storing
    failed; `is_replaced` if the same page asked for something else meanwhile. Nothing comes after
    a snapshot that `is_done` or `is_replaced`.
    """

    question: str
    example: Example | None
    waiting: Waiting | None = None
    drafts: tuple[Draft, ...] = ()
    answers: tuple[Answer, ...] = ()
    problem: str | None = None
    is_done: bool = False
    is_replaced: bool = False


def checked_question(text: str | None) -> str:
    """Return the question as it will be asked and stored. Raises BadQuestion.

    Characters that no file can hold (lone surrogates, NUL) are replaced; all others stay.
    """
    question = (text or "").encode("utf-8", "replace").decode().replace("\0", "\ufffd").strip()
    if not any(character.isalnum() for character in question):
        raise BadQuestion(say("question.empty"))
    if len(question) > LONGEST_QUESTION:
        raise BadQuestion(say("question.long", length=len(question), limit=LONGEST_QUESTION))
    return question


def checked_sampling(seed: object, max_new_tokens: object, temperature: object) -> Sampling:
    """Return the settings as numbers in range. Raises BadQuestion."""
    return Sampling(
        seed=int(_number("seed", seed, 0, HIGHEST_SEED)),
        max_new_tokens=int(_number("max_new_tokens", max_new_tokens, SHORTEST_ANSWER, LONGEST_ANSWER)),
        temperature=_number("temperature", temperature, 0, HIGHEST_TEMPERATURE, is_whole=False),
    )


def answering(services: Services, asking: Asking) -> Iterator[Snapshot]:
    """Yield snapshots until the answers are complete and stored (or replaced by another asking).

    The first one comes at once, and from then on `stop` is heard. Raises LabError if the model
    cannot answer.
    """
    engine = services.engine
    ticket = engine.ask(Request(f"{asking.tab} {asking.visitor.page}", asking.question, asking.pick, asking.sampling))
    now = Snapshot(asking.question, questions.find(asking.question))
    yield now
    for seen in drafting(engine, ticket, services.now):
        if isinstance(seen, Waiting):
            yield replace(now, waiting=seen)
            continue
        now = replace(now, drafts=seen)
        if not all(draft.finish_reason for draft in now.drafts):
            yield now  # complete answers are shown once they are kept
    if ticket.replaced.is_set():
        yield replace(now, is_replaced=True)
        return
    yield _finished(services, asking, now)


def drafting(engine: Engine, ticket: Ticket, clock: Callable[[], datetime]) -> Iterator[Waiting | tuple[Draft, ...]]:
    """Yield the place in line while it has not begun, then the drafts as they grow, one per stage.

    Ends when all is written, or when the same page asked for something else (`ticket.replaced`).
    """
    drafts: tuple[Draft, ...] = ()
    began: datetime | None = None
    for update in engine.updates(ticket):
        if ticket.replaced.is_set():
            return
        if isinstance(update, Waiting):
            yield update
            continue
        began = began or clock()
        drafts = _grown(drafts, ticket, update, (clock() - began).total_seconds())
        yield drafts


def stop(services: Services, visitor: Visitor | None, tab: Tab, *, silently: bool = False) -> None:
    """End the answers that this page is waiting for in this tab.

    What was written stays and is kept, unless `silently`: then nobody hears of it any more.
    """
    if visitor is not None:
        services.engine.stop(f"{tab} {visitor.page}", silently=silently)


def session_of(services: Services, visitor: Visitor, tab: Tab) -> str:
    """Return the name under which a visitor's answers are kept, one for each tab.

    Were it one for both, the history in Ask would tell who wrote a pair in Compare.
    """
    return services.store.hash_rater(f"{tab} {visitor.rater}")


def stage_name(stage: str) -> str:
    """Return a stage's name as people write it: "Base", "SFT".

    >>> stage_name("grpo"), stage_name("base"), stage_name("warm-up")
    ('GRPO', 'Base', 'Warm-up')
    """
    return stage.upper() if stage in {"sft", "dpo", "grpo", "kto"} else stage.capitalize()


def _grown(drafts: tuple[Draft, ...], ticket: Ticket, pieces: tuple[Piece, ...], seconds: float) -> tuple[Draft, ...]:
    """Return the drafts with the pieces that came since, one draft per stage of the ticket."""
    by_stage = {draft.stage: draft for draft in drafts or map(Draft, ticket.stages)}
    for piece in pieces:
        by_stage[piece.stage] = by_stage[piece.stage].grown(piece, seconds)
    return tuple(by_stage.values())


def _number(name: str, value: object, low: float, high: float, *, is_whole: bool = True) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or (is_whole and value != int(value)):
        raise BadQuestion(say(f"setting.{name}", value=value, low=low, high=high))
    return float(value)


def _finished(services: Services, asking: Asking, now: Snapshot) -> Snapshot:
    """Judge, keep and return the final answers. Nothing is kept of a question never begun."""
    drafts = tuple(_judged(draft, now.example) for draft in now.drafts)
    done = replace(now, drafts=drafts, is_done=True)
    if not drafts:
        return done
    answers = _records(services, asking, done)
    try:
        services.store.add_answers(answers)
    except LabError as error:
        return replace(done, problem=say("ask.not_kept", problem=error))
    return replace(done, answers=answers)


def _records(services: Services, asking: Asking, now: Snapshot) -> tuple[Answer, ...]:
    chain = services.engine.chain
    asked_at = services.now()
    session = session_of(services, asking.visitor, asking.tab)
    return tuple(
        Answer(
            id=uuid.uuid4().hex,
            asked_at=asked_at,
            session=session,
            question=now.question,
            example_id=now.example.id if now.example else None,
            stage=draft.stage,
            text=draft.text,
            finish_reason=draft.finish_reason or "cancelled",
            chain=chain.manifest.name,
            stage_sha256=chain.stage_checksums[draft.stage],
            system_prompt=questions.system_prompt_for(chain.manifest.system_prompt, now.question),
            seed=asking.sampling.seed,
            max_new_tokens=asking.sampling.max_new_tokens,
            temperature=asking.sampling.temperature,
            dtype=chain.dtype,
            verdict=draft.verdict,
        )
        for draft in now.drafts
    )


def _judged(draft: Draft, example: Example | None) -> Draft:
    """Return the draft closed, with a verdict if its question is known and it was not stopped."""
    draft = replace(draft, finish_reason=draft.finish_reason or "cancelled")
    if example is None or draft.finish_reason == "cancelled":
        return draft
    return replace(draft, verdict=verify(example, draft.text))


ANSWERS = 90
"""How many stored answers are looked through, newest first."""


@dataclass(frozen=True)
class Earlier:
    """A question asked before, with the stored answer of each stage."""

    answers: tuple[Answer, ...]

    @property
    def first(self) -> Answer:
        """Any of them: question, time and settings are the same in all."""
        return self.answers[0]

    @property
    def label(self) -> str:
        """One line to choose it by."""
        first = self.first
        short = first.question if len(first.question) <= 80 else first.question[:79] + "…"
        return f"{when(first)} · {short} · seed {first.seed}, temperature {first.temperature:g}"


def earlier(services: Services, visitor: Visitor | None) -> tuple[Earlier, ...]:
    """Return what this browser asked in this tab before, newest first."""
    if visitor is None:
        return ()
    session = session_of(services, visitor, "ask")
    stored = services.store.answers(session, ANSWERS)
    groups = (tuple(group) for _, group in groupby(stored, lambda row: (row.asked_at, row.question)))
    order = _stage_order(services)
    return tuple(Earlier(tuple(sorted(group, key=lambda row: order.get(row.stage, len(order))))) for group in groups)


def find_earlier(services: Services, visitor: Visitor | None, chosen: str | None) -> Earlier | None:
    """Return the earlier question one of whose answers has the id `chosen`."""
    entries = earlier(services, visitor)
    return next((one for one in entries if chosen in {row.id for row in one.answers}), None)


def asking_again(visitor: Visitor, entry: Earlier) -> Asking:
    """Return the same question to the same stages with the same settings."""
    first = entry.first
    wanted = tuple(answer.stage for answer in entry.answers)

    def pick(stages: tuple[str, ...]) -> tuple[str, ...]:
        kept = tuple(stage for stage in wanted if stage in stages)
        return kept or stages

    sampling = Sampling(max_new_tokens=first.max_new_tokens, temperature=first.temperature, seed=first.seed)
    return Asking(visitor, first.question, sampling, "ask", pick)


def compared(before: Earlier, now: Snapshot) -> str:
    """Return whether a replay gave the same words, and if not, what could be why."""
    old = {answer.stage: answer for answer in before.answers}
    known = [(old[answer.stage], answer) for answer in now.answers if answer.stage in old]
    same = sum(then.text == answer.text for then, answer in known)
    facts = {"n": len(now.answers), "when": when(before.first)}
    if same == len(now.answers):
        return say("ask.replay.same", **facts)
    is_other = len(known) < len(now.answers) or any(then.stage_sha256 != answer.stage_sha256 for then, answer in known)
    why = say("ask.replay.chain" if is_other else "ask.replay.numbers")
    return say("ask.replay.different", same=same, why=why, **facts)


def when(answer: Answer) -> str:
    """Return when an answer was asked for, as people read it (UTC)."""
    return f"{answer.asked_at:%d %b %H:%M} UTC"


def _stage_order(services: Services) -> dict[str, int]:
    if services.engine.status.state != "ready":
        return {stage: place for place, stage in enumerate(("base", "sft", "dpo", "grpo"))}
    return {stage: place for place, stage in enumerate(services.engine.chain.stages)}
