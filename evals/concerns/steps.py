"""A reviewer at its checkpoints: scores of one kind side by side, each held against the step before."""

from collections.abc import Sequence

from evals.concerns.board import ABOVE, paired_tests
from evals.concerns.page import rate, table
from evals.schema.reviewreports import PairedRow
from evals.schema.reviewsteps import StepScore, StepsReport

COLUMNS = (
    "step",
    "F1 above permuted",
    "F1",
    "recall",
    "precision",
    "major recall",
    "permuted",
    "predicted",
    "matched",
    "answered",
    "not read whole",
    "s per paper",
    "since the step before",
)
RULE = (
    "Measured on development papers; test papers were not touched and nothing was chosen. Intervals are over"
    " articles (95 %); p is of the paired permutation test of F1 above permuted, corrected by Holm for all pairs"
    " of steps. The more steps are looked at, the likelier the best of them is so by chance: an interval or a"
    " corrected p tells more than a maximum."
)


def steps_report(run: str, steps: Sequence[StepScore], notes: Sequence[str] = ()) -> StepsReport:
    """Return the report on steps whose scores hold their articles; IncomparableReports if made unalike."""
    scores = [each.score for each in steps]
    first = scores[0]
    has_control = all(each.headline.f1_permuted is not None for each in scores)
    tests = paired_tests(scores, (ABOVE if has_control else "f1",), first.draws, first.seed)
    lean = [
        each.model_copy(update={"score": each.score.model_copy(update={"articles": None})})
        for each in steps
    ]
    return StepsReport(
        run=run,
        n_articles=first.coverage.n_articles,
        steps=tuple(lean),
        tests=tests,
        notes=tuple(notes),
    )


def steps_cells(report: StepsReport) -> list[tuple[object, ...]]:
    """Return the rows of the table under `COLUMNS`."""
    tests = {(test.first, test.second): test for test in report.tests}
    rows = []
    before: StepScore | None = None
    for each in report.steps:
        change = tests[(before.score.system, each.score.system)] if before else None
        rows.append(_cells(each, change))
        before = each
    return rows


def steps_page(report: StepsReport) -> str:
    """Return the report as one Markdown page."""
    matcher = report.steps[0].score.matcher
    parts = [
        f"# {report.run} at its checkpoints",
        f"{report.n_articles} development papers, {report.steps[0].score.micro.n_human:,} human concerns;"
        f" matched with {matcher.encoder} at {matcher.threshold:.3f} ({matcher.threshold_from}),"
        f" {matcher.assignment} assignment.",
        table(COLUMNS, steps_cells(report)),
        RULE,
    ]
    warnings = [
        f"- {each.score.system}: {said}" for each in report.steps for said in each.score.warnings
    ]
    notes = [*(f"- {note}" for note in report.notes), *warnings]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])]) + "\n"


def _cells(each: StepScore, change: PairedRow | None) -> tuple[object, ...]:
    score = each.score
    unread = sum(n for status, n in each.statuses.items() if status in ("partial", "failed"))
    return (
        f"{each.step}{' (last)' if each.is_last else ''}",
        rate(score.headline.f1_above_permuted, score.headline.interval),
        *(
            rate(getattr(score.micro, name), score.intervals.get(name))
            for name in ("f1", "recall", "precision", "recall_major")
        ),
        rate(score.headline.f1_permuted),
        f"{score.micro.n_predicted:,.0f}",
        f"{score.micro.n_matched:,.0f}",
        f"{score.coverage.n_answered} of {score.coverage.n_articles}",
        unread,
        "–" if each.seconds_per_article is None else f"{each.seconds_per_article.median:.1f}",
        "–" if change is None else _change(change),
    )


def _change(test: PairedRow) -> str:
    span = "" if test.interval is None else f" [{test.interval[0]:+.3f}, {test.interval[1]:+.3f}]"
    return f"{test.difference:+.3f}{span}, p {test.p_holm:.3f}"
