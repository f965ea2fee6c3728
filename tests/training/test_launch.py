"""How a stage is launched, what this machine lacks for it, and what it will need."""

import os
import pickle
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_simple_launcher_cmd_env
from transformers import AutoModelForCausalLM
from trl import SFTConfig

from evals.errors import BadConfig
from tests.models import tiny_base
from tests.training.cases import cases
from tests.training.runs import SFT, ready, settings_file, train
from training.config import StageSettings
from training.dpo import DpoSettings
from training.grpo import GrpoSettings
from training.launch.accelerate import (
    Launch,
    command_of,
    environment,
    gpus_here,
    missing,
    profile_file,
    profiles,
    unused_gpus,
    usable_cores,
)
from training.launch.plan import estimate, shape_of
from training.models.start import stacked_policy
from training.models.targets import lora_config
from training.run import session
from training.sft import SftSettings
from training.upstream import on_one_device

COMMON = {"data": ("a",), "output": "x"}
MISTRAL = "mistralai/Mistral-7B-v0.3"
MULTI_NODE = str(profile_file("multi-node"))


CASES = cases("launch")
KINDS = {"sft": SftSettings, "dpo": DpoSettings, "grpo": GrpoSettings}


def settings_of(stage: str, values: dict[str, object]) -> StageSettings:
    usual = {"sft": {}, "dpo": {"chain": "y"}, "grpo": {"chain": "y", "num_generations": 4}}[stage]
    return KINDS[stage](**COMMON, **{**usual, **values})


def sft(**values: object) -> StageSettings:
    return settings_of("sft", values)


def launch_of(row: list[Any] | None) -> Launch | None:
    return row and Launch(row[0], tuple(each.replace("<multi-node>", MULTI_NODE) for each in row[1]))


# ---- the launcher ------------------------------------------------------------------------------


def test_a_profile_is_a_configuration_that_accelerate_reads():
    for name in profiles():
        read = load_config_from_file(str(profile_file(name)))
        launch = Launch(name)
        assert (read.num_processes, read.num_machines) == (launch.processes, launch.machines), name
        assert read.mixed_precision == "no", name


def test_options_of_the_launcher_go_over_the_profile_and_one_process_is_started_unless_told_otherwise():
    found = [(row[0], launch_of(row[0])) for row in CASES["shapes"]]
    assert [[row, each.processes, each.machines, each.gpus_per_machine] for row, each in found] == CASES["shapes"]
    for launch, options in CASES["lines"]:
        assert " ".join(launch_of(launch).line("sft", ())) == f"accelerate launch {options} -m training.sft"


def test_a_launch_that_would_not_be_what_was_asked_for_is_refused():
    for row, (stage, values), problem in CASES["refused"]:
        launch = launch_of(row)
        with pytest.raises(BadConfig) as raised:
            launch.check(settings_of(stage, values))
            launch.line("sft", ())
        assert problem in str(raised.value), launch
    for launch in (Launch("zero2"), Launch("multi-gpu"), Launch()):
        launch.check(settings_of("dpo", {}))
    Launch("zero3").check(settings_of("dpo", {"eval_steps": 0}))


@pytest.mark.parametrize(("visible", "count"), [(None, 4), ("2,3", 2), ("", 0), ("1,-1,2", 1), ("GPU-8c,GPU-9d", 2)])
def test_the_gpus_that_a_run_would_see_are_counted_and_what_one_process_leaves_alone_is_said(
    monkeypatch, tmp_path: Path, visible: str | None, count: int
):
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus_here(tmp_path) == count
    said = f"--num_processes {count} uses all" if count > 1 else ""
    assert said in "".join(unused_gpus(count, 1)) and bool(unused_gpus(count, 1)) == (count > 1)
    assert unused_gpus(count, 2) == ()


