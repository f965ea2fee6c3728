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
from lab.refine.view import refined
from lab.services import Services
from lab.session import View, stop
from lab.ui.components import ANSWERING, QUIET, Sampled, heading, lead, notice, sampling_fields
from lab.ui.text import say
from lab.ui.theme import clicks
from lab.visitors import Door, Visitor, meet


@dataclass(frozen=True)
class Composer:
    """A record as it is typed or picked; `picked` is the record that fills the fields."""

    picked: gr.State
    question: gr.Textbox
    reasoning: gr.Textbox
    evidence: gr.Textbox
    rubric: gr.Textbox
    answerable: gr.Checkbox
    preset: gr.Radio
    settings: Sampled
    pasted: gr.Textbox

    @property
    def filled(self) -> list[gr.State | gr.Textbox | gr.Checkbox]:
        """The record and what the form shows of it."""
        return [self.picked, self.question, self.reasoning, self.evidence, self.rubric, self.answerable]


@dataclass(frozen=True)
class Board:
    """What is shown: a line, the answers; `kept` is the id of what was stored."""

    line: gr.HTML
    answers: gr.HTML
    kept: gr.State

    @property
    def shown(self) -> list[gr.HTML | gr.State]:
        """Line, answers and the id of what was stored: what most events set."""
        return [self.line, self.answers, self.kept]


def build(services: Services, door: Door) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("refine"))
    with gr.Row(elem_classes="actions"):
        demo_button = gr.Button(say("refine.demo"), size="sm", elem_id="refine-demo")
        file = gr.UploadButton(say("refine.own"), file_types=[".jsonl"], size="sm", elem_id="refine-own")
    with gr.Accordion(say("refine.examples"), open=False, elem_id="refine-examples") as examples:
        record = gr.Dropdown(
            label=say("refine.examples.pick"), info=say("refine.examples.info"), choices=[], elem_id="refine-record"
        )
    composer = _composer()
    with gr.Row(elem_classes="actions"):
        start = gr.Button(say("refine.start"), variant="primary", elem_id="refine-start")
        grade = gr.Button(say("refine.score"), elem_id="refine-score")
        stopping = gr.Button(say("refine.stop"), visible=False, elem_id="refine-stop")
        gr.HTML(f'<p class="keys-hint">{say("refine.keys")}</p>', elem_id="refine-keys")
    own = gr.State({})
    line = gr.HTML(elem_id="refine-notice")
    answers = gr.HTML(refined(None), js_on_load=clicks("refine"), elem_id="refine-answers")
    board = Board(line, answers, gr.State(None))
    _picking(services, composer, board, own, demo_button, file, examples, record)
    _answering(services, door, composer, board, start, grade, stopping)
    undo_button = gr.Button(say("refine.undo"), size="sm", elem_id="refine-undo")
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=6, min_width=300):
            _marking(services, door, board, undo_button)
        with gr.Column(scale=5, min_width=300):
            _earlier(services, door, composer, board)


def _composer() -> Composer:
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=5, min_width=300):
            question = gr.Textbox(
                label=say("refine.question"),
                placeholder=say("refine.question.placeholder"),
                lines=2,
                max_lines=5,
                elem_id="refine-question",
            )
            reasoning = gr.Textbox(label=say("refine.reasoning"), lines=2, max_lines=5, elem_id="refine-reasoning")
            pasted = gr.Textbox(
                label=say("refine.pasted"),
                placeholder=say("refine.pasted.placeholder"),
                lines=3,
                max_lines=8,
                elem_id="refine-pasted",
            )
        with gr.Column(scale=6, min_width=300):
            evidence = gr.Textbox(
                label=say("refine.tool_output"),
                placeholder=say("refine.tool_output.placeholder"),
                lines=8,
                max_lines=12,
                elem_id="refine-evidence",
            )
            answerable = gr.Checkbox(True, label=say("refine.answerable"), elem_id="refine-answerable")
            with gr.Accordion(say("refine.details"), open=False, elem_id="refine-details"):
                rubric = gr.Textbox(
                    label=say("refine.rubric.field"),
                    placeholder=say("refine.rubric.placeholder"),
                    info=say("refine.rubric.info"),
                    lines=4,
                    max_lines=10,
                    elem_id="refine-rubric",
                )
                presets = [(say("refine.preset.assay"), "assay"), (say("refine.preset.published"), "published")]
                preset = gr.Radio(presets, value="assay", label=say("refine.preset"))
                settings = sampling_fields(USUAL.seed, USUAL.max_new_tokens, USUAL.temperature)
    return Composer(gr.State(None), question, reasoning, evidence, rubric, answerable, preset, settings, pasted)


