"""Reports of a refiner: means with intervals, paired differences, answers that take no model."""

from collections.abc import Sequence

import pytest

from evals.compare import compare
from evals.errors import IncomparableReports
from evals.refine.bank import refiner_bank
from evals.refine.citation import copied
from evals.refine.task import Refine
from evals.report import build_report, load_report, save_report, summarise
from evals.run import baseline_rows, graded
from evals.schema.refiner import RewardConfig
from evals.schema.reports import RefinerReport, RefinerRow
from evals.task import Answer
from tests.evals.refiner.answers import GOOD, ORIGIN, record

BAD = "<answer><snippet id=S1>OXPHOS is up in liver</snippet></answer>"
BROKEN = "<answer>cut off"
TASK = Refine()


def rows_of(stage: str, texts: Sequence[str]) -> tuple[RefinerRow, ...]:
    """Return a row per text, two records to a cluster."""
    records = [record(id=f"r{place}", split_group=f"g{place // 2}") for place in range(len(texts))]
    return graded(TASK, records, [Answer(stage, text) for text in texts])


def report(*rows: RefinerRow, **changes: object) -> RefinerReport:
    return build_report([record()], rows, ORIGIN, Refine).model_copy(update=changes)


def test_means_come_with_the_number_of_answers_and_an_interval_over_clusters():
    (found,) = summarise(rows_of("sft", [GOOD, GOOD, GOOD, BROKEN, BROKEN, BROKEN]), task=Refine)
    wellformed = found.metrics["wellformed"]
    assert (wellformed.value, wellformed.n) == (0.5, 6)
    assert wellformed.low < 0.5 < wellformed.high


def test_an_answer_without_a_verdict_stays_out_of_the_mean_and_of_differences_and_is_counted():
    good, other = rows_of("sft", [GOOD, GOOD])
    lost = other.model_copy(update={"scored": other.scored.model_copy(update={"reward": None})})
    (found,) = summarise([good, lost], task=Refine)
    assert found.metrics["reward"].n == 1
    assert found.metrics["reward"].value == good.scored.reward
    assert found.metrics["reward"].note == "1 of 2 answers without a verdict"
    one = report(good, lost, *rows_of("refiner", [BAD, BROKEN]))
    (pair,) = compare([((one, "sft"), (one, "refiner"))]).comparisons
    reward = next(each for each in pair.differences if each.metric == "reward")
    assert (reward.n, reward.second) == (1, one.rows[2].scored.reward)


def test_two_stages_are_compared_record_by_record_and_corrected_for_every_test():
    one = report(*rows_of("sft", [BROKEN] * 12), *rows_of("refiner", [GOOD] * 12))
    (found,) = compare([((one, "sft"), (one, "refiner"))]).comparisons
    reward = next(each for each in found.differences if each.metric == "reward")
    assert (found.n, found.n_clusters) == (12, 6)
    assert reward.first == 0.0 and reward.value == reward.second
    assert reward.p_permutation == pytest.approx(2 / 2**6)
    assert reward.p_holm is not None and reward.p_holm >= reward.p_permutation


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"judge": "http (other)"}, "judge heuristic"),
        ({"judge_mode": "per_item"}, "per_item"),
        ({"data_sha256": "0"}, "different questions"),
        ({"reward": RewardConfig(gate="off")}, "reward"),
    ],
)
def test_reports_of_another_judge_other_records_or_another_reward_are_not_compared(changed, told):
    rows = [*rows_of("sft", [GOOD]), *rows_of("refiner", [GOOD])]
    with pytest.raises(IncomparableReports, match=told):
        compare([((report(*rows), "sft"), (report(*rows, **changed), "refiner"))])


def test_a_report_is_read_back_as_it_was_written(tmp_path):
    written = report(*rows_of("sft", [GOOD, BAD]))
    save_report(written, tmp_path / "r.json")
    assert load_report(tmp_path / "r.json", RefinerReport) == written


def test_the_references_beat_what_anybody_gets_for_nothing():
    rows = baseline_rows(TASK, refiner_bank().test)
    means = {each.stage: each.metrics["reward"].value for each in summarise(rows, draws=10, task=Refine)}
    best = max(value for name, value in means.items() if name != "reference")
    assert means["silent"] == 0.0
    assert means["reference"] > best + 1.0


def test_only_long_runs_of_one_passage_count_as_copied():
    passage = " ".join(f"w{n}" for n in range(40))
    assert copied([passage], {"S1": passage}) == 1.0
    assert copied(["w1 w2 w3 of another text"], {"S1": passage}) == 0.0
    half = f"{' '.join(f'w{n}' for n in range(12))} {' '.join(f'x{n}' for n in range(12))}"
    assert copied([half], {"S1": passage}) == 0.5
    assert copied([], {"S1": passage}) is None
