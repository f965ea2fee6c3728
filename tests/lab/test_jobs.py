"""Long work: done in order, cancelled, failed in words, and gone on with by whoever is there after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from threading import Event
from types import SimpleNamespace

import pytest

from evals.errors import LabError
from lab.jobs import Job, Jobs
from lab.store.answers import Store
from lab.store.database import upgrade
from tests import waiting
from tests.lab.votes import url_in

LEASE = 1.0
COUNTING = """
import sys, time
from lab.jobs import Jobs
from types import SimpleNamespace

from lab.store.answers import Store

def count(settings, told, is_cancelled, resume):
    with open(settings["file"], "a+") as file:
        file.seek(0)
        for n in range(len(file.read().split()), settings["n"]):
            file.write(f"{n}\\n")
            file.flush()
            told(n + 1, settings["n"], f"at {n}")
            time.sleep(0.02)
    return {"resumed": resume}

jobs = Jobs(SimpleNamespace(store=Store(sys.argv[1])), 1.0)
jobs.register("count", count)
with jobs.working():
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def jobs(tmp_path):
    """The jobs of a new store, with real time; those at work end with the test."""
    upgrade(url_in(tmp_path))
    with ExitStack() as ends:
        store = Store(url_in(tmp_path))
        ends.callback(store.close)
        found = Jobs(SimpleNamespace(store=store), LEASE)
        found.ends = ends
        yield found


def until(jobs: Jobs, id: str, is_so: Callable[[Job], bool], seconds: float = 30) -> Job:
    waiting.until(lambda: is_so(jobs.get(id)), seconds)
    return jobs.get(id)


def test_jobs_are_done_in_order_and_keep_their_results(jobs):
    asked = []

    def double(settings, told, is_cancelled, resume):
        asked.append(settings["n"])
        told(1, 1, "doubling")
        return settings["n"] * 2

    jobs.register("double", double)
    first, second = (jobs.start("double", f"Double {n}", {"n": n}, who) for n, who in ((1, "ada"), (2, "bob")))
    assert [job.state for job in jobs.all()] == ["waiting", "waiting"], "nothing is done before the lab runs"
    is_loaded = Event()
    jobs.ends.enter_context(jobs.working(lambda: not is_loaded.is_set()))
    time.sleep(0.3)
    assert [job.state for job in jobs.all()] == ["waiting", "waiting"], "nor while its model is loaded"
    is_loaded.set()
    done = until(jobs, second, lambda job: job.is_over)
    assert (done.state, done.result, done.done, done.total, done.line) == ("done", 4, 1, 1, "doubling")
    assert asked == [1, 2]
    assert [job.id for job in jobs.all()] == [second, first]
    assert [job.id for job in jobs.all("ada")] == [first]


def test_a_job_is_cancelled_before_it_begins_and_while_it_runs(jobs):
    began = Event()

    def wait(settings, told, is_cancelled, resume):
        began.set()
        while not is_cancelled():
            time.sleep(0.01)

    jobs.register("wait", wait)
    first, second = (jobs.start("wait", "Wait", {}, "ada") for _ in range(2))
    jobs.cancel(second)
    jobs.ends.enter_context(jobs.working())
    assert began.wait(20)
    jobs.cancel(first)
    assert until(jobs, first, lambda job: job.is_over).state == "cancelled"
    assert jobs.get(second).state == "cancelled"
    with pytest.raises(LabError, match="no longer listed"):
        jobs.cancel("nobody")


def test_a_failure_is_told_in_words_and_the_next_job_is_done(jobs):
    def fail(settings, told, is_cancelled, resume):
        raise LabError("no such file; name another") if settings["known"] else ZeroDivisionError("x")

    jobs.register("fail", fail)
    jobs.ends.enter_context(jobs.working())
    known, unknown = (jobs.start("fail", "Fail", {"known": each}, "ada") for each in (True, False))
    assert until(jobs, known, lambda job: job.is_over).error == "no such file; name another"
    assert "ZeroDivisionError: x" in until(jobs, unknown, lambda job: job.is_over).error


@pytest.mark.slow
def test_a_job_of_a_killed_process_is_gone_on_with_by_one_of_two_others(jobs, tmp_path):
    file, n = tmp_path / "counted.txt", 200
    workers = []

    def start() -> None:
        command = [sys.executable, "-c", COUNTING, url_in(tmp_path)]
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
        jobs.ends.enter_context(worker)
        jobs.ends.callback(worker.kill)
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
        workers.append(worker)

    start()
    id = jobs.start("count", "Count", {"file": str(file), "n": n}, "ada")
    until(jobs, id, lambda job: job.done > 5)
    os.kill(workers[0].pid, signal.SIGKILL)
    assert workers[0].wait(20)
    start()
    start()
    job = until(jobs, id, lambda job: job.is_over)
    assert job.state == "done" and job.result["resumed"]["done"] > 5
    assert file.read_text().split() == [str(each) for each in range(n)], "nothing twice, nothing missing"


def test_a_lab_that_is_stopped_puts_its_job_back_in_line(jobs):
    began, ended = Event(), Event()

    def wait(settings, told, is_cancelled, resume):
        told(3, 9, "waiting")
        began.set()
        while resume is None and not is_cancelled():
            time.sleep(0.01)
        time.sleep(0.2)
        ended.set()
        return resume

    jobs.register("wait", wait)
    id = jobs.start("wait", "Wait", {}, "ada")
    with jobs.working():
        assert began.wait(20)
    assert ended.is_set(), "Python aborts when it ends while a thread computes"
    assert jobs.get(id).state == "waiting"
    other = Jobs(jobs._services, LEASE)
    other.register("wait", wait)
    with other.working():
        assert json.dumps(until(other, id, lambda job: job.is_over).result) == '{"done": 3, "total": 9}'
