"""Preferences tab: how the votes fell, the latest ones, and all of them as a data set."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import shorten

import gradio as gr

from evals.errors import LabError
from evals.io import write_whole
from evals.leaderboard import shown_ranks
from evals.schema import VoteCounts
from evals.schema.votes import Board, Boards, ExportFormat
from lab.compare.board import boards
from lab.compare.export import ROWS, build_export, write_export, zip_export
from lab.page import Download, Painted
from lab.results.rows import link
from lab.services import Services
from lab.store.answers import Mark
from lab.store.outcomes import JudgedPair, outcome_of
from lab.train.runner import refusal
from lab.ui.components import Column, Html, draw, empty, grid, lead, notice, number, shown, stacked, stage_name, tiles
from lab.ui.text import counted, lines, page, say

RECENT = 8
RATED = 2000
"""Votes that the page rates, the newest."""
QUESTION_CHARACTERS = 140
FORMATS: tuple[ExportFormat, ...] = ("dpo", "kto", "sft", "arena")


def view(services: Services) -> tuple[str, str]:
    """Return the figures with the board, and the latest votes, as HTML; without votes, how to get some."""
    try:
        counts, votes = services.store.counts(), services.store.preference_pairs(RATED)[::-1]
    except LabError as error:
        return notice(str(error), "problem"), ""
    if not votes:
        return empty(say("preferences.empty")), ""
    newest = notice(say("ratings.newest", n=RATED)) if counts.votes > RATED else ""
    return Html(overview(counts) + newest + board(boards(votes))), latest(votes[:RECENT])


def board(found: Boards) -> Html:
    """Return the board of all votes, those of each kind of question folded beneath, and what counts on none."""
    said = [say(f"preferences.reason.{reason}", n=n) for reason, n in found.left_out.items() if n]
    left_out = say("preferences.left_out", listed=", ".join(said)) if said else say("preferences.left_out.none")
    if not found.boards[0].votes:
        return Html(notice(say("ratings.none", left_out=left_out)))
    first, *kinds = map(_ratings, found.boards)
    about = Html(f'<p class="assay-aside">{shown(say("ratings.about", left_out=left_out))}</p>')
    folded = f'<details class="assay-more"><summary>{say("ratings.kinds")}</summary>{"".join(kinds)}</details>'
    return Html(first + about + folded)


def _ratings(found: Board) -> Html:
    low, high = min(row.low for row in found.rows), max(row.high for row in found.rows)
    rows = []
    for group in sorted({row.group for row in found.rows}):
        members = [row for row in found.rows if row.group == group]
        for row, rank in zip(members, shown_ranks([row.rank for row in members]), strict=True):
            places = (100 * (x - low) / (high - low) for x in (row.low, row.rating, row.high))
            bar = draw("range", **dict(zip(("left", "middle", "right"), places, strict=True)), band=None)
            rating = stacked(f"{row.rating:.0f}", f"{row.low:.0f} to {row.high:.0f}", last=bar)
            apart = say("ratings.apart") if group > 1 else ""
            rows.append((stage_name(row.model), rank, rating, number(row.win_rate, "share"), row.votes, apart))
    columns = ("Model", "Rank", Column("Rating", "descending"), "Win rate", "Votes", "Group")
    kind = lines().get(f"group.{found.kind}", found.kind)
    votes, questions = counted(found.votes, "vote"), counted(found.questions, "question")
    caption = say("ratings.caption", kind=kind, votes=votes, questions=questions, raters=counted(found.raters, "rater"))
    width = 6 if any(row.group > 1 for row in found.rows) else 5
    return grid(caption, columns[:width], [row[:width] for row in rows])


def overview(counts: VoteCounts) -> Html:
    """Return the figures and the outcome of every pair of stages."""
    ties = {"ties": counts.by_choice["tie"], "both_bad": counts.by_choice["both_bad"]}
    known = {"votes": counts.votes, "usable": counts.usable, **ties}
    known |= {"raters": counts.raters, "withdrawn": counts.withdrawn}
    facts = [(say(f"preferences.{name}"), n) for name, n in known.items()]
    columns = ("Stages", "First preferred", "Tie", "Both bad", "Second preferred", "Outcome")
    rows = []
    for pair in counts.by_stages:
        fell = (pair.first_chosen, pair.ties, pair.both_bad, pair.second_chosen)
        parts = zip(("first", "tie", "bad", "second"), fell, strict=True)  # a part nobody chose has no width
        bars = "".join(f'<i class="assay-{kind}" style="flex:{n}"></i>' for kind, n in parts if n)
        split = Html(f'<span class="assay-split" aria-hidden="true">{bars}</span>')
        rows.append((f"{stage_name(pair.first)} and {stage_name(pair.second)}", *fell, split))
    return Html(tiles(facts) + grid(say("preferences.by_stages"), columns, rows))


def latest(votes: Sequence[JudgedPair]) -> Html:
    """Return the newest votes as a table, without the raters; between equal texts no side has won."""
    rows = []
    for pair in votes:
        vote = pair.vote
        line = shorten(vote.question, QUESTION_CHARACTERS, placeholder="…")
        asked = Html(f'<span class="assay-plain">{shown(line)}</span>')
        stages, is_same = (vote.left_stage, vote.right_stage), pair.left.text == pair.right.text
        left, right = map(stage_name, stages)
        fell = outcome_of(stages, vote.choice, same_text=is_same)
        won = say("preferences.preferred", stage=stage_name(fell.winner)) if fell.winner else ""
        outcome = won or say(f"preferences.outcome.{fell.choice}")
        when = Html(f'<span class="assay-when">{vote.voted_at:%Y-%m-%d %H:%M} UTC</span>')
        rows.append((asked, left, right, outcome, when))
    columns = ("Question", "Left", "Right", "Outcome", "When")
    return grid(say("preferences.latest"), columns, rows)


def export(services: Services, form: ExportFormat, folder: Path) -> tuple[str, str | None]:
    """Return a line and a zip file of all votes in the format `form`, or the reason why there is none."""
    try:
        made = build_export(services.store.preference_pairs(), form, services.now())
    except LabError as error:
        return notice(str(error), "problem"), None
    counts = made.statistics
    listed = ", ".join(say(f"preferences.reason.{reason}", n=n) for reason, n in counts.left_out.items() if n)
    left_out = say("preferences.left_out", listed=listed) if listed else say("preferences.left_out.none")
    rows, votes = counted(counts.rows, "row"), counted(counts.votes, "vote")
    line = say("preferences.made", rows=rows, votes=votes, left_out=left_out)
    return notice(line, "good"), str(zip_export(made, folder))


def training_address(services: Services, files: Mapping[str, str] | None = None) -> str:
    """Write all votes, or these files, as a data set for DPO beside the runs; return where the form to train on it is.

    LabError where nothing can be trained from this page, or no vote prefers an answer.
    """
    settings = services.settings.training
    if why := refusal(settings):
        raise LabError(why)
    folder = settings.runs[0] / "preferences" / f"{(now := services.now()):%Y-%m-%d-%H%M%S}"
    if files is None:
        write_export(build_export(services.store.preference_pairs(), "dpo", now), folder)
    for name, content in (files or {}).items():
        write_whole(folder / name, content)
    return link({"tab": "train", "stage": "dpo", "data": str(folder / ROWS)})


def for_training(services: Services, files: Callable[[], Mapping[str, str] | None] = lambda: None) -> tuple[str, str]:
    """Return the `training_address`, or a notice that says why there is none."""
    try:
        return training_address(services, files()), ""
    except LabError as error:
        return "", notice(str(error), "problem")


def build(services: Services, tab: gr.Tab) -> None:
    """Lay out the tab inside the `gr.Blocks` that is currently open."""
    gr.HTML(lead("preferences"))
    figures = gr.HTML(elem_id="preferences-figures")
    with gr.Row(elem_classes="actions"):
        train = gr.Button(visible=False, variant="primary", elem_id="preferences-train")
    told, address = gr.HTML(elem_id="preferences-told"), gr.Textbox(visible=False, label=say("report.address"))
    with gr.Column(elem_classes="assay-panel"):
        gr.Markdown(page("preferences-export"))
        choices = [(say(f"preferences.format.{form}"), form) for form in FORMATS]
        panel = Download(
            gr.Radio(choices, value="dpo", label=say("preferences.format")),
            gr.Button(say("preferences.make"), variant="primary", elem_id="preferences-make"),
            gr.HTML(elem_id="preferences-message"),
            gr.DownloadButton(say("preferences.download"), visible=False, elem_id="preferences-download"),
        )
    recent = gr.HTML(elem_id="preferences-recent")

    seen: list[tuple[Mark, tuple[str, str], int]] = []

    def show(request: gr.Request) -> tuple[str, str, gr.Button]:
        is_admin = services.role_of(request.username) == "admin" and not refusal(services.settings.training)
        try:
            if (mark := services.store.mark()) not in (known for known, *_ in seen):
                seen[:] = [(mark, view(services), services.store.counts().usable)]
        except LabError as error:
            return notice(str(error), "problem"), "", gr.Button(visible=False)
        _, (figures, recent), pairs = seen[0]
        words = say("preferences.train", pairs=counted(pairs, "preference pair"))
        return figures, recent, gr.Button(words, visible=is_admin and bool(pairs))

    def offer(chosen: ExportFormat) -> Painted:
        return panel.give("exports", partial(export, services, chosen))

    tab.select(show, None, [figures, recent, train], api_name="preferences", show_progress="hidden")
    made = train.click(
        partial(for_training, services), None, [address, told], api_name="preferences_train", show_progress="hidden"
    )
    made.then(None, address, None, js="assayFollow")
    panel.make.click(offer, panel.form, panel.outputs, api_name="export_preferences")
