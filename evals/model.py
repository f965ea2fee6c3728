"""What evaluation needs of a model: answers of several stages to several prompts.

It refuses to know torch: `training.models.chain.LoadedChain` is the real one, `ScriptedModel` the fake.
"""

from collections.abc import Callable, Mapping, Sequence
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
        ...

    def generate(
        self, prompts: Sequence[Sequence[Message]], stages: Sequence[str], sampling: Sampling
    ) -> list[list[Completion]]:
        """Return one row per prompt, in it one completion per stage, in the order asked."""
        ...


class ScriptedModel:
    """A model whose answers are written down beforehand: (stage, last user text) -> text.

    Raises KeyError for a question that the script does not hold, so a test never scores an
    answer that nobody wrote.
    """

    def __init__(self, script: Mapping[tuple[str, str], str]) -> None:
        self._script = dict(script)
        self.stages = tuple(dict.fromkeys(stage for stage, _ in script))

    def generate(
        self, prompts: Sequence[Sequence[Message]], stages: Sequence[str], sampling: Sampling
    ) -> list[list[Completion]]:
        """Look every answer up."""
        return [[self._answer(stage, prompt[-1].content) for stage in stages] for prompt in prompts]

    def _answer(self, stage: str, question: str) -> Completion:
        text = self._script[stage, question]
        return Completion(stage=stage, text=text, n_tokens=len(text.split()), finish_reason="stop")
