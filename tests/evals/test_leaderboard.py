from itertools import combinations

import pytest

from evals.compare import Pairing, compare
from evals.errors import BadConfig, IncomparableReports
from evals.leaderboard import LeaderboardRow, leaderboard, standings
from evals.schema import EvalReport, StageSummary
from evals.stats.paired import holm
from tests.evals.reports import judged, report_of, small_report

REPORT = small_report(24)


def test_models_and_baselines_stand_in_one_table_best_first() -> None:
    rows = leaderboard([REPORT])
    values = [row.metrics["reward"].value for row in rows]
    assert values == sorted(values, reverse=True)
    assert {row.chain for row in rows if not row.is_baseline} == {"scripted"}
    assert {row.chain for row in rows if row.is_baseline} == {None}
    assert {row.group for row in rows} == {"unaided"}


def test_lower_is_better_for_errors_and_what_is_undefined_comes_last() -> None:
    values = [row.metrics["brier"].value for row in leaderboard([REPORT], order="brier")]
    defined = [value for value in values if value is not None]
    assert defined == sorted(defined)
    assert values[len(defined) :] == [None] * (len(values) - len(defined))


def test_a_baseline_of_several_reports_appears_once() -> None:
    other = REPORT.model_copy(update={"chain_name": "another"})
    rows = leaderboard([REPORT, other])
    names = [(row.chain, row.stage) for row in rows]
    assert len(names) == len(set(names))
    assert ("another", "sft") in names and ("scripted", "sft") in names


@pytest.mark.parametrize("versions", [{"verifiers": "verifiers-0", "confidence": "confidence-1"}, {}])
def test_reports_of_different_instruments_are_not_mixed(versions: dict[str, str]) -> None:
    other = REPORT.model_copy(update={"versions": versions})
    with pytest.raises(IncomparableReports, match="instruments"):
        leaderboard([REPORT, other])


def test_reports_on_different_questions_are_not_mixed() -> None:
    other = REPORT.model_copy(update={"data_sha256": "f" * 64})
    with pytest.raises(IncomparableReports, match="different questions"):
        leaderboard([REPORT, other])


def test_no_reports_make_an_empty_table() -> None:
    assert leaderboard([]) == ()


def test_an_unknown_group_or_metric_is_named_with_the_known_ones() -> None:
    with pytest.raises(BadConfig, match=r"'count'; known are all, unaided"):
        leaderboard([REPORT], group="count")
    with pytest.raises(BadConfig, match=r"'bleu'; it can be by accuracy"):
        leaderboard([REPORT], order="bleu")


def test_a_metric_without_a_better_end_orders_nothing() -> None:
    with pytest.raises(BadConfig, match="mean_confidence"):
        leaderboard([REPORT], order="mean_confidence")


def test_a_report_without_the_metric_is_told_to_be_rescored() -> None:
    few = tuple(
        each.model_copy(update={"metrics": {"accuracy": each.metrics["accuracy"]}}) for each in REPORT.summaries
    )
    with pytest.raises(BadConfig, match="assay eval rescore"):
        leaderboard([REPORT.model_copy(update={"summaries": few})])


def made(**rights: tuple[bool, ...]) -> EvalReport:
    """Return a report of stages that are right where they are said to be."""
    return report_of(
        *(
            row
            for stage, right in rights.items()
            for row in judged(stage, [("correct" if y else "incorrect", 0.7) for y in right])
        )
    )


def ranks(rows: tuple[LeaderboardRow, ...]) -> dict[str, int | None]:
    return {row.stage: row.rank for row in rows}


def test_a_rank_is_earned_by_a_clear_difference_and_shared_without_one() -> None:
    best, close = (True,) * 28 + (False,) * 2, (True,) * 27 + (False,) * 3
    poor = (True,) * 3 + (False,) * 27
    rows = leaderboard([made(best=best, close=close, poor=poor)], order="accuracy")
    assert [row.stage for row in rows] == ["best", "close", "poor"]
    assert ranks(rows) == {"best": 1, "close": 1, "poor": 3}


def test_a_difference_that_only_many_comparisons_made_is_no_rank() -> None:
    """Six questions gained and none lost: p = 2 / 64 alone, and not below 0.05 for three pairs."""
    base = (True,) * 10 + (False,) * 20
    better, other = (True,) * 16 + (False,) * 14, (True,) * 11 + (False,) * 19
    assert ranks(leaderboard([made(a=better, b=base)], order="accuracy")) == {"a": 1, "b": 2}
    found = leaderboard([made(a=better, b=base, c=other)], order="accuracy")
    assert ranks(found) == {"a": 1, "b": 1, "c": 1}


