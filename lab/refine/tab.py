"""Refine tab: a record in, every stage's answer graded claim by claim, and what a person makes of it."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from evals.schema.refiner import RefinerRecord, RowForm
from lab.page import DocumentPane, DocumentTab, Painted, event, met, stops
from lab.refine import session
from lab.refine.export import export
from lab.refine.view import refined
from lab.services import Services
from lab.session import Exported, Own
from lab.ui.components import ANSWERING, CHOSEN, QUIET, clicks, heading, lead, notice, sampling_fields
from lab.ui.text import say
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
    tab = DocumentTab(services, door, "refine", pane, session.view, session.label)
    form = [picked, question, reasoning, evidence, rubric, answerable]
    tab.undo(gr.Button(say("refine.undo"), size="sm", elem_id="refine-undo"), "undo_mark")

    def filled(record: RefinerRecord) -> Painted:
        return dict(zip(form, (record, *session.fields_of(record)), strict=True))

    def typed_record(picked: RefinerRecord | None, *typed: Any) -> RefinerRecord:
        fields = session.Fields(*(str(each or "") for each in typed[:4]), answerable=bool(typed[4]))
        return session.record_of(fields, picked)

    def on_pick(name: str | None) -> Painted:
        found, told = session.pick(name)
        return {line: told, **filled(found)}

    def on_demo() -> Painted:
        return on_pick(session.demo(services))

    def on_open() -> gr.Dropdown:
        return gr.Dropdown(choices=session.choices(), value=None)

    def on_start(visitor: Visitor | None, *typed: Any) -> Iterator[Painted]:
        settings = (typed[6], typed[7], typed[8])
        yield from map(pane.paint, session.answer(services, visitor, typed_record(*typed[:6]), settings))

    def on_score(visitor: Visitor | None, *typed: Any) -> Painted:
        return pane.paint(session.score(services, visitor, typed_record(*typed[:6]), str(typed[6] or "")))

    def make(own: Own, _: str | None, form: RowForm) -> Exported:
        return export(own.documents.everything(own.session), form, session.held_out())

    on = partial(event, door=door, shows=pane)
    event(demo_button.click, on_demo, [], [*form, line], "example_record", shows=line, **QUIET)
    event(examples.expand, on_open, [], [record], "records", **QUIET)
    event(record.input, on_pick, [record], [*form, line], "pick_record", shows=line, **CHOSEN)
    answer = met(door, start.click).then
    answered = on(answer, on_start, [*form, *settings], pane.outputs, "refine", **ANSWERING)
    score = met(door, grade.click).then
    scored = on(score, on_score, [*form, pasted], pane.outputs, "grade_answer", **ANSWERING)
    stops(services, door, "refine", stopping, "stop_refining")
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=6, min_width=300):
            _editing(services, door, pane)
        with gr.Column(scale=5, min_width=300):
            tab.export(("sft", "dpo"), make, "export_refinements")
            tab.earlier("my_refinement", [answered, scored], lambda kept: filled(kept.record), form)


def _text(name: str, label: str, lines: int, most: int, **hints: Any) -> gr.Textbox:
    return gr.Textbox(label=say(label), lines=lines, max_lines=most, elem_id=f"refine-{name}", **hints)


def _editing(services: Services, door: Door, pane: DocumentPane) -> None:
    """Lay out the editor of an answer, and wire it and the buttons of each answer."""
    with gr.Column(elem_classes="assay-panel", elem_id="refine-editor"):
        title = gr.HTML(heading(say("refine.editor.none")))
        text = _text("edit-text", "refine.editor.text", 5, 12, info=say("refine.editor.info"))
        with gr.Row(elem_classes="actions"):
            save = gr.Button(say("refine.editor.save"), size="sm", elem_id="refine-edit-save")
            cancel = gr.Button(say("refine.editor.cancel"), size="sm", elem_id="refine-edit-cancel")
    editing = gr.State(None)

    def on_card(visitor: Visitor | None, kept: str | None, happened: gr.EventData) -> Painted:
        action, answer_id = str(happened._data.get("do")), str(happened._data.get("id"))
        if action != "correct":
            return pane.show(session.rate(services, visitor, kept, answer_id, action))
        name, words = session.to_correct(services, visitor, kept, answer_id)
        return {pane.line: "", editing: answer_id, title: heading(say("refine.editor", name=name)), text: words}

    def on_save(visitor: Visitor | None, kept: str | None, editing: str | None, text: str) -> Painted:
        if editing is None:
            return {pane.line: notice(say("refine.editor.closed"), "problem")}
        return pane.show(session.correct(services, visitor, kept, editing, text)) | on_cancel()

    def on_cancel() -> Painted:
        return {editing: None, title: heading(say("refine.editor.none")), text: ""}

    fields = [editing, title, text]
    outputs, on = [*pane.shown, *fields], partial(event, door=door, shows=pane.line)
    on(pane.cards.click, on_card, [pane.kept], outputs, "mark_answer", **QUIET)
    on(save.click, on_save, [pane.kept, editing, text], outputs, "correct_answer")
    event(cancel.click, on_cancel, [], fields, "cancel_correction", **QUIET)
