"""Our SFT and GRPO against a plain TRL script with the same settings: throughput and peak memory.

Each run is a process of its own, and the ways take turns, A B A B …; medians are compared. Both train
the embedded base (GRPO: on the shipped SFT stage, which the plain script merges, as one would) on the
same rows, with the same adapter, batch, lengths, steps, types and seed, and both write a checkpoint on
the way. What is measured are the steps after the first ones, and the resident set of the whole run:
ours writes its chain and its records as well. Run it alone:

    python -m tests.bench.training

ASSAY_BENCH_ROUNDS says how often each way runs (3), ASSAY_BENCH_STEPS how many steps are measured.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench._trainings import BATCH, OURS, PLAIN, STEPS

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("ASSAY_BENCH_ROUNDS", "3"))
SPEED_LIMIT, MEMORY_LIMIT = 1.0, 1.05


@dataclass(frozen=True)
class Measured:
    """One run: units per second of wall time and of processor time, peak memory, last loss.

    The unit is a token that the model read (SFT) or an answer (GRPO).
    """

    per_second: float
    per_cpu_second: float
    peak_mb: float
    loss: float


def main() -> dict[str, tuple[float, float]]:
    """Print a table per stage; return its ratios of throughput and of peak memory to the plain script."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _process("prepare", "", place)
        return {stage: _compare(stage, place) for stage in STEPS}


def _compare(stage: str, place: Path) -> tuple[float, float]:
    runs: dict[str, list[Measured]] = {PLAIN: [], OURS: []}
    for _ in range(ROUNDS):
        for way, measured in runs.items():
            measured.append(Measured(**json.loads(_process("measure", f"{stage}/{way}", place))))
    speeds = {way: _median(each.per_second for each in found) for way, found in runs.items()}
    cpu = {way: _median(each.per_cpu_second for each in found) for way, found in runs.items()}
    peaks = {way: _median(each.peak_mb for each in found) for way, found in runs.items()}
    unit = "tokens" if stage == "sft" else "answers"
    title = f"{stage.upper()}, {STEPS[stage]} steps of {BATCH[stage]} rows, median of {ROUNDS}"
    table = Table("way", f"{unit}/s", "ratio", "per cpu second", "peak MB", "ratio", "loss", title=title)
    for way, found in runs.items():
        table.add_row(
            way,
            f"{speeds[way]:.2f} ({min(each.per_second for each in found):.2f}"
            f"-{max(each.per_second for each in found):.2f})",
            f"{speeds[way] / speeds[PLAIN]:.2f}",
            f"{cpu[way] / cpu[PLAIN]:.2f}",
            f"{peaks[way]:.0f}",
            f"{peaks[way] / peaks[PLAIN]:.2f}",
            f"{found[-1].loss:.4f}",
        )
    table.add_row("limit", "", f">= {SPEED_LIMIT}", "", "", f"<= {MEMORY_LIMIT}", "")
    Console(width=120).print(table)
    return speeds[OURS] / speeds[PLAIN], peaks[OURS] / peaks[PLAIN]


def _median(values: Any) -> float:
    return statistics.median(list(values))


def _process(job: str, what: str, place: Path) -> str:
    """Run one job in a process of its own; return its last line of output."""
    code = f"from tests.bench._trainings import {job}; from pathlib import Path; {job}({what!r}, Path({str(place)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{job} {what} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return (done.stdout.strip().splitlines() or [""])[-1]


if __name__ == "__main__":
    main()
