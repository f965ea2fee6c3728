"""Judges for tests: quick to give up, asked over real HTTP."""

import re
from dataclasses import replace
from typing import Any

from evals.refine.judge import Verdicts
from evals.refine.score import PreparedAnswer, settle
from tests.evals.refiner.answers import GOOD, prepared
from tests.training.judge_server import Asked, Behaviour, JudgeServer, Reply, says, well
from training.judge.extraction import canaries
from training.judge.judge import HttpJudge, judged
from training.judge.questions import HttpSettings, harmless

KNOWN = {harmless(each.answer): (each.says[0], each.confidence) for each in canaries()}
FAST = {"timeout_seconds": 5.0, "backoff_seconds": 0.001, "retries": 2}


def case(text: str = GOOD) -> PreparedAnswer:
    return prepared(text, static_rubrics=False)


def judge_for(server: JudgeServer, **settings: Any) -> HttpJudge:
    return HttpJudge(replace(HttpSettings(server.url), **{**FAST, **settings}))


def asked(server: JudgeServer, text: str = GOOD, **settings: Any) -> Verdicts:
    (verdicts,) = judged(judge_for(server, **settings), [case(text).inquiry()], 10.0)
    return verdicts


def reward(verdicts: Verdicts) -> float | None:
    return settle(case(), verdicts).reward


def changed(**fields: object) -> Behaviour:
    return lambda asked: says({"verdicts": [{**row, **fields} for row in asked.verdicts()]})


def reads(asked: Asked) -> Reply:
    """Read as a good judge does: known answers as they are meant, others by their last lines."""
    if "ITEMS" in asked.parts:
        return well(asked)
    text = asked.parts["ANSWER"]
    if text in KNOWN:
        answer, confidence = KNOWN[text]
    else:
        lines = dict(re.findall(r"^(Answer|Confidence): (.*)$", text, re.MULTILINE))
        answer, stated = lines.get("Answer", "none"), lines.get("Confidence", "").rstrip("%")
        confidence = float(stated) if stated.isdigit() else None
        options = asked.parts["OPTIONS"].split(" / ")
        answer = answer if len(options) == 1 or answer in options else "none"
    return says({"answer": answer, "confidence": confidence})
