"""What benchmarks share: work in processes of their own that take turns, medians, tables of ratios.

ASSAY_BENCH_ROUNDS says how often each way is measured; ASSAY_BENCH_SMALL=1 makes everything as small as it goes,
to see that it runs.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
SMALL = bool(os.environ.get("ASSAY_BENCH_SMALL"))
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}


def rounds(usual: int) -> int:
    """Return how often each way is measured."""
    return 1 if SMALL else int(os.environ.get("ASSAY_BENCH_ROUNDS", usual))


def in_turns(usual_rounds: int, ways: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Return what each way gave in each round; the ways take turns."""
    found: dict[str, list[T]] = {name: [] for name in ways}
    for _ in range(rounds(usual_rounds)):
        for name, measure in ways.items():
            found[name].append(measure())
    return found


def seconds(work: Callable[[], object]) -> float:
    """Return the process time that `work` takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


def spread(values: list[float]) -> str:
    """Return median, least and greatest."""
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def show(table: Table) -> None:
    """Print a table wide enough to be read."""
    Console(width=130).print(table)


def start(module: str, function: str, *arguments: Any, **options: Any) -> subprocess.Popen[str]:
    """Call a function in a process of its own; what it returns is its last line, as JSON."""
    code = f"import json, sys; from {module} import {function} as f; print(json.dumps(f(*json.loads(sys.argv[1]))))"
    surroundings = {**os.environ, "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1", **options.pop("env", {})}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options}
    command = [sys.executable, "-c", code, json.dumps(arguments)]
    return subprocess.Popen(command, cwd=ROOT, env=surroundings, text=True, **pipes)


def apart(module: str, function: str, *arguments: Any, **environment: str) -> Any:
    """Return what a function returns in a process of its own (where all is small, in this one)."""
    if SMALL:
        return json.loads(json.dumps(getattr(import_module(module), function)(*arguments)))
    with start(module, function, *arguments, stderr=subprocess.PIPE, env=environment) as process:
        printed, told = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{module}.{function}{arguments} ended with {process.returncode}:\n{told[-3000:]}")
    return json.loads(printed.strip().splitlines()[-1])


def resident(field: str) -> float:
    """Return a figure of this process's memory (VmRSS now, VmHWM at its peak) in MB; Linux only."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024
