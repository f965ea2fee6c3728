"""Text as it is written: the tokens of a running batch, row by row, as pieces of text."""

import queue
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from transformers import PreTrainedTokenizerBase
from transformers.generation.streamers import BaseStreamer

FinishReason = Literal["stop", "length", "cancelled"]
UNFINISHED = "�"
"""What a tokenizer shows for bytes that are not yet a whole character."""


@dataclass(frozen=True)
class Piece:
    """New text of one stage. `finish_reason` is set on its last piece, whose text may be empty.

    `n_tokens` counts what the stage has written so far, without the end mark.
    """

    stage: str
    text: str
    finish_reason: FinishReason | None
    n_tokens: int


class RowText:
    """The text of one row, grown token by token; characters are held back until they are whole."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._shown = 0
        self.tokens: list[int] = []

    def add(self, token: int) -> str:
        """Return the text that `token` completes; empty in the middle of a character."""
        self.tokens.append(token)
        text = self._text()
        return "" if text.endswith(UNFINISHED) else self._new(text)

    def rest(self) -> str:
        """Return what was held back, once nothing more will come."""
        return self._new(self._text())

    def _new(self, text: str) -> str:
        new = text[self._shown :]
        self._shown = len(text)
        return new

    def _text(self) -> str:
        return str(self._tokenizer.decode(self.tokens, skip_special_tokens=True))


class RowStreamer(BaseStreamer):
    """Receives the tokens of a batch whose rows are stages and puts pieces into `pieces`.

    A row ends with its own end mark while others go on. `None` in the queue means that the batch
    is over; an exception there means that it broke.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, stages: Sequence[str], ends: Collection[int]
    ) -> None:
        self.pieces: queue.SimpleQueue[Piece | BaseException | None] = queue.SimpleQueue()
        self._stages = tuple(stages)
        self._ends = frozenset(ends)
        self._rows = [RowText(tokenizer) for _ in stages]
        self._is_open = [True] * len(self._stages)
        self._saw_prompt = False

    def put(self, value: torch.Tensor) -> None:
        """Take one token per row; the first call brings the prompt, which is skipped."""
        if not self._saw_prompt:
            self._saw_prompt = True
            return
        for row, token in enumerate(value.view(-1).tolist()):
            if not self._is_open[row]:
                continue
            if token in self._ends:
                self._close(row, "stop")
            elif text := self._rows[row].add(token):
                self._put(row, text, None)

    def end(self) -> None:
        """Called by `generate` when it returns; the caller of `close` knows why."""

    def close(self, reason: FinishReason) -> None:
        """Give every row that is still open its last piece."""
        for row, is_open in enumerate(self._is_open):
            if is_open:
                self._close(row, reason)

    def _close(self, row: int, reason: FinishReason) -> None:
        self._is_open[row] = False
        self._put(row, self._rows[row].rest(), reason)

    def _put(self, row: int, text: str, reason: FinishReason | None) -> None:
        count = len(self._rows[row].tokens)
        self.pieces.put(Piece(self._stages[row], text, reason, count))
