"""The page in a real browser, its answers scripted: looks, keys, text shown as text."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

TABS = ("Ask", "Compare", "Preferences", "Leaderboard", "Calibration")


def ask(page, question):
    page.fill("#ask-question textarea", question)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#ask-answers .card[data-state=done]")).to_have_count(3, timeout=30_000)


def open_tab(page, name):
    """Open a tab; on a narrow page it may be in the menu."""
    tab = page.get_by_role("tab", name=name, exact=True)
    if tab.count() and tab.first.is_visible():
        tab.first.click()
        return
    page.locator("#tabs .overflow-menu > button").click()
    page.locator("#tabs .overflow-dropdown button", has_text=name).click()


def start_comparing(page):
    open_tab(page, "Compare")
    page.click("#compare-start")
    expect(page.locator("#vote-left")).to_be_enabled(timeout=30_000)


def test_question_and_answer_are_shown_as_text_never_run(open_page, scripted_lab):
    page = open_page(scripted_lab)

    ask(page, "What is <b onmouseover=alert(3)>HSF1</b>? <script>alert(4)</script>")

    base = page.locator(".card[data-title=Base] .answer").inner_text()
    assert base == ("alpha <script>alert('answer')</script> <img src=x onerror=alert(1)> ${alert(2)} {{x}}")
    assert page.locator("#ask-answers script, #ask-answers img, #ask-answers b").count() == 0


KEYS_AT_FIRST_SIGHT = """new MutationObserver((changes, watch) => {
  if (!document.querySelector("#ask-button")) return;
  watch.disconnect();
  window.keysWereReady = Boolean(window.assayShowPlace);
}).observe(document, { childList: true, subtree: true });"""


def test_keys_work_from_the_first_moment_that_the_page_is_there(chromium, scripted_lab):
    page = chromium.new_page()
    page.add_init_script(KEYS_AT_FIRST_SIGHT)
    # a file that is slow to come must not matter
    page.route("**/lab-assets/*.js", lambda route: (page.wait_for_timeout(500), route.continue_()))

    page.goto(scripted_lab)
    page.wait_for_selector("#ask-button")

    assert page.evaluate("window.keysWereReady")
    page.close()


def test_answers_appear_while_they_are_written(open_page, scripted_lab):
    page = open_page(scripted_lab)
    page.fill("#ask-question textarea", "What is HSF1? Say it slowly.")

    page.click("#ask-button")

    expect(page.locator(".card[data-state=writing]").first).to_be_visible()
    expect(page.locator("#ask-stop")).to_be_visible()
    expect(page.locator("#ask-button")).to_be_disabled()
    expect(page.locator("#ask-answers .card[data-state=done]")).to_have_count(3, timeout=30_000)
    expect(page.locator("#ask-button")).to_be_enabled()


def test_stop_ends_the_answers_and_keeps_what_is_there(open_page, scripted_lab):
    page = open_page(scripted_lab)
    page.fill("#ask-question textarea", "What is HSF1? Say it slowly.")
    page.click("#ask-button")
    expect(page.locator(".card[data-state=writing]").first).to_be_visible()

    page.keyboard.press("Escape")

    expect(page.locator("#ask-answers .figures", has_text="stopped").first).to_be_visible()
    expect(page.locator("#ask-button")).to_be_enabled()


def test_what_was_typed_stays_when_it_cannot_be_asked(open_page, scripted_lab):
    page = open_page(scripted_lab)
    page.fill("#ask-question textarea", "x" * 100_000)

    page.click("#ask-button")

    expect(page.locator("#ask-notice .problem")).to_contain_text("100,000 characters")
    assert len(page.input_value("#ask-question textarea")) == 100_000


def test_an_example_fills_the_box_and_its_answer_gets_a_verdict(open_page, scripted_lab):
    page = open_page(scripted_lab)
    example = page.locator(".examples button").first
    wording = example.inner_text()

    example.click()
    page.click("#ask-button")

    assert page.input_value("#ask-question textarea") == wording
    expect(page.locator("#ask-answers .badge")).to_have_count(3, timeout=30_000)
    expect(page.locator("#ask-answers .reason").first).not_to_be_empty()


def test_earlier_questions_come_back_after_a_reload_and_can_be_asked_again(open_page, scripted_lab):
    page = open_page(scripted_lab)
    ask(page, "Is this remembered?")

    page.reload()
    page.wait_for_selector("#ask-button")
    page.click("#ask-history > button")
    page.click("#ask-earlier input")
    page.get_by_role("option", name="Is this remembered?").click()

    expect(page.locator("#ask-notice")).to_contain_text("Stored answers from")
    expect(page.locator("#ask-answers .card")).to_have_count(3)
    page.click("#ask-again button, button#ask-again")
    expect(page.locator("#ask-notice .good")).to_contain_text("word for word", timeout=30_000)


def test_the_question_mark_shows_the_keys_and_escape_hides_them(open_page, scripted_lab):
    page = open_page(scripted_lab)
    page.locator("h1").click()

    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    assert "the left answer is better" in page.inner_text("#keys")

    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()


def test_everything_can_be_reached_and_seen_with_the_tab_key(open_page, scripted_lab):
    page = open_page(scripted_lab)
    page.locator("#ask-question textarea").focus()

    reached, outlines = [], []
    for _ in range(14):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.innerText"))
        outlines.append(page.evaluate("parseFloat(getComputedStyle(document.activeElement).outlineWidth) || 0"))

    assert "ask-button" in reached
    assert any("kaempferol" in str(name) for name in reached)
    assert min(outlines) >= 2, list(zip(reached, outlines, strict=True))


@pytest.mark.parametrize("name", TABS)
def test_on_a_phone_nothing_needs_sideways_scrolling(open_page, scripted_lab, name):
    page = open_page(scripted_lab, width=390, height=844)
    if name == "Ask":
        ask(page, "What is HSF1?" + "verylongword" * 30)
    elif name == "Compare":
        start_comparing(page)
    else:
        open_tab(page, name)
    page.wait_for_timeout(500)

    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_on_a_phone_the_stages_stand_under_each_other(open_page, scripted_lab):
    page = open_page(scripted_lab, width=390, height=844)
    ask(page, "What is HSF1?")

    boxes = [card.bounding_box() for card in page.locator("#ask-answers .card").all()]

    assert len({round(box["x"]) for box in boxes}) == 1
    assert boxes[0]["y"] < boxes[1]["y"] < boxes[2]["y"]


CONTRAST = """(selectors) => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = rgb(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  return selectors.map((selector) => {
    const element = document.querySelector(selector);
    if (!element) return [selector, 0];
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
    return [selector, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)];
  });
}"""
READ = [
    "h1",
    ".brand p",
    "#model-status .pill",
    "#tabs button.selected",
    ".lead",
    "#ask-question span",
    "#ask-question textarea",
    "#ask-button",
    ".card h3",
    ".card header p",
    ".card .answer",
    ".card .chip",
    ".card .figures",
    ".cards-note",
    ".examples h3",
    ".examples button",
    "#ask-history > button",
]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_its_background(open_page, scripted_lab, dark):
    page = open_page(scripted_lab, dark=dark)
    ask(page, "What is HSF1?")
    page.mouse.move(2, 2)
    page.wait_for_timeout(400)

    ratios = page.evaluate(CONTRAST, READ)

    assert [(name, round(ratio, 2)) for name, ratio in ratios if ratio < 4.5] == []


def test_the_page_follows_the_system_and_remembers_a_choice_against_it(open_page, scripted_lab):
    page = open_page(scripted_lab, dark=True)
    assert page.evaluate("document.body.classList.contains('dark')")

    page.click("#theme-toggle")
    assert not page.evaluate("document.body.classList.contains('dark')")

    page.reload()
    page.wait_for_selector("#ask-button")
    page.wait_for_timeout(500)
    assert not page.evaluate("document.body.classList.contains('dark')")


def test_the_page_uses_its_own_fonts(open_page, scripted_lab):
    page = open_page(scripted_lab)
    page.wait_for_timeout(500)

    loaded = page.evaluate("[...document.fonts].filter((font) => font.status === 'loaded').map((font) => font.family)")

    assert {name.strip('"') for name in loaded} >= {"Source Sans 3", "Source Serif 4"}


def test_two_tabs_of_one_browser_keep_their_answers_apart(open_page, scripted_lab):
    first = open_page(scripted_lab)
    second = first.context.new_page()
    second.goto(scripted_lab)
    second.wait_for_selector("#ask-button")

    first.fill("#ask-question textarea", "first tab?")
    second.fill("#ask-question textarea", "second tab?")
    first.click("#ask-button")
    second.click("#ask-button")

    for page, question in ((first, "first tab?"), (second, "second tab?")):
        expect(page.locator("#ask-answers .card[data-state=done]")).to_have_count(3, timeout=30_000)
        assert page.input_value("#ask-question textarea") == question
