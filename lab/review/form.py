"""The widgets of the Review tab: what is given, what is shown, and the editor of a concern."""

from collections.abc import Sequence
from dataclasses import dataclass

import gradio as gr

from evals.schema.reviews import CATEGORIES, SEVERITIES, UNKNOWN
from lab.review.session import USUAL
from lab.review.view import CLICKS
from lab.review.view import concerns as cards
from lab.review.view import paper as paper_view
from lab.ui.components import Range, Sampled, heading, lead, notice, sampling_fields
from lab.ui.text import say

FILES = [".pdf", ".xml", ".nxml", ".md", ".markdown", ".txt"]
FORMS = ("json", "markdown", "letter", "sft", "dpo")


@dataclass(frozen=True)
class Composer:
    """The paper that is given, who reviews it, and how. `article` is the paper that was read."""

    article: gr.State
    file: gr.File
    text: gr.Textbox
    reader: gr.Dropdown
    settings: Sampled
    start: gr.Button
    stop: gr.Button
    demo: gr.Button


@dataclass(frozen=True)
class Board:
    """What is shown of a review, and what can be done with all of it."""

    line: gr.HTML
    paper: gr.HTML
    concerns: gr.HTML
    review: gr.State
    undo: gr.Button
    mine: gr.Accordion
    earlier: gr.Dropdown
    form: gr.Radio
    make: gr.Button
    made: gr.HTML
    download: gr.DownloadButton

    @property
    def shown(self) -> list[gr.HTML | gr.State]:
        """Line, paper, concerns and the id of the review: what most events set."""
        return [self.line, self.paper, self.concerns, self.review]


@dataclass(frozen=True)
class Editor:
    """The words of one concern; `editing` is its id, None for a new one."""

    editing: gr.State
    title: gr.HTML
    text: gr.Textbox
    category: gr.Dropdown
    severity: gr.Dropdown
    save: gr.Button
    cancel: gr.Button


def lay_out(readers: Sequence[str]) -> tuple[Composer, Board, Editor]:
    """Lay the widgets out inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("review"))
    composer = _composer(readers)
    known = "" if readers else notice(say("review.no_readers.line"))
    line = gr.HTML(known, elem_id="review-notice")
    with gr.Row(elem_classes="review-desk"):
        with gr.Column(scale=5, min_width=320):
            concerns = gr.HTML(cards(()), js_on_load=CLICKS, elem_id="review-concerns")
            undo = gr.Button(say("review.undo"), size="sm", elem_id="review-undo")
            editor = _editor()
        with gr.Column(scale=6, min_width=320):
            paper = gr.HTML(paper_view(None), elem_id="review-paper")
    board = Board(line, paper, concerns, gr.State(None), undo, *_keep())
    return composer, board, editor


def _composer(readers: Sequence[str]) -> Composer:
    article = gr.State(None)
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=5, min_width=300):
            file = gr.File(label=say("review.file"), file_types=FILES, height=132, elem_id="review-file")
        with gr.Column(scale=6, min_width=300):
            text = gr.Textbox(
                label=say("review.text"),
                placeholder=say("review.text.placeholder"),
                lines=4,
                max_lines=4,
                elem_id="review-text",
            )
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=5, min_width=300):
            reader = gr.Dropdown(
                list(readers),
                value=readers[0] if readers else None,
                label=say("review.reader"),
                info=say("review.reader.ours"),
                elem_id="review-reader",
            )
        with (
            gr.Column(scale=6, min_width=300),
            gr.Accordion(say("review.settings"), open=False, elem_id="review-settings"),
        ):
            settings = _settings()
    with gr.Row(elem_classes="actions"):
        start = gr.Button(say("review.start"), variant="primary", interactive=bool(readers), elem_id="review-start")
        stop = gr.Button(say("review.stop"), visible=False, elem_id="review-stop")
        demo = gr.Button(say("review.example"), size="sm", elem_id="review-demo")
    return Composer(article, file, text, reader, settings, start, stop, demo)


def _settings() -> Sampled:
    """Lay out seed, length and temperature."""
    choices = Range(64, 4096, 64, 1.5, "review.length.info")
    return sampling_fields(USUAL.seed, USUAL.max_new_tokens, USUAL.temperature, choices)


def _editor() -> Editor:
    with gr.Column(elem_classes="assay-panel", elem_id="review-editor"):
        title = gr.HTML(heading(say("review.editor.add")))
        text = gr.Textbox(label=say("review.editor.text"), lines=3, elem_id="review-edit-text")
        with gr.Row():
            category = gr.Dropdown(
                [(name.replace("_", " "), name) for name in (*CATEGORIES, UNKNOWN)],
                value=CATEGORIES[0],
                label=say("review.editor.category"),
                min_width=140,
                elem_id="review-edit-category",
            )
            severity = gr.Dropdown(
                [*SEVERITIES, UNKNOWN],
                value=SEVERITIES[0],
                label=say("review.editor.severity"),
                min_width=120,
                elem_id="review-edit-severity",
            )
        with gr.Row(elem_classes="actions"):
            save = gr.Button(say("review.editor.save"), size="sm", elem_id="review-edit-save")
            cancel = gr.Button(say("review.editor.cancel"), size="sm", elem_id="review-edit-cancel")
    return Editor(gr.State(None), title, text, category, severity, save, cancel)


def _keep() -> tuple[gr.Accordion, gr.Dropdown, gr.Radio, gr.Button, gr.HTML, gr.DownloadButton]:
    with gr.Column(elem_classes="assay-panel", elem_id="review-export"):
        gr.HTML(heading(say("review.export")))
        choices = [(say(f"review.export.{form}"), form) for form in FORMS]
        form = gr.Radio(choices, value="json", label=say("review.export.format"))
        make = gr.Button(say("review.export.make"), size="sm", elem_id="review-export-make")
        made = gr.HTML(elem_id="review-export-message")
        download = gr.DownloadButton(say("review.export.download"), visible=False, elem_id="review-download")
    with gr.Accordion(say("review.mine"), open=False, elem_id="review-mine") as mine:
        earlier = gr.Dropdown(label=say("review.mine.pick"), choices=[], elem_id="review-earlier")
    return mine, earlier, form, make, made, download
