"""A judge before it is trusted: does it tell a better answer from a worse one, where we know which is?"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from evals.errors import BadConfig
from evals.refiner.judging import Judge
from evals.refiner.score import prepare, settle
from evals.schema.record import Record
from evals.schema.refining import RefinerRecord, RewardConfig
from training.judging.batch import judged

NEEDED = 7
"""Of the eight pairs, how many have to come out right."""


class ProbePair(Record):
    """A record with a better and a worse answer; `about` says what makes the difference."""

    about: str
    record: RefinerRecord
    better: str
    worse: str


@dataclass(frozen=True)
class ProbeResult:
    """How many pairs a judge put in the right order, and what the others are about."""

    right: int
    total: int
    wrong: tuple[str, ...]

    def refuse_unless_fit(self, label: str, needed: int = NEEDED) -> None:
        """Raise BadConfig if too few pairs came out right."""
        if self.right < needed:
            raise BadConfig(
                f"the judge {label} put only {self.right} of {self.total} known pairs in the right order"
                f" (needed: {needed}); it failed at: {'; '.join(self.wrong)}. Use a more capable model, or"
                " look whether the server answers at all."
            )


@cache
def probe_pairs() -> tuple[ProbePair, ...]:
    """Return the eight pairs, from pairs.json."""
    text = files("training.judging").joinpath("pairs.json").read_text(encoding="utf-8")
    return tuple(ProbePair.model_validate(row) for row in json.loads(text))


def probe(judge: Judge, deadline_seconds: float = 120.0) -> ProbeResult:
    """Return how a judge orders the known pairs; a missing verdict is a wrong order."""
    config = RewardConfig(gate="off")
    pairs = probe_pairs()
    cases = [
        prepare(pair.record, answer, config)
        for pair in pairs
        for answer in (pair.better, pair.worse)
    ]
    verdicts = judged(judge, [case.inquiry() for case in cases], deadline_seconds)
    rewards = [settle(case, given).reward for case, given in zip(cases, verdicts, strict=True)]
    wrong = []
    for place, pair in enumerate(pairs):
        better, worse = rewards[2 * place], rewards[2 * place + 1]
        if better is None or worse is None or better <= worse:
            wrong.append(pair.about)
    return ProbeResult(len(pairs) - len(wrong), len(pairs), tuple(wrong))
