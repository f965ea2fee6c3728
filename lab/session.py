"""Who a visitor is, and what they ask of models: answers written piece by piece, or before."""

import hashlib
import re
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import gradio as gr

from evals.errors import LabError
from evals.io import read_rows
from evals.schema import Answer, EvalReport, Message
from evals.schema.questions import Sampling
from lab.engine import Item, LabEngine, Waiting, WriteRequest
from lab.services import Services
from lab.ui.components import HIGHEST_TEMPERATURE, LONGEST_ANSWER, SHORTEST_ANSWER, Card, card_of, stage_card
from lab.ui.text import say

if TYPE_CHECKING:
    from training.models.chain import LoadedChain
    from training.models.generation import Piece

Tab = Literal["ask", "compare", "review"]
LONGEST_QUESTION = 2_000
HIGHEST_SEED = 2**31 - 1
Written = TypeVar("Written")
Kept = TypeVar("Kept")
Step = TypeVar("Step")


# ---- who is at the page ------------------------------------------------------------------------------

# Kept under a name and key of our own, so that a browser is known again after a restart. The key
# is no secret: it travels with the page.
BROWSER_KEY = "assay-visitor"
BROWSER_SECRET = "assay-visitor-v1"


@dataclass(frozen=True)
class Visitor:
    """Who is reading: `rater` is the same in every tab of a browser, `page` differs by tab, `name` is who they say they are.

    `is_early`: they did something before the page had loaded (`meet_early`).
    """

    rater: str
    page: str
    name: str = ""
    is_early: bool = False

    @property
    def called(self) -> str:
        """The name they gave or signed in with, "" for none."""
        return self.name.removeprefix("name:").removeprefix("hf:")

    @property
    def voter(self) -> str:
        """Under which votes are kept."""
        is_typed = self.name.startswith("name:")
        return self.name.casefold() if is_typed else self.name or self.rater


@dataclass(frozen=True)
class Door:
    """The widgets that carry a visitor: `known` on the server, `remembered` in the browser."""

    known: gr.State
    remembered: gr.BrowserState


def door() -> Door:
    """Lay the widgets out inside the `gr.Blocks` that is currently open; nothing of them shows."""
    remembered = gr.BrowserState(None, storage_key=BROWSER_KEY, secret=BROWSER_SECRET)
    return Door(known=gr.State(None), remembered=remembered)


def new_visitor(rater: str | None = None) -> Visitor:
    """Return a visitor with a page of its own; one without a rater's name gets a random one."""
    return Visitor(rater=rater or uuid.uuid4().hex, page=uuid.uuid4().hex)


def meet(remembered: object, request: gr.Request) -> tuple[Visitor, object]:
    """Return who is at the page, and what their browser shall keep; the same page always gets the same answer."""
    session = request.session_hash or uuid.uuid4().hex
    page, drawn = (hashlib.sha256(f"{role} {session}".encode()).hexdigest()[:32] for role in ("page", "rater"))
    if request.username:
        return Visitor(request.username, page, request.username), remembered
    is_ours = isinstance(remembered, str) and re.fullmatch(r"[0-9A-Za-z]{32}( \S.{0,79})?", remembered)
    if not is_ours:
        remembered = drawn
    rater, _, name = str(remembered).partition(" ")
    return Visitor(rater, page, f"name:{name}" if name else ""), remembered


def meet_early(known: Visitor | None, remembered: object, request: gr.Request) -> tuple[Visitor, object]:
    """Return who does something on a page that may not have loaded yet, and what their browser shall keep.

    Gradio reports the change of a state from its queue alone, and this is outside it: as an early visitor differs from the
    one who is met when the page has loaded, all that waits for a visitor is filled then.
    """
    visitor, kept = meet(remembered, request)
    return known or replace(visitor, is_early=True), kept


def name_visitor(remembered: object, name: str, request: gr.Request) -> tuple[Visitor, object]:
    """Return who is at the page once they said what they are called, and what their browser shall keep; "" forgets it."""
    _, kept = meet(remembered, request)
    said = " ".join(name.split())[:80]
    return meet(f"{str(kept).partition(' ')[0]} {said}".strip(), request)


NEEDED = ("SPACE_ID", "OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")
PACKAGES = ("authlib", "itsdangerous")


def can_sign_in(environment: Mapping[str, str]) -> bool:
    """Whether the button would work here. Elsewhere gradio refuses to build a page that has it."""
    is_set_up = all(environment.get(name) for name in NEEDED)
    return is_set_up and all(find_spec(name) is not None for name in PACKAGES)


