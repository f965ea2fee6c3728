"""`assay refiner run`, `eval rescore` and `eval compare`: a real chain answers records, the report is read back and compared."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.refine.bank import BASELINES
from evals.refine.files import records_sha256
from evals.report import load_report
from evals.schema.refiner import RefinerRecord
from evals.schema.reports import RefinerReport
from lab.cli import app
from tests.training.judge_server import JudgeServer
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


def test_a_report_tells_nothing_of_the_folders_of_this_machine(folder: Path):
    assert str(folder) not in (folder / "report.json").read_text(encoding="utf-8")


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


def test_the_command_tells_of_a_limit_but_not_where_the_judge_is(folder: Path):
    out, rows = folder / "voted.json", folder / "records.jsonl"
    with JudgeServer() as server:
        words = ["refiner", "run", "--chain", str(folder / "sft"), "--judge", server.url, "--data", str(rows)]
        words[5] += "#tiny-judge"
        done = CliRunner().invoke(app, [*words, "--stage", "sft", "--limit", "1", "--out", str(out)])
        assert done.exit_code == 0, done.output
    assert told(out) == [
        *("chain sft", "data records.jsonl", "judge URL#tiny-judge", "limit 1"),
        *("out voted.json", "stage sft", "task refine"),
    ]
    assert load_report(out, RefinerReport).judge_mode == "batched"


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


def test_another_judge_reads_the_answers_of_a_report(folder: Path, again: Path):
    with JudgeServer() as server:
        words = ["eval", "rescore", str(again), "--judge", f"{server.url}#tiny-judge"]
        words += ["--data", str(folder / "records.jsonl")]
        done = CliRunner().invoke(app, [*words, "--out", str(folder / "served.json")])
        assert done.exit_code == 0, done.output
    assert "tiny-judge" in load_report(folder / "served.json", RefinerReport).judge


@pytest.mark.parametrize("named", ["recs.jsonl (first 2)", "recs (first draft).jsonl (first 2)"])
def test_a_report_on_the_first_records_is_judged_again_wherever_its_file_is_now(
    folder: Path, tmp_path: Path, named: str
):
    moved = shutil.copy(folder / "records.jsonl", tmp_path / "moved (first draft).jsonl")
    done = CliRunner().invoke(app, rescored(first_two(folder, tmp_path, named), "--data", moved))
    assert done.exit_code == 0, done.output
    new = load_report(tmp_path / "new.json", RefinerReport)
    assert new.data_name == named
    assert {row.scored.record_id for row in new.rows} == {row["id"] for row in RECORDS[:2]}


def test_a_name_that_only_looks_like_a_number_of_first_records_is_a_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    shutil.copy(folder / "records.jsonl", tmp_path / "recs (first draft).jsonl")
    old = load_report(folder / "report.json", RefinerReport)
    kept = old.model_copy(update={"data_name": "recs (first draft).jsonl"})
    (tmp_path / "old.json").write_text(kept.model_dump_json(), encoding="utf-8")
    done = CliRunner().invoke(app, rescored(tmp_path / "old.json"))
    assert done.exit_code == 0, done.output


def first_two(folder: Path, place: Path, name: str) -> Path:
    """Write the part of the report that is about its first two records, and return the file."""
    old = load_report(folder / "report.json", RefinerReport)
    records = [RefinerRecord.model_validate(row) for row in RECORDS[:2]]
    known = {record.id for record in records}
    rows = tuple(row for row in old.rows if row.scored.record_id in known)
    changed = {"data_name": name, "data_sha256": records_sha256(records), "rows": rows}
    (place / "old.json").write_text(old.model_copy(update=changed).model_dump_json(), encoding="utf-8")
    return place / "old.json"


def rescored(report: Path, *words: object) -> list[str]:
    """Return the words that have a report judged again, by words, into new.json beside it."""
    out = report.with_name("new.json")
    return ["eval", "rescore", str(report), "--judge", "heuristic", "--out", str(out), *map(str, words)]


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
