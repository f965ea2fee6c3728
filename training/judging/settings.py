"""How a judge on a server is asked. Times in seconds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evals.errors import BadConfig


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
        for name, low in (("concurrency", 1), ("retries", 0), ("max_tokens", 16), ("votes", 1)):
            if getattr(self, name) < low:
                raise BadConfig(f"judge {name} is {getattr(self, name)}; it takes {low} or more.")
        if not self.timeout_seconds > 0 or self.backoff_seconds < 0:
            raise BadConfig(
                f"judge timeout_seconds is {self.timeout_seconds:g} and backoff_seconds"
                f" {self.backoff_seconds:g}; the first is above 0, the second not below."
            )
