"""Files that pack more than they show (PDF, Office, Parquet) are read in a process of their own, under limits.

A reader of them is C or Rust and takes what it needs: only the system can stop it. Its limits are computing time,
memory and the size of what it gives back. Where a system knows none of them (Windows), the size alone counts.
"""

import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from evals.errors import LabError

try:
    import resource
except ImportError:  # not on Windows
    resource = None

SECONDS, SECONDS_IN_ALL = 60, 600
"""Of computing, between two things that are given back (a page, some rows), and for a file."""
MEMORY, MOST_READ = 4 * 2**30, 10**9
"""Bytes of its address space, and of what it gives back."""
AT_ONCE = threading.BoundedSemaphore(2)
START = "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from evals.worker import main; main()"
Send = Callable[[object], None]


def read_apart(
    read: Callable[..., None], *given: object, what: Callable[[], str], error: type[LabError]
) -> Iterator[Any]:
    """Yield what `read(send, *given)`, a function of a module, sends from a process of its own.

    Its LabErrors are raised here; `error` where it came to a limit, which `what()` then places: "page 3 of a.pdf".
    """
    command = [sys.executable, "-P", "-c", START]
    with AT_ONCE, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        try:
            with suppress(BrokenPipeError), process.stdin:
                pickle.dump(sys.path, process.stdin)
                pickle.dump((read, given, SECONDS, MEMORY), process.stdin)
            left = MOST_READ
            while (left := left - (size := int.from_bytes(process.stdout.read(8)))) > 0 and size:
                kind, value = pickle.loads(process.stdout.read(size))
                if kind == "sent":
                    yield value
                elif kind == "raised":
                    raise value
                else:
                    return
            code = process.wait() if left > 0 else 0
        finally:
            process.kill()
    if left <= 0:
        problem = f"unpacks to more than {MOST_READ / 10**9:g} GB"
    elif resource is not None and code in (-9, -24):  # SIGKILL, SIGXCPU
        problem = f"takes more than {SECONDS} seconds to read, or its file more than {SECONDS_IN_ALL}"
    else:
        problem = f"needs more than {MEMORY / 2**30:g} GB of memory to be read, or is broken"
    raise error(f"{what()} {problem}. Give a smaller file, in parts, or save it again with another program.")


def main() -> None:
    """Run what stands on the standard input; what it sends goes to the standard output."""
    read, given, seconds, memory = pickle.load(sys.stdin.buffer)
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)

        def give(kind: str, value: object = None) -> None:
            data = pickle.dumps((kind, value))
            out.write(len(data).to_bytes(8) + data)
            out.flush()

        def send(value: object) -> None:
            give("sent", value)
            _allow(seconds)

        if resource is not None:
            with suppress(ValueError):  # macOS knows none
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        _allow(seconds)
        try:
            read(send, *given)
        except LabError as error:
            give("raised", error)
        except MemoryError:
            os._exit(1)
        except Exception:
            give("raised", RuntimeError(traceback.format_exc()))
        else:
            give("done")


def _allow(seconds: int) -> None:
    if resource is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        until = int(used.ru_utime + used.ru_stime) + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (min(until, SECONDS_IN_ALL), SECONDS_IN_ALL))
