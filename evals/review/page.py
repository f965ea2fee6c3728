"""The score of a reviewer as tables for the page and the terminal, and who gave the answers."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from evals.errors import BadConfig, LabError
from evals.io import write_whole
from evals.review import DEMONSTRATION, is_demonstration
from evals.schema import Metric
from evals.schema.reports import Control, Headline, Rates, ReviewReport, ReviewScore
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


BESIDE = ("fingerprint", "against", "boards", "steps")
"""Keys that only a run's record, a report, a leaderboard and a comparison of checkpoints have."""


def is_beside_scores(path: Path) -> bool:
    """Return whether a file is one that commands write beside scores, and none that could be ranked."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(document, dict) and any(key in document for key in BESIDE)


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
    return MadeBy(
        **run.engine.model_dump(include=set(MadeBy.model_fields)),
        settings=run.settings,
        prompt_version=run.prompt_version,
        date=(run.ended_at or run.started_at).date(),
    )


def made_rows(systems: Iterable[tuple[str, MadeBy | None]]) -> list[tuple[str, ...]]:
    """Return a row under `COLUMNS` for each system, none at all where nothing is known of any."""
    known = list(systems)
    return [_row(system, made) for system, made in known] if any(made for _, made in known) else []


def _row(system: str, made: MadeBy | None) -> tuple[str, ...]:
    if made is None:
        return (system, *["–"] * (len(COLUMNS) - 1))
    who = f"{made.name}, {made.stage}" if made.stage else made.name
    who += f". {DEMONSTRATION}" if is_demonstration(made.stage, made.checksums) else ""
    if made.kind == "server":
        served = ", ".join(made.served)
        who = f"{served} by API, asked for as {made.name}"
        if served in ("", made.name):
            who = f"{made.name} by API" + ("" if served else " (the server named no model)")
    known = [(key, value) for key in SHOWN if isinstance(value := made.settings.get(key), int | float)]
    # whole numbers in full, 20261121, and others without idle zeros, 0.1
    settings = (f"{key} {int(value) if float(value).is_integer() else f'{value:g}'}" for key, value in known)
    return (system, who, made.host or "here", ", ".join(settings), made.constraint, made.date.isoformat())


NAMES = {
    "f1": "F1",
    "f1_above_strongest": "F1 above the strongest control",
    "f1_above_permuted": "F1 above permuted",
    "recall_major": "recall of major concerns",
    "generic_titled": "generic + title",
    "bm25": "BM25",
    "echo": "copied sentences",
    "echo_objected": "copied + “not stated”",
    "count_bound": "count bound",
}


def systems_of(reports: Iterable[ReviewReport]) -> list[tuple[str, MadeBy | None]]:
    """Return who answered, by system."""
    return [(report.chain_name, report.score.made_by) for report in reports]


def named(metric: str) -> str:
    """Return a metric or control as people write it."""
    return NAMES.get(metric, metric)


def told_strongest(headline: Headline) -> str:
    """Return the strongest control with its F1 and the p of the test against it: "copied sentences 0.423, p 0.0940"."""
    if headline.strongest is None:
        return "–"
    p = "" if headline.p is None else f", p {headline.p:.4f}{' (exact)' if headline.is_exact else ''}"
    return f"{named(headline.strongest)} {rate(headline.f1_strongest)}{p}"


def told_controls(metrics: Mapping[str, Metric], controls: Iterable[str]) -> list[str]:
    """Return the F1 of each control that there is, the strongest first and the bound last."""
    known = [(name == "count_bound", -(metrics[name].value or 0.0), name) for name in controls if name in metrics]
    return [f"{named(name)} {-value:.3f}" for _, value, name in sorted(known)]


RATES = ("human", "said", "match", "recall", "prec.", "F1", "major")
"""Columns of a table of rates."""


class Section(NamedTuple):
    """A table of a score, and what has to be known to read it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def score_sections(found: ReviewScore) -> list[Section]:
    """Return a score as tables: headline, F1 over thresholds, controls, groups."""
    head, matcher, micro = found.headline, found.matcher, found.micro
    cells = [
        (named("f1_above_strongest"), rate(head.f1_above_strongest, head.interval_above_strongest)),
        ("strongest control", told_strongest(head)),
        ("F1 above permuted papers", rate(head.f1_above_permuted, head.interval)),
        *(
            (named(name), rate(getattr(micro, name), found.intervals.get(name)))
            for name in ("f1", "recall", "precision")
        ),
        ("F1, mean over articles", rate(found.macro.f1)),
        ("F1, matches weighed by similarity", rate(found.soft.f1)),
        ("category right on matched pairs", rate(found.labels.category.accuracy)),
        ("severity right on matched pairs", rate(found.labels.severity.accuracy)),
        ("best similarities that pass", rate(found.best_similarities_passing)),
        ("answered", f"{found.coverage.n_answered} of {found.coverage.n_articles} articles"),
        ("matcher", f"{matcher.encoder} @ {matcher.revision}, {matcher.assignment}"),
        ("threshold", f"{matcher.threshold:.3f} ({matcher.threshold_from})"),
    ]
    sections = [Section(found.system, ("what", "value"), cells, told_restatements(found))]
    if found.thresholds:
        rows = [
            (
                f"{each.threshold:.3f}{' (used)' if each.is_used else ''}",
                *map(rate, (each.f1, each.recall, each.precision, each.f1_permuted)),
            )
            for each in found.thresholds
        ]
        columns = ("threshold", "F1", "recall", "prec.", "F1 on other papers")
        sections.append(Section("F1 over thresholds", columns, rows, "other papers: what the same lists get by chance"))
    controls = {named(name): each for name, each in found.controls or () if isinstance(each, Control)}
    near = "said is counted by the nearest human concern, not by the label that the system gave"
    groups: dict[tuple[str, str], Mapping[str, Rates]] = {
        ("beside its controls", ""): {found.system: micro, **controls},
        ("by source", ""): found.per_source,
        ("by category of the human concern", near): found.per_category,
        ("by severity of the human concern", near): found.per_severity,
    }
    for (title, note), rates in groups.items():
        rows = [
            (
                name,
                *(f"{n:,.0f}" for n in (each.n_human, each.n_predicted, each.n_matched)),
                *map(rate, (each.recall, each.precision, each.f1, each.recall_major)),
            )
            for name, each in rates.items()
        ]
        sections.append(Section(title, ("", *RATES), rows, note))
    return sections


