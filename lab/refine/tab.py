"""Refine tab: a record in, every stage's answer graded claim by claim, and what a person makes of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
from gradio.utils import get_upload_folder

from evals.errors import LabError
from evals.schema.refiner import RefinerRecord, RowForm
from lab.refine.session import (
    USUAL,
    Fields,
    Own,
    Preset,
    answer,
    choices,
    correct,
    demo,
    earlier,
    make_file,
    pick,
    rate,
    read_own,
    score,
    show_earlier,
    to_correct,
    undo,
)
from lab.refine.view import CLICKS, refined
from lab.services import Services
from lab.session import View, stop
from lab.ui.components import ANSWERING, QUIET, Sampled, heading, lead, notice, sampling_fields
from lab.ui.text import say
from lab.visitors import Door, Visitor, meet


@dataclass(frozen=True)
class Composer:
    """A record as it is typed or picked; `picked` is the record that fills the fields."""

    picked: gr.State
    fields: tuple[gr.Textbox, gr.Textbox, gr.Textbox, gr.Textbox, gr.Checkbox]
    demo: gr.Button
    examples: gr.Accordion
    record: gr.Dropdown
    file: gr.UploadButton
    own: gr.State
    preset: gr.Radio
    settings: Sampled
    start: gr.Button
    stop: gr.Button
    pasted: gr.Textbox
    score: gr.Button


@dataclass(frozen=True)
class Board:
    """What is shown: a line, the answers; `kept` is the id of what was stored."""

    line: gr.HTML
    answers: gr.HTML
    kept: gr.State
    undo: gr.Button

    @property
    def shown(self) -> list[gr.HTML | gr.State]:
        """Line, answers and the id of what was stored: what most events set."""
        return [self.line, self.answers, self.kept]


@dataclass(frozen=True)
class Editor:
    """The words of one answer; `editing` is its id, None while none is being corrected."""

    editing: gr.State
    title: gr.HTML
    text: gr.Textbox
    save: gr.Button
    cancel: gr.Button


@dataclass(frozen=True)
class Shelf:
    """Earlier answers, and all of them as rows for training."""

    mine: gr.Accordion
    earlier: gr.Dropdown
    form: gr.Radio
    make: gr.Button
    made: gr.HTML
    download: gr.DownloadButton


def lay_out() -> tuple[Composer, Board, Editor, Shelf]:
    """Lay the widgets out inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("refine"))
    with gr.Row(elem_classes="actions"):
        demo = gr.Button(say("refine.demo"), size="sm", elem_id="refine-demo")
        file = gr.UploadButton(say("refine.own"), file_types=[".jsonl"], size="sm", elem_id="refine-own")
    with gr.Accordion(say("refine.examples"), open=False, elem_id="refine-examples") as examples:
        record = gr.Dropdown(
            label=say("refine.examples.pick"), info=say("refine.examples.info"), choices=[], elem_id="refine-record"
        )
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=5, min_width=300):
            question, reasoning = _asked()
            pasted = gr.Textbox(
                label=say("refine.pasted"),
                placeholder=say("refine.pasted.placeholder"),
                lines=3,
                max_lines=8,
                elem_id="refine-pasted",
            )
        with gr.Column(scale=6, min_width=300):
            evidence, answerable = _evidence()
            rubric, preset, settings = _details()
    with gr.Row(elem_classes="actions"):
        start = gr.Button(say("refine.start"), variant="primary", elem_id="refine-start")
        score = gr.Button(say("refine.score"), elem_id="refine-score")
        stop = gr.Button(say("refine.stop"), visible=False, elem_id="refine-stop")
        gr.HTML(f'<p class="keys-hint">{say("refine.keys")}</p>', elem_id="refine-keys")
    fields = (question, reasoning, evidence, rubric, answerable)
    composer = Composer(
        picked=gr.State(None),
        fields=fields,
        demo=demo,
        examples=examples,
        record=record,
        file=file,
        own=gr.State({}),
        preset=preset,
        settings=settings,
        start=start,
        stop=stop,
        pasted=pasted,
        score=score,
    )
    line = gr.HTML(elem_id="refine-notice")
    answers = gr.HTML(refined(None), js_on_load=CLICKS, elem_id="refine-answers")
    undo = gr.Button(say("refine.undo"), size="sm", elem_id="refine-undo")
    board = Board(line, answers, gr.State(None), undo)
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=6, min_width=300):
            editor = _editor()
        with gr.Column(scale=5, min_width=300):
            shelf = _shelf()
    return composer, board, editor, shelf


