"""A real browser for the tests here: missing, it skips them on a laptop and fails them in CI."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
TORN_DOWN = ("queue/data", "heartbeat")
"""Gradio's own streams are cut when a page is left: not an error of the page."""


PAGES = pytest.StashKey[list]()
"""The pages that a test has opened, for the report if it fails."""


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
        self.bodies: list[tuple[str, str]] = []
        page.on("request", self._asked)
        page.on("response", self._answered)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        page.on("dialog", self._dialog)
        page.on("requestfailed", self._failed)
        page.on("framenavigated", self._left)

    def story(self) -> str:
        """Return what it asked for and was told, in seconds from its opening, and its words now."""
        try:
            words = self.page.inner_text("body", timeout=2_000)
        except Exception as error:  # a page that is gone or hangs is still worth a report
            words = f"(cannot be read: {error})"
        return "\n".join([*self.events, "", words])

    def _note(self, event: str) -> None:
        self.events.append(f"{time.monotonic() - self.began:7.2f} s  {event}")

    def _asked(self, request) -> None:
        self.hosts.add(request.url.split("/")[2])
        if "/gradio_api/" in request.url:
            self._note(f"{request.method} {request.url} {(request.post_data or '')[:200]}")

    def _answered(self, response) -> None:
        if "/gradio_api/" in response.url:
            self._note(f"{response.status} {response.url}")

    def _console(self, message) -> None:
        self._note(f"console {message.type}: {message.text}")
        if message.type == "error":
            self.problems.append(f"console: {message.text}")

    def _dialog(self, dialog) -> None:
        self.problems.append(f"a script ran: {dialog.message}")
        dialog.dismiss()

    def _failed(self, request) -> None:
        self._note(f"failed: {request.url} {request.failure}")
        if not any(name in request.url for name in TORN_DOWN):
            self.problems.append(f"failed: {request.url} {request.failure}")

    def _left(self, frame) -> None:
        """Forget what leaving or reloading a page cut off; everything else stays."""
        self._note(f"at {frame.url}")
        cut = ("net::ERR_ABORTED", "AbortError", "Connection errored out")
        self.problems = [each for each in self.problems if not any(sign in each for sign in cut)]


@pytest.fixture(scope="session")
def chromium() -> Iterator[object]:
    """A browser without a window."""
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    if binary is None:
        reason = f"no browser: none of {', '.join(BROWSERS)} is installed"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}, and in CI the browser tests must run")
        pytest.skip(f"{reason}; apt install chromium, or install Chrome, to run these tests")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, request):
    """Open a page on a URL; every page opened is closed at the end.

    A page must show no console error, run no foreign script and ask no other machine.
    """
    contexts, watched = [], []
    request.node.stash[PAGES] = watched

    def opened(url: str, width: int = 1440, height: int = 900, dark: bool = False, **options):
        scheme = "dark" if dark else "light"
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        watched.append(Seen(page))
        page.goto(url)
        page.wait_for_selector("#ask-button")
        return page

    yield opened
    # Closing a page aborts what it is still asking for; that is no problem of the page.
    problems = [problem for seen in watched for problem in seen.problems]
    hosts = {host.split(":")[0] for seen in watched for host in seen.hosts}
    for context in contexts:
        context.close()
    assert problems == []
    assert hosts <= {"127.0.0.1"}


@contextmanager
def started(command: list[str], folder: Path, seconds: float = 120, **settings: str) -> Iterator[str]:
    """Start `command` with a free port as its last word; give its URL once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "ASSAY_DATABASE_URL": f"sqlite:///{folder / 'assay.db'}",
        "PYTHONPATH": str(ROOT),
        **settings,
    }
    url = f"http://127.0.0.1:{port}/"
    log = folder / "server.log"
    with (
        log.open("w") as file,
        subprocess.Popen([*command, str(port)], cwd=ROOT, env=environment, stdout=file, stderr=file) as process,
    ):
        try:
            limit = time.monotonic() + seconds
            while not _answers(url):
                if process.poll() is not None or time.monotonic() > limit:
                    pytest.fail(f"the lab did not start:\n{log.read_text()[-2000:]}")
                time.sleep(0.2)
            yield url
        finally:
            process.kill()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture(scope="session")
def scripted_lab(chromium, tmp_path_factory) -> Iterator[str]:
    """The URL of a lab whose answers are written down: see tests/browser/scripted.py."""
    folder = tmp_path_factory.mktemp("scripted")
    with started([sys.executable, "-m", "tests.browser.scripted"], folder) as url:
        yield url


LAB = "import sys, typer; from lab.commands import lab;sys.argv.insert(1, '--port'); typer.run(lab.lab)"


@pytest.fixture(scope="session")
def embedded_lab(chromium, tmp_path_factory) -> Iterator[str]:
    """The URL of `assay lab` as a visitor starts it, with the embedded chain."""
    from tests.models import embedded_cache

    folder, cache = tmp_path_factory.mktemp("embedded"), str(embedded_cache())
    with started([sys.executable, "-c", LAB], folder, ASSAY_CACHE=cache) as url:
        yield url
