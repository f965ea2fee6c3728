"""Run any task on any model, and judge old answers again: nothing is generated, the stored texts are graded anew.

Answers of before answer lines were asked for are read from their text, and say so.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError

from evals.errors import BadConfig
from evals.io import write_whole
from evals.questions.task import BASELINES, Questions
from evals.readers import AnswerReader, Way
from evals.report import instrument, summarise, task_of
from evals.schema import Completion, EvalReport, Metric, Record, Share, Verdict
from evals.schema.questions import Model, Progress, Sampling
from evals.schema.reports import ArticleScore, RefinerRow, Report
from evals.task import GradedAnswer, StageAnswer, Task


@dataclass(frozen=True)
class RunSettings:
    """How to run: `partial` is where answers of an unfinished run are kept (None: nowhere, nothing to resume).

    `dtype` is the number format the model computes in; answers in two formats are never mixed. A `draw` from 1 on is a
    sample at temperature 1, with a seed of its own.
    """

    sampling: Sampling = Sampling()
    batch_size: int = 8
    stage_checksums: Mapping[str, str] | None = None
    dtype: str | None = None
    partial: Path | None = None
    draw: int = 0


class Answered(Record):
    """A line of the file of an unfinished run: the answer of a stage to an example."""

    id: str
    answer: Completion
    draw: int = Field(default=0, exclude_if=lambda value: not value)


class Measured(Record):
    """Another line of it: how likely the answer of a stage was, None where that is not known."""

    id: str
    stage: str
    likelihood: Share | None


Line: TypeAdapter[Answered | Measured] = TypeAdapter(Answered | Measured)


def run_task(
    task: Task[Any],
    model: Model,
    examples: Sequence[Any],
    stages: Sequence[str],
    settings: RunSettings,
    progress: Progress | None = None,
) -> tuple[GradedAnswer, ...]:
    """Return one graded row per example and stage, examples in order and stages in the order asked.

    A batch of which any answer is missing is generated whole, and each stage by itself, so that a resumed run, and one of
    other stages beside it, give the same texts. All answers are graded together once they are there. BadConfig for a stage that the model does not have, and for a partial file of
    another run.
    """
    _check(task, model, examples, stages, settings)
    lines = resume(task, examples, stages, settings)
    done = {
        (each.id, each.answer.stage): each.answer
        for each in lines
        if isinstance(each, Answered) and each.draw == settings.draw
    }
    sampling, draw = settings.sampling, settings.draw
    if draw:
        sampling = replace(sampling, temperature=1.0, seed=sampling.seed + draw)
    for start in range(0, len(examples), settings.batch_size):
        batch = examples[start : start + settings.batch_size]
        if not all((task.id_of(each), stage) in done for each in batch for stage in stages):
            prompts = [task.prompt(each) for each in batch]
            found = [
                Answered(id=task.id_of(each), answer=answer.model_copy(update={"stage": stage}), draw=draw)
                for stage in stages
                for each, (answer,) in zip(batch, model.generate(prompts, (stage,), sampling), strict=True)
            ]
            done.update({(each.id, each.answer.stage): each.answer for each in found})
            keep(settings, found)
        if progress is not None:
            count = start + len(batch)
            progress(count / len(examples), f"{count} of {len(examples)} {task.noun} answered")
    answers = [done[task.id_of(each), stage] for each in examples for stage in stages]
    return grade_answers(
        task,
        [each for each in examples for _ in stages],
        [StageAnswer(each.stage, each.text, each.finish_reason) for each in answers],
    )


def grade_answers(task: Task[Any], examples: Sequence[Any], answers: Sequence[StageAnswer]) -> tuple[GradedAnswer, ...]:
    """Return the row of each answer to the example at the same place, all graded at once."""
    grades = task.grade(examples, [each.text for each in answers])
    return tuple(
        task.row(example, task.prompt(example), answer, grade)
        for example, answer, grade in zip(examples, answers, grades, strict=True)
    )


def baseline_rows(task: Task[Any], examples: Sequence[Any], train: Sequence[Any] = ()) -> tuple[GradedAnswer, ...]:
    """Return the rows of every trivial baseline, graded like a model's; `train` are the training rows of the set."""
    answers = [
        (example, StageAnswer(name, text, "given"))
        for name, texts in task.baselines(train, examples).items()
        for example, text in zip(examples, texts, strict=True)
    ]
    return grade_answers(task, [example for example, _ in answers], [answer for _, answer in answers])


# ---- unfinished runs ------------------------------------------------------------------------


def keep(settings: RunSettings, lines: Sequence[Answered | Measured]) -> None:
    """Add lines to the file of an unfinished run, if one is kept."""
    if settings.partial is not None:
        with settings.partial.open("a", encoding="utf-8") as file:
            file.write("".join(each.model_dump_json() + "\n" for each in lines))


