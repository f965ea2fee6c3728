"""Refine tab: a record in, every stage's answer graded claim by claim, and what a person makes of it."""

from collections.abc import Iterator

import gradio as gr

from evals.errors import LabError
from evals.schema.refining import RefinerRecord
from lab.events import ANSWERING, QUIET
from lab.refine_desk import RefineView, answer, choices, demo, pick, score, stop
from lab.refine_fields import Fields
from lab.refine_own import Own, read_own
from lab.refining import Preset
from lab.services import Services
from lab.tabs import refine_marks
from lab.tabs.refine_form import Board, Composer, lay_out
from lab.views import notice
from lab.visitors import Door, Visitor, meet

Painted = tuple[str, str, str | None, gr.Button, gr.Button, gr.Button]


def build(services: Services, door: Door) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    composer, board, editor, shelf = lay_out()
    _picking(services, composer, board)
    _answering(services, door, composer, board)
    refine_marks.build(services, door, board, editor)
    refine_marks.build_shelf(services, door, composer, board, shelf)


def _picking(services: Services, composer: Composer, board: Board) -> None:
    filled = [composer.picked, *composer.fields, board.line]

    def on_pick(name: str | None, own: Own) -> tuple[object, ...]:
        try:
            record, fields, line = pick(name, own)
        except LabError as error:
            return (*(gr.skip() for _ in filled[:-1]), notice(str(error), "problem"))
        return (
            record,
            fields.question,
            fields.reasoning,
            fields.tool_output,
            fields.rubric,
            fields.answerable,
            line,
        )

    def on_demo() -> tuple[object, ...]:
        return on_pick(demo(services), {})

    def on_open(own: Own) -> gr.Dropdown:
        return gr.Dropdown(choices=choices(own), value=None)

    def on_file(file: str, own: Own) -> tuple[object, ...]:
        try:
            read, line = read_own(file)
        except LabError as error:
            left = (gr.skip() for _ in filled[:-1])
            return (own, gr.skip(), *left, notice(str(error), "problem"))
        first = next(iter(read))
        *form, about = on_pick(first, read)
        return (read, gr.Dropdown(choices=choices(read), value=first), *form, line + str(about))

    composer.demo.click(on_demo, None, filled, api_name="example_record", **QUIET)
    composer.examples.expand(on_open, composer.own, composer.record, api_name="records", **QUIET)
    chosen = [composer.record, composer.own]
    composer.record.input(on_pick, chosen, filled, api_name="pick_record", **QUIET)
    composer.file.upload(
        on_file,
        [composer.file, composer.own],
        [composer.own, composer.record, *filled],
        api_name="own_records",
        **QUIET,
    )


def _answering(services: Services, door: Door, composer: Composer, board: Board) -> None:
    outputs = [
        *(board.line, board.answers, board.kept),
        *(composer.start, composer.score, composer.stop),
    ]
    asked = [door.known, composer.picked, *composer.fields]

    def on_start(
        visitor: Visitor | None, picked: RefinerRecord | None, *typed: object
    ) -> Iterator[Painted]:
        fields, (preset, *numbers) = _fields(typed[:5]), typed[5:]
        how = (_preset(preset), numbers[0], numbers[1], numbers[2])
        for view in answer(services, visitor, (fields, picked), how):
            yield _painted(view)

    def on_score(visitor: Visitor | None, picked: RefinerRecord | None, *typed: object) -> Painted:
        fields, (preset, text) = _fields(typed[:5]), typed[5:]
        view = score(services, visitor, (fields, picked), str(text or ""), _preset(preset))
        return _painted(view)

    def on_stop(visitor: Visitor | None) -> None:
        stop(services, visitor)

    known = [door.known, door.remembered]
    met = composer.start.click(meet, door.remembered, known, api_visibility="private", **QUIET)
    how = [composer.preset, *composer.settings]
    met.then(on_start, [*asked, *how], outputs, api_name="refine", **ANSWERING)
    met = composer.score.click(meet, door.remembered, known, api_visibility="private", **QUIET)
    graded = [*asked, composer.preset, composer.pasted]
    met.then(on_score, graded, outputs, api_name="grade_answer", **ANSWERING)
    composer.stop.click(on_stop, door.known, None, api_name="stop_refining", **QUIET)


def _fields(typed: tuple[object, ...]) -> Fields:
    question, reasoning, evidence, rubric, answerable = typed
    texts = (str(each or "") for each in (question, reasoning, evidence, rubric))
    return Fields(*texts, answerable=bool(answerable))


def _preset(value: object) -> Preset:
    return "published" if value == "published" else "assay"


def _painted(view: RefineView) -> Painted:
    return (
        view.notice,
        view.answers,
        view.kept,
        gr.Button(interactive=not view.is_busy),
        gr.Button(interactive=not view.is_busy),
        gr.Button(visible=view.is_busy),
    )
