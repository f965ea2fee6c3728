"""What commands print: notes, one JSON document, or tables of it for the terminal."""

import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from evals.schema.questions import Progress
from lab.ui.text import plural, say

if TYPE_CHECKING:
    from evals.compare import Comparisons, Difference
    from evals.confidence import Calibrator, Kept, Promise
    from evals.leaderboard import LeaderboardRow, Standings
    from evals.readers import ReaderReport
    from evals.run import Rescored
    from evals.schema.reports import Report, ReviewReport
    from evals.stats.calibration import Calibration

CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")
ANYTHING = TypeAdapter(Any)
NARROW = 3
"""Metrics that 80 columns hold beside the one that a leaderboard is ordered by."""
WIDTH = 72
"""Characters of a title in one line above an empty table."""
UNLISTED = ("intervals", "interval_notes", "bins", "risk_coverage", "method", "note")
"""Fields of a calibration that are no line of the table of metrics."""


class Terminal(Console):
    """A console to which no text of others, a name or a cell, gives orders: their control characters are shown as �."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text as it is printed."""
        return super().render_str(CONTROL.sub("\ufffd", text), **options)


notes = Terminal(stderr=True, highlight=False, markup=False)
"""Text is printed as it is: a bracket in a message or a path is no style."""
SLOW_SECONDS, LINE_SECONDS = 2.0, 10.0
"""What takes longer is shown, and on what is no terminal so often."""


class Activity:
    """Something that is being done, shown on standard error: a bar, or on what is no terminal a line now and then."""

    def __init__(self, title: str, total: int | None) -> None:
        count = MofNCompleteColumn() if total else TaskProgressColumn(text_format_no_percentage="")
        columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn())
        self._bars = Bars(*columns, console=notes, transient=True, redirect_stdout=False)
        self._task, self._total = self._bars.add_task(title, total=None), total or 100

    def report(self, share: float, message: str) -> None:
        """Say how far it is."""
        done = round(share * self._total)
        self._bars.update(self._task, completed=done, total=self._total, description=message)

    def start(self) -> None:
        """Show it once it takes long."""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Show it no longer."""
        self._is_over.set()
        self._thread.join()

    def _show(self) -> None:
        if self._is_over.wait(SLOW_SECONDS):
            return
        if notes.is_terminal:
            with self._bars:
                self._is_over.wait()
        while not self._is_over.is_set():
            (task,) = self._bars.tasks
            share = "" if task.total is None else f" ({task.percentage:.0f}%)"
            notes.print(f"{task.description}{share}, {task.elapsed or 0:.0f} s", soft_wrap=True)
            self._is_over.wait(LINE_SECONDS)


_activities: list[Activity] = []


@contextmanager
def progress_shown(title: str = "starting", total: int | None = None) -> Generator[Progress]:
    """Show what is being done, of so many steps if a `total` is named; what it is a part of is shown again afterwards."""
    mine = Activity(title, total)
    for each in _activities[-1:]:
        each.stop()
    _activities.append(mine)
    mine.start()
    try:
        yield mine.report
    finally:
        if mine in _activities:
            mine.stop()
            _activities.remove(mine)
            for each in _activities[-1:]:
                each.start()


def end_progress() -> None:
    """Show no more of what is being done: what follows speaks for itself."""
    for each in _activities[-1:]:
        each.stop()
    _activities.clear()


def emit(document: object, *, as_json: bool, table: RenderableType | None = None) -> None:
    """Print one JSON document, or the table that shows the same to a person: a text is the title of one of all fields."""
    end_progress()
    if as_json:
        sys.stdout.write(json.dumps(plain(document), ensure_ascii=False, indent=1) + "\n")
    elif table is not None:
        Terminal(highlight=False).print(as_table(table, document) if isinstance(table, str) else table)


def plain(document: object) -> Any:
    """Return `document` as what json.dumps takes; records become dictionaries."""
    return ANYTHING.dump_python(document, mode="json")


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a table with a caption; an empty one says so."""
    empty: dict[str, Any] = {} if rows else {"caption": "nothing yet", "min_width": min(len(title), WIDTH)}
    table = Table(*map(escape, columns), title=escape(title), title_justify="left", **empty)
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    return table


