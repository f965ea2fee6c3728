"""What people thought of answers: stored answers, blind votes, and how they fell."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from evals.schema.answers import Verdict
from evals.schema.record import Choice, Record


class Answer(Record):
    """A stored answer: everything needed to ask for it again."""

    id: str
    asked_at: datetime
    session: str
    question: str
    example_id: str | None
    stage: str
    text: str
    finish_reason: Literal["stop", "length", "cancelled"]
    chain: str
    stage_sha256: str
    system_prompt: str
    seed: int
    max_new_tokens: int
    temperature: float
    dtype: str
    verdict: Verdict | None = None


class Comparison(Record):
    """One blind vote between two stored answers to the same question."""

    id: str
    voted_at: datetime
    rater: str
    question: str
    example_id: str | None
    left_answer: str
    right_answer: str
    left_stage: str
    right_stage: str
    choice: Choice


class StagePairCounts(Record):
    """How votes between two stages fell; `first` sorts before `second`."""

    first: str
    second: str
    first_chosen: int = Field(ge=0)
    second_chosen: int = Field(ge=0)
    ties: int = Field(ge=0)
    both_bad: int = Field(ge=0)


class VoteCounts(Record):
    """What the store holds. `votes` stand, `withdrawn` were taken back and count nowhere else.

    `usable` are votes for one side between different texts: those that make a preference pair.
    """

    answers: int = Field(ge=0)
    votes: int = Field(ge=0)
    withdrawn: int = Field(ge=0)
    raters: int = Field(ge=0)
    usable: int = Field(ge=0)
    by_choice: dict[Choice, int]
    by_stages: tuple[StagePairCounts, ...]
