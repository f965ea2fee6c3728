"""What GPUs are for, without one: DeepSpeed and FSDP2 on two processors, GRPO that samples from a stand-in for vLLM."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from accelerate import PartialState
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DistributedType
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env
from transformers import modeling_utils

from tests.training.cases import cases
from tests.training.runs import SFT, environment, figures, on_taught, record, settings_file, train
from training.launch.accelerate import profile_file
from training.models.chain import check_chain
from training.run.folder import RunFolder

STAND_IN = Path(__file__).with_name("stand_in")
INSTALLED = find_spec("deepspeed")
ENGINES = Path(str(INSTALLED.origin)).parents[1] if INSTALLED else Path(sys.prefix) / "engines"
"""Where DeepSpeed is: `make setup-tests` puts it there (requirements-engines.txt)."""
TWO = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
pytestmark = pytest.mark.slow


def environment_of(profile: str) -> dict[str, str]:
    """Return what `accelerate launch` would start the processes of a profile with, on processors."""
    words = ["--config_file", str(profile_file(profile)), "--num_processes", "2", "-m", "training.sft"]
    told, *_ = _validate_launch_command(launch_command_parser().parse_args(words))
    if told.use_deepspeed:
        told.deepspeed_fields_from_accelerate_config = ""
        given = prepare_deepspeed_cmd_env(told)[1]
    else:
        given = prepare_multi_gpu_env(told)
    seen = {"PYTHONPATH": os.pathsep.join([environment()["PYTHONPATH"], str(ENGINES)])}
    here = seen | {"ACCELERATE_TORCH_DEVICE": "cpu", "DS_ACCELERATOR": "cpu", "ASSAY_PROCESSES": "2"}
    return {name: value for name, value in given.items() if name.startswith(("ACCELERATE_", "FSDP_"))} | here


def trained(stage: str, file: Path, launcher: list[str], surroundings: Mapping[str, str]) -> str:
    """Train a stage as a command of this file, to its end; return what its processes said."""
    words = ["-m", "tests.training.test_divided", stage, "--config", str(file)]
    told = {**environment(), **surroundings}
    done = subprocess.run([sys.executable, *launcher, *words], env=told, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "rror" in line] or done.stderr.splitlines()
    assert done.returncode == 0, "\n".join(said[:20])
    return done.stdout


def needs_deepspeed() -> None:
    if not (ENGINES / "deepspeed").is_dir():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("DeepSpeed is not here: make setup-tests")


@pytest.mark.parametrize(("profile", "stage", "values"), cases("processes")["divided"])
def test_two_processes_that_divide_a_model_end_with_a_chain_that_computes_what_was_trained(
    taught: Path, tmp_path: Path, profile: str, stage: str, values: Mapping[str, object]
):
    if profile != "fsdp2":
        needs_deepspeed()
    if stage == "sft":
        file, base = settings_file(tmp_path, {**SFT, **values}), tmp_path / "model"
    else:
        file, base = on_taught(taught, stage, tmp_path / "run", **values), taught / "model"
    read = re.findall(r"read (\d+) weights", trained(stage, file, TWO, environment_of(profile)))
    if profile in ("fsdp2", "zero3"):  # of two processes on one machine one reads the base
        assert sorted(int(weights) > 0 for weights in read) == [False, True]
    kept = record(tmp_path / "run")
    assert (kept["status"], kept["host"]["processes"], kept["result"]["steps"]) == ("finished", 2, 2)
    assert all(finding.is_ok for finding in check_chain(tmp_path / "run", base=str(base)))
    if stage == "sft":  # what one process learns from the same rows
        alone = train("sft", settings_file(tmp_path, {**SFT, "batch": 4, "output": str(tmp_path / "alone")}))
        found = figures(RunFolder(tmp_path / "run"), "loss")
        assert found == pytest.approx(figures(alone, "loss"), rel=1e-3)


def test_answers_from_vllm_are_those_of_the_whole_chain_as_it_is_trained(taught: Path, tmp_path: Path):
    """What TRL finds between the sampled and the scored probabilities of a token would show weights of another step."""
    file = on_taught(taught, "grpo", tmp_path / "run", vllm="colocate", learning_rate=1e-2)
    seen = os.pathsep.join([str(STAND_IN), environment()["PYTHONPATH"]])
    trained("grpo", file, [], {"PYTHONPATH": seen})
    run = RunFolder(tmp_path / "run")
    assert max(figures(run, "sampling/sampling_logp_difference/max")) < 1e-3
    assert figures(run, "kl")[0] == 0.0 < figures(run, "kl")[-1]
    assert all(finding.is_ok for finding in check_chain(run.path, base=str(taught / "model")))


def telling(load: Callable[..., Any]) -> Callable[..., Any]:
    """Let `load` print how many weights of the base were read from its files."""
    files, taken = modeling_utils.load_state_dict, [0]

    def counted(*told: Any, **options: Any) -> Any:
        found = files(*told, **options)
        taken[0] += sum(not each.is_meta for each in found.values())
        return found

    def loaded(*told: Any, **options: Any) -> Any:
        modeling_utils.load_state_dict = counted
        model = load(*told, **options)
        is_divided = any(hasattr(each, "ds_id") for each in model.parameters())  # ZeRO-3: none of them is on meta
        there = taken[0] if is_divided else sum(not each.is_meta for each in model.parameters())
        sys.stdout.write(f"\nread {there} weights\n")
        return model

    return loaded


def main() -> None:
    """Train a stage as a command, past what accelerate, DeepSpeed and TRL refuse where there is no accelerator."""
    from training import grpo
    from training.run import session
    from training.stages import STAGES

    stage, *words = sys.argv[1:]
    if "ASSAY_PROCESSES" in os.environ and not session.is_cpu():
        PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        import_module("deepspeed.comm.torch").build_shm_op = lambda: None  # needs a compiler
    session.check_equipment = lambda *_, **__: None
    session.load_model = telling(session.load_model)
    if stage == "grpo":
        grpo.VerifierReward = lambda *_: import_module("tests.training.killing").length_of_answer
    session.run_command(stage, STAGES[stage], import_module(f"training.{stage}").train, words)


if __name__ == "__main__":
    main()
