"""A training as a job on the Hub, up to the request: what is sent, what runs, what comes back."""

from dataclasses import replace

import pytest

from evals.errors import BadConfig
from hub.checks import part_of
from hub.jobs import command_of, job_options, plan_job, submit

LINE = ("accelerate", "launch", "-m", "training.sft", "--config", "my.yaml")
WORK = ("mine", LINE, "runs/mine", {"my.yaml": part_of(b"base: embedded\n")})


def test_a_job_is_planned_without_asking_anybody():
    plan, upload = plan_job(*WORK, job_options(["flavor=l4x1", "timeout=2h"]), "ann")
    assert (plan.run_repo, plan.code_repo) == ("ann/mine-run", "ann/mine-run-code")
    assert (plan.flavor, plan.timeout) == ("l4x1", "2h")
    assert "accelerate launch -m training.sft --config my.yaml || status=$?" in plan.script
    assert {"my.yaml", "job.sh", "training/sft.py", "requirements.txt"} <= set(upload.parts)
    assert plan.secrets == ("HF_TOKEN",)


def test_the_run_comes_back_even_if_training_fails_and_a_second_job_goes_on_from_it():
    script = plan_job(*WORK, job_options([]), "ann")[0].script
    lines = script.splitlines()
    fetched = next(at for at, line in enumerate(lines) if line.startswith("hf download ann/mine-run "))
    trained = next(at for at, line in enumerate(lines) if line.startswith("accelerate"))
    returned = next(at for at, line in enumerate(lines) if line.startswith("hf upload ann/mine-run "))
    assert fetched < trained < returned
    assert "--private" in lines[returned]
    assert lines[-1] == "exit $status"


def test_an_option_that_is_not_understood_is_answered_with_those_there_are():
    for word in ("flavor", "speed=9", "timeout="):
        with pytest.raises(BadConfig, match="flavor, image, repo, timeout"):
            job_options([word])


def test_a_job_is_submitted_with_its_code_pinned_to_one_private_commit(stand):
    plan, upload = plan_job(*WORK, job_options(["repo=tester/mine-run"]), "tester")
    small = {path: part for path, part in upload.parts.items() if "/" not in path}  # other tests send our packages
    number = submit(stand.api(), plan, replace(upload, parts=small), lambda words: None)
    job = next(job for job in stand.hub.jobs if job["id"] == number)
    code = stand.hub.find("dataset", "tester/mine-run-code")
    assert code.private
    assert job["command"] == command_of(plan, code.refs["refs/heads/main"])
    assert (job["dockerImage"], job["flavor"]) == ("python:3.11", "a10g-small")
    assert job["timeoutSeconds"] == 8 * 3600
    assert job["secrets"] == ["HF_TOKEN"]
    assert b"hf_test" not in stand.read("tester/mine-run-code", "job.sh", "dataset"), "no token in a file"
