"""Reports and leaderboards of reviewers as Markdown, every figure with its n, interval and controls."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from evals.errors import BadConfig, LabError
from evals.io import rows_write_whole as write_whole
from evals.leaderboard import shown_ranks
from evals.review.leaderboard import RULE
from evals.schema.reports import Board, Gate, GroupRow, PairedRow, PublishedResult, ReviewReport, Span, SystemReport
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
    return (
        system,
        _who(made),
        made.host or "here",
        _settings(made),
        made.constraint,
        made.date.isoformat(),
    )


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


GATES = (
    "The published documents ask for F1 ≥ 0.58 *or* recall ≥ 0.45, the published code for *both*; both readings"
    " are shown. They say nothing about agreement beyond list length: read them beside the permuted control."
)
AS_PUBLISHED = (
    "As others published them: nothing here was recomputed, no control stands beside them, and they rank in no"
    " table of ours."
)
NAMES = {
    "f1": "F1",
    "f1_above_permuted": "F1 above permuted",
    "recall_major": "recall of major concerns",
    "bm25": "BM25",
    "count_bound": "count bound",
}


def board_page(boards: Sequence[Board], published: Sequence[PublishedResult] = ()) -> str:
    """Return leaderboards as one page, best first, with the rule behind the ranks."""
    parts = ["# Leaderboard of reviewers", RULE]
    for board in boards:
        parts += [
            f"## By {named(board.order)}",
            _board(board),
            f"Matched with {instrument(board)}; {board.n_human:,} human concerns, reference"
            f" {board.reference_sha256[:12]}; 95 % intervals over articles.",
            *_made((row.system, row.made_by) for row in board.rows),
        ]
    if published:
        parts += [
            "## Published elsewhere",
            AS_PUBLISHED,
            _published(published),
            *_faults(published),
        ]
    return "\n\n".join(parts) + "\n"


def report_page(report: ReviewReport) -> str:
    """Return a report as one Markdown page."""
    scores = [each.score for each in report.systems]
    first = scores[0]
    parts = [
        "# Reviewers against human reviewers",
        f"{first.micro.n_human:,} human concerns on {first.coverage.n_articles:,} articles; matched with"
        f" {first.matcher.encoder} at {first.matcher.threshold:.3f} ({first.matcher.threshold_from}),"
        f" {first.matcher.assignment} assignment. 95 % intervals from {first.draws:,} draws of articles, seed"
        f" {first.seed}.",
        "## Scores and controls",
        _scores(report.systems),
        *_made((each.system, each.made_by) for each in scores),
    ]
    warnings = [f"- {each.system}: {warning}" for each in scores for warning in each.warnings]
    parts += ["\n".join(warnings)] if warnings else []
    parts += ["## Gates", GATES, _gates(report.systems)]
    if report.tests:
        parts += ["## Differences", _tests(report.tests)]
    for system in report.systems:
        parts += list(_system(system))
    parts += list(_shared(report))
    if report.published:
        parts += ["## Published elsewhere", AS_PUBLISHED, _published(report.published)]
        parts += _faults(report.published)
    return "\n\n".join(parts) + "\n"


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
    for row in rows:
        cells = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def rate(value: float | None, span: Span | None = None) -> str:
    """Return a rate with three decimals and its interval; a dash for what is not known."""
    if value is None:
        return "–"
    return f"{value:.3f}" if span is None else f"{value:.3f} [{span[0]:.3f}, {span[1]:.3f}]"


def _board(board: Board) -> str:
    columns = ["rank", "system", "F1 above permuted", "F1", "recall", "precision", "major recall"]
    columns += ["permuted", "generic", "BM25", "count bound", "predicted", "answered"]
    rows = [
        (
            rank,
            row.system,
            rate(row.f1_above_permuted, row.interval_above),
            *(
                rate(getattr(row.micro, name), row.intervals.get(name))
                for name in ("f1", "recall", "precision", "recall_major")
            ),
            *(rate(row.controls.get(name)) for name in ("permuted", "generic", "bm25", "count_bound")),
            f"{row.micro.n_predicted:,.0f}",
            f"{row.coverage.n_answered} of {row.coverage.n_articles}",
        )
        for rank, row in zip(shown_ranks([row.rank for row in board.rows]), board.rows, strict=True)
    ]
    return table(columns, rows)


def _scores(systems: Sequence[SystemReport]) -> str:
    columns = ["system", "F1 above permuted", "F1", "recall", "precision", "major recall"]
    columns += ["permuted", "generic", "BM25", "count bound", "predicted", "matched", "answered"]
    rows = []
    for each in systems:
        score, controls = each.score, each.score.controls
        beside = [
            None if controls is None else getattr(controls, name)
            for name in ("permuted", "generic", "bm25", "count_bound")
        ]
        rows.append(
            (
                score.system,
                rate(score.headline.f1_above_permuted, score.headline.interval),
                *(
                    rate(getattr(score.micro, name), score.intervals.get(name))
                    for name in ("f1", "recall", "precision", "recall_major")
                ),
                *(rate(None if control is None else control.f1) for control in beside),
                f"{score.micro.n_predicted:,.0f}",
                f"{score.micro.n_matched:,.0f}",
                f"{score.coverage.n_answered} of {score.coverage.n_articles}",
            )
        )
    return table(columns, rows)


def _made(systems: Iterable[tuple[str, MadeBy | None]]) -> list[str]:
    """Return who answered, where and how; nothing where no system's rows tell."""
    rows = made_rows(systems)
    return [table(COLUMNS, rows)] if rows else []


