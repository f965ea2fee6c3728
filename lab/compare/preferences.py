"""What people prefer: how the votes fell, the ratings of models by them, and all of them as a data set."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import gradio as gr

from evals.leaderboard import shown_ranks
from evals.preferences.rows import Trainable, trainable
from evals.schema import VoteCounts
from evals.schema.votes import Board, Boards
from lab.page import Painted, chart, show_errors
from lab.services import Services
from lab.shared.exports import NEWEST_VOTES, hear_offers, left_out_reasons, may_train, training_offers
from lab.shared.rows import read_place
from lab.ui.components import (
    QUIET,
    Column,
    Html,
    as_html,
    clicks,
    draw,
    empty,
    grid,
    heading,
    notice,
    number,
    stack_figure,
    stage_name,
    tiles,
)
from lab.ui.text import lines, plural, say

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from lab.store.answers import Mark

MODELS = ("one", "other", "third")
"""Figures of a check that are models."""


class BoardPage(NamedTuple):
    """The figures with the board, as HTML, the ratings over votes, and what the votes can train."""

    page: str
    over_votes: "go.Figure | None" = None
    offers: Sequence[Trainable] = ()


def view(services: Services) -> BoardPage:
    """Return the figures with the board; without votes, how to get some. Raises LabError."""
    counts, votes = services.store.counts(), services.store.preference_pairs(NEWEST_VOTES)
    if not votes:
        return BoardPage(empty(say("preferences.empty")))
    from evals.preferences.board import boards  # late: it brings in SciPy
    from lab.ui.charts import ratings_over_votes

    newest = notice(say("ratings.newest", n=NEWEST_VOTES)) if counts.votes > NEWEST_VOTES else ""
    found = boards(votes)
    drawn = ratings_over_votes(found.over_votes) if found.over_votes else None
    return BoardPage(Html(overview(counts) + newest + board_html(found)), drawn, trainable(votes))


def board_html(found: Boards) -> Html:
    """Return the board of all votes, those of each kind of question folded beneath, and what counts on none."""
    left_out = left_out_reasons(found.left_out.items())
    if not found.boards[0].votes:
        return Html(notice(say("ratings.none", left_out=left_out)))
    first, *kinds = map(_ratings, found.boards)
    about = Html(f'<p class="assay-aside">{as_html(say("ratings.about", left_out=left_out))}</p>')
    folded = f'<details class="assay-more"><summary>{say("ratings.kinds")}</summary>{"".join(kinds)}</details>'
    return Html(first + about + _checks(found) + folded)


def _checks(found: Boards) -> Html:
    """Return what the votes say against their board, a line for each check, what is found set off."""
    said = []
    for each in found.checks:
        named = {name: stage_name(str(value)) for name, value in each.figures.items() if name in MODELS}
        line = as_html(" ".join(say(f"ratings.check.{key}", **each.figures | named) for key in each.says))
        said.append(f"<li>{f'<strong>{line}</strong>' if each.is_fault else line}</li>")
    return Html(f'{heading(say("ratings.checks"))}<ul class="assay-sentences">{"".join(said)}</ul>')


def _ratings(found: Board) -> Html:
    low, high = min(row.low for row in found.rows), max(row.high for row in found.rows)
    rows = []
    for group in sorted({row.group for row in found.rows}):
        members = [row for row in found.rows if row.group == group]
        for row, rank in zip(members, shown_ranks([row.rank for row in members]), strict=True):
            places = (100 * (x - low) / (high - low) for x in (row.low, row.rating, row.high))
            bar = draw("range", **dict(zip(("left", "middle", "right"), places, strict=True)), band=None)
            rating = stack_figure(f"{row.rating:.0f}", f"{row.low:.0f} to {row.high:.0f}", last=bar)
            apart = say("ratings.apart") if group > 1 else ""
            rows.append((stage_name(row.model), rank, rating, number(row.win_rate, "share"), row.votes, apart))
    columns = ("Model", "Rank", Column("Rating", "descending"), "Win rate", "Votes", "Group")
    kind = lines().get(f"group.{found.kind}", found.kind)
    votes, questions = plural(found.votes, "vote"), plural(found.questions, "question")
    caption = say("ratings.caption", kind=kind, votes=votes, questions=questions, raters=plural(found.raters, "rater"))
    width = 6 if any(row.group > 1 for row in found.rows) else 5
    return Html(grid(caption, columns[:width], [row[:width] for row in rows]) + _matrix(found))


def _matrix(found: Board) -> Html:
    """Return how often each model wins against each other, folded; nothing of two, whom the ratings already compare."""
    names = [row.model for row in found.rows]
    if len(names) < 3:
        return Html()

    def cell(one: str, other: str) -> str:
        share, n = found.against.get(one, {}).get(other, (0.0, 0))
        return stack_figure(number(share, "share"), f"n\u00a0=\u00a0{n}") if n else Html("–")

    rows = [(stage_name(one), *(cell(one, other) for other in names)) for one in names]
    table = grid(say("ratings.matrix.caption"), (say("ratings.matrix.row"), *map(stage_name, names)), rows)
    return Html(f'<details class="assay-more"><summary>{as_html(say("ratings.matrix"))}</summary>{table}</details>')


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


def build_board(services: Services, tab: gr.Tab) -> None:
    """Lay out and wire the fold beneath the pairs: how the votes fell, ratings, and where they become files."""
    with gr.Accordion(say("preferences"), open=False, elem_id="preferences") as fold:
        figures = gr.HTML(elem_id="preferences-figures")
        with gr.Row(elem_classes="assay-charts", visible=False) as charts:
            plot = chart("ratings.votes")
        offers = gr.HTML(elem_id="preferences-offers", js_on_load=clicks("annotate"))
        hear_offers(services, offers, "preferences_train")
        address = gr.Textbox(visible=False, label=say("report.address"))
        if services.is_local:
            gr.HTML(f'<p class="rate-onward"><a href="?tab=data">{say("preferences.export")}</a></p>')
    seen: list[tuple[Mark, BoardPage]] = []
    shown = [figures, charts, plot, offers]

    @show_errors(figures)
    def show(request: gr.Request) -> Painted:
        """Show how the votes fell."""
        if (mark := services.store.mark()) not in (known for known, _ in seen):
            seen[:] = [(mark, view(services))]
        found = seen[0][1]
        has_buttons = may_train(services, request.username)
        return {
            figures: found.page,
            charts: gr.Row(visible=found.over_votes is not None),
            plot: found.over_votes,
            offers: training_offers(found.offers, has_buttons=has_buttons) if found.offers else "",
        }

    def on_open(request: gr.Request, asked: str) -> Painted:
        """Open the fold where the address asks for it."""
        if not read_place(asked, "compare").get("board"):
            return {fold: gr.skip()}
        return {fold: gr.Accordion(open=True), **show(request)}

    fold.expand(show, None, shown, api_name="preferences", show_progress="hidden")
    tab.select(on_open, address, [fold, *shown], js="assayAddress", api_visibility="private", **QUIET)