def _editor() -> Editor:
    with gr.Column(elem_classes="assay-panel", elem_id="refine-editor"):
        title = gr.HTML(heading(say("refine.editor.none")))
        text = gr.Textbox(
            label=say("refine.editor.text"),
            info=say("refine.editor.info"),
            lines=5,
            max_lines=12,
            elem_id="refine-edit-text",
        )
        with gr.Row(elem_classes="actions"):
            save = gr.Button(say("refine.editor.save"), size="sm", elem_id="refine-edit-save")
            cancel = gr.Button(say("refine.editor.cancel"), size="sm", elem_id="refine-edit-cancel")
    return Editor(gr.State(None), title, text, save, cancel)


def _shelf() -> Shelf:
    with gr.Column(elem_classes="assay-panel", elem_id="refine-export"):
        gr.HTML(heading(say("refine.export")))
        forms = [(say(f"refine.export.{form}"), form) for form in ("sft", "dpo")]
        form = gr.Radio(forms, value="sft", label=say("refine.export.format"))
        make = gr.Button(say("refine.export.make"), size="sm", elem_id="refine-export-make")
        made = gr.HTML(elem_id="refine-export-message")
        download = gr.DownloadButton(say("refine.export.download"), visible=False, elem_id="refine-download")
    with gr.Accordion(say("refine.mine"), open=False, elem_id="refine-mine") as mine:
        earlier = gr.Dropdown(label=say("refine.mine.pick"), choices=[], elem_id="refine-earlier")
    return Shelf(mine, earlier, form, make, made, download)


def _asked() -> tuple[gr.Textbox, gr.Textbox]:
    question = gr.Textbox(
        label=say("refine.question"),
        placeholder=say("refine.question.placeholder"),
        lines=2,
        max_lines=5,
        elem_id="refine-question",
    )
    reasoning = gr.Textbox(label=say("refine.reasoning"), lines=2, max_lines=5, elem_id="refine-reasoning")
    return question, reasoning


def _evidence() -> tuple[gr.Textbox, gr.Checkbox]:
    evidence = gr.Textbox(
        label=say("refine.tool_output"),
        placeholder=say("refine.tool_output.placeholder"),
        lines=8,
        max_lines=12,
        elem_id="refine-evidence",
    )
    return evidence, gr.Checkbox(True, label=say("refine.answerable"), elem_id="refine-answerable")


def _details() -> tuple[gr.Textbox, gr.Radio, Sampled]:
    usual = USUAL
    with gr.Accordion(say("refine.details"), open=False, elem_id="refine-details"):
        rubric = gr.Textbox(
            label=say("refine.rubric.field"),
            placeholder=say("refine.rubric.placeholder"),
            info=say("refine.rubric.info"),
            lines=4,
            max_lines=10,
            elem_id="refine-rubric",
        )
        presets = [(say(f"refine.preset.{name}"), name) for name in ("assay", "published")]
        preset = gr.Radio(presets, value="assay", label=say("refine.preset"))
        settings = sampling_fields(usual.seed, usual.max_new_tokens, usual.temperature)
    return rubric, preset, settings


