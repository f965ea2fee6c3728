"""What commands do, print, write and refuse: the tables in tests/lab/cases, in the words of tests/lab/commands.py.

Below them stands what a table cannot say: files that are spoilt or moved, and answers held against other code.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from evals.errors import ChainMismatch, LabError, MissingModel
from evals.questions import data_sha256, find, kmp_test, kmp_training, pathway_heldout
from evals.report import load_report
from evals.schema import Completion
from evals.verifiers import verify
from lab.cli import app
from lab.commands import terminal
from lab.commands.ask import StageReply, _panel
from lab.commands.data import register_question_sets
from lab.commands.terminal import emit, progress_shown
from lab.reference import PAGES, every_command
from lab.settings import from_environment
from tests.examples import read_examples
from tests.lab.commands import CASES, problems_of
from tests.lab.trainings import training_rows
from tests.models import tiny_chain
from tests.training.judge_server import JudgeServer, reads
from tests.training.runs import sampled_run
from training.stages import STAGES


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return tiny_chain(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize("table", sorted(file.stem for file in CASES.glob("*.yaml")))
def test_every_command_does_what_its_table_says(table, original, tmp_path):
    (tmp_path / "rows").mkdir()
    places = {"CHAIN": original, "RUNS": original.parent, "ROWS": training_rows(tmp_path / "rows")}
    problems = problems_of(table, tmp_path, places | {"SAMPLED": sampled_run(tmp_path / "sampled")})
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


def test_every_command_takes_the_words_of_the_examples_in_its_help():
    problems = []
    for name, command in every_command():
        told = " ".join(f"{command.help} {command.epilog or ''}".split())
        examples = re.findall(r"Examples?: assay (.+?)(?= Examples?: | Read on: |$)", told)
        words = name.removeprefix("eval ").split() if name == "eval leaderboard" else name.split()
        own = [given for given in map(shlex.split, examples) if given[: len(words)] == words]
        problems += [] if own else [f"{name} shows no example of it"]
        document = re.search(r"Read on: (docs/\S+\.md)", told)
        problems += (
            []
            if document and Path(__file__).parents[2].joinpath(document[1]).is_file()
            else [f"{name} names no document to read on in"]
        )
        for given in own:
            left = command.make_context(name, given[len(words) :]).args
            stages = (
                [kind for stage, kind in STAGES.items() if words[-1] in (stage, "recipe")]
                if words[0] == "train"
                else []
            )
            known = {f"--{each}" for kind in stages for each in kind.model_fields}
            problems += [f"{name} takes no {each}" for each in left if each.startswith("--") and each not in known]
    assert problems == []


def test_the_reference_says_what_every_option_setting_and_field_means():
    pages = {name: page() for name, page in PAGES.items()}
    bare = [
        line
        for text in pages.values()
        for line in text.splitlines()
        if re.search(r"\|  \|$|^\* `[^`]*`(:  \[|$)", line)
    ]
    headings = {line.strip("# `") for text in pages.values() for line in text.splitlines() if line.startswith("#")}
    assert bare == []
    assert {f"assay {name}" for name, _ in every_command()} | {"QuestionRow", "RunRecord", "ReviewedRow"} <= headings
    assert all(f"| `{name}` | " in pages["settings"] for kind in STAGES.values() for name in kind.model_fields)
    assert "| `max_length` | integer ≥ 16 (`256`) | longest question plus answer, tokens |" in pages["settings"]


def test_no_command_has_more_than_fourteen_options():
    assert {name: len(each.params) for name, each in every_command() if len(each.params) > 14} == {}


def assay(*words):
    """Run the command; a LabError comes out as `main` would meet it."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_answers_are_judged_as_each_alone_and_a_judge_is_asked_once(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    examples = pathway_heldout()
    rows = [each.model_dump(mode="json", include={"id", "prompt", "ground_truth"}) for each in examples]
    lines = [json.dumps({**row, "completion": each.answer}) + "\n" for row, each in zip(rows, examples, strict=True)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(lines), encoding="utf-8")
    done = assay("eval", "verify", file, "--json")
    expected = [verify(each, each.answer).reward for each in examples]
    assert [row["reward"] for row in json.loads(done.stdout)] == pytest.approx(expected)
    assert len(done.stderr.splitlines()) == 1

    file.write_text("".join(lines[:3]), encoding="utf-8")
    with JudgeServer(reads) as server:
        words = ("eval", "verify", file, "--read", "judge", "--judge", server.url, "--any-judge", "--json")
        first, asked = assay(*words).stdout, len(server.requests)
        assert (assay(*words).stdout, len(server.requests)) == (first, asked)


