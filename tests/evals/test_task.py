"""One task is one class, one metric one line: they then stand in every summary."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from typer.testing import CliRunner

from evals.compare import Pairing, compare
from evals.errors import BadConfig
from evals.leaderboard import leaderboard, standings
from evals.papers.collection import read_collection
from evals.questions import kmp_test
from evals.questions.task import Questions
from evals.refine.bank import refiner_bank
from evals.refine.grammar import is_negated
from evals.report import build_report, load_report, save_report, summarise
from evals.review.score import ScoreOptions, score_setup
from evals.run import RunSettings, baseline_rows, run_task
from evals.schema.reports import Report
from evals.task import TASKS, Grade, Message, Task, calibration_metric, mean, share, task_class
from hub.cards.figures import tables_of
from lab.cli import app
from lab.commands.terminal import standings_markdown, summary_table
from lab.results.calibration import figures
from lab.results.leaderboard import Opens, columns_of
from lab.results.reports import calibrated as calibrated_of
from tests.evals.reports import ORIGIN, TABLES, ScriptedModel, small_report

ROOT = Path(__file__).parents[2]
STORED = [path for pattern in TABLES["reports: those that are stored"] for path in sorted(ROOT.glob(pattern))]


def test_a_task_gives_full_reward_to_its_own_answers_and_less_to_every_baseline():
    for name, rows, reference in (("questions", kmp_test(), "answer"), ("refine", refiner_bank().test, "reference")):
        task, asked = task_class(name)(), rows[:4]
        best = [grade.reward for grade in task.grade(asked, [getattr(row, reference) for row in asked])]
        said = {name: texts for name, texts in task.baselines([], asked).items() if name != "reference"}
        # Words never match a claim that denies something, so such a reference is worth less to the judge by words.
        denies = [task.name == "refine" and is_negated(row.reference) for row in asked]
        assert min(reward for reward, denied in zip(best, denies, strict=True) if not denied) > 0.9 and said
        assert sum(best) / len(best) > 0.9
        for policy, texts in said.items():
            assert sum(grade.reward for grade in task.grade(asked, texts)) < sum(best), policy


def test_a_review_is_graded_by_the_concerns_that_humans_share():
    papers, options = read_collection("demonstration").examples[:4], ScoreOptions("lexical", controls=False)
    own = task_class("review")(lambda panel: score_setup(panel, options, None))
    said = ["\n".join(f"- {each.concern_text}" for each in paper.concerns) for paper in papers]
    found, generic = (own.grade(papers, texts) for texts in (said, own.baselines([], papers)["generic list"]))
    assert all(grade.reward > 0.8 for grade in found)
    assert all(low.reward < high.reward for low, high in zip(generic, found, strict=True))
    assert papers[0].title in own.prompt(papers[0])[-1].content


def test_an_unknown_task_is_refused_with_the_names_of_all():
    with pytest.raises(BadConfig, match=", ".join(TASKS)):
        task_class("poetry")


# ---- one line for a metric, one class for a task ------------------------------------------------


def test_a_new_metric_is_one_line_and_stands_everywhere(monkeypatch):
    sure = calibration_metric(lambda c, y, w: w @ (c > 0.5), is_shown=True)
    monkeypatch.setitem(Questions.metrics, "toy_metric", sure)
    report = small_report(12, "empty answer")
    boards = standings([report], order="toy_metric")
    (pair,) = compare([((report, "sft"), (report, "sft"))], Pairing(metrics=["toy_metric"])).comparisons
    assert all("toy_metric" in summary.metrics for summary in report.summaries)
    assert pair.differences[0].value == 0
    assert boards[0].rows[0].metrics["toy_metric"].value is not None
    assert "toy_metric" in standings_markdown(boards)
    assert "toy_metric" in [column.header for column in summary_table(report).columns]
    assert "toy metric" in tables_of(report).columns
    assert "toy_metric" in columns_of(report, "accuracy") or "toy_metric" in columns_of(report, "toy_metric")
    opens = Opens(report, "unaided", {"tab": "calibration"})
    assert "toy metric" in figures(report, "unaided", {"sft": calibrated_of(report, "sft", "unaided")}, opens)


class Sums(Task):
    """Sums that are right or wrong: a whole task."""

    name = "sums"
    metrics: ClassVar = {
        "reward": mean(lambda row: row.grade.reward, is_shown=True),
        "right": share(lambda row: row.grade.reward == 1),
    }
    policies = ("zero",)

    def __init__(self):
        self.rows = [SimpleNamespace(id=f"{n}+1", cluster=str(n // 2), n=n) for n in range(12)]

    def prompt(self, example):
        return (Message(role="user", content=example.id),)

    def grade(self, examples, completions):
        return [Grade(reward=float(text == str(row.n + 1))) for row, text in zip(examples, completions, strict=True)]

    def baselines(self, train, asked):
        return {"zero": ["0"] * len(asked)}

    @staticmethod
    def sha256(examples):
        return "0" * 64


def test_a_new_task_is_one_class_and_one_line_and_is_run_reported_compared_and_ranked(monkeypatch, tmp_path):
    monkeypatch.setitem(TASKS, "sums", f"{__name__}:Sums")
    task = Sums()
    script = {("able", row.id): str(row.n + 1) for row in task.rows} | {("poor", row.id): "1" for row in task.rows}
    rows = run_task(task, ScriptedModel(script), task.rows, ("poor", "able"), RunSettings())
    report = build_report(task.rows, [*rows, *baseline_rows(task, task.rows)], Sums, **ORIGIN)
    save_report(report, tmp_path / "sums.json")
    assert load_report(tmp_path / "sums.json", Report) == report
    assert [row.stage for row in leaderboard([report])] == ["able", "poor", "zero"]
    done = CliRunner().invoke(app, ["eval", "compare", str(tmp_path / "sums.json"), "--json"])
    assert done.exit_code == 0, done.output
    (pair,) = json.loads(done.stdout)["comparisons"]
    assert (pair["first"]["stage"], pair["second"]["stage"]) == ("poor", "able")
    assert [each["value"] for each in pair["differences"]] == pytest.approx([11 / 12] * 2)


def test_stored_reports_of_every_form_are_read_and_their_figures_are_those_of_their_rows():
    wrong, chance = [], {"ece_if_calibrated", "ece_if_calibrated_q95"}
    for path in STORED:
        report = load_report(path, Report)
        if "old" in path.parts:
            continue  # their rows were cut to a few
        again = summarise(report.rows, draws=2, task=task_class(report.task))
        assert len(report.summaries) == len(again)
        known = {(each.stage, each.group): each for each in again}
        for before in report.summaries:
            after = known[before.stage, before.group]
            for name in (after.metrics.keys() & before.metrics.keys()) - chance:
                was, now = before.metrics[name], after.metrics[name]
                wrong += [] if (now.value, now.n) == (pytest.approx(was.value), was.n) else [(path, before.stage, name)]
    assert len(STORED) >= 7 and not wrong