def refine_marks_build(services: Services, door: Door, board: Board, editor: Editor) -> None:
    """Wire the buttons of each answer and the editor."""
    here = [door.known, board.kept]
    fields = [editor.editing, editor.title, editor.text]

    def on_card(visitor: Visitor | None, kept: str | None, event: gr.EventData) -> tuple[object, ...]:
        asked = event._data if isinstance(event._data, dict) else {}
        action, answer_id = str(asked.get("do")), str(asked.get("id"))
        if action != "correct":
            view = rate(services, visitor, kept, answer_id, action)
            return (*_refine_marks_painted(view), *(gr.skip() for _ in fields))
        try:
            name, text = to_correct(services, visitor, kept, answer_id)
        except LabError as error:
            line = notice(str(error), "problem")
            return (line, gr.skip(), gr.skip(), *(gr.skip() for _ in fields))
        title = heading(say("refine.editor", name=name))
        return ("", gr.skip(), gr.skip(), answer_id, title, text)

    def on_save(visitor: Visitor | None, kept: str | None, editing: str | None, text: str) -> tuple[object, ...]:
        if editing is None:
            line = notice(say("refine.editor.closed"), "problem")
            return (line, gr.skip(), gr.skip(), *(gr.skip() for _ in fields))
        view = correct(services, visitor, kept, editing, text)
        is_kept = "problem" not in view.notice
        after = _closed() if is_kept else tuple(gr.skip() for _ in fields)
        return (*_refine_marks_painted(view), *after)

    def on_undo(visitor: Visitor | None, kept: str | None) -> tuple[object, ...]:
        return _refine_marks_painted(undo(services, visitor, kept))

    outputs = [*board.shown, *fields]
    board.answers.click(on_card, here, outputs, api_name="mark_answer", **QUIET)
    typed = [*here, editor.editing, editor.text]
    editor.save.click(on_save, typed, outputs, api_name="correct_answer", show_progress="hidden")
    editor.cancel.click(_closed, None, fields, api_name="cancel_correction", **QUIET)
    board.undo.click(on_undo, here, board.shown, api_name="undo_mark", **QUIET)


def build_shelf(services: Services, door: Door, composer: Composer, board: Board, shelf: Shelf) -> None:
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
            return (*_refine_marks_painted(view), *(gr.skip() for _ in filled))
        form = (fields.question, fields.reasoning, fields.tool_output, fields.rubric)
        return (*_refine_marks_painted(view), record, *form, fields.answerable)

    def on_make(visitor: Visitor | None, form: RowForm) -> tuple[str, gr.DownloadButton]:
        # Gradio serves files from its own folder only.
        line, file = make_file(services, visitor, form, Path(get_upload_folder()) / "refined")
        return line, gr.DownloadButton(value=file, visible=file is not None)

    shelf.mine.expand(on_open, door.known, shelf.earlier, api_name="my_refinements", **QUIET)
    shelf.earlier.input(
        on_pick, [door.known, shelf.earlier], [*board.shown, *filled], api_name="my_refinement", **QUIET
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


def _refine_marks_painted(view: View) -> tuple[str, str, str | None]:
    return view.notice, view.cards, view.kept


Painted = tuple[str, str, str | None, gr.Button, gr.Button, gr.Button]


def build(services: Services, door: Door) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    composer, board, editor, shelf = lay_out()
    _picking(services, composer, board)
    _answering(services, door, composer, board)
    refine_marks_build(services, door, board, editor)
    build_shelf(services, door, composer, board, shelf)


def _picking(services: Services, composer: Composer, board: Board) -> None:
    filled = [composer.picked, *composer.fields, board.line]

    def on_pick(name: str | None, own: Own) -> tuple[object, ...]:
        try:
            record, fields, line = pick(name, own)
        except LabError as error:
            return (*(gr.skip() for _ in filled[:-1]), notice(str(error), "problem"))
        return (record, fields.question, fields.reasoning, fields.tool_output, fields.rubric, fields.answerable, line)

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
    outputs = [*(board.line, board.answers, board.kept), *(composer.start, composer.score, composer.stop)]
    asked = [door.known, composer.picked, *composer.fields]

    def on_start(visitor: Visitor | None, picked: RefinerRecord | None, *typed: object) -> Iterator[Painted]:
        fields, (preset, *numbers) = _fields(typed[:5]), typed[5:]
        how = (_preset(preset), numbers[0], numbers[1], numbers[2])
        for view in answer(services, visitor, (fields, picked), how):
            yield _painted(view)

    def on_score(visitor: Visitor | None, picked: RefinerRecord | None, *typed: object) -> Painted:
        fields, (preset, text) = _fields(typed[:5]), typed[5:]
        view = score(services, visitor, (fields, picked), str(text or ""), _preset(preset))
        return _painted(view)

    def on_stop(visitor: Visitor | None) -> None:
        stop(services, visitor, "refine")

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


def _painted(view: View) -> Painted:
    return (
        view.notice,
        view.cards,
        view.kept,
        gr.Button(interactive=not view.is_busy),
        gr.Button(interactive=not view.is_busy),
        gr.Button(visible=view.is_busy),
    )
