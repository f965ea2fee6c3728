"""A paper, the concerns about it, and the scores of reviewers as HTML."""

from collections.abc import Sequence
from pathlib import Path

from evals.confidence import read_confidence
from evals.errors import LabError
from evals.schema import Article
from evals.schema.reviewruns import ABSTRACT, DraftConcern, Place
from lab.ui.components import empty, grid, notice, sentence
from lab.ui.templates import render
from lab.ui.text import counted, say

TEMPLATE = "review/view.html.jinja"
SHOWN = ("f1_above_strongest", "f1", "recall", "precision", "answered")
Marks = list[tuple[Place, str]]
HIDDEN = "hidden text"
"""How notes begin on text that is in a file and that nobody sees."""
LONGEST = 90
"""Characters of a quote that are shown."""


def paper(article: Article | None, concerns: Sequence[DraftConcern] = ()) -> str:
    """Return the paper as it was read, each place of a concern marked; without a paper, what to do."""
    if article is None:
        return empty(say("review.empty"))
    marks, origin = places_of(concerns), article.origin
    texts = [(ABSTRACT, "Abstract", article.abstract)]
    texts += [(number, each.name, each.text) for number, each in enumerate(article.sections)]
    counts = (
        (len(article.sections), "section"),
        (origin.pages or 0, "page"),
        (len(article.figures), "figure"),
        (len(article.references), "reference"),
    )
    return render(
        TEMPLATE,
        "paper",
        title=article.title.strip() or origin.file or article.id,
        facts=" · ".join(counted(n, noun) for n, noun in counts if n),
        hidden=[each for each in origin.notes if each.startswith(HIDDEN)],
        notes=[each for each in origin.notes if not each.startswith(HIDDEN)],
        sections=[
            (name, f"{len(text.split()):,}", _pieces(text, marks.get(section, [])))
            for section, name, text in texts
            if text.strip()
        ],
    )


def concerns(shown: Sequence[DraftConcern], *, is_busy: bool = False) -> str:
    """Return the concerns as a list of cards; while they are being written they cannot be changed."""
    if not shown:
        return "" if is_busy else empty(say("review.concerns.empty"))
    marks, rows = places_of(shown), []
    for each in shown:
        mark, quote = None, ""
        if each.place is not None:
            at, near = each.place.start, marks.get(each.place.section, [])
            mark = next((name for place, name in near if place.start <= at < place.end), None)
            quote = " ".join(each.place.quote.split())
        rows.append((each, _stated(each), mark, quote if len(quote) <= LONGEST else quote[: LONGEST - 1] + "…"))
    return render(TEMPLATE, "concerns", rows=rows, is_busy=is_busy)


def places_of(concerns: Sequence[DraftConcern]) -> dict[int, Marks]:
    """Return the places to mark by section, in order; of places that overlap the first has the mark."""
    found: dict[int, Marks] = {}
    placed = [(each.place, each.id) for each in concerns if each.place is not None]
    for place, name in sorted(placed, key=lambda each: (each[0].start, -each[0].end)):
        mine = found.setdefault(place.section, [])
        if not mine or mine[-1][0].end <= place.start:
            mine.append((place, name))
    return found


def _pieces(text: str, marks: Marks) -> list[tuple[str, str]]:
    pieces, at = [], 0
    for place, name in marks:
        pieces += [(text[at : place.start], ""), (text[place.start : place.end], name)]
        at = place.end
    return [*pieces, (text[at:], "")]


def _stated(concern: DraftConcern) -> float | None:
    return read_confidence(concern.text).value


def board_view(folder: Path) -> str:
    """Return the scores of reviewers in a folder, ranked above the strongest control, a table per matcher and reference.

    Without a score, how to get some.
    """
    from evals.leaderboard import RULE, shown_ranks  # late: they bring the statistics
    from evals.report import load_report
    from evals.review.page import COLUMNS, is_beside_scores, made_rows, named, rate, span_of, systems_of, told_controls
    from evals.review.report import CONTROLS, boards_of
    from evals.schema.reports import ReviewReport

    files = [file for file in sorted(folder.glob("*.json")) if not is_beside_scores(file)]
    if not files:
        return empty(say("review.board.empty", folder=folder.name))
    reports, page, tables = [], [], []
    for file in files:
        try:
            reports += load_report(file, ReviewReport).by_stage()
        except LabError as error:
            page.append(notice(str(error).replace(str(file), file.name), "problem"))
    try:
        boards = boards_of(reports)
    except LabError as error:
        return "".join([*page, notice(str(error), "problem")])
    for board in boards:
        rows = [
            (
                row.stage,
                rank,
                *(
                    "–" if (metric := row.metrics.get(name)) is None else rate(metric.value, span_of(metric))
                    for name in SHOWN
                ),
                ", ".join(told_controls(row.metrics, CONTROLS)) or "–",
            )
            for rank, row in zip(shown_ranks([row.rank for row in board.rows]), board.rows, strict=True)
        ]
        caption = f"{board.versions['encoder']} at {board.versions['threshold']}; {board.data_name}"
        tables.append(grid(caption, ("System", "Rank", *(sentence(named(name)) for name in SHOWN), "Controls"), rows))
    if made := made_rows(systems_of(reports)):
        tables.append(grid(say("review.board.made"), tuple(map(sentence, COLUMNS)), made))
    return "".join([*page, *tables, notice(RULE) if tables else ""])
