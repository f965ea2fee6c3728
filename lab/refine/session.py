"""What the Refine tab does with records and graded answers: plain functions that give what is to be shown."""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from evals.errors import LabError
from evals.refine.bank import refiner_bank
from evals.refine.records import CheckedRecord
from evals.refine.task import messages
from evals.schema.questions import Sampling
from evals.schema.refiner import (
    AnswerMark,
    BehaviourItem,
    KeptRefinement,
    Origin,
    RefinedAnswer,
    RefinerRecord,
    RewardConfig,
    ScoredAnswer,
)
from lab.refine.view import refined, title_of
from lab.services import Services, find_judge
from lab.session import (
    Cards,
    Moment,
    Own,
    QuestionRequest,
    View,
    answered,
    checked_sampling,
    new_id,
    origin,
    plain_text,
)
from lab.ui.components import cards, empty, notice, waiting_line
from lab.ui.text import counted, say
from lab.visitors import Visitor, new_visitor

if TYPE_CHECKING:
    from lab.store.documents import Standing

    Refinement = Standing[KeptRefinement, AnswerMark]

REWARD = RewardConfig()
USUAL = Sampling(max_new_tokens=256)
LINE = re.compile(r"([+\-−–])\s*(?:\[([0-9.]+)\]\s*)?([^:\[\s][^:]*):\s*(.+)")
JUDGE_SECONDS = 120.0
"""How long a visitor waits for the verdicts on all answers to a question."""
LONGEST = 60_000
"""Characters of all fields together; a model's own limit is lower and told in tokens."""


class Fields(NamedTuple):
    """What the form holds, as it was typed."""

    question: str = ""
    reasoning: str = ""
    tool_output: str = ""
    rubric: str = ""
    answerable: bool = True


def fields_of(record: RefinerRecord) -> Fields:
    """Return a record as the form shows it."""
    lines = []
    for sign, items in (("+", record.positive_rubrics), ("-", record.negative_rubrics)):
        for item in items:
            weight = "" if item.weight == 1.0 else f"[{item.weight:g}] "
            lines.append(f"{sign} {weight}{' '.join(item.title.split())}: {' '.join(item.description.split())}")
    return Fields(record.asked, record.agent_reasoning, record.tool_output, "\n".join(lines), record.answerable)


def record_of(fields: Fields, picked: RefinerRecord | None) -> RefinerRecord:
    """Return the record that was picked, or a new one, named after what it says, where a field says something else."""
    if picked is not None and fields == fields_of(picked):
        return picked
    if not fields.question.strip():
        raise LabError(say("refine.no_question"))
    if not fields.tool_output.strip() and fields.answerable:
        raise LabError(say("refine.no_evidence"))
    length = sum(map(len, fields[:4]))
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
        problem = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise LabError(say("refine.bad_record", problem=problem)) from None
    return RefinerRecord.model_validate(checked.model_dump())


def rubric_of(text: str) -> tuple[tuple[BehaviourItem, ...], tuple[BehaviourItem, ...]]:
    r"""Return the wanted and the unwanted behaviours of a typed rubric; LabError names the line.

    >>> wanted, unwanted = rubric_of('+ Way: Says "down".\n- Hedge: Says "maybe".')
    >>> wanted[0].title, unwanted[0].description
    ('Way', 'Says "maybe".')
    """
    wanted: list[BehaviourItem] = []
    unwanted: list[BehaviourItem] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        found = LINE.fullmatch(line.strip())
        try:
            weight = float(found[2] or 1) if found else 0.0
        except ValueError:
            weight = 0.0
        if found is None or weight <= 0:
            raise LabError(say("refine.bad_rubric", number=number, line=line.strip()[:80]))
        item = BehaviourItem(title=found[3].strip(), description=found[4].strip(), weight=weight)
        (wanted if found[1] == "+" else unwanted).append(item)
    return tuple(wanted), tuple(unwanted)


LONGEST_PASTED = 20_000


def records() -> dict[str, RefinerRecord]:
    """Return the example records by id, those kept for testing first."""
    return {record.id: record for record in (*refiner_bank().test, *refiner_bank().train)}


