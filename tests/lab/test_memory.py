"""One base in memory for Ask, Review and Refine: what all three need is little more than what Ask needs alone."""

import os
import subprocess
import sys

import pytest

USED = """
import ctypes, gc, re, sys
from pathlib import Path
from lab.ask.session import ask
from evals.refine.bank import refiner_bank
from lab.ask.evidence import answer
from lab.papers.session import demonstration, review
from lab.services import build_services
from lab.settings import from_environment
from lab.visitors import new_visitor

services, visitor = build_services(from_environment()), new_visitor()
*_, told = ask(services, visitor, "What is HSF1?", (0, 16, 0))
assert not told.is_busy and "problem" not in told.notice, told.notice
if "all" in sys.argv:
    record = refiner_bank().test[0]
    *_, told = answer(services, visitor, record, (0, 16, 0))
    assert told.kept, told.notice
    paper, _ = demonstration()
    *_, told = review(services, visitor, (paper, ""), services.readers()[0].name, (0, 64, 0.1))
    assert told.kept, told.notice
services.store.close()
gc.collect()
ctypes.CDLL("libc.so.6").malloc_trim(0)
print(re.search(r"VmRSS:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


def megabytes(folder, *words):
    """Return what a process holds in memory after it used the lab."""
    settings = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}  # what is held must not depend on which thread held it
    environment = {**os.environ, "ASSAY_DATABASE_URL": f"sqlite:///{folder / 'assay.db'}", **settings}
    told = subprocess.run(
        [sys.executable, "-c", USED, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    return int(told.stdout.split()[-1]) / 1024


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_ask_review_and_refine_together_take_at_most_a_tenth_more_memory_than_ask_alone(tmp_path):
    alone, together = megabytes(tmp_path), megabytes(tmp_path, "all")

    assert together <= 1.1 * alone, f"{together:.0f} MB, Ask alone {alone:.0f} MB"
