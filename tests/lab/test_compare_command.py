"""`assay eval compare`, `assay eval rescore` and `assay leaderboard`, as a person or a script calls them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.compare import Comparisons, Pairing, compare
from evals.errors import BadConfig, IncomparableReports, LabError
from evals.leaderboard import Standings
from evals.questions.task import Questions
from evals.report import instrument, load_report, save_report
from lab.cli import app
from lab.commands.tables import comparison_table
from tests.evals.reports import small_report

RUN = CliRunner()
REPORT = small_report(16)
OLD = {"verifiers": "verifiers-0", "confidence": "confidence-0"}


def document(*arguments: str) -> object:
    result = RUN.invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def stored(folder: Path, name: str = "a.json", **changes: object) -> str:
    path = folder / name
    save_report(REPORT.model_copy(update=changes), path)
    return str(path)


def test_stages_of_one_report_are_compared_in_the_order_named(tmp_path: Path) -> None:
    found = document("eval", "compare", stored(tmp_path), "--stages", "sft,base")
    (pair,) = Comparisons.model_validate(found).comparisons
    assert (pair.first.stage, pair.second.stage) == ("sft", "base")
    assert tuple(each.metric for each in pair.differences) == Questions.compared
    assert pair.n_clusters <= pair.n


def test_two_reports_are_compared_stage_by_stage(tmp_path: Path) -> None:
    reports = stored(tmp_path), stored(tmp_path, "b.json", chain_name="another")
    found = document("eval", "compare", *reports, "--metric", "reward", "--group", "all")
    pairs = Comparisons.model_validate(found).comparisons
    assert [(p.first.stage, p.second.stage) for p in pairs] == [("base", "base"), ("sft", "sft")]
    assert {(p.first.chain, p.second.chain) for p in pairs} == {("scripted", "another")}


def test_a_stage_of_one_report_is_compared_with_another_stage_of_the_other(tmp_path: Path) -> None:
    reports = stored(tmp_path), stored(tmp_path, "b.json", chain_name="another")
    found = document("eval", "compare", *reports, "--stage", "base,sft")
    (pair,) = Comparisons.model_validate(found).comparisons
    assert (pair.first.chain, pair.first.stage) == ("scripted", "base")
    assert (pair.second.chain, pair.second.stage) == ("another", "sft")


def test_a_person_reads_difference_interval_and_p(tmp_path: Path) -> None:
    command = ["eval", "compare", stored(tmp_path), "--metric", "accuracy", "--draws", "20000"]
    shown = " ".join(RUN.invoke(app, command, catch_exceptions=False).stdout.split())
    for part in ("base → sft", "accuracy", "McNemar", "exact", "p, Holm", "95 % intervals"):
        assert part in shown


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"versions": REPORT.versions | {"verifiers": "verifiers-0"}}, "assay eval rescore"),
        ({"versions": REPORT.versions | {"confidence": "confidence-0"}}, "assay eval rescore"),
        ({"data_sha256": "f" * 64}, "assay eval run --data pathways-heldout"),
    ],
)
def test_reports_that_cannot_be_compared_are_refused_with_what_to_do(
    changes: dict[str, object], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(IncomparableReports, match=complaint):
        document("eval", "compare", stored(tmp_path), stored(tmp_path, "b.json", **changes))


@pytest.mark.parametrize(
    ("n", "options", "complaint"),
    [
        (1, ["--stages", "sft"], "two stages to compare, found sft"),
        (2, ["--stages", "base,sft,grpo"], "name one stage"),
        (3, [], "one report or two, found 3"),
        (1, ["--stages", "sft,dpo"], "dpo"),
        (1, ["--metric", "bleu"], "bleu"),
    ],
)
def test_what_cannot_be_compared_is_named(n: int, options: list[str], complaint: str, tmp_path: Path) -> None:
    reports = [stored(tmp_path, f"{place}.json") for place in range(n)]
    with pytest.raises(BadConfig, match=complaint):
        document("eval", "compare", *reports, *options)


def test_reports_without_a_stage_in_common_are_told_to_name_two(tmp_path: Path) -> None:
    only_sft = tuple(each for each in REPORT.summaries if each.stage == "sft")
    only_base = tuple(each for each in REPORT.summaries if each.stage == "base")
    reports = stored(tmp_path, summaries=only_sft), stored(tmp_path, "b.json", summaries=only_base)
    with pytest.raises(BadConfig, match="no stage is in both"):
        document("eval", "compare", *reports)


def test_rescoring_brings_a_report_up_to_date_in_another_file(tmp_path: Path) -> None:
    (row, *others) = REPORT.rows
    wrong = row.verdict.model_copy(update={"verdict": "contradictory"})
    rows = (row.model_copy(update={"verdict": wrong}), *others)
    old, out = stored(tmp_path, rows=rows, versions=OLD), tmp_path / "new" / "b.json"
    before = Path(old).read_bytes()
    found = document("eval", "rescore", old, "--out", str(out))
    assert isinstance(found, dict)
    assert (found["n"], found["n_changed"], found["before"]) == (len(rows), 1, OLD)
    assert found["changes"][0]["example_id"] == row.example.id
    assert {"stage": row.stage, "before": "contradictory", "after": row.verdict.verdict, "n": 1} in (found["counts"])
    written = load_report(out)
    assert (written.rows, written.versions) == (REPORT.rows, instrument())
    assert written.earlier_versions == (OLD,)
    assert Path(old).read_bytes() == before
    assert [file.name for file in out.parent.iterdir()] == ["b.json"]


def test_rescoring_says_how_the_answers_were_read_and_can_be_told_how(tmp_path: Path) -> None:
    old = stored(tmp_path, versions=OLD)
    command = ["eval", "rescore", old, "--out", str(tmp_path / "new.json")]
    shown = RUN.invoke(app, command, catch_exceptions=False).stdout
    assert "How answers are read" in shown and "line 16" in shown
    found = document(*command, "--read", "text")
    assert found["read_by"]["sft"] == {"text": 16}
    assert load_report(tmp_path / "new.json").settings["read"] == "text"
    reports = [stored(tmp_path, "line.json", settings={"read": "auto"}), str(tmp_path / "new.json")]
    shown = RUN.invoke(app, ["eval", "compare", *reports, "--metric", "accuracy"])
    assert "answers read by: line" in " ".join(shown.stderr.split())
    assert "sft of scripted: answers read by text" in " ".join(shown.stdout.split())
    board = RUN.invoke(app, ["leaderboard", *reports, "--order", "accuracy"], catch_exceptions=False)
    assert board.stdout.count("sft of") == 2


def test_rescoring_without_out_replaces_the_report(tmp_path: Path) -> None:
    old = stored(tmp_path, versions=OLD)
    command = ["eval", "rescore", old, "--show"]
    result = RUN.invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0
    assert "0 verdicts of" in " ".join(result.stderr.split())
    assert load_report(Path(old)).versions == instrument()
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_rescoring_shows_every_answer_that_changed_if_asked_to(tmp_path: Path) -> None:
    (row, *others) = REPORT.rows
    wrong = row.verdict.model_copy(update={"verdict": "contradictory", "reason": "said both"})
    old = stored(tmp_path, rows=(row.model_copy(update={"verdict": wrong}), *others), versions=OLD)
    out = str(tmp_path / "new.json")
    terse = RUN.invoke(app, ["eval", "rescore", old, "--out", out]).stdout
    full = RUN.invoke(app, ["eval", "rescore", old, "--out", out, "--show"]).stdout
    assert "contradictory" in terse and "said both" not in terse
    assert "said both" in full


def test_a_spoilt_report_is_named_by_its_field_and_nothing_is_written(tmp_path: Path) -> None:
    path = Path(stored(tmp_path))
    spoilt = json.loads(path.read_text(encoding="utf-8"))
    spoilt["rows"][2]["verdict"]["verdict"] = "maybe"
    path.write_text(json.dumps(spoilt), encoding="utf-8")
    before = path.read_bytes()
    for command in (["eval", "rescore"], ["eval", "compare"], ["leaderboard"]):
        with pytest.raises(LabError, match=r"rows\.2\.verdict\.verdict.*maybe"):
            document(*command, str(path))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_a_leaderboard_is_written_as_markdown_and_json(tmp_path: Path) -> None:
    reports = stored(tmp_path), stored(tmp_path, "b.json", chain_name="a|nother")
    out = tmp_path / "board"
    printed = document("leaderboard", *reports, "--order", "accuracy", "--out", str(out))
    assert sorted(file.name for file in out.iterdir()) == ["leaderboard.json", "leaderboard.md"]
    assert json.loads((out / "leaderboard.json").read_text(encoding="utf-8")) == printed
    (board,) = (Standings.model_validate(each) for each in printed)
    lines = (out / "leaderboard.md").read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == len(board.rows) + 2
    assert {line.replace("\\|", "").count("|") for line in table} == {table[0].count("|")}
    ranks = [row.rank for row in board.rows]
    assert ranks.count(1) > 1
    for row, line in zip(board.rows, table[2:], strict=True):
        accuracy = row.metrics["accuracy"]
        assert line.startswith(f"| {'=' if ranks.count(row.rank) > 1 else ''}{row.rank} | ")
        assert f"{accuracy.value:.3f}, n {accuracy.n} [{accuracy.low:.2f}, {accuracy.high:.2f}]" in line
    assert any("sft of a\\|nother" in line for line in table)
    assert any("corrected by Holm" in line for line in lines)


def test_where_nothing_can_be_written_a_person_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    report, file = stored(tmp_path), tmp_path / "file"
    file.write_text("kept", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    for command in (
        ["eval", "rescore", report, "--out", str(tmp_path / "folder")],
        ["eval", "rescore", report, "--out", str(file / "x.json")],
        ["leaderboard", report, "--out", str(file)],
    ):
        with pytest.raises(LabError, match="cannot write"):
            document(*command)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.json", "file", "folder"]


def test_a_leaderboard_by_ece_says_why_it_ranks_nobody(tmp_path: Path) -> None:
    out = tmp_path / "board"
    command = ["leaderboard", stored(tmp_path), "--order", "ece", "--out", str(out)]
    shown = RUN.invoke(app, command, catch_exceptions=False).stdout
    written = (out / "leaderboard.md").read_text(encoding="utf-8")
    for page in (shown, written):
        assert "ECE orders these entries and ranks none" in " ".join(page.split())
        assert "brier or log_loss" in " ".join(page.split())


def test_an_ece_is_compared_for_reading_with_its_n_and_without_p() -> None:
    stages = ("sft", "tissue majority, 80%")
    pairs = [((REPORT, stages[0]), (REPORT, stages[1]))]
    found = compare(pairs, Pairing(metrics=["ece", "brier"]))
    ece, brier = found.comparisons[0].differences
    table = comparison_table(found)
    cells = {str(column.header): list(column.cells) for column in table.columns}
    assert cells["n"] == [str(ece.n), str(brier.n)]
    assert cells["p"][0] == "not tested" and cells["p, Holm"][0] == ""
    assert cells["p"][1] != "not tested" and found.n_tests == 1


def test_a_leaderboard_does_not_mix_instruments(tmp_path: Path) -> None:
    with pytest.raises(IncomparableReports, match="assay eval rescore"):
        document("leaderboard", stored(tmp_path), stored(tmp_path, "b.json", versions=OLD))


def test_an_outdated_report_on_the_leaderboard_is_told(tmp_path: Path) -> None:
    path = stored(tmp_path, versions=OLD)
    result = RUN.invoke(app, ["leaderboard", path], catch_exceptions=False)
    assert f"assay eval rescore {path}" in result.stderr.replace("\n", "")
    assert "scripted" in result.stdout


@pytest.mark.parametrize("command", [["eval", "compare"], ["eval", "rescore"], ["leaderboard"]])
def test_help_shows_an_example(command: list[str]) -> None:
    result = RUN.invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert f"Example: assay {' '.join(command)}" in " ".join(result.output.split())
