"""Answers of several stages to several prompts: rows of one batch, whole or as they are written.

Greedy by default. In float32 an answer does not depend on what else is in the batch; in bfloat16
rounding differs between batch shapes, so a text may: compare stages inside one batch, and use
float32 where a text must come out the same again.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    StoppingCriteria,
    StoppingCriteriaList,
)

from evals.errors import BadConfig, LabError
from evals.model import Sampling
from evals.schema import Completion, Message
from training.form import Form
from training.lengths import NO_THOUGHT
from training.sampling import SeededRows, check_sampling, row_seed
from training.stack import Stack
from training.streaming import Piece, RowStreamer

BATCH_ROWS = 24
"""Rows of one batch: enough to use the processor well, few enough to keep in memory."""
WAIT_SECONDS = 0.05


@dataclass(frozen=True)
class Row:
    """One answer to be written: the prompt's tokens and the stage that answers."""

    prompt: tuple[int, ...]
    stage: str


@dataclass(frozen=True)
class Manner:
    """How answers are written: drawn from what the model would say, and held to a form if there is one."""

    sampling: Sampling
    form: Form | None = None

    def processors(self, rows: Sequence[Row]) -> LogitsProcessorList:
        """Return what is done to a batch's logits: the form first, so that draws keep to it."""
        found = LogitsProcessorList(self.form.processors(len(rows)) if self.form else [])
        if self.sampling.temperature > 0:
            seeds = [row_seed(self.sampling.seed, row.stage, row.prompt) for row in rows]
            found.append(SeededRows(seeds, self.sampling.temperature, self.sampling.top_p))
        return found


