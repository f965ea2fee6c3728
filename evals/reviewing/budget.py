"""How many tokens a paper may have: context less instructions, template and reply, nothing guessed.

Tokens are counted with the tokenizer of the model that will read them; it comes in as a `Counter`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from evals.errors import BadConfig
from evals.reviewing.prompt import request, system_prompt

LEAST_PAPER = 256
"""Tokens below which a part of a paper is too little to review."""


class Counter(Protocol):
    """A model's tokenizer as far as it is needed here."""

    name: str

    def ends(self, text: str) -> Sequence[int]:
        """Return where each token of a text ends, in characters from its start."""

    def chat(self, messages: Sequence[Mapping[str, str]]) -> int:
        """Return the tokens of a conversation (role and content) as the model's template writes it."""


@dataclass(frozen=True)
class Budget:
    """Room of one row in tokens. `reply_reserve` is kept free for the reply of a model.

    A paper that does not fit is read in up to `max_parts` parts, each beginning with the last
    `overlap` tokens of the one before; only what does not fit in them all is shortened.
    """

    context: int = 16_384
    reply_reserve: int = 2_048
    overlap: int = 200
    max_parts: int = 4

    def __post_init__(self) -> None:
        for name, low in (("context", 1), ("reply_reserve", 1), ("overlap", 0), ("max_parts", 1)):
            if getattr(self, name) < low:
                raise BadConfig(
                    f"{name} is {getattr(self, name)}; it takes a whole number from {low} up."
                )
        if self.overlap > self.context // 4:
            raise BadConfig(
                f"overlap is {self.overlap} tokens of a context of {self.context}; use a quarter at most."
            )

    def paper(self, counter: Counter, reply: int = 0) -> int:
        """Return the tokens that a paper or a part of it may have; BadConfig if hardly any are left.

        `reply` is the length of a known reply: one that is longer than the reserve takes its room from
        the paper, because a reply is never cut.
        """
        fixed = instructions(counter)
        room = self.context - fixed - max(self.reply_reserve, reply)
        if room < LEAST_PAPER:
            raise BadConfig(
                f"a context of {self.context} tokens less {fixed} for the instructions and"
                f" {max(self.reply_reserve, reply)} for the reply leaves {room} for the paper; it needs"
                f" {LEAST_PAPER}. Use a larger context or a smaller reply reserve."
            )
        return room


def instructions(counter: Counter) -> int:
    """Return the tokens of everything but paper and reply: system prompt, request, template, end."""
    return counter.chat(
        [
            {"role": "system", "content": system_prompt()},
            {"role": "user", "content": request("", 9, 9)},
            {"role": "assistant", "content": ""},
        ]
    )
