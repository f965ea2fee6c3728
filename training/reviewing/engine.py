"""Who answers about papers: a chain on this machine or a server, behind one protocol."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from evals.errors import BadConfig
from evals.reviewing import Budget, Counter
from evals.schema.reviewruns import EngineRecord

Constrain = Literal["auto", "always", "never"]
CONSTRAIN: tuple[Constrain, ...] = ("auto", "always", "never")


@dataclass(frozen=True)
class Asking:
    """How papers are asked about. The defaults are the published ones, but for the length of a reply.

    `context` 0 = what the engine has, 16,384 tokens at most. `constrain` auto = answers are held to
    the JSON schema where the engine can, which is recorded; always = or not asked at all.
    """

    max_new_tokens: int = 2_048
    temperature: float = 0.1
    top_p: float = 0.9
    repetition_penalty: float = 1.05
    seed: int = 0
    context: int = 0
    overlap: int = 200
    max_parts: int = 4
    constrain: Constrain = "auto"

    def __post_init__(self) -> None:
        if self.constrain not in CONSTRAIN:
            raise BadConfig(f"constrain is {self.constrain!r}; it takes {', '.join(CONSTRAIN)}.")
        self.budget(self.context or Budget().context)  # refused now, not once a model is loaded

    def budget(self, context: int) -> Budget:
        """Return the room of a request for an engine that reads `context` tokens."""
        wanted = self.context or min(context, Budget().context)
        if wanted > context:
            raise BadConfig(
                f"context is {wanted} tokens, but this model reads {context}; use that or less."
            )
        return Budget(wanted, self.max_new_tokens, self.overlap, self.max_parts)


@dataclass(frozen=True)
class Reply:
    """One answer. `error` says why there is none; tokens are None where they are not known."""

    text: str = ""
    finish_reason: str = "stop"
    tokens_read: int | None = None
    tokens_written: int | None = None
    error: str = ""


@dataclass(frozen=True)
class Room:
    """How an engine reads: who counts, how much it holds, and the control marks of its template."""

    counter: Counter
    context: int
    marks: tuple[str, ...] = field(default=())


class Engine(Protocol):
    """Something that answers requests about papers; the instructions are its own."""

    room: Room

    def record(self) -> EngineRecord:
        """Return who answers, as far as is known by now."""
        ...

    def answer(self, requests: Sequence[str]) -> list[Reply]:
        """Return one reply per request, in order; one that fails has an error and raises nothing."""
        ...
