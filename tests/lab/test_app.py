"""The page: its tabs, who is at it, the model it waits for, and how it is open_lab."""

import json
import re
import threading
from collections import Counter
from dataclasses import replace

import httpx
import pytest
from starlette.responses import PlainTextResponse

from evals.errors import MissingModel
from lab.app import build_app, needs_chain, run
from lab.engine import LabEngine
from lab.middleware import PasswordThrottle
from lab.session import meet
from lab.settings import MOST_WRONG, WAIT_SECONDS
from lab.ui.components import model_pill, model_problem, script
from lab.ui.text import TEXT
from tests.lab.chains import ScriptedChain
from tests.lab.served import ON_AIR, Browser
from tests.waiting import result_of


def test_every_tab_links_to_a_tutorial_whose_links_open_and_nothing_else_of_the_disk_does(open_lab):
    parts = open_lab.get_config_file()["components"]
    tabs = [part["props"]["label"] for part in parts if part["type"] == "tabitem"]
    leads = [value for part in parts if 'class="lead"' in (value := str(part["props"].get("value")))]
    assert tabs == ["Home", "Ask", "Compare", "Annotate", "Papers", "Data", "Results", "Train"]
    assert len(leads) == len(tabs)
    links = [re.findall(r'href="(docs/tutorials/[^"]+)"', lead) for lead in leads]
    assert all(len(each) == 1 for each in links)
    pages = {link: httpx.get(open_lab.local_url + link) for each in links for link in each}
    assert len(pages) == 4 and all("<title>Tutorial: " in page.text for page in pages.values())
    for link, page in pages.items():
        for target in re.findall(r'href="([^":#]+)[#"]', page.text):
            assert httpx.get(httpx.URL(open_lab.local_url + link).join(target)).status_code == 200, (link, target)
    made = httpx.get(f"{open_lab.local_url}docs/stage-settings.md").text
    assert '<h2 id="sft-review">' in made and 'href="#sft-review"' in made and "{{" not in made
    for outside in ("docs/tutorials/nothing.md", "docs/..%2fREADME.md", "docs/screenshots/..%2f..%2fREADME.md"):
        assert httpx.get(open_lab.local_url + outside).status_code == 404, outside


def test_a_list_that_is_only_left_asks_for_nothing(open_lab):
    config = open_lab.get_config_file()
    lists = {part["id"]: part["props"].get("elem_id") for part in config["components"] if part["type"] == "dropdown"}
    for event in config["dependencies"]:
        chosen = [lists[part] for part, what in event["targets"] if what == "input" and part in lists]
        is_draft = event["api_name"].endswith("_draft")  # keeps what stands there, whatever was left
        assert is_draft or not chosen or (all(chosen) and event["js"] == script("assayChosen", chosen)), event


def test_a_database_that_cannot_be_opened_ends_the_lab_before_it_says_that_it_runs(room):
    def broken():
        raise MissingModel("the database is not there")

    said = []
    with pytest.raises(MissingModel, match="not there"):
        run(build_app(room, ("Data",)), replace(room, opened=broken), lambda: said.append("runs"))

    assert said == []
    assert room.engine.status.state == "idle"


@ON_AIR
def test_the_page_is_served_with_its_own_style_script_and_fonts(open_lab):
    html = httpx.get(open_lab.local_url).text
    sources = re.findall(r'(?:href|src)="(lab-assets/[^"]+)"', open_lab.head)
    replies = {name: httpx.get(open_lab.local_url + name) for name in sources}
    css = httpx.get(open_lab.local_url + "lab-assets/fonts.css").text
    fonts = [httpx.get(f"{open_lab.local_url}lab-assets/{name}") for name in re.findall(r'url\("([^"]+)"\)', css)]
    outside = httpx.get(open_lab.local_url + "lab-assets/..%2fapp.py")

    assert 'content="Assay"' in html
    assert {reply.status_code for reply in replies.values()} == {200}
    assert len(fonts) == 5
    assert all(font.content.startswith(b"wOF2") for font in fonts)
    assert outside.status_code == 404


