"""A review in stages and reporting guidelines: what is asked of a model, and what becomes of replies that fail."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig, LabError
from lab.cli import app
from tests.evals.reviewed import example, prose
from tests.training.cases import cases
from tests.training.judge_server import FAST, Asked, JudgeServer, says
from training.judge.guidelines import GuidelineJudge, items_of
from training.judge.prompts import HttpSettings

METHODS = f"The trial was registered (NCT01234567). Mice were few. {prose(40)}"
RAISED = {
    "Methods": ["The trial was not registered.", "Six mice are too few."],
    "Results": ["The p value is not adjusted."],
}
EVERY = [each for many in RAISED.values() for each in many]
REFUSAL = says("I'm sorry, but I can't help with reviewing this manuscript.")


@pytest.fixture
def papers(tmp_path):
    rows = [
        example(
            [("Methods", METHODS), ("Results", f"It grew. {prose(40)}")], id=f"s:{n}", split="test", title=f"Growth {n}"
        )
        for n in (1, 2)
    ]
    (tmp_path / "one.jsonl").write_text(rows[0].model_dump_json() + "\n", encoding="utf-8")
    (tmp_path / "two.jsonl").write_text("".join(f"{each.model_dump_json()}\n" for each in rows), encoding="utf-8")
    return tmp_path


def concerns(*texts):
    return says(json.dumps([{"text": text, "category": "other", "severity": "minor"} for text in texts]))


def verdicts(*words, quote=""):
    return says({"verdicts": [{"item": n, "verdict": word, "quote": quote} for n, word in enumerate(words, 1)]})


STAGES = {"Summarise the paper": "summary", "# Concerns": "list", "=== BEGIN CONCERNS": "verdicts"}


def stage(asked: Asked) -> str:
    found = [name for words, name in STAGES.items() if words in asked.text]
    return found[0] if found else next(name for name in RAISED if f"## {name}" in asked.text)


def answering(**other):
    """Return a server's behaviour: well, but for the stages that are named."""

    def behaviour(asked: Asked):
        name = stage(asked)
        if name in other:
            return other[name]
        if name == "summary":
            return says("SUMMARY: mice were studied.")
        if name in RAISED:
            assert "SUMMARY: mice were studied." in asked.text or "summary" in other
            return concerns(*RAISED[name])
        return concerns(*EVERY) if name == "list" else verdicts(*["not_checkable"] * 3)

    return behaviour


def infer(papers: Path, behaviour, *more: str, file: str = "one.jsonl"):
    """Return how the command ended, the rows, and the requests that came."""
    out = papers / "out.jsonl"
    with JudgeServer(behaviour) as server:
        words = ["review", "infer", "--papers", papers / file, "--server", server.url, "--staged", "--out", out]
        done = CliRunner().invoke(app, [*map(str, words), "--retries", "0", *more])
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.is_file() else []
        return done, rows, server.requests


def forget(papers: Path):
    """Delete what was answered, as the command says for papers that are to be asked about anew."""
    for each in papers.glob("out.jsonl*"):
        each.unlink()


def test_sections_are_reviewed_with_a_summary_and_what_the_paper_contradicts_stands_apart_with_its_sentence(papers):
    wrong = verdicts("contradicted", "Supported.", "not checkable", quote="The trial was registered (NCT01234567).")
    done, (row,), requests = infer(papers, answering(verdicts=wrong))
    assert done.exit_code == 0, done.output
    assert [each["text"] for each in row["concerns"]] == EVERY[1:]
    (dropped,) = row["dropped"]
    assert (dropped["text"], dropped["by"]) == (EVERY[0], "tiny-judge")
    assert dropped["sentence"] == "The trial was registered (NCT01234567"
    assert (row["status"], row["finish_reason"], row["problems"]) == ("ok", "stop", [])
    assert [stage(each) for each in requests] == ["summary", "Methods", "Results", "list", "verdicts"]
    words = requests[-1].body["response_format"]["json_schema"]["schema"]["properties"]["verdicts"]["items"]
    assert words["properties"]["verdict"]["enum"] == ["supported", "contradicted", "not_checkable"]
    assert EVERY[1] in done.stdout and "the paper says: The trial was registered" in done.stdout


def reply(told: object):
    """Return what a case says that a stage answers: text, a refusal, concerns (a list), or verdicts with a quote."""
    if isinstance(told, dict):
        return verdicts(*told["verdicts"], quote=told.get("quote", ""))
    return REFUSAL if told == "refusal" else concerns(*told) if isinstance(told, list) else says(told)


def test_a_stage_that_cannot_be_read_is_named_and_loses_nothing_that_others_found(papers):
    wrong = []
    for name, (other, status, n, problem) in cases("staged").items():
        forget(papers)
        done, (row,), _ = infer(papers, answering(**{stage: reply(told) for stage, told in other.items()}))
        told = " ".join(row["problems"])
        found = (row["status"], len(row["concerns"]), row["dropped"], done.exit_code)
        is_told = problem in told if problem else not told
        wrong += [] if found == (status, n, [], int(status == "failed")) and is_told else [(name, found, told)]
    assert wrong == []


def test_an_error_ends_one_paper_and_what_was_answered_about_it_is_not_asked_for_again(papers):
    def fails_once(asked: Asked):
        if stage(asked) == "verdicts" and asked.number < 12:
            return 500, b"{}"
        return answering()(asked)

    done, rows, requests = infer(papers, fails_once, file="two.jsonl")
    assert done.exit_code == 1 and "2 papers got only some of the requested answers" in done.stderr
    assert [(row["status"], len(row["concerns"])) for row in rows] == [("ok", 3)] * 2
    assert "not verified: the server answered 500" in str(rows[0]["problems"])
    done, rows, requests = infer(papers, answering(), file="two.jsonl")
    assert done.exit_code == 0
    assert [stage(each) for each in requests] == ["verdicts"] * 2
    assert not (papers / "out.jsonl.journal").exists()


