"""Reports on reviewers, leaderboards and published results as tables for the terminal."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table

from evals.compare import Comparisons, Difference
from evals.io import rows_write_whole as write_whole
from evals.leaderboard import READING, LeaderboardRow, Standings, shown_ranks
from evals.readers import Agreement, ReaderReport
from evals.report import HEADLINE, MEASURES, WAYS, reading
from evals.run import Rescored
from evals.schema import Claim, EvalReport, Metric, Record, Share, Verdict
from evals.schema.reports import (
    Board,
    Control,
    CurvePoint,
    PublishedResult,
    Rates,
    ReviewReport,
    ReviewScore,
    SystemReport,
)
from evals.schema.reviews import MadeBy
from evals.stats.calibration import Calibration, NullEce
from evals.verifiers.score import VERIFIERS

notes = Console(stderr=True, highlight=False, markup=False)
"""Text is printed as it is: a bracket in a message or a path is no style."""


def emit(document: object, *, as_json: bool, table: RenderableType | None = None) -> None:
    """Print one JSON document, or the table that shows the same to a person."""
    if as_json:
        sys.stdout.write(json.dumps(plain(document), ensure_ascii=False, indent=1) + "\n")
    elif table is not None:
        Console(highlight=False).print(table)


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
        *map(escape, columns),
        title=escape(title),
        title_justify="left",
        caption=None if rows else "nothing yet",
    )
    for row in rows:
        table.add_row(*(escape(str(cell)) for cell in row))
    return table


def counted(n: int, noun: str) -> str:
    """Return "1 vote", "2 votes"."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


FIGURES_SHOWN = ("accuracy", "reward", "ece", "brier")


class VerifiedRow(Record):
    """What `assay eval verify` says of a row."""

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
    cells = [
        (
            row.id,
            f"{row.verdict}\n{WAYS[row.read_by or 'none']}",
            _share(row.stated_confidence),
            *(_share(row.scores[name]) for name in VERIFIERS),
            _share(row.reward),
            row.reason,
        )
        for row in rows
    ]
    counts = Counter(row.verdict for row in rows)
    title = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    columns = ("id", "verdict,\nread by", "confidence", *VERIFIERS, "reward", "reason")
    return table_of(title, columns, cells)


def read_totals(rows: Sequence[VerifiedRow]) -> str:
    """Return how many answers were read how: "line 57, text 2"."""
    counts = Counter(row.read_by or "none" for row in rows)
    return reading({way: counts[way] for way in WAYS if counts[way]})


def verdict_totals(rows: Sequence[VerifiedRow]) -> Table:
    """Return how many answers got each verdict and confidence status, and the means of the scores."""
    verdicts = Counter(row.verdict for row in rows)
    statuses = Counter(row.confidence_status for row in rows)
    cells: list[tuple[str, object]] = [*verdicts.most_common(), ("read by", read_totals(rows))]
    cells += [(f"confidence {status}", count) for status, count in statuses.most_common()]
    for name in VERIFIERS:
        scores = [score for row in rows if (score := row.scores[name]) is not None]
        mean = sum(scores) / len(scores) if scores else None
        cells.append((f"mean {name} of {counted(len(scores), 'answer')}", _share(mean)))
    rewards = [row.reward for row in rows if row.reward is not None]
    mean = sum(rewards) / len(rewards) if rewards else None
    cells.append((f"mean reward of {counted(len(rewards), 'answer')}", _share(mean)))
    return table_of(counted(len(rows), "answer"), ("", "value"), cells)


def summary_table(report: EvalReport) -> Table:
    """Return the stages and baselines of a report on the headline group; 80 columns hold it."""
    shown = [summary for summary in report.summaries if summary.group == HEADLINE]
    rows = [
        (
            s.stage if s.is_baseline else f"{s.stage} (stage)",
            *(_interval(s.metrics[name]) for name in FIGURES_SHOWN),
            reading(s.read_by).replace(", ", "\n"),
        )
        for s in shown
    ]
    whole = {s.stage: s.metrics["accuracy"].n for s in report.summaries if s.group == "all"}
    is_all = all(whole.get(s.stage) == s.metrics["accuracy"].n for s in shown)
    title = f"{report.chain_name} on {report.data_name}, {'all' if is_all else HEADLINE} questions, 95 % intervals"
    return table_of(title, ("answers of", *FIGURES_SHOWN, "read by"), rows)


