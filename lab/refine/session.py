"""What a person makes of graded answers: ratings, corrections, taking back, earlier ones, the file."""

import hashlib
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from evals.errors import LabError
from evals.model import Sampling
from evals.refine.prompt import messages
from evals.refine.records import CheckedRecord, read_records
from evals.refine.score import Prepared, prepare
from evals.schema.refiner import (
    KeptRefinement,
    Mark,
    Origin,
    RefinedAnswer,
    RefinerRecord,
    RewardConfig,
    RowForm,
    RubricItem,
    ScoredAnswer,
    Worked,
)
from lab.ask.session import Draft, checked_sampling, drafting
from lab.commands.tables import counted
from lab.engine import Engine, Request, Waiting
from lab.refine.export import export as rows_of
from lab.refine.export import told, write
from lab.refine.view import refined, title_of
from lab.services import Services, example_records, grade
from lab.ui.components import card_of, cards, empty, notice, waiting_line
from lab.ui.text import say
from lab.visitors import Visitor, new_visitor

Preset = Literal["assay", "published"]


@dataclass(frozen=True)
class Refining:
    """A record that was checked, and how it is to be answered and rewarded."""

    visitor: Visitor
    record: RefinerRecord
    reward: RewardConfig
    sampling: Sampling = Sampling(max_new_tokens=256)


@dataclass(frozen=True)
class RefineMoment:
    """What there is to show. Nothing comes after a moment that `is_done` or `is_replaced`."""

    waiting: Waiting | None = None
    line: str = ""
    drafts: tuple[Draft, ...] = ()
    kept: KeptRefinement | None = None
    is_done: bool = False
    is_replaced: bool = False


def refining(services: Services, asked: Refining) -> Iterator[RefineMoment]:
    """Yield moments until every stage has answered and all answers are graded.

    LabError if the model cannot answer or the judge cannot be asked.
    """
    engine = engine_of(services)
    ticket = engine.ask(
        Request(
            owner=owner(asked.visitor),
            question=asked.record.asked,
            pick=lambda stages: stages,
            sampling=asked.sampling,
            prompt=messages(asked.record),
        )
    )
    now = RefineMoment()
    yield now
    for seen in drafting(engine, ticket, services.now):
        if isinstance(seen, Waiting):
            yield replace(now, waiting=seen)
            continue
        now = replace(now, drafts=seen)
        yield now
    if ticket.replaced.is_set():
        yield replace(now, is_replaced=True)
        return
    if not now.drafts:
        yield replace(now, line=say("refine.stopped_early"), is_done=True)
        return
    yield replace(now, line=say("refine.judging"))
    answers = _graded_drafts(services, asked, now.drafts)
    yield replace(now, kept=kept(services, asked, answers), is_done=True)


def given(services: Services, asked: Refining, text: str) -> KeptRefinement:
    """Return an answer that a person gave to a record, graded. LabError if it cannot be judged."""
    scored = graded(services, asked.record, asked.reward, [text])[0]
    answer = RefinedAnswer(id=uuid.uuid4().hex, name="yours", finish_reason="given", scored=scored)
    return kept(services, asked, [answer])


def graded(services: Services, record: RefinerRecord, reward: RewardConfig, texts: Sequence[str]) -> list[ScoredAnswer]:
    """Return answers to one record with everything that was made of them."""
    prepared: list[Prepared] = [prepare(record, text, reward) for text in texts]
    return grade(services.judge(), prepared)


def engine_of(services: Services) -> Engine:
    """Return who answers: the refiner chain where there is one, else the lab's own chain."""
    return services.refiner or services.engine


def owner(visitor: Visitor) -> str:
    """Return the name under which a page waits in line here."""
    return f"refine {visitor.page}"


def kept(services: Services, asked: Refining, answers: Sequence[RefinedAnswer]) -> KeptRefinement:
    """Return a refinement ready to be stored."""
    return KeptRefinement(
        id=uuid.uuid4().hex,
        made_at=services.now(),
        session=services.store.hash_rater(asked.visitor.rater),
        record=asked.record,
        reward=asked.reward,
        answers=tuple(answers),
    )


