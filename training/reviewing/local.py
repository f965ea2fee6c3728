"""The local engine: a chain of adapters in memory, asked with the instructions it was trained with."""

import threading
from collections.abc import Iterator, Sequence

from evals.errors import BadConfig
from evals.model import Sampling
from evals.reviewing import check_prompt, prompt_sha256, system_prompt
from evals.reviewing.form import array_schema
from evals.schema import Message
from evals.schema.reviewruns import EngineRecord
from training.chain import LoadedChain, Piece
from training.counting import ChatCounter
from training.reviewing.engine import Asking, Reply, Room


class ChainEngine:
    """A stage of a chain as reviewer, the last one if none is named.

    ChainMismatch if the chain was trained with other instructions than this version's. A base model
    without adapters was trained with none, and is given them.
    """

    def __init__(self, chain: LoadedChain, asking: Asking, stage: str = "") -> None:
        if chain.manifest.stages:
            check_prompt(chain.manifest.system_prompt, chain.manifest.name)
        self.stage = stage or chain.stages[-1]
        if self.stage not in chain.stages:
            raise BadConfig(f"no stage {stage!r} in this chain; it has {', '.join(chain.stages)}.")
        tokenizer = chain.tokenizer
        marks = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
        counter = ChatCounter(tokenizer, chain.manifest.base.source)
        self.room = Room(counter, chain.context, tuple(marks))
        self._chain, self._asking = chain, asking
        self._is_held = asking.constrain != "never"
        self._form = chain.form(
            array_schema() if self._is_held else None, asking.repetition_penalty
        )
        self._sampling = Sampling(
            max_new_tokens=asking.max_new_tokens,
            temperature=asking.temperature,
            top_p=asking.top_p,
            seed=asking.seed,
        )

    def record(self) -> EngineRecord:
        """Return the chain, the stage and their checksums."""
        return EngineRecord(
            kind="chain",
            name=self._chain.manifest.name,
            stage=self.stage,
            dtype=self._chain.dtype,
            tokenizer=self.room.counter.name,
            constraint="array schema" if self._is_held else "none",
            prompt_sha256=prompt_sha256(),
            checksums=dict(self._chain.stage_checksums),
            substitutions=tuple(self._chain.substitutions),
        )

    def answer(self, requests: Sequence[str]) -> list[Reply]:
        """Return one reply per request, written in one batch."""
        prompts = [_messages(request) for request in requests]
        written = self._chain.generate(prompts, (self.stage,), self._sampling, self._form)
        return [
            Reply(
                completion.text,
                completion.finish_reason,
                self.room.counter.chat([each.model_dump() for each in prompt]),
                completion.n_tokens,
            )
            for prompt, (completion,) in zip(prompts, written, strict=True)
        ]

    def stream(self, request: str, stop: threading.Event) -> Iterator[Piece]:
        """Yield the reply to one request as it is written; setting `stop` ends it within a token."""
        return self._chain.stream(
            _messages(request), (self.stage,), self._sampling, stop, self._form
        )


def _messages(request: str) -> tuple[Message, ...]:
    return (
        Message(role="system", content=system_prompt()),
        Message(role="user", content=request),
    )
