"""Four stages in one batch against four merged models one after another; eight users in one running batch.

Each way runs in a process of its own, holds its models, and writes 64 tokens per stage whenever it
is told to; the ways take turns and medians are compared (the first turn warms up). Weights are the growth of the resident set over
the process before loading, no weights file left mapped. Users ask the last stage at once, each another question:
in one running batch, and one after another (a batch of one row) in the same process, in turns, 24 tokens each.
"""

import gc
import os
import queue
import statistics
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rich.table import Table

from tests.bench._measure import ROOT, SMALL, apart, in_turns, resident, show, spread, start

TOKENS, USER_TOKENS = (2, 2) if SMALL else (64, 24)
TIME_LIMIT, MEMORY_LIMIT = 0.28, 0.45
USERS, SPEEDUP, FIRST_SECONDS = 8, 3.0, 1.5
DTYPE: Any = os.environ.get("ASSAY_DTYPE")
"""Of the stacked weights; None = the one that this processor computes fastest. Merged models are in bfloat16."""
CLOCK = time.process_time if os.environ.get("OMP_NUM_THREADS") == "1" else time.perf_counter
"""With one thread the time of the processor, which a busy machine hardly changes."""
CHAIN = ROOT / "training" / "embedded" / "grpo"
QUESTION = (
    "Which direction does the Hallmark gene set oxidative phosphorylation take in the soleus of"
    " mice that were kept in hindlimb unloading, and how sure can one be from these missions?"
)
MERGED = "merged models, one after another"
STACK = "stacked adapters, one fixed batch (assay eval run)"
RUNNING = "stacked adapters, one running batch (the lab)"
ALONE, TOGETHER = "one after another", "one running batch (assay chain serve)"


def main() -> None:
    """Print the table."""
    ways = {name: start(__name__, "serve", name) for name in WAYS}

    def line(name: str) -> str:
        told = ways[name].stdout.readline()
        if not told:
            raise RuntimeError(f"a serving process stopped with exit code {ways[name].wait()}")
        return told

    def written(name: str) -> float:
        print("go", file=ways[name].stdin, flush=True)
        return float(line(name))

    try:
        memory = {name: tuple(map(float, line(name).split())) for name in ways}
        times = in_turns(3, {name: partial(written, name) for name in ways})
    finally:
        for way in ways.values():
            way.kill()
            way.communicate()
    title = f"Stages of {CHAIN.name}, {TOKENS} tokens each, {DTYPE or 'usual type'}"
    table = Table("way", "seconds", "ratio", "weights MB", "ratio", "peak MB", title=title)
    (reference, _), middle = memory[MERGED], statistics.median(times[MERGED])
    for name, (weights, peak) in memory.items():
        ratio = f"{statistics.median(times[name]) / middle:.2f}"
        cells = (f"{weights:.0f}", f"{weights / reference:.2f}", f"{peak:.0f}")
        table.add_row(name, spread(times[name]), ratio, *cells)
    table.add_row("limit", "", f"{TIME_LIMIT}", "", f"{MEMORY_LIMIT}", "")
    show(table)
    show(_users_table(apart(__name__, "users")))


def _users_table(found: dict[str, list[tuple[float, float]]]) -> Table:
    title = f"{USERS} users at once, {USER_TOKENS} tokens each, {DTYPE or 'usual type'}"
    table = Table("way", "seconds", "times as fast", "first token of the last user, s", title=title)
    reference = statistics.median(seconds for seconds, _ in found[ALONE])
    for name, rounds in found.items():
        seconds, first = map(list, zip(*rounds, strict=True))
        table.add_row(name, spread(seconds), f"{reference / statistics.median(seconds):.2f}", spread(first))
    table.add_row("limit", "", f"{SPEEDUP}", f"{FIRST_SECONDS}")
    return table


def users() -> dict[str, list[tuple[float, float]]]:
    """Return for both ways and each round: seconds until all were answered, and until the last one's first token."""
    from training.models.batching import Batcher
    from training.models.chain import load_chain

    loaded = load_chain(CHAIN, DTYPE)
    loaded.ends = (-1,)  # each writes all its tokens
    ways = {ALONE: Batcher(loaded, max_rows=1), TOGETHER: Batcher(loaded, max_rows=USERS)}
    return in_turns(3, {name: lambda batcher=batcher: _asked(batcher) for name, batcher in ways.items()})


