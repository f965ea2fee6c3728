"""Ask and Compare: what a visitor asks, is shown, votes on blind and exports."""

import json
import sys
import zipfile

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import started
from tests.browser.pages import DONE, QUESTION, ask, choose, downloaded, open_tab, start_comparing

STAGES = ("base", "sft", "grpo")


def test_a_question_is_answered_judged_stopped_shown_as_text_and_found_again(open_page, scripted_lab):
    page = open_page(scripted_lab)
    spoken = page.locator("body > .assay-hidden[role=status]")
    expect(spoken).to_be_empty()
    example = page.locator(".examples button").first
    wording = example.inner_text()
    example.click()
    page.click("#ask-button")
    assert page.input_value(QUESTION) == wording
    expect(page.locator("#ask-answers .badge")).to_have_count(3)
    expect(page.locator("#ask-answers .reason").first).not_to_be_empty()
    expect(spoken.locator("p")).to_have_count(3)
    for title in page.locator("#ask-answers .card h3").all_text_contents():
        expect(spoken).to_contain_text(title)

    page.fill(QUESTION, "What is HSF1? Say it slowly.")
    page.click("#ask-button")
    expect(page.locator(".card[data-state=writing]").first).to_be_visible()
    expect(page.locator("#ask-stop")).to_be_visible()
    expect(page.locator("#ask-button")).to_be_disabled()
    page.click("#ask-history > button")
    expect(
        page.locator("#ask-earlier input")
    ).to_be_disabled()  # or what is being written would be painted over a choice
    page.keyboard.press("Escape")
    expect(page.locator("#ask-answers .figures", has_text="stopped").first).to_be_visible()
    expect(page.locator("#ask-button")).to_be_enabled()
    choose(page, "#ask-earlier input", "Say it slowly", stays=True)  # it is listed once the list can be used
    expect(page.locator("#ask-notice")).to_contain_text("Stored answers from")
    page.fill(QUESTION, "x" * 100_000)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#ask-notice .problem")).to_contain_text("100,000 characters")
    assert len(page.input_value(QUESTION)) == 100_000, "what cannot be asked stays"

    ask(page, "Is <b onmouseover=alert(3)>this</b> remembered? <script>alert(4)</script>")
    base = "alpha <script>alert('answer')</script> <img src=x onerror=alert(1)> ${alert(2)} {{x}}"
    expect(page.locator(".card[data-title=Base] .answer")).to_have_text(base)
    expect(page.locator(DONE)).to_have_count(3)
    assert page.locator("#ask-answers script, #ask-answers img, #ask-answers b").count() == 0
    thumb = page.locator("#ask-answers .card:last-child [data-do=up]")
    thumb.click()
    expect(thumb).to_have_attribute("aria-pressed", "true")
    page.locator("#ask-rate button").first.click()
    expect(page.locator("#rate-thumb input").first).to_be_checked()
    thumb.click()  # on the card again: the panel, which saves all that it shows, must not bring it back
    expect(page.locator("#rate-thumb input").first).not_to_be_checked()
    page.locator("#rate-panel").get_by_text("Bad", exact=True).click()
    page.locator("#rate-submit").click()
    expect(page.locator("#rate-notice")).to_contain_text("Submitted.")

    page.wait_for_url("**answer=*")
    held, is_held = [], [True]  # or the question of the link comes between two letters
    page.route("**/gradio_api/queue/join*", lambda route: held.append(route) if is_held else route.continue_())
    page.reload()
    page.wait_for_selector("#ask-button")
    page.fill(QUESTION, "typed while the answers of the link come")
    page.click("#ask-history > button")  # before the page has said who is at it
    expect(page.locator("#ask-history")).not_to_contain_text("No questions from this browser yet")
    is_held.clear()
    while held:
        held.pop().continue_()
    expect(page.locator("#ask-answers .card")).to_have_count(3)
    assert page.input_value(QUESTION) == "typed while the answers of the link come"
    choose(page, "#ask-earlier input", "remembered?", stays=True)
    expect(page.locator("#ask-notice")).to_contain_text("Stored answers from")
    expect(page.locator("#ask-answers .card")).to_have_count(3)
    expect(page.locator("#ask-answers .card:last-child [data-do=down]")).to_have_attribute("aria-pressed", "true")

    expect(page.locator(QUESTION)).not_to_have_value("typed while the answers of the link come")
    chosen = page.input_value(QUESTION)
    for key, stands in (
        ("Tab", "typed over the chosen one"),
        ("Enter", chosen),
    ):  # left alone; the same one chosen again
        page.fill(QUESTION, "typed over the chosen one")
        page.locator("#ask-earlier input").press(key)
        page.wait_for_timeout(700)
        expect(page.locator(QUESTION)).to_have_value(stands)


