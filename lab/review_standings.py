"""Reports on reviewers, leaderboards and published results as tables for the terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.table import Table

from evals.concerns.page import named
from evals.concerns.provenance import COLUMNS, made_rows
from evals.ranks import shown_ranks
from evals.schema.provenance import MadeBy
from evals.schema.reviewreports import Board, PublishedResult, ReviewReport, SystemReport
from lab.console import table_of
from lab.review_tables import number, span


def report_tables(report: ReviewReport) -> Group:
    """Return scores, gates, differences, errors and faults; groups stand in the written page."""
    made = made_table((each.score.system, each.score.made_by) for each in report.systems)
    tables: list[Table] = [_scores(report), *made, _gates(report)]
    if report.tests:
        tables.append(_tests(report))
    tables += [_errors(each) for each in report.systems]
    faults = [(each.score.system, fault) for each in report.systems for fault in each.faults]
    if faults:
        tables.append(table_of("cannot be", ("system", "what"), faults))
    if report.published:
        tables.append(published_table(report.published))
    return Group(*tables)


def board_tables(boards: Sequence[Board], published: Sequence[PublishedResult]) -> Group:
    """Return one table per instrument and reference, then what others published."""
    tables = []
    for board in boards:
        rows = [
            (
                rank,
                row.system,
                f"{number(row.f1_above_permuted)}\n{span(row.interval_above)}",
                f"{number(row.micro.f1)}\n{span(row.intervals.get('f1'))}",
                *(number(row.controls.get(name)) for name in ("permuted", "bm25", "count_bound")),
                f"{row.coverage.n_answered}/{row.coverage.n_articles}",
            )
            for rank, row in zip(
                shown_ranks([row.rank for row in board.rows]), board.rows, strict=True
            )
        ]
        title = (
            f"by {named(board.order)}; {board.matcher.encoder} at {board.matcher.threshold:.3f},"
            f" {board.n_human:,} human concerns"
        )
        columns = ("rank", "system", "F1 above", "F1", "perm.", "BM25", "bound", "answered")
        tables.append(table_of(title, columns, rows))
        tables += made_table((row.system, row.made_by) for row in board.rows)
    if published:
        tables.append(published_table(published))
    return Group(*tables)


def made_table(systems: Iterable[tuple[str, MadeBy | None]]) -> list[Table]:
    """Return the table of who answered, none where no system's rows tell."""
    rows = made_rows(systems)
    return [table_of("who answered", COLUMNS, rows)] if rows else []


def published_table(found: Sequence[PublishedResult]) -> Table:
    """Return published results as they stand in their files, with how many faults they have."""
    rows = [
        (
            each.system,
            each.split,
            f"{each.f1:.4f}",
            f"{each.recall:.4f}",
            f"{each.precision:.4f}",
            "–" if each.n_articles is None else each.n_articles,
            len(each.faults),
        )
        for each in found
    ]
    columns = ("system", "split", "F1", "recall", "prec.", "articles", "faults")
    return table_of("published elsewhere, not recomputed", columns, rows)


def _scores(report: ReviewReport) -> Table:
    rows = []
    for each in report.systems:
        score = each.score
        rows.append(
            (
                score.system,
                f"{number(score.headline.f1_above_permuted)}\n{span(score.headline.interval)}",
                *(
                    f"{number(getattr(score.micro, name))}\n{span(score.intervals.get(name))}"
                    for name in ("f1", "recall", "precision")
                ),
                f"{score.coverage.n_answered}/{score.coverage.n_articles}",
            )
        )
    columns = ("system", "F1 above permuted", "F1", "recall", "precision", "answered")
    return table_of("scores", columns, rows)


def _gates(report: ReviewReport) -> Table:
    words = {True: "pass", False: "hold"}
    rows = [
        (
            each.score.system,
            words[each.gates.f1.passes],
            words[each.gates.recall.passes],
            words[each.gates.as_documented],
            words[each.gates.as_coded],
        )
        for each in report.systems
    ]
    return table_of(
        "published gates", ("system", "F1 ≥ 0.58", "recall ≥ 0.45", "either", "both"), rows
    )


def _tests(report: ReviewReport) -> Table:
    rows = [
        (
            f"{each.first} → {each.second}",
            named(each.metric),
            f"{each.difference:+.3f} {span(each.interval)}",
            f"{each.p:.4f}",
            f"{each.p_holm:.4f}",
        )
        for each in report.tests
    ]
    return table_of(
        f"second minus first, Holm over {len(rows)} tests",
        ("systems", "metric", "difference", "p", "p, Holm"),
        rows,
    )


def _errors(system: SystemReport) -> Table:
    rows = [(f"answer {mode}", n) for mode, n in system.errors.modes.items()]
    rows += [(f"human concerns found: {name}", n) for name, n in system.errors.recall.items()]
    return table_of(f"errors of {system.score.system}", ("what", "articles"), rows)
