"""A model as judge of concerns against each other."""

import pytest

from evals.errors import BadConfig, LabError
from tests.training.judge_server import FAST, JudgeServer, says
from training.judge.concerns import ConcernJudge, matching_judge
from training.judge.prompts import HttpSettings


def verdicts(*rows):
    return says({"verdicts": [{"item": n, "verdict": word, "quote": quote} for n, word, quote in rows]})


def judge(server, **more):
    return ConcernJudge(HttpSettings(server.url, **FAST, **more))


def test_pairs_of_concerns_are_the_same_partly_or_not():
    with JudgeServer(lambda _: verdicts((2, "no", ""), (1, "Yes", ""), (3, "partly", ""))) as server:
        assert judge(server).same([("a", "b"), ("c", "d"), ("e", "f")]) == [1.0, 0.0, 0.5]


def test_a_verdict_that_is_missing_twice_is_an_error_and_no_guess():
    with (
        JudgeServer(lambda _: verdicts((1, "yes", ""), (2, "perhaps", ""))) as server,
        pytest.raises(LabError, match="1 of 2"),
    ):
        judge(server).same([("a", "b"), ("c", "d")])


def test_a_judge_named_by_its_address_matches_concerns_and_asks_another_machine_only_with_a_key(tmp_path, monkeypatch):
    with JudgeServer(lambda _: verdicts((1, "yes", ""))) as server:
        found = matching_judge(f"{server.url}#tiny", None, tmp_path)
        assert found.name == "judge tiny (concerns-1)" and found.same([("a", "b")]) == [1.0]
    monkeypatch.delenv("ASSAY_JUDGE_KEY", raising=False)
    with pytest.raises(BadConfig, match="not on this machine"):
        matching_judge("https://example.org/v1#big", None, tmp_path)
