"""The check for a GPU runs wherever Assay does, with tiny shapes, and says of each part what it saw."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_the_check_tells_after_each_part_what_it_saw_and_what_needs_a_gpu(tmp_path: Path):
    told = {"OUT": str(tmp_path), "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": "", "SECONDS_IN_ALL": "900"}
    line = [str(ROOT / "tests/gpu/check.sh")]
    done = subprocess.run(line, env={**os.environ, **told}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "check.jsonl").read_text(encoding="utf-8") == done.stdout
    found = {row["part"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert found["long_rows"]["skipped"] == found["kernels"]["nf4_gap_to_cpu"] == "no GPU"
    assert found["sft"]["steps_per_second"] > 0 and found["sft"]["peak_gb"] > 0
    assert found["grpo"]["kl_at_step_1"] == 0
    assert found["stages"]["times_as_fast"] > 0
    assert found["linear_attention"]["gap"] == 0, "no kernel without a GPU"
    assert found["resume"]["tensors_that_differ"] == 0
    assert found["padding_free"]["loss_padded"] == pytest.approx(found["padding_free"]["loss_padding_free"], abs=1e-3)
    assert found["families"]["Mistral"]["merged"] == "≤ 1e-4"