def readers_table(found: ReaderReport) -> Table:
    """Return how far every way of reading agrees with the labels, and two labellers with each other."""
    rows = [
        (each.reader, each.n, each.n_unread, _interval(each.correct), _interval(each.verdicts))
        for each in found.readers
    ]
    title = f"{counted(found.n, 'labelled answer')} to {counted(found.n_questions, 'question')}, 95 % intervals"
    if found.labellers:
        kappa = found.labellers["cohen_kappa"]
        span = "" if kappa.low is None or kappa.high is None else f" [{kappa.low:.2f}, {kappa.high:.2f}]"
        value = kappa.note if kappa.value is None else f"kappa {kappa.value:.2f}{span}, n {kappa.n}"
        title += f"\ntwo labellers on the same answers: {value}"
    return table_of(title, ("reader", "reads", "does not", "correct or not", "four verdicts"), rows)


def confusion_table(each: Agreement) -> Table:
    """Return how often a label was read as which verdict."""
    rows = [(label, *counts.values()) for label, counts in each.confusion.items()]
    return table_of(f"Label, and what {each.reader} reads", ("label", *each.confusion), rows)


def kind_table(each: Agreement) -> Table:
    """Return the agreement by kind of question."""
    rows = [(kind, tally.n, tally.correct, tally.verdicts) for kind, tally in each.by_kind.items()]
    columns = ("kind", "answers", "correct or not", "four verdicts")
    return table_of(f"Answers on which {each.reader} and label agree", columns, rows)


def misread_table(each: Agreement) -> Table:
    """Return every answer whose verdict is none of its labels."""
    rows = [(one.id, " or ".join(one.labels), one.verdict, one.reason) for one in each.misread]
    return table_of(f"What {each.reader} reads otherwise", ("id", "label", "verdict", "reason"), rows)


def calibration_tables(measured: Calibration) -> Group:
    """Return every calibration metric with its interval or why it has none, and the bins."""
    rows = [
        (name, _figures_cell(getattr(measured, name)), _span(measured, name))
        for name in type(measured).model_fields
        if name not in UNLISTED
    ]
    metrics = table_of("Calibration", ("metric", "value", "95 % interval"), rows)
    bins = [
        (
            f"{one.lower:.2f} to {one.upper:.2f}",
            one.n,
            *(_figures_cell(value) for value in (one.confidence, one.accuracy, one.gap)),
            "" if one.interval is None else f"{_brackets(one.interval)} {one.interval_by}",
        )
        for one in measured.bins
        if one.n
    ]
    columns = ("stated", "n", "confidence", "accuracy", "gap", "95 % interval of accuracy")
    return Group(metrics, table_of("Bins that hold rows", columns, bins))


UNLISTED = ("intervals", "interval_notes", "bins", "risk_coverage", "method", "note")
"""Fields of a calibration that are no line of the table of metrics."""


def _figures_cell(value: object) -> str:
    if isinstance(value, NullEce):
        return f"mean {value.mean:.3f}, q95 {value.q95:.3f}"
    return f"{value:.3f}" if isinstance(value, float) else "–" if value is None else str(value)


def _span(measured: Calibration, name: str) -> str:
    span, note = measured.intervals.get(name), measured.interval_notes.get(name)
    return " ".join(part for part in (span and _brackets(span), note) if part)


def _brackets(span: tuple[float, float]) -> str:
    return f"[{span[0]:.3f}, {span[1]:.3f}]"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _interval(metric: Metric) -> str:
    if metric.value is None:
        return "–"
    span = "" if metric.low is None or metric.high is None else f"\n[{metric.low:.2f}, {metric.high:.2f}]"
    return f"{metric.value:.3f}, n {metric.n}{span}"