def meet_signed_in(remembered: object, request: gr.Request, profile: gr.OAuthProfile | None) -> tuple[Visitor, object]:
    """Return who is at the page: the name they signed in with, else who their browser says they are."""
    visitor, kept = meet(remembered, request)
    name = f"hf:{profile.username}" if profile else ""
    return (visitor if profile is None else Visitor(name, visitor.page, name)), kept


# ---- something being written -------------------------------------------------------------------------


class BadQuestion(LabError, ValueError):
    """A question or setting that cannot be sent to a model; the message says what to change."""


@dataclass(frozen=True)
class Moment(Generic[Written, Kept]):
    """One moment of something being written.

    `written` is what there is so far, None before it begins; `waiting` says how long that takes. It is complete
    and being graded (`is_grading`), then `kept`, or `problem` says why it was not. `is_replaced`: the same page
    asked for something else. Nothing comes after a moment that `is_done` or `is_replaced`.
    """

    written: Written | None = None
    waiting: Waiting | None = None
    is_grading: bool = False
    kept: Kept | None = None
    problem: str | None = None
    is_done: bool = False
    is_replaced: bool = False


def moments(
    engine: LabEngine,
    request: WriteRequest[Item],
    grow: Callable[[Written | None, tuple[Item, ...]], Written],
    finish: Callable[[Written], Moment[Written, Kept]],
) -> Iterator[Moment[Written, Kept]]:
    """Yield moments until all is written, graded and kept, which `finish` does; from the first on, `stop` is heard."""
    ticket = engine.ask(request)
    now: Moment[Written, Kept] = Moment()
    yield now
    try:
        for update in engine.updates(ticket):
            if ticket.replaced.is_set():
                break
            if isinstance(update, Waiting):
                yield replace(now, waiting=update)
            else:
                now = Moment(grow(now.written, update))
                yield now
    except GeneratorExit:  # the page was left: what it saw is kept, as after a stop
        if now.written is not None and not ticket.replaced.is_set():
            with suppress(LabError):
                finish(now.written)
        raise
    if ticket.replaced.is_set():
        yield replace(now, is_replaced=True)
    elif now.written is None:
        yield replace(now, is_done=True)
    else:
        yield replace(now, is_grading=True)
        yield replace(finish(now.written), is_done=True)


@dataclass(frozen=True)
class View:
    """What a tab shows at one moment, as HTML; `kept` is the id of what was stored, `going` what it will be."""

    notice: str
    cards: str
    kept: str | None = None
    is_busy: bool = False
    paper: str = ""
    going: str = ""


class Going(Generic[Step]):
    """Steps that are made in a thread of their own: each reader is given the newest, then each as it comes, or the error.

    Once its last reader has left they go on for so many `seconds`, then they are closed; `ended` is called at the end.
    """

    def __init__(
        self, steps: Generator[Step], seconds: float = inf, ended: Callable[[], object] = lambda: None
    ) -> None:
        self._steps, self._seconds, self._ended = steps, seconds, ended
        self._changed = threading.Condition()
        self._made: list[Step] = []  # the newest
        self._n, self._readers, self._left, self._is_over = 0, 0, inf, False  # nobody has left yet
        self._error: Exception | None = None
        threading.Thread(target=copy_context().run, args=(self._make,), name="assay-steps", daemon=True).start()

    def _make(self) -> None:
        try:
            for step in self._steps:
                with self._changed:
                    self._made, self._n = [step], self._n + 1
                    self._changed.notify_all()
                    if not self._readers and time.monotonic() - self._left > self._seconds:
                        break
            self._steps.close()
        except Exception as error:
            self._error = error
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
            self._ended()

    def __iter__(self) -> Iterator[Step]:
        """Yield the newest step, then each as it comes."""
        seen = 0
        with self._changed:
            self._readers += 1
        try:
            while True:
                with self._changed:
                    while self._n == seen and not self._is_over:
                        self._changed.wait()
                    made, is_last, seen = self._made if self._n > seen else [], self._is_over, self._n
                yield from made
                if is_last:
                    break
            if self._error:
                raise self._error
        finally:
            with self._changed:
                self._readers, self._left = self._readers - 1, time.monotonic()


# ---- answers of several stages -------------------------------------------------------------------

Cards = tuple[Card, ...]
Stages = tuple[str, ...]


@dataclass(frozen=True)
class QuestionRequest:
    """A checked question; `messages` are a task's own prompt. `pick` chooses who of all stages answers: None is all.

    `name` is what is kept of it called, its first answer.
    """

    visitor: Visitor
    question: str
    sampling: Sampling
    tab: Tab
    pick: Callable[[Stages], Stages] | None = None
    chain: str = ""
    messages: tuple[Message, ...] | None = None
    name: str = ""