def _graded_drafts(services: Services, asked: Refining, drafts: Sequence[Draft]) -> list[RefinedAnswer]:
    chain = engine_of(services).chain
    scored = graded(services, asked.record, asked.reward, [draft.text for draft in drafts])
    return [
        RefinedAnswer(
            id=uuid.uuid4().hex,
            name=draft.stage,
            finish_reason=draft.finish_reason or "cancelled",
            scored=each,
            origin=Origin(
                chain=chain.manifest.name,
                stage_sha256=chain.stage_checksums[draft.stage],
                seed=asked.sampling.seed,
                max_new_tokens=asked.sampling.max_new_tokens,
                temperature=asked.sampling.temperature,
                dtype=chain.dtype,
            ),
        )
        for draft, each in zip(drafts, scored, strict=True)
    ]


Own = Mapping[str, RefinerRecord]
"""Records by the name they have in the list, which no example record has."""
PREFIX = "yours: "
LARGEST_MB, MOST = 10.0, 1_000


def read_own(file: str) -> tuple[dict[str, RefinerRecord], str]:
    """Return the records of an uploaded file, and a line about it.

    LabError names line and field of what is wrong, or what the file is too large for.
    """
    path = Path(file)
    megabytes = path.stat().st_size / 1e6
    if megabytes > LARGEST_MB:
        raise LabError(say("refine.own.large", file=path.name, megabytes=megabytes, limit=LARGEST_MB))
    try:
        found = read_records(path)
    except LabError as error:  # a visitor knows the file by its name, not by where it was put
        raise LabError(str(error).replace(str(path), path.name)) from None
    if len(found) > MOST:
        raise LabError(say("refine.own.many", file=path.name, count=len(found), limit=MOST))
    line = say("refine.own.read", records=counted(len(found), "record"), file=path.name)
    plain = [RefinerRecord.model_validate(record.model_dump()) for record in found]
    return {f"{PREFIX}{record.id}": record for record in plain}, notice(line, "good")


LINE = re.compile(r"([+\-−–])\s*(?:\[([0-9.]+)\]\s*)?([^:\[\s][^:]*):\s*(.+)")
LONGEST = 60_000
"""Characters of all fields together; a model's own limit is lower and told in tokens."""


@dataclass(frozen=True)
class Fields:
    """What the form holds, as it was typed."""

    question: str = ""
    reasoning: str = ""
    tool_output: str = ""
    rubric: str = ""
    answerable: bool = True


def fields_of(record: RefinerRecord) -> Fields:
    """Return a record as the form shows it."""
    lines = [_line("+", item) for item in record.positive_rubrics]
    lines += [_line("-", item) for item in record.negative_rubrics]
    return Fields(
        question=record.asked,
        reasoning=record.agent_reasoning,
        tool_output=record.tool_output,
        rubric="\n".join(lines),
        answerable=record.answerable,
    )


def record_of(fields: Fields, picked: RefinerRecord | None) -> RefinerRecord:
    """Return the record that was picked, or a new one where a field says something else.

    A new record is named after what it says. LabError names the field that is wrong.
    """
    if picked is not None and fields == fields_of(picked):
        return picked
    if not fields.question.strip():
        raise LabError(say("refine.no_question"))
    if not fields.tool_output.strip() and fields.answerable:
        raise LabError(say("refine.no_evidence"))
    length = sum(map(len, (fields.question, fields.reasoning, fields.tool_output, fields.rubric)))
    if length > LONGEST:
        raise LabError(say("refine.long", length=length, limit=LONGEST))
    positive, negative = rubric_of(fields.rubric)
    digest = hashlib.sha256(repr(fields).encode("utf-8", "replace")).hexdigest()[:12]
    try:
        checked = CheckedRecord(
            id=f"typed/{digest}",
            prompt=fields.question.strip(),
            agent_reasoning=fields.reasoning,
            tool_output=fields.tool_output,
            positive_rubrics=positive,
            negative_rubrics=negative,
            answerable=fields.answerable,
            origin="typed in the lab",
        )
    except ValidationError as error:
        first = error.errors()[0]
        problem = str(first["msg"]).removeprefix("Value error, ")
        raise LabError(say("refine.bad_record", problem=problem)) from None
    return RefinerRecord.model_validate(checked.model_dump())