class Writer:
    """Writes answers with one stacked model. One batch runs at a time; others wait their turn."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        stack: Stack,
        adapters_of_stage: Mapping[str, frozenset[str]],
    ) -> None:
        self._model = model
        self._generate = cast(Callable[..., torch.Tensor], model.generate)
        self.tokenizer = tokenizer
        self._stack = stack
        self._adapters_of_stage = dict(adapters_of_stage)
        self._lock = threading.Lock()
        self.ends = end_tokens(model, tokenizer)
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.ends[0]
        self.context = int(getattr(model.config, "max_position_embeddings", 2048))
        # A model's own sampling settings (a repetition penalty, say) must not leak into answers.
        model.generation_config = GenerationConfig(
            eos_token_id=list(self.ends),
            pad_token_id=self._pad,
            bos_token_id=tokenizer.bos_token_id,
        )

    def write(
        self,
        prompts: Sequence[Sequence[Message]],
        stages: Sequence[str],
        sampling: Sampling,
        form: Form | None = None,
    ) -> list[list[Completion]]:
        """Return one list per prompt, in it one completion per stage, in the order asked.

        Answers that are held to a `form` are not preceded by reasoning. Raises LabError for an empty
        prompt or one too long for the model, BadConfig for an unknown stage or setting; nothing is
        written then.
        """
        thinks = form is None
        rows = [
            row for prompt in prompts for row in self.rows(prompt, stages, sampling, thinks=thinks)
        ]
        order = sorted(range(len(rows)), key=lambda place: (len(rows[place].prompt), place))
        answers: dict[int, Completion] = {}
        for start in range(0, len(order), BATCH_ROWS):
            places = order[start : start + BATCH_ROWS]
            with self._lock:
                texts = self._run([rows[place] for place in places], Manner(sampling, form))
            for place, tokens in zip(places, texts, strict=True):
                answers[place] = self._completion(rows[place].stage, tokens)
        width = len(stages)
        return [
            [answers[first + offset] for offset in range(width)]
            for first in range(0, len(rows), width)
        ]

    def stream(self, rows: Sequence[Row], manner: Manner, stop: threading.Event) -> Iterator[Piece]:
        """Yield pieces of all rows as they are written, a last one with a reason for each row.

        Setting `stop` ends every open row as "cancelled" within a token. Closing the iterator
        stops the writing too. What goes wrong while writing is raised here.
        """
        streamer = RowStreamer(self.tokenizer, [row.stage for row in rows], self.ends)
        halt = _Halt(stop)
        thread = threading.Thread(
            target=self._feed, args=(rows, manner, streamer, halt), name="answers", daemon=True
        )
        return _pieces(thread, streamer, halt)

    def rows(
        self,
        prompt: Sequence[Message],
        stages: Sequence[str],
        sampling: Sampling,
        *,
        thinks: bool = True,
    ) -> list[Row]:
        """Return the rows of one prompt, checked: known stages, a question, room for an answer.

        Not `thinks`: a template that knows reasoning is told to leave it out.
        """
        check_sampling(sampling)
        known = tuple(self._adapters_of_stage)
        for stage in stages:
            if stage not in known:
                raise BadConfig(f"no stage {stage!r} in this chain; it has {', '.join(known)}.")
        if not stages:
            raise BadConfig(f"no stage was named; choose from {', '.join(known)}.")
        tokens = self._encode(prompt, {} if thinks else NO_THOUGHT)
        room = self.context - sampling.max_new_tokens
        if len(tokens) > room:
            raise LabError(
                f"the question is {len(tokens):,} tokens long with its instructions; this model reads"
                f" {self.context:,}, of which {sampling.max_new_tokens:,} are kept for the answer, so at"
                f" most {max(room, 0):,} fit. Shorten the question or ask for a shorter answer."
            )
        return [Row(tokens, stage) for stage in stages]

    def _encode(self, prompt: Sequence[Message], options: Mapping[str, Any]) -> tuple[int, ...]:
        if not prompt or not prompt[-1].content.strip():
            raise LabError("the question is empty; type one and ask again.")
        marks = [
            str(token) for token in self.tokenizer.added_tokens_decoder.values() if token.special
        ]
        for message in prompt:
            for mark in marks:
                if mark in message.content:
                    raise LabError(
                        f"the text contains {mark!r}, a control mark of this model that would end the"
                        " question early; take it out and ask again."
                    )
        messages = [message.model_dump() for message in prompt]
        text = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **options
        )
        return tuple(
            int(token) for token in self.tokenizer.encode(str(text), add_special_tokens=False)
        )

    def _run(
        self,
        rows: Sequence[Row],
        manner: Manner,
        streamer: RowStreamer | None = None,
        halt: "_Halt | None" = None,
    ) -> list[list[int]]:
        """Return the new tokens of each row, end mark included where it was written."""
        width = max(len(row.prompt) for row in rows)
        ids = torch.full((len(rows), width), self._pad)
        attention = torch.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, width - len(row.prompt) :] = torch.tensor(row.prompt)
            attention[place, width - len(row.prompt) :] = 1
        device = self._model.device
        adapters = [self._adapters_of_stage[row.stage] for row in rows]
        with torch.inference_mode(), self._stack.rows(adapters):
            written = self._generate(
                input_ids=ids.to(device),
                attention_mask=attention.to(device),
                max_new_tokens=manner.sampling.max_new_tokens,
                do_sample=False,
                logits_processor=manner.processors(rows),
                stopping_criteria=StoppingCriteriaList([halt] if halt else []),
                streamer=streamer,
            )
        return [row[width:] for row in written.tolist()]

    def _completion(self, stage: str, tokens: Sequence[int]) -> Completion:
        end = next((place for place, token in enumerate(tokens) if token in self.ends), None)
        text = self.tokenizer.decode(list(tokens[:end]), skip_special_tokens=True)
        return Completion(
            stage=stage,
            text=str(text),
            n_tokens=len(tokens) if end is None else end,
            finish_reason="length" if end is None else "stop",
        )

    def _feed(
        self, rows: Sequence[Row], manner: Manner, streamer: RowStreamer, halt: "_Halt"
    ) -> None:
        """Write into the streamer, in a thread of its own; every end reaches the reader."""
        try:
            has_turn = False
            while not halt.is_set() and not has_turn:
                has_turn = self._lock.acquire(timeout=WAIT_SECONDS)
            if has_turn:
                try:
                    self._run(rows, manner, streamer, halt)
                finally:
                    self._lock.release()
            streamer.close("cancelled" if halt.is_set() else "length")
            streamer.pieces.put(None)
        except BaseException as error:  # handed to the reader, who raises it
            streamer.pieces.put(error)


class _Halt(StoppingCriteria):
    """Stops all rows after the token at hand, when asked to or when nobody reads any more."""

    def __init__(self, asked: threading.Event) -> None:
        self._asked = asked
        self.abandoned = threading.Event()

    def is_set(self) -> bool:
        return self._asked.is_set() or self.abandoned.is_set()

    def __call__(
        self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: object
    ) -> torch.Tensor:
        return torch.full((input_ids.shape[0],), self.is_set(), device=input_ids.device)


def _pieces(thread: threading.Thread, streamer: RowStreamer, halt: _Halt) -> Generator[Piece]:
    thread.start()
    try:
        while (item := streamer.pieces.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        halt.abandoned.set()
        thread.join()


def end_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Return the tokens that end an answer: the model's own and the tokenizer's."""
    named = model.generation_config.eos_token_id if model.generation_config else None
    ends = named if isinstance(named, list) else [named]
    return tuple(dict.fromkeys(end for end in (*ends, tokenizer.eos_token_id) if end is not None))
