"""Several votes of a judge: what stands, what is asked again, which items are left out as noise."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.refine.judge import Verdicts
from evals.refine.score import settle
from tests.evals.refiner.answers import GOOD, prepared
from tests.training.judge_server import Asked, Behaviour, JudgeServer, Reply, says, well
from training.judge.client import HttpJudge
from training.judge.judge import judged
from training.judge.questions import HttpSettings, Verdict
from training.judge.votes import apart, majority


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
