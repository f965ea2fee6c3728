"""How many processes run the tests, and which files are handed to them first."""

import os
from collections.abc import Iterable
from pathlib import Path

import psutil

TESTS = Path(__file__).parent
LONGEST_FIRST = ("test_dockerfile.py", "browser", "test_frozen.py", "training", "lab", "hub", "test_bench.py", "gpu")
"""Folders, and files beside them, by how long their slowest files take; the others take seconds."""

MEMORY = 3 * 2**30
"""Bytes that one process and what its tests start may hold: torch, a small model, a browser."""


def processes(names: Iterable[str], available: int | None = None) -> int:
    """Return how many processes run the tests of these files and folders: one for each core.

    There are fewer where `available` bytes of memory (those free now) do not go round. 0 says that pytest runs
    them itself, which for single files is sooner done than every worker's imports.
    """
    if all(name.split("::")[0].endswith(".py") for name in names):
        return 0
    affinity = getattr(os, "sched_getaffinity", None)  # Linux alone tells which cores this process may run on
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    memory = psutil.virtual_memory().available if available is None else available
    workers = min(cores, memory // MEMORY)
    return workers if workers > 1 else 0


def turn(file: Path) -> int:
    """Return when the tests of a file are handed out: low is early.

    A file's tests stay in one process, so a long file that came last would keep one process busy
    while the others have nothing left to do.
    """
    folder = file.relative_to(TESTS).parts[0]
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)
