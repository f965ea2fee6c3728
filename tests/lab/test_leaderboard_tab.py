import re
from dataclasses import replace

import pytest

from evals.compare import Difference
from evals.leaderboard import leaderboard
from evals.questions.task import BASELINES
from evals.report import MEASURES, build_report
from evals.schema import Metric
from lab.results.leaderboard import board, difference_cell
from lab.shared.evaluations import Evaluations, Outdated
from lab.ui.components import interval, measure, number, stage_name
from tests.lab.evaluations import CASES, open_tab, plain, scripted_report
from tests.lab.votes import services_in


def shown(report, *chosen):
    """Return the words of the page for a report, its default choices or those chosen."""
    return plain(board(Evaluations((report,)), None, *(chosen or (None,))).page)


@pytest.mark.parametrize("count", [0, 1])
def test_a_report_of_something_else_is_named_and_its_figures_are_not_shown(count, tmp_path):
    current = (scripted_report(),) * count
    old = Outdated("old.json", "other weights than this chain's", "assay eval run --chain mine")
    services = replace(services_in(tmp_path), reports=lambda: Evaluations(current, (old,)))
    figures = open_tab(services).page
    assert "old.json was measured on other weights" in plain(figures)
    assert "assay eval run --chain mine" in plain(figures)
    assert ("<table" in figures) is bool(current)


def test_every_stage_and_every_baseline_stands_in_one_table_with_n_interval_and_how_it_was_read():
    report = scripted_report()
    page = shown(report)
    assert all(f" {name} " in page for name in ("Base", "SFT", "GRPO"))
    strongest = [name for name in BASELINES if f"{name} baseline" in page]
    assert len(strongest) == 1
    assert f"{len(BASELINES) - 1} weaker baselines" in page
    assert all(f"{name}: " in page for name in set(BASELINES) - set(strongest))
    assert "empty answer: 0.0 % read by text 59" in page
    assert re.search(r"always down, 60%: [\d.]+ % (?!read)", page)
    (summary,) = [s for s in report.summaries if (s.stage, s.group) == ("grpo", "unaided")]
    metric = summary.metrics["accuracy"]
    span = interval(metric.low, metric.high, "share")
    assert f"GRPO {number(metric.value, 'share')} {span} · n = {metric.n}" in page


def test_the_headline_group_is_shown_first_and_another_group_or_other_questions_can_be_chosen(tmp_path):
    reports = (scripted_report(), scripted_report("kmp-test"))
    found = open_tab(services_in(tmp_path, reports))
    data, group, tables = found.data, found.group, found.page
    assert group["value"] == "unaided"
    assert ["All questions (107)", "all"] in [list(choice) for choice in group["choices"]]
    assert "n = 107" in shown(reports[0], "all")
    assert "n = 107" not in plain(tables)
    assert [choice[0] for choice in data["choices"]] == [
        "Pathways in held-out tissues (107)",
        "KMP study, test set (20)",
    ]
    found = open_tab(services_in(tmp_path, reports), "?questions=kmp-test&group=direct&order=ece")
    data, tables = found.data, found.page
    assert data["value"] == "kmp-test"
    assert "--data kmp-test" in plain(tables)
    found = board(Evaluations(reports), "kmp-test", "conservation")  # a group that these questions do not have
    assert (found.report.data_name, found.group) == ("kmp-test", "unaided")


def test_the_ranked_entries_are_drawn_with_their_intervals_best_first_and_only_stages_that_follow_stand_in_the_table():
    report = scripted_report()
    found = board(Evaluations((report,)), None)
    names = [trace.y[0] for trace in found.forest.data]
    assert {"Base", "SFT", "GRPO"} < {*names} and len(names) == 4, "and the strongest baseline"
    values = [trace.x[0] for trace in found.forest.data]
    assert values == sorted(values, reverse=True)
    assert found.forest.layout.yaxis.categoryarray == tuple(reversed(names))
    steps, others = found.page.split("<details><summary>Other pairs")
    assert "Base → SFT" in plain(steps) and "SFT → GRPO" in plain(steps)
    assert "Base → GRPO" not in plain(steps) and "Base → GRPO" in plain(others)


