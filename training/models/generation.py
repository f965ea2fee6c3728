"""Answers of several stages to several prompts: rows of one batch, whole or as they are written.

Greedy by default. In float32 an answer does not depend on what else is in the batch; in bfloat16
rounding differs between batch shapes, so a text may: compare stages inside one batch, and use
float32 where a text must come out the same again.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import torch
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
    TopPLogitsWarper,
)

from evals.errors import BadConfig, LabError
from evals.schema import Completion, Message
from evals.schema.questions import Sampling, TokenScore
from evals.verifiers.line import last_answer
from training.data.tokens import NO_THOUGHT, OPEN_THOUGHT, TEMPLATE_ERRORS, question_text, turn_end
from training.models.base import context_of
from training.models.stack import FOREGROUND, Stack, pad_texts

MAX_NEW_TOKENS = 4096


def row_seed(seed: int, stage: str, prompt: Sequence[int]) -> int:
    """Return the seed of one row's noise, from 0 to 2**63 - 1."""
    text = f"{seed}\n{stage}\n{','.join(map(str, prompt))}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


class LongPrompt(LabError):
    """A prompt has more tokens than the model reads, with room for the answer."""


class SeededRows(LogitsProcessor):
    """Turns greedy decoding of (rows, vocabulary) into sampling: the largest of its scores is a draw."""

    def __init__(self, seeds: Sequence[int], temperature: float, top_p: float) -> None:
        self._sources = [torch.Generator().manual_seed(seed) for seed in seeds]
        self._temperature = temperature
        self._top_p = top_p

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores whose largest entry is each row's draw."""
        logits = scores.float() / self._temperature
        if self._top_p < 1.0:
            logits = TopPLogitsWarper(self._top_p)(cast(torch.LongTensor, input_ids), logits)
        uniform = torch.stack([torch.rand(logits.shape[-1], generator=g) for g in self._sources])
        tiny = torch.finfo(torch.float32).tiny
        return logits - torch.log(-torch.log(uniform.clamp_min(tiny))).to(logits.device)


FinishReason = Literal["stop", "length", "cancelled"]
UNFINISHED = "�"
"""What a tokenizer shows for bytes that are not yet a whole character."""


@dataclass(frozen=True)
class ScoredToken:
    """A token that was written, its log-probability before temperature (nats), and the likeliest in its place."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Piece:
    """New text of one stage, `n_tokens` written so far; `finish_reason` stands on its last piece alone.

    `note` says of a hosted model's answer what it cost, or why there is none. `scored` are its tokens, where they are asked for.
    """

    stage: str
    text: str
    finish_reason: FinishReason | None
    n_tokens: int
    note: str = ""
    scored: tuple[ScoredToken, ...] = ()


THOUGHT_END = "</think>"
NO_THOUGHTS = re.compile(rf"\s*{THOUGHT_END}\s*")


class RowText:
    """The text of one row, grown token by token; characters are held back until they are whole.

    Where the prompt opens a thought, as some templates do, an answer that closes it at once begins behind that.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, prompt: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._shown = 0
        self._is_open = bool(OPEN_THOUGHT.search(str(tokenizer.decode(list(prompt[-8:])))))
        self.tokens: list[int] = []

    def add(self, token: int) -> str:
        """Return the text that `token` completes; empty in the middle of a character."""
        self.tokens.append(token)
        return self.rest(held_back=UNFINISHED)

    def rest(self, held_back: str | None = None) -> str:
        """Return what was not shown yet, unless it ends with what is `held_back`."""
        text = str(self._tokenizer.decode(self.tokens, skip_special_tokens=True))
        if held_back and (text.endswith(held_back) or (self._is_open and THOUGHT_END.startswith(text.strip()))):
            return ""
        if self._is_open and (closed := NO_THOUGHTS.match(text)):
            text = text[closed.end() :]
        new, self._shown = text[self._shown :], len(text)
        return new


