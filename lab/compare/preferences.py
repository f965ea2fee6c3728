"""What people prefer: how the votes fell, the ratings of models by them, and all of them as a data set."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from statistics import fmean

import gradio as gr

from evals.leaderboard import shown_ranks
from evals.questions import find
from evals.schema import Answer, VoteCounts
from evals.schema.votes import Board, Boards, JudgedPair, Reason, names_itself, rater_of
from evals.stats.ranking import Vote, ratings
from lab.exports import for_training
from lab.page import Painted, show_errors
from lab.services import Services
from lab.shared.rows import read_place
from lab.shared.runner import refusal
from lab.store.answers import Mark
from lab.ui.components import (
    QUIET,
    Column,
    Html,
    as_html,
    draw,
    empty,
    grid,
    notice,
    number,
    stack_figure,
    stage_name,
    tiles,
)
from lab.ui.text import lines, plural, say

RATED = 2000
"""Votes that the page rates, the newest."""
SCORES = {"left": 1.0, "right": 0.0, "tie": 0.5, "both_bad": 0.5}
"""What the left answer gets; that both are bad says as little of who is better as a tie."""
ALL, OWN = "all", "own"
"""Every question; questions that are in no question set."""


def reason_not_blind(pair: JudgedPair) -> Reason | None:
    """Return why a vote says nothing of who is better: both are one model, one names itself, or both say the same."""
    if model_of(pair.left) == model_of(pair.right):
        return "same_model"
    if names_itself(pair.left, pair.right):
        return "names_itself"
    return "identical_texts" if pair.left.text == pair.right.text else None


def model_of(answer: Answer) -> tuple[str, str]:
    """Return what makes a model one: its stage, and the checksum of that, whatever the chain it is used in is called."""
    return answer.stage.partition("@")[0], answer.stage_sha256 or answer.chain


def boards(pairs: Sequence[JudgedPair]) -> Boards:
    """Return the board of all votes that count, then those of each kind of question by their votes."""
    reasons = [reason_not_blind(pair) for pair in pairs]
    kept = [pair for pair, reason in zip(pairs, reasons, strict=True) if reason is None]
    newest = {model_of(each): each for pair in kept for each in (pair.left, pair.right)}
    sharing = Counter(stage for stage, _ in newest)
    twice = Counter((each.stage, each.chain) for each in newest.values())
    names = {}
    for (stage, sha256), each in newest.items():
        chain = f"@{each.chain}" if sharing[stage] > 1 else ""
        names[stage, sha256] = f"{stage}{chain}" + (f" {sha256[:6]}" if twice[each.stage, each.chain] > 1 else "")
    by_kind: dict[str, list[Vote]] = {ALL: []}
    for pair in kept:
        known = find(pair.vote.question)
        left, right = (names[model_of(each)] for each in (pair.left, pair.right))
        vote = Vote(
            left, right, SCORES[pair.vote.choice], known.id if known else pair.vote.question, rater_of(pair.vote)
        )
        for kind in (ALL, known.ground_truth.kind if known else OWN):
            by_kind.setdefault(kind, []).append(vote)
    order = sorted(by_kind, key=lambda kind: (-len(by_kind[kind]), kind != ALL, kind))
    left_out = Counter(reason for reason in reasons if reason)
    return Boards(
        votes=len(pairs),
        left_out={
            reason: left_out[reason]
            for reason in ("names_itself", "identical_texts", "same_model")
            if left_out[reason] or reason != "same_model"
        },
        boards=tuple(_board(kind, by_kind[kind]) for kind in order),
    )


def _board(kind: str, votes: Sequence[Vote]) -> Board:
    return Board(
        kind=kind,
        votes=len(votes),
        questions=len({vote.question for vote in votes}),
        raters=len({vote.rater for vote in votes}),
        rows=tuple(ratings(votes)),
        against=outcomes(votes),
    )


def outcomes(votes: Sequence[Vote]) -> dict[str, dict[str, tuple[float, int]]]:
    """Return what share of its votes against each other model one has won, and how many those are."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for vote in votes:
        found[vote.first][vote.second].append(vote.score)
        found[vote.second][vote.first].append(1 - vote.score)
    return {one: {other: (fmean(scores), len(scores)) for other, scores in each.items()} for one, each in found.items()}


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
    about = Html(f'<p class="assay-aside">{as_html(say("ratings.about", left_out=left_out))}</p>')
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
        with gr.Row(elem_classes="actions"):
            train = gr.Button(visible=False, variant="primary", elem_id="preferences-train")
        told, address = gr.HTML(elem_id="preferences-told"), gr.Textbox(visible=False, label=say("report.address"))
        if services.is_local:
            gr.HTML(f'<p class="rate-onward"><a href="?tab=data">{say("preferences.export")}</a></p>')
    seen: list[tuple[Mark, str, int]] = []

    @show_errors(figures)
    def show(request: gr.Request) -> Painted:
        """Show how the votes fell."""
        is_admin = services.role_of(request.username) == "admin" and not refusal(services.settings.training)
        if (mark := services.store.mark()) not in (known for known, *_ in seen):
            seen[:] = [(mark, view(services), services.store.counts().usable)]
        _, page, pairs = seen[0]
        words = say("preferences.train", pairs=plural(pairs, "preference pair"))
        return {figures: page, train: gr.Button(words, visible=is_admin and bool(pairs))}

    def on_open(request: gr.Request, asked: str) -> Painted:
        """Open the fold where the address asks for it."""
        if not read_place(asked, "compare").get("board"):
            return {fold: gr.skip()}
        return {fold: gr.Accordion(open=True), **show(request)}

    fold.expand(show, None, [figures, train], api_name="preferences", show_progress="hidden")
    tab.select(on_open, address, [fold, figures, train], js="assayAddress", api_visibility="private", **QUIET)
    made = train.click(
        partial(for_training, services), None, [address, told], api_name="preferences_train", show_progress="hidden"
    )
    made.then(None, address, None, js="assayFollow")
