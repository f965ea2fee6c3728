"""A real browser for the tests here: missing, it skips them on a laptop and fails them in CI."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
TORN_DOWN = ("queue/data", "heartbeat", "favicon", "upload_progress")
"""Gradio's own streams, and the icon that a new address fetches again, are cut when a page is left: no error of the page."""
CUT = (
    "net::ERR_ABORTED",
    "AbortError",
    "Connection errored out",
    "Unexpected error 404",
    "network error",
    "ERR_INCOMPLETE",
)
PATIENCE = 60_000
"""Milliseconds that a page on a busy machine may take for one step."""
PAGES = pytest.StashKey[list]()
"""The pages that a test has opened, for the report if it fails."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    """Show beside the failure of a test what its pages showed and did: nobody can look at them later."""
    report = yield
    if report.when == "call" and report.failed:
        for seen in item.stash.get(PAGES, []):
            report.sections.append((f"the page {seen.page.url}", seen.story()))
    return report


class Seen:
    """What one page did that a visitor does not see: requests, console errors, dialogs."""

    def __init__(self, page) -> None:
        self.page = page
        self.began = time.monotonic()
        self.events: list[str] = []
        self.hosts: set[str] = set()
        self.problems: list[str] = []
        page.on("request", self._asked)
        page.on("response", lambda reply: "/gradio_api/" in reply.url and self._note(f"{reply.status} {reply.url}"))
        page.on("console", lambda said: self._note(f"console: {said.text}", problem=said.type == "error"))
        page.on("pageerror", lambda error: self._note(f"page error: {error}", problem=True))
        page.on("dialog", self._dialog)
        page.on("requestfailed", self._failed)
        page.on("framenavigated", self._left)

    def story(self) -> str:
        """Return what it last asked for and was told, in seconds from its opening, and its words now."""
        try:
            words = self.page.inner_text("body", timeout=2_000)
        except Exception as error:  # a page that is gone or hangs is still worth a report
            words = f"(cannot be read: {error})"
        return "\n".join([*self.events[-40:], "", words])

    def _note(self, event: str, *, problem: bool = False) -> None:
        self.events.append(f"{time.monotonic() - self.began:7.2f} s  {event}")
        if problem:
            self.problems.append(event)

    def _asked(self, request) -> None:
        self.hosts.add(request.url.split("/")[2].split(":")[0])
        if "/gradio_api/" in request.url:
            self._note(f"{request.method} {request.url} {(request.post_data or '')[:200]}")

    def _dialog(self, dialog) -> None:
        self._note(f"a script ran: {dialog.message}", problem=True)
        dialog.dismiss()

    def _failed(self, request) -> None:
        problem = not any(name in request.url for name in TORN_DOWN)
        self._note(f"failed: {request.url} {request.failure}", problem=problem)

    def _left(self, frame) -> None:
        """Forget what leaving or reloading a page cut off; everything else stays."""
        self._note(f"at {frame.url}")
        self.problems = [each for each in self.problems if not any(sign in each for sign in CUT)]


@pytest.fixture(scope="session")
def chromium() -> Iterator[object]:
    """A browser without a window."""
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    if binary is None:
        reason = f"no browser: none of {', '.join(BROWSERS)} is installed"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}, and in CI the browser tests must run")
        pytest.skip(f"{reason}; apt install chromium, or install Chrome, to run these tests")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, request):
    """Open a page on a URL and wait for `ready`; every page opened is closed at the end. A lab opens on Ask.

    A page must show no console error, run no foreign script and ask no other machine.
    """
    contexts, watched = [], []
    request.node.stash[PAGES] = watched

    def opened(url: str, width: int = 1440, height: int = 900, *, dark: bool = False, ready: str = "#ask-button"):
        scheme = "dark" if dark else "light"
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        watched.append(Seen(page))
        page.goto(f"{url}?tab=ask" if ready == "#ask-button" and "?" not in url else url)
        page.wait_for_selector(ready)
        return page

    yield opened
    # Closing a page aborts what it is still asking for; that is no problem of the page.
    problems = [problem for seen in watched for problem in seen.problems]
    hosts = {host for seen in watched for host in seen.hosts}
    stories = "\n".join([*problems, *(seen.story() for seen in watched)]) if problems else ""
    for context in contexts:
        context.close()
    assert problems == [], stories
    assert hosts <= {"127.0.0.1", ""}


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@contextmanager
def started(
    command: list[str], folder: Path, cwd: Path = ROOT, port: str = "", patience: float = 240, **settings: str
) -> Iterator[str]:
    """Start `command` with a port as its last word, a free one if none is given; give its URL once it answers."""
    port = port or free_port()
    own = {} if cwd != ROOT else os.environ | {"PYTHONPATH": str(ROOT)}
    database = {"ASSAY_DATABASE_URL": f"sqlite:///{folder / 'assay.db'}"}
    environment = {**own, **database, "GRADIO_SERVER_PORT": port, **settings}
    url = f"http://127.0.0.1:{port}/"
    log = folder / "server.log"
    with (
        log.open("w") as file,
        subprocess.Popen([*command, port], cwd=cwd, env=environment, stdout=file, stderr=file) as process,
    ):
        try:
            limit = time.monotonic() + patience
            while not _answers(url):
                if process.poll() is not None or time.monotonic() > limit:
                    pytest.fail(f"the lab did not start:\n{log.read_text()[-3000:]}")
                time.sleep(0.2)
            yield url
        finally:
            process.kill()


def end_runs(folder: Path) -> None:
    """End what a lab has started to train in a folder of runs."""
    for launch in folder.glob("*.lab/launch.json"):
        with suppress(ProcessLookupError):
            os.killpg(json.loads(launch.read_text())["pid"], signal.SIGKILL)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="session")
def scripted_lab(chromium, tmp_path_factory) -> Iterator[str]:
    """The URL of a lab whose answers are written down (tests/browser/scripted.py); its visitors may only watch runs.

    The runs are the GRPO stages of the embedded chain and of the refiner, whose prompts hold passages.
    """
    embedded = ROOT / "training" / "embedded"
    runs = os.pathsep.join(map(str, (embedded / "grpo", embedded / "refiner" / "grpo")))
    command = [sys.executable, "-m", "tests.browser.scripted"]
    folder = tmp_path_factory.mktemp("scripted")
    with started(command, folder, ASSAY_RUNS=runs, ASSAY_ALLOW_TRAINING="0") as url:
        yield url