def rubric_of(text: str) -> tuple[tuple[RubricItem, ...], tuple[RubricItem, ...]]:
    r"""Return the wanted and the unwanted behaviours of a typed rubric; LabError names the line.

    >>> wanted, unwanted = rubric_of('+ Way: Says "down".\n- Hedge: Says "maybe".')
    >>> wanted[0].title, unwanted[0].description
    ('Way', 'Says "maybe".')
    """
    wanted: list[RubricItem] = []
    unwanted: list[RubricItem] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        found = LINE.fullmatch(line.strip())
        weight = _weight(found[2]) if found else None
        if found is None or weight is None:
            raise LabError(say("refine.bad_rubric", number=number, line=line.strip()[:80]))
        item = RubricItem(title=found[3].strip(), description=found[4].strip(), weight=weight)
        (wanted if found[1] == "+" else unwanted).append(item)
    return tuple(wanted), tuple(unwanted)


def labels(records: Sequence[RefinerRecord], held_out: frozenset[str]) -> list[tuple[str, str]]:
    """Return a line and the id of each record, for a list to pick from."""
    return [(_label(record, record.id in held_out), record.id) for record in records]


def _label(record: RefinerRecord, is_held_out: bool) -> str:
    parts = [" ".join(record.asked.split())]
    parts += [] if record.answerable else [say("refine.record.unanswerable")]
    parts += [say("refine.record.held_out")] if is_held_out else []
    return " · ".join(parts)


def _line(sign: str, item: RubricItem) -> str:
    weight = "" if item.weight == 1.0 else f"[{item.weight:g}] "
    return f"{sign} {weight}{' '.join(item.title.split())}: {' '.join(item.description.split())}"


def _weight(text: str | None) -> float | None:
    """Return a weight above 0, 1 where none is given; None for what is no number."""
    try:
        weight = 1.0 if text is None else float(text)
    except ValueError:
        return None
    return weight if weight > 0 else None


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
    return services.random.choice([record.id for record in example_records()[1] if record.answerable])


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
        moment = RefineMoment(kept=given(services, _asked(visitor, typed, how), answer_text), is_done=True)
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


Change = Callable[[Worked, RefinedAnswer, Mark], Mark]


def rate(services: Services, visitor: Visitor | None, name: str | None, answer_id: str, rating: str) -> RefineView:
    """Rate an answer good or bad and show all; the same rating again takes it away."""

    def change(_: Worked, __: RefinedAnswer, before: Mark) -> Mark:
        if rating not in ("good", "bad"):
            raise LabError(say("refine.gone"))
        wanted = None if before.rating == rating else rating
        return before.model_copy(update={"rating": wanted})

    return _changed(services, visitor, (name, answer_id), (say("refine.action.rate"), change))


def correct(
    services: Services, visitor: Visitor | None, name: str | None, answer_id: str, text: str | None
) -> RefineView:
    """Keep what an answer should have been, graded as the answer was, and show all."""

    def change(worked: Worked, answer: RefinedAnswer, before: Mark) -> Mark:
        typed = checked_answer(text)
        if typed == answer.scored.completion.strip():
            raise LabError(say("refine.correction.same"))
        scored = graded(services, worked.kept.record, worked.kept.reward, [typed])[0]
        return before.model_copy(update={"correction": scored})

    return _changed(services, visitor, (name, answer_id), (say("refine.action.correct"), change))


def to_correct(services: Services, visitor: Visitor | None, name: str | None, answer_id: str) -> tuple[str, str]:
    """Return whose answer is corrected and its words as they stand; LabError if it is not there."""
    worked = services.store.workbench.worked(name or "", desk_name(services, visitor))
    answer = worked.kept.answer(answer_id)
    if answer is None:
        raise LabError(say("refine.gone"))
    mark = _mark_of(worked, answer_id)
    scored = mark.correction or answer.scored
    return title_of(answer), scored.completion


