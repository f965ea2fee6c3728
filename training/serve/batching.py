r"""Continuous batching: many requests share one running batch, each with its stage, draws, stop texts and limits.

    batcher = Batcher(load_chain("embedded"))
    job = batcher.submit(GenerationRequest(prompt, "grpo", Sampling(), stop=("\n",)), put=queue.put)

A request joins at the next token and leaves at its own end. In float32 an answer does not depend on its company,
and is the one that `Writer.generate` gives; in bfloat16 rounding differs between batch shapes, so a text may.

transformers' own continuous batching packs all requests into one sequence and draws them alike; the stacked
adapters and the seeds are per row, so rows stay rows here.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional
from transformers import Cache
from transformers.cache_utils import DynamicLayer

from evals.errors import BadConfig, LabError
from evals.model import Sampling
from training.models.generation import BATCH_ROWS, FinishReason, RowText, SeededRows, Writer, row_seed

log = logging.getLogger(__name__)

PREFILL_TOKENS = 512
"""Prompt tokens read between two tokens of those who are being answered, or one prompt if that is longer."""
PREFIX_TOKENS = 4096
"""Tokens whose keys and values are kept for prompts that begin alike."""
SHORTEST_PREFIX = 16
ROOM = 64
"""CacheColumns by which a cache grows."""
CLOSING = "the server is stopping."


class Busy(LabError):
    """More requests wait than may."""


@dataclass(frozen=True)
class GenerationRequest:
    """One answer to be written. `top_logprobs` None = no log-probabilities, 0 = of the chosen tokens alone."""

    prompt: tuple[int, ...]
    stage: str
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None

    @property
    def length(self) -> int:
        """Tokens of the prompt and the longest answer."""
        return len(self.prompt) + self.sampling.max_new_tokens


@dataclass(frozen=True)
class Scored:
    """A token that was written, its log-probability before temperature (nats), and the likeliest in its place."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Delta:
    """New text of an answer, `n_tokens` written so far; `finish_reason` stands on the last one alone."""

    text: str
    n_tokens: int
    finish_reason: FinishReason | None = None
    scored: tuple[Scored, ...] = ()


Put = Callable[[Delta | Exception], None]


class Generation:
    """A request on its way: waiting, then a row of the batch."""

    def __init__(self, asked: GenerationRequest, put: Put, writer: Writer) -> None:
        self.asked, self.put = asked, put
        self.adapters = writer.adapters_of_stage[asked.stage]
        self.is_cancelled = False
        self.last = 0
        self._ends = writer.ends
        self._text = RowText(writer.tokenizer)
        self._held = ""
        self._scored: list[Scored] = []
        sampling = asked.sampling
        self._draw = None
        if sampling.temperature > 0:
            seed = row_seed(sampling.seed, asked.stage, asked.prompt)
            self._draw = SeededRows((seed,), sampling.temperature, sampling.top_p)

    def take(self, likeliest: int, logits: torch.Tensor) -> bool:
        """Choose the next token by its logits (1, vocabulary), hand on its text, and return whether it was the last."""
        token = likeliest if self._draw is None else int(self._draw(logits, logits).argmax())
        if token in self._ends:
            self._held += self._text.rest()
            return self._put(len(self._held), "stop")
        self.last = token
        self._held += self._text.add(token)
        if (wanted := self.asked.top_logprobs) is not None:
            logs = logits[0].log_softmax(-1)
            values, tokens = logs.topk(wanted)
            top = tuple(zip(tokens.tolist(), values.tolist(), strict=True))
            self._scored.append(Scored(token, float(logs[token]), top))
        if found := [at for stop in self.asked.stop if (at := self._held.find(stop)) >= 0]:
            return self._put(min(found), "stop")
        if len(self._text.tokens) == self.asked.sampling.max_new_tokens:
            self._held += self._text.rest()
            return self._put(len(self._held), "length")
        begun = (n for stop in self.asked.stop for n in range(1, len(stop)) if self._held.endswith(stop[:n]))
        shown = len(self._held) - max(begun, default=0)
        return self._put(shown) if shown else False

    def _put(self, shown: int, reason: FinishReason | None = None) -> bool:
        text, self._held = self._held[:shown], self._held[shown:]
        self.put(Delta(text, len(self._text.tokens), reason, tuple(self._scored)))
        self._scored.clear()
        return reason is not None


class CacheColumns(DynamicLayer):
    """Keys and values of a layer, each (rows, heads, columns, size), with room for more columns behind them."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.pair = self._all = (keys, values)
        self.keys, self.values = self.pair

    @property
    def width(self) -> int:
        return self.pair[0].shape[2]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write further columns in place and return all keys and values."""
        old, new = self.width, self.width + key_states.shape[2]
        if new > self._all[0].shape[2]:
            keys, values = (functional.pad(each, (0, 0, 0, new + ROOM - old)) for each in self.pair)
            self._all = (keys, values)
        for held, states in zip(self._all, (key_states, value_states), strict=True):
            held[:, :, old:new] = states
        self.pair = (self._all[0][:, :, :new], self._all[1][:, :, :new])
        self.keys, self.values = self.pair
        return self.pair

    def part(self, rows: torch.Tensor | slice, columns: torch.Tensor | slice) -> "CacheColumns":
        keys, values = (each[rows][:, :, columns] for each in self.pair)
        return CacheColumns(keys, values)

    def beside(self, other: "CacheColumns") -> "CacheColumns":
        """Return the rows of both, aligned at the last column."""
        width = max(self.width, other.width)
        pairs = zip(self.pair, other.pair, strict=True)
        keys, values = (torch.cat([_wide(each, width, 2) for each in pair]) for pair in pairs)
        return CacheColumns(keys, values)