def stream_answers(
    services: Services, asked: QuestionRequest, finish: Callable[[Any, Cards], Moment[Cards, Kept]]
) -> Iterator[Moment[Cards, Kept]]:
    """Yield moments of all stages' answers being written; `finish` is given the chain, and their cards, closed.

    `waited` of a card are the seconds to the first word of any stage, `seconds` those from there on.
    """
    asked_at, began = services.now(), list[datetime]()
    chains: list[Any] = []

    def write(chain: "LoadedChain", stop: Any) -> "Iterator[Stages | Piece]":
        from evals.questions import system_prompt_for

        stages = asked.pick(chain.stages) if asked.pick else chain.stages
        chains.append(chain)
        yield stages
        system = system_prompt_for(chain.manifest.system_prompt, asked.question)
        turns = [Message(role="system", content=system)] if system else []
        prompt = asked.messages or (*turns, Message(role="user", content=asked.question))
        yield from chain.stream(prompt, stages, asked.sampling, stop)

    def grow(cards: Cards | None, items: "tuple[Stages | Piece, ...]") -> Cards:
        now = services.now()
        by_stage = {card.stage: card for card in cards or ()}
        for item in items:
            if isinstance(item, tuple):
                waits = beside_line(services)
                by_stage = {stage: replace(stage_card(stage), waits=waits) for stage in item}
                continue
            began.extend([] if began else [now])
            card, note = by_stage[item.stage], getattr(item, "note", "")
            text = card.text + item.text
            by_stage[item.stage] = replace(
                card,
                text=text,
                state="done" if item.finish_reason else "writing" if text else "waiting",
                finish_reason=item.finish_reason,
                n_tokens=item.n_tokens or None,
                seconds=(now - began[0]).total_seconds() or None,
                waited=(began[0] - asked_at).total_seconds(),
                figures=(note,) if note else (),
            )
        return tuple(by_stage.values())

    def close(cards: Cards) -> Moment[Cards, Kept]:
        closed = (replace(card, finish_reason=card.finish_reason or "cancelled", state="done") for card in cards)
        return finish(chains[0], tuple(closed))

    return moments(services.engine, WriteRequest(owner(asked.tab, asked.visitor), write, asked.chain), grow, close)


def beside_line(services: Services) -> str:
    """Return which batch or evaluation uses the model meanwhile, how far it is and for about how long; "" if none does."""
    for each in list(services.jobs.doing.values()):
        if each.job.kind in ("batch", "evaluate") and (line := each.far[2]):
            return say("answer.beside", what=say(f"answer.beside.{each.job.kind}"), line=line)
    return ""


Answered = Moment[Cards, tuple[Answer, ...]]


def answering(services: Services, asked: QuestionRequest) -> Iterator[Answered]:
    """Yield moments until the answers are stored, those we know with verdicts; LabError if the model cannot answer."""
    from evals import questions
    from evals.verifiers import verify

    example = questions.find(asked.question)

    def grade(card: Card) -> Card:
        if example is None or card.finish_reason == "cancelled":
            return card
        return replace(card, verdict=verify(example, card.text))

    def finish(chain: Any, cards: Cards) -> Answered:
        cards, asked_at = tuple(map(grade, cards)), services.now()
        answers = tuple(
            Answer(
                id=(asked.name if not place else "") or new_id(),
                asked_at=asked_at,
                session=session_of(services, asked.visitor, asked.tab),
                question=asked.question,
                example_id=example.id if example else None,
                stage=card.stage,
                text=card.text,
                finish_reason=card.finish_reason or "cancelled",
                system_prompt=questions.system_prompt_for(chain.manifest.system_prompt, asked.question),
                verdict=card.verdict,
                **origin(chain, card.stage, asked.sampling),
            )
            for place, card in enumerate(cards)
        )
        try:
            services.store.add_answers(answers)
        except LabError as error:
            return Moment(cards, problem=say("ask.not_kept", problem=error))
        return Moment(cards, kept=answers)

    for moment in stream_answers(services, asked, finish):
        is_complete = moment.written and all(card.finish_reason for card in moment.written)
        if moment.is_done or moment.is_replaced or not (is_complete or moment.is_grading):
            yield moment


def stored_moment(answers: tuple[Answer, ...]) -> Answered:
    """Return the moment at which answers are there that were stored before."""
    return Moment(tuple(map(card_of, answers)), kept=answers, is_done=True)


def origin(chain: Any, stage: str, sampling: Sampling) -> dict[str, Any]:
    """Return what is kept of where an answer comes from: enough to ask for it again."""
    return {
        "chain": chain.manifest.name,
        "stage_sha256": chain.stage_checksums[stage],
        "seed": sampling.seed,
        "max_new_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "dtype": chain.dtype,
    }


def owner(tab: Tab, visitor: Visitor) -> str:
    """Return the name under which a page waits in line in one tab."""
    return f"{tab} {visitor.page}"


