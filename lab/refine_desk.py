"""What the Refine tab does: plain functions that give what is to be shown."""

from collections.abc import Iterator
from dataclasses import dataclass

from evals.errors import LabError
from evals.model import Sampling
from evals.schema.refinements import KeptRefinement
from evals.schema.refining import RefinerRecord, RewardConfig
from lab.answers import checked_sampling
from lab.console import counted
from lab.refine_fields import Fields, fields_of, labels, record_of
from lab.refine_own import Own
from lab.refine_views import refined
from lab.refining import Preset, RefineMoment, Refining, engine_of, given, owner, refining
from lab.services import Services, example_records
from lab.views import card_of, cards, empty, notice, waiting_line
from lab.visitors import Visitor, new_visitor
from lab.wording import say

LONGEST_PASTED = 20_000


@dataclass(frozen=True)
class RefineView:
    """What the tab shows at one moment; `notice` and `answers` are HTML. `kept` is what was stored."""

    notice: str
    answers: str
    kept: str | None = None
    is_busy: bool = False


def records() -> dict[str, RefinerRecord]:
    """Return the example records by id, those kept for testing first."""
    test, train = example_records()
    return {record.id: record for record in (*test, *train)}


def held_out() -> frozenset[str]:
    """Return the ids of the records that are kept for testing."""
    return frozenset(record.id for record in example_records()[0])


def choices(own: Own | None = None) -> list[tuple[str, str]]:
    """Return a line and the name of every record: those a visitor brought, then the examples."""
    brought = dict(own or {})
    mine = labels(tuple(brought.values()), held_out())
    yours = say("refine.record.own")
    named = [(f"{line} · {yours}", key) for (line, _), key in zip(mine, brought, strict=True)]
    return [*named, *labels(tuple(records().values()), held_out())]


def pick(name: str | None, own: Own | None = None) -> tuple[RefinerRecord, Fields, str]:
    """Return a record, what the form shows of it, and a line about it. LabError if unknown."""
    record = {**records(), **(own or {})}.get(name or "")
    if record is None:
        raise LabError(say("refine.unknown_record", name=name))
    key = "refine.picked.held_out" if record.id in held_out() else "refine.picked"
    line = say(key, name=record.id)
    if not record.answerable:
        line = f"{line} {say('refine.picked.unanswerable')}"
    return record, fields_of(record), notice(line)


def demo(services: Services) -> str:
    """Return the id of an example record, drawn from those that were not made for testing."""
    return services.random.choice(
        [record.id for record in example_records()[1] if record.answerable]
    )


def answer(
    services: Services,
    visitor: Visitor | None,
    typed: tuple[Fields, RefinerRecord | None],
    how: tuple[Preset, object, object, object],
) -> Iterator[RefineView]:
    """Yield what to show until every stage has answered and all is graded.

    `how`: name of the reward, seed, length, temperature.
    """
    try:
        asked = _asked(visitor, typed, how)
        for moment in refining(services, asked):
            if moment.is_replaced:
                return
            yield shown(services, moment)
    except LabError as error:
        yield RefineView(notice(str(error), "problem"), empty(say("refine.empty")))


def score(
    services: Services,
    visitor: Visitor | None,
    typed: tuple[Fields, RefinerRecord | None],
    text: str | None,
    preset: Preset,
) -> RefineView:
    """Grade an answer that a person gave and show it."""
    try:
        answer_text = checked_answer(text)
        usual = Refining.sampling
        how = (preset, usual.seed, usual.max_new_tokens, usual.temperature)
        moment = RefineMoment(
            kept=given(services, _asked(visitor, typed, how), answer_text), is_done=True
        )
    except LabError as error:
        return RefineView(notice(str(error), "problem"), empty(say("refine.empty")))
    return shown(services, moment)


def stop(services: Services, visitor: Visitor | None) -> None:
    """End what this page is waiting for; what was written is graded and shown."""
    if visitor is not None:
        engine_of(services).stop(owner(visitor))


def shown(services: Services, moment: RefineMoment) -> RefineView:
    """Return the view of one moment; a complete one is kept first."""
    is_busy = not moment.is_done
    if moment.kept is not None:
        return _finished(services, moment.kept)
    if not moment.drafts:
        line = waiting_line(moment.waiting) if moment.waiting else moment.line
        return RefineView(notice(line), empty(say("refine.empty")), is_busy=is_busy)
    line = moment.line or say("refine.writing")
    grid = cards([card_of(draft) for draft in moment.drafts])
    return RefineView(notice(line), grid, is_busy=is_busy)


def checked_answer(text: str | None) -> str:
    """Return a pasted answer without characters that no file can hold; LabError if it is none."""
    found = (text or "").encode("utf-8", "replace").decode().replace("\0", "\ufffd").strip()
    if not found:
        raise LabError(say("refine.no_answer"))
    if len(found) > LONGEST_PASTED:
        raise LabError(say("refine.answer_long", length=len(found), limit=LONGEST_PASTED))
    return found


def _finished(services: Services, kept: KeptRefinement) -> RefineView:
    line = notice(say("refine.done", answers=counted(len(kept.answers), "answer")), "good")
    try:
        services.store.workbench.add(kept)
    except LabError as error:
        line = notice(say("refine.not_kept", problem=error), "problem")
    return RefineView(line, refined(kept), kept.id)


def _asked(
    visitor: Visitor | None,
    typed: tuple[Fields, RefinerRecord | None],
    how: tuple[Preset, object, object, object],
) -> Refining:
    preset, *numbers = how
    sampling: Sampling = checked_sampling(*numbers)
    return Refining(
        visitor=visitor or new_visitor(),
        record=record_of(*typed),
        reward=RewardConfig.model_validate({"preset": preset}),
        sampling=sampling,
    )