SEPARATORS = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON as `json.dumps` writes it, which is how replies are taught; free blanks would let a model idle."""


class Form:
    """What every answer must look like; made once for a tokenizer, used for any number of batches.

    `schema` None leaves the words free. `repetition_penalty` 1 = none; above it, tokens that were read or written
    before become less likely (Keskar et al. 2019). BadConfig for a schema that no grammar can be made of.
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
        self._grammar: str | None = None
        if schema is None:
            return
        if not isinstance(tokenizer, PreTrainedTokenizerFast):
            raise BadConfig(
                "this base has a slow tokenizer, which no grammar can be made for; use a base with a"
                " tokenizer.json, or constrain never."
            )
        self._tokens: LLTokenizer = from_tokenizer(tokenizer, eos_token=list(ends))
        self._grammar = LLMatcher.grammar_from_json_schema({**schema, "x-guidance": SEPARATORS})
        if problem := LLMatcher(self._tokens, self._grammar).get_error():
            raise BadConfig(f"answers cannot be held to this schema: {problem}")

    def processors(self, rows: int) -> list[LogitsProcessor]:
        """Return what is done to the logits of a new batch of so many rows, in order."""
        found: list[LogitsProcessor] = []
        if self._penalty != 1.0:
            found.append(RepetitionPenaltyLogitsProcessor(self._penalty))
        if self._grammar is not None:
            matchers = [LLMatcher(self._tokens, self._grammar) for _ in range(rows)]
            found.append(Held(matchers, self._ends))
        return found


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


LIKELIEST = 100
"""Tokens in the place of each of an answer whose log-probabilities are told; servers tell 20."""
BATCH_ROWS = 24
"""Rows of one batch: enough to use the processor well, few enough to keep in memory."""
WAIT_SECONDS = 0.05


@dataclass(frozen=True)
class Row:
    """One answer to be written: the prompt's tokens and the stage that answers."""

    prompt: tuple[int, ...]
    stage: str


