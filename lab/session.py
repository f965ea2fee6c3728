"""One request to one chain: written piece by piece, graded, kept. Every tab that asks a model goes through here."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from evals.errors import LabError
from evals.model import Sampling
from evals.schema import Answer, Message, Verdict
from lab.engine import Finish, Item, LabEngine, Waiting, WriteRequest
from lab.services import Services
from lab.ui.text import say
from lab.visitors import Visitor

if TYPE_CHECKING:
    from training.models.chain import LoadedChain
    from training.models.generation import Piece

Tab = Literal["ask", "compare", "refine", "review"]
LONGEST_QUESTION = 2_000
LONGEST_ANSWER = 512
SHORTEST_ANSWER = 8
HIGHEST_SEED = 2**31 - 1
HIGHEST_TEMPERATURE = 2.0
Written = TypeVar("Written")
Kept = TypeVar("Kept")


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


def session(
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


# ---- answers of several stages -------------------------------------------------------------------


@dataclass(frozen=True)
class QuestionRequest:
    """A checked question: `pick` chooses stages once the chain is there, `messages` are a task's own prompt; `among` widens the chain."""

    visitor: Visitor
    question: str
    sampling: Sampling
    tab: Tab
    pick: Callable[[tuple[str, ...]], tuple[str, ...]] = lambda stages: stages
    chain: str = ""
    messages: tuple[Message, ...] | None = None
    among: Callable[[Any], Any] = lambda chain: chain


@dataclass(frozen=True)
class Draft:
    """What one stage has written so far. `seconds` count from the first word of any stage."""

    stage: str
    text: str = ""
    n_tokens: int = 0
    finish_reason: Finish | None = None
    seconds: float = 0.0
    verdict: Verdict | None = None
    note: str = ""


Drafts = tuple[Draft, ...]


def stored_moment(answers: tuple[Answer, ...]) -> Moment[Drafts, tuple[Answer, ...]]:
    """Return the moment at which answers are there that were stored before."""
    drafts = tuple(Draft(each.stage, each.text, 0, each.finish_reason, verdict=each.verdict) for each in answers)
    return Moment(drafts, kept=answers, is_done=True)


def answered(
    services: Services, asked: QuestionRequest, finish: Callable[[Drafts], Moment[Drafts, Kept]]
) -> Iterator[Moment[Drafts, Kept]]:
    """Yield moments of all stages' answers being written; `finish` is given them closed."""
    began: list[datetime] = []

    def write(chain: "LoadedChain", stop: Any) -> "Iterator[tuple[str, ...] | Piece]":
        from evals.questions import system_prompt_for

        chain = asked.among(chain)
        stages = asked.pick(chain.stages)
        yield stages
        system = system_prompt_for(chain.manifest.system_prompt, asked.question)
        turns = [Message(role="system", content=system)] if system else []
        prompt = asked.messages or (*turns, Message(role="user", content=asked.question))
        yield from chain.stream(prompt, stages, asked.sampling, stop)

    def grow(drafts: Drafts | None, items: "tuple[tuple[str, ...] | Piece, ...]") -> Drafts:
        began.extend([] if began else [services.now()])
        seconds = (services.now() - began[0]).total_seconds()
        by_stage = {draft.stage: draft for draft in drafts or ()}
        for item in items:
            if isinstance(item, tuple):
                by_stage = {stage: Draft(stage) for stage in item}
                continue
            draft = by_stage[item.stage]
            text, note = draft.text + item.text, getattr(item, "note", "")
            by_stage[item.stage] = Draft(item.stage, text, item.n_tokens, item.finish_reason, seconds, note=note)
        return tuple(by_stage.values())

    def close(drafts: Drafts) -> Moment[Drafts, Kept]:
        return finish(tuple(replace(draft, finish_reason=draft.finish_reason or "cancelled") for draft in drafts))

    return session(services.engine, WriteRequest(owner(asked.tab, asked.visitor), write, asked.chain), grow, close)


def origin(chain: "LoadedChain", stage: str, sampling: Sampling) -> dict[str, Any]:
    """Return what is kept of where an answer comes from: enough to ask for it again."""
    home = getattr(chain, "homes", {}).get(stage, chain)  # where several answer side by side
    return {
        "chain": home.manifest.name,
        "stage_sha256": chain.stage_checksums[stage],
        "seed": sampling.seed,
        "max_new_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "dtype": home.dtype,
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


def stage_name(stage: str) -> str:
    """Return a stage's name as people write it: "Base", "SFT"; behind "@" stands the chain, where there are several.

    >>> stage_name("dpo-2"), stage_name("base"), stage_name("warm-up"), stage_name("sft@my-run")
    ('DPO-2', 'Base', 'Warm-up', 'SFT (my-run)')
    """
    stage, _, chain = stage.partition("@")
    name = stage.upper() if stage.split("-")[0] in {"sft", "dpo", "grpo", "kto"} else stage.capitalize()
    return f"{name} ({chain})" if chain else name


@dataclass(frozen=True)
class View:
    """What a tab shows at one moment; all but `kept`, the id of what was stored, is HTML."""

    notice: str
    cards: str
    kept: str | None = None
    is_busy: bool = False
    paper: str = ""


def new_id() -> str:
    return uuid.uuid4().hex


def minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"