@pytest.mark.slow  # without a browser: tests/lab/test_ask_tab.py, tests/lab/test_questions.py
def test_a_question_asked_while_a_batch_runs_goes_first_and_its_answer_outlives_a_reload(open_page, tmp_path):
    (tmp_path / "slow.csv").write_text(
        "id,prompt,kind,value,options,unit,tolerance,group,split\n"
        + "".join(
            f"{n},What is {n}? Say it slowly.,number,{n},,g,1%,{n},{'test' if n else 'dev'}\n" for n in range(901)
        ),
        encoding="utf-8",
    )
    command, runs = [sys.executable, "-m", "tests.browser.scripted"], {"ASSAY_REPORTS": str(tmp_path / "reports")}
    with started(command, tmp_path, **runs) as url:
        page = open_page(f"{url}?tab=data", ready="#questions-set")
        with page.expect_file_chooser() as chooser:
            page.click("#questions-file")
        chooser.value.set_files(tmp_path / "slow.csv")
        expect(page.locator("#questions-told")).to_contain_text("Slow holds 901 questions")
        page.click("#questions-freeze")
        expect(page.locator("#questions-told")).to_contain_text("Slow v1 is frozen")
        page.click("#batch-ask")
        expect(page.locator("#batch-table")).to_contain_text("of 900")

        page = open_page(url)
        page.fill(QUESTION, "Say it patiently, then slowly.")
        page.click("#ask-button")
        waiting = page.locator("#ask-answers .card[data-state=waiting]").first
        expect(waiting).to_contain_text("A batch is using the model")
        expect(waiting).to_contain_text("of 900 questions answered")
        page.wait_for_url("**answer=*")
        page.reload()
        expect(page.locator("#ask-stop")).to_be_visible()
        expect(page.locator(QUESTION)).to_have_value("Say it patiently, then slowly.")
        expect(page.locator(DONE)).to_have_count(3)
        expect(page.locator("#ask-answers .figures").first).to_contain_text("waited")
        expect(page.locator("#ask-answers .figures").first).not_to_contain_text("stopped")
        open_tab(page, "Home")
        expect(page.locator("#home-work")).to_contain_text("of 900 questions answered, about")