def _wide(tensor: torch.Tensor, width: int, dim: int) -> torch.Tensor:
    """Return the tensor with empty columns before its own."""
    return functional.pad(tensor, (0, 0) * (tensor.dim() - 1 - dim) + (width - tensor.shape[dim], 0))


@dataclass
class Rows:
    """Jobs and their part of the cache; `mask` (rows, columns) says which columns are a row's own."""

    jobs: list[Generation]
    mask: torch.Tensor
    layers: list[CacheColumns]

    def select(self, places: Sequence[int]) -> "Rows":
        """Return some of the rows, without the columns that none of them uses."""
        rows = torch.tensor(places, dtype=torch.long, device=self.mask.device)
        used = self.mask[rows].any(0).nonzero()[:, 0]
        layers = [layer.part(rows, used) for layer in self.layers]
        return Rows([self.jobs[place] for place in places], self.mask[rows][:, used], layers)

    def beside(self, other: "Rows") -> "Rows":
        """Return both, aligned at the last column."""
        width = max(self.mask.shape[1], other.mask.shape[1])
        mask = torch.cat([_wide(each.mask, width, 1) for each in (self, other)])
        layers = [mine.beside(theirs) for mine, theirs in zip(self.layers, other.layers, strict=True)]
        return Rows(self.jobs + other.jobs, mask, layers)


@dataclass(frozen=True)
class Prefix:
    """A prompt that was read with some adapters, and the one row that came of it."""

    adapters: frozenset[str]
    tokens: tuple[int, ...]
    layers: list[CacheColumns]


