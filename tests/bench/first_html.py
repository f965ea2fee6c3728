"""How long until the first HTML of our page, against a bare Gradio app (three text boxes).

Both are started as processes of their own, A B A B …; the medians are compared. Run it alone:

    python -m tests.bench.first_html
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

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 1.3
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
import sys
from lab.app import build_app, put_on_air
from lab.services import build_services
from lab.settings import from_environment
app = build_app(build_services(from_environment()))
put_on_air(app, server_port=int(sys.argv[1]), quiet=True)
app.block_thread()
"""


@dataclass(frozen=True)
class Start:
    """One start: seconds until the first byte of HTML, then milliseconds for each further page."""

    first_html_seconds: float
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
        times = []
        for _ in range(REQUESTS):
            before = time.perf_counter()
            _answers(port)
            times.append(1000 * (time.perf_counter() - before))
    finally:
        process.kill()
        process.wait()
    return Start(first, statistics.median(times))


def main() -> float:
    """Print the table and return the ratio of the medians of the first HTML."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for code in (BARE, OURS):
            measure(code, home)  # bytecode, database and disk cache are warm from here on
        pairs = [(measure(BARE, home), measure(OURS, home)) for _ in range(ROUNDS)]
    bare = statistics.median(start.first_html_seconds for start, _ in pairs)
    ours = statistics.median(start.first_html_seconds for _, start in pairs)
    table = Table("what", "bare Gradio", "the lab", "ratio", "limit", title="First HTML")
    table.add_row(
        "start to first HTML", f"{bare:.2f} s", f"{ours:.2f} s", f"{ours / bare:.2f}", f"{LIMIT}"
    )
    slow = statistics.median(start.request_milliseconds for start, _ in pairs)
    fast = statistics.median(start.request_milliseconds for _, start in pairs)
    table.add_row("one more request", f"{slow:.1f} ms", f"{fast:.1f} ms", f"{fast / slow:.2f}", "")
    Console().print(table)
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
