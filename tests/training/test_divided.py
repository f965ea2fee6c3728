"""Weights, gradients and optimizer divided among two processes by DeepSpeed, on processors (DS_ACCELERATOR=cpu)."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from accelerate import PartialState
from accelerate.utils import DistributedType

from tests.training.runs import SFT, environment, on_taught, record, settings_file
from training.models.chain import check_chain
from training.run.session import run_command

pytest.importorskip("deepspeed", reason="pip install deepspeed")
PROFILE = {"USE_DEEPSPEED": "true", "DEEPSPEED_ZERO3_INIT": "false", "DEEPSPEED_ZERO3_SAVE_16BIT_MODEL": "true"}
PROFILE |= {"GRADIENT_ACCUMULATION_STEPS": "1", "TORCH_DEVICE": "cpu", "DEEPSPEED_ZERO_STAGE": "3"}


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["sft", "dpo", "grpo"])
def test_each_stage_under_zero_3_ends_with_a_chain_that_computes_what_was_trained(taught: Path, tmp_path: Path, stage):
    """Loading the base for the probe is one process's affair, although ZeRO-3 would load it in parts."""
    if stage == "sft":
        file, base = settings_file(tmp_path, SFT), tmp_path / "model"
    else:
        values = {"monitor_steps": 0} if stage == "dpo" else {}
        file, base = on_taught(taught, stage, tmp_path / "run", **values), taught / "model"
    told = {f"ACCELERATE_{name}": value for name, value in PROFILE.items()}
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [sys.executable, *launcher, "-m", "tests.training.test_divided", stage, "--config", str(file)],
        env={**environment(), **told, "DS_ACCELERATOR": "cpu", "ASSAY_PROCESSES": "2", "PATH": _path()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kept = record(tmp_path / "run")
    assert (kept["status"], kept["host"]["processes"], kept["result"]["steps"]) == ("finished", 2, 2)
    assert all(finding.is_ok for finding in check_chain(tmp_path / "run", base=str(base)))


def _path() -> str:
    """DeepSpeed builds a part of itself with the `ninja` beside this Python."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def main() -> None:
    """Train a stage as a command; accelerate knows no backend for DeepSpeed where there is no accelerator."""
    PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
    stage, *words = sys.argv[1:]
    run_command(stage, import_module(f"training.{stage}").train, words)


if __name__ == "__main__":
    main()
