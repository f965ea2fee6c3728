"""What every record shares: immutable, strict, and the kinds of value that several of them hold."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

Direction = Literal["UP", "DOWN"]
Choice = Literal["left", "right", "tie", "both_bad"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Record(BaseModel):
    """Base for every record: immutable, and unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def skipping(*names: str) -> Any:
    """Return a validator that reads a record of an older format, but for fields that are no more."""

    def without(stored: object) -> object:
        return {key: value for key, value in stored.items() if key not in names} if isinstance(stored, dict) else stored

    return model_validator(mode="before")(without)


class StoredDocument(Record):
    """What the store keeps of somebody, versions apart; `session` is the salted hash of that person."""

    id: str = Field(min_length=1)
    made_at: datetime
    session: str


class Grade(Record):
    """What a task's grader made of one completion.

    `reward` is in 0..1, or None where nothing could be graded: a judge that failed never makes a 0. `parts` are the
    terms that the reward is made of, `counts` what pooled rates add up, `confidence` what the answer states about
    itself (0..1), `read_by` how it was read, `detail` the task's own record.
    """

    verdict: str | None = None
    reward: Share | None = None
    parts: dict[str, float | None] = Field(default_factory=dict)
    counts: dict[str, float] = Field(default_factory=dict)
    confidence: Share | None = None
    read_by: str | None = None
    reason: str = ""
    detail: SerializeAsAny[Record] | None = None
