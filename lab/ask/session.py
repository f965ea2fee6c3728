"""What a visitor asks: answered, and found again in the store."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from textwrap import shorten
from typing import Any

from evals import questions
from evals.errors import LabError
from evals.schema import Answer, ChainStage, Example
from evals.verifiers import stated_confidence
from lab.services import Services
from lab.session import (
    Answered,
    Going,
    QuestionRequest,
    Stages,
    View,
    Visitor,
    answering,
    checked_question,
    checked_sampling,
    new_id,
    new_visitor,
    owner,
    session_of,
)
from lab.shared.rater import Rater
from lab.shared.runs import chain_of
from lab.ui.components import Card, card_of, cards, empty, notice, thumbs, waiting_line
from lab.ui.text import say
from training.models.manifest import read_chain

ANSWERS = 90
"""How many stored answers are looked through, newest first."""
PER_GROUP = 3


def ask(
    services: Services,
    visitor: Visitor | None,
    question: str,
    settings: tuple[object, object, object],
    chain: str | None = None,
    chosen: Sequence[str] = (),
    going: str = "",
) -> Generator[View]:
    """Yield what to show until the stages that are `chosen`, or all, have answered.

    `settings`: seed, length, temperature; `chain` as it is listed; `going` is what the first answer is called once it is
    kept. Raises LabError if this cannot be asked, or the model cannot answer.
    """
    asker, sampling = visitor or new_visitor(), checked_sampling(*settings)
    name = chain_of(services, chain) if chain else ""

    def pick(stages: Stages) -> Stages:
        return tuple(stage for stage in stages if stage in chosen) or stages

    asked = QuestionRequest(asker, checked_question(question), sampling, "ask", pick, name, name=going)
    is_known = questions.find(asked.question) is not None
    for moment in answering(services, asked):
        if moment.is_replaced:
            return
        if moment.is_done and moment.written:
            moment = replace(
                moment, written=tuple(relied_on(name or services.settings.chain, moment.written, question))
            )
        yield replace(answer_view(moment, is_known=is_known), going=going)


def relied_on(chain: str, shown: Sequence[Card], question: str) -> list[Card]:
    """Return cards with what the confidence that they state was worth, those below the threshold of their stage marked.

    Of each stage its run folder tells it: the calibrator and the threshold of `assay eval`, where they are of these weights.
    """
    stages = stage_folders(chain)
    example = questions.find(question)
    kind = example.ground_truth.kind if example else None
    made = []
    for card in shown:
        stage, folder = stages.get(card.stage, (None, Path()))
        stated = (card.verdict.confidence if card.verdict else stated_confidence(card.text)).value
        if stage is not None and stated is not None:
            found = _of_stage(folder / "calibrator.json", "Calibrator", stage, kind)
            limit = _of_stage(folder / "threshold.json", "StagePromise", stage, kind)
            card = replace(card, worth=_worth(found, stated, kind, example), **_below(limit, stated))
        made.append(card)
    return made


@lru_cache(maxsize=16)
def stage_folders(chain: str) -> dict[str, tuple[ChainStage, Path]]:
    """Return the stages of a chain by name, each with its run folder; none of a base alone. Read once, as the engine loads once."""
    try:
        known = read_chain(chain)
    except LabError:
        return {}
    return {each.name: (each, known.adapter_folder(each).parent) for each in known.manifest.stages}


def _of_stage(path: Path, kind: str, stage: ChainStage, asked: str | None) -> Any:
    """Return the record of a stage in a file; None without the file, or for other weights or kinds of question."""
    if not path.is_file():
        return None
    from evals import confidence

    found = confidence.read_of_stage(path, getattr(confidence, kind))
    return found if found.is_of(stage.name, stage.sha256) and asked in (None, *found.kinds) else None


def _worth(found: Any, stated: float, kind: str | None, example: Example | None) -> str:
    alike = found.right_alike(stated) if found else None
    if alike is None or (kind is None and "all" not in found.curves):
        return ""
    honest = found.honest(stated, kind, example.cluster if example else None)
    told = {"stated": f"{stated:.0%}", "right": f"{alike[0]:.0%}", "n": alike[1], "data": found.data_name}
    return say("confidence.worth", honest=f"{honest:.0%}", **told)


def _below(limit: Any, stated: float) -> dict[str, str]:
    promise = limit.promise if limit else None
    if promise is None or (promise.threshold is not None and stated >= promise.threshold):
        return {}
    shares = {"wrong": promise.wrong_at_most, "sure": promise.confidence}
    told = {name: f"{100 * share:.3g}%" for name, share in shares.items()} | {"data": limit.data_name}
    if promise.threshold is None:
        return {"below": say("confidence.below.none", **told)}
    return {"below": say("confidence.below", at=f"{promise.threshold:.0%}", **told)}


def answer_view(moment: Answered, *, is_known: bool) -> View:
    """Return the view of one moment of an answer."""
    is_busy = not moment.is_done
    if not moment.written:
        line = waiting_line(moment.waiting) if moment.waiting else ""
        return View(notice(line), empty(say("ask.empty")), is_busy=is_busy)
    unknown = "" if is_busy or is_known else say("verdict.unknown")
    written = list(moment.written)
    if moment.kept:
        rated = zip(written, moment.kept, strict=True)
        written = [replace(card, beneath=thumbs(answer.id)) for card, answer in rated]
    answer = moment.kept[0].id if moment.kept else None
    return View(notice(moment.problem or "", "problem"), cards(written, unknown), answer, is_busy)


LEFT_SECONDS = 30.0
"""How long an answer is written on while its page is not there: it may be loading again."""


@dataclass
class AnswerUnderWay:
    """A question that is being answered: what was typed, what is shown of it, and for which page."""

    visitor: Visitor
    typed: tuple[object, ...]
    views: Iterable[View] = ()


def begin_answer(
    services: Services,
    visitor: Visitor | None,
    typed: tuple[object, ...],
    write: Callable[[Visitor, str], Generator[View]],
) -> Iterator[View]:
    """Yield what `write` gives for a visitor and the name of what it keeps; it goes on while the page is loaded again."""
    asker, name = visitor or new_visitor(), new_id()
    views = write(asker, name)
    services.going[key := (asker.rater, name)] = asking = AnswerUnderWay(asker, typed)
    asking.views = Going(views, LEFT_SECONDS, lambda: services.going.pop(key, None))
    yield from asking.views


def find_going(services: Services, visitor: Visitor | None, name: str | None) -> AnswerUnderWay | None:
    """Return a question of the visitor's that is being answered, by what it is called; it is this page's to stop from now on."""
    found: AnswerUnderWay | None = services.going.get((visitor.rater, name or "")) if visitor else None
    if found and visitor:
        services.engine.hand_over(owner("ask", found.visitor), owner("ask", visitor))
        found.visitor = visitor
    return found


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
        short = shorten(first.question, 80, placeholder="…")
        return f"{when(first)} · {short} · seed {first.seed}, temperature {first.temperature:g}"


def earlier(services: Services, visitor: Visitor | None) -> tuple[Earlier, ...]:
    """Return what this browser asked in this tab before, newest first."""
    if visitor is None:
        return ()
    stages = ("base", "sft", "dpo", "grpo")
    if services.engine.status.state == "ready":
        stages = services.engine.chain().stages
    order = {stage: place for place, stage in enumerate(stages)}
    stored = services.store.answers(session_of(services, visitor, "ask"), ANSWERS)
    groups = (tuple(group) for _, group in groupby(stored, lambda row: (row.asked_at, row.question)))
    return tuple(Earlier(tuple(sorted(group, key=lambda row: order.get(row.stage, len(order))))) for group in groups)


def find_earlier(services: Services, visitor: Visitor | None, chosen: str | None) -> Earlier:
    """Return the earlier question one of whose answers has the id `chosen`; LabError if there is none."""
    for one in earlier(services, visitor):
        if chosen in {row.id for row in one.answers}:
            return one
    raise LabError(say("ask.history.gone"))


def show_earlier(services: Services, visitor: Visitor | None, entry: Earlier) -> View:
    """Return the stored answers to an earlier question, without asking the model."""
    given = Rater(services, visitor).thumbs()
    line = say("ask.history.shown", when=when(entry.first))
    rated = [replace(card_of(row), beneath=thumbs(row.id, given.get(row.id))) for row in entry.answers]
    rated = relied_on(services.settings.chain, rated, entry.first.question)
    return View(notice(line), cards(rated), entry.first.id)


def when(answer: Answer) -> str:
    return f"{answer.asked_at:%d %b %H:%M} UTC"


def examples() -> dict[str, tuple[Example, ...]]:
    """Return a few questions of the bank by what they show; kinds differ within a group."""
    facts, pathways = questions.kmp_test(), questions.pathway_heldout()
    groups = {
        "examples.facts": [row for row in facts if row.ground_truth.kind in {"count", "label"}],
        "examples.pathways": pathways,
        "examples.limits": [row for row in facts if row.ground_truth.kind == "abstain"],
    }
    found = {}
    for name, rows in groups.items():
        firsts = list({row.kind: row for row in reversed(rows)}.values())[::-1]
        found[say(name)] = (*firsts, *(row for row in rows if row not in firsts))[:PER_GROUP]
    return found
