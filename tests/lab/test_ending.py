"""Why a process ended: told from the last words it said."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.train.runs import heard, reason

ROOT = Path(__file__).parents[2]
ACCELERATE = "subprocess.CalledProcessError: Command '['python', '-m', 'training.sft']' "
REASONS = [
    # what our own commands tell goes before what the launcher above them raises
    (f"error: no base\nTraceback (most recent call last):\n{ACCELERATE}returned non-zero", 1, "no base"),
    ("error: first\nerror: [/x] last\n", 1, "[/x] last"),
    ("\x1b[31merror:\x1b[0m in colour\n", 1, "in colour"),
    (" 50%|###  | 1/2\rerror: after a bar\n", 1, "after a bar"),
    (f"torch.OutOfMemoryError: no room\n{ACCELERATE}returned non-zero", 1, "torch.OutOfMemoryError: no room"),
    ("[rank1]: ValueError: bad\n[rank1]:   in file", 1, "[rank1]: ValueError: bad"),
    ("Traceback (most recent call last):\n  assert held\nAssertionError\n", 1, "AssertionError"),
    ("RuntimeError: \n\n    An attempt was made\n    too early\n", 1, "RuntimeError: An attempt was made"),
    ("RuntimeError: first\nsecond\n", 1, "RuntimeError: first"),
    ("[rank0]: ValueError:\n[rank0]:   two of them\n[rank0]: more", 1, "[rank0]: ValueError: two of them"),
    ("ValueError: bad\ntorch.errors.ChildFailedError: \n=====\ntraining.sft FAILED", 1, "ValueError: bad"),
    ("ValueError: bad\n[rank1]: subprocess.CalledProcessError: it failed", 1, "ValueError: bad"),
    (f"step 3\n{ACCELERATE}died with <Signals.SIGKILL: 9>.", 1, "ended by SIGKILL (on most machines: memory ran out)"),
    ("step 3", -15, "ended by SIGTERM"),
    ("an error: in the middle of a line is no reason", 3, "ended with exit code 3 and gave no reason"),
    ("", 1, "ended with exit code 1 and gave no reason"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "code", "why"), REASONS)
def test_the_reason_is_the_error_that_was_told_else_what_was_raised_else_how_it_ended(said: str, code: int, why: str):
    assert reason(said, code) == why


def test_what_a_command_says_is_passed_on_as_it_comes_and_its_error_kept(capfd):
    program = "import sys; print('to stdout'); sys.stderr.write('error: full\\n'); sys.exit(4)"
    ending = heard([sys.executable, "-c", program], os.environ)
    assert (ending.code, ending.why) == (4, "full")
    out, err = capfd.readouterr()
    assert out == ""
    assert sorted(err.splitlines()) == ["error: full", "to stdout"]


def test_a_command_that_ends_well_has_no_reason_whatever_it_said(capfd):
    program = "import sys; print('hidden'); sys.stderr.write('error: mended\\n')"
    assert heard([sys.executable, "-c", program], os.environ, is_quiet=True).why == ""
    assert capfd.readouterr().err == "error: mended\n"


@pytest.mark.slow
def test_ctrl_c_waits_for_the_end_of_the_command_and_then_stops():
    child = (
        "import signal, sys, time\n"
        "def end(*_):\n    time.sleep(0.4); print('saved'); sys.exit(0)\n"
        "signal.signal(signal.SIGINT, end); print('ready', flush=True); time.sleep(60)"
    )
    parent = (
        "import os, sys\nfrom lab.train.runs import heard\n"
        f"try:\n    heard([sys.executable, '-c', {child!r}], os.environ)\n"
        "except KeyboardInterrupt:\n    sys.stderr.write('interrupted\\n')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr.read().splitlines() == ["saved", "interrupted"]
