"""How a judge on a server is asked. Times in seconds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evals.errors import BadConfig

MAX_VOTES = 15
"""Most votes that may be asked on one verdict."""


@dataclass(frozen=True)
class HttpSettings:
    """Where the judge is and how it is asked.

    `model` empty = the one model that the server lists. `mode` "batched" asks all items of an answer
    in one call, "per_item" each in a call of its own: dearer, without one item's shine on the next.
    `votes` above 1 asks several times and takes the majority (`training.judging.votes`).
    """

    base_url: str
    model: str = ""
    key_variable: str = ""
    allow_remote: bool = False
    mode: Literal["batched", "per_item"] = "batched"
    concurrency: int = 64
    timeout_seconds: float = 60.0
    retries: int = 3
    backoff_seconds: float = 0.5
    max_tokens: int = 2048
    seed: int = 0
    votes: int = 1
    cache: Path | None = None

    def __post_init__(self) -> None:
        for name, low in (("concurrency", 1), ("retries", 0), ("max_tokens", 16)):
            if getattr(self, name) < low:
                raise BadConfig(f"judge {name} is {getattr(self, name)}; it takes {low} or more.")
        check_votes(self.base_url, self.votes)
        if not self.timeout_seconds > 0 or self.backoff_seconds < 0:
            raise BadConfig(
                f"judge timeout_seconds is {self.timeout_seconds:g} and backoff_seconds"
                f" {self.backoff_seconds:g}; the first is above 0, the second not below."
            )


def check_votes(judge: str, votes: int) -> None:
    """Raise BadConfig for too many or too few votes, or several of a judge that is no server."""
    if not 1 <= votes <= MAX_VOTES:
        raise BadConfig(
            f"{votes} votes are asked of the judge; it takes 1 to {MAX_VOTES} (--votes, judge_votes)."
        )
    if votes > 1 and judge in ("heuristic", "stub"):
        raise BadConfig(
            f"{votes} votes are asked of {judge}, which gives the same verdicts every time; use 1 (--votes,"
            " judge_votes), or the address of a server as judge."
        )
