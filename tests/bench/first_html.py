"""How long until the first HTML of our page, against a bare Gradio app (three text boxes).

Both are started as processes of their own, A B A B …; the medians are compared, of the time on the
clock and of the processor time, which a busy machine disturbs less. Ours is what `assay lab` does, up to
the moment when it would load the model. It starts with the garbage collector off, as `assay lab` does
and a bare app does not. Run it alone:

    python -m tests.bench first_html
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 1.15
REQUEST_LIMIT_MILLISECONDS = 5.0
ROUNDS = 5
REQUESTS = 20

BARE = """
import sys
import gradio as gr
with gr.Blocks() as demo:
    for name in ("a", "b", "c"):
        gr.Textbox(label=name)
demo.launch(server_port=int(sys.argv[1]), quiet=True, ssr_mode=False)
"""
OURS = """
import sys, threading
from lab.commands.lab import open_lab
from lab.settings import from_environment
open_lab(from_environment(), threading.Event().wait, server_port=int(sys.argv[1]), quiet=True)
"""


@dataclass(frozen=True)
class Start:
    """One start: seconds until the first HTML, on the clock and of the processor, then each further page."""

    first_html_seconds: float
    processor_seconds: float
    request_milliseconds: float


def measure(code: str, home: Path) -> Start:
    """Start `code` as a process, ask for its page until it answers, and stop it."""
    port = _free_port()
    environment = os.environ | {
        "GRADIO_ANALYTICS_ENABLED": "False",
        "HF_HOME": str(home),
        "ASSAY_DATABASE_URL": f"sqlite:///{home / 'bench.db'}",
    }
    begun = time.perf_counter()
    command = [sys.executable, "-c", code, str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        while not _answers(port):
            if process.poll() is not None:
                raise RuntimeError(f"the app stopped with exit code {process.returncode}")
            time.sleep(0.01)
        first = time.perf_counter() - begun
        spent = psutil.Process(process.pid).cpu_times()
        times = []
        for _ in range(REQUESTS):
            before = time.perf_counter()
            _answers(port)
            times.append(1000 * (time.perf_counter() - before))
    finally:
        process.kill()
        process.wait()
    return Start(first, spent.user + spent.system, statistics.median(times))


def main() -> float:
    """Print the table and return the ratio of the medians on the clock."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for code in (BARE, OURS):
            measure(code, home)  # bytecode, database and disk cache are warm from here on
        pairs = [(measure(BARE, home), measure(OURS, home)) for _ in range(ROUNDS)]
    table = Table("what", "bare Gradio", "the lab", "ratio", "limit", title="First HTML")
    ratio = _row(table, "start to first HTML, s", pairs, "first_html_seconds", f"{LIMIT}")
    _row(table, "the same in processor time, s", pairs, "processor_seconds", f"{LIMIT}")
    limit = f"{REQUEST_LIMIT_MILLISECONDS} ms"
    _row(table, "one more request, ms", pairs, "request_milliseconds", limit)
    Console().print(table)
    return ratio


def _row(table: Table, what: str, pairs: list[tuple[Start, Start]], name: str, limit: str) -> float:
    """Add a line of medians to the table and return their ratio."""
    bare, ours = (statistics.median(getattr(start, name) for start in side) for side in zip(*pairs, strict=True))
    table.add_row(what, f"{bare:.2f}", f"{ours:.2f}", f"{ours / bare:.2f}", limit)
    return ours / bare


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as page:
            return page.status == 200 and bool(page.read())
    except (urllib.error.URLError, ConnectionError):
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