SHOWN = ("accuracy", "reward", "ece", "brier", "log_loss", "auroc", "aurc", "stated_share")
NARROW = ("accuracy", "reward", "ece")
"""What 80 columns hold beside the metric that the table is ordered by."""
RULE = (
    "Rank = 1 + the number of entries that are shown to be better: the 95 % interval of the paired"
    " difference excludes zero, and p, corrected by Holm for all pairs in the table, is below 0.05."
    f" No entry of rank 1 is shown to be worse than another. {READING}"
)


UNTESTED = (
    "ECE orders these entries and ranks none: chance adds more to it the more confidences are spread."
    " Order by brier or log_loss to see what is shown."
)


def comparison_table(found: Comparisons) -> Table:
    """Return one line per pair of stages and metric; a difference without p says why."""
    rows = []
    for each in found.comparisons:
        names = [each.first.stage, each.second.stage]
        if each.first.chain != each.second.chain:
            names = [f"{side.stage} of {side.chain}" for side in (each.first, each.second)]
        rows += [(" → ".join(names), *_compared(d)) for d in each.differences]
    n = found.comparisons[0]
    title = (
        f"{found.data_name}, {found.group}: {n.n} questions in {n.n_clusters} clusters; second minus"
        f" first, 95 % intervals; Holm over {found.n_tests} tests"
    )
    sides = {
        (side.stage, side.chain, reading(side.read_by))
        for each in found.comparisons
        for side in (each.first, each.second)
    }
    if len(ways := {way for *_, way in sides}) == 1:
        title += f"\nanswers read by {ways.pop()}"
    else:
        title += "".join(f"\n{stage} of {chain}: answers read by {way}" for stage, chain, way in sorted(sides))
    columns = ("stages", "metric", "n", "first,\nsecond", "difference", "p", "p, Holm")
    return table_of(title, columns, rows)


def reading_table(found: Rescored) -> Table:
    """Return how the answers of every stage and baseline are read, over all scored questions."""
    rows = [(s.stage, reading(s.read_by)) for s in found.report.summaries if s.group == "all"]
    return table_of("How answers are read", ("stage", "answers read by"), rows)


def rescored_table(found: Rescored) -> Table:
    """Return how many answers went from which verdict to which, of every stage where any moved."""
    moved = {count.stage for count in found.counts if count.before != count.after}
    rows = [
        (count.stage, count.before, count.after, count.n)
        for count in found.counts
        if count.stage in moved and count.before != count.after
    ]
    before, after = (_versions(one) for one in (found.before, found.report.versions))
    return table_of(f"Verdicts that changed, {before} to {after}", ("stage", "before", "after", "answers"), rows)


def shift_table(found: Rescored) -> Table:
    """Return the metrics of the headline questions that moved, as they were stored and as they are."""
    rows = [
        (shift.stage, shift.metric, _value(shift.before), _value(shift.after))
        for shift in found.shifts
        if shift.before is not None and _value(shift.before) != _value(shift.after)
    ]
    return table_of("Metrics that moved", ("stage", "metric", "before", "after"), rows)


def change_table(found: Rescored) -> Table:
    """Return every answer that is judged otherwise than before, with both reasons."""
    rows = [
        (
            change.stage,
            change.example_id,
            f"{change.before.verdict}, reward {_reward(change.before)}\n{change.before.reason}",
            f"{change.after.verdict}, reward {_reward(change.after)}\n{change.after.reason}",
            change.completion,
        )
        for change in found.changes
    ]
    return table_of("Answers judged otherwise", ("stage", "question", "before", "after", "answer"), rows)


def _reward(verdict: Verdict) -> str:
    return "–" if verdict.reward is None else f"{verdict.reward:.3f}"


