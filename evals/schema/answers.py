"""What a stage answered, what it claimed, and what the verifiers thought of it."""

from typing import Literal

from pydantic import Field

from evals.schema.record import Record, Share


class Completion(Record):
    """One stage's answer. `text` is what the model wrote, untouched."""

    stage: str
    text: str
    n_tokens: int = Field(ge=0)
    finish_reason: Literal["stop", "length", "cancelled"]


class StatedConfidence(Record):
    """The confidence that an answer states about itself, never one that was guessed from its tone."""

    value: Share | None
    status: Literal["stated", "missing", "invalid"]
    quote: str | None = None


class Claim(Record):
    """What an answer asserts, at which character offsets; "not up" says "UP" and `is_denied`."""

    subject: str
    says: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    about: str = "answer"
    is_denied: bool = False


class Verdict(Record):
    """What the verifiers thought of one completion. Correctness stands apart from reward.

    `answer` is what was read, in the words of the question's options, and `read_by` how: from the answer
    line, from free text, or by a judge; None where nothing was read (and in reports of before verifiers-6).
    `scores` holds each verifier's score in 0..1, None where it does not apply. `reward` is None where
    nothing scores the answer: a rubric without a judge.
    """

    verdict: Literal["correct", "incorrect", "contradictory", "no_claim"]
    reason: str
    claims: tuple[Claim, ...] = ()
    confidence: StatedConfidence
    scores: dict[str, Share | None]
    reward: Share | None
    answer: str | None = None
    read_by: Literal["answer", "text", "judge"] | None = None