class Writer:
    """Writes answers of one chain with a stacked model. One batch runs at a time; others wait their turn.

    What `stream` writes somebody waits for; what `generate` writes stands back for it (`training.models.stack`).
    """

    def __init__(
        self, stack: Stack, tokenizer: PreTrainedTokenizerBase, adapters_of_stage: Mapping[str, frozenset[str]]
    ) -> None:
        self.stack, model = stack, stack.model
        self._generate = cast(Callable[..., torch.Tensor], model.generate)
        self.tokenizer = tokenizer
        self.adapters_of_stage = dict(adapters_of_stage)
        self.ends = end_tokens(model, tokenizer)
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.ends[0]
        self.context = context_of(model.config) or 2048
        # A model's own sampling settings (a repetition penalty, say) must not leak into answers.
        model.generation_config = GenerationConfig(
            eos_token_id=list(self.ends), pad_token_id=self._pad, bos_token_id=tokenizer.bos_token_id
        )

    def prompt(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return what the model reads of a conversation."""
        return messages

    def generate(
        self,
        prompts: Sequence[Sequence[Message]],
        stages: Sequence[str],
        sampling: Sampling,
        form: Form | None = None,
        told: Callable[[int], None] | None = None,
    ) -> list[list[Completion]]:
        """Return one list per prompt, in it one completion per stage, in the order asked.

        `told` is called after every token with how many of each answer are written. Answers that are held to a `form`
        are not preceded by reasoning. Raises LabError for an empty prompt or one too long for the model, BadConfig for
        an unknown stage or setting; nothing is written then.
        """
        thinks = form is None
        rows = [row for prompt in prompts for row in self.rows(prompt, stages, sampling, thinks=thinks)]
        order = sorted(range(len(rows)), key=lambda place: (len(rows[place].prompt), place))
        answers: dict[int, Completion] = {}
        for start in range(0, len(order), BATCH_ROWS):
            places = order[start : start + BATCH_ROWS]
            batch = [rows[place] for place in places]
            with self.stack.lock, self.stack.background():
                written = self._run(batch, sampling, form, told or (lambda _: False))
            answers.update(zip(places, map(self._completion, batch, written), strict=True))
        width = len(stages)
        return [[answers[first + offset] for offset in range(width)] for first in range(0, len(rows), width)]

    def stream(
        self,
        prompt: Sequence[Message],
        stages: Sequence[str],
        sampling: Sampling,
        stop: threading.Event,
        form: Form | None = None,
    ) -> Iterator[Piece]:
        """Yield the stages' answers, each as one piece, once all are written.

        Bad input is raised here, before anything is written. Setting `stop` ends the answers as "cancelled"
        within a token.
        """
        return self._whole(self.rows(prompt, stages, sampling, thinks=form is None), sampling, stop, form)

    def _whole(
        self, rows: Sequence[Row], sampling: Sampling, stop: threading.Event, form: Form | None
    ) -> Iterator[Piece]:
        has_turn, written = False, [[] for _ in rows]
        with FOREGROUND.answering():
            while not (has_turn or stop.is_set()):
                has_turn = self.stack.lock.acquire(timeout=WAIT_SECONDS)
            if has_turn:
                try:
                    written = self._run(rows, sampling, form, lambda _: stop.is_set())
                finally:
                    self.stack.lock.release()
        for answer in map(self._completion, rows, written):
            is_cut = answer.finish_reason == "length" and answer.n_tokens < sampling.max_new_tokens
            yield Piece(answer.stage, answer.text, "cancelled" if is_cut else answer.finish_reason, answer.n_tokens)

    def rows(
        self, prompt: Sequence[Message], stages: Sequence[str], sampling: Sampling, *, thinks: bool = True
    ) -> list[Row]:
        """Return the rows of one prompt, checked; not `thinks`: the template is told to leave reasoning out."""
        limits = (
            ("max_new_tokens", sampling.max_new_tokens, 1, MAX_NEW_TOKENS),
            ("temperature", sampling.temperature, 0.0, 5.0),
            ("top_p", sampling.top_p, 1e-6, 1.0),
            ("seed", sampling.seed, 0, 2**63 - 1),
        )
        for name, value, low, high in limits:
            if not low <= value <= high:
                raise BadConfig(f"{name} is {value}; choose a value from {low} to {high}.")
        known = tuple(self.adapters_of_stage)
        for stage in stages:
            if stage not in known:
                raise BadConfig(f"no stage {stage!r} in this chain; it has {', '.join(known)}.")
        if not stages:
            raise BadConfig(f"no stage was named; choose from {', '.join(known)}.")
        prompt = self.prompt(prompt)
        if not prompt or not prompt[-1].content.strip():
            raise LabError("the question is empty; type one and ask again.")
        options = {} if thinks else NO_THOUGHT
        try:
            text = question_text([message.model_dump() for message in prompt], self.tokenizer, **options)
        except TEMPLATE_ERRORS as error:
            raise LabError(f"the chat template of this base takes no such conversation: {error}") from error
        tokens = tuple(int(token) for token in self.tokenizer.encode(text, add_special_tokens=False))
        room = self.context - sampling.max_new_tokens
        if len(tokens) > room:
            raise LongPrompt(
                f"the question is {len(tokens):,} tokens long with its instructions; this model reads"
                f" {self.context:,}, of which {sampling.max_new_tokens:,} are kept for the answer, so at"
                f" most {max(room, 0):,} fit. Shorten the question or ask for a shorter answer."
            )
        return [Row(tokens, stage) for stage in stages]

    def token_scores(
        self, prompts: Sequence[Sequence[Message]], stage: str, texts: Sequence[str], sampling: Sampling
    ) -> list[Sequence[TokenScore]]:
        """Return the tokens behind the last "Answer:" of texts that a stage answered prompts, and what may follow them."""
        return [self._scores(prompt, stage, text) for prompt, text in zip(prompts, texts, strict=True)]

    def _scores(self, prompt: Sequence[Message], stage: str, text: str) -> Sequence[TokenScore]:
        if (line := last_answer(text)) is None:
            return ()
        (row,) = self.rows(prompt, (stage,), Sampling(max_new_tokens=1))
        before, said = (
            self.tokenizer.encode(each, add_special_tokens=False) for each in (text[: line.at], f" {line.text}")
        )
        ids = torch.tensor([[*row.prompt, *before, *said]]).to(self.stack.model.device)
        adapters = self.stack.rows([self.adapters_of_stage[stage]])
        with self.stack.lock, self.stack.background(), torch.inference_mode(), adapters:
            logits = self.stack.model(input_ids=ids, use_cache=False, logits_to_keep=len(said) + 1).logits[0]
        logs = torch.log_softmax(logits.float(), dim=-1).cpu()
        values, tokens = logs.topk(min(LIKELIEST, logs.shape[-1]))
        found = []
        for at, (likeliest, of_them) in enumerate(zip(tokens.tolist(), values.tolist(), strict=True)):
            token = said[at] if at < len(said) else likeliest[0]
            words = [str(self.tokenizer.decode([each])) for each in (token, *likeliest)]
            found.append(TokenScore(words[0], float(logs[at, token]), tuple(zip(words[1:], of_them, strict=True))))
        return found

    def _completion(self, row: Row, tokens: Sequence[int]) -> Completion:
        """Return a row's answer, up to the end mark."""
        end = next((at for at, token in enumerate(tokens) if token in self.ends), None)
        text = RowText(self.tokenizer, row.prompt)
        text.tokens += tokens[:end]
        return Completion(
            stage=row.stage,
            text=text.rest(),
            n_tokens=len(tokens) if end is None else end,
            finish_reason="length" if end is None else "stop",
        )

    def _run(
        self, rows: Sequence[Row], sampling: Sampling, form: Form | None, ends: Callable[[int], object]
    ) -> list[list[int]]:
        """Return the new tokens of each row, end mark included where it was written; `ends` as in `_AfterToken`."""
        ids, own = pad_texts([row.prompt for row in rows], self.stack.model.device, self._pad)
        processors = LogitsProcessorList(form.processors(len(rows)) if form else [])  # so that draws keep to it
        if sampling.temperature > 0:
            seeds = [row_seed(sampling.seed, row.stage, row.prompt) for row in rows]
            processors.append(SeededRows(seeds, sampling.temperature, sampling.top_p))
        adapters = [self.adapters_of_stage[row.stage] for row in rows]
        with torch.inference_mode(), self.stack.rows(adapters):
            written = self._generate(
                input_ids=ids,
                attention_mask=own.long(),
                max_new_tokens=sampling.max_new_tokens,
                do_sample=False,
                logits_processor=processors,
                stopping_criteria=StoppingCriteriaList([_AfterToken(ends)]),
            )
        return [row[ids.shape[1] :] for row in written.tolist()]


class _AfterToken(StoppingCriteria):
    """Asks after every token, with how many of each answer are written, whether all rows end here."""

    def __init__(self, ends: Callable[[int], object]) -> None:
        self._ends, self._written = ends, 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: object) -> torch.Tensor:
        self._written += 1
        return torch.full((input_ids.shape[0],), bool(self._ends(self._written)), device=input_ids.device)


def end_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Return the tokens that end an answer: the model's own, the tokenizer's, and what its template ends one with."""
    named = model.generation_config.eos_token_id if model.generation_config else None
    ends = named if isinstance(named, list) else [named]
    known = (*ends, tokenizer.eos_token_id, turn_end(tokenizer))
    return tuple(dict.fromkeys(end for end in known if end is not None))
