"""Votes as an arena writes them down, one event a line, where it has no database that stays."""

from datetime import datetime
from typing import Literal

from evals.schema.opinions import Answer, Comparison
from evals.schema.record import Record


class VoteEvent(Record):
    """A vote with both answers in full, or that one was taken back.

    `vote` and the answers stand in events of the kind "vote" only. The rater is a salted hash.
    """

    schema_version: Literal[1] = 1
    kind: Literal["vote", "withdrawn"]
    at: datetime
    vote_id: str
    vote: Comparison | None = None
    left: Answer | None = None
    right: Answer | None = None
