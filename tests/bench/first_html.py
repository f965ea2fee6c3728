"""How long until the first HTML of our page, against a bare Gradio app (three text boxes).

Both are processes of their own that take turns; medians are compared, of the time on the clock and of the
processor time, which a busy machine disturbs less. Ours is what `assay lab` does, up to the moment when it
would load the model. It starts with the garbage collector off, as `assay lab` does and a bare app does not.
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from rich.table import Table

from tests.bench._measure import ROOT, rounds, show

LIMIT = 1.15
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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"HF_HOME": str(home), "ASSAY_DATABASE_URL": f"sqlite:///{home / 'bench.db'}"}
    begun = time.perf_counter()
    command = [sys.executable, "-c", code, str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=5)
    try:
        while not _answers(client):
            if process.poll() is not None:
                raise RuntimeError(f"the app stopped with exit code {process.returncode}")
            time.sleep(0.01)
        first = time.perf_counter() - begun
        spent = psutil.Process(process.pid).cpu_times()
        times = []
        for _ in range(REQUESTS):
            before = time.perf_counter()
            _answers(client)
            times.append(1000 * (time.perf_counter() - before))
    finally:
        process.kill()
        process.wait()
        client.close()
    return Start(first, spent.user + spent.system, statistics.median(times))


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for code in (BARE, OURS):
            measure(code, home)  # bytecode, database and disk cache are warm from here on
        pairs = [(measure(BARE, home), measure(OURS, home)) for _ in range(rounds(5))]
    table = Table("what", "bare Gradio", "the lab", "ratio", "limit", title="First HTML")
    for what, name, limit in (
        ("start to first HTML, s", "first_html_seconds", f"{LIMIT}"),
        ("the same in processor time, s", "processor_seconds", f"{LIMIT}"),
        ("one more request, ms", "request_milliseconds", "5 ms"),
    ):
        bare, ours = (statistics.median(getattr(start, name) for start in side) for side in zip(*pairs, strict=True))
        table.add_row(what, f"{bare:.2f}", f"{ours:.2f}", f"{ours / bare:.2f}", limit)
    show(table)


def _answers(client: httpx.Client) -> bool:
    try:
        page = client.get("/")
        return page.status_code == 200 and bool(page.content)
    except httpx.TransportError:
        return False
