import re
from zipfile import ZipFile

import gradio as gr
import pytest
from fastapi.testclient import TestClient
from gradio.routes import App

from evals.questions import kmp_test
from lab.compare import preferences
from lab.compare.preferences import export, latest, overview
from tests.lab.votes import cast, services_in


@pytest.fixture
def services(tmp_path):
    made = services_in(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def browser(services):
    with gr.Blocks() as page, gr.Tab("Preferences") as tab:
        preferences.build(services, tab)
    return TestClient(App.create_app(page))


def opened(browser):
    reply = browser.post("/gradio_api/run/preferences", json={"data": []})
    assert reply.status_code == 200
    return plain(" ".join(reply.json()["data"]))


def plain(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_without_votes_the_tab_says_how_to_get_some(browser):
    assert opened(browser).startswith("No votes yet. Open Compare")


def test_a_vote_shows_up_the_next_time_the_tab_is_opened(browser, services):
    opened(browser)
    cast(services.store, 1, ("base", "sft"), "right")
    assert "1 Votes 1 Preference pairs" in opened(browser)
    assert "Base SFT SFT preferred" in opened(browser)


def test_a_store_that_fails_is_told_with_its_remedy(browser, services, tmp_path):
    services.store.close()
    (tmp_path / "assay.db").unlink()
    (tmp_path / "assay.db").write_text("overwritten by something else\n" * 500)
    assert "The file is something else" in opened(browser)


def test_the_outcome_of_each_pair_of_stages_is_shown_with_its_counts(services):
    for number, choice in enumerate(("left", "left", "right", "tie", "both_bad")):
        cast(services.store, number, ("sft", "base"), choice)
    shown = plain(overview(services.store.counts()))
    assert "Base and SFT 1 1 1 2" in shown
    assert "5 Votes 3 Preference pairs 1 Ties 1 Both bad 1 Raters 0 Withdrawn" in shown


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b"])
def test_markup_in_a_question_or_stage_is_shown_as_text(services, text):
    cast(services.store, 1, (text, "sft"), "left", question=text)
    page = overview(services.store.counts()) + latest(services.store.comparisons())
    assert text not in page
    assert "<script" not in page
    assert "<img" not in page


def test_a_long_question_is_cut_in_the_table(services):
    cast(services.store, 1, ("base", "sft"), "tie", question="very " * 1000 + "long")
    assert len(plain(latest(services.store.comparisons()))) < 300


def test_no_rater_is_shown_to_visitors(services):
    kept = cast(services.store, 1, ("base", "sft"), "left")
    page = overview(services.store.counts()) + latest(services.store.comparisons())
    assert kept.rater not in page


def test_the_export_is_a_zip_whose_counts_are_told(services, tmp_path):
    cast(services.store, 1, ("base", "sft"), "left")
    cast(services.store, 2, ("base", "sft"), "tie")
    offer = export(services, "dpo", tmp_path / "exports")
    assert "1 row from 2 votes; left out: 1 tied." in plain(offer.message)
    with ZipFile(offer.file) as archive:
        rows = archive.read("preferences-dpo/train.jsonl").decode().splitlines()
    assert len(rows) == 1


def test_votes_on_held_out_questions_are_told_as_left_out(services, tmp_path):
    cast(services.store, 1, ("base", "sft"), "left")
    cast(services.store, 2, ("base", "sft"), "left", question=kmp_test()[0].prompt)
    offer = export(services, "dpo", tmp_path / "exports")
    assert "1 row from 2 votes; left out: 1 on held-out questions." in plain(offer.message)


def test_an_export_without_votes_says_what_to_do_and_offers_no_file(services, tmp_path):
    offer = export(services, "dpo", tmp_path / "exports")
    assert offer.file is None
    assert 'role="alert"' in offer.message
    assert "Vote in the Compare tab first" in offer.message


def test_the_button_on_the_page_gives_a_file_the_browser_can_fetch(browser, services):
    cast(services.store, 1, ("base", "sft"), "left")
    reply = browser.post("/gradio_api/run/export_preferences", json={"data": ["dpo"]})
    message, button = reply.json()["data"]
    assert "1 row from 1 vote" in plain(message)
    assert button["visible"] is True
    fetched = browser.get(f"/gradio_api/file={button['value']['path']}")
    assert fetched.content.startswith(b"PK")
