"""Old answers under today's verifiers: nothing is generated, the stored texts are judged again.

Answers of before answer lines were asked for are read from their text, and say so.
"""

from collections import Counter

from evals.baselines import BASELINES
from evals.measures import MEASURES
from evals.readers import Way, verdicts_on
from evals.report import HEADLINE, instrument, summarise
from evals.schema import EvalReport, Metric, Record, Verdict
from evals.verifiers.judged import Answer, AnswerReader


class Change(Record):
    """One answer whose verdict, stated confidence or scores are not what they were."""

    example_id: str
    stage: str
    completion: str
    before: Verdict
    after: Verdict

    @property
    def is_of_verdict(self) -> bool:
        """Return whether the verdict itself changed, not only a score or the confidence."""
        return self.before.verdict != self.after.verdict


class VerdictCount(Record):
    """How many answers of a stage went from one verdict to another (or stayed)."""

    stage: str
    before: str
    after: str
    n: int


class Shift(Record):
    """A metric of a stage on the headline questions, as stored before and as it is now."""

    stage: str
    metric: str
    before: Metric | None
    after: Metric


class Rescored(Record):
    """A report brought up to date, and what that changed."""

    report: EvalReport
    before: dict[str, str]
    changes: tuple[Change, ...]
    counts: tuple[VerdictCount, ...]
    shifts: tuple[Shift, ...]


def rescore(
    report: EvalReport, read: Way = "auto", judged_by: AnswerReader | None = None
) -> Rescored:
    """Return the same rows under today's instrument, with summaries made anew.

    Questions, ground truth and completions stay as they were stored; weights of the reward are the
    default ones. The versions that the report had are added to its `earlier_versions`, unless they
    are today's; `read`, how answers are read, becomes a setting of the report. `judged_by` is the judge that
    `read` "judge" needs.
    """
    answers = [
        Answer(row.example.ground_truth, row.example.prompt, row.completion) for row in report.rows
    ]
    rows = tuple(
        row.model_copy(update={"verdict": verdict})
        for row, verdict in zip(
            report.rows, verdicts_on(answers, read, judged_by=judged_by), strict=True
        )
    )
    today = instrument()
    baselines = {*BASELINES, *(each.stage for each in report.summaries if each.is_baseline)}
    earlier = () if report.versions == today else (report.versions,)
    updated = report.model_copy(
        update={
            "rows": rows,
            "versions": today,
            "settings": {**_without_judge(report), "read": read},
            "summaries": summarise(rows, baselines=baselines),
            "earlier_versions": (*report.earlier_versions, *earlier),
        }
    )
    moved = Counter(
        (new.stage, old.verdict.verdict, new.verdict.verdict)
        for old, new in zip(report.rows, rows, strict=True)
    )
    return Rescored(
        report=updated,
        before=report.versions,
        changes=_changes(report, updated),
        counts=tuple(
            VerdictCount(stage=stage, before=before, after=after, n=n)
            for (stage, before, after), n in moved.items()
        ),
        shifts=_shifts(report, updated),
    )


def _without_judge(report: EvalReport) -> dict[str, str | int | float | None]:
    """Return the settings of a report but for who read its answers before."""
    return {name: value for name, value in report.settings.items() if not name.startswith("judge")}


def _changes(old: EvalReport, new: EvalReport) -> tuple[Change, ...]:
    return tuple(
        Change(
            example_id=before.example.id,
            stage=before.stage,
            completion=before.completion,
            before=before.verdict,
            after=after.verdict,
        )
        for before, after in zip(old.rows, new.rows, strict=True)
        if _judgement(before.verdict) != _judgement(after.verdict)
    )


def _judgement(verdict: Verdict) -> tuple[object, ...]:
    """Return what counts in a metric; reasons and claims may be worded in another way."""
    return verdict.verdict, verdict.confidence.value, verdict.confidence.status, verdict.scores


def _shifts(old: EvalReport, new: EvalReport) -> tuple[Shift, ...]:
    stored = {(s.stage, s.group): s.metrics for s in old.summaries}
    return tuple(
        Shift(
            stage=summary.stage,
            metric=name,
            before=stored.get((summary.stage, summary.group), {}).get(name),
            after=summary.metrics[name],
        )
        for summary in new.summaries
        if summary.group == HEADLINE
        for name in MEASURES
    )
