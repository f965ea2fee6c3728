"""Rating, correcting, earlier answers and the file: the lower half of the Refine tab."""

from pathlib import Path

import gradio as gr
from gradio.utils import get_upload_folder

from evals.errors import LabError
from evals.schema.refinements import RowForm
from lab.events import QUIET
from lab.refine_desk import RefineView
from lab.refine_marking import correct, earlier, make_file, rate, show_earlier, to_correct, undo
from lab.services import Services
from lab.tabs.refine_form import Board, Composer, Editor, Shelf
from lab.views import heading, notice
from lab.visitors import Door, Visitor
from lab.wording import say


def build(services: Services, door: Door, board: Board, editor: Editor) -> None:
    """Wire the buttons of each answer and the editor."""
    here = [door.known, board.kept]
    fields = [editor.editing, editor.title, editor.text]

    def on_card(
        visitor: Visitor | None, kept: str | None, event: gr.EventData
    ) -> tuple[object, ...]:
        asked = event._data if isinstance(event._data, dict) else {}
        action, answer_id = str(asked.get("do")), str(asked.get("id"))
        if action != "correct":
            view = rate(services, visitor, kept, answer_id, action)
            return (*_painted(view), *(gr.skip() for _ in fields))
        try:
            name, text = to_correct(services, visitor, kept, answer_id)
        except LabError as error:
            line = notice(str(error), "problem")
            return (line, gr.skip(), gr.skip(), *(gr.skip() for _ in fields))
        title = heading(say("refine.editor", name=name))
        return ("", gr.skip(), gr.skip(), answer_id, title, text)

    def on_save(
        visitor: Visitor | None, kept: str | None, editing: str | None, text: str
    ) -> tuple[object, ...]:
        if editing is None:
            line = notice(say("refine.editor.closed"), "problem")
            return (line, gr.skip(), gr.skip(), *(gr.skip() for _ in fields))
        view = correct(services, visitor, kept, editing, text)
        is_kept = "problem" not in view.notice
        after = _closed() if is_kept else tuple(gr.skip() for _ in fields)
        return (*_painted(view), *after)

    def on_undo(visitor: Visitor | None, kept: str | None) -> tuple[object, ...]:
        return _painted(undo(services, visitor, kept))

    outputs = [*board.shown, *fields]
    board.answers.click(on_card, here, outputs, api_name="mark_answer", **QUIET)
    typed = [*here, editor.editing, editor.text]
    editor.save.click(on_save, typed, outputs, api_name="correct_answer", show_progress="hidden")
    editor.cancel.click(_closed, None, fields, api_name="cancel_correction", **QUIET)
    board.undo.click(on_undo, here, board.shown, api_name="undo_mark", **QUIET)


def build_shelf(
    services: Services, door: Door, composer: Composer, board: Board, shelf: Shelf
) -> None:
    """Wire earlier answers and the export."""
    filled = [composer.picked, *composer.fields]

    def on_open(visitor: Visitor | None) -> gr.Dropdown:
        try:
            mine = earlier(services, visitor)
        except LabError as error:
            return gr.Dropdown(choices=[], value=None, info=str(error))
        return gr.Dropdown(choices=mine, value=None, info=None if mine else say("refine.mine.none"))

    def on_pick(visitor: Visitor | None, chosen: str | None) -> tuple[object, ...]:
        record, fields, view = show_earlier(services, visitor, chosen)
        if record is None or fields is None:
            return (*_painted(view), *(gr.skip() for _ in filled))
        form = (fields.question, fields.reasoning, fields.tool_output, fields.rubric)
        return (*_painted(view), record, *form, fields.answerable)

    def on_make(visitor: Visitor | None, form: RowForm) -> tuple[str, gr.DownloadButton]:
        # Gradio serves files from its own folder only.
        line, file = make_file(services, visitor, form, Path(get_upload_folder()) / "refined")
        return line, gr.DownloadButton(value=file, visible=file is not None)

    shelf.mine.expand(on_open, door.known, shelf.earlier, api_name="my_refinements", **QUIET)
    shelf.earlier.input(
        on_pick,
        [door.known, shelf.earlier],
        [*board.shown, *filled],
        api_name="my_refinement",
        **QUIET,
    )
    shelf.make.click(
        on_make,
        [door.known, shelf.form],
        [shelf.made, shelf.download],
        api_name="export_refinements",
        show_progress="hidden",
    )


def _closed() -> tuple[object, ...]:
    return (None, heading(say("refine.editor.none")), "")


def _painted(view: RefineView) -> tuple[str, str, str | None]:
    return view.notice, view.answers, view.kept
