"""Old answers under today's verifiers."""

import pytest

from evals.errors import BadConfig
from evals.report import instrument, summarise
from evals.run import rescore
from evals.schema import EvalReport, EvalRow, Verdict
from evals.verifiers.judged import Reading
from tests.evals.reports import small_report

TODAY = small_report(12)
LONG_AGO = {"verifiers": "verifiers-0", "confidence": "confidence-0"}


def as_judged_long_ago(report: EvalReport, of_stage: str = "sft") -> EvalReport:
    """Return the report as verifiers would have left it that called every answer of a stage wrong."""

    def judge(row: EvalRow) -> EvalRow:
        if row.stage != of_stage:
            return row
        spoilt = row.verdict.model_dump() | {"verdict": "incorrect", "reward": 0.1}
        return row.model_copy(update={"verdict": Verdict.model_validate(spoilt)})

    rows = tuple(judge(row) for row in report.rows)
    changes = {"rows": rows, "summaries": summarise(rows, draws=10), "versions": LONG_AGO}
    return report.model_copy(update=changes)


def test_old_rows_get_todays_verdicts_and_summaries() -> None:
    found = rescore(as_judged_long_ago(TODAY)).report
    assert found.rows == TODAY.rows
    assert found.summaries == TODAY.summaries
    assert found.versions == instrument()


def test_texts_questions_and_origin_stay_as_they_were_stored() -> None:
    old = as_judged_long_ago(TODAY)
    found = rescore(old).report
    for name in ("data_name", "data_sha256", "stage_checksums", "created_at", "command"):
        assert getattr(found, name) == getattr(old, name)
    assert found.settings == {**old.settings, "read": "auto"}
    kept = [(row.example, row.stage, row.prompt, row.completion) for row in found.rows]
    assert kept == [(row.example, row.stage, row.prompt, row.completion) for row in old.rows]


def test_answers_without_an_answer_line_are_read_from_text_and_say_so() -> None:
    plain = {"Answer: down": "It is downregulated."}
    rows = tuple(row.model_copy(update={"completion": plain.get(row.completion, row.completion)}) for row in TODAY.rows)
    old = TODAY.model_copy(update={"rows": rows, "versions": LONG_AGO})
    found = {read: rescore(old, read).report for read in ("auto", "answer", "text")}
    n = len({row.example.id for row in rows})
    assert {
        read: {s.stage: s.read_by for s in report.summaries if s.group == "all"}["base"]
        for read, report in found.items()
    } == {"auto": {"text": n}, "answer": {"none": n}, "text": {"text": n}}
    assert found["text"].settings["read"] == "text"
    right = [row for row in found["auto"].rows if row.stage == "base" and row.verdict.verdict == "correct"]
    assert right and {row.verdict.read_by for row in right} == {"text"}


def test_a_judge_reads_every_answer_that_is_there() -> None:
    found = rescore(TODAY, "judge", lambda tasks: [Reading("down") for _ in tasks]).report
    read_by = {s.stage: s.read_by for s in found.summaries if s.group == "all"}
    assert read_by["base"].keys() == {"judge"} and found.settings["read"] == "judge"
    with pytest.raises(BadConfig, match="none is named"):
        rescore(TODAY, "judge")


def test_a_baseline_of_an_older_report_stays_a_baseline() -> None:
    name = "both directions, 60%"
    rows = tuple(row.model_copy(update={"stage": name}) for row in TODAY.rows if row.stage == "base")
    summaries = summarise(rows, draws=10, baselines=(name,))
    found = rescore(TODAY.model_copy(update={"rows": rows, "summaries": summaries})).report
    assert {s.is_baseline for s in found.summaries} == {True}


def test_the_earlier_versions_are_kept_and_todays_are_not_added_twice() -> None:
    once = rescore(as_judged_long_ago(TODAY)).report
    assert once.earlier_versions == (LONG_AGO,)
    assert rescore(once).report.earlier_versions == (LONG_AGO,)
    assert rescore(once).changes == ()


def test_it_is_counted_and_named_which_verdicts_changed() -> None:
    old = as_judged_long_ago(TODAY)
    found = rescore(old)
    differ = {
        (before.example.id, before.stage)
        for before, after in zip(old.rows, TODAY.rows, strict=True)
        if before.verdict.verdict != after.verdict.verdict
    }
    assert differ
    named = {(each.example_id, each.stage) for each in found.changes if each.is_of_verdict}
    assert named == differ
    assert sum(c.n for c in found.counts if c.before != c.after) == len(differ)
    assert sum(c.n for c in found.counts) == len(old.rows)
    assert {c.stage for c in found.counts if c.before != c.after} == {"sft"}


def test_a_change_of_score_alone_is_listed_but_is_no_change_of_verdict() -> None:
    row = TODAY.rows[0]
    cheap = row.model_copy(update={"verdict": row.verdict.model_copy(update={"scores": {"V1": 0.5}})})
    found = rescore(TODAY.model_copy(update={"rows": (cheap, *TODAY.rows[1:])}))
    (change,) = found.changes
    assert not change.is_of_verdict
    assert change.before == cheap.verdict and change.after == row.verdict


def test_metrics_are_shown_before_and_after() -> None:
    shifts = {(s.stage, s.metric): s for s in rescore(as_judged_long_ago(TODAY)).shifts}
    accuracy = shifts["sft", "accuracy"]
    assert accuracy.before is not None
    assert (accuracy.before.value, accuracy.after.value != 0.0) == (0.0, True)
    assert shifts["base", "accuracy"].before is not None
    assert shifts["base", "accuracy"].before.value == shifts["base", "accuracy"].after.value
