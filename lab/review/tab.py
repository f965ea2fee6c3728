"""Review tab: a paper in, its concerns as they are written, and what a person makes of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import gradio as gr
from gradio.utils import get_upload_folder

from evals.errors import LabError
from evals.schema import Article
from evals.schema.reviewruns import ReviewForm
from evals.schema.reviews import CATEGORIES, SEVERITIES, UNKNOWN
from lab.review import blind
from lab.review.session import (
    USUAL,
    act,
    concern_of,
    demonstration,
    earlier,
    export,
    read,
    review,
    save,
    show_kept,
    undo,
)
from lab.review.view import concerns as cards
from lab.review.view import paper as paper_view
from lab.services import Services, chain_folder
from lab.session import View, stop
from lab.settings import REPORTS
from lab.ui.components import ANSWERING, QUIET, Range, Sampled, heading, lead, notice, sampling_fields
from lab.ui.text import say
from lab.ui.theme import clicks
from lab.visitors import Door, Visitor, meet

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


@dataclass(frozen=True)
class Board:
    """What is shown of a review; `kept` is its id once it is stored."""

    line: gr.HTML
    paper: gr.HTML
    concerns: gr.HTML
    kept: gr.State

    @property
    def shown(self) -> list[gr.HTML | gr.State]:
        """What most events set."""
        return [self.line, self.paper, self.concerns, self.kept]


def build(services: Services, door: Door) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    names = [reader.name for reader in services.readers()]
    gr.HTML(lead("review"))
    composer = _composer(names)
    with gr.Row(elem_classes="actions"):
        start = gr.Button(say("review.start"), variant="primary", interactive=bool(names), elem_id="review-start")
        stopping = gr.Button(say("review.stop"), visible=False, elem_id="review-stop")
        demo = gr.Button(say("review.example"), size="sm", elem_id="review-demo")
    line = gr.HTML("" if names else notice(say("review.no_readers.line")), elem_id="review-notice")
    with gr.Row(elem_classes="review-desk"):
        with gr.Column(scale=5, min_width=320):
            concerns = gr.HTML(cards(()), js_on_load=clicks("review"), elem_id="review-concerns")
            undo_button = gr.Button(say("review.undo"), size="sm", elem_id="review-undo")
            editor = gr.Column(elem_classes="assay-panel", elem_id="review-editor")
        with gr.Column(scale=6, min_width=320):
            paper = gr.HTML(paper_view(None), elem_id="review-paper")
    board = Board(line, paper, concerns, gr.State(None))
    with editor:
        _editing(services, door, board, undo_button)
    _reading(composer, board, demo)
    _reviewing(services, door, composer, board, start, stopping)
    kept = _export(services, door, board)
    unnamed = blind.build(services, door, [composer.article, composer.text], composer.settings, names)
    _earlier(services, door, board, *kept, unnamed)
    with gr.Accordion(say("review.board"), open=False, elem_id="review-board") as ranked:
        ranks = gr.HTML(elem_id="review-ranks")

    def show_board() -> str:
        from lab.review.board import board_view

        return board_view(chain_folder(services.settings.reviewer) / REPORTS)

    ranked.expand(show_board, None, ranks, api_name="review_leaderboard", **QUIET)


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
            within = Range(64, 4096, 64, 1.5, "review.length.info")
            settings = sampling_fields(USUAL.seed, USUAL.max_new_tokens, USUAL.temperature, within)
    return Composer(article, file, text, reader, settings)


def _shown(view: View) -> tuple[str, str, str, str | None]:
    return view.notice, view.paper, view.cards, view.kept


def _reading(composer: Composer, board: Board, demo: gr.Button) -> None:
    seen = [composer.article, composer.text, *board.shown]

    def on_file(file: str | None) -> tuple[object, ...]:
        if file is None:
            return (None, gr.skip(), *(gr.skip() for _ in board.shown))
        article, view = read(file, None)
        return (article, "", *_shown(view))

    def on_demo() -> tuple[object, ...]:
        article, view = demonstration()
        return (article, "", *_shown(view))

    gr.on([composer.file.upload, composer.file.clear], on_file, composer.file, seen, api_name="read_paper")
    demo.click(on_demo, None, seen, api_name="demonstration_paper", **QUIET)


def _reviewing(
    services: Services, door: Door, composer: Composer, board: Board, start: gr.Button, stopping: gr.Button
) -> None:
    def on_start(
        visitor: Visitor | None, article: Article | None, text: str, name: str, *settings: float
    ) -> Iterator[tuple[object, ...]]:
        seed, length, temperature = settings
        for view in review(services, visitor, (article, text), name, (seed, length, temperature)):
            yield (*_shown(view), gr.Button(interactive=not view.is_busy), gr.Button(visible=view.is_busy))

    def on_stop(visitor: Visitor | None) -> None:
        stop(services, visitor, "review")

    known = [door.known, door.remembered]
    asked = [door.known, composer.article, composer.text, composer.reader, *composer.settings]
    met = start.click(meet, door.remembered, known, api_visibility="private", **QUIET)
    met.then(on_start, asked, [*board.shown, start, stopping], api_name="review", **ANSWERING)
    stopping.click(on_stop, door.known, None, api_name="stop_review", **QUIET)


def _editing(services: Services, door: Door, board: Board, undo_button: gr.Button) -> None:
    """Lay out the editor of a concern, and wire it and the buttons of each card."""
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
    here, typed = [door.known, board.kept], [text, category, severity]
    fields = [editing, *typed, title]
    unchanged = tuple(gr.skip() for _ in fields)

    def on_card(visitor: Visitor | None, review_id: str | None, event: gr.EventData) -> tuple[object, ...]:
        asked = event._data if isinstance(event._data, dict) else {}
        action, concern_id = str(asked.get("do")), str(asked.get("id"))
        if action != "edit":
            return (*_shown(act(services, visitor, review_id, action, concern_id)), *unchanged)
        rest = (gr.skip(), gr.skip(), gr.skip())
        try:
            number, found = concern_of(services, visitor, review_id, concern_id)
        except LabError as error:
            return (notice(str(error), "problem"), *rest, *unchanged)
        edited = heading(say("review.editor.edit", number=number))
        return ("", *rest, found.id, found.text, found.category, found.severity, edited)

    def on_save(visitor: Visitor | None, review_id: str | None, editing: str | None, *words: str) -> tuple[object, ...]:
        view = save(services, visitor, review_id, editing, (words[0], words[1], words[2]))
        return (*_shown(view), *(unchanged if "problem" in view.notice else on_cancel()))

    def on_cancel() -> tuple[object, ...]:
        return (None, "", "design_flaw", "major", heading(say("review.editor.add")))

    def on_undo(visitor: Visitor | None, review_id: str | None) -> tuple[object, ...]:
        return _shown(undo(services, visitor, review_id))

    outputs = [*board.shown, *fields]
    board.concerns.click(on_card, here, outputs, api_name="change_concern", **QUIET)
    save_button.click(on_save, [*here, editing, *typed], outputs, api_name="save_concern", **QUIET)
    cancel.click(on_cancel, None, fields, api_name="cancel_edit", **QUIET)
    undo_button.click(on_undo, here, board.shown, api_name="undo_concern", **QUIET)


def _export(services: Services, door: Door, board: Board) -> tuple[gr.Accordion, gr.Dropdown]:
    """Lay out and wire the export; return the list of earlier reviews, which stands below it."""
    with gr.Column(elem_classes="assay-panel", elem_id="review-export"):
        gr.HTML(heading(say("review.export")))
        choices = [(say(f"review.export.{form}"), form) for form in FORMS]
        form = gr.Radio(choices, value="json", label=say("review.export.format"))
        make = gr.Button(say("review.export.make"), size="sm", elem_id="review-export-make")
        made = gr.HTML(elem_id="review-export-message")
        download = gr.DownloadButton(say("review.export.download"), visible=False, elem_id="review-download")
    with gr.Accordion(say("review.mine"), open=False, elem_id="review-mine") as mine:
        chosen = gr.Dropdown(label=say("review.mine.pick"), choices=[], elem_id="review-earlier")

    def on_export(visitor: Visitor | None, review_id: str | None, form: ReviewForm) -> tuple[str, gr.DownloadButton]:
        # Gradio serves files from its own folder only.
        line, file = export(services, visitor, review_id, form, Path(get_upload_folder()) / "reviews")
        return line, gr.DownloadButton(value=file, visible=file is not None)

    make.click(on_export, [door.known, board.kept, form], [made, download], api_name="export_review", **QUIET)
    return mine, chosen


def _earlier(
    services: Services, door: Door, board: Board, mine: gr.Accordion, chosen: gr.Dropdown, unnamed: gr.State
) -> None:
    def on_open(visitor: Visitor | None, hidden: tuple[str, ...]) -> gr.Dropdown:
        try:
            choices = earlier(services, visitor, hidden)
        except LabError as error:
            return gr.Dropdown(choices=[], value=None, info=str(error))
        return gr.Dropdown(choices=choices, value=None, info=None if choices else say("review.mine.none"))

    def on_pick(visitor: Visitor | None, chosen: str | None) -> tuple[object, ...]:
        return _shown(show_kept(services, visitor, chosen))

    mine.expand(on_open, [door.known, unnamed], chosen, api_name="my_reviews", **QUIET)
    chosen.input(on_pick, [door.known, chosen], board.shown, api_name="my_review", **QUIET)
