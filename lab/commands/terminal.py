"""What commands print: notes, one JSON document or tables for the terminal, of every kind of report."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from evals.compare import Comparisons, Difference
from evals.leaderboard import RULE, LeaderboardRow, Standings, shown_ranks
from evals.readers import ReaderReport
from evals.report import WAYS, reading, task_of
from evals.run import Rescored
from evals.schema import Claim, Metric, Record, Share
from evals.schema.reports import Report, ReviewScore
from evals.schema.reviews import MadeBy
from evals.stats.calibration import Calibration, NullEce
from evals.task import narrow, task_class
from evals.verifiers.score import VERIFIERS
from lab.ui.text import counted, say

if TYPE_CHECKING:
    pass

CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")


class Terminal(Console):
    """A console to which no text of others, a name or a cell, gives orders: their control characters are shown as �."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text as it is printed."""
        return super().render_str(CONTROL.sub("\ufffd", text), **options)


notes = Terminal(stderr=True, highlight=False, markup=False)
"""Text is printed as it is: a bracket in a message or a path is no style."""


def emit(document: object, *, as_json: bool, table: RenderableType | None = None) -> None:
    """Print one JSON document, or the table that shows the same to a person."""
    if as_json:
        sys.stdout.write(json.dumps(plain(document), ensure_ascii=False, indent=1) + "\n")
    elif table is not None:
        Terminal(highlight=False).print(table)


