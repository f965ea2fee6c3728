import pytest

from evals.errors import BadConfig, IncomparableReports
from evals.leaderboard import leaderboard
from tests.evals.reports import small_report

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


@pytest.mark.parametrize(
    "versions", [{"verifiers": "verifiers-0", "confidence": "confidence-1"}, {}]
)
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
    with pytest.raises(BadConfig, match=r"'bleu'; known are accuracy"):
        leaderboard([REPORT], order="bleu")