def told_restatements(found: ReviewScore) -> str:
    """Return how much of what was said again by hand the matcher sees, as a sentence; "" where that is not known."""
    seen = found.restatements
    if seen is None or seen.value is None:
        return ""
    span = "" if seen.low is None or seen.high is None else f" [{seen.low:.0%}, {seen.high:.0%}]"
    return (
        f"At {found.matcher.threshold:.3f} this matcher sees {seen.value:.0%}{span} of {seen.n} concerns that were said"
        f" again in other words (hand-labelled pairs): what it does not see counts as not found, so read F1 beside other thresholds."
    )


def score_page(found: ReviewScore) -> str:
    """Return a score as one Markdown page."""
    parts = [f"# {found.system}: concerns held against those of human reviewers"]
    for section in score_sections(found):
        parts += [f"## {section.title}", table(section.columns, section.rows), section.note]
    if made := made_rows([(found.system, found.made_by)]):
        parts += ["## Who answered", table(COLUMNS, made)]
    parts.append("\n".join(f"- {warning}" for warning in found.warnings))
    return "\n\n".join(filter(None, parts)) + "\n"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table; a bar or a line break in a cell does not break it."""
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(cell, row))} |" for row in rows)])


def cell(value: object) -> str:
    """Return a value as it stands in a cell of a Markdown table."""
    return str(value).replace("|", "\\|").replace("\n", " ")


def span_of(metric: Metric) -> tuple[float, float] | None:
    """Return the interval of a metric."""
    return None if metric.low is None or metric.high is None else (metric.low, metric.high)


def rate(value: float | None, span: tuple[float, float] | None = None) -> str:
    """Return a rate with three decimals and its interval; a dash for what is not known."""
    if value is None:
        return "–"
    return f"{value:.3f}" if span is None else f"{value:.3f} [{span[0]:.3f}, {span[1]:.3f}]"