def test_a_key_that_is_refused_stops_the_run_with_one_error(papers):
    refused = (401, b'{"error": {"message": "bad key"}}')
    done, rows, requests = infer(papers, lambda _: refused, file="two.jsonl")
    assert (done.exit_code, len(requests), rows) == (1, 1, [])
    assert "the server answered 401: bad key" in str(done.exception) and "key_env in the file of --config" in str(
        done.exception
    )


def test_what_the_reader_of_a_paper_left_out_is_printed_and_stands_in_row_and_record(papers):
    body = f"<sec><title>Methods</title><p>{METHODS} By <inline-formula><graphic/></inline-formula>.</p></sec>"
    title = "<front><article-meta><title-group><article-title>T</article-title></title-group></article-meta></front>"
    (papers / "a.xml").write_text(f"<article>{title}<body>{body}</body></article>", encoding="utf-8")
    done, (row,), _ = infer(papers, answering(), "--json", file="a.xml")
    said = "1 formula is a picture, [formula] in the text"
    assert f"paper: {said}" in done.stderr and f"paper: {said}" in row["problems"]
    assert json.loads(done.stdout)["paper_notes"] == {row["article_id"]: [said]}


def test_the_concerns_of_a_paper_are_written_as_a_list_or_a_letter(papers):
    infer(papers, answering(), "--format", "md")
    text = (papers / "out.md").read_text(encoding="utf-8")
    assert text.startswith("# Review of “Growth 1”\n\n1. **minor, other.** The trial was not registered.")
    assert "Written by tiny-judge on" in text
    infer(papers, answering(), "--format", "letter")
    text = (papers / "out-letter.md").read_text(encoding="utf-8")
    assert "## Minor concerns\n\n1. The trial was not registered." in text and text.startswith("Dear authors,")
    turned = answering(list=concerns("The p value was \u202e50.0\u202c,\u200b not\x1b[2J given."))
    forget(papers)
    done, (row,), _ = infer(papers, turned, "--format", "letter")
    assert "1. The p value was 50.0, not[2J given.\n" in (papers / "out-letter.md").read_text(encoding="utf-8")
    assert "\u202e" in row["concerns"][0]["text"] and "\u202e" not in done.stdout


def test_a_stage_of_a_chain_is_asked_in_stages_and_can_be_stopped(tmp_path):
    from tests.training.reviewers import paper, reviewer_chain
    from training.models.chain import load_chain
    from training.reviewer.engine import Asking, ChainEngine, stream_review
    from training.reviewer.staged import StagedEngine

    asking = Asking(max_new_tokens=48, temperature=0.0)
    chain = load_chain(reviewer_chain(tmp_path), "float32", base=str(tmp_path / "model"))
    engine, stop = StagedEngine(ChainEngine(chain, asking), 1), threading.Event()
    *steps, last = stream_review(paper("mice"), engine, asking, stop, time.monotonic)
    assert [each.name for each in last.row.parts][:2] == ["summary", "Abstract, Methods"]
    assert {"summary", "Abstract, Methods (1 of 1)"} <= {each.stage for each in steps}
    steps = stream_review(paper("rats"), engine, asking, stop, time.monotonic)
    next(steps)
    stop.set()
    *_, last = steps
    assert (last.row.finish_reason, last.row.status) == ("cancelled", "failed")


NO_TORCH = """
import sys
from lab.cli import app
try:
    app(sys.argv[1:], standalone_mode=False)
finally:
    print("loaded:", *(each for each in ("torch", "transformers", "datasets") if each in sys.modules), file=sys.stderr)
"""


@pytest.mark.slow
def test_asking_a_server_loads_no_torch(papers):
    with JudgeServer(answering()) as server:
        words = ["review", "infer", "--papers", papers / "one.jsonl", "--server", server.url, "--staged"]
        command = [sys.executable, "-c", NO_TORCH, *map(str, words), "--out", str(papers / "out.jsonl")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert done.stderr.splitlines()[-1].strip() == "loaded:"


# ---- reporting guidelines, asked item by item, in two passes before a finding ------------------------


TRIAL = "A central web service randomised the patients. No sample size was calculated in advance. Nurses did not know who got what."
PAPER = example([("Methods", TRIAL), ("Results", "Rash occurred in 12 with the drug and 3 with placebo.")]).article
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
    last = f"{'Words and words of it. ' * 2700}\nThe work was paid for by the city of Bern."
    paper = example([("Methods", TRIAL), ("Discussion", last)]).article

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


def test_the_command_prints_what_statistics_and_the_guideline_find(tmp_path):
    (tmp_path / "p.md").write_text(
        f"# Rash\n\n## Methods\n\n{TRIAL}\n\n## Results\n\nIt fell, t(28) = 2.20, p = .30.\n"
    )
    with JudgeServer(behaviour) as server:
        words = f"review checks {tmp_path / 'p.md'} --server {server.url} --out {tmp_path / 'out.jsonl'} --json"
        done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0 and "CONSORT: " in done.stderr
    (document,) = json.loads(done.stdout).values()
    assert [each["source"] for each in document["findings"]] == ["recomputed", "CONSORT"]
    assert document["guideline"]["items"][0]["verdict"] == "not applicable"
    assert len(json.loads((tmp_path / "out.jsonl").read_text())["concerns"]) == 2
    with pytest.raises(BadConfig, match="name its server"):
        CliRunner().invoke(app, f"review checks {tmp_path / 'p.md'} --guideline consort", catch_exceptions=False)
