import os
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file

from evals.errors import BadConfig
from tests.training.runs import SFT, one_thread, settings_file
from training import sft
from training.config import DpoSettings, SftSettings, read_request
from training.launch.accelerate import Launch, environment, profile_file, profiles, usable_cores

__all__ = ["one_thread"]


def settings(**values: object) -> SftSettings:
    return SftSettings(data=("a",), output="x", **values)


def test_the_profiles_are_those_that_are_promised():
    assert set(profiles()) == {
        "cpu",
        "multi-cpu",
        "single-gpu",
        "multi-gpu",
        "multi-node",
        "zero2",
        "zero3",
        "fsdp2",
    }


@pytest.mark.parametrize("name", profiles())
def test_a_profile_is_a_configuration_that_accelerate_reads(name: str):
    read = load_config_from_file(str(profile_file(name)))
    assert read.num_processes == Launch(name).processes
    assert read.num_machines == Launch(name).machines
    assert read.mixed_precision == "no"


SHAPES = [  # launch, processes, machines, GPUs on each
    (Launch(), 1, 1, 1),
    (Launch(None, ("--config_file", str(profile_file("multi-node")))), 8, 2, 4),
    (Launch("cpu"), 1, 1, 0),
    (Launch("single-gpu"), 1, 1, 1),
    (Launch("multi-node"), 8, 2, 4),
    (Launch("multi-gpu", ("--num_processes", "8")), 8, 1, 8),
    (Launch("multi-gpu", ("--num-processes=2",)), 2, 1, 2),
]


@pytest.mark.parametrize(("launch", "processes", "machines", "gpus"), SHAPES)
def test_options_of_the_launcher_go_over_the_profile(launch, processes, machines, gpus):
    assert (launch.processes, launch.machines, launch.gpus_per_machine) == (
        processes,
        machines,
        gpus,
    )


REFUSED = [
    (Launch("cpu", ("--num_processes", "2")), {}, "use --profile multi-cpu"),
    (Launch(None, ("--cpu", "--num_processes=2")), {}, "starts a single one"),
    (Launch(None, ("--num_processes",)), {}, "--num_processes has no value"),
    (Launch(None, ("--num_processes", "--cpu")), {}, "--num_processes has no value"),
    (Launch(None, ("--num_processes=all", "--cpu")), {}, "--num_processes is 'all'"),
    (Launch(None, ("--config_file", "nowhere.yaml", "--cpu")), {}, "nowhere.yaml cannot be read"),
    (Launch("zero3"), {"weights": "nf4"}, "4-bit weights cannot be divided"),
    (Launch("fsdp2"), {"weights": "nf4"}, "4-bit weights cannot be divided"),
    (Launch("gpu"), {}, "there is no profile 'gpu'; choose one of cpu, fsdp2"),
]


SHARING = [
    (Launch("zero3"), True),
    (Launch("fsdp2"), True),
    (Launch(None, ("--use_fsdp",)), True),
    (Launch(None, ("--use_deepspeed", "--zero_stage", "3")), True),
    (Launch("zero2"), False),
    (Launch("zero2", ("--zero_stage=3",)), True),
    (Launch("multi-gpu"), False),
    (Launch(), False),
]


@pytest.mark.parametrize(("launch", "is_refused"), SHARING)
def test_a_monitor_that_could_not_see_a_whole_model_is_refused_before_anything_starts(launch: Launch, is_refused: bool):
    watched, unwatched = (DpoSettings(data=("a",), output="x", chain="y", monitor_steps=steps) for steps in (25, 0))
    launch.check(unwatched)
    if is_refused:
        with pytest.raises(BadConfig, match="set monitor_steps to 0, or use a profile"):
            launch.check(watched)
    else:
        launch.check(watched)


@pytest.mark.parametrize(("launch", "values", "problem"), REFUSED)
def test_a_launch_that_would_not_be_what_was_asked_for_is_refused(launch, values, problem: str):
    with pytest.raises(BadConfig, match=problem):
        launch.check(settings(**values))
        launch.line("sft", ())


LINES = [
    (Launch(), "--num_processes 1"),
    (Launch(None, ("--num_processes", "2")), "--num_processes 2"),
    (Launch(None, ("--config_file", "mine.yaml")), "--config_file mine.yaml"),
]


@pytest.mark.parametrize(("launch", "options"), LINES)
def test_without_a_profile_one_process_is_started_unless_told_otherwise(launch, options: str):
    assert " ".join(launch.line("sft", ())) == f"accelerate launch {options} -m training.sft"


def test_one_process_where_two_were_asked_for_is_refused(monkeypatch, tmp_path: Path):
    monkeypatch.setitem(os.environ, "ASSAY_PROCESSES", "2")
    file = settings_file(tmp_path, SFT)
    with pytest.raises(BadConfig, match="2 processes were asked for, but 1 came together"):
        sft.train(read_request(SftSettings, ["--config", str(file)]))
    assert not (tmp_path / "run").exists()


def test_one_process_gets_every_core_that_may_be_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert environment(Launch().line("sft", ()), 1)["OMP_NUM_THREADS"] == str(usable_cores())
    assert "OMP_NUM_THREADS" not in environment(Launch().line("sft", ()), 2)


def test_a_number_of_threads_that_somebody_set_stands(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert environment(Launch().line("sft", ()), 1)["OMP_NUM_THREADS"] == "7"


@pytest.mark.parametrize(
    ("text", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None), ("", None)]
)
def test_a_container_uses_no_more_cores_than_it_was_granted(text, cores, tmp_path: Path):
    (tmp_path / "cpu.max").write_text(text)
    assert usable_cores(tmp_path / "cpu.max") == (cores or usable_cores(tmp_path / "nowhere"))