def _filled(record: RefinerRecord, fields: Fields) -> tuple[object, ...]:
    return record, fields.question, fields.reasoning, fields.tool_output, fields.rubric, fields.answerable


def _picking(
    services: Services,
    composer: Composer,
    board: Board,
    own: gr.State,
    demo_button: gr.Button,
    file: gr.UploadButton,
    examples: gr.Accordion,
    record: gr.Dropdown,
) -> None:
    filled = [*composer.filled, board.line]

    def on_pick(name: str | None, own: Own) -> tuple[object, ...]:
        try:
            record, fields, line = pick(name, own)
        except LabError as error:
            return (*(gr.skip() for _ in composer.filled), notice(str(error), "problem"))
        return (*_filled(record, fields), line)

    def on_demo() -> tuple[object, ...]:
        return on_pick(demo(services), {})

    def on_open(own: Own) -> gr.Dropdown:
        return gr.Dropdown(choices=choices(own), value=None)

    def on_file(file: str, own: Own) -> tuple[object, ...]:
        try:
            read, line = read_own(file)
        except LabError as error:
            return (own, gr.skip(), *(gr.skip() for _ in composer.filled), notice(str(error), "problem"))
        first = next(iter(read))
        *form, about = on_pick(first, read)
        return (read, gr.Dropdown(choices=choices(read), value=first), *form, line + str(about))

    demo_button.click(on_demo, None, filled, api_name="example_record", **QUIET)
    examples.expand(on_open, own, record, api_name="records", **QUIET)
    record.input(on_pick, [record, own], filled, api_name="pick_record", **QUIET)
    file.upload(on_file, [file, own], [own, record, *filled], api_name="own_records", **QUIET)


Painted = tuple[str, str, str | None, gr.Button, gr.Button, gr.Button]


def _answering(
    services: Services,
    door: Door,
    composer: Composer,
    board: Board,
    start: gr.Button,
    grade: gr.Button,
    stopping: gr.Button,
) -> None:
    outputs = [*board.shown, start, grade, stopping]
    asked = [door.known, *composer.filled, composer.preset]

    def painted(view: View) -> Painted:
        start, grade = (gr.Button(interactive=not view.is_busy) for _ in range(2))
        return (*_shown(view), start, grade, gr.Button(visible=view.is_busy))

    def on_start(visitor: Visitor | None, picked: RefinerRecord | None, *typed: object) -> Iterator[Painted]:
        fields, preset, (seed, length, temperature) = _fields(typed[:5]), _preset(typed[5]), typed[6:]
        yield from map(painted, answer(services, visitor, (fields, picked), (preset, seed, length, temperature)))

    def on_score(visitor: Visitor | None, picked: RefinerRecord | None, *typed: object) -> Painted:
        fields, preset, text = _fields(typed[:5]), _preset(typed[5]), str(typed[6] or "")
        return painted(score(services, visitor, (fields, picked), text, preset))

    def on_stop(visitor: Visitor | None) -> None:
        stop(services, visitor, "refine")

    known = [door.known, door.remembered]
    met = start.click(meet, door.remembered, known, api_visibility="private", **QUIET)
    met.then(on_start, [*asked, *composer.settings], outputs, api_name="refine", **ANSWERING)
    met = grade.click(meet, door.remembered, known, api_visibility="private", **QUIET)
    met.then(on_score, [*asked, composer.pasted], outputs, api_name="grade_answer", **ANSWERING)
    stopping.click(on_stop, door.known, None, api_name="stop_refining", **QUIET)


def _fields(typed: tuple[object, ...]) -> Fields:
    *texts, answerable = typed
    return Fields(*(str(each or "") for each in texts), answerable=bool(answerable))


def _preset(value: object) -> Preset:
    return "published" if value == "published" else "assay"