def held_out() -> frozenset[str]:
    return frozenset(record.id for record in refiner_bank().test)


def choices() -> list[tuple[str, str]]:
    """Return a line and the name of every record."""
    tested = held_out()

    def line(record: RefinerRecord) -> str:
        known = {"unanswerable": not record.answerable, "held_out": record.id in tested}
        marks = (say(f"refine.record.{mark}") for mark, holds in known.items() if holds)
        return " · ".join([" ".join(record.asked.split()), *marks])

    return [(line(record), name) for name, record in records().items()]


def pick(name: str | None) -> tuple[RefinerRecord, str]:
    """Return a record and a line about it. LabError if unknown."""
    record = records().get(name or "")
    if record is None:
        raise LabError(say("refine.unknown_record", name=name))
    line = say("refine.picked.held_out" if record.id in held_out() else "refine.picked", name=record.id)
    return record, notice(line if record.answerable else f"{line} {say('refine.picked.unanswerable')}")


def demo(services: Services) -> str:
    """Return the id of an example record, drawn from those that were not made for testing."""
    return services.random.choice([record.id for record in refiner_bank().train if record.answerable])


def answer(
    services: Services, visitor: Visitor | None, record: RefinerRecord, settings: tuple[object, object, object]
) -> Iterator[View]:
    """Yield what to show until all is graded and kept. `settings`: seed, length, temperature. LabError if it cannot be."""
    asker, sampling = visitor or new_visitor(), checked_sampling(*settings)

    def finish(chain: Any, written: Cards) -> Moment[Cards, KeptRefinement]:
        scored = graded(services, record, REWARD, [card.text for card in written])
        answers = [
            RefinedAnswer(
                id=new_id(),
                name=card.stage,
                finish_reason=card.finish_reason or "cancelled",
                scored=each,
                origin=Origin.model_validate(origin(chain, card.stage, sampling)),
            )
            for card, each in zip(written, scored, strict=True)
        ]
        return keep(services, asker, record, answers)

    turns = messages(record)
    question = QuestionRequest(asker, record.asked, sampling, "refine", chain=services.refiner, messages=turns)
    for moment in answered(services, question, finish):
        if moment.is_replaced:
            return
        yield shown(moment)


def score(services: Services, visitor: Visitor | None, record: RefinerRecord, text: str | None) -> View:
    """Grade an answer that a person gave and show it."""
    (scored,) = graded(services, record, REWARD, [checked_answer(text)])
    given = RefinedAnswer(id=new_id(), name="yours", finish_reason="given", scored=scored)
    return shown(keep(services, visitor or new_visitor(), record, [given]))


def graded(services: Services, record: RefinerRecord, reward: RewardConfig, texts: Sequence[str]) -> list[ScoredAnswer]:
    """Return answers to one record with everything that was made of them; LabError if no judge can be asked.

    What the judge fails at is missing, never 0.
    """
    from evals.refine.task import Refine
    from training.judge.judge import judged

    judge = find_judge(services.settings.judge)
    task = Refine(judge=lambda asked: judged(judge, asked, JUDGE_SECONDS), label=judge.label, reward=reward)
    return [ScoredAnswer.model_validate(grade.detail) for grade in task.grade([record] * len(texts), texts)]


def keep(
    services: Services, visitor: Visitor, record: RefinerRecord, answers: Sequence[RefinedAnswer]
) -> Moment[Cards, KeptRefinement]:
    """Store graded answers and return the last moment; they are shown even where they cannot be stored."""
    known = {"id": new_id(), "made_at": services.now(), "session": services.store.hash_rater(visitor.rater)}
    kept, problem = KeptRefinement(record=record, reward=REWARD, answers=tuple(answers), **known), None
    try:
        services.store.documents("refine").add(kept)
    except LabError as error:
        problem = say("refine.not_kept", problem=error)
    return Moment(kept=kept, problem=problem, is_done=True)


