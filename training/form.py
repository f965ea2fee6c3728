"""Answers held to a form: at every token, only what a JSON schema still allows can be written.

The grammar is llguidance's, which compiles a schema for any vocabulary in milliseconds; each row of a
batch is at a place of its own in it. A grammar that breaks raises: a loose answer never passes for a
held one.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from transformers import (
    LogitsProcessor,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    RepetitionPenaltyLogitsProcessor,
)

from evals.errors import BadConfig, LabError

SEPARATORS = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON as `json.dumps` writes it, which is how replies are taught; free blanks would let a model idle."""


class Form:
    """What every answer must look like; made once for a tokenizer, used for any number of batches.

    `schema` None leaves the words free. `repetition_penalty` 1 = none; above it, tokens that were read
    or written before become less likely (Keskar et al. 2019). BadConfig for a schema that no grammar
    can be made of.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        ends: Sequence[int],
        schema: Mapping[str, object] | None = None,
        repetition_penalty: float = 1.0,
    ) -> None:
        if not 0.1 <= repetition_penalty <= 10:
            raise BadConfig(
                f"repetition_penalty is {repetition_penalty}; it takes a number from 0.1 to 10, 1 for none."
            )
        self._penalty = repetition_penalty
        self._ends = tuple(ends)
        self._grammar = None if schema is None else _grammar(schema)
        self._tokens = None if schema is None else _tokens(tokenizer, self._ends)
        if self._matchers(1) and (problem := self._matchers(1)[0].get_error()):
            raise BadConfig(f"answers cannot be held to this schema: {problem}")

    def processors(self, rows: int) -> list[LogitsProcessor]:
        """Return what is done to the logits of a new batch of so many rows, in order."""
        found: list[LogitsProcessor] = []
        if self._penalty != 1.0:
            found.append(RepetitionPenaltyLogitsProcessor(self._penalty))
        if matchers := self._matchers(rows):
            found.append(Held(matchers, self._ends))
        return found

    def _matchers(self, rows: int) -> list[LLMatcher]:
        """Return one place in the grammar per row; none without a schema."""
        if self._tokens is None or self._grammar is None:
            return []
        return [LLMatcher(self._tokens, self._grammar) for _ in range(rows)]


def _grammar(schema: Mapping[str, object]) -> str:
    return LLMatcher.grammar_from_json_schema({**schema, "x-guidance": SEPARATORS})


def _tokens(tokenizer: PreTrainedTokenizerBase, ends: Sequence[int]) -> LLTokenizer:
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise BadConfig(
            "this base has a slow tokenizer, which no grammar can be made for; use a base with a"
            " tokenizer.json, or constrain never."
        )
    return from_tokenizer(tokenizer, eos_token=list(ends))


class Held(LogitsProcessor):
    """Takes from each row's logits, (rows, vocabulary), whatever its grammar does not allow next."""

    def __init__(self, matchers: Sequence[LLMatcher], ends: Sequence[int]) -> None:
        self._matchers, self._ends = matchers, list(ends)
        self._has_begun = False

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the logits with minus infinity for every token that would break the form."""
        allowed = np.zeros(scores.shape, dtype=bool)
        for row, matcher in enumerate(self._matchers):
            if self._has_begun and not matcher.is_stopped():
                matcher.consume_token(int(input_ids[row, -1]))
            if matcher.is_error() or (matcher.is_stopped() and not matcher.is_accepting()):
                reason = matcher.get_error() or matcher.stop_reason()
                raise LabError(f"the form of an answer broke ({reason}); please report this.")
            if matcher.is_stopped():
                allowed[row, self._ends] = True
                continue
            bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
            wanted = np.unpackbits(bits, bitorder="little")[: scores.shape[1]]
            allowed[row, : len(wanted)] = wanted
        self._has_begun = True
        return scores.masked_fill(torch.from_numpy(~allowed).to(scores.device), float("-inf"))
