"""A report on reviewers as tables for the page and the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from evals.errors import BadConfig, LabError
from evals.io import write_whole
from evals.review.score import control_rates, micro_rates
from evals.review.task import Review
from evals.schema import Metric
from evals.schema.articles import ReviewRun
from evals.schema.reports import Rates, ReviewedStage, ReviewReport
from evals.schema.reviews import MadeBy
from evals.schema.runs import DEMONSTRATION, is_demonstration

SHOWN = ("temperature", "top_p", "repetition_penalty", "seed", "max_new_tokens", "context")
COLUMNS = ("system", "answered by", "where", "settings", "held to", "date")


def record_beside(rows: Path) -> Path:
    """Return where the record of how rows came about stands: NAME.run.json beside NAME.jsonl."""
    return rows.with_suffix(".run.json")


def check_out(read: Iterable[Path], out: Path, ending: str = ".jsonl") -> None:
    """Raise BadConfig if `out` has another ending, is the record of rows, or is one of the files that are read."""
    if out.suffix != ending or out.name.endswith(".run.json"):
        raise BadConfig(f"--out is {out}; name a file that ends in {ending}, and not in .run.json")
    if out.resolve() in [rows.resolve() for rows in read]:
        raise BadConfig(f"--out {out} is a file that is read; name another file")


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


def copy_record(rows: Path, out: Path) -> bool:
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
    "macro_f1": "F1, mean over papers",
    "f1_above_strongest": "F1 above the strongest control",
    "f1_above_permuted": "F1 above permuted",
    "recall_major": "recall of major concerns",
    "generic_titled": "generic + title",
    "bm25": "BM25",
    "echo": "copied sentences",
    "echo_objected": "copied + “not stated”",
    "count_bound": "count bound",
}
GROUPED = ("f1", "recall", "precision")
"""Metrics of the table of groups."""


def named(metric: str) -> str:
    """Return a metric or control as people write it."""
    return NAMES.get(metric, metric.replace("_", " "))


def told_controls(metrics: Mapping[str, Metric], controls: Iterable[str]) -> list[str]:
    """Return the F1 of each control that there is, the strongest first and the bound last."""
    known = [(name == "count_bound", -(metrics[name].value or 0.0), name) for name in controls if name in metrics]
    return [f"{named(name)} {-value:.3f}" for _, value, name in sorted(known)]


def told_strongest(stage: ReviewedStage, controls: Mapping[str, Rates]) -> str:
    """Return the strongest control with its F1 and the p of the test against it: "copied sentences 0.423, p 0.0940"."""
    if stage.strongest is None:
        return "–"
    p = "" if stage.p is None else f", p {stage.p:.4f}{' (exact)' if stage.is_exact else ''}"
    return f"{named(stage.strongest)} {controls[stage.strongest].f1:.3f}{p}"


def told_restatements(report: ReviewReport) -> str:
    """Return how much of what was said again by hand the matcher sees, as a sentence; "" where that is not known."""
    seen = report.matcher_agreement.get("recall")
    if seen is None or seen.value is None:
        return ""
    span = "" if seen.low is None or seen.high is None else f" [{seen.low:.0%}, {seen.high:.0%}]"
    return (
        f"At {report.matcher.threshold:.3f} this matcher sees {seen.value:.0%}{span} of {seen.n} concerns that were said"
        f" again in other words (hand-labelled pairs): what it does not see counts as not found, so read F1 beside other thresholds."
    )


class Section(NamedTuple):
    """A table of a report, and what has to be known to read it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def report_sections(report: ReviewReport) -> list[Section]:
    """Return what is known of each stage as tables: metrics, F1 over thresholds, controls, groups."""
    matcher, sections = report.matcher, list[Section]()
    for stage, known in report.stages.items():
        groups = {each.group: each.metrics for each in report.summaries if each.stage == stage}
        articles = [row for row in report.rows if row.stage == stage]
        controls, metrics = control_rates(articles), groups["all"]
        cells = [
            *((named(name), number_with_interval(metrics.get(name))) for name in Review.metrics),
            ("strongest control", told_strongest(known, controls)),
            ("matcher", f"{matcher.encoder} @ {matcher.revision}, {matcher.assignment}"),
            ("threshold", f"{matcher.threshold:.3f} ({matcher.threshold_from})"),
        ]
        sections.append(Section(stage, ("what", "value"), cells, told_restatements(report)))
        rows = [
            (
                f"{each.threshold:.3f}{' (used)' if each.is_used else ''}",
                *map(number, (each.f1, each.recall, each.precision, each.f1_permuted)),
            )
            for each in known.thresholds
        ]
        columns = ("threshold", "F1", "recall", "precision", "F1 on other papers")
        sections.append(Section("F1 over thresholds", columns, rows, "other papers: what the same lists get by chance"))
        rows = [
            (named(name), *(f"{n:,.0f}" for n in (each.n_predicted, each.n_matched)), *map(number, rates))
            for name, each in {stage: micro_rates(articles), **controls}.items()
            for rates in ((each.f1, each.recall, each.precision),)
        ]
        reasons = dict.fromkeys(known.no_control.values())
        whose = [", ".join(named(name) for name, each in known.no_control.items() if each == why) for why in reasons]
        missing = "; ".join(f"{names}: {why}" for names, why in zip(whose, reasons, strict=True))
        columns = ("", "said", "matched", "F1", "recall", "precision")
        sections.append(Section("beside its controls", columns, rows, missing))
        rows = [
            (group, str(each["f1"].n), *(number_with_interval(each.get(name)) for name in GROUPED))
            for group, each in groups.items()
            if group != "all"
        ]
        near = "precision is over concerns by the nearest human concern, not by the label that the system gave"
        sections.append(Section("by group", ("", "papers", *map(named, GROUPED)), rows, near))
    return [each for each in sections if each.rows]


def report_page(report: ReviewReport) -> str:
    """Return a report as one Markdown page."""
    parts = [f"# {report.chain_name}: concerns held against those of human reviewers"]
    for section in report_sections(report):
        parts += [f"## {section.title}", table(section.columns, section.rows), section.note]
    if made := made_rows(answered_by([report])):
        parts += ["## Who answered", table(COLUMNS, made)]
    warnings = dict.fromkeys(warning for each in report.stages.values() for warning in each.warnings)
    parts.append("\n".join(f"- {warning}" for warning in warnings))
    return "\n\n".join(filter(None, parts)) + "\n"


def answered_by(reports: Iterable[ReviewReport]) -> list[tuple[str, MadeBy | None]]:
    """Return who answered, by stage."""
    return [(stage, each.made_by) for report in reports for stage, each in report.stages.items()]


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table; a bar or a line break in a cell does not break it."""
    lines = [" | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) for row in (columns, *rows)]
    return "\n".join([f"| {lines[0]} |", f"|{'---|' * len(columns)}", *(f"| {line} |" for line in lines[1:])])


def number(value: float | None) -> str:
    """Return a number with three decimals; a dash for what is not known."""
    return "–" if value is None else f"{value:.3f}"


def number_with_interval(metric: Metric | None) -> str:
    """Return a metric with three decimals and its interval; a dash for what is not known."""
    if metric is None:
        return number(None)
    if metric.low is None or metric.high is None:
        return number(metric.value)
    return f"{number(metric.value)} [{metric.low:.3f}, {metric.high:.3f}]"
