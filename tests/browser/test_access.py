"""The page for people who see, hear and move otherwise: axe-core's rules on every tab, and the keyboard alone."""

import subprocess
import tarfile

import pytest
from playwright.sync_api import expect

from tests.browser.pages import open_tab
from tests.browser.test_looks import SEE

AXE = "axe-core@4.14.1"
RUN = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .filter(({ impact }) => ["serious", "critical"].includes(impact))
  .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 160)}`))"""


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("axe")
    packed = subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, capture_output=True, text=True, check=True)
    with tarfile.open(folder / packed.stdout.strip()) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious_on_any_tab(open_page, scripted_lab, tmp_path, axe, dark):
    page = open_page(scripted_lab, dark=dark)
    page.evaluate(axe)
    found = {}
    for name, see in {**SEE, "Annotate": None}.items():
        open_tab(page, name)
        if see:
            see(page, tmp_path)
        page.wait_for_timeout(500)
        found[name] = page.evaluate(RUN)
    assert {name: each for name, each in found.items() if each} == {}


def test_arrow_keys_go_from_tab_to_tab_and_only_the_open_one_is_a_stop(open_page, scripted_lab):
    page = open_page(scripted_lab)
    page.get_by_role("tab", name="Ask", exact=True).focus()
    for key, name in [("ArrowRight", "Compare"), ("ArrowRight", "Annotate"), ("ArrowLeft", "Compare"), ("Home", "Ask")]:
        page.keyboard.press(key)
        tab = page.get_by_role("tab", name=name, exact=True)
        expect(tab).to_be_focused()
        expect(tab).to_have_attribute("aria-selected", "true")
    expect(page.locator("#tabs [role=tab]:visible:not([tabindex='-1'])")).to_have_count(1)
