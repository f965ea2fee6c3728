"""Publishing work besides the bytes (reading, checks, card, plan) for a 500 MB adapter, against hashing it once.

The reference is hashlib.file_digest over the same file; both take turns and medians of process time are
compared. The Hub is asked nothing: the plan is made against an empty repository.
"""

import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.table import Table

from hub.adapters import Wishes, base_of, pack_adapter, read_run
from hub.checks import Limits, check_parcel
from hub.publish import Remote, Target, plan_of
from tests.bench._measure import SMALL, rounds, show
from tests.hub.runs import CONFIG, refit, write_adapter, write_run

LIMIT = 1.5
ROWS, LAYERS = (1000, 1) if SMALL else (1_000_000, 8)
RANK = 8


def large_run(folder: Path) -> Path:
    """Return a run folder whose adapter has about 500 MB."""
    run = write_run(folder)
    generator = np.random.default_rng(0)
    name = "base_model.model.model.layers.{}.self_attn.q_proj.lora_{}.weight"
    matrices = {}
    for layer in range(LAYERS):
        matrices[name.format(layer, "A")] = generator.random((RANK, ROWS), dtype=np.float32)
        matrices[name.format(layer, "B")] = generator.random((ROWS, RANK), dtype=np.float32)
    write_adapter(run / "adapter", matrices, {**CONFIG, "r": RANK, "target_modules": ["q_proj"]})
    refit(run)
    return run


def ours(folder: Path) -> None:
    """Read, check, write the card and plan."""
    run = read_run(folder)
    wishes = Wishes("org/large")
    parcel = pack_adapter(run, base_of(run.manifest, None, None), wishes, ())
    warnings = check_parcel(parcel, Limits())
    plan_of(parcel, Target(wishes.repo, wishes.tag), Remote(), "http://127.0.0.1", warnings)


def reference(folder: Path) -> None:
    """Hash the weights once."""
    with (folder / "adapter/adapter_model.safetensors").open("rb") as file:
        hashlib.file_digest(file, "sha256")


def seconds(work: Callable[[Path], None], folder: Path) -> float:
    """Return the process time of one run."""
    started = time.process_time()
    work(folder)
    return time.process_time() - started


def main() -> None:
    """Measure and print; fail above the limit."""
    with tempfile.TemporaryDirectory() as place:
        folder = large_run(Path(place))
        size = (folder / "adapter/adapter_model.safetensors").stat().st_size
        seconds(ours, folder)  # what is imported and compiled once
        pairs = [(seconds(reference, folder), seconds(ours, folder)) for _ in range(rounds(5))]
    hashing, work = (statistics.median(times) for times in zip(*pairs, strict=True))
    table = Table("what", "seconds", "ratio", title=f"an adapter of {size / 1e6:.0f} MB")
    table.add_row("hashing it once", f"{hashing:.2f}", "1.00")
    table.add_row("checks, card and plan", f"{work:.2f}", f"{work / hashing:.2f}")
    show(table)
    if work > LIMIT * hashing and not SMALL:
        raise SystemExit(f"the ratio is above {LIMIT}")
