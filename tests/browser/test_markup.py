"""Markup typed into every field and given as every file's name: it is shown as what it is, and nothing of it runs."""

import json
import os
import shutil
import sys

import pytest
from playwright.sync_api import Error
from pyarrow import Table
from pyarrow.parquet import read_table, write_table

from lab.settings import Person, hash_password, write_people
from tests.browser.conftest import ROOT, started
from tests.browser.pages import open_tab
from tests.browser.test_looks import SEE
from tests.evals.pdfs import LEFT, column, pdf
from tests.lab.reviewers import PAPER

MARK = "<img src=x onerror=alert(1)>"
NAME = f"{MARK}\"><svg onload=alert(3)>'"
"""May be a file's name, and a person's."""
ATTACK = (
    f"{NAME} <script>alert(2)</script> ' onmouseover=alert(4) x='"
    ' [a](javascript:alert(5)) ![b](https://evil.example/b.png) ![b][c] <a href="javascript:alert(6)">d</a>'
    ' <iframe srcdoc="<script>alert(7)</script>"></iframe> $$\\href{javascript:alert(8)}{e}$$ ${alert(9)} {{f}}'
    f" \u202e\u2066txet {'verylongword' * 30}\n\n[c]: https://evil.example/c.png"
)
RAN = """() => [...document.querySelectorAll(
    "img[src='x'], img[src*='evil'], svg[onload], [onerror], [onmouseover], iframe, .katex, a[href^='javascript' i], script"
  )].filter((each) => each.localName !== "script" || /^\\s*alert/.test(each.textContent)).map((each) => each.outerHTML)"""
FIELDS = "textarea, input:is(:not([type]), [type=text]):not([role=listbox])"
TITLE = json.dumps(f"Fact {MARK}: {ATTACK.splitlines()[0]}")
TYPED = {"annotate-rubric-text": f'[[dimensions]]\nname = "fact"\ntitle = {TITLE}\nguideline = {TITLE}'}
"""What a field gets that takes no other."""
LEFT_ALONE = ("train-begin", "train-stop", "publish-go")
"""Buttons that start long work."""


def files_in(folder):
    """Write a file of each kind under the name, with the attack in each of its fields; return them by suffix."""
    row = {"id": MARK, "prompt": ATTACK, "kind": "choice", "value": MARK, "options": f"{MARK}|b", "group": ATTACK}
    cells = [f'"{each.replace(chr(34), chr(34) * 2)}"' for each in row.values()]
    bad = ["x", '"<b>"', "number", '"<u>"', "", ""]
    jats = (ROOT / "tests/evals/files/papers/sleep.xml").read_text(encoding="utf-8")
    title = ATTACK.replace("&", "&amp;").replace("<", "&lt;")
    texts = {
        ".csv": "\n".join(map(",".join, ([*row], cells, bad))),
        ".jsonl": "\n".join(
            json.dumps({"id": id, "prompt": ATTACK, "truth": {"kind": "choice", "value": "a", "options": options}})
            for id, options in ((MARK, ["a", MARK]), ("bad", [ATTACK]))
        ),
        ".xml": jats.replace("<article-title>", f"<article-title>{title} ", 1),
        ".txt": f"{ATTACK}\n\n{PAPER}",
    }
    for suffix, text in texts.items():
        (folder / f"{NAME}{suffix}").write_text(text, encoding="utf-8")
    (folder / f"{NAME}.pdf").write_bytes(pdf([column(f"## {NAME}\n\n{PAPER}", LEFT, 780, 80)]))
    return {suffix: folder / f"{NAME}{suffix}" for suffix in (*texts, ".pdf")}