def test_accelerate_leaves_the_choice_of_the_one_gpu_to_cuda_visible_devices(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    for launch in (Launch(), Launch("single-gpu")):
        line = launch.line("sft", ())
        told, *_ = _validate_launch_command(launch_command_parser().parse_args(list(line[2:])))
        assert (told.multi_gpu, told.num_processes) == (False, 1)
        assert prepare_simple_launcher_cmd_env(told)[1]["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_a_process_that_sees_several_gpus_trains_on_one(tmp_path: Path):
    seen = SFTConfig(output_dir=str(tmp_path), use_cpu=True)
    assert seen.device.type == "cpu"
    seen._n_gpu = 2  # what Trainer would spread a model over
    told = on_one_device(seen)
    again = pickle.loads(pickle.dumps(told))
    assert (seen.n_gpu, told.n_gpu, again.n_gpu, type(again)) == (2, 1, 1, SFTConfig)


@pytest.mark.parametrize(("divided", "device"), [("false", "meta"), ("true", "cpu")])
def test_a_base_is_read_straight_onto_the_device_of_its_process_unless_it_is_divided(
    tmp_path: Path, monkeypatch, divided: str, device: str
):
    prepared = ready("sft", settings_file(tmp_path, SFT))
    monkeypatch.setattr(session, "processes", lambda: SimpleNamespace(device=torch.device("meta")))
    monkeypatch.setenv("ACCELERATE_USE_FSDP", divided)
    assert {each.device.type for each in prepared.model().parameters()} == {device}


def test_more_processes_than_gpus_can_be_seen_are_refused():
    for row, gpus, said in CASES["few"]:
        found = missing(settings_of("sft", {}), has_gpu=True, launch=launch_of(row), gpus=gpus)
        assert (said in found[0]) if said else found == (), (row, found)


def test_one_process_where_two_were_asked_for_is_refused(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("ASSAY_PROCESSES", "2")
    with pytest.raises(BadConfig, match="2 processes were asked for, but 1 came together"):
        train("sft", settings_file(tmp_path, SFT))
    assert not (tmp_path / "run").exists()


STUBBORN = """
import signal, sys, time
def stop(number, frame):
    print("asked", flush=True)
    if frame.f_globals.setdefault("asked", []):
        sys.exit(130)
    asked.append(number)
signal.signal(signal.SIGINT, stop)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.mark.slow
def test_a_ctrl_c_ends_the_stage_and_not_the_launcher_that_waits_for_it_and_none_prints_a_traceback(tmp_path: Path):
    """A terminal sends it to both; accelerate would die of the first and leave the stage behind."""
    (tmp_path / "stage.py").write_text(STUBBORN, encoding="utf-8")
    line = ("accelerate", "launch", "--num_processes", "1", str(tmp_path / "stage.py"))
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "start_new_session": True}
    with subprocess.Popen(command_of(line), env=environment(line, 1), **told) as process:
        said = []
        for row in process.stdout:
            said.append(row.strip())
            if said[-1] in ("ready", "asked") and process.poll() is None and said.count("asked") < 2:
                os.killpg(process.pid, signal.SIGINT)
    assert (said, process.returncode) == (["ready", "asked", "asked"], 1)


def test_one_process_gets_every_core_that_may_be_used_and_a_number_that_somebody_set_stands(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert environment(Launch().line("sft", ()), 1)["OMP_NUM_THREADS"] == str(usable_cores())
    assert "OMP_NUM_THREADS" not in environment(Launch().line("sft", ()), 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert environment(Launch().line("sft", ()), 1)["OMP_NUM_THREADS"] == "7"


@pytest.mark.parametrize(
    ("text", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None), ("", None)]
)
def test_a_container_uses_no_more_cores_than_it_was_granted(text, cores, tmp_path: Path):
    (tmp_path / "cpu.max").write_text(text)
    assert usable_cores(tmp_path / "cpu.max") == (cores or usable_cores(tmp_path / "nowhere"))


# ---- what this machine lacks -------------------------------------------------------------------


def test_what_is_missing_is_named_with_what_to_do():
    for settings, has_gpu, packages, launch, said in CASES["lacks"]:
        told = {"has_gpu": has_gpu, "has": packages.__contains__, "launch": launch_of(launch)}
        found = missing(settings_of(*settings), **told)
        assert len(found) == len(said), found
        assert all(part in sentence for part, sentence in zip(said, found, strict=True)), found


# ---- what a run will need ----------------------------------------------------------------------


@pytest.mark.parametrize("targets", [("all-linear",), ("q_proj", "v_proj")])
def test_the_weights_of_a_base_and_its_adapter_are_counted_as_they_are(tmp_path: Path, targets):
    shape = shape_of(str(tiny_base(tmp_path)))
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    weights = shape.linear_weights + shape.other_weights
    assert weights == sum(each.numel() for each in model.parameters())
    settings = sft(lora_r=4, lora_targets=targets, autocast="none")
    policy = stacked_policy(model, {}, lora_config(settings, model))
    needs = estimate(settings, shape, rows=8)
    assert needs.trained_weights == sum(each.numel() for each in policy.parameters() if each.requires_grad)
    assert needs.memory["base"] == 4 * weights


SAMPLED = ("batch", "num_generations", "max_prompt_length", "max_completion_length")
MEASURED = [  # settings with the lengths that the rows really had, peak in GB
    (sft(batch=8, max_length=141), 3.98),
    (settings_of("grpo", dict(zip(SAMPLED, (8, 8, 80, 48), strict=True))), 4.05),
]
"""Runs of the embedded base on a CPU, r = 8 on all linear layers: the resident set at its highest."""


def test_the_memory_of_runs_that_were_measured_is_estimated_within_an_eighth():
    found = [estimate(settings, shape_of("embedded"), 600).total / 1e9 for settings, _ in MEASURED]
    assert found == pytest.approx([peak for _, peak in MEASURED], rel=1 / 8)


def test_a_base_that_nobody_knows_has_no_shape_and_a_damaged_configuration_is_refused(tmp_path: Path):
    assert shape_of("somebody/unknown-7B") is None
    (tmp_path / "config.json").write_text('{"d_model": 512}', encoding="utf-8")
    assert shape_of(str(tmp_path)) is None
    (tmp_path / "config.json").write_text('{"d_model"', encoding="utf-8")
    with pytest.raises(BadConfig, match="is no configuration of a model"):
        shape_of(str(tmp_path))


def test_the_steps_of_a_run_follow_from_its_rows():
    for settings, rows, processes, steps in CASES["steps"]:
        assert settings_of(*settings).steps(rows, processes) == steps, settings


def test_answers_that_do_not_divide_among_groups_and_processes_or_lack_questions_are_refused():
    for values, rows, processes, problem in CASES["uneven"]:
        if problem is None:
            settings_of("grpo", values).check_batches(rows, processes)
            continue
        with pytest.raises(BadConfig) as raised:
            settings_of("grpo", values).check_batches(rows, processes)
        assert problem in str(raised.value), values
