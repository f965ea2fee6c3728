"""Old answers under today's verifiers: nothing is generated, the stored texts are judged again.

Answers of before answer lines were asked for are read from their text, and say so.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import ValidationError

from evals.errors import BadConfig
from evals.model import Model, Progress, Sampling
from evals.questions import conversation, data_sha256
from evals.questions.baselines import BASELINES, baseline_answers
from evals.readers import Way, verdicts_on
from evals.report import HEADLINE, MEASURES, instrument, summarise
from evals.schema import EvalReport, EvalRow, Example, Message, Metric, Record, Verdict
from evals.verifiers import Read, verify
from evals.verifiers.judged import Answer, AnswerReader


@dataclass(frozen=True)
class RunSettings:
    """How to run: `partial` is where unfinished rows are kept (None: nowhere, nothing to resume).

    `dtype` is the number format the model computes in; answers in two formats are never mixed. `read` is how
    answers are read (`evals.verifiers.READINGS`).
    """

    system_prompt: str
    sampling: Sampling = Sampling()
    batch_size: int = 8
    stage_checksums: Mapping[str, str] | None = None
    dtype: str | None = None
    read: Read = "auto"
    partial: Path | None = None


def run_evaluation(
    model: Model,
    examples: Sequence[Example],
    stages: Sequence[str],
    settings: RunSettings,
    progress: Progress | None = None,
) -> tuple[EvalRow, ...]:
    """Return one row per question and stage, questions in order and stages in the order asked.

    A batch of which any row is missing is generated whole, so a resumed run gives the same texts.
    BadConfig for a stage that the model does not have, and for a partial file of another run.
    """
    _check(model, examples, stages, settings)
    done = _resume(examples, stages, settings)
    for start in range(0, len(examples), settings.batch_size):
        batch = examples[start : start + settings.batch_size]
        if all((example.id, stage) in done for example in batch for stage in stages):
            continue
        rows = _answered(model, batch, stages, settings)
        done.update({(row.example.id, row.stage): row for row in rows})
        _append(settings.partial, rows)
        if progress is not None:
            count = min(start + settings.batch_size, len(examples))
            progress(count / len(examples), f"{count} of {len(examples)} questions answered")
    return tuple(done[example.id, stage] for example in examples for stage in stages)


def baseline_rows(
    examples: Sequence[Example],
    system_prompt: str,
    train: Sequence[Example] = (),
    read: Read = "auto",
) -> tuple[EvalRow, ...]:
    """Return the rows of every trivial baseline, judged like a model's; `train` as in `baseline_answers`."""
    prompts = [conversation(example, system_prompt) for example in examples]
    return tuple(
        _row(example, name, prompt, answer, "stop", read)
        for name, answers in baseline_answers(examples, train).items()
        for example, prompt, answer in zip(examples, prompts, answers, strict=True)
    )


def _answered(model: Model, batch: Sequence[Example], stages: Sequence[str], settings: RunSettings) -> list[EvalRow]:
    prompts = [conversation(example, settings.system_prompt) for example in batch]
    answers = model.generate(prompts, stages, settings.sampling)
    return [
        _row(example, stage, prompt, answer.text, answer.finish_reason, settings.read)
        for example, prompt, of_stages in zip(batch, prompts, answers, strict=True)
        for stage, answer in zip(stages, of_stages, strict=True)
    ]


def _row(
    example: Example,
    stage: str,
    prompt: tuple[Message, ...],
    text: str,
    finish_reason: str,
    read: Read,
) -> EvalRow:
    return EvalRow.model_validate(
        {
            "example": example,
            "stage": stage,
            "prompt": prompt,
            "completion": text,
            "finish_reason": finish_reason,
            "verdict": verify(example, text, read=read),
        }
    )


# ---- unfinished runs ------------------------------------------------------------------------


def _fingerprint(examples: Sequence[Example], stages: Sequence[str], settings: RunSettings) -> str:
    return json.dumps(
        {
            "data_sha256": data_sha256(examples),
            "stages": list(stages),
            "stage_checksums": dict(settings.stage_checksums or {}),
            "system_prompt": settings.system_prompt,
            "sampling": asdict(settings.sampling),
            "batch_size": settings.batch_size,
            "dtype": settings.dtype,
            "read": settings.read,
            "versions": instrument(),
        },
        sort_keys=True,
    )


def _resume(
    examples: Sequence[Example], stages: Sequence[str], settings: RunSettings
) -> dict[tuple[str, str], EvalRow]:
    """Return the rows of an unfinished run; starts the partial file where there is none."""
    path = settings.partial
    if path is None:
        return {}
    fingerprint = _fingerprint(examples, stages, settings)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fingerprint + "\n", encoding="utf-8")
        return {}
    first, *lines = path.read_text(encoding="utf-8").split("\n")
    if first != fingerprint:
        raise BadConfig(
            f"{path} holds an unfinished run of other questions, stages, weights or settings; delete"
            " it to start anew, or give this run another --out"
        )
    rows = [row for line in lines if (row := _whole(line)) is not None]
    text = "".join(f"{line}\n" for line in (fingerprint, *(row.model_dump_json() for row in rows)))
    whole = path.with_name(path.name + ".new")
    whole.write_text(text, encoding="utf-8")
    whole.replace(path)
    return {(row.example.id, row.stage): row for row in rows}


def _whole(line: str) -> EvalRow | None:
    """Return the row of a line, None if it was cut off when the run was stopped."""
    try:
        return EvalRow.model_validate_json(line) if line else None
    except ValidationError:
        return None


def _append(path: Path | None, rows: Sequence[EvalRow]) -> None:
    if path is None:
        return
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(row.model_dump_json() + "\n" for row in rows))


def _check(model: Model, examples: Sequence[Example], stages: Sequence[str], settings: RunSettings) -> None:
    unknown = [stage for stage in stages if stage not in model.stages]
    if unknown or not stages:
        named = ", ".join(unknown) or "none"
        raise BadConfig(f"stage asked for: {named}; this chain has {', '.join(model.stages)}")
    if not examples:
        raise BadConfig("there is no question to ask; name a data set or a file with rows")
    if len({example.id for example in examples}) < len(examples):
        raise BadConfig("two questions have the same id; ids tell rows apart, so make them unique")
    if settings.batch_size < 1:
        raise BadConfig(f"batch size must be 1 or more, found {settings.batch_size}")


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


def rescore(report: EvalReport, read: Way = "auto", judged_by: AnswerReader | None = None) -> Rescored:
    """Return the same rows under today's instrument, with summaries made anew.

    Questions, ground truth and completions stay as they were stored; weights of the reward are the
    default ones. The versions that the report had are added to its `earlier_versions`, unless they
    are today's; `read`, how answers are read, becomes a setting of the report. `judged_by` is the judge that
    `read` "judge" needs.
    """
    answers = [Answer(row.example.ground_truth, row.example.prompt, row.completion) for row in report.rows]
    rows = tuple(
        row.model_copy(update={"verdict": verdict})
        for row, verdict in zip(report.rows, verdicts_on(answers, read, judged_by=judged_by), strict=True)
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
        (new.stage, old.verdict.verdict, new.verdict.verdict) for old, new in zip(report.rows, rows, strict=True)
    )
    return Rescored(
        report=updated,
        before=report.versions,
        changes=_changes(report, updated),
        counts=tuple(
            VerdictCount(stage=stage, before=before, after=after, n=n) for (stage, before, after), n in moved.items()
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
