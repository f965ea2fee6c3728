"""Preferences tab: how the votes fell, and all of them as a data set."""

from functools import partial
from pathlib import Path

import gradio as gr

from evals.leaderboard import shown_ranks
from evals.preferences.rows import export_votes
from evals.schema import VoteCounts
from evals.schema.votes import Board, Boards, ExportFormat
from lab.compare.board import boards
from lab.exports import for_training, zip_votes
from lab.page import Download, Painted, show_errors
from lab.services import Services
from lab.store.answers import Mark
from lab.train.runner import refusal
from lab.ui.components import Column, Html, draw, empty, grid, lead, notice, number, shown, stacked, stage_name, tiles
from lab.ui.text import counted, lines, page, say

RATED = 2000
"""Votes that the page rates, the newest."""
FORMATS: tuple[ExportFormat, ...] = ("dpo", "kto", "sft", "arena")


def view(services: Services) -> str:
    """Return the figures with the board, as HTML; without votes, how to get some. Raises LabError."""
    counts, votes = services.store.counts(), services.store.preference_pairs(RATED)
    if not votes:
        return empty(say("preferences.empty"))
    newest = notice(say("ratings.newest", n=RATED)) if counts.votes > RATED else ""
    return Html(overview(counts) + newest + board(boards(votes)))


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


def export(services: Services, form: ExportFormat, folder: Path) -> tuple[str, str]:
    """Return a line and a zip file of all votes in the format `form`; LabError if no vote gives a row."""
    made = export_votes(services.store.preference_pairs(), form, services.now())
    counts = made.statistics
    listed = ", ".join(say(f"preferences.reason.{reason}", n=n) for reason, n in counts.left_out.items() if n)
    left_out = say("preferences.left_out", listed=listed) if listed else say("preferences.left_out.none")
    rows, votes = counted(counts.rows, "row"), counted(counts.votes, "vote")
    line = say("preferences.made", rows=rows, votes=votes, left_out=left_out)
    return notice(line, "good"), str(zip_votes(made, folder))


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
    seen: list[tuple[Mark, str, int]] = []

    @show_errors(figures)
    def show(request: gr.Request) -> Painted:
        is_admin = services.role_of(request.username) == "admin" and not refusal(services.settings.training)
        if (mark := services.store.mark()) not in (known for known, *_ in seen):
            seen[:] = [(mark, view(services), services.store.counts().usable)]
        _, page, pairs = seen[0]
        words = say("preferences.train", pairs=counted(pairs, "preference pair"))
        return {figures: page, train: gr.Button(words, visible=is_admin and bool(pairs))}

    def offer(chosen: ExportFormat) -> Painted:
        return panel.give("exports", partial(export, services, chosen))

    tab.select(show, None, [figures, train], api_name="preferences", show_progress="hidden")
    made = train.click(
        partial(for_training, services), None, [address, told], api_name="preferences_train", show_progress="hidden"
    )
    made.then(None, address, None, js="assayFollow")
    panel.make.click(offer, panel.form, panel.outputs, api_name="export_preferences")