@pytest.fixture(scope="module")
def hostile_lab(chromium, tmp_path_factory):
    """A lab whose models, reports, runs and people have such names, and whose models answer so."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "runs").mkdir()
    run = shutil.copytree(ROOT / "training/embedded/grpo", folder / "runs" / NAME)
    for file in run.glob("completions/*.parquet"):
        rows = read_table(file).to_pylist()
        said = {part: [{"role": part, "content": ATTACK}] for part in ("prompt", "completion")}
        write_table(Table.from_pylist([{**each, **said} for each in rows]), file)
    write_people(folder / "people", {NAME: Person(NAME, "admin", hash_password("a long password"))})
    places = {"ASSAY_RUNS": os.fspath(run.parent), "ASSAY_CONFIGS": os.fspath(folder / "configs")}
    places |= {"ASSAY_PEOPLE": os.fspath(folder / "people"), "ASSAY_REPORTS": os.fspath(folder / "reports")}
    with started([sys.executable, "-m", "tests.browser.scripted", ATTACK], folder, **places) as url:
        yield url


def entered(open_page, url):
    page = open_page(url, ready="input[type=password]")
    page.locator("input:not([type=password])").first.fill(NAME)
    page.locator("input[type=password]").fill("a long password")
    page.locator("button").first.click()
    page.wait_for_selector("#tabs")
    return page


def poke(page, files, left=()):
    """Open each fold of a tab, fill in each field, bring each file, press each button; return what ran and whether the mark was shown."""
    tab, ran, shown = page.locator("[role=tabpanel]:visible").first, [], False

    def look():
        nonlocal shown
        ran.extend(page.evaluate(RAN))
        shown = shown or tab.evaluate("(tab, words) => tab.textContent.includes(words)", MARK)

    def each(selector):
        page.wait_for_timeout(300)
        return [one for one in tab.locator(selector).element_handles() if one.is_visible() and one.is_enabled()]

    look()
    for fold in each("button.label-wrap:not(.open), button[aria-expanded=false].label-wrap"):
        fold.click()
    for field in each(FIELDS):
        name = field.evaluate("(node) => node.closest('[id]')?.id ?? ''")
        if name in left:
            continue
        most = int(field.get_attribute("maxlength") or 10**6)
        field.fill(TYPED.get(name, ATTACK)[:most])
    for place in range(tab.locator("input[type=file]").count()):
        for suffix, file in files.items():
            taker = tab.locator("input[type=file]").nth(place)
            if taker.count() and suffix in (taker.get_attribute("accept") or ".csv"):
                taker.set_input_files(file)
                page.wait_for_timeout(1500)
                look()
    for button in each(
        "button:not(.label-wrap, [role=tab], form[action^=logout] *), label:has(input[type=radio]), summary"
    ):
        name = button.evaluate("(node) => node.closest('[id]')?.id ?? ''")
        if name not in LEFT_ALONE and not name.endswith(("-stop", "-undo")):
            try:
                button.click(timeout=2_000)
            except Error:  # it is gone with what another button did
                continue
            page.wait_for_timeout(250)
            look()
    return ran, shown


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_markup_in_any_field_name_or_file_becomes_part_of_a_page_and_all_of_it_is_shown(
    open_page, hostile_lab, tmp_path
):
    page, files = entered(open_page, hostile_lab), files_in(tmp_path)
    ran, shown = {}, set()
    for name in SEE:
        open_tab(page, name.partition(":")[0])
        page.wait_for_timeout(1500)
        # without evidence first, so that plain answers are kept, of which Annotate makes a project
        found, is_shown = poke(page, {}, ("ask-evidence",)) if name == "Ask" else poke(page, files)
        if found:
            ran.setdefault(name, set()).update(each[:160] for each in found)
        shown |= {name} if is_shown else set()
    for name in SEE:  # what one tab made, another shows
        open_tab(page, name.partition(":")[0])
        page.wait_for_timeout(1500)
        if found := page.evaluate(RAN):
            ran.setdefault(name, set()).update(each[:160] for each in found)
        if page.locator("[role=tabpanel]:visible").first.evaluate(
            "(tab, words) => tab.textContent.includes(words)", MARK
        ):
            shown.add(name)
    assert ran == {}
    assert shown >= set(SEE) - {"Ask"}, "what these show, later buttons take away"
