"""`assay review steps`: a tiny run at its checkpoints, by the command that people type."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.errors import BadConfig, LabError
from evals.report import load_report, stages_of
from evals.schema.reports import ReviewReport
from lab.cli import app
from tests.lab.trainings import MEASURE, training_rows
from tests.training.test_review import chat, rows, settings_file
from training import review
from training.config import read_request
from training.review import ReviewSettings
from training.reviewer.measure import steps_of
from training.run.folder import RunFolder
from training.run.session import prepare

RUN = CliRunner()
TOLD = [word for key, value in MEASURE.items() for word in (f"--{key.replace('_', '-')}", str(value))]


def asked(*words: object) -> tuple[dict, str]:
    """Return what the command prints as JSON, and what it says beside it."""
    done = RUN.invoke(app, ["review", "steps", *map(str, words), *TOLD, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus and a finished run of two steps that kept the adapter of each."""
    folder = tmp_path_factory.mktemp("steps")
    training_rows(folder)
    file = settings_file(folder, keep_adapters=True, save_steps=1)
    review.train(prepare("review", read_request(ReviewSettings, ["--config", str(file)])))
    return folder


@pytest.fixture(scope="module")
def compared(place: Path) -> dict:
    words = ("--papers", place / "corpus", "--base", place / "model", "--out", place / "out")
    return asked(place / "run", *words)[0]


def test_every_checkpoint_reviews_the_development_papers_and_is_held_against_the_one_before(
    place: Path, compared: dict
):
    assert [(each["step"], each["is_last"]) for each in compared["steps"]] == [(1, False), (2, True)]
    assert compared["n_articles"] == 3
    for each in compared["steps"]:
        assert (each["n"], each["answered"]) == (3, 3)
        assert each["permuted"] is not None and each["seconds_per_paper"] >= 0
    assert compared["comparisons"]["versions"]["encoder"] == "lexical"
    (pair,) = compared["comparisons"]["comparisons"]
    assert (pair["first"]["stage"], pair["second"]["stage"]) == ("step 1", "step 2")
    assert (place / "run" / "steps" / "1" / "chain.json").is_file()
    assert not list((place / "run").glob("checkpoint-*"))


def test_the_report_is_a_page_that_says_what_it_was_measured_on_and_that_nothing_was_chosen(
    place: Path, compared: dict
):
    page = (place / "out" / "steps.md").read_text(encoding="utf-8")
    assert "3 development papers" in page
    assert "| 2 (last) |" in page
    assert "nothing was chosen" in page
    assert json.loads((place / "out" / "steps.json").read_text(encoding="utf-8")) == compared


def test_help_says_that_a_comparison_needs_two_steps_named():
    done = RUN.invoke(app, ["review", "steps", "--help"], env={"COLUMNS": "200"})
    assert "Only these steps: repeat it, two or more; all if none." in done.stdout


def test_given_again_nothing_is_measured_twice_and_a_step_can_be_named(place: Path, compared: dict):
    words = ("--papers", place / "corpus" / "dev.jsonl", "--base", place / "model")
    again, said = asked(place / "run", *words)
    assert again["steps"] == compared["steps"]
    assert "reviews" not in said
    with pytest.raises(BadConfig, match="step 7 is not here; here are 1, 2"):
        asked(place / "run", *words, "--step", 7)
    with pytest.raises(BadConfig, match="a comparison needs two or more; here are 1, 2"):
        asked(place / "run", *words, "--step", 1)


def test_test_papers_and_papers_that_were_learned_are_refused(place: Path):
    with pytest.raises(BadConfig, match="no papers of the development split"):
        asked(place / "run", "--papers", place / "corpus" / "test.jsonl")
    rows(place, chat("s:2"))
    try:
        with pytest.raises(BadConfig, match="1 of 3 development papers"):
            asked_where(place, place / "corpus")
    finally:
        rows(place, *(chat(f"demo:{n}") for n in range(4)))


