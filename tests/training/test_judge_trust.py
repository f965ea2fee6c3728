"""Whom a run lets judge: leave, keys, the probe, and when training stops."""

import pickle

import pytest

from evals.errors import BadConfig, TrainingStopped
from evals.refine.judge import HeuristicJudge, StubJudge
from evals.refine.score import settle
from tests.training.judge_server import Asked, JudgeServer, Reply, says
from tests.training.judges import asked, case, changed, judge_for
from training.judge.client import HttpJudge
from training.judge.judge import StopRule, backend_of, judge_of, judged, probe, probe_pairs
from training.judge.questions import CANARY, HttpSettings


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://judge.example.org/v1", "not on this machine"),
        ("http://10.1.2.3:8000/v1", "not on this machine"),
        ("http://localhost.example.org/v1", "not on this machine"),
        ("http://127.0.0.1.example.org/v1", "not on this machine"),
        ("http://me:secret@127.0.0.1/v1", "holds a user"),
        ("http://127.0.0.1/v1?key=secret", "holds a user"),
        ("127.0.0.1:8000", "takes one such as"),
        ("file:///etc/passwd", "takes one such as"),
    ],
)
def test_a_remote_judge_needs_leave_and_an_address_holds_no_secret(url: str, words: str):
    with pytest.raises(BadConfig, match=words) as caught:
        HttpJudge(HttpSettings(url))
    assert "secret" not in str(caught.value)


def test_leave_for_a_remote_judge_is_a_setting_of_its_own():
    assert HttpJudge(HttpSettings("https://judge.example.org/v1", "m", allow_remote=True)).label == "http (m)"


def test_a_key_comes_from_the_environment_and_is_shown_nowhere(monkeypatch, caplog, tmp_path):
    monkeypatch.setenv("JUDGE_KEY", "sk-very-secret")
    with JudgeServer(lambda asked: (500, b"sk-very-secret")) as server, caplog.at_level(0):
        judge = judge_for(server, key_variable="JUDGE_KEY", cache=tmp_path / "v.sqlite")
        (got,) = judged(judge, [case().inquiry()], 9.0)
        assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret"
    shown = f"{got} {judge.label} {judge.settings} {pickle.dumps(judge)!r} {caplog.text}"
    assert "very-secret" not in shown
    monkeypatch.delenv("JUDGE_KEY")
    with pytest.raises(BadConfig, match="is not set"):
        HttpJudge(judge.settings)
    monkeypatch.setenv("JUDGE_KEY", "sk-very-secret")
    with pytest.raises(BadConfig, match="without encryption"):
        HttpJudge(HttpSettings("http://judge.example.org/v1", "m", "JUDGE_KEY", allow_remote=True))


def test_a_judge_is_named_by_a_word_or_an_address():
    assert [backend_of(each) for each in ("stub", "heuristic", "http://x/v1")] == [
        "stub",
        "heuristic",
        "http",
    ]
    assert isinstance(judge_of("stub"), StubJudge)
    with pytest.raises(BadConfig, match="there is no judge 'gpt'"):
        backend_of("gpt")
    with pytest.raises(BadConfig, match="no address"):
        judge_of("http")


# before training, and when to stop it


def test_the_probe_trusts_a_judge_that_orders_the_known_pairs_and_no_other():
    assert len(probe_pairs()) == 8
    good = probe(HeuristicJudge())
    assert good.right == 8
    good.refuse_unless_fit("heuristic")
    with JudgeServer(changed(score=0, evidence_quote="")) as server:
        blind = probe(judge_for(server))
    assert blind.right <= 2
    with pytest.raises(BadConfig, match="of 8 known pairs"):
        blind.refuse_unless_fit("http (tiny-judge)")


def test_training_stops_when_a_judge_fails_too_often():
    rule = StopRule(0.25, patience=2)
    rule.saw(1, 4)
    rule.saw(4, 4)
    rule.saw(0, 4)
    rule.saw(3, 4)
    with pytest.raises(TrainingStopped, match="no verdict on 2 of 4 answers, in 2 batches"):
        rule.saw(2, 4, ("the server answered 500",))


def test_a_judge_that_says_yes_to_the_impossible_is_not_believed():
    def gullible(asked: Asked) -> Reply:
        return says({"verdicts": [{**row, "score": 2, "evidence_quote": "OXPHOS is down"} for row in asked.verdicts()]})

    with JudgeServer(gullible) as server:
        got = asked(server)
    assert got.canary is not None
    assert got.canary > 0
    assert settle(case(), got).reward is None
    assert CANARY == "canary"
