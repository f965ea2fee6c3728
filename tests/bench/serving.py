"""Three stages in one batch against three merged models one after another: time and memory.

Each way runs in a process of its own, holds its models, and writes 64 tokens per stage whenever it
is told to; the ways take turns, A B C A B C …, and medians are compared. Weights are the growth of
the resident set over the process before loading, no weights file left mapped. Run it alone:

    python -m tests.bench.serving
"""

import gc
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("ASSAY_BENCH_ROUNDS", "7"))
TOKENS = 64
TIME_LIMIT, MEMORY_LIMIT = 0.5, 0.45
QUESTION = (
    "Which direction does the Hallmark gene set oxidative phosphorylation take in the soleus of"
    " mice that were kept in hindlimb unloading, and how sure can one be from these missions?"
)
MERGED = "three merged models, one after another"
MIXED = "PEFT, one mixed batch (adapter_names)"
STACK = "stacked adapters, one batch (this repository)"


@dataclass
class Way:
    """One way of serving in a process of its own, and what was measured of it."""

    name: str
    process: subprocess.Popen[str]
    weights_mb: float
    peak_mb: float
    seconds: list[float]

    @classmethod
    def start(cls, name: str, chain: Path) -> "Way":
        """Start the process; it answers with its memory once its models are loaded and warm."""
        code = f"from tests.bench.serving import serve; serve({name!r}, {str(chain)!r})"
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=os.environ | {"TRANSFORMERS_VERBOSITY": "error"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        weights, peak = map(float, _line(process).split())
        return cls(name, process, weights, peak, [])

    def run(self) -> None:
        """Let it write its answers once more."""
        assert self.process.stdin
        print("go", file=self.process.stdin, flush=True)
        self.seconds.append(float(_line(self.process)))

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def main() -> tuple[float, float]:
    """Print the table and return the ratios of time and of weights to the merged models."""
    with tempfile.TemporaryDirectory() as folder:
        chain = Path(_prepare(Path(folder)))
        ways = [Way.start(name, chain) for name in WAYS]
        try:
            for _ in range(ROUNDS):
                for way in ways:
                    way.run()
        finally:
            for way in ways:
                way.process.kill()
                way.process.wait()
    return _report(ways)


def _report(ways: list[Way]) -> tuple[float, float]:
    reference, ours = ways[0], ways[-1]
    title = f"Three stages, {TOKENS} tokens each, bfloat16, median of {ROUNDS}"
    table = Table("way", "seconds", "ratio", "tokens/s", "weights MB", "ratio", "peak MB", title=title)
    for way in ways:
        table.add_row(
            way.name,
            f"{way.median:.2f} ({min(way.seconds):.2f}-{max(way.seconds):.2f})",
            f"{way.median / reference.median:.2f}",
            f"{3 * TOKENS / way.median:.0f}",
            f"{way.weights_mb:.0f}",
            f"{way.weights_mb / reference.weights_mb:.2f}",
            f"{way.peak_mb:.0f}",
        )
    table.add_row("limit", "", f"{TIME_LIMIT}", "", "", f"{MEMORY_LIMIT}", "")
    Console(width=120).print(table)
    return ours.median / reference.median, ours.weights_mb / reference.weights_mb


# ---- in the processes that serve ------------------------------------------------------------


def serve(name: str, chain: str) -> None:
    """Load one way of serving, tell its memory, then write answers for every line that comes in."""
    import peft
    import torch
    import transformers

    import training.chain

    assert peft and transformers and training.chain  # imported before memory is measured
    _warm(torch)
    before = _resident_mb()
    write = WAYS[name](Path(chain))
    gc.collect()
    print(
        _resident_mb() - before,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        flush=True,
    )
    write()
    for _ in sys.stdin:
        begun = time.perf_counter()
        write()
        print(time.perf_counter() - begun, flush=True)


def _merged(chain: Path) -> Callable[[], object]:
    from peft import PeftModel

    base, adapters, inputs = _parts(chain)

    def load(count: int) -> object:
        model = _plain(base)
        for adapter in adapters[:count]:
            model = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
        return model

    models = [load(count) for count in range(len(adapters) + 1)]
    for model in models:
        _settle(model)
    return lambda: [_generate(model, inputs) for model in models]


def _mixed(chain: Path) -> Callable[[], object]:
    from peft import PeftModel

    base, (sft, grpo), inputs = _parts(chain)
    model = PeftModel.from_pretrained(_plain(base), str(sft), adapter_name="sft")
    model.load_adapter(str(grpo), adapter_name="grpo")
    model.add_weighted_adapter(["sft", "grpo"], [1.0, 1.0], "chain", combination_type="cat")
    model.eval()
    _settle(model)
    rows = {name: value.repeat(3, 1) for name, value in inputs.items()}
    return lambda: _generate(model, rows, adapter_names=["__base__", "sft", "chain"])


def _stacked(chain: Path) -> Callable[[], object]:
    from evals.model import Sampling
    from training.models.chain import load_chain

    loaded = load_chain(chain)
    model = loaded._writer._model
    model.generation_config.eos_token_id = None  # the others write on past the end mark, too
    _settle(model)
    prompt = loaded.messages(QUESTION)
    sampling = Sampling(max_new_tokens=TOKENS)
    return lambda: loaded.generate([prompt], loaded.stages, sampling)


WAYS: dict[str, Callable[[Path], Callable[[], object]]] = {
    MERGED: _merged,
    MIXED: _mixed,
    STACK: _stacked,
}


def _prepare(folder: Path) -> str:
    """Return the shipped chain, or one of random adapters (rank 8, all linear layers).

    Runs in a process of its own, so that nothing of it is resident here.
    """
    code = (
        "from tests.bench.serving import random_chain; from pathlib import Path;"
        f"print(random_chain(Path({str(folder)!r})))"
    )
    shipped = ROOT / "training" / "embedded" / "grpo"
    if (shipped / "chain.json").is_file():
        return str(shipped)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode().strip().splitlines()[-1]


def random_chain(folder: Path) -> Path:
    """Write two random adapters over the embedded base, as a chain."""
    import torch
    from peft import LoraConfig, get_peft_model

    from training.models.base import find_base, load_base
    from training.models.chain import NewStage, append_stage

    base, chain = find_base("embedded"), None
    for seed, name in enumerate(("sft", "grpo")):
        torch.manual_seed(seed)
        config = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
        model = get_peft_model(load_base(base)[0], config)
        for parameter_name, parameter in model.named_parameters():
            if "lora_B" in parameter_name:
                parameter.data.normal_(0.0, 0.006)
        model.save_pretrained(folder / name / "adapter", save_embedding_layers=False)
        stage = NewStage(name, name, folder / name / "adapter")
        chain = append_stage(folder / name, stage, base, chain, None if chain else "Answer briefly.")
    return folder / "grpo"


def _parts(chain: Path) -> tuple[object, list[Path], dict]:
    from training.models.base import find_base, load_tokenizer
    from training.models.manifest import read_chain

    found = read_chain(chain)
    base = find_base(found.manifest.base.source)
    messages = [
        {"role": "system", "content": found.manifest.system_prompt},
        {"role": "user", "content": QUESTION},
    ]
    inputs = load_tokenizer(base).apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    return base, [found.adapter_folder(stage) for stage in found.manifest.stages], dict(inputs)


def _plain(base) -> object:
    from training.models.base import load_base

    return load_base(base)[0]


def _generate(model, inputs: dict, **options: object) -> object:
    import torch

    with torch.inference_mode():
        return model.generate(
            **inputs,
            max_new_tokens=TOKENS,
            min_new_tokens=TOKENS,
            do_sample=False,
            pad_token_id=0,
            **options,
        )


def _settle(model) -> None:
    """Hold every parameter in memory of its own.

    Fair to all ways: a weights file that is only mapped would count in part, or, where merging
    replaced most of its weights, count on top of them.
    """
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()


def _warm(torch) -> None:
    """Load the code of the matrix kernels before memory is measured."""
    ones = torch.ones(64, 64, dtype=torch.bfloat16)
    (ones @ ones).float().sum()


def _resident_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a serving process stopped with exit code {process.wait()}")
    return line


if __name__ == "__main__":
    main()