def _asked(batcher: Any) -> tuple[float, float]:
    from evals.schema.questions import Sampling
    from training.models.batching import GenerationRequest

    sampling, found = Sampling(max_new_tokens=USER_TOKENS), queue.SimpleQueue[tuple[int, float, Any]]()
    chain, begun, n_open, first = batcher.writer, CLOCK(), USERS, dict[int, float]()
    for user in range(USERS):
        question = f"In round {begun:.6f} user {user} asks: {QUESTION}"  # so that no question is known
        (row,) = chain.rows(chain.messages(question), chain.stages[-1:], sampling)
        request = GenerationRequest(row.prompt, row.stage, sampling)
        batcher.submit(request, lambda delta, user=user: found.put((user, CLOCK() - begun, delta)))
    while n_open:
        user, seconds, delta = found.get()
        first.setdefault(user, seconds)
        n_open -= delta.finish_reason is not None
    return seconds, max(first.values())


def serve(name: str) -> None:
    """Load one way of serving, tell its memory, then write answers for every line that comes in."""
    import peft
    import torch
    import transformers

    import training.models.chain

    assert peft and transformers and training.models.chain  # imported before memory is measured
    ones = torch.ones(64, 64, dtype=torch.bfloat16)
    (ones @ ones).float().sum()  # and so is the code of the matrix kernels
    before = resident("VmRSS")
    write = WAYS[name]()
    gc.collect()
    print(resident("VmRSS") - before, resident("VmHWM"), flush=True)
    for _ in sys.stdin:
        begun = CLOCK()
        write()
        print(CLOCK() - begun, flush=True)


def _merged() -> Callable[[], object]:
    from peft import PeftModel

    from tests.models import load_base

    base, adapters, inputs = _parts()
    models = []
    for count in range(len(adapters) + 1):
        model = load_base(base)[0]
        for _, adapter in adapters[:count]:
            model = PeftModel.from_pretrained(model, adapter).merge_and_unload()
        models.append(_settled(model))
    return lambda: [_generate(model, inputs) for model in models]


def _stacked() -> Callable[[], object]:
    from evals.schema.questions import Sampling
    from training.models.chain import load_chain

    loaded = load_chain(CHAIN, DTYPE)
    loaded.stack.model.generation_config.eos_token_id = None  # the others write on past the end mark, too
    _settled(loaded.stack.model)
    prompt, sampling = loaded.messages(QUESTION), Sampling(max_new_tokens=TOKENS)
    return lambda: loaded.generate([prompt], loaded.stages, sampling)


def _running() -> Callable[[], object]:
    from evals.schema.questions import Sampling
    from training.models.batching import Batcher
    from training.models.chain import load_chain

    loaded = load_chain(CHAIN, DTYPE)
    loaded.ends = (-1,)
    _settled(loaded.stack.model)
    # The others read the question anew, too.
    batcher, sampling = Batcher(loaded, prefix_tokens=0), Sampling(max_new_tokens=TOKENS)
    rows = loaded.rows(loaded.messages(QUESTION), loaded.stages, sampling)
    return lambda: list(batcher.stream(loaded, rows, sampling, threading.Event()))


def _parts() -> tuple[Any, list[tuple[str, str]], dict[str, Any]]:
    """Return the base, name and folder of each adapter, and the question as the base reads it."""
    from training.models.base import find_base, load_tokenizer
    from training.models.chain import base_source
    from training.models.manifest import read_chain

    chain = read_chain(CHAIN)
    base = find_base(base_source(chain))
    messages = [{"role": "system", "content": chain.manifest.system_prompt}, {"role": "user", "content": QUESTION}]
    options = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
    inputs = load_tokenizer(base).apply_chat_template(messages, **options)
    return base, [(stage.name, str(chain.adapter_folder(stage))) for stage in chain.manifest.stages], dict(inputs)


def _generate(model: Any, inputs: dict[str, Any]) -> object:
    import torch

    lengths = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS}
    with torch.inference_mode():
        return model.generate(**inputs, **lengths, do_sample=False, pad_token_id=0)


def _settled(model: Any) -> Any:
    """Hold every parameter in memory of its own.

    Fair to all ways: a weights file that is only mapped would count in part, or, where merging
    replaced most of its weights, count on top of them.
    """
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    return model


WAYS = {MERGED: _merged, STACK: _stacked, RUNNING: _running}