def resume(
    task: Task[Any], examples: Sequence[Any], stages: Sequence[str], settings: RunSettings
) -> list[Answered | Measured]:
    """Return the lines of an unfinished run; starts the partial file where there is none."""
    path = settings.partial
    if path is None:
        return []
    fingerprint = json.dumps(
        {
            "task": task.name,
            "data_sha256": task.sha256(examples),
            "prompt": [message.content for message in task.prompt(examples[0])],
            "stages": list(stages),
            "stage_checksums": dict(settings.stage_checksums or {}),
            "sampling": asdict(settings.sampling),
            "batch_size": settings.batch_size,
            "dtype": settings.dtype,
        },
        sort_keys=True,
    )
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fingerprint + "\n", encoding="utf-8")
        return []
    first, *lines = path.read_text(encoding="utf-8").split("\n")
    if first != fingerprint:
        raise BadConfig(
            f"{path} holds an unfinished run of other {task.noun}, stages, weights or settings; delete"
            " it to start again, or give this run another --out"
        )
    found = []
    for line in filter(None, lines):
        with suppress(ValidationError):  # the last line may have been cut off when the run was stopped
            found.append(Line.validate_json(line))
    write_whole(path, "".join(f"{line}\n" for line in (fingerprint, *(each.model_dump_json() for each in found))))
    return found


def _check(
    task: Task[Any], model: Model, examples: Sequence[Any], stages: Sequence[str], settings: RunSettings
) -> None:
    unknown = [stage for stage in stages if stage not in model.stages]
    if unknown or not stages:
        named = ", ".join(unknown) or "none"
        raise BadConfig(f"stage asked for: {named}; this chain has {', '.join(model.stages)}")
    if not examples:
        raise BadConfig("there is no question to ask; name a data set or a file with rows")
    if len({task.id_of(example) for example in examples}) < len(examples):
        raise BadConfig("two questions have the same id; ids tell rows apart, so make them unique")
    if settings.batch_size < 1:
        raise BadConfig(f"batch size must be 1 or more, found {settings.batch_size}")


class Change(Record):
    """One answer whose verdict, stated confidence or scores are not what they were."""

    example_id: str
    stage: str
    completion: str
    before: Verdict | ArticleScore | RefinerRow
    after: Verdict | ArticleScore | RefinerRow

    @property
    def is_of_verdict(self) -> bool:
        """Return whether the verdict itself changed, not only a score or the confidence."""
        return self.before.grade.verdict != self.after.grade.verdict


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

    report: Any
    before: dict[str, str]
    changes: tuple[Change, ...]
    counts: tuple[VerdictCount, ...]
    shifts: tuple[Shift, ...]


def rescore(report: EvalReport, read: Way = "auto", judged_by: AnswerReader | None = None) -> Rescored:
    """Return the same rows under today's instrument, with summaries made anew.

    Weights of the reward are the default ones. The versions that the report had are added to its `earlier_versions`,
    unless they are today's; `read` becomes a setting of the report. `judged_by` is the judge that `read` "judge" needs.
    """
    grades = Questions(read=read, judge=judged_by).grade(
        [row.example for row in report.rows], [row.completion for row in report.rows]
    )
    rows = tuple(row.judged(grade.detail) for row, grade in zip(report.rows, grades, strict=True))  # ty: ignore[invalid-argument-type]
    today = instrument()
    baselines = {*BASELINES, *(each.stage for each in report.summaries if each.is_baseline)}
    earlier = () if report.versions == today else (report.versions,)
    updated = report.model_copy(
        update={
            "rows": rows,
            "versions": today,
            # but for who read its answers before
            "settings": {k: v for k, v in report.settings.items() if not k.startswith("judge")} | {"read": read},
            "summaries": summarise(rows, baselines=baselines),
            "earlier_versions": (*report.earlier_versions, *earlier),
        }
    )
    return changes_of(report, updated)


def changes_of(report: Report[Any], updated: Report[Any]) -> Rescored:
    """Return a report that was brought up to date with what is other in it than before."""
    both = list(zip(report.rows, updated.rows, strict=True))
    moved = Counter((new.stage, old.grade.verdict, new.grade.verdict) for old, new in both if new.grade.verdict)
    task = task_of(updated)
    stored = {(each.stage, each.group): each.metrics for each in report.summaries}
    return Rescored(
        report=updated,
        before=report.instrument,
        changes=tuple(
            Change(
                example_id=old.id,
                stage=old.stage,
                completion=getattr(old, "completion", ""),
                before=getattr(old, "verdict", old),
                after=getattr(new, "verdict", new),
            )
            for old, new in both
            if _figures_of_row(old) != _figures_of_row(new)
        ),
        counts=tuple(
            VerdictCount(stage=stage, before=before, after=after, n=n) for (stage, before, after), n in moved.items()
        ),
        shifts=tuple(
            Shift(
                stage=each.stage,
                metric=name,
                before=stored.get((each.stage, each.group), {}).get(name),
                after=each.metrics[name],
            )
            for each in updated.summaries
            if each.group == task.headline
            for name in task.metrics
        ),
    )


def _figures_of_row(row: Any) -> tuple[object, ...]:
    """Return what counts in a metric; reasons and claims may be worded in another way."""
    if isinstance(row, ArticleScore):
        return row.grade.counts, row.pairs
    if isinstance(row, RefinerRow):
        scored = row.scored
        return scored.reward, scored.rubric, scored.citation_f1, scored.alce_precision, scored.alce_recall
    return row.verdict.verdict, row.verdict.confidence.value, row.verdict.confidence.status, row.verdict.scores
