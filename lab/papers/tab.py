"""Papers tab: a paper in, its concerns as they are written, and what a person makes of them."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from evals.schema import Article
from evals.schema.articles import ReviewForm
from evals.schema.reviews import CATEGORIES, SEVERITIES, UNKNOWN
from evals.schema.runs import DEMONSTRATION
from lab.page import DocumentPane, Download, Painted, choosing, earlier_list, event, with_visitor
from lab.papers.session import (
    USUAL,
    OwnReviews,
    act,
    demonstration,
    find_concern,
    read,
    register,
    resume_review,
    review,
    save,
    stop_all,
)
from lab.papers.view import concerns, page_view, paper, write_review
from lab.services import Services
from lab.session import Door, Visitor
from lab.ui.components import ANSWERING, CHOSEN, QUIET, Range, clicks, heading, lead, notice, sampling_fields
from lab.ui.text import say

FILES = [".pdf", ".xml", ".nxml", ".md", ".markdown", ".txt", ".docx", ".odt", ".html", ".htm", ".tex"]
FORMS = ("json", "markdown", "letter", "sft", "dpo")


def build(services: Services, door: Door, _: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    names = [reader.name for reader in services.readers()]
    register(services)
    article = gr.State(None)
    gr.HTML(lead("review"))
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=5, min_width=300):
            file = gr.File(label=say("review.file"), file_types=FILES, height=132, elem_id="review-file")
        with gr.Column(scale=6, min_width=300):
            hint = say("review.text.placeholder")
            text = gr.Textbox(label=say("review.text"), placeholder=hint, lines=4, max_lines=4, elem_id="review-text")
    with gr.Row(elem_classes="composer"):
        with gr.Column(scale=5, min_width=300):
            reader = gr.Dropdown(
                names,
                value=names[0] if names else None,
                label=say("review.reader"),
                info=say("review.reader.ours", demonstration=DEMONSTRATION),
                elem_id="review-reader",
            )
            staged = gr.Checkbox(
                False, label=say("review.staged"), info=say("review.staged.info"), elem_id="review-staged"
            )
        with (
            gr.Column(scale=6, min_width=300),
            gr.Accordion(say("review.settings"), open=False, elem_id="review-settings"),
        ):
            within = Range(64, 4096, 64, 1.5, "review.length.info")
            settings = sampling_fields(USUAL.seed, USUAL.max_new_tokens, USUAL.temperature, within)
    with gr.Row(elem_classes="actions"):
        start = gr.Button(say("review.start"), variant="primary", interactive=bool(names), elem_id="review-start")
        stopping = gr.Button(say("review.stop"), visible=False, elem_id="review-stop")
        demo = gr.Button(say("review.example"), size="sm", elem_id="review-demo")
    line = gr.HTML("" if names else notice(say("review.no_readers.line")), elem_id="review-notice")
    with gr.Row(elem_classes="review-desk"):
        with gr.Column(scale=5, min_width=320):
            cards = gr.HTML(concerns(()), js_on_load=clicks("review"), elem_id="review-concerns")
            undo = gr.Button(say("review.undo"), size="sm", elem_id="review-undo")
            editor = gr.Column(elem_classes="assay-panel", elem_id="review-editor")
        with gr.Column(scale=6, min_width=320):
            page = gr.HTML(elem_id="review-page")
            shown = gr.HTML(paper(None), elem_id="review-paper")
    earlier = earlier_list("review", "review.mine.pick")
    pane = DocumentPane(line, cards, gr.State(None), [start], stopping, earlier, shown)
    with editor:
        _editing(services, door, pane, page)

    def on_file(file: str | None) -> Painted:
        if file is None:
            return {article: None, page: ""}
        given, view = read(file, None)
        return {article: given, text: "", page: "", **pane.show(view)}

    def on_demo() -> Painted:
        given, view = demonstration()
        return {article: given, text: "", page: "", **pane.show(view)}

    def on_start(
        visitor: Visitor | None,
        article: Article | None,
        text: str,
        name: str,
        seed: float,
        length: float,
        temperature: float,
        is_staged: bool = False,
    ) -> Iterator[Painted]:
        how = (seed, length, temperature)
        yield from map(pane.paint, review(services, visitor, (article, text), name, how, is_staged=bool(is_staged)))

    def on_undo(visitor: Visitor | None, review_id: str | None) -> Painted:
        return pane.show(OwnReviews(services, visitor).undo(review_id))

    seen = [article, text, page, *pane.shown]
    event([file.upload, file.clear], on_file, [file], seen, "read_paper", shows=line)
    event(demo.click, on_demo, [], seen, "demonstration_paper", **QUIET)
    asked = [article, text, reader, *settings, staged]
    asking = with_visitor(door, start.click).then
    written = event(asking, on_start, asked, pane.outputs, "review", door=door, shows=pane, **ANSWERING)
    event(stopping.click, partial(stop_all, services), [], [], "stop_review", door=door, **QUIET)
    event(undo.click, on_undo, [pane.kept], pane.shown, "undo_concern", door=door, shows=line, **QUIET)
    _exporting(services, door, pane)
    with gr.Accordion(say("review.mine"), open=False, elem_id="review-mine") as mine:
        earlier.render()

    def find(visitor: Visitor | None) -> list[tuple[str, str]]:
        return OwnReviews(services, visitor).choices()

    def on_pick(visitor: Visitor | None, chosen: str | None) -> Painted:
        return pane.paint(OwnReviews(services, visitor).earlier(chosen))

    def on_open(visitor: Visitor | None, review_id: str | None, request: gr.Request) -> Iterator[Painted]:
        """Show the review that the address names, so that a reload and Back lead there, or one that is being written."""
        yield {line: gr.skip()}
        if not review_id:
            yield from map(pane.paint, resume_review(services, visitor, request.query_params.get("review")))

    on = partial(event, door=door, shows=pane)
    on(choosing(earlier), on_pick, [earlier], pane.outputs, "my_review", **CHOSEN)
    late: dict[str, Any] = {**ANSWERING, "trigger_mode": "always_last"}
    watched = on(door.known.change, on_open, [pane.kept], pane.outputs, **late)
    pane.list_earlier(door, find, say("review.mine.none"), mine.expand, [written, watched], "my_reviews")


def _exporting(services: Services, door: Door, pane: DocumentPane) -> None:
    """Lay out and wire the files of the review that is shown."""
    with gr.Column(elem_classes="assay-panel", elem_id="review-export"):
        gr.HTML(heading(say("review.export")))
        formats = [(say(f"review.export.{form}"), form) for form in FORMS]
        panel = Download(
            gr.Radio(formats, value=FORMS[0], label=say("review.export.format")),
            gr.Button(say("export.make"), size="sm", elem_id="review-export-make"),
            gr.HTML(elem_id="review-export-message"),
            gr.DownloadButton(say("export.download"), visible=False, elem_id="review-download"),
        )

    def on_make(visitor: Visitor | None, review_id: str | None, form: ReviewForm) -> Painted:
        own = OwnReviews(services, visitor)
        return panel.give("review", lambda folder: write_review(own.get(review_id), form, folder / own.session))

    given = [pane.kept, panel.form]
    event(panel.make.click, on_make, given, panel.outputs, "export_review", door=door, shows=panel.made)


def _editing(services: Services, door: Door, pane: DocumentPane, page: gr.HTML) -> None:
    """Lay out the editor of a concern, and wire it and the buttons of each card; `page` shows where one belongs."""
    editing = gr.State(None)
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
        save_button = gr.Button(say("review.editor.save"), size="sm", elem_id="review-edit-save")
        cancel = gr.Button(say("review.editor.cancel"), size="sm", elem_id="review-edit-cancel")

    def on_card(visitor: Visitor | None, review_id: str | None, happened: gr.EventData) -> Painted:
        action, concern_id = str(happened._data.get("do")), str(happened._data.get("id"))
        if action not in {"edit", "show"}:
            return pane.show(act(services, visitor, review_id, action, concern_id))
        standing = OwnReviews(services, visitor).get(review_id)
        at, found = find_concern(standing.parts, concern_id)
        if action == "show":
            return {page: page_view(standing.document.article, found.place)}
        words = {text: found.text, category: found.category, severity: found.severity}
        return {pane.line: "", editing: found.id, title: heading(say("review.editor.edit", number=at + 1)), **words}

    def on_save(visitor: Visitor | None, review_id: str | None, editing: str | None, *words: str) -> Painted:
        return pane.show(save(services, visitor, review_id, editing, (words[0], words[1], words[2]))) | on_cancel()

    def on_cancel() -> Painted:
        emptied = {text: "", category: CATEGORIES[0], severity: SEVERITIES[0]}
        return {editing: None, title: heading(say("review.editor.add")), **emptied}

    typed = [text, category, severity]
    fields = [editing, *typed, title]
    outputs, on = [*pane.shown, *fields], partial(event, door=door, shows=pane.line)
    on(pane.cards.click, on_card, [pane.kept], [*outputs, page], "change_concern", **QUIET)
    on(save_button.click, on_save, [pane.kept, editing, *typed], outputs, "save_concern", **QUIET)
    event(cancel.click, on_cancel, [], fields, "cancel_edit", **QUIET)
