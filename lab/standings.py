"""Comparisons, rescored reports and leaderboards as tables for the terminal, and as Markdown."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from evals.comparison import Comparisons
from evals.difference import Difference
from evals.leaderboard import LeaderboardRow, Standings
from evals.measures import MEASURES
from evals.questions.rows import write_whole
from evals.ranks import READING, shown_ranks
from evals.report import reading
from evals.rescore import Rescored
from evals.schema import Metric, Verdict
from lab.console import plain, table_of

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
        title += "".join(
            f"\n{stage} of {chain}: answers read by {way}" for stage, chain, way in sorted(sides)
        )
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
    return table_of(
        f"Verdicts that changed, {before} to {after}", ("stage", "before", "after", "answers"), rows
    )


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
    return table_of(
        "Answers judged otherwise", ("stage", "question", "before", "after", "answer"), rows
    )


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