def undo(services: Services, visitor: Visitor | None, name: str | None) -> RefineView:
    """Take the last rating or correction back and show the rest."""
    try:
        action = services.store.workbench.undo(name or "", desk_name(services, visitor))
    except LabError as error:
        return standing(services, visitor, name, notice(str(error), "problem"))
    return standing(services, visitor, name, notice(say("refine.undone", action=action), "good"))


def earlier(services: Services, visitor: Visitor | None) -> list[tuple[str, str]]:
    """Return a line and the id of each of the visitor's newest refinements."""
    kept = services.store.workbench.newest(desk_name(services, visitor))
    return [
        (
            f"{each.made_at.astimezone(UTC):%Y-%m-%d %H:%M} · {each.record.asked[:80]}"
            f" ({counted(len(each.answers), 'answer')})",
            each.id,
        )
        for each in kept
    ]


def show_earlier(
    services: Services, visitor: Visitor | None, name: str | None
) -> tuple[RefinerRecord | None, Fields | None, RefineView]:
    """Return an earlier refinement's record, what the form shows of it, and its view."""
    try:
        worked = services.store.workbench.worked(name or "", desk_name(services, visitor))
    except LabError as error:
        return None, None, RefineView(notice(str(error), "problem"), refined(None))
    when = worked.kept.made_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    view = standing(services, visitor, name, notice(say("refine.mine.shown", when=when)))
    return worked.kept.record, fields_of(worked.kept.record), view


def make_file(services: Services, visitor: Visitor | None, form: RowForm, folder: Path) -> tuple[str, str | None]:
    """Return a line and a file with the visitor's rows for training, or why there is none."""
    try:
        desk = desk_name(services, visitor)
        rows = rows_of(services.store.workbench.everything(desk), form, held_out())
        file = write(rows, folder / desk / rows.name)
    except LabError as error:
        return notice(str(error), "problem"), None
    line = say("refine.export.made", name=rows.name, rows=counted(rows.n, "row"))
    return notice(f"{line} {told(rows.left_out)}".strip(), "good"), str(file)


def standing(services: Services, visitor: Visitor | None, name: str | None, line: str) -> RefineView:
    """Return a refinement as it stands, under a line."""
    try:
        worked = services.store.workbench.worked(name or "", desk_name(services, visitor))
    except LabError as error:
        return RefineView(line or notice(str(error), "problem"), refined(None))
    return RefineView(line, refined(worked.kept, worked.marks), worked.kept.id)


def desk_name(services: Services, visitor: Visitor | None) -> str:
    """Return the name under which a visitor's refinements are kept; LabError for nobody."""
    if visitor is None:
        raise LabError(say("refine.gone"))
    return services.store.hash_rater(visitor.rater)


def _changed(
    services: Services,
    visitor: Visitor | None,
    which: tuple[str | None, str],
    what: tuple[str, Change],
) -> RefineView:
    (name, answer_id), (action, change) = which, what
    try:
        desk, bench = desk_name(services, visitor), services.store.workbench
        worked = bench.worked(name or "", desk)
        answer = worked.kept.answer(answer_id)
        if answer is None:
            raise LabError(say("refine.gone"))
        before = _mark_of(worked, answer_id)
        after = change(worked, answer, before)
        others = [mark for mark in worked.marks if mark.answer_id != answer_id]
        bench.change(worked.kept.id, desk, action, [*others, after])
    except LabError as error:
        return standing(services, visitor, name, notice(str(error), "problem"))
    line = say("refine.marked", action=action, name=title_of(answer))
    return standing(services, visitor, name, notice(line, "good"))


def _mark_of(worked: Worked, answer_id: str) -> Mark:
    found = (mark for mark in worked.marks if mark.answer_id == answer_id)
    return next(found, Mark(answer_id=answer_id))
