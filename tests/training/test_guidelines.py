"""Reporting guidelines asked of a model: item by item, quotes that stand in the paper, two passes before a finding."""

import json
import re

import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig, LabError
from lab.cli import app
from tests.evals.reviewed import example
from tests.training.judge_server import FAST, Asked, JudgeServer, says
from training.judge.guidelines import GuidelineJudge, guidelines, items_of
from training.judge.prompts import HttpSettings

METHODS = "A central web service randomised the patients. No sample size was calculated in advance. Nurses did not know who got what."
PAPER = example([("Methods", METHODS), ("Results", "Rash occurred in 12 with the drug and 3 with placebo.")]).article
REPORTED = {
    "random sequence": "A central web service randomised the patients",
    "harms": "“Rash occurred in 12 with the drug and 3 with placebo.”",
    "registration": "The trial was registered as NCT00000000.",
}
"""What the model quotes of items that it calls reported; the last is made up."""


def behaviour(asked: Asked):
    """Answer as a model that misses the blinding at first, and is of two minds about funding."""
    if "which reporting guideline fits" in asked.text:
        return says({"guideline": "consort."})
    item = asked.parts["ITEM"].partition(":")[0]
    is_again = "in every section" in asked.text
    if item in REPORTED:
        return says(f"<think>Hm.</think>{json.dumps({'verdict': 'Reported', 'quote': REPORTED[item]})}")
    if item == "blinding" and is_again:
        return says({"section": "Methods", "quote": "Nurses did not know who got what.", "verdict": "reported"})
    if item == "funding":
        return says({"verdict": "not applicable" if is_again else "not_reported", "quote": ""})
    if item == "limitations":
        return says("I would rather not say.")
    return says({"verdict": "not reported" if item in ("sample size", "blinding") else "not applicable", "quote": ""})


def judge(server, **more):
    return GuidelineJudge(HttpSettings(server.url, **FAST, **more))


def test_an_item_is_missing_only_where_two_passes_say_so_and_a_made_up_quote_does_not_count():
    with JudgeServer(behaviour) as server:
        found = judge(server).check(PAPER)
    answers = {each.item: each for each in found.items}
    assert (found.guideline, found.model, len(answers)) == ("CONSORT", "tiny-judge", len(items_of("CONSORT")))
    assert [each.item for each in found.findings] == ["sample size"]
    assert found.findings[0].concern.severity == "major" and "CONSORT: sample size" in found.findings[0].concern.text
    assert (answers["random sequence"].verdict, answers["random sequence"].section) == ("reported", "Methods")
    assert (answers["harms"].verdict, answers["harms"].section) == ("reported", "Results")
    assert answers["blinding"].quote == "Nurses did not know who got what"
    assert (answers["registration"].verdict, answers["registration"].why) == (
        "unclear",
        "what was quoted does not stand in the paper",
    )
    assert answers["funding"].verdict == answers["limitations"].verdict == "unclear"
    again = [each.parts["ITEM"].partition(":")[0] for each in server.requests if "in every section" in each.text]
    assert sorted(again) == ["blinding", "funding", "sample size"]


def test_a_long_paper_is_asked_about_in_parts_and_one_that_reports_the_item_is_enough():
    last = f"{'Words and words of it. ' * 4000}\nThe work was paid for by the city of Bern."
    paper = example([("Methods", METHODS), ("Discussion", last)]).article

    def paid(asked: Asked):
        is_there = "paid for by" in asked.parts["PAPER"] and asked.parts["ITEM"].startswith("funding")
        return says({"verdict": "reported" if is_there else "not reported", "quote": "paid for by the city of Bern"})

    with JudgeServer(paid) as server:
        found = judge(server).check(paper, "STROBE")
    assert {each.item: each.verdict for each in found.items}["funding"] == "reported"
    assert len(found.findings) == len(items_of("STROBE")) - 1


def test_a_server_without_a_usable_word_is_an_error_and_an_unknown_guideline_is_named():
    with JudgeServer(lambda _: says("No.")) as server:
        with pytest.raises(LabError, match="no usable answer to any of 17 items"):
            judge(server).check(PAPER, "CONSORT")
        with pytest.raises(LabError, match="name one with --guideline"):
            judge(server).check(PAPER)
    with pytest.raises(BadConfig, match="'COFFEE'; there are CONSORT, STROBE, ARRIVE, PRISMA"):
        judge(server).check(PAPER, "COFFEE")


def test_items_have_names_of_their_own_and_make_a_sentence():
    for name in guidelines():
        items = items_of(name)
        assert len({each.name for each in items}) == len(items) >= 14
        assert not [each for each in items if not re.fullmatch(r"[a-z].*[^.]", each.asks)]


def test_the_command_prints_what_statistics_and_the_guideline_find(tmp_path):
    (tmp_path / "p.md").write_text(
        f"# Rash\n\n## Methods\n\n{METHODS}\n\n## Results\n\nIt fell, t(28) = 2.20, p = .30.\n"
    )
    with JudgeServer(behaviour) as server:
        words = [
            "review",
            "checks",
            tmp_path / "p.md",
            "--server",
            server.url,
            "--out",
            tmp_path / "out.jsonl",
            "--json",
        ]
        done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0 and "CONSORT: " in done.stderr
    (document,) = json.loads(done.stdout).values()
    assert [each["source"] for each in document["findings"]] == ["recomputed", "CONSORT"]
    assert document["guideline"]["items"][0]["verdict"] == "not applicable"
    assert len(json.loads((tmp_path / "out.jsonl").read_text())["concerns"]) == 2
    with pytest.raises(BadConfig, match="name its server"):
        CliRunner().invoke(
            app, ["review", "checks", str(tmp_path / "p.md"), "--guideline", "consort"], catch_exceptions=False
        )
