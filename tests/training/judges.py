"""A judge of one answer for tests: quick to give up, asked over real HTTP."""

from dataclasses import replace

from evals.refiner.judging import Verdicts
from evals.refiner.score import Prepared, settle
from tests.evals.refiner.answers import GOOD, prepared
from tests.training.judge_server import Behaviour, JudgeServer, says
from training.judging.batch import judged
from training.judging.http import HttpJudge
from training.judging.settings import HttpSettings

FAST = {"timeout_seconds": 5.0, "backoff_seconds": 0.001, "retries": 2}


def case(text: str = GOOD) -> Prepared:
    return prepared(text, static_rubrics=False)


def judge_for(server: JudgeServer, **settings: object) -> HttpJudge:
    return HttpJudge(replace(HttpSettings(server.url), **{**FAST, **settings}))


def asked(server: JudgeServer, text: str = GOOD, **settings: object) -> Verdicts:
    (verdicts,) = judged(judge_for(server, **settings), [case(text).inquiry()], 10.0)
    return verdicts


def rewarded(behaviour: Behaviour, **settings: object) -> float | None:
    with JudgeServer(behaviour) as server:
        return settle(case(), asked(server, **settings)).reward


def changed(**fields: object) -> Behaviour:
    return lambda asked: says({"verdicts": [{**row, **fields} for row in asked.verdicts()]})
