"""`assay review`: what a model says about a paper, read, cleaned, scored, merged and reported."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evals.errors import BadConfig
from lab.commands import (
    review_ensemble,
    review_infer,
    review_report,
    review_score,
    review_steps,
)
from lab.console import counted, emit, notes, plain, table_of

if TYPE_CHECKING:
    from rich.table import Table

    from evals.concerns.clean import CleanedRow
    from evals.schema.reviews import ParsedReview

app = typer.Typer(
    no_args_is_help=True, help="Peer review: read, clean, score, merge and compare concerns."
)

app.command("score")(review_score.score)
app.command("ensemble")(review_ensemble.ensemble)
app.command("infer")(review_infer.infer)
app.command("steps")(review_steps.steps)
app.command("report")(review_report.report)
app.command("leaderboard")(review_report.leaderboard)
app.command("import")(review_report.import_results)

Out = Annotated[Path | None, typer.Option(help="A .jsonl file to write the rows to.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


@app.command()
def parse(
    rows: Annotated[Path, typer.Argument(help="JSONL: id, raw.")],
    out: Out = None,
    as_json: Json = False,
) -> None:
    r"""Read the concerns in what a model wrote, however it wrote them.

    A row of the file: {"id": "elife:1", "raw": "```json\n[{...}]\n```"}; a prediction row with
    its raw_output is read as well. Reasoning is left out; broken JSON, several lists, prose and
    tables are read. Labels are repaired by the table in docs/review-scoring.md, or marked unknown.

    The status is ok, empty (it says there are none), partial (some of it is lost) or failed.

    Example: assay review parse raw.jsonl --out predictions.jsonl --json
    """
    from evals.concerns.parse import parse as read
    from evals.concerns.provenance import hand_on, refuse_overlap
    from evals.jsonl import read_rows
    from evals.schema.reviews import RawRow

    if out is not None:
        refuse_overlap([rows], out)
    parsed = [read(row.id, row.raw) for row in read_rows(rows, RawRow, key=lambda row: row.id)]
    statuses = Counter(each.status for each in parsed)
    n_concerns = sum(len(each.concerns) for each in parsed)
    said = ", ".join(f"{n} {status}" for status, n in statuses.most_common())
    notes.print(f"read {counted(len(parsed), 'output')}: {said}; {counted(n_concerns, 'concern')}")
    if out is not None:
        write_lines(out, [_prediction(each) for each in parsed])
        hand_on(rows, out)
    emit(parsed, as_json=as_json, table=_parsed_table(parsed))


@app.command()
def clean(
    rows: Annotated[Path, typer.Argument(help="JSONL: article_id, concerns.")],
    out: Annotated[Path, typer.Option(help="The .jsonl file to write.")],
    dedup: Annotated[bool, typer.Option("--dedup/--no-dedup", help="Take repeats out.")] = True,
    cap: Annotated[
        int | None, typer.Option(min=1, help="Keep the first N of each article; published: 20.")
    ] = None,
    cap_of: Annotated[
        list[str] | None, typer.Option(help="A cap for one source, such as f1000=15.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Take repeats, blanks and what is over the cap out of predictions; show what went.

    A row of the file: {"article_id": "elife:1", "concerns": ["No control arm.", {"text": "...",
    "category": "design_flaw", "severity": "major"}]}. Rows keep their form and their other fields;
    "removed" and "repaired" say what was done. The record of who answered, where one stands beside the
    rows (ROWS.run.json), goes along.

    Example: assay review clean predictions.jsonl --cap 20 --out clean.jsonl
    """
    from evals.concerns.clean import Cleaning
    from evals.concerns.clean import clean as cleaned_row
    from evals.concerns.provenance import hand_on, refuse_overlap
    from evals.jsonl import read_rows
    from evals.schema.reviews import PredictionRow

    refuse_overlap([rows], out)
    cleaning = Cleaning(dedup, cap, _caps(cap_of or []))
    read = read_rows(rows, PredictionRow, key=lambda row: row.article_id)
    cleaned = [cleaned_row(row, cleaning) for row in read]
    write_lines(out, [each.document(cleaning) for each in cleaned])
    is_known = hand_on(rows, out)
    notes.print(f"wrote {out}{' and the record of who answered beside it' if is_known else ''}")
    document = _totals(cleaned)
    cells = [(name.replace("_", " "), n) for name, n in document.items()]
    emit(document, as_json=as_json, table=table_of("cleaned", ("what", "how many"), cells))


def write_lines(path: Path, documents: list[dict[str, object]]) -> None:
    """Write one JSON object per line, whole or not at all."""
    from evals.questions.rows import write_whole

    lines = (json.dumps(plain(each), ensure_ascii=False) + "\n" for each in documents)
    write_whole(path, "".join(lines))


def _prediction(parsed: "ParsedReview") -> dict[str, object]:
    """Return a parsed review as a prediction row, with its id under both names."""
    document = parsed.model_dump(mode="json")
    return {"article_id": document["id"], **document}


def _parsed_table(parsed: "list[ParsedReview]") -> "Table":
    cells = [
        (each.id, each.status, len(each.concerns), "; ".join(each.problems)) for each in parsed
    ]
    return table_of("outputs", ("id", "status", "concerns", "problems"), cells)


def _totals(cleaned: "list[CleanedRow]") -> dict[str, int]:
    why = Counter(each.reason for row in cleaned for each in row.removed)
    before = sum(len(row.row.concerns) + len(row.removed) for row in cleaned)
    return {
        "rows": len(cleaned),
        "before": before,
        "after": before - sum(why.values()),
        "removed": sum(why.values()),
        **{f"removed_{reason}": why[reason] for reason in ("blank", "duplicate", "cap")},
        "labels_repaired": sum(len(row.repaired) for row in cleaned),
        "labels_unknown": sum(row.unknown_labels for row in cleaned),
    }


def _caps(written: list[str]) -> dict[str, int]:
    caps = {}
    for each in written:
        source, _, number = each.partition("=")
        if not source or not number.isdigit() or int(number) < 1:
            raise BadConfig(
                f"--cap-of {each!r} names no cap; write a source and a number: f1000=15"
            )
        caps[source] = int(number)
    return caps
