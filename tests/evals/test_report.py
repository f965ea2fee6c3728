import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import training
from evals.errors import BadConfig, LabError
from evals.questions.baselines import BASELINES
from evals.report import (
    BY_CHANCE,
    CONSTANT,
    HEADLINE,
    METRICS,
    calibration_of,
    grouped,
    instrument,
    load_report,
    reading,
    save_report,
    summarise,
)
from evals.schema import (
    CountTruth,
    EvalReport,
    EvalRow,
    GroundTruth,
    Metric,
    RubricTruth,
    TermTruth,
)
from tests.evals.reports import judged, small_report

REPORT = small_report(24)
EMBEDDED = Path(training.__file__).parent / "embedded"
SHIPPED = sorted(file for stage in ("grpo", "dpo") for file in EMBEDDED.glob(f"{stage}/reports/*.json"))


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
    assert metric("sft", "accuracy", "all").n == len(direct) + metric("sft", "accuracy", "mechanism").n


def test_what_a_set_stands_for_and_its_direction_never_stand_in_one_headline() -> None:
    direct = judged("sft", [("correct", 0.9)] * 3)
    meaning = as_kind(direct[0], TermTruth(accept=("making fat cells",)))
    count = as_kind(direct[1], CountTruth(value=3, subject="heart"))
    headline = {
        "gene sets": [direct[2], meaning, count],
        "a set of one's own": [meaning, count],
    }
    found = {name: [row.example.kind for row in grouped(rows)[HEADLINE]] for name, rows in headline.items()}
    assert found == {"gene sets": ["direct", "count"], "a set of one's own": ["term", "count"]}


def test_a_rubric_is_in_no_metric_until_a_judge_has_scored_it() -> None:
    (scored, row) = judged("sft", [("correct", 0.9)] * 2)
    free = as_kind(row, RubricTruth(items=("It falls.",)))
    unscored = free.model_copy(update={"verdict": free.verdict.model_copy(update={"reward": None})})
    groups = {s.group: s.metrics["reward"].n for s in summarise([scored, unscored], draws=10)}
    assert groups == {"all": 1, "unaided": 1, "direct": 1}
    groups = {s.group: s.metrics["reward"].n for s in summarise([scored, free], draws=10)}
    assert groups == {"all": 2, "unaided": 2, "direct": 1, "rubric": 1}


def test_every_summary_counts_how_its_answers_were_read_and_how_many_have_a_readable_line() -> None:
    outcomes = [("correct", 0.9), ("incorrect", None), ("contradictory", 0.5), ("no_claim", 0.5)]
    rows = [
        *judged("sft", outcomes),
        *judged("sft", [("correct", 0.9)] * 2, read_by="text"),
        *judged("sft", [("no_claim", None)], read_by=None),
    ]
    found = {s.group: s for s in summarise(rows, draws=10)}["all"]
    assert found.read_by == {"answer": 4, "text": 2, "none": 1}
    assert reading(found.read_by) == "line 4, text 2, not read 1"
    assert found.metrics["line_share"].value == pytest.approx(1 / 7)
    old = {s.group: s for s in summarise(judged("sft", outcomes, read_by=None), draws=10)}["all"]
    assert (old.read_by, reading(old.read_by)) == ({}, "not recorded")


def as_kind(row: EvalRow, truth: GroundTruth) -> EvalRow:
    example = row.example.model_copy(update={"ground_truth": truth, "kind": truth.kind})
    return row.model_copy(update={"example": example})


def test_every_metric_has_n_and_an_interval_around_it() -> None:
    for summary in REPORT.summaries:
        assert tuple(summary.metrics) == METRICS
        for name, found in summary.metrics.items():
            if found.value is None:
                assert found.note and (found.n == 0 or name == "auroc")
            elif found.note == CONSTANT or name in BY_CHANCE:
                assert found.low is None and found.high is None and found.n
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
    unknown = {"most frequent in training, 60%"}  # no training rows were given
    assert marks == {"base": False, "sft": False} | dict.fromkeys(BASELINES.keys() - unknown, True)


def test_a_share_that_is_the_same_everywhere_still_has_a_wide_interval() -> None:
    found = metric("empty answer", "accuracy")
    assert found.value == 0.0 and found.low == 0.0
    assert found.high is not None and found.high > 0.05
    assert found.note is not None and "Wilson" in found.note


def test_a_figure_that_is_the_same_in_every_row_claims_no_certainty() -> None:
    found = metric("only a confidence, 50%", "reward")
    assert found.value is not None and found.n > 1
    assert (found.low, found.high, found.note) == (None, None, CONSTANT)


@pytest.mark.parametrize(("stage", "group"), [("dpo", "unaided"), ("sft", "count")])
def test_an_unknown_stage_or_group_is_named_with_the_known_ones(stage: str, group: str) -> None:
    with pytest.raises(BadConfig, match=rf"{stage}.*{group}.*base, sft.*unaided"):
        calibration_of(REPORT, stage, group)


