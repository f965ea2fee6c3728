"""Jobs that resume themselves: the real protocol of submitit, on its local executor."""

import os
import signal
import stat
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from submitit import LocalExecutor
from submitit.core.utils import DelayedSubmission
from transformers import AutoModelForCausalLM

from evals.errors import BadConfig
from tests.models import tiny_base
from tests.training.cases import cases
from tests.training.runs import SFT, record, settings_file
from training.launch.accelerate import Launch
from training.launch.plan import ClusterJob, has_cluster, memory_of, parameters_of, plan_of, submit, weights_in
from training.run.folder import RunFolder

ROOT = Path(__file__).parents[2]


def job_of(folder: Path, **values: object) -> ClusterJob:
    file = settings_file(folder, {**SFT, **values})
    plan = plan_of("sft", ["--config", str(file)], Launch("cpu"))
    return ClusterJob(plan.line, str(ROOT), plan.launch.processes)


def task(number: str) -> psutil.Process:
    """Return the process that runs the job of this number."""
    found = psutil.Process(int(number)).children(recursive=True)
    return next(each for each in found if "submitit.core._submit" in each.cmdline())


@pytest.mark.slow
def test_a_job_that_is_pre_empted_saves_queues_itself_again_and_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    run = RunFolder(tmp_path / "run")
    job = job_of(tmp_path, max_steps=60, save_steps=1000)
    executor = LocalExecutor(tmp_path / "jobs", max_num_timeout=3)
    executor.update_parameters(timeout_min=30)
    submitted = executor.submit(job)
    deadline = time.monotonic() + 120
    while len(run.metric_rows()) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    task(submitted.job_id).send_signal(signal.SIGUSR2)  # SLURM does, before it takes the machine
    assert submitted.result() == 0
    assert record(run.path)["status"] == "finished"
    assert [row["step"] for row in run.metric_rows() if "loss" in row] == list(range(1, 61))
    said = f"{submitted.stdout()}{submitted.stderr()}"
    for expected in ("this job is preempted", "stopping after this step", "Requeued job"):
        assert expected in said
    assert "going on from checkpoint-" in said


@pytest.mark.slow
def test_a_job_whose_training_fails_fails_with_its_exit_code(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    line = ("accelerate", "launch", "--no-such-option")
    with pytest.raises(RuntimeError, match="training ended with exit code 2"):
        ClusterJob(line, str(tmp_path), 1)()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A login node whose sbatch takes any script and gives it number 4711."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("sbatch", 'cp "$1" "$0.taken"; echo Submitted batch job 4711'), ("srun", "")):
        program = folder / name
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_on_a_cluster_the_job_is_submitted_and_its_number_returned(tmp_path: Path, cluster: Path):
    assert has_cluster()
    folder = tmp_path / "mine.slurm"
    job = job_of(tmp_path)
    assert submit(job, folder, parameters_of(Launch("single-gpu"), "mine", ["qos=low"])) == "4711"
    text = (cluster / "sbatch.taken").read_text(encoding="utf-8")
    assert "#SBATCH --qos=low" in text
    assert sys.executable in text
    assert DelayedSubmission.load(folder / "4711_submitted.pkl").function == job


def test_several_machines_are_told_their_rank_and_the_first_ones_address(monkeypatch):
    for name, value in {
        "SUBMITIT_EXECUTOR": "slurm",
        "SLURM_JOB_ID": "12",
        "SLURM_NODEID": "1",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NTASKS": "2",
        "SLURM_PROCID": "1",
        "SLURM_LOCALID": "0",
        "SLURM_JOB_NODELIST": "gpu[07-08]",
    }.items():
        monkeypatch.setenv(name, value)
    line = Launch("multi-node").line("sft", ("--config", "a.yaml"))
    words = ClusterJob(line, ".", 8, machines=2)._line_here()
    assert words[-4:] == ["-m", "training.sft", "--config", "a.yaml"]
    for key, value in (("--machine_rank", "1"), ("--main_process_ip", "gpu07")):
        assert words[words.index(key) + 1] == value


def test_a_job_asks_for_the_memory_that_loading_needs_unless_told_otherwise(tmp_path: Path):
    words = ["--config", str(settings_file(tmp_path, {**SFT, "base": "mistralai/Mistral-7B-v0.3", "max_length": 256}))]
    for profile, options, values, gigabytes, why in cases("slurm")["memory"]:
        told = [word for name, value in values.items() for word in (f"--{name}", value)]
        plan = plan_of("sft", [*words, *told], Launch(profile, tuple(options)), is_dry=True)
        memory, reason = memory_of(plan)
        assert (memory, why in reason) == (f"{gigabytes}GB", True), (profile, options, memory, reason)
    assert parameters_of(plan.launch, "mine", [], memory)["mem"] == memory
    assert parameters_of(plan.launch, "mine", ["mem=10GB"], memory)["mem"] == "10GB"
    unknown = plan_of("sft", [*words, "--base", "somebody/unknown-7B"], Launch("multi-cpu"), is_dry=True)
    assert memory_of(unknown) == (
        "64GB",
        "the size of somebody/unknown-7B is not known here; --slurm-option mem= asks for more",
    )
    base = tiny_base(tmp_path / "here")
    weights = sum(each.numel() for each in AutoModelForCausalLM.from_pretrained(base).parameters())
    assert weights_in(base) == weights
    assert (
        "4 x 0.0 GB of the base"
        in memory_of(replace(unknown, launch=Launch("multi-cpu", ("--num_processes", "4"))), base)[1]
    )


def test_options_of_the_job_are_read_as_slurm_does_and_refused_where_they_are_none_or_another_shape():
    table = cases("slurm")
    for profile, option, said in table["refused"]:
        with pytest.raises(BadConfig) as raised:
            parameters_of(Launch(profile), "mine", [option])
        assert said in str(raised.value), option
    assert parameters_of(Launch("multi-node"), "mine", ["nodes=2"])["nodes"] == 2
    found = {text: parameters_of(Launch("cpu"), "mine", [f"time={text}"])["time"] for text in table["times"]}
    assert found == table["times"]
