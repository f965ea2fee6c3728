r"""Continuous batching: many requests share one running batch, each with its stage, draws, stop texts and limits.

    batcher = Batcher(load_chain("embedded"))
    job = batcher.submit(GenerationRequest(prompt, "grpo", Sampling(), stop=("\n",)), put=queue.put)

A request joins at the next token and leaves at its own end. In float32 an answer does not depend on its company,
and is the one that `Writer.generate` gives; in bfloat16 rounding differs between batch shapes, so a text may.

transformers' own continuous batching packs all requests into one sequence and draws them alike; the stacked
adapters and the seeds are per row, so rows stay rows here.
"""

import atexit
import inspect
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from evals.errors import BadConfig, LabError
from evals.schema.questions import Sampling
from training.models.generation import (
    BATCH_ROWS,
    FinishReason,
    Form,
    Piece,
    Row,
    RowText,
    ScoredToken,
    SeededRows,
    Writer,
    row_seed,
)
from training.models.stack import FOREGROUND, pad_texts

log = logging.getLogger(__name__)

PREFILL_TOKENS = 512
"""Prompt tokens read between two tokens of those who are being answered."""
PREFIX_TOKENS, SHARED_PREFIX_TOKENS = 4096, 512
"""Tokens whose keys and values are kept for prompts that begin alike, of one prompt a quarter: by a server, and by the
batch that chains share, which must not take much of a lab's memory."""
SHORTEST_PREFIX = 16
SHORT = 2048
"""Prompts and answers up to this length share a batch; longer ones share one with those of up to twice their length."""
SHARED_ROWS = 64
"""Rows of the batch that the chains on one base share in a process, so that sixteen visitors may ask four stages."""
IDLE_SECONDS = 1.0
POLL_SECONDS = 0.05
ROOM = 64
"""Columns by which a cache grows."""
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
    form: Form | None = None

    @property
    def length(self) -> int:
        """Tokens of the prompt and the longest answer."""
        return len(self.prompt) + self.sampling.max_new_tokens

    @property
    def size(self) -> int:
        """Columns of the batch that it is a row of: no row computes much for the sake of a longer one."""
        return max(SHORT, 1 << (self.length - 1).bit_length())


Put = Callable[[Piece | Exception], None]


class Generation:
    """A request on its way: waiting, then a row of the batch."""

    def __init__(self, asked: GenerationRequest, put: Put, writer: Writer) -> None:
        self.asked, self.put = asked, put
        self.adapters = writer.adapters_of_stage[asked.stage]
        self.is_cancelled = False
        self.last = 0
        self._ends = writer.ends
        self._text = RowText(writer.tokenizer, asked.prompt)
        self._held = ""
        self._scored: list[ScoredToken] = []
        sampling = asked.sampling
        self._processors = asked.form.processors(1) if asked.form else []
        if sampling.temperature > 0:
            seed = row_seed(sampling.seed, asked.stage, asked.prompt)
            self._processors.append(SeededRows((seed,), sampling.temperature, sampling.top_p))

    def take(self, likeliest: int, logits: torch.Tensor) -> bool:
        """Choose the next token by its logits (1, vocabulary), hand on its text, and return whether it was the last."""
        token = likeliest
        if self._processors:
            ids, scores = torch.tensor([[*self.asked.prompt, *self._text.tokens]]), logits
            for process in self._processors:
                scores = process(ids, scores)
            token = int(scores.argmax())
        if token in self._ends:
            self._held += self._text.rest()
            return self._put(len(self._held), "stop")
        self.last = token
        self._held += self._text.add(token)
        if (wanted := self.asked.top_logprobs) is not None:
            logs = logits[0].log_softmax(-1)
            values, tokens = logs.topk(wanted)
            top = tuple(zip(tokens.tolist(), values.tolist(), strict=True))
            self._scored.append(ScoredToken(token, float(logs[token]), top))
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
        self.put(Piece(self.asked.stage, text, reason, len(self._text.tokens), scored=tuple(self._scored)))
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

    def join(self, other: "CacheColumns") -> "CacheColumns":
        """Return the rows of both, aligned at the last column."""
        width = max(self.width, other.width)
        pairs = zip(self.pair, other.pair, strict=True)
        keys, values = (torch.cat([_wide(each, width, 2) for each in pair]) for pair in pairs)
        return CacheColumns(keys, values)


