"""Review tab: a paper in, its concerns as they are written, and what a person makes of them."""

from collections.abc import Iterator
from pathlib import Path

import gradio as gr
from gradio.utils import get_upload_folder

from evals.errors import LabError
from evals.schema import Article
from evals.schema.reviewruns import ReviewForm
from lab.review import blind as review_blind
from lab.review.form import Board, Composer, Editor, lay_out
from lab.review.session import act, concern_of, demonstration, earlier, export, read, review, save, show_kept, undo
from lab.services import Services, chain_folder
from lab.session import View, stop
from lab.settings import REPORTS
from lab.ui.components import ANSWERING, QUIET, heading, notice
from lab.ui.text import say
from lab.visitors import Door, Visitor, meet


def build(services: Services, door: Door) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    names = [reader.name for reader in services.readers()]
    composer, board, editor = lay_out(names)
    unnamed = review_blind.build(services, door, composer, names)
    _reading(composer, board)
    _reviewing(services, door, composer, board)
    _editing(services, door, board, editor)
    _keeping(services, door, board, unnamed)
    with gr.Accordion(say("review.board"), open=False, elem_id="review-board") as ranked:
        ranks = gr.HTML(elem_id="review-ranks")

    def show_board() -> str:
        from lab.review.board import board_view

        return board_view(chain_folder(services.settings.reviewer) / REPORTS)

    ranked.expand(show_board, None, ranks, api_name="review_leaderboard", **QUIET)


Painted = tuple[str, str, str, str | None, gr.Button, gr.Button]


def _painted(view: View) -> Painted:
    return (
        view.notice,
        view.paper,
        view.cards,
        view.kept,
        gr.Button(interactive=not view.is_busy),
        gr.Button(visible=view.is_busy),
    )


def _reading(composer: Composer, board: Board) -> None:
    seen = [composer.article, composer.text, *board.shown]

    def on_file(file: str | None) -> tuple[object, ...]:
        if file is None:
            return (None, gr.skip(), *(gr.skip() for _ in board.shown))
        article, view = read(file, None)
        return (article, "", *_painted(view)[:4])

    def on_demo() -> tuple[object, ...]:
        article, view = demonstration()
        return (article, "", *_painted(view)[:4])

    gr.on([composer.file.upload, composer.file.clear], on_file, composer.file, seen, api_name="read_paper")
    composer.demo.click(on_demo, None, seen, api_name="demonstration_paper", **QUIET)


def _reviewing(services: Services, door: Door, composer: Composer, board: Board) -> None:
    outputs = [*board.shown, composer.start, composer.stop]

    def on_start(
        visitor: Visitor | None, article: Article | None, text: str, name: str, *settings: float
    ) -> Iterator[Painted]:
        how = (settings[0], settings[1], settings[2])
        for view in review(services, visitor, (article, text), name, how):
            yield _painted(view)

    def on_stop(visitor: Visitor | None) -> None:
        stop(services, visitor, "review")

    known = [door.known, door.remembered]
    asked = [door.known, composer.article, composer.text, composer.reader, *composer.settings]
    met = composer.start.click(meet, door.remembered, known, api_visibility="private", **QUIET)
    met.then(on_start, asked, outputs, api_name="review", **ANSWERING)
    composer.stop.click(on_stop, door.known, None, api_name="stop_review", **QUIET)


def _editing(services: Services, door: Door, board: Board, editor: Editor) -> None:
    here = [door.known, board.review]
    typed = [editor.text, editor.category, editor.severity]
    fields = [editor.editing, *typed, editor.title]

    def on_card(visitor: Visitor | None, review_id: str | None, event: gr.EventData) -> tuple[object, ...]:
        asked = event._data if isinstance(event._data, dict) else {}
        action, concern_id = str(asked.get("do")), str(asked.get("id"))
        if action != "edit":
            view = act(services, visitor, review_id, action, concern_id)
            return (*_painted(view)[:4], *(gr.skip() for _ in fields))
        return _opened(services, visitor, (review_id, concern_id), len(fields))

    def on_save(visitor: Visitor | None, review_id: str | None, editing: str | None, *words: str) -> tuple[object, ...]:
        view = save(services, visitor, review_id, editing, (words[0], words[1], words[2]))
        is_kept = "problem" not in view.notice
        after = _blank() if is_kept else tuple(gr.skip() for _ in fields)
        return (*_painted(view)[:4], *after)

    def on_undo(visitor: Visitor | None, review_id: str | None) -> tuple[object, ...]:
        return _painted(undo(services, visitor, review_id))[:4]

    board.concerns.click(on_card, here, [*board.shown, *fields], api_name="change_concern", **QUIET)
    editor.save.click(
        on_save, [*here, editor.editing, *typed], [*board.shown, *fields], api_name="save_concern", **QUIET
    )
    editor.cancel.click(_blank, None, fields, api_name="cancel_edit", **QUIET)
    board.undo.click(on_undo, here, board.shown, api_name="undo_concern", **QUIET)


def _opened(
    services: Services, visitor: Visitor | None, which: tuple[str | None, str], n_fields: int
) -> tuple[object, ...]:
    """Return a concern in the editor; `which` are the ids of the review and of the concern."""
    unchanged = (gr.skip(), gr.skip(), gr.skip())
    try:
        number, found = concern_of(services, visitor, *which)
    except LabError as error:
        return (notice(str(error), "problem"), *unchanged, *(gr.skip() for _ in range(n_fields)))
    title = heading(say("review.editor.edit", number=number))
    return ("", *unchanged, found.id, found.text, found.category, found.severity, title)


def _keeping(services: Services, door: Door, board: Board, unnamed: gr.State) -> None:
    here = [door.known, board.review]

    def on_open(visitor: Visitor | None, hidden: tuple[str, ...]) -> gr.Dropdown:
        try:
            choices = earlier(services, visitor, hidden)
        except LabError as error:
            return gr.Dropdown(choices=[], value=None, info=str(error))
        return gr.Dropdown(choices=choices, value=None, info=None if choices else say("review.mine.none"))

    def on_pick(visitor: Visitor | None, chosen: str | None) -> tuple[object, ...]:
        return _painted(show_kept(services, visitor, chosen))[:4]

    def on_export(visitor: Visitor | None, review_id: str | None, form: ReviewForm) -> tuple[str, gr.DownloadButton]:
        # Gradio serves files from its own folder only.
        line, file = export(services, visitor, review_id, form, Path(get_upload_folder()) / "reviews")
        return line, gr.DownloadButton(value=file, visible=file is not None)

    board.mine.expand(on_open, [door.known, unnamed], board.earlier, api_name="my_reviews", **QUIET)
    board.earlier.input(on_pick, [door.known, board.earlier], board.shown, api_name="my_review", **QUIET)
    board.make.click(on_export, [*here, board.form], [board.made, board.download], api_name="export_review", **QUIET)


def _blank() -> tuple[object, ...]:
    return (None, "", "design_flaw", "major", heading(say("review.editor.add")))
