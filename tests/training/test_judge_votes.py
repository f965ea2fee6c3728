"""Several votes of a judge: what stands, what is asked again, which items are left out as noise."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.refine.judge import Inquiry, Verdicts
from evals.refine.score import settle
from evals.schema.refiner import RewardConfig, RubricItem
from tests.evals.refiner.answers import GOOD, prepared
from tests.training.judge_server import Asked, Behaviour, JudgeServer, Reply, says, well
from tests.training.test_refiner_reward import WRONG, Log, Talked, called
from training.judge.client import HttpJudge
from training.judge.judge import judged
from training.judge.questions import HttpSettings, Verdict
from training.judge.votes import apart, majority
from training.refine.items import ItemBook
from training.refine.reward import Judging, RefinerReward


def votes(*scores: float) -> list[Verdict]:
    return [Verdict(score, f"words {score:g}") for score in scores]


@pytest.mark.parametrize(
    ("given", "asked", "stands"),
    [
        ((2, 0, 2), 3, 2),
        ((0, 0, 2), 3, 0),
        ((0, 1, 2), 3, 1),
        ((0, 2), 2, 1),
        ((0, 0, 2, 2, 1), 5, 1),
        ((2,), 1, 2),
        ((2, 2), 3, 2),
        ((2,), 2, None),
        ((2,), 3, None),
        ((), 1, None),
    ],
)
def test_most_votes_stand_else_the_median_and_nothing_without_a_majority_of_replies(given, asked, stands):
    found = majority(votes(*given), asked)
    assert (found and found.score) == stands
    if found is not None and stands in given:
        assert found.quote == f"words {stands:g}"


def test_votes_lie_apart_by_their_range_on_the_scale():
    assert apart(votes(0, 1, 2), 2.0) == 1.0
    assert apart(votes(1, 1), 2.0) == 0.0
    assert apart(votes(), 2.0) == 0.0


def asked(server: JudgeServer, count: int, **settings: Any) -> Verdicts:
    fast = HttpSettings(server.url, retries=0, backoff_seconds=0.0, votes=count)
    case = prepared(GOOD, static_rubrics=False)
    (found,) = judged(HttpJudge(replace(fast, **settings)), [case.inquiry()], 10.0)
    return found


def wavering(titles: str, answers: tuple[float, ...]) -> Behaviour:
    """Return a judge that says one thing after the other about items whose text begins so."""
    seen: dict[str, int] = {}

    def reply(asked: Asked) -> Reply:
        rows = []
        for item, row in zip(asked.items, asked.verdicts(), strict=True):
            if item["text"].startswith(titles):
                place = seen[item["text"]] = seen.get(item["text"], -1) + 1
                score = answers[place % len(answers)]
                row = {**row, "score": score, "evidence_quote": "down" if score else ""}
            rows.append(row)
        return says({"verdicts": rows})

    return reply


def test_one_vote_asks_as_ever_and_knows_nothing_of_disagreement():
    with JudgeServer() as server:
        found = asked(server, 1)
        assert len(server.requests) == 2
        assert {each.body["seed"] for each in server.requests} == {0}
    assert found.apart == ()


def test_votes_differ_in_seed_names_and_order_and_agreement_needs_no_third():
    with JudgeServer() as server:
        found = asked(server, 5)
        rubric = [each for each in server.requests if len({i["kind"] for i in each.items}) == 1]
    assert len(server.requests) == 4
    assert {each.body["seed"] for each in rubric} == {0, 1}
    first, second = ({row["item"] for row in each.items} for each in rubric)
    assert not first & second
    assert found.apart == (0.0,) * len(found.raws)
    assert settle(prepared(GOOD, static_rubrics=False), found).reward == pytest.approx(10.0)


def test_only_what_two_votes_do_not_agree_on_is_put_to_vote_again():
    with JudgeServer(wavering("way:", (2.0, 0.0, 2.0))) as server:
        found = asked(server, 3)
        later = [each for each in server.requests if each.body["seed"] == 2]
    assert len(later) == 1
    assert len(later[0].items) == 2  # the item and the canary
    assert max(found.apart) == 1.0 and sorted(found.apart)[-2] == 0.0
    assert found.raws[found.apart.index(1.0)] == 2.0


def test_a_vote_that_never_came_leaves_the_majority_of_the_others():
    def deaf_at_first(asked: Asked) -> Reply:
        return (500, b"") if asked.body["seed"] == 0 else well(asked)

    case = prepared(GOOD, static_rubrics=False)
    with JudgeServer(deaf_at_first) as server:
        assert settle(case, asked(server, 3)).reward == pytest.approx(10.0)
        assert settle(case, asked(server, 2)).reward is None


def test_a_judge_fooled_in_one_vote_of_three_is_overruled_and_told_of():
    def fooled_once(asked: Asked) -> Reply:
        if asked.body["seed"] == 0:
            return says({"verdicts": [{**row, "score": 2, "evidence_quote": "down"} for row in asked.verdicts()]})
        return well(asked)  # fmt: skip

    with JudgeServer(fooled_once) as server:
        found = asked(server, 3)
    assert found.canary and found.canary > 0
    assert settle(prepared(GOOD, static_rubrics=False), found).reward == pytest.approx(10.0)


def test_each_vote_is_cached_for_itself(tmp_path: Path):
    with JudgeServer(wavering("way:", (2.0, 0.0, 2.0))) as server:
        first = asked(server, 3, cache=tmp_path / "v.sqlite")
        count = len(server.requests)
        assert asked(server, 3, cache=tmp_path / "v.sqlite") == first
        assert len(server.requests) == count


class Unsure(Talked):
    """A judge whose votes on some items lie apart."""

    def __init__(self, titles: frozenset[str]) -> None:
        super().__init__()
        self.titles = titles

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        found = await super().judge(inquiry)
        return replace(
            found,
            raws=tuple(
                0.0 if item.title in self.titles else raw for item, raw in zip(inquiry.items, found.raws, strict=True)
            ),
            apart=tuple(float(item.title in self.titles) for item in inquiry.items),
        )


ITEMS = {
    "positive_rubrics": (
        RubricItem(title="sure", description='Says "down".'),
        RubricItem(title="unsure", description='Says "liver".'),
    )
}


def rewards(titles: frozenset[str], limit: float, log: Log | None = None) -> list[float | None]:
    config = RewardConfig(static_rubrics=False, apply_citation=False)
    reward = RefinerReward(config, Judging(Unsure(titles), noise_limit=limit))
    return called(reward, [GOOD, WRONG], log, **ITEMS)


def test_items_on_which_the_judge_does_not_agree_with_itself_are_left_out_and_counted():
    log = Log()
    graded_by_all = rewards(frozenset(["unsure"]), 1.0)
    without_noise = rewards(frozenset(["unsure"]), 0.5, log)
    assert all(each is not None and each < 10.0 for each in graded_by_all)
    assert without_noise == [10.0, 10.0]
    n_items = 3  # two of ours, one unwanted behaviour of the record
    assert log.metrics["items/left_out"] == pytest.approx(1 / n_items)
    assert log.metrics["judge/apart"] == pytest.approx(1 / n_items)


class Slow(Unsure):
    """Unsure, and never done with one of the answers."""

    async def judge(self, inquiry: Inquiry) -> Verdicts:
        if "up in liver" in inquiry.answer:
            await asyncio.sleep(60)
        return await super().judge(inquiry)


def test_a_late_verdict_costs_its_answer_the_reward_and_the_others_only_their_noise():
    config = RewardConfig(static_rubrics=False, apply_citation=False)
    judging = Judging(Slow(frozenset(["unsure"])), deadline_seconds=0.2, noise_limit=0.5)
    reward = RefinerReward(config, judging)
    reward.stop.max_missing_share = 1.0
    log = Log()
    assert called(reward, [GOOD, WRONG], log, **ITEMS) == [10.0, None]
    assert log.metrics["items/left_out"] == pytest.approx(1 / 3)
    assert log.metrics["judge/none_rate"] == 0.5


def test_an_answer_on_which_the_judge_is_sure_of_nothing_has_no_reward():
    titles = frozenset(["sure", "unsure", *(item.title for item in prepared(GOOD).items)])
    config = RewardConfig(static_rubrics=False)
    judging = Judging(Unsure(titles), noise_limit=0.5)
    reward = RefinerReward(config, judging)
    reward.stop.max_missing_share = 1.0
    assert called(reward, [GOOD, WRONG], **ITEMS) == [None, None]


def test_contrast_gives_weight_to_items_that_told_answers_apart_and_a_floor_to_the_others():
    items = prepared(GOOD, static_rubrics=False).items
    sharp, flat = items[0], items[1]
    book = ItemBook(contrast_floor=0.25)
    assert book.asked("r", items) == items
    for score in (0.0, 2.0):
        book.note("r", [sharp, flat], [score, 1.0])
    book.settle([book.take()])
    weights = {item.key: item.weight for item in book.asked("r", items)}
    assert weights[sharp.key] == 1.0
    assert weights[flat.key] == 0.25
    assert book.asked("another record", items) == items
    assert ItemBook(spreads=book.spreads).asked("r", items) == items


def test_items_that_all_answers_share_weigh_as_they_are():
    items = prepared(GOOD, static_rubrics=False).items
    book = ItemBook(contrast_floor=0.25)
    for _ in range(2):
        book.note("r", items, [1.0] * len(items))
    book.settle([book.take()])
    assert book.asked("r", items) == items