def asked_where(place: Path, corpus: Path) -> None:
    """Ask from the folder in which the run's rows are found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        asked(place / "run", "--papers", corpus)


def test_a_run_that_kept_no_adapters_says_how_to_keep_them(place: Path, tmp_path: Path):
    shutil.copytree(place / "run", tmp_path / "run", ignore=shutil.ignore_patterns("steps"))
    with pytest.raises(BadConfig, match="--keep_adapters true"):
        steps_of(RunFolder(tmp_path / "run"))
    with pytest.raises(BadConfig, match="holds no run"):
        steps_of(RunFolder(tmp_path))


def test_the_checkpoints_of_a_run_that_was_stopped_are_taken_over(place: Path, tmp_path: Path):
    from training.run.checkpoints import seal

    run = tmp_path / "run"
    shutil.copytree(place / "run", run, ignore=shutil.ignore_patterns("steps", "reports"))
    for number in (1, 3):
        shutil.copytree(place / "run" / "adapter", run / f"checkpoint-{number}")
    seal(run / "checkpoint-1")  # the other one was cut off
    assert [(each.number, each.is_last) for each in steps_of(RunFolder(run))] == [(1, False), (2, True)]
    assert (run / "steps" / "1" / "adapter" / "adapter_model.safetensors").is_file()


def test_a_run_trained_anew_keeps_no_step_of_the_one_before(place: Path, tmp_path: Path):
    shutil.copytree(place / "run", tmp_path / "run")
    RunFolder(tmp_path / "run").clear()
    assert not list((tmp_path / "run").iterdir())


REPORT = (
    "eval run --task review --stage base,review --split dev --max-new-tokens 60 --temperature 1 --data corpus --chain run"
    " --encoder lexical --threshold 0.1 --limit 3 --out report.json --json"
)


@pytest.fixture(scope="module")
def reported(place: Path) -> Path:
    """A folder with the report on two stages of the run."""
    out = place / "report.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        done = RUN.invoke(app, REPORT.split())
    assert done.exit_code == 0, (done.output, done.exception)
    assert json.loads(done.stdout) == json.loads(out.read_text())
    return out


def test_a_chain_is_run_on_papers_into_one_report_with_what_every_stage_said(place: Path, reported: Path):
    report = load_report(reported, ReviewReport)
    assert [(row.stage, row.id) for row in report.rows] == [
        (s, f"s:{n}") for s in ("base", "review") for n in (1, 2, 3)
    ]
    assert stages_of(report) == ("base", "review")
    assert [list(each.said) for each in report.stages.values()] == [["s:1", "s:2", "s:3"]] * 2
    assert not list(place.glob("report.json.partial"))
    for words in (
        ["eval", "compare", "--task", "review"],
        ["eval", "leaderboard", "--task", "review"],
        ["review", "report"],
    ):
        done = RUN.invoke(app, [*words, str(reported), "--json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output


def test_what_was_said_is_scored_again_and_what_changed_is_listed(place: Path, reported: Path, tmp_path: Path):
    report = json.loads(reported.read_text())
    (human, *_) = (json.loads(line) for line in (place / "corpus" / "dev.jsonl").read_text().splitlines())
    report["stages"]["review"]["said"]["s:1"] = [{"text": human["concerns"][0]["concern_text"]}]
    (tmp_path / "old.json").write_text(json.dumps(report))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        words = ("eval", "rescore", "--task", "review", str(tmp_path / "old.json"), "--json")
        done = RUN.invoke(app, words, catch_exceptions=False)
    found = json.loads(done.stdout)
    assert [(each["example_id"], each["stage"], each["after"]["n_matched"]) for each in found["changes"]] == [
        ("s:1", "review", 1)
    ]
    assert load_report(tmp_path / "old.json", ReviewReport).rows[3].n_matched == 1
    assert "f1" in {each["metric"] for each in found["shifts"]}


def test_a_score_without_texts_is_not_scored_again(reported: Path, tmp_path: Path):
    report = {**json.loads(reported.read_text()), "settings": {}, "stages": {}}
    (tmp_path / "score.json").write_text(json.dumps(report))
    with pytest.raises(LabError, match="keeps no texts"):
        RUN.invoke(app, ["eval", "rescore", "--task", "review", str(tmp_path / "score.json")], catch_exceptions=False)
