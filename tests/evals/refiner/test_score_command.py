"""`assay refiner score`, as a person or a script calls it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evals.errors import BadConfig, BadRow
from lab.cli import app
from tests.evals.refiner.answers import TOOL_OUTPUT
from tests.training.judge_server import JudgeServer

ASSAY = Path(sys.executable).with_name("assay")
RECORD = {
    "id": "r1",
    "prompt": "Which way does OXPHOS go in liver?",
    "tool_output": TOOL_OUTPUT,
    "positive_rubrics": [{"title": "way", "description": 'Says that it is "down".'}],
    "negative_rubrics": [{"title": "wrong", "description": 'Says that it is "up".'}],
}
TEXT = "<answer><snippet id=S1,S2>OXPHOS is down</snippet> It falls by 1.9.</answer>"
TABLE = {
    "rubric_raw": {"way": 2, "wrong": 0},
    "claim_support": [1],
    "attribution_relevant": [{"claim": 0, "id": "S1", "relevant": 1}, {"claim": 0, "id": "S2", "relevant": 0}],
    "uncited_needs_citation": [1],
}
CASE: dict[str, object] = {
    "id": "a",
    "record": RECORD,
    "completion": TEXT,
    "config": {"static_rubrics": False},
    "stub_judge": TABLE,
}
FIELDS = {
    "id",
    "format_checks",
    "format_bonus",
    "claims",
    "rubric",
    "citation_precision",
    "citation_recall",
    "citation_f1",
    "reward",
}


def score(folder: Path, *rows: object, judge: str = "stub", more: tuple[str, ...] = ()) -> Result:
    file = folder / "cases.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return CliRunner().invoke(app, ["refiner", "score", str(file), "--judge", judge, "--json", *more])


def test_the_installed_command_scores_a_case_field_by_field(tmp_path: Path):
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps(CASE), encoding="utf-8")
    command = [str(ASSAY), "refiner", "score", str(file), "--judge", "stub", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (row,) = json.loads(done.stdout)
    assert set(row) >= FIELDS
    assert row["claims"] == [{"text": "OXPHOS is down", "ids": ["S1", "S2"]}]
    assert all(row["format_checks"].values())
    assert (row["format_bonus"], row["rubric"]) == (1.0, 1.0)
    assert (row["citation_precision"], row["citation_recall"]) == (0.5, 0.5)
    assert row["reward"] == pytest.approx(10 * (0.8 + 0.2 * 0.5))
    assert "stub (verdicts from a table)" in done.stderr


@pytest.mark.parametrize(
    ("table", "reward"),
    [
        ({**TABLE, "rubric_raw": {"way": 2, "wrong": None}}, None),
        ({**TABLE, "rubric_raw": {"way": 2}}, None),
        ({**TABLE, "rubric_raw": {"way": "2", "wrong": -1}}, 9.0),
        ({**TABLE, "rubric_raw": {"way": 9, "wrong": 0.0}}, 9.0),
        ({**TABLE, "rubric_raw": {"way": True, "wrong": 0}}, None),
        ({**TABLE, "rubric_raw": {"way": "much", "wrong": 0}}, None),
        ({**TABLE, "claim_support": [None]}, None),
        ({**TABLE, "attribution_relevant": []}, None),
        ({**TABLE, "uncited_needs_citation": [None]}, None),
        ({**TABLE, "uncited_needs_citation": []}, 8 + 2 * (2 * 0.5 / 1.5)),
        (None, None),
    ],
)
def test_a_verdict_that_is_none_makes_the_reward_null(tmp_path: Path, table, reward):
    result = score(tmp_path, {**CASE, "stub_judge": table})
    (row,) = json.loads(result.stdout)
    assert row["reward"] == (None if reward is None else pytest.approx(reward))


@pytest.mark.parametrize(
    ("change", "line", "field"),
    [
        ({"record": {**RECORD, "tool_output": "<snippet id=S1>up"}}, 2, "record.tool_output"),
        ({"record": {**RECORD, "prompts": "x"}}, 2, "record.prompts"),
        ({"config": {"gate": "ajar"}}, 2, "config.gate"),
        ({"config": {"gates": "off"}}, 2, "config.gates"),
        ({"config": {"preset": "mine"}}, 2, "config"),
        ({"completion": None}, 2, "completion"),
        ({"stub_judge": {"claim_support": 1}}, 2, "stub_judge.claim_support"),
        ({"stub_judge": {"claim_support": [0.7]}}, 2, "stub_judge.claim_support"),
        ({"stub_judge": {"support": [1]}}, 2, "stub_judge.support"),
        ({"stub_judge": {"rubric_raw": {"wya": 2}}}, 2, "stub_judge"),
        ({"id": "first"}, 2, "id"),
    ],
)
def test_a_bad_case_is_named_by_file_line_and_field(tmp_path: Path, change, line, field):
    result = score(tmp_path, {**CASE, "id": "first"}, {**CASE, **change})
    assert isinstance(result.exception, BadRow)
    assert (result.exception.line, result.exception.field) == (line, field)
    assert "cases.jsonl" in str(result.exception)
    assert not result.stdout


def test_a_misspelt_title_in_a_table_is_named_with_the_nearest_one(tmp_path: Path):
    table = {"rubric_raw": {"way": 2, "wrnog": 0, "Citation Discipline": 2}}
    result = score(tmp_path, {**CASE, "stub_judge": table})
    assert "on 'wrnog', which is no item's title, and none on 'wrong'" in str(result.exception)


def test_the_published_settings_pay_for_silence_and_ours_do_not(tmp_path: Path):
    about = {**RECORD, "negative_rubrics": []}
    raw = {"way": 0, "Citation Discipline": 0, "Off-Query Padding": 0, "Wrong-Entity Confabulation": 0}
    silent = {**CASE, "record": about, "completion": "<answer></answer>", "stub_judge": {"rubric_raw": raw}}
    result = score(tmp_path, {**silent, "config": {"preset": "published"}}, {**silent, "id": "b", "config": {}})
    assert [row["reward"] for row in json.loads(result.stdout)] == [pytest.approx(4.0), 0.0]


def test_who_judged_is_told_and_a_server_can_be_asked(tmp_path: Path):
    with JudgeServer() as server:
        over_http = json.loads(score(tmp_path, CASE, judge=server.url).stdout)[0]
    by_words = json.loads(score(tmp_path, CASE, judge="heuristic").stdout)[0]
    assert over_http["judge"] == "http (tiny-judge)"
    assert over_http["rubric"] == 1.0
    assert "no language model" in by_words["judge"]
    assert by_words["verdicts"]["claims"][0]["start"] == TEXT.index("OXPHOS")


def test_a_server_can_be_asked_for_several_votes(tmp_path: Path):
    with JudgeServer() as server:
        (row,) = json.loads(score(tmp_path, CASE, judge=server.url, more=("--votes", "3")).stdout)
        assert {each.body["seed"] for each in server.requests} == {0, 1}
    assert row["rubric"] == 1.0


@pytest.mark.parametrize(
    ("judge", "votes", "says_what"),
    [
        ("stub", "3", "3 votes are asked of stub, which gives the same verdicts every time"),
        ("heuristic", "2", "2 votes are asked of heuristic"),
        ("http://127.0.0.1:9/v1", "16", "takes 1 to 15"),
        ("heuristic", "16", "takes 1 to 15"),
        ("http://127.0.0.1:9/v1", "0", "takes 1 to 15"),
    ],
)
def test_votes_that_change_nothing_and_too_many_are_refused(tmp_path: Path, judge: str, votes: str, says_what: str):
    refused = score(tmp_path, CASE, judge=judge, more=("--votes", votes))
    assert isinstance(refused.exception, BadConfig)
    assert says_what in str(refused.exception)


def test_a_judge_that_is_none_or_far_away_is_refused(tmp_path: Path):
    assert "there is no judge" in str(score(tmp_path, CASE, judge="gpt").exception)
    far = score(tmp_path, CASE, judge="http://judge.example.org/v1")
    assert "--allow-remote" in str(far.exception)