def test_a_difference_is_told_with_whether_it_is_more_than_chance():
    pattern = (
        r"GRPO is shown to be better than Base on accuracy: difference \+(\S+) points, "
        r"95 % interval \+(\S+) to \S+ points, p (?:< )?\S+, after correction for 9 differences "
        r"(?:< )?\S+, 107 answers\."
    )
    found = re.search(pattern, shown(scripted_report(), "all"))
    assert found
    assert float(found[1]) > float(found[2]) > 0
    may_be_chance = r"SFT is not shown to be better or worse than Base on Brier score: diff"
    assert re.search(may_be_chance, shown(scripted_report(), "all", "brier"))


def difference_of(**changes):
    """A difference in accuracy that is more than chance, changed."""
    usual = {"metric": "accuracy", "first": 0.2, "second": 0.5, "value": 0.3, "n": 59}
    found = {"low": 0.1, "high": 0.5, "p_permutation": 0.001, "p_holm": 0.004}
    measure = MEASURES[changes.get("metric", "accuracy")]
    return Difference(**usual | found | changes, better=measure.better, is_tested=measure.is_tested)


@pytest.mark.parametrize(("changes", "words"), CASES["differences"])
def test_a_difference_claims_something_only_if_interval_and_corrected_p_allow_it(changes, words):
    assert words in plain(difference_cell(difference_of(**changes)))


def test_a_rank_is_the_one_that_the_statistics_give_and_a_shared_one_says_so():
    report = scripted_report()
    rows = leaderboard([report], "unaided", "brier")
    page = shown(report, None, "brier")
    first = [row for row in rows if row.rank == 1]
    assert 1 < len(first) < len(rows)
    assert f"{len(first)} entries share rank 1: " in page
    for row in rows:
        name = row.stage if row.is_baseline else stage_name(row.stage)
        sharing = sum(other.rank == row.rank for other in rows)
        shared = f" shared by {sharing}" if row.rank and sharing > 1 else ""
        told = "no rank" if row.rank is None else f"rank {row.rank}"
        assert (f"{name}: " if row.rank is None and row.is_baseline else f"{told}{shared} {name}") in page


def test_an_ece_orders_the_table_but_ranks_nobody_and_the_page_says_why():
    page = shown(scripted_report(), None, "ece")
    assert "ECE only sorts them, because chance adds more" in page
    assert "Order by Brier score or log loss" in page
    assert "SFT and GRPO on ECE: difference" in page and "This cannot be tested" in page
    assert not re.search(r"shown to be (better|worse) than \w+ on ECE", page)
    assert " rank 2 " not in page


def test_instrument_settings_and_command_stand_beneath_and_markup_in_them_is_text():
    report = scripted_report()
    page = shown(report)
    assert all(told in page for told in (*report.versions.values(), report.command, report.data_sha256[:12]))
    marked = report.model_copy(update={"command": "<script>alert(1)</script>"})
    assert "<script" not in board(Evaluations((marked,)), None, None).page


@pytest.mark.parametrize(("metric", "told"), CASES["metrics"])
def test_a_missing_figure_is_never_shown_as_zero(metric, told):
    assert plain(measure(metric and Metric(**metric))) == told


def test_stages_that_left_answers_out_are_shown_without_ranks_and_not_compared():
    report = scripted_report()
    own = {"base", "sft", "grpo"}
    sure = [row for row in report.rows if row.stage not in own or (row.verdict.confidence.value or 0) >= 0.5]
    settings = report.settings | {"abstain_below": "50%"}
    about = {"chain_name", "stage_checksums", "data_name", "created_at", "command", "libraries"}
    examples = {row.example.id: row.example for row in report.rows}
    known = {name: getattr(report, name) for name in about}
    page = shown(build_report(list(examples.values()), sure, **known, settings=settings))
    assert "no rank SFT abstains below 50%, so it answered other questions than the rest" in page
    assert "Does training help?" not in page
