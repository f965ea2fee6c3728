"""Answers with citations being worked on: what stages or people wrote, how it was graded and rated."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from evals.schema.record import Record
from evals.schema.refining import RefinerRecord, RewardConfig, ScoredAnswer

Rating = Literal["good", "bad"]
RowForm = Literal["sft", "dpo", "pairs"]
"""What refinements can be exported as."""


class Origin(Record):
    """Which stage of which chain wrote an answer, and with which settings."""

    chain: str
    stage_sha256: str
    seed: int
    max_new_tokens: int
    temperature: float
    dtype: str


class RefinedAnswer(Record):
    """One answer to a record, graded. `origin` is None for an answer that a person gave.

    `name` is the stage, or who gave it: `yours`.
    """

    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    finish_reason: Literal["stop", "length", "cancelled", "given"]
    scored: ScoredAnswer
    origin: Origin | None = None


class KeptRefinement(Record):
    """A record with its answers as they were written and graded; ratings and corrections are versions.

    `session` is the salted hash of the person whose desk it lies on.
    """

    id: str = Field(min_length=1)
    made_at: datetime
    session: str
    record: RefinerRecord
    reward: RewardConfig
    answers: tuple[RefinedAnswer, ...]

    def answer(self, answer_id: str) -> RefinedAnswer | None:
        """Return one of the answers; None if it is not among them."""
        return next((each for each in self.answers if each.id == answer_id), None)


class Mark(Record):
    """What a person made of one answer: a rating, and the answer as it should have been, graded."""

    answer_id: str
    rating: Rating | None = None
    correction: ScoredAnswer | None = None


class Worked(Record):
    """A refinement and what stands of it: a mark for each answer that was rated or corrected."""

    kept: KeptRefinement
    marks: tuple[Mark, ...] = ()