def test_ranks_follow_the_paired_comparison_of_the_same_stages() -> None:
    rows = leaderboard([REPORT], group="all", order="reward")
    pairs = list(combinations([row.stage for row in rows], 2))
    found = compare(
        [((REPORT, one), (REPORT, other)) for one, other in pairs],
        Pairing(metrics=["reward"], group="all"),
    )
    differences = [pair.differences[0] for pair in found.comparisons]
    tests = [d.p_permutation if d.excludes_zero else 1.0 for d in differences]
    worse = [d.excludes_zero and d.value < 0 and p < 0.05 for d, p in zip(differences, holm(tests), strict=True)]
    for row in rows:
        beaten = [w for (_, other), w in zip(pairs, worse, strict=True) if other == row.stage]
        assert row.rank == 1 + sum(beaten), row.stage


def test_lower_errors_rank_first() -> None:
    report = made(sure=(True,) * 30, wrong=(False,) * 30)
    for order in ("brier", "ece", "log_loss"):
        first, last = leaderboard([report], order=order)
        assert (first.stage, last.stage) == ("sure", "wrong")


def test_an_ece_orders_but_ranks_nobody() -> None:
    rows = leaderboard([made(sure=(True,) * 30, wrong=(False,) * 30)], order="ece")
    assert [row.stage for row in rows] == ["sure", "wrong"]
    assert {row.rank for row in rows} == {1}
    assert rows[1].from_best is not None and rows[1].from_best.p_holm is None


def test_the_distance_to_the_best_stands_with_its_interval() -> None:
    best, *others = leaderboard([REPORT])
    assert best.from_best is None and best.rank == 1
    for row in others:
        assert row.from_best is not None
        assert row.from_best.value == pytest.approx(row.metrics["reward"].value - best.metrics["reward"].value)


def test_an_entry_without_a_value_has_no_rank() -> None:
    by_stage = ranks(leaderboard([REPORT], order="brier"))
    assert by_stage["base"] is None and by_stage["sft"] is not None


@pytest.mark.parametrize("changes", [{"value": 0.99}, {"value": None}, {"n": 5}])
def test_stored_figures_that_the_rows_do_not_give_are_refused(changes: dict[str, object]) -> None:
    def spoilt(summary: StageSummary) -> StageSummary:
        if (summary.stage, summary.group) != ("sft", "unaided"):
            return summary
        accuracy = summary.metrics["accuracy"].model_copy(update=changes)
        return summary.model_copy(update={"metrics": summary.metrics | {"accuracy": accuracy}})

    report = REPORT.model_copy(update={"summaries": tuple(map(spoilt, REPORT.summaries))})
    with pytest.raises(BadConfig, match=r"accuracy .*'sft', its rows give .*assay eval rescore"):
        leaderboard([report])


def test_two_reports_of_one_chain_on_one_data_set_are_refused() -> None:
    with pytest.raises(BadConfig, match="two reports measure 'base' of 'scripted'"):
        leaderboard([REPORT, REPORT])


def test_figures_of_different_reading_never_share_a_row() -> None:
    line, text = (
        report_of(
            *judged("sft", [("correct", 0.7)] * 6, read_by=way),
            *judged("empty answer", [("no_claim", None)] * 6, read_by=way),
        )
        for way in ("answer", "text")
    )
    rows = leaderboard([line, text], "all", "accuracy", draws=50)
    assert [(row.stage, row.read_by) for row in rows] == [
        ("sft", {"answer": 6}),
        ("sft", {"text": 6}),
        ("empty answer", {"answer": 6}),
        ("empty answer", {"text": 6}),
    ]


def test_each_set_of_questions_has_a_table_of_its_own() -> None:
    other = small_report(8).model_copy(update={"data_name": "another"})
    found = standings([REPORT, other])
    assert [board.data_name for board in found] == ["pathways-heldout", "another"]
    assert found[0].rows == leaderboard([REPORT])


def test_reports_of_different_instruments_stand_on_no_page_together() -> None:
    other = small_report(8).model_copy(update={"versions": {"verifiers": "verifiers-0"}})
    with pytest.raises(IncomparableReports, match="rescore"):
        standings([REPORT, other])