def shown(moment: Moment[Cards, KeptRefinement]) -> View:
    """Return the view of one moment."""
    kept = moment.kept
    if kept is not None:
        done = notice(say("refine.done", answers=counted(len(kept.answers), "answer")), "good")
        return View(notice(moment.problem or "", "problem") or done, refined(kept), kept.id)
    if not moment.written:
        line = say("refine.stopped_early") if moment.is_done else ""
        line = waiting_line(moment.waiting) if moment.waiting else line
        return View(notice(line), empty(say("refine.empty")), is_busy=not moment.is_done)
    line = say("refine.judging" if moment.is_grading else "refine.writing")
    return View(notice(line), cards(moment.written), is_busy=True)


def checked_answer(text: str | None) -> str:
    """Return a pasted answer without characters that no file can hold; LabError if it is none."""
    found = plain_text(text)
    if not found:
        raise LabError(say("refine.no_answer"))
    if len(found) > LONGEST_PASTED:
        raise LabError(say("refine.answer_long", length=len(found), limit=LONGEST_PASTED))
    return found


# ---- what a person makes of graded answers -------------------------------------------------------


def view(standing: "Refinement", line: str) -> View:
    """Return graded answers as they stand, under a line."""
    return View(line, refined(standing.document, standing.parts), standing.document.id)


def label(kept: KeptRefinement) -> str:
    """Return a line to find graded answers by."""
    return f"{kept.record.asked[:80]} ({counted(len(kept.answers), 'answer')})"


def rate(services: Services, visitor: Visitor | None, name: str | None, answer_id: str, rating: str) -> View:
    """Rate an answer good or bad and show all; the same rating again takes it away."""

    def change(_: KeptRefinement, __: RefinedAnswer, before: AnswerMark) -> AnswerMark:
        if rating not in ("good", "bad"):
            raise LabError(say("refine.gone"))
        return before.model_copy(update={"rating": None if before.rating == rating else rating})

    return _changed(services, visitor, name, answer_id, say("refine.action.rate"), change)


def correct(services: Services, visitor: Visitor | None, name: str | None, answer_id: str, text: str | None) -> View:
    """Keep what an answer should have been, graded as the answer was, and show all."""

    def change(kept: KeptRefinement, answer: RefinedAnswer, before: AnswerMark) -> AnswerMark:
        typed = checked_answer(text)
        if typed == answer.scored.completion.strip():
            raise LabError(say("refine.correction.same"))
        scored = graded(services, kept.record, kept.reward, [typed])[0]
        return before.model_copy(update={"correction": scored})

    return _changed(services, visitor, name, answer_id, say("refine.action.correct"), change)


def to_correct(services: Services, visitor: Visitor | None, name: str | None, answer_id: str) -> tuple[str, str]:
    """Return whose answer is corrected and its words as they stand; LabError if it is not there."""
    answer, mark = _marked(Own(services, visitor, "refine").get(name), answer_id)
    return title_of(answer), (mark.correction or answer.scored).completion


def _changed(
    services: Services,
    visitor: Visitor | None,
    name: str | None,
    answer_id: str,
    action: str,
    change: Callable[[KeptRefinement, RefinedAnswer, AnswerMark], AnswerMark],
) -> View:
    def marks(standing: "Refinement") -> list[AnswerMark]:
        answer, before = _marked(standing, answer_id)
        others = [mark for mark in standing.parts if mark.answer_id != answer_id]
        return [*others, change(standing.document, answer, before)]

    standing = Own(services, visitor, "refine").change(name, action, marks)
    title = title_of(_marked(standing, answer_id)[0])
    return view(standing, notice(say("refine.marked", action=action, name=title), "good"))


def _marked(standing: "Refinement", answer_id: str) -> tuple[RefinedAnswer, AnswerMark]:
    """Return an answer and what was made of it so far; LabError if it is not there."""
    answer = standing.document.answer(answer_id)
    if answer is None:
        raise LabError(say("refine.gone"))
    found = (mark for mark in standing.parts if mark.answer_id == answer_id)
    return answer, next(found, AnswerMark(answer_id=answer_id))
