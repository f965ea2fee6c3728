"""What evaluation needs of a model: answers of several stages to several prompts.

It refuses to know torch: `training.models.chain.LoadedChain` is the real one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from evals.schema import Completion, Message

Progress = Callable[[float, str], None]
"""Called with the share that is done (0..1) and a few plain words about what is being done."""


@dataclass(frozen=True)
class Sampling:
    """How an answer is drawn. Temperature 0 is greedy; the seed matters only above 0."""

    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


class Model(Protocol):
    """Something that answers prompts, stage by stage."""

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages, base first."""

    def generate(
        self, prompts: Sequence[Sequence[Message]], stages: Sequence[str], sampling: Sampling
    ) -> list[list[Completion]]:
        """Return one row per prompt, in it one completion per stage, in the order asked."""
