"""Reports and leaderboards of reviewers as Markdown, every figure with its n, interval and controls."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import jinja2
from pydantic import ValidationError

from evals.errors import BadConfig, LabError
from evals.io import write_whole
from evals.leaderboard import shown_ranks
from evals.review.leaderboard import RULE
from evals.schema.reports import Board, PublishedResult, ReviewReport, Span
from evals.schema.reviewruns import ReviewRun
from evals.schema.reviews import MadeBy

SHOWN = ("temperature", "top_p", "repetition_penalty", "seed", "max_new_tokens", "context")
COLUMNS = ("system", "answered by", "where", "settings", "held to", "date")


def record_beside(rows: Path) -> Path:
    """Return where the record of how rows came about stands: NAME.run.json beside NAME.jsonl.

    A file of another kind has its whole name in it, NAME.json.run.json, so that no two files of one
    folder share a record.
    """
    name = rows.stem if rows.suffix == ".jsonl" else rows.name
    return rows.with_name(f"{name}.run.json")


def refuse_overlap(read: Iterable[Path], out: Path) -> None:
    """Raise BadConfig if writing `out`, or the record beside it, would replace what is read or its record."""
    written = {out.resolve(), record_beside(out).resolve()}
    for rows in read:
        if out.resolve() == rows.resolve():
            raise BadConfig(f"--out {out} is a file that is read; name another file")
        if written & {rows.resolve(), record_beside(rows).resolve()}:
            raise BadConfig(
                f"--out {out} would take the place of {record_beside(rows).name}, which says how the rows"
                f" of {rows.name} came about; name another file, one that ends in .jsonl"
            )


def read_record(rows: Path) -> ReviewRun | None:
    """Return the record beside rows, None if there is none; LabError if it cannot be read."""
    file = record_beside(rows)
    try:
        return ReviewRun.model_validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValidationError, UnicodeDecodeError) as error:
        raise LabError(
            f"{file} says how the rows of {rows.name} came about, and cannot be read"
            f" ({str(error).splitlines()[0]}); put the original back, or move it away."
        ) from None


def hand_on(rows: Path, out: Path) -> bool:
    """Put the record beside `rows` beside `out` as well, which was made of them; return whether there is one.

    Without one, an older record beside `out` goes: it speaks of rows that are there no more.
    """
    record = read_record(rows)
    if record is None:
        drop_record(out)
    else:
        write_whole(record_beside(out), record.model_dump_json(indent=1) + "\n")
    return record is not None


def drop_record(rows: Path) -> None:
    """Remove the record beside rows that were written anew and of which no single run tells."""
    record_beside(rows).unlink(missing_ok=True)


def made_by(rows: Path) -> MadeBy | None:
    """Return who gave the answers in a file of rows; None where no record stands beside it."""
    run = read_record(rows)
    if run is None:
        return None
    engine = run.engine
    return MadeBy(
        kind=engine.kind,
        name=engine.name,
        stage=engine.stage,
        host=engine.host,
        served=engine.served,
        settings=run.settings,
        constraint=engine.constraint,
        prompt_version=run.prompt_version,
        checksums=engine.checksums,
        date=(run.ended_at or run.started_at).date(),
    )


def made_rows(systems: Iterable[tuple[str, MadeBy | None]]) -> list[tuple[str, ...]]:
    """Return a row under `COLUMNS` for each system, none at all where nothing is known of any."""
    known = list(systems)
    return [_row(system, made) for system, made in known] if any(made for _, made in known) else []


def _row(system: str, made: MadeBy | None) -> tuple[str, ...]:
    if made is None:
        return (system, *["–"] * (len(COLUMNS) - 1))
    return (system, _who(made), made.host or "here", _settings(made), made.constraint, made.date.isoformat())


def _who(made: MadeBy) -> str:
    if made.kind == "chain":
        return f"{made.name}, {made.stage}" if made.stage else made.name
    served = ", ".join(made.served)
    if served in ("", made.name):
        return f"{made.name} by API" + ("" if served else " (the server named no model)")
    return f"{served} by API, asked for as {made.name}"


def _settings(made: MadeBy) -> str:
    given = ((key, made.settings.get(key)) for key in SHOWN)
    return ", ".join(f"{key} {_number(value)}" for key, value in given if isinstance(value, int | float))


def _number(value: float) -> str:
    """Return whole numbers in full, 20261121, and others without idle zeros, 0.1."""
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


NAMES = {
    "f1": "F1",
    "f1_above_permuted": "F1 above permuted",
    "recall_major": "recall of major concerns",
    "bm25": "BM25",
    "count_bound": "count bound",
}


def board_page(boards: Sequence[Board], published: Sequence[PublishedResult] = ()) -> str:
    """Return leaderboards as one Markdown page, best first, with the rule behind the ranks."""
    return _page("board.md.jinja", boards=boards, published=published, rule=RULE)


def report_page(report: ReviewReport) -> str:
    """Return a report as one Markdown page."""
    return _page("report.md.jinja", report=report, published=report.published)


def _page(template: str, **values: object) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters |= {"cell": cell, "named": named, "rate": rate}
    tables = {"table": table, "made_rows": made_rows, "made_columns": COLUMNS, "shown_ranks": shown_ranks}
    text = environment.get_template(template).render(**values, **tables, instrument=instrument)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def named(metric: str) -> str:
    """Return a metric or control as people write it."""
    return NAMES.get(metric, metric)


def instrument(board: Board) -> str:
    """Return what scores were made with, in a few words."""
    matcher = board.matcher
    return f"{matcher.encoder} at {matcher.threshold:.3f}, {matcher.assignment} assignment"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table; a bar or a line break in a cell does not break it."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(cell, row))} |" for row in rows)])


def cell(value: object) -> str:
    """Return a value as it stands in a cell of a Markdown table."""
    return str(value).replace("|", "\\|").replace("\n", " ")


def rate(value: float | None, span: Span | None = None) -> str:
    """Return a rate with three decimals and its interval; a dash for what is not known."""
    if value is None:
        return "–"
    return f"{value:.3f}" if span is None else f"{value:.3f} [{span[0]:.3f}, {span[1]:.3f}]"