def plain(document: object) -> object:
    """Return `document` as what json.dumps takes; records become dictionaries."""
    if isinstance(document, BaseModel):
        return document.model_dump(mode="json")
    if isinstance(document, dict):
        return {str(key): plain(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [plain(value) for value in document]
    return document


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a table with a caption; an empty one says so."""
    table = Table(
        *map(escape, columns), title=escape(title), title_justify="left", caption=None if rows else "nothing yet"
    )
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    return table


class VerifiedRow(Record):
    """What `assay eval verify` says of a row, beside the row's columns that it does not know."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str
    verdict: str
    answer: str | None
    read_by: str | None
    stated_confidence: Share | None
    confidence_status: str
    scores: dict[str, Share | None]
    reward: Share | None
    reason: str
    claims: tuple[Claim, ...]


def verdict_table(rows: Sequence[VerifiedRow]) -> Table:
    """Return one line per judged answer; the title counts the verdicts."""
    title = ", ".join(f"{n} {verdict}" for verdict, n in Counter(row.verdict for row in rows).most_common())
    cells = []
    for row in rows:
        numbers = (row.stated_confidence, *(row.scores[name] for name in VERIFIERS), row.reward)
        cells.append((row.id, f"{row.verdict}\n{WAYS[row.read_by or 'none']}", *map(figure, numbers), row.reason))
    return table_of(title, ("id", "verdict,\nread by", "confidence", *VERIFIERS, "reward", "reason"), cells)


def read_totals(rows: Sequence[VerifiedRow]) -> str:
    """Return how many answers were read how: "line 57, text 2"."""
    counts = Counter(row.read_by or "none" for row in rows)
    return reading({way: counts[way] for way in WAYS if counts[way]})


def verdict_totals(rows: Sequence[VerifiedRow]) -> Table:
    """Return how many answers got each verdict and confidence status, and the means of the scores."""
    cells: list[tuple[str, object]] = [*Counter(row.verdict for row in rows).most_common()]
    cells.append(("read by", read_totals(rows)))
    cells += [(f"confidence {status}", n) for status, n in Counter(row.confidence_status for row in rows).most_common()]
    for name in (*VERIFIERS, "reward"):
        found = ({**row.scores, "reward": row.reward}[name] for row in rows)
        scores = [score for score in found if score is not None]
        mean = fmean(scores) if scores else None
        cells.append((f"mean {name} of {counted(len(scores), 'answer')}", figure(mean)))
    return table_of(counted(len(rows), "answer"), ("", "value"), cells)


def summary_table(report: Report[Any]) -> Table:
    """Return the stages and baselines of a report in the headline group; 80 columns hold it."""
    task = task_of(report)
    names = narrow(task.metrics)
    shown = [summary for summary in report.summaries if summary.group == task.headline]
    rows = [
        (
            s.stage if s.is_baseline else f"{s.stage} (stage)",
            *(_measured(s.metrics[name]) for name in names if name in s.metrics),
            reading(s.read_by).replace(", ", ",\n"),
        )
        for s in shown
    ]
    n = {(s.stage, s.group): s.metrics[names[0]].n for s in report.summaries}
    group = "all" if all(n.get((s.stage, "all")) == n[s.stage, s.group] for s in shown) else task.headline
    title = f"{report.chain_name} on {report.data_name}, {group} {task.asked}, 95 % intervals"
    return table_of(title, ("answers of", *names, "read by"), rows)


def readers_tables(found: ReaderReport) -> Group:
    """Return how far each way of reading, and two labellers, agree with the labels."""
    rows: list[tuple[object, ...]] = [
        (each.reader, each.n, each.n_unread, _measured(each.correct), _measured(each.verdicts))
        for each in found.readers
    ]
    title = f"{counted(found.n, 'labelled answer')} to {counted(found.n_questions, 'question')}, 95 % intervals"
    if found.labellers:
        kappa = found.labellers["cohen_kappa"]
        span = "" if kappa.low is None or kappa.high is None else f" [{kappa.low:.2f}, {kappa.high:.2f}]"
        value = kappa.note if kappa.value is None else f"kappa {kappa.value:.2f}{span}, n {kappa.n}"
        title += f"\ntwo labellers on the same answers: {value}"
    tables = [table_of(title, ("reader", "reads", "does not", "correct or not", "four verdicts"), rows)]
    for each in (one for one in found.readers if one.n):
        rows = [(label, *counts.values()) for label, counts in each.confusion.items()]
        tables.append(table_of(f"Label, and what {each.reader} reads", ("label", *each.confusion), rows))
        rows = [(kind, tally.n, tally.correct, tally.verdicts) for kind, tally in each.by_kind.items()]
        columns = ("kind", "answers", "correct or not", "four verdicts")
        tables.append(table_of(f"Answers on which {each.reader} and label agree", columns, rows))
    return Group(*tables)


def calibration_tables(measured: Calibration) -> Group:
    """Return every calibration metric with its interval or why it has none, and the bins."""
    spans, why = measured.intervals, measured.interval_notes
    rows = [
        (name, figure(getattr(measured, name)), f"{_brackets(spans.get(name))} {why.get(name, '')}".strip())
        for name in type(measured).model_fields
        if name not in UNLISTED
    ]
    metrics = table_of("Calibration", ("metric", "value", "95 % interval"), rows)
    bins = []
    for one in (one for one in measured.bins if one.n):
        span = f"{_brackets(one.interval)} {one.interval_by}" if one.interval else ""
        numbers = map(figure, (one.confidence, one.accuracy, one.gap))
        bins.append((f"{one.lower:.2f} to {one.upper:.2f}", one.n, *numbers, span))
    columns = ("stated", "n", "confidence", "accuracy", "gap", "95 % interval of accuracy")
    return Group(metrics, table_of("Bins that hold rows", columns, bins))


UNLISTED = ("intervals", "interval_notes", "bins", "risk_coverage", "method", "note")
"""Fields of a calibration that are no line of the table of metrics."""


def figure(value: object) -> str:
    """Return a number as tables show it: three digits, a dash where there is none."""
    if isinstance(value, NullEce):
        return f"mean {value.mean:.3f}, q95 {value.q95:.3f}"
    return f"{value:.3f}" if isinstance(value, float) else "–" if value is None else str(value)


def _brackets(span: tuple[float, float] | None) -> str:
    return "" if span is None else f"[{span[0]:.3f}, {span[1]:.3f}]"


NARROW = 3
"""Metrics that 80 columns hold beside the one that the table is ordered by."""


def comparison_table(found: Comparisons) -> Table:
    """Return one line per pair of stages and metric; a difference without p says why."""
    rows = []
    for each in found.comparisons:
        sides = (each.first, each.second)
        is_one = each.first.chain == each.second.chain
        names = " → ".join(side.stage if is_one else _named(side.stage, side.chain) for side in sides)
        rows += [(names, *_compared(d)) for d in each.differences]
    n = found.comparisons[0]
    known = {"data": found.data_name, "group": found.group, "asked": task_class(found.task).asked}
    title = say("command.compared", **known, n=n.n, clusters=n.n_clusters, tests=found.n_tests)
    if task_class(found.task).says_reading:
        every = [side for each in found.comparisons for side in (each.first, each.second)]
        read = sorted({(side.stage, side.chain, reading(side.read_by)) for side in every})
        if len({way for *_, way in read}) == 1:
            title += f"\nanswers read by {read[0][2]}"
        else:
            title += "".join(f"\n{stage} of {chain}: answers read by {way}" for stage, chain, way in read)
    columns = ("stages", "metric", "n", "first,\nsecond", "difference", "p", "p, Holm")
    return table_of(title, columns, rows)


def rescored_tables(found: Rescored) -> Group:
    """Return how answers are read, the verdicts that changed and the metrics that moved."""
    read = [(s.stage, reading(s.read_by)) for s in found.report.summaries if s.group == "all"]
    says_reading = task_of(found.report).says_reading
    tables = [table_of("How answers are read", ("stage", "answers read by"), read)] if says_reading else []
    if any(change.is_of_verdict for change in found.changes):
        rows = [(each.stage, each.before, each.after, each.n) for each in found.counts if each.before != each.after]
        before, after = (", ".join(one.values()) for one in (found.before, found.report.versions))
        title = f"Verdicts that changed, {before} to {after}"
        tables.append(table_of(title, ("stage", "before", "after", "answers"), rows))
    if found.shifts:
        moved = [
            (shift.stage, shift.metric, figure(shift.before.value), figure(shift.after and shift.after.value))
            for shift in found.shifts
            if shift.before is not None
        ]
        rows = [each for each in moved if each[2] != each[3]]
        tables.append(table_of("Metrics that moved", ("stage", "metric", "before", "after"), rows))
    return Group(*tables)


def _standings(board: Standings, names: Iterable[str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns and the ranked entries of a leaderboard, with these metrics beside the one of its order."""
    task = task_class(board.task)
    from evals.review.page import told_controls

    shown = tuple(dict.fromkeys((board.order, *names)))
    rows: list[tuple[str, ...]] = [
        (
            rank,
            _name(row),
            *(_measured(row.metrics.get(name)) for name in shown),
            *(["\n".join(told_controls(row.metrics, task.controls)) or "–"] if task.controls else []),
            *([reading(row.read_by).replace(", ", ",\n")] if task.says_reading else []),
        )
        for rank, row in zip(shown_ranks([row.rank for row in board.rows]), board.rows, strict=True)
    ]
    more = [*(["controls"] if task.controls else []), *(["read by"] if task.says_reading else [])]
    return ("rank", "answers of", *shown, *more), rows


def standings_table(board: Standings) -> Table:
    """Return the entries of one leaderboard in their order, ranked; 80 columns hold it."""
    metrics = task_class(board.task).metrics
    title = f"{board.data_name}, {board.group}, by {board.order}; {', '.join(board.versions.values())}"
    if not metrics[board.order].is_tested:
        title = f"{title}\n{say('command.untested')}"
    return table_of(title, *_standings(board, narrow(metrics)[:NARROW]))


def standings_markdown(boards: Sequence[Standings]) -> str:
    """Return the leaderboards as one Markdown page, with the rule behind the ranks."""
    parts = ["# Leaderboard", RULE]
    for board in boards:
        task = task_class(board.task)
        columns, rows = _standings(board, (*narrow(task.metrics), *(task.compared or task.metrics)))
        cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
        lines = [f"| {' | '.join(row)} |" for row in (columns, *cells)]
        parts.append(f"## {board.data_name}, {board.group} {task.asked}, by {board.order}")
        parts += [] if task.metrics[board.order].is_tested else [say("command.untested")]
        measured = f"Measured with {', '.join(board.versions.values())}; {task.asked} {board.data_sha256[:12]}."
        parts += ["\n".join([lines[0], f"|{'---|' * len(columns)}", *lines[1:]]), measured]
    return "\n\n".join(parts) + "\n"


def _compared(d: Difference) -> tuple[str, ...]:
    figures = (d.metric, str(d.n), f"{figure(d.first)}\n{figure(d.second)}")
    if d.value is None:
        return *figures, f"– {d.note}", "", ""
    span = f"[{d.low:+.3f}, {d.high:+.3f}] " if d.low is not None and d.high is not None else ""
    span = f"{span}{d.note or ''}".strip()
    if not d.is_tested:
        return *figures, f"{d.value:+.3f} {span}", "not tested", ""
    p = _p(d.p_permutation) + ("\nexact" if d.is_exact else "")
    mcnemar = "" if d.p_mcnemar is None else f"\nMcNemar {_p(d.p_mcnemar)}"
    return *figures, f"{d.value:+.3f} {span}", p + mcnemar, _p(d.p_holm)


def _p(value: float | None) -> str:
    return "< 0.001" if value is not None and value < 0.001 else figure(value)


def _name(row: LeaderboardRow) -> str:
    return f"{row.stage} (baseline)" if row.chain is None else _named(row.stage, row.chain)


def _named(stage: str, chain: str) -> str:
    return stage if stage == chain else f"{stage} of {chain}"


def _measured(metric: Metric | None) -> str:
    """Return "0.475, n 59" and below it "[0.339, 0.603]"; a dash where it is undefined or not measured."""
    if metric is None or metric.value is None:
        return "–"
    span = "" if metric.low is None or metric.high is None else f"\n[{metric.low:.2f}, {metric.high:.2f}]"
    return f"{metric.value:.3f}, n {metric.n}{span}"


RATES = ("human", "said", "match", "recall", "prec.", "F1", "major")
"""Columns of every table of rates: counts, then shares; "major" is the recall of major concerns."""


def _made(systems: Iterable[tuple[str, MadeBy | None]]) -> list[Table]:
    from evals.review.page import COLUMNS, made_rows

    rows = made_rows(systems)
    return [table_of("who answered", COLUMNS, rows)] if rows else []


def score_tables(found: ReviewScore) -> Group:
    """Return a score as tables, what has to be known to read one below it."""
    from evals.review.page import score_sections

    shown: list[RenderableType] = []
    for section in score_sections(found):
        shown.append(table_of(section.title, section.columns, section.rows))
        shown += [section.note] if section.note else []
    return Group(*shown)