@pytest.mark.parametrize("name", ["ece", "brier", "base_rate_brier", "log_loss", "auroc", "aurc"])
def test_the_calibration_of_a_stage_agrees_with_its_summary(name: str) -> None:
    found = calibration_of(REPORT, "sft")
    assert getattr(found, name) == pytest.approx(metric("sft", name).value)
    assert found.n - found.n_missing_confidence == metric("sft", name).n


def test_the_error_expected_by_chance_agrees_with_the_calibration() -> None:
    found = calibration_of(REPORT, "sft").ece_if_calibrated
    assert found is not None
    assert metric("sft", "ece_if_calibrated").value == pytest.approx(found.mean, abs=0.003)
    assert metric("sft", "ece_if_calibrated_q95").value == pytest.approx(found.q95, abs=0.01)


def test_shares_of_verdicts_and_of_confidences_add_up() -> None:
    for summary in REPORT.summaries:
        shares = {name: summary.metrics[name].value or 0.0 for name in METRICS}
        states = shares["stated_share"] + shares["missing_share"] + shares["invalid_share"]
        assert states == pytest.approx(1)
        known = shares["accuracy"] + shares["no_claim_share"] + shares["contradictory_share"]
        assert known <= 1 + 1e-9


def test_a_verifier_is_averaged_over_the_questions_it_applies_to() -> None:
    rows = [row for row in REPORT.rows if row.stage == "sft" and row.example.kind != "mechanism"]
    for name in ("V1", "V2", "V3", "V4"):
        scores = [s for row in rows if (s := row.verdict.scores.get(name)) is not None]
        found = metric("sft", name)
        assert found.n == len(scores)
        assert found.value == (pytest.approx(sum(scores) / len(scores)) if scores else None)


def test_lost_draws_and_few_clusters_are_told_beside_the_interval() -> None:
    few = [(verdict, c) for verdict, c in (("correct", 0.9), ("incorrect", 0.6), ("correct", 0.7))]
    by_name = {s.group: s.metrics for s in summarise(judged("sft", few), draws=200)}["all"]
    narrow = "from 3 clusters: the interval is too narrow"
    assert by_name["brier"].note == narrow
    many = [(("correct", "incorrect")[i % 7 == 0], 0.5 + i / 60) for i in range(24)]
    by_name = {s.group: s.metrics for s in summarise(judged("sft", many), draws=500)}["all"]
    assert by_name["brier"].note is None
    assert re.fullmatch(r"undefined in \d+\.\d % of the draws, left out", by_name["auroc"].note or "")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_a_shipped_report_can_be_recomputed_from_its_rows(path: Path) -> None:
    report = load_report(path)
    if report.versions.get("metrics") == instrument()["metrics"]:
        baselines = {each.stage for each in report.summaries if each.is_baseline}
        assert summarise(report.rows, baselines=baselines) == report.summaries
        return
    again = {(each.stage, each.group): each.metrics for each in summarise(report.rows, draws=10)}
    for summary in report.summaries:  # an older instrument had fewer metrics, and other draws
        for name, stored in summary.metrics.items():
            if name in BY_CHANCE:
                continue
            now = again[summary.stage, summary.group][name]
            assert (now.value, now.n) == (pytest.approx(stored.value), stored.n), name


def test_there_are_shipped_reports_to_recompute() -> None:
    assert len(SHIPPED) >= 2


def test_a_report_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "r.json"
    save_report(REPORT, path)
    assert load_report(path) == REPORT
    assert [file.name for file in path.parent.iterdir()] == ["r.json"]


def test_a_report_that_cannot_be_written_is_told_and_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", tmp_path / "file" / "x.json"):
        with pytest.raises(LabError, match="cannot write"):
            save_report(REPORT, path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]
    assert list((tmp_path / "folder").iterdir()) == []


@pytest.mark.parametrize("content", [None, "", "{}", "[1]", b"\xff\xfe"])
def test_what_is_no_report_is_refused_with_a_remedy(content: str | bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LabError, match="assay eval run"):
        load_report(path)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda d: d["rows"][3]["verdict"].update(reward=7), "rows.3.verdict.reward"),
        (lambda d: d["rows"][0].pop("completion"), "rows.0.completion"),
        (lambda d: d.update(extra=1), "extra"),
        (lambda d: d["rows"].append(d["rows"][0]), "rows"),
    ],
)
def test_a_spoilt_report_is_refused_by_the_name_of_the_field(
    change: Callable[[dict[str, Any]], object], field: str, tmp_path: Path
) -> None:
    document = json.loads(REPORT.model_dump_json())
    change(document)
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(LabError, match=f"field '{field}'"):
        load_report(path)
