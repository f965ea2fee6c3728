"""The benchmarks run: each at its smallest, its figures meaning nothing."""

import os
import subprocess
import sys

import pytest

from tests.bench.__main__ import FOLDER, NAMES, main


def printed(*names: str) -> str:
    """Return what benchmarks print, each at its smallest."""
    command, surroundings = [sys.executable, "-m", "tests.bench", *names], os.environ | {"ASSAY_BENCH_SMALL": "1"}
    done = subprocess.run(command, cwd=FOLDER.parents[1], env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_benchmark_that_needs_no_model_prints_its_tables():
    names = sorted({*NAMES} - {"serving", "training"})
    for name, table in zip(names, printed(*names).split("\n== ")[1:], strict=True):
        assert table.startswith(name) and any(word in table for word in ("ratio", "times", "of the")), table


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["serving", "training"])
def test_a_benchmark_of_the_embedded_chain_prints_its_tables(name):
    assert "ratio" in printed(name)


def test_an_unknown_benchmark_is_answered_with_those_that_there_are(capsys):
    assert main(["nothing"]) == 2
    assert "serving" in capsys.readouterr().out
