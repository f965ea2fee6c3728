"""The refiner's reward as TRL calls it: who is judged, what a missing verdict costs, what is logged."""

import asyncio
import json
import pickle
from dataclasses import replace
from statistics import pstdev

import pytest

from evals.errors import BadConfig, TrainingStopped
from evals.refine.judge import HeuristicJudge, Inquiry, Judge, Verdicts
from evals.refine.rubric import items_of
from evals.refine.score import settle
from evals.schema.refiner import RewardConfig
from tests.evals.refiner.answers import GOOD, prepared, record
from tests.training.judge_server import Asked, JudgeServer, Reply, says, well
from tests.training.rewarding import Log, Talked, called
from training.data.refiner import grpo_row
from training.judge.judge import HttpJudge, StopRule
from training.judge.questions import HttpSettings
from training.refine.items import ItemBook, figures_of, group_spread, means
from training.refine.reward import Judging, RefinerReward, records_of

WRONG = "<answer><snippet id=S1>OXPHOS is up in liver</snippet></answer>"
CUT = "<answer><snippet id=S1>OXPHOS is down"
UNKNOWN = "<answer><snippet id=X9>OXPHOS is down in liver</snippet></answer>"


def reward_by(judge: Judge, stop: StopRule | None = None) -> RefinerReward:
    return RefinerReward(RewardConfig(), Judging(judge), stop=stop)


def test_a_good_answer_earns_more_than_a_wrong_one_and_a_broken_one_nothing():
    good, wrong, cut = called(reward_by(HeuristicJudge()), [GOOD, WRONG, CUT])
    assert good is not None and wrong is not None
    assert 10.0 >= good > wrong > 0.0
    assert cut == 0.0


def test_nobody_is_asked_about_answers_whose_reward_is_known():
    judge = Talked()
    rewards = called(reward_by(judge), [GOOD, CUT, UNKNOWN, "<answer></answer>"])
    assert rewards[1:] == [0.0, 0.0, 0.0]
    assert len(judge.asked) == 1


def test_answers_are_read_while_others_wait_for_their_judge():
    read: list[str] = []
    read_before: list[int] = []

    class Book(ItemBook):
        def asked(self, record_id, items):
            read.append(record_id)
            return super().asked(record_id, items)

    class Waits(Talked):
        async def judge(self, inquiry: Inquiry) -> Verdicts:
            read_before.append(len(read))
            await asyncio.sleep(0.01)
            return await super().judge(inquiry)

    called(RefinerReward(RewardConfig(), Judging(Waits()), Book()), [GOOD] * 20)
    assert read_before[0] < 5
    assert len(read) == 20


def test_a_missing_verdict_costs_an_answer_its_reward_and_no_points():
    judge = Talked(lambda inquiry: "up" in inquiry.answer)
    rewards = called(reward_by(judge, stop=StopRule(0.5)), [GOOD, WRONG, GOOD])
    assert rewards[1] is None
    assert rewards[0] == rewards[2] == pytest.approx(10.0)


def test_a_judge_that_fails_too_often_ends_the_run_and_says_what_it_said():
    judge = Talked(lambda inquiry: True)
    with pytest.raises(TrainingStopped, match=r"no verdict on 2 of 2 answers.*it said nothing"):
        called(reward_by(judge), [GOOD, WRONG])


def test_patience_lets_a_judge_recover():
    judge = Talked(lambda inquiry: len(judge.asked) <= 2)
    reward = reward_by(judge, stop=StopRule(0.25, patience=2))
    assert called(reward, [GOOD, GOOD]) == [None, None]
    assert None not in called(reward, [GOOD, GOOD])


def test_a_server_that_hangs_costs_one_deadline_and_gives_no_reward():
    with JudgeServer(lambda asked: 30.0) as server:
        judging = Judging(HttpJudge(HttpSettings(server.url, timeout_seconds=60)), 0.3)
        reward = RefinerReward(RewardConfig(), judging, stop=StopRule(1.0))
        assert called(reward, [GOOD, WRONG]) == [None, None]


def test_parts_and_the_line_to_the_judge_are_logged():
    log = Log()
    with JudgeServer() as server:
        reward = reward_by(HttpJudge(HttpSettings(server.url)))
        called(reward, [GOOD, WRONG, CUT], log)
    names = {"none_rate", "latency_s", "retries", "cache_hit", "loose"}
    assert {f"judge/{name}" for name in names} <= set(log.metrics)
    assert log.metrics["judge/asked"] == pytest.approx(2 / 3)
    assert set(log.extras) == {"why", "rubric", "citation_f1", "format_bonus", "claims"}
    assert all(len(values) == 3 for values in log.extras.values())


