"""`assay refiner run`, `eval rescore` and `eval compare`: a real chain answers records, the report is read back and compared."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.refine.bank import BASELINES
from evals.report import load_report
from evals.schema.reports import RefinerReport
from lab.cli import app
from tests.training.refiners import RECORDS, with_chain


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny chain, its records, and the report of a run on them."""
    start = with_chain(tmp_path_factory.mktemp("refiner-report"))
    rows = start / "records.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in RECORDS), encoding="utf-8")
    words = ["refiner", "run", "--chain", str(start / "sft"), "--judge", "heuristic", "--data", str(rows)]
    done = CliRunner().invoke(app, [*words, "--max-new-tokens", "1", "--out", str(start / "report.json")])
    assert done.exit_code == 0, done.output
    assert "judged by heuristic" in done.output
    return start


def test_a_report_holds_every_answer_of_every_stage_and_of_those_without_a_model(folder: Path):
    report = load_report(folder / "report.json", RefinerReport)
    assert {row.stage for row in report.rows} == {"base", "sft", *BASELINES}
    assert len(report.rows) == len(RECORDS) * (2 + len(BASELINES))
    means = {each.stage: each.metrics["reward"].value for each in report.summaries}
    assert means["silent"] == 0.0
    assert means["reference"] == max(value for value in means.values() if value is not None)
    assert "heuristic" in report.judge and report.judge_mode == "no language model"
    assert report.stage_checksums["sft"]


def told(report: Path) -> list[str]:
    """Return the words of the command that a report keeps, its options in order of the alphabet."""
    words = shlex.split(load_report(report, RefinerReport).command)
    assert words[:3] == ["assay", "eval", "run"]
    return sorted(" ".join(words[3:]).removeprefix("--").split(" --"))


def test_the_command_that_makes_a_report_again_has_what_differs_from_the_defaults(folder: Path):
    assert told(folder / "report.json") == [
        *("chain sft", "data records.jsonl", "judge heuristic", "max-new-tokens 1"),
        *("out report.json", "stage all", "task refine"),
    ]


def test_two_stages_of_a_report_are_compared(folder: Path):
    words = ["eval", "compare", str(folder / "report.json"), "--stages", "silent,reference", "--json"]
    done = CliRunner().invoke(app, words)
    found = json.loads(done.stdout)
    (pair,) = found["comparisons"]
    reward = next(each for each in pair["differences"] if each["metric"] == "reward")
    assert (pair["first"]["stage"], pair["second"]["stage"], pair["n"]) == ("silent", "reference", len(RECORDS))
    assert reward["value"] > 5
    assert reward["p_permutation"] == 2 / 2 ** len(RECORDS)


@pytest.fixture(scope="module")
def again(folder: Path) -> Path:
    """The report judged again."""
    out = folder / "again.json"
    words = ["eval", "rescore", str(folder / "report.json"), "--judge", "heuristic"]
    words += ["--data", str(folder / "records.jsonl"), "--out", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return out


def test_answers_are_judged_again_without_a_model_and_keep_their_rewards(folder: Path, again: Path):
    old, new = load_report(folder / "report.json", RefinerReport), load_report(again, RefinerReport)
    assert [row.scored for row in new.rows] == [row.scored for row in old.rows]
    assert new.stage_checksums == old.stage_checksums


def test_a_report_judged_again_keeps_both_commands_and_no_folder_of_this_machine(folder: Path, again: Path):
    first, second = load_report(again, RefinerReport).command.split(" && ")
    assert first == load_report(folder / "report.json", RefinerReport).command
    assert second.startswith("assay eval rescore REPORT.json")
    assert str(folder) not in again.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "says_what"),
    [
        (["eval", "compare", "REPORT", "--stages", "sft"], "two stages"),
        (["eval", "rescore", "REPORT", "--judge", "heuristic", "--out", "o.json"], "records.jsonl"),
        (
            ["eval", "rescore", "REPORT", "--judge", "heuristic", "--data", "refiner-train", "--out", "o.json"],
            "other records",
        ),
        (["eval", "compare", "REPORT", "--stages", "sft,refiner"], "the stages base, sft"),
    ],
)
def test_what_cannot_be_compared_or_judged_again_is_refused(folder, words, says_what):
    given = [str(folder / "report.json") if word == "REPORT" else word for word in words]
    done = CliRunner().invoke(app, given)
    assert done.exit_code != 0
    assert says_what in str(done.exception)