def _wide(tensor: torch.Tensor, width: int, dim: int) -> torch.Tensor:
    """Return the tensor with empty columns before its own."""
    return functional.pad(tensor, (0, 0) * (tensor.dim() - 1 - dim) + (width - tensor.shape[dim], 0))


@dataclass
class CacheRows:
    """Jobs and their part of the cache; `mask` (rows, columns) says which columns are a row's own."""

    jobs: list[Generation]
    mask: torch.Tensor
    layers: list[CacheColumns]

    def select(self, places: Sequence[int]) -> "CacheRows":
        """Return some of the rows, without the columns that none of them uses."""
        rows = torch.tensor(places, dtype=torch.long, device=self.mask.device)
        used = self.mask[rows].any(0).nonzero()[:, 0]
        layers = [layer.part(rows, used) for layer in self.layers]
        return CacheRows([self.jobs[place] for place in places], self.mask[rows][:, used], layers)

    def join(self, other: "CacheRows") -> "CacheRows":
        """Return both, aligned at the last column."""
        width = max(self.mask.shape[1], other.mask.shape[1])
        mask = torch.cat([_wide(each.mask, width, 1) for each in (self, other)])
        layers = [mine.join(theirs) for mine, theirs in zip(self.layers, other.layers, strict=True)]
        return CacheRows(self.jobs + other.jobs, mask, layers)


@dataclass(frozen=True)
class Prefix:
    """A prompt that was read with some adapters, and the one row that came of it."""

    adapters: frozenset[str]
    tokens: tuple[int, ...]
    layers: list[CacheColumns]


@dataclass
class PromptRows:
    """Rows whose prompts are being read, and what of them, (rows, columns), is not in their cache yet."""

    rows: CacheRows
    ids: torch.Tensor
    mask: torch.Tensor


