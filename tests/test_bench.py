"""The benchmarks run: each at its smallest, its figures meaning nothing."""

import os
import subprocess
import sys

import pytest

from tests.bench import serving, training
from tests.bench.__main__ import FOLDER, NAMES, main
from tests.bench._measure import show
from tests.models import tiny_chain


def printed(*names: str) -> str:
    """Return what benchmarks print, each at its smallest."""
    command, surroundings = [sys.executable, "-m", "tests.bench", *names], os.environ | {"ASSAY_BENCH_SMALL": "1"}
    done = subprocess.run(command, cwd=FOLDER.parents[1], env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout


def test_every_benchmark_that_needs_no_model_prints_its_tables():
    names = sorted({*NAMES} - {"serving", "training"})
    for name, table in zip(names, printed(*names).split("\n== ")[1:], strict=True):
        assert table.startswith(name) and any(word in table for word in ("ratio", "times", "of the")), table


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["serving", "training"])
def test_a_benchmark_of_the_embedded_chain_prints_its_tables(name):
    assert "ratio" in printed(name)


def test_training_is_measured_both_ways_on_a_tiny_base(tmp_path, monkeypatch):
    """In this process, as is serving: quick enough for every change."""
    chain = tiny_chain(tmp_path / "chain", ranks={"sft": 4})
    small = {"CHAIN": chain, "BASE": str(tmp_path / "chain" / "model"), "MEASURED": 1, "BATCH": {"sft": 2, "grpo": 2}}
    for name, value in {
        **small,
        "DATA": {"sft": ("kmp-train",), "grpo": ("pathways-grpo-half",)},
        "LENGTH": 900,
        "PROMPT": 900,
        "ANSWER": 2,
        "GROUP": 2,
    }.items():
        monkeypatch.setattr(training, name, value)
    training.prepare(str(tmp_path))
    for stage in ("sft", "grpo"):
        for way in (training.PLAIN, training.OURS):
            assert training.measure(stage, way, str(tmp_path))["speed"] > 0


def test_serving_is_measured_on_a_chain_of_every_kind_of_stage(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(serving, "CHAIN", tiny_chain(tmp_path, ranks={"sft": 4, "dpo": 2, "grpo": 2}))
    monkeypatch.setattr(serving, "TOKENS", 2)
    monkeypatch.setattr(serving, "USER_TOKENS", 2)
    monkeypatch.setenv("ASSAY_BENCH_ROUNDS", "1")
    for prepare in serving.WAYS.values():
        prepare()()
    show(serving._users_table(serving.users()))
    assert "times as fast" in capsys.readouterr().out


def test_an_unknown_benchmark_is_answered_with_those_that_there_are(capsys):
    assert main(["nothing"]) == 2
    assert "serving" in capsys.readouterr().out