def stop(services: Services, visitor: Visitor | None, tab: Tab, *, silently: bool = False) -> None:
    """End what this page waits for in this tab; what was written is kept, unless `silently`."""
    if visitor is not None:
        services.engine.stop(owner(tab, visitor), silently=silently)


def session_of(services: Services, visitor: Visitor, tab: Tab) -> str:
    """Return the name of a visitor's answers, another for each tab: Ask must not tell who wrote a pair."""
    return services.store.hash_rater(f"{tab} {visitor.rater}")


# ---- answers that were written before, for a page that asks no model -----------------------------


ANSWERS = "answers.jsonl"
"""The file of an arena: a line for each answer, as the store keeps them."""


class Recorded:
    """Answers by question and stage; LabError unless two stages answered a question, each with a verdict."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        by_question: dict[str, dict[str, Answer]] = {}
        for answer in answers:
            if answer.verdict is None:
                raise LabError(say("arena.no_verdict", answer=answer.id))
            by_question.setdefault(answer.question, {})[answer.stage] = answer
        self._asked = {question: found for question, found in by_question.items() if len(found) > 1}
        if not self._asked:
            raise LabError(say("arena.no_pair"))

    @classmethod
    def read(cls, file: Path) -> "Recorded":
        """Return the answers of a file; LabError for one that holds none."""
        return cls(read_rows(file, Answer))

    @property
    def questions(self) -> tuple[str, ...]:
        """Those that have a pair."""
        return tuple(self._asked)

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All to these questions."""
        return tuple(answer for found in self._asked.values() for answer in found.values())

    def answering(self, services: Services, asked: QuestionRequest) -> Iterator[Answered]:
        """Yield the answers of the stages that `asked` picks, stored for this visitor; LabError for another question."""
        if (found := self._asked.get(asked.question)) is None:
            raise LabError(say("compare.not_recorded"))
        own = {"session": session_of(services, asked.visitor, asked.tab)}
        stages = asked.pick(tuple(found)) if asked.pick else tuple(found)
        answers = tuple(found[stage].model_copy(update={**own, "id": new_id()}) for stage in stages)
        services.store.add_answers(answers)
        yield stored_moment(answers)


def answers_of(report: EvalReport) -> Iterator[Answer]:
    """Yield what stages and hosted models answered in a report, without the baselines."""
    baselines = {each.stage for each in report.summaries if each.is_baseline}
    usual = {"seed": 0, "max_new_tokens": 0, "temperature": 0.0, "dtype": "unknown"}
    settings = {name: report.settings.get(name, value) for name, value in usual.items()}
    for row in (row for row in report.rows if row.stage not in baselines):
        known = {
            "id": f"{row.stage} {row.id}",
            "asked_at": report.created_at,
            "session": report.data_name,
            "question": row.example.prompt,
            "example_id": row.id,
            "stage": row.stage,
            "text": row.completion,
            "finish_reason": row.finish_reason,
            "chain": report.chain_name,
            "stage_sha256": report.stage_checksums.get(row.stage, ""),
            "system_prompt": row.prompt[0].content if row.prompt[0].role == "system" else "",
            "verdict": row.verdict,
        }
        yield Answer.model_validate(known | settings)


# ---- what was typed --------------------------------------------------------------------------------


def checked_question(text: str | None) -> str:
    """Return the question as it will be asked and stored. Raises BadQuestion."""
    question = plain_text(text)
    if not any(character.isalnum() for character in question):
        raise BadQuestion(say("question.empty"))
    if len(question) > LONGEST_QUESTION:
        raise BadQuestion(say("question.long", length=len(question), limit=LONGEST_QUESTION))
    return question


def plain_text(text: str | None) -> str:
    """Return what was typed without blanks around it; what no file can hold (lone surrogates, NUL) is replaced."""
    return (text or "").encode("utf-8", "replace").decode().replace("\0", "\ufffd").strip()


def checked_sampling(
    seed: Any, max_new_tokens: Any, temperature: Any, shortest: int = SHORTEST_ANSWER, longest: int = LONGEST_ANSWER
) -> Sampling:
    """Return the settings as numbers in range. Raises BadQuestion."""
    for name, value, low, high in (
        ("seed", seed, 0, HIGHEST_SEED),
        ("max_new_tokens", max_new_tokens, shortest, longest),
        ("temperature", temperature, 0, HIGHEST_TEMPERATURE),
    ):
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        if not is_number or (name != "temperature" and value != int(value)):
            raise BadQuestion(say(f"setting.{name}", value=value, low=low, high=high))
    return Sampling(seed=int(seed), max_new_tokens=int(max_new_tokens), temperature=float(temperature))


def new_id() -> str:
    return uuid.uuid4().hex