def test_made_questions_are_those_of_the_bank_and_a_seed_changes_nothing_but_the_order(tmp_path):
    document = json.loads(assay("data", "kmp", "--out", tmp_path / "kmp", "--json").stdout)
    assert json.loads((tmp_path / "kmp" / "statistics.json").read_text(encoding="utf-8")) == document
    for split, rows in {"train": kmp_training(), "test": kmp_test()}.items():
        path, numbers = tmp_path / "kmp" / f"{split}.jsonl", document["splits"][split]
        assert read_examples(path) == rows
        assert numbers["file_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert (numbers["data_sha256"], numbers["rows"]) == (data_sha256(rows), len(rows))
    for name, seed in {"a": 3, "b": 3, "plain": 0}.items():
        assay("data", "pathways", "--out", tmp_path / name, "--seed", seed)
    for file in ("train.jsonl", "test.jsonl", "statistics.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    mixed, plain = (read_examples(tmp_path / name / "train.jsonl") for name in ("a", "plain"))
    assert mixed != plain and data_sha256(mixed) == data_sha256(plain)


def test_ask_and_the_lab_know_the_sets_that_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.setattr("evals.questions.sets._REGISTERED", {})
    truth = {"kind": "choice", "value": "up", "options": ["up", "down"]}
    row = {"id": "a", "prompt": "Which way does it go at noon?", "truth": truth, "group": "g", "split": "test"}
    file = tmp_path / "set.jsonl"
    file.write_text(json.dumps(row))
    settings = from_environment({"ASSAY_QUESTIONS": f"{file}, codons-and-enzymes"})
    assert settings.questions == (str(file), "codons-and-enzymes")
    register_question_sets(settings.questions)
    assert find("which way does it go at noon?").id == "a"
    assert find("Which codons of the standard genetic code end translation?").kind == "set"


@pytest.fixture
def runs(original, tmp_path, monkeypatch):
    """Runs of its own for each test, the base beside them."""
    shutil.copytree(original.parent, tmp_path / "runs")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "runs"


def test_check_fails_on_a_tampered_adapter_and_still_shows_the_rest(runs):
    with (runs / "sft" / "adapter" / "adapter_model.safetensors").open("ab") as file:
        file.write(b"\0")
    done = CliRunner().invoke(app, ["chain", "check", str(runs / "grpo"), "--json"])
    results = {(row["subject"], row["check"]): row["result"] for row in json.loads(done.stdout)}
    assert results["sft", "adapter"] == "WRONG"
    assert results["grpo", "adapter"] == "ok"
    assert isinstance(done.exception, LabError)


def test_it_is_told_and_kept_in_a_report_when_another_base_stood_in(runs, monkeypatch):
    from training.models import chain as chains

    note, find_base = "the package is missing, so a copy was taken", chains.find_base
    monkeypatch.setattr(chains, "find_base", lambda *a, **more: replace(find_base(*a, **more), substitutions=(note,)))
    done = assay("ask", "Why?", "--chain", runs / "sft", "--max-new-tokens", 2, "--json")
    assert note in " ".join(done.stderr.split())
    assert note not in done.stdout
    words = ("--data", "kmp-test", "--limit", 1, "--stage", "base", "--max-new-tokens", 2)
    assay("eval", "run", "--chain", runs / "sft", *words, "--out", runs / "r.json")
    assert load_report(runs / "r.json").settings["substitutions"] == note


def test_ask_takes_a_base_that_moved_and_refuses_a_wrong_one_before_anything_is_answered(runs):
    (runs / "model").rename(runs / "elsewhere")
    asked = ("ask", "Why?", "--chain", runs / "sft", "--max-new-tokens", 2, "--json")
    with pytest.raises(MissingModel, match="name it with --base"):
        assay(*asked)
    assert len(json.loads(assay(*asked, "--base", runs / "elsewhere").stdout)["answers"]) == 2
    (runs / "elsewhere" / "chat_template.jinja").write_text("{{ messages[0].content }}")
    with pytest.raises(ChainMismatch, match="chat template"):
        assay(*asked, "--base", runs / "elsewhere")


def test_chains_are_listed_imported_asked_and_published_in_the_folders_of_assay_runs(runs, tmp_path, monkeypatch):
    """Two folders: what is new goes into the first; a name alone finds a run in either."""
    (first := tmp_path / "first").mkdir()
    monkeypatch.setenv("ASSAY_RUNS", f"{first}{os.pathsep}{runs}")
    monkeypatch.chdir(first)
    made = assay("chain", "import", runs / "model", f"mine={runs / 'sft' / 'adapter'}", "--json")
    assert json.loads(made.stdout)["folder"] == str(first / "mine")
    listed = [each["name"] for each in json.loads(assay("chain", "list", "--json").stdout)]
    assert {str(first / "mine"), str(runs / "sft"), str(runs / "grpo")} <= set(listed)
    asked = assay("ask", "Why?", "--chain", "mine", "--max-new-tokens", 2, "--json")
    assert len(json.loads(asked.stdout)["answers"]) == 2
    words = ("--data", "pathways-heldout", "--limit", 1, "--stage", "mine", "--max-new-tokens", 2)
    done = assay("eval", "run", "--chain", "mine", *words, "--out", first / "report.json")
    assert "no place for options, so they stand behind 1 question of 1" in " ".join(done.stderr.split())
    assert "Answer with one of: up / down /" in load_report(first / "report.json").rows[0].prompt[-1].content
    card = CliRunner().invoke(app, ["publish", "card", "mine", "--base", "org/base"])
    assert (first / "mine" / "README.md").is_file(), card.exception
    assert not Path("runs").exists()


def test_what_is_no_chain_is_named_with_the_way_on(runs, tmp_path):
    plain, several = runs / "sft" / "adapter", tmp_path / "several"
    shutil.copytree(plain, several / "policy")
    shutil.copytree(plain, several / "reference")
    for folder, words in {
        plain: f"{plain} holds an adapter as PEFT writes it, and no chain.json. `assay chain import BASE {plain}`",
        several: "an adapter as PEFT writes it in policy, reference, and no",
        runs / "model": f"holds a whole model. Name it base:{runs / 'model'} to ask it",
        tmp_path / "nothing": "`assay chain list` shows what is here",
    }.items():
        for command in (("ask", "Why?", "--chain", folder), ("publish", "adapter", folder, "--repo", "org/x")):
            with pytest.raises(MissingModel, match=re.escape(words)):
                assay(*command)


def test_ask_shows_a_verdict_whole_however_long_it_is():
    text = "The enzyme is X.\nAnswer: up\nConfidence: 90%"
    reason = f"it says up; the answer is {'very ' * 40}down"
    verdict = verify(kmp_test()[0], text).model_copy(update={"verdict": "incorrect", "reason": reason})
    done = Completion(stage="sft", text=text, n_tokens=9, finish_reason="stop")
    console = Console(width=60, record=True, file=StringIO())
    console.print(_panel(StageReply(completion=done, confidence=verdict.confidence, verdict=verdict)))
    assert reason in " ".join(console.export_text().replace("│", " ").split())


def test_ask_shows_control_characters_as_marks(original):
    """A random model writes escape bytes; none of them may reach the terminal."""
    shown = assay("ask", "Why?", "--chain", original, "--temperature", 3).stdout
    assert not any(not c.isprintable() and c != "\n" for c in shown)


def test_a_command_that_takes_long_says_on_standard_error_what_it_does_until_it_prints(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "SLOW_SECONDS", 0.01)
    monkeypatch.setattr(terminal, "LINE_SECONDS", 0.01)
    seen: list[str] = []

    def wait_for(told):
        limit = time.monotonic() + 60
        while told not in "".join(seen) and time.monotonic() < limit:
            seen.append(capsys.readouterr().err)
            time.sleep(0.01)
        assert told in "".join(seen)
        seen.clear()

    with progress_shown("assay chain check"):
        wait_for("assay chain check, ")
        with progress_shown() as progress:
            progress(0.4, "loading the model")
            wait_for("loading the model (40%), ")
        wait_for("assay chain check, ")
        emit({"checks": 8}, as_json=True)
        assert capsys.readouterr().out == '{\n "checks": 8\n}\n'
        time.sleep(0.1)
        assert capsys.readouterr().err == ""
