"""How long until the first HTML of our page, against a bare Gradio app (three text boxes), and from there to usable tabs.

Both are processes of their own that take turns; medians are compared, of the time on the clock and of the processor
time, which a busy machine disturbs less. Ours is what `assay lab` does, up to the moment when it would load the model;
its page counts once it holds what Home says. A tab is usable when a click in Chromium opens it, counted from the first byte of HTML.
"""

import os
import shutil
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

from tests.bench._measure import ROOT, SMALL, in_turns, show, spread
from tests.browser.conftest import BROWSERS, FLAGS, free_port

LIMIT, LIMIT_TABS = 1.15, 1.0
REQUESTS = 20
BARE = """
import sys
import gradio as gr
with gr.Blocks() as demo:
    for name in ("a", "b", "c"):
        with gr.Tab(name):
            gr.Textbox(label=name)
demo.launch(server_port=int(sys.argv[1]), quiet=True, ssr_mode=False)
"""
OURS = """
import sys, threading
from lab.commands.lab import open_lab
from lab.settings import from_environment
open_lab(from_environment(), threading.Event().wait, server_port=int(sys.argv[1]), quiet=True)
"""
CLICKED = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
"""Opens the second tab as soon as a click does, and keeps when that was."""


def requests_of(client: httpx.Client) -> float:
    """Return the milliseconds of one more page, the median of some."""
    times = []
    for _ in range(REQUESTS):
        before = time.perf_counter()
        client.get("/").raise_for_status()
        times.append(1000 * (time.perf_counter() - before))
    return statistics.median(times)


def usable_tabs(browser: object, url: str) -> float:
    """Return the seconds from the first byte of HTML until a click opens a tab."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})  # ty: ignore
    page = context.new_page()
    page.add_init_script(CLICKED)
    page.goto(url)
    page.wait_for_function("window.usable", timeout=60_000)
    milliseconds = page.evaluate("window.usable - performance.getEntriesByType('navigation')[0].responseStart")
    context.close()
    return milliseconds / 1000


def measure(code: str, home: Path, browser: object, sign: str) -> list[float]:
    """Start `code` as a process, ask for its page until that holds `sign`, and stop it.

    Returns seconds until the first HTML, on the clock and of the processor, milliseconds of one more page, and
    seconds until tabs are usable, 0 without a browser.
    """
    port = free_port()
    surroundings = {
        "HF_HOME": home,
        "ASSAY_DATABASE_URL": f"sqlite:///{home / 'bench.db'}",
        "PYTHONPYCACHEPREFIX": home,
    }
    environment = {**os.environ, **{name: str(each) for name, each in surroundings.items()}}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # who has started the lab once has its bytecode
    begun = time.perf_counter()
    command = [sys.executable, "-c", code, port]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)

    def answers(sign: str) -> bool:
        try:
            return sign in client.get("/").raise_for_status().text
        except httpx.TransportError:
            return False

    def wait(sign: str) -> None:
        while not answers(sign):
            if process.poll() is not None:
                raise RuntimeError(f"the app stopped with exit code {process.returncode}")
            time.sleep(0.01)

    try:
        wait("gradio_config")
        first, spent = time.perf_counter() - begun, psutil.Process(process.pid).cpu_times()
        wait(sign)
        held = time.perf_counter() - begun
        again = requests_of(client)
        usable = usable_tabs(browser, str(client.base_url)) if browser else 0.0
    finally:
        process.kill()
        process.wait()
        client.close()
    return [first, spent.user + spent.system, held, again, usable]


def main() -> None:
    """Print the table."""
    from playwright.sync_api import sync_playwright

    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=FLAGS) if binary else None
        signs = {"bare": (BARE, "gradio_config"), "ours": (OURS, "Ratings and annotations")}
        ways = {name: partial(measure, code, Path(folder), browser, sign) for name, (code, sign) in signs.items()}
        for way in () if SMALL else ways.values():
            way()  # bytecode, database and disk cache are warm from here on
        bare, ours = (list(zip(*found, strict=True)) for found in in_turns(5, ways).values())
    table = Table("what", "bare Gradio", "the lab", "ratio", "limit", title="First HTML")
    told = {
        "start to first HTML, s": str(LIMIT),
        "the same in processor time, s": str(LIMIT),
        "start to a page that holds what Home says, s": "",
        "one more page, ms": "",
        "first HTML to usable tabs, s": f"{LIMIT_TABS} s",
    }
    for (what, limit), one, other in zip(told.items(), bare, ours, strict=True):
        ratio = statistics.median(other) / (statistics.median(one) or 1)
        table.add_row(what, spread([*one]), spread([*other]), f"{ratio:.2f}", limit)
    show(table)
