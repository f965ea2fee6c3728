"""Two answers that are compared blind: the pair on the table, and the vote on it as it is kept."""

import random
import uuid
from dataclasses import dataclass

from evals import questions
from evals.schema import Choice, Comparison
from lab.answers import Draft, Snapshot
from lab.services import Services
from lab.visitors import Visitor


@dataclass(frozen=True)
class Pair:
    """Two complete, stored answers, left and right. Never sent to the browser as it is."""

    moment: Snapshot
    vote: Comparison | None = None

    @property
    def left(self) -> Draft:
        """The answer on the left."""
        return self.moment.drafts[0]

    @property
    def right(self) -> Draft:
        """The answer on the right."""
        return self.moment.drafts[1]


@dataclass(frozen=True)
class Desk:
    """What one page is comparing: the pair on the table, and the last one voted on.

    `place` counts the questions of the bank that were taken so far, in the order of `seed`. `remark`
    stands where the names of the last pair would: a vote was taken back.
    """

    pair: Pair | None = None
    last: Pair | None = None
    seed: int = 0
    place: int = 0
    remark: str = ""


def comparison(services: Services, visitor: Visitor, pair: Pair, choice: Choice) -> Comparison:
    """Return the record of one vote on a pair."""
    left, right = pair.moment.answers
    return Comparison(
        id=uuid.uuid4().hex,
        voted_at=services.now(),
        rater=visitor.rater,
        question=pair.moment.question,
        example_id=pair.moment.example.id if pair.moment.example else None,
        left_answer=left.id,
        right_answer=right.id,
        left_stage=left.stage,
        right_stage=right.stage,
        choice=choice,
    )


def bank_question(desk: Desk) -> str:
    """Return the question at the desk's place: all of the bank's training half, in drawn order.

    Votes become training data, so the questions that measure a model are not offered.
    """
    rows = [*questions.kmp_training(), *questions.pathway_training()]
    order = random.Random(desk.seed).sample(range(len(rows)), len(rows))
    return rows[order[(desk.place - 1) % len(rows)]].prompt