@ON_AIR
def test_three_browsers_at_once_over_http_read_their_own_answers_only(open_lab):
    read = {}

    def visit(name):
        browser = Browser(open_lab)
        browser.call("meet", None)
        read[name] = browser.call("ask", f"question {name}?", 0, 64, 0, "", "")

    threads = [threading.Thread(target=visit, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    for name in "abc":
        assert set(re.findall(r" on question (\w)\? with seed", read[name])) == {name}


@ON_AIR
def test_a_link_to_a_chain_or_a_set_that_is_gone_says_so(open_lab):
    told, told_to = "This question set is no longer in the store", {"data": [None, None], "session_hash": "late"}
    address = f"{open_lab.local_url}gradio_api/run/questions?tab=data&set=gone"
    assert told not in httpx.post(address, json=told_to).text, "it may be a draft of a visitor who is not known yet"
    httpx.post(f"{open_lab.local_url}gradio_api/run/meet", json={"data": [None], "session_hash": "late"})
    assert told in httpx.post(address, json=told_to).text
    assert "no finished run" in Browser(open_lab).call("chains", "?tab=ask&chain=gone")


def test_no_line_of_the_page_is_written_twice():
    files = [json.loads(path.read_text(), object_pairs_hook=list) for path in TEXT.glob("*.json")]
    found = Counter(key for pairs in files for key, _ in pairs)
    assert [key for key, n in found.items() if n > 1] == []


def test_the_model_shows_how_far_it_is_and_on_failure_what_to_do():
    engine = LabEngine(lambda *_: ScriptedChain())
    loading = replace(engine.status, state="loading", share=0.42, message="unpacking")
    failed = replace(engine.status, state="failed", message="no <chain>. Run `assay doctor`.")

    assert "Loading model · 42%" in model_pill(loading)
    assert model_problem(loading) == ""
    stands_in = replace(engine.status, state="ready", substitutions=("the <Hub>'s copy is used",))
    assert "The &lt;Hub&gt;&#x27;s copy is used" in model_problem(stands_in)
    assert "No &lt;chain&gt;. Run `assay doctor`." in model_problem(failed)


class WriteRequest:
    """What `meet` reads of a request."""

    def __init__(self, username=None, session_hash=None):
        self.username = username
        self.session_hash = session_hash


def test_a_browser_is_known_again_and_each_open_page_is_its_own():
    first, kept = meet(None, WriteRequest())
    second, _ = meet(kept, WriteRequest())
    assert first.rater == second.rater == kept
    assert first.page != second.page

    early, late = (meet(None, WriteRequest(session_hash="one page")) for _ in range(2))
    assert early == late
    assert early[0].rater != early[0].page
    assert meet(None, WriteRequest(session_hash="another page"))[0].rater != early[0].rater

    visitor, kept = meet("a" * 32, WriteRequest("kim"))
    assert (visitor.rater, kept) == ("kim", "a" * 32), "who logged in votes under that name"


def test_what_a_browser_made_up_is_not_taken_for_a_name():
    for remembered in ("", "short", "x" * 33, 7, ["a"], {"a": 1}, "<script>" * 4):
        visitor, kept = meet(remembered, WriteRequest())
        assert len(visitor.rater) == 32
        assert visitor.rater.isalnum()
        assert visitor.rater == kept != remembered


def test_the_chain_is_loaded_and_shown_only_for_tabs_that_ask_it(room):
    for tabs, refiner, is_asked in (
        (None, "refiner", True),
        (("Compare",), "refiner", True),
        (("Papers",), "", False),
        (("Results",), "", False),
    ):
        assert needs_chain(replace(room, refiner=refiner), tabs) == is_asked
    for tab, is_shown in (("Papers", False), ("Compare", True)):
        ids = ids_of(build_app(room, (tab,)).get_config_file()["components"])
        assert ("model-status" in ids) == is_shown
    assert room.engine.status.state == "idle", "building the page loads no model"


def test_no_two_parts_of_the_page_have_the_same_id(open_lab):
    named = Counter(each for each in ids_of(open_lab.get_config_file()["components"]) if each)
    assert [each for each, n in named.items() if n > 1] == []


def ids_of(parts):
    return [part["props"].get("elem_id") for part in parts]


def test_waiting_after_wrong_passwords_ends():
    seconds = [0]
    throttle = PasswordThrottle(PlainTextResponse("no", 400), now=lambda: seconds[0])

    async def tries(n):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(throttle), base_url="http://lab") as client:
            return [(await client.post("/login")).status_code for _ in range(n)]

    assert result_of(tries(MOST_WRONG + 1)) == [400] * MOST_WRONG + [429]
    seconds[0] = WAIT_SECONDS
    assert result_of(tries(1)) == [400]


def test_every_public_action_says_what_it_does_and_names_what_it_takes(open_lab):
    told = open_lab.get_api_info()["named_endpoints"]
    assert told["/ask"]["parameters"][0]["parameter_name"] == "question"
    assert [name for name, each in told.items() if not each["description"].strip(" .")] == []
    unnamed = {name for name, each in told.items() for one in each["parameters"] if "param_" in one["parameter_name"]}
    assert unnamed == set()
    borrowed = {name for name, each in told.items() if "partial" in each["description"]}
    assert borrowed == set()