def _gates(systems: Sequence[SystemReport]) -> str:
    rows = [
        (
            each.score.system,
            _gate(each.gates.f1),
            _gate(each.gates.recall),
            _passed(is_passed=each.gates.as_documented),
            _passed(is_passed=each.gates.as_coded),
        )
        for each in systems
    ]
    return table(("system", "F1 ≥ 0.58", "recall ≥ 0.45", "either (documents)", "both (code)"), rows)


def _gate(gate: Gate) -> str:
    sure = "" if gate.is_sure or not gate.passes else ", interval reaches below"
    return f"{_passed(is_passed=gate.passes)} ({gate.value:.3f}{sure})"


def _passed(*, is_passed: bool) -> str:
    return "pass" if is_passed else "hold"


def _tests(tests: Sequence[PairedRow]) -> str:
    rows = [
        (
            f"{each.first} → {each.second}",
            named(each.metric),
            f"{each.difference:+.3f}"
            + ("" if each.interval is None else f" [{each.interval[0]:+.3f}, {each.interval[1]:+.3f}]"),
            f"{each.p:.4f}{' (exact)' if each.is_exact else ''}",
            f"{each.p_holm:.4f}",
            f"{each.n_informative} of {each.n_articles}",
        )
        for each in tests
    ]
    return table(("systems", "metric", "second − first", "p", "p, Holm", "articles that differ"), rows)


def _system(system: SystemReport) -> Iterator[str]:
    yield f"## {system.score.system}"
    for title, groups in (
        ("By source", system.sources),
        ("By category of the human concern", system.categories),
        ("By severity of the human concern", system.severities),
    ):
        yield f"### {title}"
        yield _groups(groups)
    yield "### Errors"
    errors = system.errors
    if errors.modes:
        yield table(("how the answer ended", "articles"), list(errors.modes.items()))
    yield table(("human concerns found", "articles"), list(errors.recall.items()))
    if errors.worst:
        rows = [
            (each.article_id, each.source, each.mode or "–", each.n_human, each.n_predicted) for each in errors.worst
        ]
        yield "Articles with most human concerns in which none was found:"
        yield table(("article", "source", "answer", "human", "predicted"), rows)
    if system.faults:
        yield "### Cannot be"
        yield "\n".join(f"- {fault}" for fault in system.faults)


def _groups(groups: Sequence[GroupRow]) -> str:
    has_articles = any(each.n_answered is not None for each in groups)
    columns = ["", "articles", "human", "predicted", "matched", "recall", "precision", "F1"]
    columns += ["F1 permuted", "answered", "none found", "all found"] if has_articles else []
    rows = []
    for each in groups:
        row: list[object] = [each.name, each.n_articles, each.n_human, f"{each.n_predicted:,.0f}"]
        row += [f"{each.n_matched:,.0f}", rate(each.recall, each.interval_recall)]
        row += [rate(each.precision, each.interval_precision), rate(each.f1, each.interval_f1)]
        if has_articles:
            row += [rate(each.f1_permuted), each.n_answered, each.n_none, each.n_all]
        rows.append(row)
    return table(columns, rows)


def _shared(report: ReviewReport) -> Iterator[str]:
    shared = report.shared
    if shared is None:
        return
    yield "## Together"
    rows = [(f"found by {name} alone", n) for name, n in shared.n_found_by_one.items()]
    rows += [("found by all", shared.n_found_by_all), ("found by none", shared.n_found_by_none)]
    yield table(("human concerns", "how many"), rows)
    if shared.none_found:
        yield f"Articles in which no system found anything: {', '.join(shared.none_found)}."


def _published(results: Sequence[PublishedResult]) -> str:
    rows = [
        (
            each.system,
            each.split or "–",
            f"{each.f1:.4f}",
            rate(each.recall, each.interval_recall),
            rate(each.precision, each.interval_precision),
            rate(each.recall_major),
            "–" if each.n_articles is None else each.n_articles,
            "–" if each.n_predicted is None else f"{each.n_predicted:,}",
            f"{each.matcher or 'matcher not stated'}" + ("" if each.threshold is None else f" at {each.threshold:g}"),
            each.file,
        )
        for each in results
    ]
    columns = ("system", "split", "F1", "recall", "precision", "major recall", "articles")
    return table((*columns, "predicted", "matched with", "file"), rows)


def _faults(results: Sequence[PublishedResult]) -> list[str]:
    listed = [f"- {each.system} ({each.file}): {fault}" for each in results for fault in each.faults]
    return ["What cannot be in these files:", "\n".join(listed)] if listed else []