def _marking(services: Services, door: Door, board: Board, undo_button: gr.Button) -> None:
    """Lay out the editor of an answer, and wire it and the buttons of each answer."""
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
    editing = gr.State(None)
    fields = [editing, title, text]
    unchanged = (gr.skip(), gr.skip(), gr.skip())

    def on_card(visitor: Visitor | None, kept: str | None, event: gr.EventData) -> tuple[object, ...]:
        asked = event._data if isinstance(event._data, dict) else {}
        action, answer_id = str(asked.get("do")), str(asked.get("id"))
        if action != "correct":
            return (*_shown(rate(services, visitor, kept, answer_id, action)), *unchanged)
        try:
            name, words = to_correct(services, visitor, kept, answer_id)
        except LabError as error:
            return (notice(str(error), "problem"), gr.skip(), gr.skip(), *unchanged)
        return ("", gr.skip(), gr.skip(), answer_id, heading(say("refine.editor", name=name)), words)

    def on_save(visitor: Visitor | None, kept: str | None, editing: str | None, text: str) -> tuple[object, ...]:
        if editing is None:
            return (notice(say("refine.editor.closed"), "problem"), gr.skip(), gr.skip(), *unchanged)
        view = correct(services, visitor, kept, editing, text)
        return (*_shown(view), *(unchanged if "problem" in view.notice else on_cancel()))

    def on_cancel() -> tuple[object, ...]:
        return (None, heading(say("refine.editor.none")), "")

    def on_undo(visitor: Visitor | None, kept: str | None) -> tuple[object, ...]:
        return _shown(undo(services, visitor, kept))

    here = [door.known, board.kept]
    outputs = [*board.shown, *fields]
    board.answers.click(on_card, here, outputs, api_name="mark_answer", **QUIET)
    save.click(on_save, [*here, editing, text], outputs, api_name="correct_answer", show_progress="hidden")
    cancel.click(on_cancel, None, fields, api_name="cancel_correction", **QUIET)
    undo_button.click(on_undo, here, board.shown, api_name="undo_mark", **QUIET)


def _earlier(services: Services, door: Door, composer: Composer, board: Board) -> None:
    """Lay out and wire the export and the list of earlier answers."""
    with gr.Column(elem_classes="assay-panel", elem_id="refine-export"):
        gr.HTML(heading(say("refine.export")))
        forms = [(say("refine.export.sft"), "sft"), (say("refine.export.dpo"), "dpo")]
        form = gr.Radio(forms, value="sft", label=say("refine.export.format"))
        make = gr.Button(say("refine.export.make"), size="sm", elem_id="refine-export-make")
        made = gr.HTML(elem_id="refine-export-message")
        download = gr.DownloadButton(say("refine.export.download"), visible=False, elem_id="refine-download")
    with gr.Accordion(say("refine.mine"), open=False, elem_id="refine-mine") as mine:
        chosen = gr.Dropdown(label=say("refine.mine.pick"), choices=[], elem_id="refine-earlier")

    def on_open(visitor: Visitor | None) -> gr.Dropdown:
        try:
            found = earlier(services, visitor)
        except LabError as error:
            return gr.Dropdown(choices=[], value=None, info=str(error))
        return gr.Dropdown(choices=found, value=None, info=None if found else say("refine.mine.none"))

    def on_pick(visitor: Visitor | None, chosen: str | None) -> tuple[object, ...]:
        record, fields, view = show_earlier(services, visitor, chosen)
        if record is None or fields is None:
            return (*_shown(view), *(gr.skip() for _ in composer.filled))
        return (*_shown(view), *_filled(record, fields))

    def on_make(visitor: Visitor | None, form: RowForm) -> tuple[str, gr.DownloadButton]:
        # Gradio serves files from its own folder only.
        line, file = make_file(services, visitor, form, Path(get_upload_folder()) / "refined")
        return line, gr.DownloadButton(value=file, visible=file is not None)

    mine.expand(on_open, door.known, chosen, api_name="my_refinements", **QUIET)
    outputs = [*board.shown, *composer.filled]
    chosen.input(on_pick, [door.known, chosen], outputs, api_name="my_refinement", **QUIET)
    outputs = [made, download]
    make.click(on_make, [door.known, form], outputs, api_name="export_refinements", show_progress="hidden")


def _shown(view: View) -> tuple[str, str, str | None]:
    return view.notice, view.cards, view.kept