def standings_table(board: Standings) -> Table:
    """Return the entries of one leaderboard in their order, ranked; 80 columns hold it."""
    shown = _columns(board, NARROW)
    rows = [
        (
            rank,
            _name(row),
            *(_measured(row.metrics.get(name), "\n") for name in shown),
            reading(row.read_by).replace(", ", "\n"),
        )
        for rank, row in zip(_ranks(board), board.rows, strict=True)
    ]
    title = f"{board.data_name}, {board.group}, by {board.order}; {_versions(board.versions)}"
    if not MEASURES[board.order].is_tested:
        title = f"{title}\n{UNTESTED}"
    return table_of(title, ("rank", "answers of", *shown, "read by"), rows)


def standings_markdown(boards: Sequence[Standings]) -> str:
    """Return the leaderboards as one Markdown page, with the rule behind the ranks."""
    parts = ["# Leaderboard", RULE]
    for board in boards:
        shown = _columns(board, SHOWN)
        columns = ("rank", "answers of", *shown, "read by")
        lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
        for rank, row in zip(_ranks(board), board.rows, strict=True):
            cells = (
                rank,
                _name(row),
                *(_measured(row.metrics.get(n)) for n in shown),
                reading(row.read_by),
            )
            lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
        untested = [] if MEASURES[board.order].is_tested else [UNTESTED]
        parts += [
            f"## {board.data_name}, {board.group} questions, by {board.order}",
            *untested,
            "\n".join(lines),
            f"Measured with {_versions(board.versions)}; questions {board.data_sha256[:12]}.",
        ]
    return "\n\n".join(parts) + "\n"


def save_standings(boards: Sequence[Standings], folder: Path) -> tuple[Path, Path]:
    """Write leaderboard.md and leaderboard.json into a folder, each whole; return both paths.

    LabError if they cannot be written there.
    """
    document = json.dumps(plain(list(boards)), ensure_ascii=False, indent=1)
    contents = {
        folder / "leaderboard.md": standings_markdown(boards),
        folder / "leaderboard.json": document + "\n",
    }
    for path, text in contents.items():
        write_whole(path, text)
    markdown, rows = contents
    return markdown, rows


def _columns(board: Standings, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((board.order, *names)))


def _compared(d: Difference) -> tuple[str, ...]:
    values = ("–" if value is None else f"{value:.3f}" for value in (d.first, d.second))
    figures = (d.metric, str(d.n), "\n".join(values))
    if d.value is None:
        return *figures, f"– {d.note}", "", ""
    spread = d.low is not None and d.high is not None
    span = f"[{d.low:+.3f}, {d.high:+.3f}]" if spread else ""
    span = " ".join(part for part in (span, d.note) if part)
    if not d.is_tested:
        return *figures, f"{d.value:+.3f} {span}", "not tested", ""
    p = _p(d.p_permutation) + ("\nexact" if d.is_exact else "")
    mcnemar = "" if d.p_mcnemar is None else f"\nMcNemar {_p(d.p_mcnemar)}"
    return *figures, f"{d.value:+.3f} {span}", p + mcnemar, _p(d.p_holm)


def _p(value: float | None) -> str:
    if value is None:
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _ranks(board: Standings) -> list[str]:
    return shown_ranks([row.rank for row in board.rows])


def _name(row: LeaderboardRow) -> str:
    return f"{row.stage} (baseline)" if row.is_baseline else f"{row.stage} of {row.chain}"


def _measured(metric: Metric | None, gap: str = " ") -> str:
    """Return "0.475, n 59 [0.339, 0.603]"; a dash where it is undefined or not measured."""
    if metric is None or metric.value is None:
        return "–"
    value = f"{metric.value:.3f}, n {metric.n}"
    if metric.low is None or metric.high is None:
        return value
    return f"{value}{gap}[{metric.low:.2f}, {metric.high:.2f}]"


def _value(metric: Metric | None) -> str:
    return "–" if metric is None or metric.value is None else f"{metric.value:.3f}"


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(versions.values())


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


RATES = ("human", "said", "match", "recall", "prec.", "F1", "major")
"""Columns of every table of rates: counts, then shares; "major" is the recall of major concerns."""


