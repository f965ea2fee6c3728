"""`assay review report | leaderboard | import`: systems side by side, and what others published."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig, LabError
from lab.console import counted, emit, notes, plain

if TYPE_CHECKING:
    from evals.schema.reviewreports import PublishedResult
    from evals.schema.reviews import PredictionRow
    from evals.schema.reviewscores import ReviewScore

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Out = Annotated[Path | None, typer.Option(help="A folder for the page and the JSON document.")]
Published = Annotated[
    list[Path] | None,
    typer.Option("--published", help="A result file of another project, shown apart; repeatable."),
]


def report(
    scores: Annotated[list[Path], typer.Argument(help="Scores that `score --out` wrote.")],
    predictions: Annotated[
        list[str] | None,
        typer.Option(help="SYSTEM=ROWS.jsonl, to say how its answers ended; repeatable."),
    ] = None,
    against: Annotated[str | None, typer.Option(help="The system others are held to.")] = None,
    published: Published = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Report on one system or several: scores with controls, gates, groups, errors, paired tests.

    The two published gates (F1 of 0.58, recall of 0.45) stand apart, with "either" as documents say and
    "both" as the published code does. Figures that cannot all be true are named. With --predictions,
    answers are told apart: ok, partial, cut, loop, failed, empty, missing.

    Example: assay review report tuned.json base.json --against base --predictions tuned=tuned.jsonl
    --out report
    """
    from evals.concerns.page import report_page
    from evals.concerns.report import report_of

    found = report_of(
        _scores(scores),
        {name: _rows(path) for name, path in map(_named, predictions or [])},
        against,
        _published(published),
    )
    _say_faults(found.published)
    if out is not None:
        write_report(out, "report", report_page(found), found)
    from lab.review_standings import report_tables

    emit(found, as_json=as_json, table=None if as_json else report_tables(found))


def leaderboard(
    scores: Annotated[list[Path] | None, typer.Argument(help="Scores of `score --out`.")] = None,
    order: Annotated[
        str, typer.Option(help="f1_above_permuted, f1, recall, precision or recall_major.")
    ] = "f1_above_permuted",
    published: Published = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Rank reviewers by what they find above chance; one table per matcher and reference.

    A rank is one more than the number of systems shown to be better: paired permutation p, corrected
    by Holm, below 0.05. Results of other projects stand in a table of their own. Records of runs, reports
    and boards among the files, as in runs/*.json, are left out.

    Example: assay review leaderboard runs/*/score.json --out board
    """
    from evals.concerns.board import METRICS, boards_of
    from evals.concerns.page import board_page
    from lab.review_standings import board_tables

    if order not in METRICS:
        raise BadConfig(f"--order is {order!r}; it takes {', '.join(METRICS)}.")
    if not scores and not published:
        raise LabError(
            "there is no score to rank; write some with `assay review score --out SCORE.json` and name"
            " them, or name result files with --published."
        )
    boards, others = boards_of(_scores(scores or []), order), _published(published)
    _say_faults(others)
    document = {"boards": boards, "published": others}
    if out is not None:
        write_report(out, "leaderboard", board_page(boards, others), document)
    emit(document, as_json=as_json, table=board_tables(boards, others))


def import_results(
    files: Annotated[list[Path], typer.Argument(help="Result files as they were published.")],
    out: Annotated[Path | None, typer.Option(help="A .jsonl file to write them to.")] = None,
    as_json: Json = False,
) -> None:
    """Read published results and name what in them cannot be; nothing is recomputed.

    Known are result records and leaderboards of bioreview-bench, tables of sources by tool, and the
    summaries beside a training project's predictions.

    Example: assay review import bm25_test_v4.json --out published.jsonl
    """
    from evals.questions.rows import write_whole
    from lab.review_standings import published_table

    found = _published(files)
    if out is not None:
        write_whole(out, "".join(each.model_dump_json() + "\n" for each in found))
        notes.print(f"wrote {counted(len(found), 'result')} to {out}")
    _say_faults(found)
    emit(found, as_json=as_json, table=published_table(found))


def _scores(files: list[Path]) -> "list[ReviewScore]":
    """Return the scores among files; those that commands write beside them are told and left out."""
    from evals.concerns.board import is_beside_scores, read_score

    beside = [path for path in files if is_beside_scores(path)]
    if beside:
        notes.print(f"left out, as it is no score: {', '.join(map(str, beside))}", soft_wrap=True)
    if files and len(beside) == len(files):
        raise LabError(
            "none of the files named is a score; name what `assay review score --out SCORE.json` wrote."
        )
    return [read_score(path) for path in files if path not in beside]


def _published(files: list[Path] | None) -> "tuple[PublishedResult, ...]":
    from evals.concerns.published import read_published

    return tuple(each for path in files or [] for each in read_published(path))


def _say_faults(found: "tuple[PublishedResult, ...]") -> None:
    for each in found:
        for fault in each.faults:
            notes.print(f"cannot be: {each.system} ({each.file}): {fault}")


def _named(written: str) -> tuple[str, Path]:
    name, _, path = written.partition("=")
    if not name or not path:
        raise BadConfig(
            f"--predictions {written!r} names no system; write the name of a score and its rows:"
            " tuned=tuned.jsonl"
        )
    return name, Path(path)


def _rows(path: Path) -> "dict[str, PredictionRow]":
    from evals.jsonl import read_rows
    from evals.schema.reviews import PredictionRow

    rows = read_rows(path, PredictionRow, key=lambda row: row.article_id)
    return {row.article_id: row for row in rows}


def write_report(folder: Path, name: str, page: str, document: object) -> None:
    """Write a report twice: as a page for people and as JSON, each whole."""
    from evals.questions.rows import write_whole

    text = json.dumps(plain(document), ensure_ascii=False, indent=1) + "\n"
    for path, content in ((folder / f"{name}.md", page), (folder / f"{name}.json", text)):
        write_whole(path, content)
        notes.print(f"wrote {path}")
