"""What a person makes of graded answers: ratings, corrections, taking back, earlier ones, the file."""

from collections.abc import Callable
from datetime import UTC
from pathlib import Path

from evals.errors import LabError
from evals.schema.refinements import Mark, RefinedAnswer, RowForm, Worked
from evals.schema.refining import RefinerRecord
from lab.console import counted
from lab.refine_desk import RefineView, checked_answer, held_out
from lab.refine_exports import export as rows_of
from lab.refine_exports import told, write
from lab.refine_fields import Fields, fields_of
from lab.refine_views import refined, title_of
from lab.refining import graded
from lab.services import Services
from lab.views import notice
from lab.visitors import Visitor
from lab.wording import say

Change = Callable[[Worked, RefinedAnswer, Mark], Mark]


def rate(
    services: Services, visitor: Visitor | None, name: str | None, answer_id: str, rating: str
) -> RefineView:
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


def to_correct(
    services: Services, visitor: Visitor | None, name: str | None, answer_id: str
) -> tuple[str, str]:
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


def make_file(
    services: Services, visitor: Visitor | None, form: RowForm, folder: Path
) -> tuple[str, str | None]:
    """Return a line and a file with the visitor's rows for training, or why there is none."""
    try:
        desk = desk_name(services, visitor)
        rows = rows_of(services.store.workbench.everything(desk), form, held_out())
        file = write(rows, folder / desk / rows.name)
    except LabError as error:
        return notice(str(error), "problem"), None
    line = say("refine.export.made", name=rows.name, rows=counted(rows.n, "row"))
    return notice(f"{line} {told(rows.left_out)}".strip(), "good"), str(file)


def standing(
    services: Services, visitor: Visitor | None, name: str | None, line: str
) -> RefineView:
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
