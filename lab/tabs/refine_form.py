"""The widgets of the Refine tab: the record, how it is answered and graded, and what came of it."""

from dataclasses import dataclass

import gradio as gr

from lab.refine_views import CLICKS, refined
from lab.refining import Refining
from lab.tabs.sampling_form import Sampled, sampling_fields
from lab.views import heading, lead
from lab.wording import say


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
        file = gr.UploadButton(
            say("refine.own"), file_types=[".jsonl"], size="sm", elem_id="refine-own"
        )
    with gr.Accordion(say("refine.examples"), open=False, elem_id="refine-examples") as examples:
        record = gr.Dropdown(
            label=say("refine.examples.pick"),
            info=say("refine.examples.info"),
            choices=[],
            elem_id="refine-record",
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
        forms = [(say(f"refine.export.{form}"), form) for form in ("sft", "dpo", "pairs")]
        form = gr.Radio(forms, value="sft", label=say("refine.export.format"))
        make = gr.Button(say("refine.export.make"), size="sm", elem_id="refine-export-make")
        made = gr.HTML(elem_id="refine-export-message")
        download = gr.DownloadButton(
            say("refine.export.download"), visible=False, elem_id="refine-download"
        )
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
    reasoning = gr.Textbox(
        label=say("refine.reasoning"), lines=2, max_lines=5, elem_id="refine-reasoning"
    )
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
    usual = Refining.sampling
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