def as_table(title: str, document: object, *names: str) -> Table:
    """Return a table of a document: of a list a line for each record, else a line for each field, nested ones too.

    `names` are the fields of a record that are shown, all if none are named.
    """
    found = plain(document)
    if not isinstance(found, list):
        return table_of(title, ("what", "value"), [*_fields("", found)])
    keys = names or tuple(dict.fromkeys(key for row in found for key in row)) or ("",)
    columns = [key.replace("_", " ") for key in keys]
    return table_of(title, columns, [[figure(row.get(key)) for key in keys] for row in found])


def _fields(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and not {"value", "low", "high"} <= value.keys():
        for key, each in value.items():
            yield from _fields(f"{name} {key}".strip(), each)
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for number, each in enumerate(value, 1):
            yield from _fields(f"{name} {number}", each)
    else:
        yield name, figure(value)


def figure(value: Any) -> str:
    """Return a value as tables show it: numbers with three digits, from 100 on with none, metrics with their interval, a dash for none."""
    if isinstance(value, BaseModel):
        value = plain(value)
    if isinstance(value, dict):
        if not {"value", "low", "high"} <= value.keys():
            return ", ".join(f"{key} {figure(each)}" for key, each in value.items()) or "–"
        if value["value"] is None:
            return "–"
        span = "" if value["low"] is None or value["high"] is None else f"\n[{value['low']:.2f}, {value['high']:.2f}]"
        return f"{value['value']:.3f}, n {value['n']}{span}"
    if isinstance(value, list | tuple):
        return ", ".join(map(figure, value))
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 100 else f"{value:,.0f}"
    return "–" if value is None else str(value)


# ---- graded answers and reports ----------------------------------------------------------------


def verdict_table(rows: Sequence[Any]) -> Table:
    """Return one line per judged answer; the title counts the verdicts."""
    from evals.report import WAYS
    from evals.verifiers.score import VERIFIERS

    title = ", ".join(f"{n} {verdict}" for verdict, n in Counter(row.verdict for row in rows).most_common())
    cells = []
    for row in rows:
        numbers = (row.stated_confidence, *(row.scores[name] for name in VERIFIERS), row.reward)
        cells.append((row.id, f"{row.verdict}\n{WAYS[row.read_by or 'none']}", *map(figure, numbers), row.reason))
    return table_of(title, ("id", "verdict,\nread by", "confidence", *VERIFIERS, "reward", "reason"), cells)


def read_totals(rows: Sequence[Any]) -> str:
    """Return how many answers were read how: "line 57, text 2"."""
    from evals.report import WAYS, reading

    counts = Counter(row.read_by or "none" for row in rows)
    return reading({way: counts[way] for way in WAYS if counts[way]})


def verdict_totals(rows: Sequence[Any]) -> Table:
    """Return how many answers got each verdict and confidence status, and the means of the scores."""
    from evals.verifiers.score import VERIFIERS

    cells: list[tuple[str, object]] = [*Counter(row.verdict for row in rows).most_common()]
    cells.append(("read by", read_totals(rows)))
    cells += [(f"confidence {status}", n) for status, n in Counter(row.confidence_status for row in rows).most_common()]
    for name in (*VERIFIERS, "reward"):
        found = ({**row.scores, "reward": row.reward}[name] for row in rows)
        scores = [score for score in found if score is not None]
        mean = fmean(scores) if scores else None
        cells.append((f"mean {name} of {plural(len(scores), 'answer')}", figure(mean)))
    return table_of(plural(len(rows), "answer"), ("", "value"), cells)


def summary_table(report: "Report[Any]") -> Table:
    """Return the stages and baselines of a report in the headline group; 80 columns hold it."""
    from evals.report import reading, task_of
    from evals.task import narrow

    task = task_of(report)
    names = narrow(task.metrics)
    shown = [summary for summary in report.summaries if summary.group == task.headline]
    rows = [
        (
            s.stage if s.is_baseline else f"{s.stage} (stage)",
            *(figure(s.metrics[name]) for name in names if name in s.metrics),
            reading(s.read_by).replace(", ", ",\n"),
        )
        for s in shown
    ]
    n = {(s.stage, s.group): s.metrics[names[0]].n for s in report.summaries}
    group = "all" if all(n.get((s.stage, "all")) == n[s.stage, s.group] for s in shown) else task.headline
    title = f"{report.chain_name} on {report.data_name}, {group} {task.noun}, 95 % intervals"
    return table_of(title, ("answers of", *names, "read by"), rows)


def readers_tables(found: "ReaderReport") -> Group:
    """Return how far each way of reading, and two labellers, agree with the labels."""
    title = f"{plural(found.n, 'labelled answer')} to {plural(found.n_questions, 'question')}, 95 % intervals"
    if found.labellers:
        kappa = found.labellers["cohen_kappa"]
        title += f"\ntwo labellers on the same answers: kappa {kappa.note if kappa.value is None else figure(kappa)}"
    tables = [as_table(title, found.readers, "reader", "n", "n_unread", "correct", "verdicts")]
    for each in (one for one in found.readers if one.n):
        rows = [(label, *counts.values()) for label, counts in each.confusion.items()]
        tables.append(table_of(f"Label, and what {each.reader} reads", ("label", *each.confusion), rows))
        by_kind = [{"kind": kind, **dict(tally)} for kind, tally in each.by_kind.items()]
        tables.append(as_table(f"Answers on which {each.reader} and label agree", by_kind))
    return Group(*tables)


def calibration_tables(measured: "Calibration") -> Group:
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


def _brackets(span: tuple[float, float] | None) -> str:
    return "" if span is None else f"[{span[0]:.3f}, {span[1]:.3f}]"


def promises_table(found: "Mapping[str, Promise]", data: str) -> Table:
    """Return one line per stage: its threshold, and what that keeps on the answers it was chosen on and on others."""
    rows = []
    for stage, each in found.items():
        none = say("command.no_promise", n=each.n, needed=each.n_needed)
        at = none if each.threshold is None else f"{each.threshold:.0%}"
        rows.append((stage, str(each.n), at, *(_kept(kept) for kept in (each.chosen_on, each.elsewhere))))
    first = next(iter(found.values()))
    title = say("command.promise", data=data, wrong=f"{first.wrong_at_most:.3g}", sure=f"{first.confidence:.3g}")
    return table_of(title, ("stage", "n", "threshold", "kept, wrong", "elsewhere"), rows)


def _kept(kept: "Kept") -> str:
    if kept.interval is None:
        return f"0 of {kept.n} kept"
    low, high = kept.interval
    return f"{kept.kept} of {kept.n} kept,\n{kept.wrong} wrong ({100 * low:.1f} to {100 * high:.1f} %)"


def sources_table(report: "Report[Any]") -> Table:
    """Return which confidence knows best when an answer is wrong: metrics, and differences to what the stage states."""
    from evals.compare import Pairing, compare
    from evals.report import stages_of, task_of

    names = ("auroc", "aurc", "brier")
    known = {each.stage: each.metrics for each in report.summaries if each.group == task_of(report).headline}
    own, rows = "", []
    for stage in stages_of(report):
        own = stage if not stage.startswith(f"{own} ") else own
        cells = [figure(known[stage][name]) for name in names]
        if stage != own:
            found = compare([((report, own), (report, stage))], Pairing(metrics=names)).comparisons[0].differences
            told = [f"{d.value:+.3f}, p {_p(d.p_permutation)}" if d.value is not None else "" for d in found]
            cells = [f"{cell}\n{each}".strip() for cell, each in zip(cells, told, strict=True)]
        rows.append((stage if stage != own else f"{own} stated", *cells))
    return table_of(say("command.sources", data=report.data_name), ("confidence", "AUROC", "AURC", "Brier"), rows)


def recalibrated_table(found: "Calibrator") -> Table:
    """Return how confidences are as stated and as recalibrated, on the same answers."""
    rows = []
    for name, each in (("stated", found.before), ("recalibrated", found.after)):
        cells = [
            f"{figure(getattr(each, key))}\n{_brackets(each.intervals.get(key))}".strip()
            for key in ("ece", "brier", "log_loss")
        ]
        chance = f"\nby chance up to {figure(each.ece_if_calibrated.q95)}" if each.ece_if_calibrated else ""
        rows.append((name, str(each.n), f"{cells[0]}{chance}", *cells[1:]))
    title = say("command.recalibrated", stage=found.stage, data=found.data_name, method=found.method)
    return table_of(title, ("confidence", "n", "ECE", "Brier", "log loss"), rows)


def reliability_picture(found: "Calibrator") -> str:
    """Return a picture, as SVG, of the share right against the confidence, as stated and as recalibrated."""
    from hub.cards import render

    series = (("stated", "#d55e00", found.before.bins), ("recalibrated", "#0f8278", found.after.bins))
    return render("reliability.svg", title=f"{found.stage} on {found.data_name}, n {found.before.n}", series=series)


def comparison_table(found: "Comparisons") -> Table:
    """Return one line per pair of stages and metric; a difference without p says why."""
    from evals.report import reading
    from evals.task import task_class

    rows, sides = [], [side for each in found.comparisons for side in (each.first, each.second)]
    for each in found.comparisons:
        is_one = each.first.chain == each.second.chain
        both = (each.first, each.second)
        names = " → ".join(side.stage if is_one else _stage_in_chain(side.stage, side.chain) for side in both)
        rows += [(names, *_difference_cells(d)) for d in each.differences]
    n = found.comparisons[0]
    known = {"data": found.data_name, "group": found.group, "asked": task_class(found.task).noun}
    title = say("command.compared", **known, n=n.n, clusters=n.n_clusters, tests=found.n_tests)
    if task_class(found.task).says_reading:
        read = sorted({(side.stage, side.chain, reading(side.read_by)) for side in sides})
        if len({way for *_, way in read}) == 1:
            title += f"\nanswers read by {read[0][2]}"
        else:
            title += "".join(f"\n{stage} of {chain}: answers read by {way}" for stage, chain, way in read)
    return table_of(title, ("stages", "metric", "n", "first,\nsecond", "difference", "p", "p, Holm"), rows)


def _difference_cells(d: "Difference") -> tuple[str, ...]:
    figures = (d.metric, str(d.n), f"{figure(d.first)}\n{figure(d.second)}")
    if d.value is None:
        return *figures, f"– {d.note}", "", ""
    span = f"[{d.low:+.3f}, {d.high:+.3f}] " if d.low is not None and d.high is not None else ""
    difference = f"{d.value:+.3f} {span}{d.note or ''}".strip()
    if not d.is_tested:
        return *figures, difference, "not tested", ""
    p = _p(d.p_permutation) + ("\nexact" if d.is_exact else "")
    mcnemar = "" if d.p_mcnemar is None else f"\nMcNemar {_p(d.p_mcnemar)}"
    return *figures, difference, p + mcnemar, _p(d.p_holm)


def _p(value: float | None) -> str:
    return "< 0.001" if value is not None and value < 0.001 else figure(value)


def rescored_tables(found: "Rescored") -> Group:
    """Return how answers are read, the verdicts that changed and the metrics that moved."""
    from evals.report import reading, task_of

    read = [(s.stage, reading(s.read_by)) for s in found.report.summaries if s.group == "all"]
    says_reading = task_of(found.report).says_reading
    tables = [table_of("How answers are read", ("stage", "answers read by"), read)] if says_reading else []
    if any(change.is_of_verdict for change in found.changes):
        before, after = (", ".join(one.values()) for one in (found.before, found.report.versions))
        changed = [each for each in found.counts if each.before != each.after]
        tables.append(as_table(f"Verdicts that changed, {before} to {after}", changed))
    moved = [
        (each.stage, each.metric, figure(each.before.value), figure(each.after and each.after.value))
        for each in found.shifts
        if each.before is not None
    ]
    if moved:
        rows = [each for each in moved if each[2] != each[3]]
        tables.append(table_of("Metrics that moved", ("stage", "metric", "before", "after"), rows))
    return Group(*tables)


# ---- leaderboards ------------------------------------------------------------------------------


def _standings(board: "Standings", names: Iterable[str]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns and the ranked entries of a leaderboard, with these metrics beside the one of its order."""
    from evals.leaderboard import has_ranks, shown_ranks
    from evals.report import reading
    from evals.review.task import control_figures
    from evals.task import task_class

    task = task_class(board.task)
    shown = tuple(dict.fromkeys((board.order, *names)))
    ranks = [row.rank if has_ranks(board.rows) or len(board.rows) == 1 else None for row in board.rows]
    rows: list[tuple[str, ...]] = [
        (
            rank,
            _entry(row),
            *(figure(row.metrics.get(name)) for name in shown),
            *(["\n".join(control_figures(row.metrics, task.controls)) or "–"] if task.controls else []),
            *([reading(row.read_by).replace(", ", ",\n")] if task.says_reading else []),
        )
        for rank, row in zip(shown_ranks(ranks), board.rows, strict=True)
    ]
    more = [*(["controls"] if task.controls else []), *(["read by"] if task.says_reading else [])]
    return ("rank", "answers of", *shown, *more), rows


def _note(board: "Standings") -> str:
    """Return why nobody is ranked, and how many more examples would rank; "" where somebody is."""
    from evals.leaderboard import APART, has_ranks, questions_needed
    from evals.task import task_class

    task = task_class(board.task)
    if not task.metrics[board.order].is_tested:
        return say("command.untested")
    if has_ranks(board.rows) or len([row for row in board.rows if row.rank]) < 2:
        return ""
    needed, n = questions_needed(board.rows), max(row.metrics[board.order].n for row in board.rows)
    more = say("command.needed", n=needed, points=round(100 * APART)) if needed and needed > n else ""
    return say("command.unranked", n=n, asked=task.noun, more=more)


def standings_table(board: "Standings") -> Table:
    """Return the entries of one leaderboard in their order, ranked; 80 columns hold it."""
    from evals.task import narrow, task_class

    metrics = task_class(board.task).metrics
    title = f"{board.data_name}, {board.group}, by {board.order}; {', '.join(board.versions.values())}"
    if note := _note(board):
        title = f"{title}\n{note}"
    return table_of(title, *_standings(board, narrow(metrics)[:NARROW]))


def standings_markdown(boards: "Sequence[Standings]") -> str:
    """Return the leaderboards as one Markdown page, with the rule behind the ranks."""
    from evals.leaderboard import RULE
    from evals.task import narrow, task_class

    parts = ["# Leaderboard", RULE]
    for board in boards:
        task = task_class(board.task)
        columns, rows = _standings(board, (*narrow(task.metrics), *(task.compared or task.metrics)))
        cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
        lines = [f"| {' | '.join(row)} |" for row in (columns, *cells)]
        parts.append(f"## {board.data_name}, {board.group} {task.noun}, by {board.order}")
        parts += [_note(board)] if _note(board) else []
        measured = f"Measured with {', '.join(board.versions.values())}; {task.noun} {board.data_sha256[:12]}."
        parts += ["\n".join([lines[0], f"|{'---|' * len(columns)}", *lines[1:]]), measured]
    return "\n\n".join(parts) + "\n"


def _entry(row: "LeaderboardRow") -> str:
    name = f"{row.stage} (baseline)" if row.chain is None else _stage_in_chain(row.stage, row.chain)
    return f"{name},\nabstains below {row.abstains_below}" if row.abstains_below else name


def _stage_in_chain(stage: str, chain: str) -> str:
    return stage if stage == chain else f"{stage} of {chain}"


def review_tables(report: "ReviewReport") -> Group:
    """Return a report on reviewers as tables, what has to be known to read one below it."""
    from evals.review.task import report_sections

    shown: list[RenderableType] = []
    for section in report_sections(report):
        shown.append(table_of(section.title, section.columns, section.rows))
        shown += [section.note] if section.note else []
    return Group(*shown)
