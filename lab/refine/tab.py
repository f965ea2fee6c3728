"""Refine tab: a record in, every stage's answer graded claim by claim, and what a person makes of it."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import gradio as gr

from evals.schema.refiner import RefinerRecord, RowForm
from lab.page import DocumentPane, Painted, earlier_list, export_panel, met, reopened, show_errors, stops
from lab.refine import session
from lab.refine.session import Preset
from lab.refine.view import refined
from lab.services import Services
from lab.ui.components import ANSWERING, CHOSEN, QUIET, heading, lead, notice, sampling_fields
from lab.ui.text import say
from lab.ui.theme import clicks
from lab.visitors import Door, Visitor


def build(services: Services, door: Door) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("refine"))
    with gr.Row(elem_classes="actions"):
        demo_button = gr.Button(say("refine.demo"), size="sm", elem_id="refine-demo")
    with gr.Accordion(say("refine.examples"), open=False, elem_id="refine-examples") as examples:
        record = gr.Dropdown(
            label=say("refine.examples.pick"), info=say("refine.examples.info"), choices=[], elem_id="refine-record"
        )
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=5, min_width=300):
            question = _text("question", "refine.question", 2, 5, placeholder=say("refine.question.placeholder"))
            reasoning = _text("reasoning", "refine.reasoning", 2, 5)
            pasted = _text("pasted", "refine.pasted", 3, 8, placeholder=say("refine.pasted.placeholder"))
        with gr.Column(scale=6, min_width=300):
            hint = say("refine.tool_output.placeholder")
            evidence = _text("evidence", "refine.tool_output", 8, 12, placeholder=hint)
            answerable = gr.Checkbox(True, label=say("refine.answerable"), elem_id="refine-answerable")
            with gr.Accordion(say("refine.details"), open=False, elem_id="refine-details"):
                hints = {"placeholder": say("refine.rubric.placeholder"), "info": say("refine.rubric.info")}
                rubric = _text("rubric", "refine.rubric.field", 4, 10, **hints)
                presets = [(say("refine.preset.assay"), "assay"), (say("refine.preset.published"), "published")]
                preset = gr.Radio(presets, value="assay", label=say("refine.preset"))
                settings = sampling_fields(session.USUAL.seed, session.USUAL.max_new_tokens, session.USUAL.temperature)
    with gr.Row(elem_classes="actions"):
        start = gr.Button(say("refine.start"), variant="primary", elem_id="refine-start")
        grade = gr.Button(say("refine.score"), elem_id="refine-score")
        stopping = gr.Button(say("refine.stop"), visible=False, elem_id="refine-stop")
        gr.HTML(f'<p class="keys-hint">{say("refine.keys")}</p>', elem_id="refine-keys")
    picked = gr.State(None)
    line = gr.HTML(elem_id="refine-notice")
    cards = gr.HTML(refined(None), js_on_load=clicks("refine"), elem_id="refine-answers")
    pane = DocumentPane(line, cards, gr.State(None), [start, grade], stopping)
    form = [picked, question, reasoning, evidence, rubric, answerable]
    undo = gr.Button(say("refine.undo"), size="sm", elem_id="refine-undo")

    def filled(record: RefinerRecord) -> Painted:
        return dict(zip(form, (record, *session.fields_of(record)), strict=True))

    @show_errors(line)
    def on_pick(name: str | None) -> Painted:
        found, told = session.pick(name)
        return {line: told, **filled(found)}

    def on_demo() -> Painted:
        return on_pick(session.demo(services))

    def on_open() -> gr.Dropdown:
        return gr.Dropdown(choices=session.choices(), value=None)

    def on_start(visitor: Visitor | None, picked: RefinerRecord | None, *typed: Any) -> Iterator[Painted]:
        views = session.answer(services, visitor, (_fields(typed), picked), (_preset(typed[5]), *typed[6:9]))
        yield from map(pane.paint, views)

    def on_score(visitor: Visitor | None, picked: RefinerRecord | None, *typed: Any) -> Painted:
        return pane.paint(
            session.score(services, visitor, (_fields(typed), picked), str(typed[6] or ""), _preset(typed[5]))
        )

    def on_undo(visitor: Visitor | None, kept: str | None) -> Painted:
        return pane.show(session.work(services, visitor).undo(kept))

    def on_earlier(visitor: Visitor | None, chosen: str | None) -> Painted:
        mine = session.work(services, visitor)
        page = pane.show(mine.show_earlier(chosen))
        return page | filled(mine.get(chosen).document.record) if page[pane.kept] else page

    def on_make(visitor: Visitor | None, form: RowForm) -> Painted:
        return panel.give("refined", lambda folder: session.make_file(session.work(services, visitor), form, folder))

    demo_button.click(on_demo, None, [*form, line], api_name="example_record", **QUIET)
    examples.expand(on_open, None, record, api_name="records", **QUIET)
    record.input(on_pick, record, [*form, line], api_name="pick_record", **CHOSEN)
    asked = [door.known, *form, preset]
    answered = met(door, start.click).then(on_start, [*asked, *settings], pane.outputs, api_name="refine", **ANSWERING)
    scored = met(door, grade.click).then(on_score, [*asked, pasted], pane.outputs, api_name="grade_answer", **ANSWERING)
    stops(services, door, "refine", stopping, "stop_refining")
    undo.click(on_undo, [door.known, pane.kept], pane.shown, api_name="undo_mark", **QUIET)
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=6, min_width=300):
            _editing(services, door, pane)
        with gr.Column(scale=5, min_width=300):
            panel = export_panel("refine", ("sft", "dpo"))
            shown = [*pane.shown, *form]
            chosen = earlier_list(door, partial(session.work, services), on_earlier, shown, "my_refinement")
            reopened(door, "refine", pane, on_earlier, shown, [answered, scored, chosen])
    inputs = [door.known, panel.form]
    panel.make.click(on_make, inputs, panel.outputs, api_name="export_refinements", show_progress="hidden")


def _text(name: str, label: str, lines: int, most: int, **hints: Any) -> gr.Textbox:
    return gr.Textbox(label=say(label), lines=lines, max_lines=most, elem_id=f"refine-{name}", **hints)


def _fields(typed: Sequence[Any]) -> session.Fields:
    return session.Fields(*(str(each or "") for each in typed[:4]), answerable=bool(typed[4]))


def _preset(value: object) -> Preset:
    return "published" if value == "published" else "assay"


def _editing(services: Services, door: Door, pane: DocumentPane) -> None:
    """Lay out the editor of an answer, and wire it and the buttons of each answer."""
    with gr.Column(elem_classes="assay-panel", elem_id="refine-editor"):
        title = gr.HTML(heading(say("refine.editor.none")))
        text = _text("edit-text", "refine.editor.text", 5, 12, info=say("refine.editor.info"))
        with gr.Row(elem_classes="actions"):
            save = gr.Button(say("refine.editor.save"), size="sm", elem_id="refine-edit-save")
            cancel = gr.Button(say("refine.editor.cancel"), size="sm", elem_id="refine-edit-cancel")
    editing = gr.State(None)

    @show_errors(pane.line)
    def on_card(visitor: Visitor | None, kept: str | None, event: gr.EventData) -> Painted:
        action, answer_id = str(event._data.get("do")), str(event._data.get("id"))
        if action != "correct":
            return pane.show(session.rate(services, visitor, kept, answer_id, action))
        name, words = session.to_correct(services, visitor, kept, answer_id)
        return {pane.line: "", editing: answer_id, title: heading(say("refine.editor", name=name)), text: words}

    def on_save(visitor: Visitor | None, kept: str | None, editing: str | None, text: str) -> Painted:
        if editing is None:
            return {pane.line: notice(say("refine.editor.closed"), "problem")}
        view = session.correct(services, visitor, kept, editing, text)
        return pane.show(view) | ({} if "problem" in view.notice else on_cancel())

    def on_cancel() -> Painted:
        return {editing: None, title: heading(say("refine.editor.none")), text: ""}

    here, fields = [door.known, pane.kept], [editing, title, text]
    outputs = [*pane.shown, *fields]
    pane.cards.click(on_card, here, outputs, api_name="mark_answer", **QUIET)
    save.click(on_save, [*here, editing, text], outputs, api_name="correct_answer", show_progress="hidden")
    cancel.click(on_cancel, None, fields, api_name="cancel_correction", **QUIET)
