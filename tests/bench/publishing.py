"""Publishing work besides the bytes (reading, checks, card, plan) for a 500 MB adapter, against hashing it once.

The reference is hashlib.file_digest over the same file; both take turns and medians of process time are
compared. The Hub is asked nothing: the plan is made against an empty repository.
"""

import hashlib
import statistics
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from rich.table import Table

from hub.adapters import Publication, base_of, pack_adapter, read_run
from hub.checks import check_upload
from hub.publish import Remote, plan_of
from tests.bench._measure import SMALL, in_turns, seconds, show
from tests.hub.runs import CONFIG, refit, write_adapter, write_run

LIMIT = 1.5
ROWS, LAYERS, RANK = (1000, 1, 8) if SMALL else (1_000_000, 8, 8)


def large_run(folder: Path) -> Path:
    """Return a run folder whose adapter has about 500 MB."""
    run = write_run(folder)
    generator = np.random.default_rng(0)
    name = "base_model.model.model.layers.{}.self_attn.q_proj.lora_{}.weight"
    shapes = {"A": (RANK, ROWS), "B": (ROWS, RANK)}
    matrices = {
        name.format(layer, part): generator.random(shape, dtype=np.float32)
        for layer in range(LAYERS)
        for part, shape in shapes.items()
    }
    write_adapter(run / "adapter", matrices, {**CONFIG, "r": RANK, "target_modules": ["q_proj"]})
    refit(run)
    return run


def ours(folder: Path) -> None:
    """Read, check, write the card and plan."""
    run = read_run(folder)
    upload = pack_adapter(run, base_of(run.manifest, None, None), Publication("org/large"), ())
    plan_of(upload, Remote(), "http://127.0.0.1", check_upload(upload))


def main() -> None:
    """Measure and print; fail above the limit."""
    with tempfile.TemporaryDirectory() as place:
        folder = large_run(Path(place))
        weights = folder / "adapter/adapter_model.safetensors"
        size = weights.stat().st_size

        def reference() -> None:
            with weights.open("rb") as file:
                hashlib.file_digest(file, "sha256")

        ours(folder)  # what is imported and compiled once
        ways = {"hashing it once": reference, "checks, card and plan": partial(ours, folder)}
        found = in_turns(5, {name: partial(seconds, work) for name, work in ways.items()})
    hashing, work = medians = [statistics.median(times) for times in found.values()]
    table = Table("what", "seconds", "ratio", title=f"an adapter of {size / 1e6:.0f} MB")
    for name, middle in zip(found, medians, strict=True):
        table.add_row(name, f"{middle:.2f}", f"{middle / hashing:.2f}")
    show(table)
    if work > LIMIT * hashing and not SMALL:
        raise SystemExit(f"the ratio is above {LIMIT}")
