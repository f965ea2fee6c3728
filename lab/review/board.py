"""Scores of reviewers on the page: ranked above chance, one table per matcher and reference."""

from pathlib import Path

from evals.errors import LabError
from evals.leaderboard import shown_ranks
from evals.review.leaderboard import RULE, boards_of, is_beside_scores, read_score
from evals.review.page import COLUMNS, instrument, made_rows, named, rate
from evals.schema.reports import Board, BoardRow, ReviewScore
from lab.ui.components import Html, empty, grid, notice, sentence
from lab.ui.text import say

CONTROLS = ("permuted", "generic", "bm25", "count_bound")


def board_view(folder: Path) -> str:
    """Return the leaderboards of the scores in a folder; without one, how to get some."""
    files = [file for file in sorted(folder.glob("*.json")) if not is_beside_scores(file)]
    if not files:
        return empty(say("review.board.empty", folder=folder.name))
    scores: list[ReviewScore] = []
    problems = []
    for file in files:
        try:
            scores.append(read_score(file))
        except LabError as error:
            problems.append(notice(str(error).replace(str(file), file.name), "problem"))
    try:
        tables = [each for board in boards_of(scores) for each in (_table(board), *_made(board))]
    except LabError as error:
        return "".join([*problems, notice(str(error), "problem")])
    return "".join([*problems, *tables, notice(RULE) if tables else ""])


def _table(board: Board) -> Html:
    columns = ("System", "Rank", "F1 above permuted", "F1", "Recall", "Precision")
    columns += tuple(sentence(named(name)) for name in CONTROLS)
    ranks = shown_ranks([row.rank for row in board.rows])
    rows = [_row(rank, row) for rank, row in zip(ranks, board.rows, strict=True)]
    caption = f"{instrument(board)}; {board.n_human:,} human concerns"
    return grid(caption, (*columns, "Answered"), rows)


def _made(board: Board) -> list[Html]:
    """Return the table of who answered, none where no system's rows tell."""
    rows = made_rows((row.system, row.made_by) for row in board.rows)
    shown = tuple(sentence(each) for each in COLUMNS)
    return [grid(say("review.board.made"), shown, rows)] if rows else []


def _row(rank: str, row: BoardRow) -> tuple[object, ...]:
    return (
        row.system,
        rank,
        rate(row.f1_above_permuted, row.interval_above),
        *(rate(getattr(row.micro, name), row.intervals.get(name)) for name in ("f1", "recall", "precision")),
        *(rate(row.controls.get(name)) for name in CONTROLS),
        f"{row.coverage.n_answered} of {row.coverage.n_articles}",
    )