def test_the_reward_travels_between_processes_and_with_a_cache_needs_no_server(tmp_path):
    with JudgeServer() as server:
        settings = HttpSettings(server.url, model="m", cache=tmp_path / "v.sqlite", retries=0)
        reward = reward_by(HttpJudge(settings))
        first = called(reward, [GOOD, WRONG])
        assert called(pickle.loads(pickle.dumps(reward)), [GOOD, WRONG]) == first
    again = called(reward_by(HttpJudge(replace(settings))), [GOOD, WRONG])
    assert again == first and None not in first


def test_rows_of_a_table_are_read_without_a_record_column():
    one = json.loads(grpo_row(record())["record"])
    columns = {name: [value] for name, value in one.items() if name != "prompt"}
    (read,) = records_of({**columns, "question": [None]}, ["Which way?"], 1)
    assert read.tool_output == record().tool_output
    assert read.positive_rubrics == record().positive_rubrics


@pytest.mark.parametrize(
    ("columns", "says_what"),
    [
        ({}, "columns found: none"),
        ({"record": ['{"id": "a", "prompt": "q"}']}, "tool_output"),
        ({"id": ["a"], "tool_output": ["<snippet id=S1>x"]}, "never closed"),
    ],
)
def test_rows_that_hold_no_record_are_refused(columns, says_what):
    with pytest.raises(BadConfig, match=says_what):
        records_of(columns, ["q"], 1)


ITEMS = items_of(record(), RewardConfig(static_rubrics=False))


def seen(book: ItemBook, *visits: tuple[tuple[float | None, ...], ...]) -> ItemBook:
    """Return the book after visits, each the scores of some answers."""
    for visit in visits:
        for scores in visit:
            book.note("r1", ITEMS, scores)
        book.settle([book.take()])
    return book


def test_an_item_that_no_longer_tells_answers_apart_is_retired_after_so_many_visits():
    book = seen(ItemBook(2), *[((2.0, 0.0), (2.0, 1.0))] * 2)
    assert [item.title for item in book.asked("r1", ITEMS)] == ["wrong way"]
    assert (book.retired, book.asked("another", ITEMS)) == (1, ITEMS)


def test_an_item_that_varies_again_starts_anew_and_one_always_stays():
    book = seen(ItemBook(2), *(tuple((score, score) for score in scores) for scores in ((1, 1), (1, 2), (1, 1))))
    assert book.retired == 0
    assert len(seen(book, *[((1.0, 1.0), (1.0, 1.0))] * 3).asked("r1", ITEMS)) == 1
    assert seen(ItemBook(1), ((None, 1.0), (2.0, None))).retired == 0  # what was not judged is no visit


def test_processes_that_share_a_group_agree_on_its_items():
    here, there = ItemBook(1), ItemBook(1)
    here.note("r1", ITEMS, (1.0, 0.0))
    there.note("r1", ITEMS, (1.0, 2.0))
    parts = [here.take(), there.take()]
    for book in (here, there):
        book.settle(parts)
    assert here.alike == there.alike == {"r1": {"+:way": 1, "-:wrong way": 0}}


def test_figures_that_do_not_apply_stay_out_of_the_mean():
    case = prepared(CUT)
    found = means([figures_of(case, None, settle(case, None))])
    assert "answer/ids_per_claim" not in found
    assert found["score/format"] == 0.0


def test_a_server_that_fails_now_and_then_leaves_the_other_rows_alone():
    def moody(asked: Asked) -> Reply:
        return says("I would rather not.") if "up" in asked.parts["ANSWER"] else well(asked)

    with JudgeServer(moody) as server:
        judge = HttpJudge(HttpSettings(server.url, retries=0))
        rewards = called(reward_by(judge, stop=StopRule(0.5)), [GOOD, WRONG])
    assert rewards[0] is not None and rewards[1] is None


def test_the_spread_of_scores_is_their_standard_deviation():
    for scores in ([0.0, 2.0], [0.1] * 7, [0.0, 0.5, 1.5, 2.0, 2.0]):
        assert group_spread({"r1": {"way": scores}}) == pytest.approx(pstdev(scores), abs=1e-12)
