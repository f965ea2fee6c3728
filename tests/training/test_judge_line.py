"""What a judge's server is asked beyond the plain request, and when it is asked for less."""

import pytest

from evals.refine.judge import Verdicts
from evals.refine.score import settle
from tests.evals.refiner.answers import GOOD
from tests.training.judge_server import Asked, JudgeServer, Reply, well
from tests.training.judges import case, judge_for
from training.judge.judge import in_a_loop, judged


def test_a_prompt_too_long_for_the_server_leaves_the_next_requests_as_strict_as_ever():
    def short_only(asked: Asked) -> Reply:
        return (400, b"maximum context length") if "WORDS" in asked.text else well(asked)

    with JudgeServer(short_only) as server:
        judge = judge_for(server)
        inquiries = [case(GOOD.replace("down", "WORDS")).inquiry(), case().inquiry()]

        async def one_by_one() -> list[Verdicts]:
            done = [await judge.judge(each) for each in inquiries]
            await judge.close()
            return done

        too_long, after = in_a_loop(one_by_one())
        counts = judge.take_counts()
        bodies = [each.body for each in server.requests if "WORDS" not in each.text]
    assert (set(too_long.raws), settle(case(), after).reward) == ({None}, pytest.approx(10.0))
    assert all({"response_format", "chat_template_kwargs"} <= set(body) for body in bodies)
    assert (len(bodies), counts.loose) == (2, 0)


def test_a_server_that_cannot_force_json_is_asked_freely_from_then_on_and_the_log_says_so(caplog):
    def free_only(asked: Asked) -> Reply:
        return (400, b"what is response_format?") if "response_format" in asked.body else well(asked)

    with JudgeServer(free_only) as server:
        judge = judge_for(server, concurrency=1)
        judged(judge, [case().inquiry()], 9.0)
        refused = sum("response_format" in each.body for each in server.requests)
    assert (refused, judge.take_counts().loose) == (1, 2)
    assert caplog.messages == ["the judge's server refuses response_format; it is asked without from now on"]
