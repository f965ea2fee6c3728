"""What a visitor of the lab does on every other page: opens tabs, asks, starts a pair, reads in any light."""

from pathlib import Path

from playwright.sync_api import TimeoutError as NotInTime
from playwright.sync_api import expect

QUESTION = "#ask-question textarea"
DONE = "#ask-answers .card[data-state=done]"


def script(name):
    """Return the function in a file of JavaScript beside this one."""
    return Path(__file__).with_name(f"{name}.js").read_text(encoding="utf-8")


def open_tab(page, name):
    """Open a tab; on a narrow page it may be in the menu."""
    tab = page.get_by_role("tab", name=name, exact=True)
    if tab.count() and tab.first.is_visible():
        tab.first.click()
        return
    page.locator("#tabs .overflow-menu > button").click()
    page.locator("#tabs .overflow-dropdown button", has_text=name).click()


def settle(page):
    """Wait until nothing on the page is dimmed because its next content is under way, and has not been for half a second."""
    page.wait_for_function(
        """() => new Promise((done) => {
          let since = performance.now();
          const look = () => {
            if (document.querySelector(".pending")) since = performance.now();
            performance.now() - since > 500 ? done(true) : setTimeout(look, 50);
          };
          look();
        })"""
    )


def ask(page, question):
    page.fill(QUESTION, question)
    page.click("#ask-button")
    expect(page.locator(DONE)).to_have_count(3)


EVIDENCE = (
    "<snippet id=S1>RR-1, mouse liver: OXPHOS NES -1.9, it is down in flight.</snippet>\n"
    "<snippet id=S2>RR-3 <script>alert(2)</script> kidney: no change.</snippet>"
)


def ask_with_evidence(page, question):
    if not page.locator("#ask-evidence").is_visible():
        page.click("#ask-evidence-fold > button")
    page.fill(QUESTION, question)
    page.fill("#ask-evidence textarea", EVIDENCE)
    page.click("#ask-button")
    expect(page.locator("#ask-answers .refined")).to_have_count(3)


def start_comparing(page):
    open_tab(page, "Compare")
    page.click("#compare-next")
    expect(page.locator("#vote-left")).to_be_enabled()


def press(page, selector, key="Enter"):
    """Go with the Tab key to what a selector names, see that the focus is drawn there, and press a key."""
    for _ in range(150):
        page.keyboard.press("Tab")
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            assert page.evaluate(script("outline")) >= 2, f"the focus on {selector} is not drawn"
            page.keyboard.press(key)
            return
    raise AssertionError(f"the Tab key never came to {selector}")


def choose(page, field, words, *, stays=False):
    """Choose in a list, which may be filled anew, or be moved by what comes above it, while it is open.

    A filling closes the list; with `stays` the choice is made again until it is kept.
    """
    for _ in range(10):
        page.click(field)
        page.wait_for_timeout(200)  # the list follows the page, which scrolled to the field, a moment later
        try:
            page.get_by_role("option").filter(has_text=words).first.click(timeout=3_000)
            page.wait_for_timeout(700 if stays else 0)
            if not stays or page.input_value(field):
                return
        except NotInTime:
            pass
        page.locator("h1").click()
    raise AssertionError(f"{words!r} never came into the list")


def downloaded(page, selector):
    """Click and return the text of the file that comes."""
    button = page.locator(selector)
    expect(button).to_be_visible()
    with page.expect_download() as download:
        button.click()
    return download.value.path()


def flaws(page, selectors):
    """Return what is hard to read (contrast below 4.5; 0 is missing) and by how much the page is too wide."""
    page.mouse.move(2, 2)
    for each in selectors:
        page.locator(each).first.wait_for(state="attached")
    settle(page)
    ratios = page.evaluate(script("contrast"), list(selectors))
    found = {name: round(ratio, 2) for name, ratio in ratios if ratio < 4.5}
    if (over := page.evaluate("document.documentElement.scrollWidth - window.innerWidth")) > 0:
        found["too wide"] = over
    return found