def score_tables(found: ReviewScore) -> Group:
    """Return the headline with its controls, then the score by source, category and severity."""
    tables = [_headline(found), _pooled(found)]
    tables += [
        _grouped("by source", found.per_source),
        _grouped("by category of the human concern", found.per_category),
        _grouped("by severity of the human concern", found.per_severity),
    ]
    if found.curves is not None:
        tables.append(_curve("over thresholds", "threshold", found.curves.thresholds))
        tables.append(_curve("over the first N concerns", "N", found.curves.lengths))
    return Group(*tables)


def _headline(found: ReviewScore) -> Table:
    head, matcher = found.headline, found.matcher
    cells: list[tuple[str, str]] = [
        ("F1 above permuted papers", f"{number(head.f1_above_permuted)} {span(head.interval)}"),
        ("F1", f"{number(head.f1)} {span(found.intervals.get('f1'))}"),
        ("recall", f"{number(found.micro.recall)} {span(found.intervals.get('recall'))}"),
        ("precision", f"{number(found.micro.precision)} {span(found.intervals.get('precision'))}"),
        ("F1, mean over articles", number(found.macro.f1)),
        ("F1, matches weighed by similarity", number(found.soft.f1)),
        ("category right on matched pairs", number(found.labels.category.accuracy)),
        ("severity right on matched pairs", number(found.labels.severity.accuracy)),
        ("best similarities that pass", number(found.best_similarities_passing)),
        ("answered", f"{found.coverage.n_answered} of {found.coverage.n_articles} articles"),
        ("matcher", f"{matcher.encoder} @ {matcher.revision}, {matcher.assignment}"),
        ("threshold", f"{matcher.threshold:.3f} ({matcher.threshold_from})"),
    ]
    return table_of(found.system, ("what", "value"), cells)


def _pooled(found: ReviewScore) -> Table:
    rows: dict[str, Rates] = {found.system: found.micro}
    if found.controls is not None:
        named: dict[str, Control | None] = {
            "permuted papers": found.controls.permuted,
            "generic list": found.controls.generic,
            "BM25": found.controls.bm25,
            "count bound": found.controls.count_bound,
        }
        rows |= {name: control for name, control in named.items() if control is not None}
    return _grouped("beside its controls", rows)


def _grouped(title: str, rows: Mapping[str, Rates]) -> Table:
    return table_of(title, ("", *RATES), [(name, *_cells(rates)) for name, rates in rows.items()])


def _cells(rates: Rates) -> tuple[str, ...]:
    counts = (rates.n_human, rates.n_predicted, rates.n_matched)
    shares = (rates.recall, rates.precision, rates.f1, rates.recall_major)
    return (*(f"{count:,.0f}" for count in counts), *map(number, shares))


def _curve(title: str, name: str, points: tuple[CurvePoint, ...]) -> Table:
    cells = [
        (
            f"{point.at:g}",
            f"{point.n_predicted:,}",
            number(point.recall),
            number(point.precision),
            number(point.f1),
            number(point.f1_permuted),
        )
        for point in points
    ]
    return table_of(title, (name, "predicted", "recall", "precision", "F1", "F1 permuted"), cells)


def number(value: float | None) -> str:
    """Return three decimals, a dash for what is undefined."""
    return "–" if value is None else f"{value:.3f}"


def span(interval: tuple[float, float] | None) -> str:
    """Return "[0.100, 0.200]", nothing where there is no interval."""
    return "" if interval is None else f"[{interval[0]:.3f}, {interval[1]:.3f}]"


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
    from evals.review.page import named

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
            for rank, row in zip(shown_ranks([row.rank for row in board.rows]), board.rows, strict=True)
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
    from evals.review.page import COLUMNS, made_rows

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
    return table_of("published gates", ("system", "F1 ≥ 0.58", "recall ≥ 0.45", "either", "both"), rows)


def _tests(report: ReviewReport) -> Table:
    from evals.review.page import named

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
