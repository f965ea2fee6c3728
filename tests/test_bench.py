"""The benchmarks run: each at its smallest, its figures meaning nothing."""

import os
import subprocess
import sys

import pytest

from tests.bench.__main__ import FOLDER, NAMES


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_prints_its_table(name):
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", name],
        cwd=FOLDER.parents[1],
        env=os.environ | {"ASSAY_BENCH_SMALL": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "ratio" in done.stdout or "times" in done.stdout or "of the" in done.stdout


def test_an_unknown_benchmark_is_answered_with_those_that_there_are():
    command = [sys.executable, "-m", "tests.bench", "nothing"]
    done = subprocess.run(command, cwd=FOLDER.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "serving" in done.stdout
