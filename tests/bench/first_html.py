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
from functools import partial
from pathlib import Path

import httpx
import psutil
from rich.table import Table

from tests.bench._measure import ROOT, SMALL, in_turns, show

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


def measure(code: str, home: Path) -> tuple[float, float, float]:
    """Start `code` as a process, ask for its page until it answers, and stop it.

    Returns seconds until the first HTML, on the clock and of the processor, then milliseconds of a further page.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"HF_HOME": str(home), "ASSAY_DATABASE_URL": f"sqlite:///{home / 'bench.db'}"}
    begun = time.perf_counter()
    command = [sys.executable, "-c", code, str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=5)

    def answers() -> bool:
        try:
            page = client.get("/")
            return page.status_code == 200 and bool(page.content)
        except httpx.TransportError:
            return False

    try:
        while not answers():
            if process.poll() is not None:
                raise RuntimeError(f"the app stopped with exit code {process.returncode}")
            time.sleep(0.01)
        first = time.perf_counter() - begun
        spent = psutil.Process(process.pid).cpu_times()
        times = []
        for _ in range(REQUESTS):
            before = time.perf_counter()
            answers()
            times.append(1000 * (time.perf_counter() - before))
    finally:
        process.kill()
        process.wait()
        client.close()
    return first, spent.user + spent.system, statistics.median(times)


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        ways = {name: partial(measure, code, Path(folder)) for name, code in (("bare", BARE), ("ours", OURS))}
        for way in () if SMALL else ways.values():
            way()  # bytecode, database and disk cache are warm from here on
        found = in_turns(5, ways)
    table = Table("what", "bare Gradio", "the lab", "ratio", "limit", title="First HTML")
    told = {"start to first HTML, s": LIMIT, "the same in processor time, s": LIMIT, "one more request, ms": "5 ms"}
    for at, (what, limit) in enumerate(told.items()):
        bare, ours = (statistics.median(each[at] for each in starts) for starts in found.values())
        table.add_row(what, f"{bare:.2f}", f"{ours:.2f}", f"{ours / bare:.2f}", str(limit))
    show(table)