class Batcher:
    """The running batch of a chain, in a thread of its own, and those who wait to join it.

    `max_columns` bounds the cache: rows times the longest of them. Every method may be called from any thread.
    """

    def __init__(
        self, writer: Writer, max_rows: int = BATCH_ROWS, max_waiting: int = 64, max_columns: int = 65_536
    ) -> None:
        self.writer, self.max_rows, self.max_waiting, self.max_columns = writer, max_rows, max_waiting, max_columns
        self._stack, self._model = writer.stack, writer.stack.model
        config = self._model.config.get_text_config(decoder=True)
        kinds = set(getattr(config, "layer_types", None) or ())
        if other := kinds - {"full_attention", "sliding_attention"}:
            raise BadConfig(
                f"the base has layers of the kind {', '.join(sorted(other))}, which do not keep a column per token;"
                " continuous batching takes attention alone. Export the chain (`assay chain export`) and serve that."
            )
        # A window counts columns, so that a row must have no gap between what was read before and the rest.
        self._keeps_prefixes = getattr(config, "sliding_window", None) is None
        self._prefixes: list[Prefix] = []
        self._waiting: list[Generation] = []
        self._empty = self._shape_of_cache()
        self._rows = self._new([], [])
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    def submit(self, asked: GenerationRequest, put: Put) -> Generation:
        """Queue a request; `put` is called in the batcher's thread. Busy where too many wait already."""
        job = Generation(asked, put, self.writer)
        with self._changed:
            if self._is_closed:
                raise Busy(CLOSING)
            if len(self._waiting) + len(self._rows.jobs) >= self.max_rows + self.max_waiting:
                raise Busy(f"{len(self._waiting)} requests wait already; ask again in a moment.")
            self._waiting.append(job)
            self._changed.notify()
        return job

    def cancel(self, job: Generation) -> None:
        """Give up a request; its row is free before the next token."""
        with self._changed:
            job.is_cancelled = True
            if job in self._waiting:
                self._waiting.remove(job)

    def close(self) -> None:
        """End the thread; what runs or waits is told."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    @property
    def load(self) -> tuple[int, int]:
        """How many requests are being answered, and how many wait."""
        return len(self._rows.jobs), len(self._waiting)

    # ---- the batcher's thread ----------------------------------------------------------------

    @torch.inference_mode()
    def _work(self) -> None:
        while True:
            with self._changed:
                while not (self._waiting or self._rows.jobs or self._is_closed):
                    self._changed.wait()
                if self._is_closed:
                    break
                self._keep([not job.is_cancelled for job in self._rows.jobs])
                newcomers = self._next()
            try:
                if newcomers:
                    self._rows = self._rows.beside(self._read(newcomers))
                if self._rows.jobs:
                    self._advance()
            except Exception as error:  # told to all whom it took down; the next request starts afresh
                log.exception("a batch broke")
                for job in {*newcomers, *self._rows.jobs}:
                    job.put(error)
                self._rows, self._prefixes = self._new([], []), []
        for job in (*self._rows.jobs, *self._waiting):
            job.put(Busy(CLOSING))

    def _next(self) -> list[Generation]:
        """Take those who join now from the line, in order."""
        chosen: list[Generation] = []
        to_read = 0
        while self._waiting and len(self._rows.jobs) + len(chosen) < self.max_rows:
            job = self._waiting[0]
            known = self._known(job)[0]
            to_read += len(job.asked.prompt) - known
            everyone = [*self._rows.jobs, *chosen, job]
            is_full = len(everyone) * max(each.asked.length for each in everyone) > self.max_columns
            # Who begins like one that is being read now waits for it, and need not read that again.
            waits = self._keeps_prefixes and any(
                _alike(each, job, each.asked.prompt) - known >= SHORTEST_PREFIX for each in chosen
            )
            if len(everyone) > 1 and (is_full or (chosen and to_read > PREFILL_TOKENS) or waits):
                break
            chosen.append(self._waiting.pop(0))
        return chosen

    def _known(self, job: Generation) -> tuple[int, list[CacheColumns]]:
        """Return how many tokens of a prompt were read before by the same adapters, and their columns.

        Stages of one prompt share nothing: adapters change keys and values, in all but the first layer even
        where they leave k_proj and v_proj alone.
        """
        found = max(self._prefixes, key=lambda each: _alike(each, job, each.tokens), default=None)
        length = min(_alike(found, job, found.tokens), len(job.asked.prompt) - 1) if found else 0
        if found is None or length < SHORTEST_PREFIX:
            return 0, self._empty
        return length, [layer.part(slice(None), slice(length)) for layer in found.layers]

    def _read(self, jobs: list[Generation]) -> Rows:
        """Return new rows with all but the last token of their prompts in the cache."""
        rows = self._new([], [])
        rest = []
        for job in jobs:
            length, layers = self._known(job)
            *read, job.last = job.asked.prompt
            rest.append(read[length:])
            rows = rows.beside(self._new([job], layers))
        if any(rest):
            rows, _ = self._computed(rows, rest)
        for place, job in enumerate(jobs if self._keeps_prefixes else ()):
            if rest[place]:
                layers = rows.select([place]).layers
                self._prefixes.append(Prefix(job.adapters, job.asked.prompt[:-1], layers))
        while sum(len(each.tokens) for each in self._prefixes) > PREFIX_TOKENS:
            self._prefixes.pop(0)
        return rows

    def _advance(self) -> None:
        """Give every row its next token."""
        self._rows, logits = self._computed(self._rows, [[job.last] for job in self._rows.jobs])
        likeliest = logits.argmax(-1).tolist()
        self._keep([not job.take(likeliest[place], logits[place, None]) for place, job in enumerate(self._rows.jobs)])

    def _keep(self, is_kept: list[bool]) -> None:
        if not all(is_kept):
            self._rows = self._rows.select([place for place, kept in enumerate(is_kept) if kept])

    def _computed(self, rows: Rows, tokens: Sequence[Sequence[int]]) -> tuple[Rows, torch.Tensor]:
        """Return the rows with further tokens in the cache, and the logits (rows, vocabulary) after the last ones."""
        device, width = self._model.device, max(map(len, tokens))
        ids = torch.tensor([[0] * (width - len(each)) + list(each) for each in tokens], device=device)
        new = torch.tensor([[False] * (width - len(each)) + [True] * len(each) for each in tokens], device=device)
        mask = torch.cat([rows.mask, new], dim=1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -width:]
        with self._stack.lock, self._stack.rows([job.adapters for job in rows.jobs]):
            logits = self._model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=Cache(layers=list(rows.layers)),
                use_cache=True,
                logits_to_keep=1,
            ).logits
        return Rows(rows.jobs, mask, rows.layers), logits[:, -1].float().cpu()

    def _new(self, jobs: list[Generation], layers: list[CacheColumns]) -> Rows:
        """Return rows that own all columns of `layers`; no jobs: no rows."""
        layers = layers or [layer.part(slice(0), slice(None)) for layer in self._empty]
        mask = torch.ones(len(jobs), layers[0].width, dtype=torch.bool, device=self._model.device)
        return Rows(jobs, mask, layers)

    def _shape_of_cache(self) -> list[CacheColumns]:
        """Return a row without columns, shaped like what the model keeps of a token."""
        with torch.inference_mode(), self._stack.lock:
            ids = torch.zeros(1, 1, dtype=torch.long, device=self._model.device)
            kept = self._model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values
        return [CacheColumns(layer.keys[:, :, :0], layer.values[:, :, :0]) for layer in kept.layers]


def _alike(one: Generation | Prefix, job: Generation, tokens: Sequence[int]) -> int:
    """Return how many tokens a prompt begins with that were, or are being, read by the same adapters."""
    if one.adapters != job.adapters:
        return 0
    pairs = enumerate(zip(tokens, job.asked.prompt, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(tokens), len(job.asked.prompt)))