@pytest.mark.slow  # without a browser: tests/lab/test_compare_tab.py
def test_votes_are_blind_cast_with_keys_taken_back_and_go_on_after_a_reload(open_page, scripted_lab):
    page = open_page(scripted_lab)
    bodies = []
    page.on("response", lambda reply: bodies.append(reply) if "queue" in reply.url else None)
    start_comparing(page)
    told = " ".join(reply.text() for reply in bodies if "join" in reply.url).lower()
    shown = page.locator("#tabs").inner_html().lower()
    pair = shown[shown.index('id="compare-question"') : shown.index('id="compare-guidelines"')]
    assert [name for name in STAGES if name in told] == [], "the browser is not told who wrote what"
    assert [name for name in STAGES if f'"{name}"' in pair or f">{name}<" in pair] == []

    page.click("#compare-own > button")
    page.locator("#compare-own-question textarea").press_sequentially("a bat? ns")
    page.wait_for_timeout(500)
    assert "stored" not in page.inner_text("#compare-notice"), "keys do not vote while a question is typed"
    assert not page.locator("#keys").is_visible()
    page.locator("h1").click()

    for key, words in (("a", "left is better"), ("b", "right is better"), ("t", "tie"), ("n", "both are bad")):
        before = page.inner_text("#compare-question blockquote")
        page.keyboard.press(key)
        expect(page.locator("#compare-notice")).to_contain_text(words)
        expect(page.locator("#compare-question")).to_contain_text(before)  # the names are told where the pair stands
        expect(page.locator("#compare-why")).to_be_visible(visible=key in "ab")
        top = page.evaluate(
            "['question', 'next'].map((each) => document.getElementById(`compare-${each}`).getBoundingClientRect())"
        )
        assert all(each["top"] >= 0 and each["bottom"] <= 900 for each in top), "nothing to scroll"
        if key == "a":
            page.keyboard.press("2")
            page.keyboard.press("3")
            expect(page.locator("#compare-why :checked")).to_have_count(2)
            expect(page.locator("#compare-why-kept")).to_contain_text("Saved with your vote")
        page.keyboard.press("Enter")
        expect(page.locator("#compare-question")).not_to_have_text(before)
        expect(page.locator("#vote-left")).to_be_enabled()
        expect(page.locator("#compare-why")).to_be_hidden()

    page.keyboard.press("b")
    expect(page.locator("#compare-next")).to_have_text("Next pair (Enter)")
    before = page.inner_text("#compare-question blockquote")
    page.keyboard.press("u")
    expect(page.locator("#compare-notice .notice.good")).to_contain_text("undone")
    expect(page.locator("#compare-question")).not_to_have_text(before)
    expect(page.locator("#compare-undo")).not_to_be_visible()
    expect(page.locator("#compare-answers .card[data-state=done]")).to_have_count(2)
    expect(page.locator("#vote-left")).to_be_enabled()

    shown = page.inner_text("#compare-question blockquote"), page.locator("#compare-answers .card").all_inner_texts()
    page.reload()
    expect(page.locator("#compare-answers .card[data-state=done]")).to_have_count(2)
    expect(page.locator("#vote-left")).to_be_enabled()
    assert (
        page.inner_text("#compare-question blockquote"),
        page.locator("#compare-answers .card").all_inner_texts(),
    ) == shown
    page.click("#vote-left")
    expect(page.locator("#compare-notice")).to_contain_text("is stored")
    page.click("#compare-own > button")
    page.fill("#compare-own-question textarea", "Does it go slowly up in the liver?")
    page.click("#compare-own-button")
    expect(page.locator("#compare-answers .card[data-state=writing]").first).to_be_visible()
    page.reload()
    expect(page.locator("#vote-left")).to_be_enabled()
    expect(page.locator("#compare-question")).to_contain_text("Does it go slowly up")

    rows = exported(page)
    assert {row["choice"] for row in rows} == {"left", "right"}
    said = {(row["choice"], row["strength"], *row["reasons"]) for row in rows}
    assert said >= {("left", "clear", "fact"), ("right", None)}


def exported(page):
    """Export the votes as DPO rows and return them."""
    page.goto(f"{page.url.partition('?')[0]}?tab=data")
    page.click("#data-said-make")
    with zipfile.ZipFile(downloaded(page, "#data-said-download")) as archive:
        name = next(name for name in archive.namelist() if name.endswith("train.jsonl"))
        return [json.loads(line) for line in archive.read(name).decode().splitlines()]


@pytest.mark.slow
def test_skip_and_undo_act_while_a_pair_is_being_written(open_page, scripted_lab):
    page = open_page(scripted_lab)
    start_comparing(page)
    page.click("#vote-left")
    expect(page.locator("#compare-notice")).to_contain_text("is stored")
    page.click("#compare-own > button")
    for button, says in (("#compare-undo", "undone"), ("#compare-next", "Which answer is better?")):
        page.fill("#compare-own-question textarea", "Does it go patiently, then slowly, up in the liver?")
        page.click("#compare-own-button")
        expect(page.locator("#compare-question")).to_contain_text("patiently")
        page.click(button)
        expect(page.locator("#compare-question")).not_to_contain_text("patiently")
        expect(page.locator("#compare-notice")).to_contain_text(says)
        expect(page.locator("#vote-left")).to_be_enabled()
    expect(page.locator("#compare-undo")).not_to_be_visible()
