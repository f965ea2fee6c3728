from pathlib import Path

import pytest

from evals.baselines import BASELINES
from evals.errors import BadConfig, LabError
from evals.report import (
    CONSTANT,
    METRICS,
    calibration_of,
    load_report,
    paired_difference,
    save_report,
    summarise,
)
from evals.schema import EvalReport, Metric
from tests.evals.reports import small_report

REPORT = small_report(24)


def metric(stage: str, name: str, group: str = "unaided", report: EvalReport = REPORT) -> Metric:
    for summary in report.summaries:
        if (summary.stage, summary.group) == (stage, group):
            return summary.metrics[name]
    raise AssertionError((stage, group))


def test_the_summary_can_be_recomputed_from_the_rows() -> None:
    stored = EvalReport.model_validate_json(REPORT.model_dump_json())
    assert summarise(stored.rows) == stored.summaries == REPORT.summaries


def test_mechanism_questions_never_count_in_the_headline() -> None:
    direct = [row for row in REPORT.rows if row.stage == "sft" and row.example.kind != "mechanism"]
    right = sum(row.verdict.verdict == "correct" for row in direct)
    accuracy = metric("sft", "accuracy")
    assert (accuracy.value, accuracy.n) == (pytest.approx(right / len(direct)), len(direct))
    assert (
        metric("sft", "accuracy", "all").n == len(direct) + metric("sft", "accuracy", "mechanism").n
    )


def test_every_metric_has_n_and_an_interval_around_it() -> None:
    for summary in REPORT.summaries:
        assert tuple(summary.metrics) == METRICS
        for name, found in summary.metrics.items():
            if found.value is None:
                assert found.n == 0 and found.note
            elif found.note == CONSTANT:
                assert found.low is None and found.high is None
            elif name != "ece":  # resampled ECE is biased upward: its interval need not hold it
                assert found.low is not None and found.high is not None
                assert found.low - 1e-9 <= found.value <= found.high + 1e-9
                assert found.low < found.high


def test_an_answer_without_confidence_is_in_no_calibration_figure() -> None:
    assert metric("base", "ece").value is None
    assert metric("base", "stated_share").value == 0.0


def test_a_confidence_without_a_claim_makes_no_calibration() -> None:
    assert metric("only a confidence, 50%", "brier").value is None
    assert metric("only a confidence, 50%", "stated_share").value == 1.0


def test_baselines_are_marked_and_models_are_not() -> None:
    marks = {summary.stage: summary.is_baseline for summary in REPORT.summaries}
    assert marks == {"base": False, "sft": False} | dict.fromkeys(BASELINES, True)


def test_a_share_that_is_the_same_everywhere_still_has_a_wide_interval() -> None:
    found = metric("empty answer", "accuracy")
    assert found.value == 0.0 and found.low == 0.0
    assert found.high is not None and found.high > 0.05
    assert found.note is not None and "Wilson" in found.note


def test_a_paired_difference_of_a_stage_with_itself_is_zero() -> None:
    found = paired_difference(REPORT, ("sft", "sft"), "reward")
    assert (found.value, found.low, found.high, found.note) == (0.0, None, None, CONSTANT)


def test_a_figure_that_is_the_same_in_every_row_claims_no_certainty() -> None:
    found = metric("only a confidence, 50%", "reward")
    assert found.value is not None and found.n > 1
    assert (found.low, found.high, found.note) == (None, None, CONSTANT)


@pytest.mark.parametrize("name", ["accuracy", "reward"])
def test_a_paired_difference_is_second_minus_first(name: str) -> None:
    found = paired_difference(REPORT, ("base", "sft"), name)
    first, second = metric("base", name).value, metric("sft", name).value
    assert first is not None and second is not None
    assert found.value == pytest.approx(second - first)
    assert found.low is not None and found.high is not None
    assert found.low <= found.value <= found.high


def test_a_paired_difference_that_is_the_same_in_every_draw_has_no_interval() -> None:
    found = paired_difference(REPORT, ("base", "sft"), "stated_share")
    assert (found.value, found.low, found.high, found.note) == (1.0, None, None, CONSTANT)


def test_a_difference_that_is_undefined_says_why() -> None:
    found = paired_difference(REPORT, ("base", "sft"), "ece")
    assert found.value is None and found.note


@pytest.mark.parametrize(
    ("stages", "name", "group", "complaint"),
    [
        (("base", "dpo"), "reward", "unaided", "dpo"),
        (("base", "sft"), "bleu", "unaided", "bleu"),
        (("base", "sft"), "reward", "count", "count"),
    ],
)
def test_an_unknown_stage_metric_or_group_is_named(
    stages: tuple[str, str], name: str, group: str, complaint: str
) -> None:
    with pytest.raises(BadConfig, match=complaint):
        paired_difference(REPORT, stages, name, group)


def test_the_calibration_of_a_stage_agrees_with_its_summary() -> None:
    found = calibration_of(REPORT, "sft")
    assert found.ece == pytest.approx(metric("sft", "ece").value)
    assert found.brier == pytest.approx(metric("sft", "brier").value)
    assert found.n - found.n_missing_confidence == metric("sft", "ece").n


def test_a_report_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "r.json"
    save_report(REPORT, path)
    assert load_report(path) == REPORT
    assert [file.name for file in path.parent.iterdir()] == ["r.json"]


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", b"\xff\xfe"])
def test_what_is_no_report_is_refused_with_a_remedy(
    content: str | bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "r.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LabError, match="assay eval run"):
        load_report(path)
