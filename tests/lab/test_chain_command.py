"""What `assay chain` and `assay ask` show: tables for people, one JSON document for programs."""

import json
import shutil
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig, ChainMismatch, LabError, MissingModel
from evals.questions import pathway_heldout
from lab.cli import app
from tests.models import tiny_chain


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return tiny_chain(tmp_path_factory.mktemp("runs")).parent


@pytest.fixture
def runs(original, tmp_path, monkeypatch):
    """Runs of its own for each test, the base beside them."""
    shutil.copytree(original, tmp_path / "runs")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "runs"


def assay(*words):
    """Run the command; a LabError comes out as `main` would meet it."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_the_list_names_every_run_with_a_chain(runs):
    rows = json.loads(assay("chain", "list", "--runs", runs, "--json").stdout)
    here = {row["name"]: row["stages"] for row in rows}
    assert here == {
        "embedded": ["base", "sft", "dpo", "grpo"],
        "reviewer": ["base", "review"],
        "refiner": ["base", "sft", "refiner"],
        str(runs / "grpo"): ["base", "sft", "grpo"],
        str(runs / "sft"): ["base", "sft"],
    }
    assert "base → sft → grpo" in assay("chain", "list", "--runs", runs).stdout


def test_a_broken_chain_is_listed_with_its_problem(runs):
    (runs / "sft" / "chain.json").write_text("{}")
    rows = json.loads(assay("chain", "list", "--runs", runs, "--json").stdout)
    problems = {row["name"]: row["problem"] for row in rows}
    assert "is not a chain" in problems[str(runs / "sft")]
    assert problems[str(runs / "grpo")] is None


def test_check_lists_every_check_of_a_sound_chain(runs):
    rows = json.loads(assay("chain", "check", runs / "grpo", "--json").stdout)
    assert {row["result"] for row in rows} == {"ok"}
    assert [row["subject"] for row in rows if row["check"] == "probe"] == ["base", "sft", "grpo"]


def test_check_fails_on_a_tampered_adapter_and_still_shows_the_rest(runs, capfd):
    with (runs / "sft" / "adapter" / "adapter_model.safetensors").open("ab") as file:
        file.write(b"\0")
    done = CliRunner().invoke(app, ["chain", "check", str(runs / "grpo"), "--json"])
    results = {(row["subject"], row["check"]): row["result"] for row in json.loads(done.stdout)}
    assert results["sft", "adapter"] == "WRONG"
    assert results["grpo", "adapter"] == "ok"
    assert isinstance(done.exception, LabError)


def test_ask_prints_one_answer_per_stage_with_its_confidence(runs):
    asked = ("ask", "Which way?", "--chain", runs / "grpo", "--max-new-tokens", 8)
    document = json.loads(assay(*asked, "--json").stdout)
    assert [each["completion"]["stage"] for each in document["answers"]] == ["base", "sft", "grpo"]
    assert {each["confidence"]["status"] for each in document["answers"]} <= {"missing", "invalid"}
    assert all(each["verdict"] is None for each in document["answers"])
    assert document["settings"]["max_new_tokens"] == 8
    shown = assay(*asked).stdout
    assert all(f" {stage} " in shown for stage in ("base", "sft", "grpo"))


def test_ask_says_on_standard_error_when_another_base_stood_in(runs, monkeypatch):
    from training.models import chain as chains

    note, find = "the package is missing, so a copy was taken", chains.find_base
    monkeypatch.setattr(chains, "find_base", lambda *a: replace(find(*a), substitutions=(note,)))
    done = assay("ask", "Why?", "--chain", runs / "sft", "--max-new-tokens", 2, "--json")
    assert note in " ".join(done.stderr.split())
    assert note not in done.stdout


def test_ask_takes_a_base_that_moved(runs):
    (runs / "model").rename(runs / "elsewhere")
    asked = ("ask", "Why?", "--chain", runs / "sft", "--max-new-tokens", 2, "--json")
    with pytest.raises(MissingModel, match="name it with --base"):
        assay(*asked)
    assert len(json.loads(assay(*asked, "--base", runs / "elsewhere").stdout)["answers"]) == 2


def test_ask_judges_the_answer_to_a_question_of_ours(runs):
    example = pathway_heldout()[0]
    asked = ("ask", f"  {example.prompt.upper()} ", "--chain", runs / "grpo", "--stage", "sft")
    (answer,) = json.loads(assay(*asked, "--max-new-tokens", 4, "--json").stdout)["answers"]
    assert answer["verdict"]["verdict"] in {"no_claim", "incorrect", "correct", "contradictory"}
    assert answer["verdict"]["reason"]


def test_ask_shows_control_characters_as_marks(runs):
    """A random model writes escape bytes; none of them may reach the terminal."""
    shown = "".join(
        assay("ask", "Why?", "--chain", runs / "grpo", "--temperature", 3, "--seed", seed).stdout for seed in range(3)
    )
    assert not any(not c.isprintable() and c != "\n" for c in shown)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("ask", "Why?", "--chain", "nowhere"), MissingModel, "no chain 'nowhere'"),
        (("ask", " ", "--chain", "{grpo}"), LabError, "the question is empty"),
        (("ask", "Why?", "--chain", "{grpo}", "--stage", "dpo"), BadConfig, "no stage 'dpo'"),
        (("ask", "Why?", "--chain", "{grpo}", "--seed", "-1"), BadConfig, "seed is -1"),
        (("chain", "show", "{runs}"), MissingModel, "no chain"),
        (("chain", "check", "nowhere"), MissingModel, "assay chain list"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(runs, words, error, message):
    filled = [word.format(grpo=runs / "grpo", runs=runs) for word in words]
    with pytest.raises(error, match=message):
        assay(*filled)


def test_a_wrong_base_is_refused_before_anything_is_answered(runs):
    (runs / "model" / "chat_template.jinja").write_text("{{ messages[0].content }}")
    with pytest.raises(ChainMismatch, match="chat template"):
        assay("ask", "Why?", "--chain", runs / "grpo")