class Batcher:
    """The running batch of a chain, in a thread of its own while there is work, and those who wait to join it.

    `max_columns` bounds the cache: rows times the longest of those they run with. Every method may be called from
    any thread.
    """

    def __init__(
        self,
        writer: Writer,
        max_rows: int = BATCH_ROWS,
        max_waiting: int = 64,
        max_columns: int = 65_536,
        prefix_tokens: int = PREFIX_TOKENS,
    ) -> None:
        if other := unbatched_layers(writer.stack.model):
            raise BadConfig(
                f"the base has {', '.join(other)}, where continuous batching needs attention that keeps a column per"
                " token and is told its position. Export the chain (`assay chain export`) and serve that."
            )
        self.writer, self.max_rows, self.max_waiting, self.max_columns = writer, max_rows, max_waiting, max_columns
        self._stack, self._model = writer.stack, writer.stack.model
        # A window counts columns, so that a row must have no gap between what was read before and the rest.
        config = self._model.config.get_text_config(decoder=True)
        self._has_window = getattr(config, "sliding_window", None) is not None
        self._prefixes: list[Prefix] = []
        self._prefix_tokens = prefix_tokens
        self._waiting: list[list[Generation]] = []
        self._running: list[Generation] = []
        self._empty = self._shape_of_cache()
        self._reading: list[PromptRows] = []
        self._batches: dict[int, CacheRows] = {}
        self._changed = threading.Condition()
        self._is_closed = False
        self.process = os.getpid()
        self._thread: threading.Thread | None = None

    def submit(self, asked: GenerationRequest, put: Put) -> Generation:
        """Queue a request; `put` is called in the batcher's thread. Busy where too many wait already."""
        return self.submit_together([(asked, put)])[0]

    def submit_together(
        self, requests: Sequence[tuple[GenerationRequest, Put]], writer: Writer | None = None
    ) -> list[Generation]:
        """Queue requests that begin at one token, of another chain on the same base if its `writer` is named."""
        jobs = [Generation(asked, put, writer or self.writer) for asked, put in requests]
        with self._changed:
            if self._is_closed:
                raise Busy(CLOSING)
            n_running, n_waiting = self.load
            if n_running + n_waiting + len(jobs) > self.max_rows + self.max_waiting:
                raise Busy(f"{n_waiting} requests wait already; ask again in a moment.")
            self._waiting.append(jobs)
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
                self._thread.start()
                atexit.register(self.close)  # Python ends in an abort where a thread is inside torch
        return jobs

    def stream(
        self, writer: Writer, rows: Sequence[Row], sampling: Sampling, stop: threading.Event, form: Form | None = None
    ) -> Iterator[Piece]:
        """Yield the answers of rows, one per stage, as `Writer.stream` does."""
        found: queue.SimpleQueue[Piece | Exception] = queue.SimpleQueue()
        requests = [GenerationRequest(row.prompt, row.stage, sampling, form=form) for row in rows]
        jobs = self.submit_together([(each, found.put) for each in requests], writer)
        n_tokens = dict.fromkeys((row.stage for row in rows), 0)  # of those that have not ended
        try:
            while n_tokens and not stop.is_set():
                try:
                    item = found.get(timeout=POLL_SECONDS)
                except queue.Empty:
                    continue
                if isinstance(item, Exception):
                    raise item
                n_tokens[item.stage] = item.n_tokens
                if item.finish_reason:
                    del n_tokens[item.stage]
                yield item
            for stage, count in n_tokens.items():
                yield Piece(stage, "", "cancelled", count)
        finally:
            for job in jobs:
                self.cancel(job)

    def cancel(self, job: Generation) -> None:
        """Give up a request; its row is free before the next token."""
        with self._changed:
            job.is_cancelled = True
            for jobs in self._waiting:
                if job in jobs:
                    jobs.remove(job)
            self._waiting = [jobs for jobs in self._waiting if jobs]

    def close(self) -> None:
        """End the thread; what runs or waits is told."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    @property
    def load(self) -> tuple[int, int]:
        """How many requests are being answered, and how many wait."""
        return len(self._running), sum(map(len, self._waiting))

    # ---- the batcher's thread ----------------------------------------------------------------

    @torch.inference_mode()
    def _work(self) -> None:
        while True:
            has_joined = False
            try:
                with self._changed:
                    if not (self._waiting or self._running or self._is_closed):
                        self._changed.wait(IDLE_SECONDS)
                    if self._is_closed or not (self._waiting or self._running):
                        self._thread = None
                        atexit.unregister(self.close)
                        left = (*self._running, *(job for jobs in self._waiting for job in jobs))
                        break
                    self._leave([job for job in self._running if job.is_cancelled])
                    newcomers = self._next()
                    self._running += newcomers
                has_joined = True
                if newcomers:
                    self._reading.insert(0, self._start_rows(newcomers))
                if self._reading:
                    self._read_on()
                for size in list(self._batches):
                    self._advance(size)
            except Exception as error:  # told to all whom it took down; the next request starts afresh
                log.exception("a batch broke")
                with self._changed:
                    lost, self._running = self._running, []
                    if not has_joined:
                        lost, self._waiting = lost + [job for jobs in self._waiting for job in jobs], []
                self._batches, self._reading, self._prefixes = {}, [], []
                for job in lost:
                    job.put(error)
        for job in left:
            job.put(Busy(CLOSING))

    def _next(self) -> list[Generation]:
        """Take those who join now from the line, in order; those who were submitted together stay so."""
        chosen: list[Generation] = []
        to_read, running = 0, self._running
        while self._waiting:
            jobs = self._waiting[0]
            known = {job: self._find_prefix(job)[0] for job in jobs}
            to_read += sum(len(job.asked.prompt) - known[job] for job in jobs)
            everyone = [*running, *chosen, *jobs]
            longest: dict[int, list[int]] = {}
            for each in everyone:
                longest.setdefault(each.asked.size, []).append(each.asked.length)
            is_full = sum(len(lengths) * max(lengths) for lengths in longest.values()) > self.max_columns
            # Who begins like one that is being read now waits for it, and need not read that again.
            waits = not self._has_window and any(
                _shared_length(each, job, each.asked.prompt) - known[job] >= SHORTEST_PREFIX
                for each in chosen
                for job in jobs
            )
            is_full |= len(everyone) > self.max_rows
            if (running or chosen) and (is_full or (chosen and to_read > PREFILL_TOKENS) or waits):
                break
            chosen += self._waiting.pop(0)
        return chosen

    def _find_prefix(self, job: Generation) -> tuple[int, list[CacheColumns]]:
        """Return how many tokens of a prompt were read before by the same adapters, and their columns.

        Stages of one prompt share nothing: adapters change keys and values, in all but the first layer even
        where they leave k_proj and v_proj alone.
        """
        found = max(self._prefixes, key=lambda each: _shared_length(each, job, each.tokens), default=None)
        length = min(_shared_length(found, job, found.tokens), len(job.asked.prompt) - 1) if found else 0
        if found is None or length < SHORTEST_PREFIX:
            return 0, self._empty
        return length, [layer.part(slice(None), slice(length)) for layer in found.layers]

    def _start_rows(self, jobs: list[Generation]) -> PromptRows:
        """Return new rows with what is known of their prompts in the cache; their last tokens are not to be read."""
        rows = self._new([], [])
        rest = []
        for job in jobs:
            length, layers = self._find_prefix(job)
            *read, job.last = job.asked.prompt
            rest.append(read[length:])
            rows = rows.join(self._new([job], layers))
        return PromptRows(rows, *pad_texts(rest, self._model.device))

    def _read_on(self) -> None:
        """Read on in the prompts of the first rows that are at it; they join when it is done."""
        reading = self._reading.pop(0)
        n = PREFILL_TOKENS // len(reading.rows.jobs) or 1
        if reading.ids.shape[1]:
            rows, _ = self._compute(reading.rows, reading.ids[:, :n], reading.mask[:, :n])
            reading = PromptRows(rows, reading.ids[:, n:], reading.mask[:, n:])
        if reading.ids.shape[1]:
            self._reading.append(reading)
            return
        for place, job in enumerate(() if self._has_window else reading.rows.jobs):
            tokens = job.asked.prompt[:-1][: self._prefix_tokens // 4]
            columns = torch.arange(len(tokens), device=reading.mask.device)
            layers = [layer.part(slice(None), columns) for layer in reading.rows.select([place]).layers]
            self._prefixes = [
                each for each in self._prefixes if _shared_length(each, job, each.tokens) < len(each.tokens)
            ]
            self._prefixes.append(Prefix(job.adapters, tokens, layers))
        while sum(len(each.tokens) for each in self._prefixes) > self._prefix_tokens:
            self._prefixes.pop(0)
        for size in {job.asked.size for job in reading.rows.jobs}:
            places = [place for place, job in enumerate(reading.rows.jobs) if job.asked.size == size]
            self._batches[size] = self._batches.get(size, self._new([], [])).join(reading.rows.select(places))

    def _advance(self, size: int) -> None:
        """Give every row of a batch its next token."""
        rows = self._batches[size]
        rows, logits = self._compute(rows, *pad_texts([[job.last] for job in rows.jobs], self._model.device))
        likeliest, ended = logits.argmax(-1).tolist(), []
        for place, job in enumerate(rows.jobs):
            try:
                is_last = job.take(likeliest[place], logits[place, None])
            except LabError as error:
                is_last = True
                job.put(error)
            ended += [job] if is_last else []
        self._batches[size] = rows
        self._leave(ended)

    def _leave(self, jobs: Sequence[Generation]) -> None:
        """Free the rows of some requests, wherever they are."""
        if not jobs:
            return
        self._running = [job for job in self._running if job not in jobs]
        for size, rows in list(self._batches.items()):
            places = [place for place, job in enumerate(rows.jobs) if job not in jobs]
            if len(places) < len(rows.jobs):
                self._batches[size] = rows.select(places)
        self._batches = {size: rows for size, rows in self._batches.items() if rows.jobs}
        for reading in self._reading:
            places = [place for place, job in enumerate(reading.rows.jobs) if job not in jobs]
            if len(places) < len(reading.rows.jobs):
                reading.rows = reading.rows.select(places)
                reading.ids, reading.mask = reading.ids[places], reading.mask[places]
        self._reading = [reading for reading in self._reading if reading.rows.jobs]

    def _compute(self, rows: CacheRows, ids: torch.Tensor, new: torch.Tensor) -> tuple[CacheRows, torch.Tensor]:
        """Return the rows with further tokens in the cache, and the logits (rows, vocabulary) after the last ones."""
        mask = torch.cat([rows.mask, new], dim=1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        with self._stack.lock, self._stack.rows([job.adapters for job in rows.jobs]):
            logits = self._model(
                input_ids=ids,
                # With a mask at hand heads share keys on a CPU; without one torch computes each head apart (4 times slower).
                attention_mask=mask if self._has_window or ids.shape[1] > 1 else mask[:, None, None],
                position_ids=positions,
                past_key_values=Cache(layers=list(rows.layers)),
                use_cache=True,
                logits_to_keep=1,
            ).logits
        return CacheRows(rows.jobs, mask, rows.layers), logits[:, -1].float().cpu()

    def _new(self, jobs: list[Generation], layers: list[CacheColumns]) -> CacheRows:
        """Return rows that own all columns of `layers`; no jobs: no rows."""
        layers = layers or [layer.part(slice(0), slice(None)) for layer in self._empty]
        mask = torch.ones(len(jobs), layers[0].width, dtype=torch.bool, device=self._model.device)
        return CacheRows(jobs, mask, layers)

    def _shape_of_cache(self) -> list[CacheColumns]:
        """Return a row without columns, shaped like what the model keeps of a token."""
        with torch.inference_mode(), FOREGROUND.answering(), self._stack.lock:
            ids = torch.zeros(1, 1, dtype=torch.long, device=self._model.device)
            kept = self._model(input_ids=ids, use_cache=True, logits_to_keep=1).past_key_values
        return [CacheColumns(layer.keys[:, :, :0], layer.values[:, :, :0]) for layer in kept.layers]


def unbatched_layers(model: PreTrainedModel) -> list[str]:
    """Return the kinds of layers of a base that rows cannot join and leave."""
    config = model.config.get_text_config(decoder=True)
    kinds: set[str] = set(getattr(config, "layer_types", None) or ())
    found = sorted(kinds - {"full_attention", "sliding_attention"})
    if "position_ids" not in inspect.signature(type(model).forward).parameters or getattr(config, "alibi", False):
        found.append("positions of its own (such as ALiBi)")  # counted in columns, and a row has gaps
    return found


_making = threading.Lock()


def shared_batcher(writer: Writer) -> Batcher:
    """Return the running batch that the chains on one base share."""
    with _making:
        found: Batcher | None = writer.stack.batcher
        if found is None or found.process != os.getpid():  # a forked process has no thread of it
            found = writer.stack.batcher = Batcher(writer, SHARED_ROWS, prefix_tokens=SHARED_PREFIX_TOKENS)
        return found


def _shared_length(one: Generation | Prefix, job: Generation, tokens: Sequence[int]) -> int:
    """Return how many tokens a prompt begins with that were, or are being, read by the same adapters."""
    if one.adapters != job.adapters:
        return 0
    pairs = enumerate(zip(tokens, job.asked.prompt, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(tokens), len(job.asked.prompt)))
