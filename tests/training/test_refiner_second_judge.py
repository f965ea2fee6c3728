"""A second judge of a share of the answers: asked beside the first, and never at a cost to a reward."""

import asyncio
from dataclasses import replace

from evals.refine.judge import HeuristicJudge, Inquiry, Verdicts, compare_words
from evals.refine.score import settle
from evals.schema.refiner import RewardConfig
from tests.evals.refiner.answers import GOOD, prepared
from tests.training.rewarding import Log, Talked, called
from training.refine.items import gap
from training.refine.reward import Judging, RefinerReward

WRONG = "<answer><snippet id=S1>OXPHOS is up in liver</snippet></answer>"


def test_the_second_judge_reads_while_the_first_does():
    class Waits(HeuristicJudge):
        """Gives no verdict before the other judge has been asked too."""

        def __init__(self, asked: asyncio.Event, other: asyncio.Event) -> None:
            self.asked, self.other = asked, other

        async def judge(self, inquiry: Inquiry) -> Verdicts:
            self.asked.set()
            await self.other.wait()
            return await super().judge(inquiry)

    one, other, log = asyncio.Event(), asyncio.Event(), Log()
    judging = Judging(Waits(one, other), 30.0, second=Waits(other, one), second_share=1.0)
    (reward,) = called(RefinerReward(RewardConfig(), judging), [GOOD], log)
    assert reward is not None
    assert log.metrics["judge/second_gap"] == 0.0


def test_a_second_judge_that_is_late_costs_no_answer_its_reward():
    class Sleeps(HeuristicJudge):
        async def judge(self, inquiry: Inquiry) -> Verdicts:
            await asyncio.sleep(60)
            return await super().judge(inquiry)

    log = Log()
    judging = Judging(HeuristicJudge(), 0.2, second=Sleeps(), second_share=1.0)
    (reward,) = called(RefinerReward(RewardConfig(), judging), [GOOD], log)
    assert reward is not None
    assert "judge/second_gap" not in log.metrics


def test_a_second_judge_reads_a_share_and_its_distance_is_logged():
    log = Log()
    second = Talked()
    judging = Judging(HeuristicJudge(), second=second, second_share=1.0)
    called(RefinerReward(RewardConfig(), judging), [GOOD, WRONG], log)
    assert len(second.asked) == 2
    assert log.metrics["judge/second_gap"] > 0.05
    none = Judging(HeuristicJudge(), second=(quiet := Talked()), second_share=0.0)
    called(RefinerReward(RewardConfig(), none), [GOOD, WRONG], Log())
    assert quiet.asked == []


def test_items_left_out_of_the_reward_are_left_out_of_the_second_judges_too():
    case = prepared(GOOD)
    verdicts = compare_words(case.inquiry())
    changed = replace(verdicts, raws=(0.0, *verdicts.raws[1:]))
    rewarded = replace(case, items=case.items[1:])
    kept = replace(verdicts, raws=verdicts.raws[1:], quotes=verdicts.quotes[1:])
    assert gap([(rewarded, settle(rewarded, kept), case, changed)], 10.0) == 0.0
    apart = gap([(case, settle(case, verdicts), case, changed)], 10.0)
    assert apart is not None and apart > 0.0
    assert gap([], 10.0) is None
