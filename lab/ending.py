"""How a process that a command started came to its end, and why, in the last words it said."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

KEPT = 65536
"""Bytes of what a process said that are looked through for the reason: its end, tracebacks included."""
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
RANK = re.compile(r"\[rank\d+\]:\s*")
RAISED = re.compile(
    r"(?:\w+\.)*(?:\w*(?:Error|Exception|Exhausted|Limit): .+|\w+(?:Error|Exception)(?P<later>:?))"
)
"""An exception with its message; with the message on the lines after it (`later`); or with none at all."""
LAUNCHER = re.compile(r"(?:\w+\.)*(?:CalledProcessError|ChildFailedError)\b")
"""What a launcher raises when the process below it has failed: true, and no reason."""
DIED = re.compile(r"died with <Signals\.(SIG\w+): \d+>|Signal \d+ \((SIG\w+)\) received")


@dataclass(frozen=True)
class Ending:
    """An exit code, negative for a signal, and why it is not 0 ("" where it is)."""

    code: int
    why: str = ""


def heard(
    words: Sequence[str], environment: Mapping[str, str], *, is_quiet: bool = False
) -> Ending:
    """Run a command, pass all it says on to standard error, and return how it ended.

    `is_quiet` keeps what it prints on standard output to itself. On Ctrl-C, which reaches the command
    as well, its end is waited for before KeyboardInterrupt is raised. Call it from the main thread.
    """
    with _interrupts_noted() as interrupts:
        process = subprocess.Popen(
            words,
            env={**_terminal(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if is_quiet else subprocess.PIPE,
            stderr=subprocess.PIPE if is_quiet else subprocess.STDOUT,
        )
        source = process.stderr if is_quiet else process.stdout
        assert source is not None
        said = b""
        with source:
            while chunk := os.read(source.fileno(), KEPT):
                said = (said + chunk)[-KEPT:]
                sys.stderr.buffer.write(chunk)
                sys.stderr.flush()
        code = process.wait()
    if interrupts:
        raise KeyboardInterrupt
    return Ending(code, reason(said.decode("utf-8", errors="replace"), code) if code else "")


@contextmanager
def _interrupts_noted() -> Generator[list[int]]:
    """Note each Ctrl-C instead of raising it, wherever in the block it comes."""
    noted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def reason(said: str, code: int) -> str:
    r"""Return why a process that said this ended with `code`, in one line.

    The error it told, else the exception it raised, else the signal that ended it, else the code:

    >>> reason("step 3\nerror: there is no base; get one\n", 1)
    'there is no base; get one'
    """
    lines = [line.strip() for line in re.split(r"[\r\n]+", STYLE.sub("", said))]
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    if told:
        return told[-1]
    raised = _raised(lines)
    if raised:
        return raised
    killers = [first or second for first, second in DIED.findall(said)]
    if code < 0:
        killers.append(signal.Signals(-code).name)
    if killers:
        memory = " (on most machines: memory ran out)" if killers[-1] == "SIGKILL" else ""
        return f"ended by {killers[-1]}{memory}"
    return f"ended with exit code {code} and gave no reason"


def _raised(lines: Sequence[str]) -> str:
    """Return the exception that was raised last, but for those of launchers; "" if there is none."""
    found = ""
    for place, line in enumerate(lines):
        bare = RANK.sub("", line, count=1)
        match = RAISED.fullmatch(bare)
        if not match or LAUNCHER.match(bare):
            continue
        after = (RANK.sub("", each, count=1) for each in lines[place + 1 :])
        message = next(filter(None, after), "") if match["later"] else ""
        found = f"{line} {message}".strip()
    return found


def _terminal() -> dict[str, str]:
    """Return what lets a command draw its progress as on the terminal that its words end up on."""
    if not sys.stderr.isatty():
        return {}
    return {"FORCE_COLOR": "1", "COLUMNS": str(shutil.get_terminal_size().columns)}
