"""The benchmarks run: each at its smallest, its figures meaning nothing."""

import os
import subprocess
import sys

import pytest

from tests.bench import serving
from tests.bench.__main__ import FOLDER, NAMES, main
from tests.bench._measure import show
from tests.models import tiny_chain


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_prints_its_table(name):
    command, surroundings = [sys.executable, "-m", "tests.bench", name], os.environ | {"ASSAY_BENCH_SMALL": "1"}
    done = subprocess.run(command, cwd=FOLDER.parents[1], env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "ratio" in done.stdout or "times" in done.stdout or "of the" in done.stdout


def test_serving_is_measured_on_a_chain_of_every_kind_of_stage(tmp_path, monkeypatch, capsys):
    """In this process, on a tiny base: quick enough for every change."""
    monkeypatch.setattr(serving, "CHAIN", tiny_chain(tmp_path, ranks={"sft": 4, "dpo": 2, "grpo": 2}))
    monkeypatch.setattr(serving, "TOKENS", 2)
    monkeypatch.setenv("ASSAY_BENCH_ROUNDS", "1")
    for prepare in serving.WAYS.values():
        prepare()()
    show(serving._users_table(serving.users()))
    assert "times as fast" in capsys.readouterr().out


def test_an_unknown_benchmark_is_answered_with_those_that_there_are(capsys):
    assert main(["nothing"]) == 2
    assert "serving" in capsys.readouterr().out
