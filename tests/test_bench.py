"""The benchmarks run: each at its smallest, its figures meaning nothing."""

import os
import subprocess
import sys

import pytest

from tests.bench.__main__ import FOLDER, NAMES, main


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_prints_its_table(name):
    command, surroundings = [sys.executable, "-m", "tests.bench", name], os.environ | {"ASSAY_BENCH_SMALL": "1"}
    done = subprocess.run(command, cwd=FOLDER.parents[1], env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "ratio" in done.stdout or "times" in done.stdout or "of the" in done.stdout


def test_an_unknown_benchmark_is_answered_with_those_that_there_are(capsys):
    assert main(["nothing"]) == 2
    assert "serving" in capsys.readouterr().out
