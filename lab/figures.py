"""Figures of an evaluation as tables for the terminal."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Group
from rich.table import Table

from evals.calibration import Calibration, NullEce
from evals.readers import Agreement, ReaderReport
from evals.report import HEADLINE, WAYS, reading
from evals.schema import Claim, EvalReport, Metric, Record, Share
from evals.verifiers import VERIFIERS
from lab.console import counted, table_of

SHOWN = ("accuracy", "reward", "ece", "brier")


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
            *(_interval(s.metrics[name]) for name in SHOWN),
            reading(s.read_by).replace(", ", "\n"),
        )
        for s in shown
    ]
    whole = {s.stage: s.metrics["accuracy"].n for s in report.summaries if s.group == "all"}
    is_all = all(whole.get(s.stage) == s.metrics["accuracy"].n for s in shown)
    title = f"{report.chain_name} on {report.data_name}, {'all' if is_all else HEADLINE} questions, 95 % intervals"
    return table_of(title, ("answers of", *SHOWN, "read by"), rows)


def readers_table(found: ReaderReport) -> Table:
    """Return how far every way of reading agrees with the labels, and two labellers with each other."""
    rows = [
        (each.reader, each.n, each.n_unread, _interval(each.correct), _interval(each.verdicts))
        for each in found.readers
    ]
    title = f"{counted(found.n, 'labelled answer')} to {counted(found.n_questions, 'question')}, 95 % intervals"
    if found.labellers:
        kappa = found.labellers["cohen_kappa"]
        span = (
            ""
            if kappa.low is None or kappa.high is None
            else f" [{kappa.low:.2f}, {kappa.high:.2f}]"
        )
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
    return table_of(
        f"What {each.reader} reads otherwise", ("id", "label", "verdict", "reason"), rows
    )


def calibration_tables(measured: Calibration) -> Group:
    """Return every calibration metric with its interval or why it has none, and the bins."""
    rows = [
        (name, _cell(getattr(measured, name)), _span(measured, name))
        for name in type(measured).model_fields
        if name not in UNLISTED
    ]
    metrics = table_of("Calibration", ("metric", "value", "95 % interval"), rows)
    bins = [
        (
            f"{one.lower:.2f} to {one.upper:.2f}",
            one.n,
            *(_cell(value) for value in (one.confidence, one.accuracy, one.gap)),
            "" if one.interval is None else f"{_brackets(one.interval)} {one.interval_by}",
        )
        for one in measured.bins
        if one.n
    ]
    columns = ("stated", "n", "confidence", "accuracy", "gap", "95 % interval of accuracy")
    return Group(metrics, table_of("Bins that hold rows", columns, bins))


UNLISTED = ("intervals", "interval_notes", "bins", "risk_coverage", "method", "note")
"""Fields of a calibration that are no line of the table of metrics."""


def _cell(value: object) -> str:
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
    span = (
        ""
        if metric.low is None or metric.high is None
        else f"\n[{metric.low:.2f}, {metric.high:.2f}]"
    )
    return f"{metric.value:.3f}, n {metric.n}{span}"
