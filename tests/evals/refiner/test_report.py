"""Reports of a refiner: means with intervals, paired differences, answers that take no model."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from evals.errors import BadConfig, IncomparableReports, LabError
from evals.model import Sampling, ScriptedModel
from evals.refine.bank import refiner_bank
from evals.refine.citation import copied
from evals.refine.judge import compare_words
from evals.refine.prompt import messages
from evals.refine.report import Answered, answers, baseline_answers, build, compare, read_report, summaries
from evals.schema.refiner import RewardConfig
from evals.schema.reports import RefinerReport, RefinerRow
from tests.evals.refiner.answers import GOOD, ORIGIN, record

CONFIG = RewardConfig()
BAD = "<answer><snippet id=S1>OXPHOS is up in liver</snippet></answer>"
BROKEN = "<answer>cut off"


def row(stage: str, name: str, text: str, cluster: str = "") -> RefinerRow:
    about = record(id=name, split_group=cluster or name)
    answered = Answered(stage, about, text, "stop")
    prepared = answered.prepared(CONFIG)
    given = compare_words(prepared.inquiry()) if prepared.is_judgeable else None
    return answered.row(prepared, given, "heuristic")


def report(rows: Sequence[RefinerRow], **changes: object) -> RefinerReport:
    return build(rows, [record()], ORIGIN).model_copy(update=changes)


def rows_of(stage: str, texts: Sequence[str]) -> list[RefinerRow]:
    return [row(stage, f"r{place}", text, f"g{place // 2}") for place, text in enumerate(texts)]


def test_means_come_with_the_number_of_answers_and_an_interval_over_clusters():
    (found,) = summaries(rows_of("sft", [GOOD, GOOD, GOOD, BROKEN, BROKEN, BROKEN]))
    wellformed = found.metrics["wellformed"]
    assert (wellformed.value, wellformed.n) == (0.5, 6)
    assert wellformed.low is not None and wellformed.high is not None
    assert wellformed.low < 0.5 < wellformed.high


def test_an_answer_without_a_verdict_stays_out_of_the_mean_and_is_counted():
    good, other = row("sft", "r1", GOOD), row("sft", "r2", GOOD)
    lost = other.model_copy(update={"scored": other.scored.model_copy(update={"reward": None})})
    (found,) = summaries([good, lost])
    assert found.metrics["reward"].n == 1
    assert found.metrics["reward"].value == good.scored.reward
    assert found.metrics["reward"].note == "1 of 2 answers without a verdict"


def test_two_stages_are_compared_record_by_record_and_corrected_for_every_test():
    rows = [*rows_of("sft", [BROKEN] * 12), *rows_of("refiner", [GOOD] * 12)]
    found = compare(report(rows), "sft", report(rows), "refiner")
    reward = next(each for each in found.differences if each.metric == "reward")
    assert (found.n, found.n_clusters) == (12, 6)
    assert reward.first == 0.0 and reward.difference == reward.second
    assert reward.p_permutation == pytest.approx(2 / 2**6)
    assert reward.p_holm is not None and reward.p_holm >= reward.p_permutation


def test_equal_stages_have_no_difference_and_no_interval_of_one_point():
    rows = [*rows_of("sft", [GOOD, BAD] * 3), *rows_of("refiner", [GOOD, BAD] * 3)]
    found = compare(report(rows), "sft", report(rows), "refiner")
    assert {(d.difference, d.interval, d.p_permutation) for d in found.differences} == {(0.0, None, 1.0)}


@pytest.mark.parametrize(
    "changed",
    [
        {"judge": "http (other)"},
        {"judge_mode": "per_item"},
        {"data_sha256": "0"},
        {"reward": RewardConfig(gate="off")},
    ],
)
def test_reports_of_another_judge_other_records_or_another_reward_are_not_compared(changed):
    rows = [*rows_of("sft", [GOOD]), *rows_of("refiner", [GOOD])]
    with pytest.raises(IncomparableReports, match=next(iter(changed))):
        compare(report(rows), "sft", report(rows, **changed), "refiner")


def test_an_unknown_stage_is_refused_with_those_that_there_are():
    rows = rows_of("sft", [GOOD])
    with pytest.raises(BadConfig, match="it has sft"):
        compare(report(rows), "sft", report(rows), "refiner")


def test_a_report_is_read_back_as_it_was_written(tmp_path: Path):
    written = report(rows_of("sft", [GOOD, BAD]))
    (tmp_path / "r.json").write_text(written.model_dump_json(), encoding="utf-8")
    assert read_report(tmp_path / "r.json") == written
    (tmp_path / "bad.json").write_text("{}", encoding="utf-8")
    with pytest.raises(LabError, match="no report of a refiner"):
        read_report(tmp_path / "bad.json")
    with pytest.raises(LabError, match="assay refiner run"):
        read_report(tmp_path / "none.json")
    with pytest.raises(LabError, match="there is no report of a refiner at"):
        read_report(tmp_path / "r.json" / "none.json")


def test_every_stage_answers_every_record_in_the_prompt_that_it_was_trained_with():
    records = refiner_bank().test[:9]
    script = {
        (stage, messages(each)[-1].content): f"<answer>{stage} {each.id}</answer>"
        for each in records
        for stage in ("base", "sft")
    }
    found = answers(ScriptedModel(script), records, ("base", "sft"), Sampling())
    assert [(each.stage, each.record.id) for each in found] == [
        (stage, each.id) for stage in ("base", "sft") for each in records
    ]
    assert found[-1].text == f"<answer>sft {records[-1].id}</answer>"


def test_the_references_beat_what_anybody_gets_for_nothing():
    records = refiner_bank().test
    rows = []
    for each in baseline_answers(records):
        prepared = each.prepared(CONFIG)
        rows.append(each.row(prepared, compare_words(prepared.inquiry()), "heuristic"))
    means = {each.stage: each.metrics["reward"].value for each in summaries(rows, draws=10)}
    best = max(value for name, value in means.items() if name != "reference" and value is not None)
    assert means["silent"] == 0.0
    assert means["reference"] is not None and means["reference"] > best + 1.0


def test_only_long_runs_of_one_passage_count_as_copied():
    passage = " ".join(f"w{n}" for n in range(40))
    assert copied([passage], {"S1": passage}) == 1.0
    assert copied(["w1 w2 w3 of another text"], {"S1": passage}) == 0.0
    half = f"{' '.join(f'w{n}' for n in range(12))} {' '.join(f'x{n}' for n in range(12))}"
    assert copied([half], {"S1": passage}) == 0.5
    assert copied([], {"S1": passage}) is None
