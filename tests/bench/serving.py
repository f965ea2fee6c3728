"""Three stages in one batch against three merged models one after another: time and memory.

Each way runs in a process of its own, holds its models, and writes 64 tokens per stage whenever it
is told to; the ways take turns and medians are compared. Weights are the growth of the resident set over
the process before loading, no weights file left mapped.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rich.table import Table

from tests.bench._measure import ROOT, SMALL, in_turns, resident, show, spread, start

TOKENS = 2 if SMALL else 64
TIME_LIMIT, MEMORY_LIMIT = 0.5, 0.45
CHAIN = ROOT / "training" / "embedded" / "grpo"
QUESTION = (
    "Which direction does the Hallmark gene set oxidative phosphorylation take in the soleus of"
    " mice that were kept in hindlimb unloading, and how sure can one be from these missions?"
)
MERGED = "merged models, one after another"
MIXED = "PEFT, one mixed batch (adapter_names)"
STACK = "stacked adapters, one batch (this repository)"


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
        times = in_turns(7, {name: partial(written, name) for name in ways})
    finally:
        for way in ways.values():
            way.kill()
            way.communicate()
    title = f"Stages of {CHAIN.name}, {TOKENS} tokens each, bfloat16"
    table = Table("way", "seconds", "ratio", "weights MB", "ratio", "peak MB", title=title)
    (reference, _), middle = memory[MERGED], statistics.median(times[MERGED])
    for name, (weights, peak) in memory.items():
        ratio = f"{statistics.median(times[name]) / middle:.2f}"
        cells = (f"{weights:.0f}", f"{weights / reference:.2f}", f"{peak:.0f}")
        table.add_row(name, spread(times[name]), ratio, *cells)
    table.add_row("limit", "", f"{TIME_LIMIT}", "", f"{MEMORY_LIMIT}", "")
    show(table)


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
    write()
    for _ in sys.stdin:
        begun = time.perf_counter()
        write()
        print(time.perf_counter() - begun, flush=True)


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


def _mixed() -> Callable[[], object]:
    from peft import PeftModel

    from tests.models import load_base

    base, adapters, inputs = _parts()
    (first, folder), *others = adapters
    model, names = PeftModel.from_pretrained(load_base(base)[0], folder, adapter_name=first), [first]
    rows = ["__base__", first]
    for name, folder in others:
        model.load_adapter(folder, adapter_name=name)
        names.append(name)
        rows.append(f"up to {name}")
        model.add_weighted_adapter(list(names), [1.0] * len(names), rows[-1], combination_type="cat")
    _settled(model.eval())
    repeated = {name: value.repeat(len(rows), 1) for name, value in inputs.items()}
    return lambda: _generate(model, repeated, adapter_names=rows)


def _stacked() -> Callable[[], object]:
    from evals.model import Sampling
    from training.models.chain import load_chain

    loaded = load_chain(CHAIN)
    loaded.ends = (-1,)  # the others write on past the end mark, too
    _settled(loaded.stack.model)
    prompt, sampling = loaded.messages(QUESTION), Sampling(max_new_tokens=TOKENS)
    return lambda: loaded.generate([prompt], loaded.stages, sampling)


def _parts() -> tuple[Any, list[tuple[str, str]], dict[str, Any]]:
    """Return the base, name and folder of each adapter, and the question as the base reads it."""
    from training.models.base import find_base, load_tokenizer
    from training.models.manifest import read_chain

    chain = read_chain(CHAIN)
    base = find_base(chain.manifest.base.source)
    messages = [{"role": "system", "content": chain.manifest.system_prompt}, {"role": "user", "content": QUESTION}]
    options = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
    inputs = load_tokenizer(base).apply_chat_template(messages, **options)
    return base, [(stage.name, str(chain.adapter_folder(stage))) for stage in chain.manifest.stages], dict(inputs)


def _generate(model: Any, inputs: dict[str, Any], **options: object) -> object:
    import torch

    lengths = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS}
    with torch.inference_mode():
        return model.generate(**inputs, **lengths, do_sample=False, pad_token_id=0, **options)


def _settled(model: Any) -> Any:
    """Hold every parameter in memory of its own.

    Fair to all ways: a weights file that is only mapped would count in part, or, where merging
    replaced most of its weights, count on top of them.
    """
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    return model


WAYS = {MERGED: _merged, MIXED: _mixed, STACK: _stacked}
