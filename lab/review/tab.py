"""Review tab: a paper in, its concerns as they are written, and what a person makes of them."""

from collections.abc import Iterator
from functools import partial

import gradio as gr

from evals.errors import LabError
from evals.review import DEMONSTRATION
from evals.schema import Article
from evals.schema.reviewruns import ReviewForm
from evals.schema.reviews import CATEGORIES, SEVERITIES, UNKNOWN
from lab.page import DocumentPane, Painted, earlier_list, export_panel, met, reopened
from lab.review.pages import page_view
from lab.review.session import (
    USUAL,
    act,
    demonstration,
    find,
    make_file,
    read,
    register,
    returned,
    review,
    save,
    stop_all,
    work,
)
from lab.review.view import board_view, concerns, paper
from lab.services import Services
from lab.settings import REPORTS
from lab.ui.components import ANSWERING, QUIET, Range, heading, lead, notice, sampling_fields
from lab.ui.text import say
from lab.ui.theme import clicks
from lab.visitors import Door, Visitor
from training.models.manifest import chain_file

FILES = [".pdf", ".xml", ".nxml", ".md", ".markdown", ".txt", ".docx", ".odt", ".html", ".htm", ".tex"]
FORMS = ("json", "markdown", "letter", "sft", "dpo")


def build(services: Services, door: Door) -> None:
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
    pane = DocumentPane(line, cards, gr.State(None), [start], stopping, shown)
    with editor:
        _editing(services, door, pane, undo, page)
    panel = export_panel("review", FORMS)

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

    def on_export(visitor: Visitor | None, review_id: str | None, form: ReviewForm) -> Painted:
        return panel.give("reviews", partial(make_file, work(services, visitor), review_id, form))

    def on_pick(visitor: Visitor | None, chosen: str | None) -> Painted:
        return pane.show(work(services, visitor).show_earlier(chosen))

    def on_return(visitor: Visitor | None, name: str | None) -> Iterator[Painted]:
        yield from map(pane.paint, returned(services, visitor, name))

    seen = [article, text, page, *pane.shown]
    gr.on([file.upload, file.clear], on_file, file, seen, api_name="read_paper")
    demo.click(on_demo, None, seen, api_name="demonstration_paper", **QUIET)
    asked = [door.known, article, text, reader, *settings, staged]
    started = met(door, start.click).then(on_start, asked, pane.outputs, api_name="review", **ANSWERING)
    stopping.click(partial(stop_all, services), door.known, None, api_name="stop_review", **QUIET)
    asked = [door.known, pane.kept, panel.form]
    panel.make.click(on_export, asked, panel.outputs, api_name="export_review", **QUIET)
    picked = earlier_list(door, partial(work, services), on_pick, pane.shown, "my_review")
    reopened(door, "review", pane, on_pick, pane.outputs, [started, picked], on_return)
    with gr.Accordion(say("review.board"), open=False, elem_id="review-board") as ranked:
        ranks = gr.HTML(elem_id="review-ranks")
    board = partial(board_view, chain_file(services.settings.reviewer).parent / REPORTS)
    ranked.expand(board, None, ranks, api_name="review_leaderboard", **QUIET)


def _editing(services: Services, door: Door, pane: DocumentPane, undo: gr.Button, page: gr.HTML) -> None:
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

    def on_card(visitor: Visitor | None, review_id: str | None, event: gr.EventData) -> Painted:
        action, concern_id = str(event._data.get("do")), str(event._data.get("id"))
        if action not in {"edit", "show"}:
            return pane.show(act(services, visitor, review_id, action, concern_id))
        try:
            standing = work(services, visitor).get(review_id)
            at, found = find(standing.parts, concern_id)
        except LabError as error:
            return {pane.line: notice(str(error), "problem")}
        if action == "show":
            return {page: page_view(standing.document.article, found.place)}
        words = {text: found.text, category: found.category, severity: found.severity}
        return {pane.line: "", editing: found.id, title: heading(say("review.editor.edit", number=at + 1)), **words}

    def on_save(visitor: Visitor | None, review_id: str | None, editing: str | None, *words: str) -> Painted:
        view = save(services, visitor, review_id, editing, (words[0], words[1], words[2]))
        return pane.show(view) | ({} if "problem" in view.notice else on_cancel())

    def on_cancel() -> Painted:
        emptied = {text: "", category: CATEGORIES[0], severity: SEVERITIES[0]}
        return {editing: None, title: heading(say("review.editor.add")), **emptied}

    def on_undo(visitor: Visitor | None, review_id: str | None) -> Painted:
        return pane.show(work(services, visitor).undo(review_id))

    here, typed = [door.known, pane.kept], [text, category, severity]
    fields = [editing, *typed, title]
    outputs = [*pane.shown, *fields]
    pane.cards.click(on_card, here, [*outputs, page], api_name="change_concern", **QUIET)
    save_button.click(on_save, [*here, editing, *typed], outputs, api_name="save_concern", **QUIET)
    cancel.click(on_cancel, None, fields, api_name="cancel_edit", **QUIET)
    undo.click(on_undo, here, pane.shown, api_name="undo_concern", **QUIET)
