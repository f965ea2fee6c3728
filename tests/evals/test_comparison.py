"""Paired differences, held against SciPy and against every arrangement counted out."""

import re
from itertools import product

import numpy as np
import pytest
from scipy import stats

from evals.compare import Comparisons, Difference, Pairing, compare
from evals.errors import BadConfig, IncomparableReports
from evals.report import CONSTANT
from evals.schema import EvalReport, EvalRow
from tests.evals.reports import judged, report_of, small_report

SMALL = small_report(24)
RIGHT, WRONG = "correct", "incorrect"
BEFORE = [(WRONG, 0.9), (WRONG, 0.8), (RIGHT, 0.6), (WRONG, None), (RIGHT, 0.7), (WRONG, 0.5)]
AFTER = [(RIGHT, 0.9), (RIGHT, 0.7), (RIGHT, 0.6), (WRONG, 0.4), (RIGHT, 0.9), ("no_claim", 0.5)]
CLUSTERS = ["a", "a", "b", "c", "c", "d"]


def found_of(report: EvalReport, name: str, **options: object) -> Difference:
    pairing = Pairing(metrics=[name], group="all", **options)
    (pair,) = compare([((report, "before"), (report, "after"))], pairing).comparisons
    (found,) = pair.differences
    return found


def many(n: int, seed: int = 3) -> EvalReport:
    chance = np.random.default_rng(seed)
    stages = {
        stage: [(RIGHT if right else WRONG, float(c)) for right, c in zip(rights, sure, strict=True)]
        for stage, rights, sure in (
            ("before", chance.random(n) < 0.4, chance.choice([0.6, 0.8, 0.9], n)),
            ("after", chance.random(n) < 0.7, chance.choice([0.55, 0.75, 0.95], n)),
        )
    }
    return report_of(*(row for stage, rows in stages.items() for row in judged(stage, rows)))


@pytest.mark.parametrize("name", ["accuracy", "reward", "brier", "ece"])
def test_a_difference_is_second_minus_first(name: str) -> None:
    report = many(40)
    stored = {s.stage: s.metrics[name].value for s in report.summaries if s.group == "all"}
    found = found_of(report, name)
    assert (found.first, found.second) == (stored["before"], stored["after"])
    assert found.value == pytest.approx(stored["after"] - stored["before"])
    assert found.low is not None and found.high is not None and found.low < found.high


@pytest.mark.parametrize("name", ["accuracy", "brier"])
def test_the_interval_is_scipys_paired_bootstrap(name: str) -> None:
    report = many(48)
    columns = {"before": [], "after": []}
    for row in report.rows:
        right, stated = row.verdict.verdict == RIGHT, row.verdict.confidence.value or 0.0
        columns[row.stage].append(right if name == "accuracy" else (stated - right) ** 2)
    theirs = stats.bootstrap(
        (np.array(columns["before"], float), np.array(columns["after"], float)),
        lambda before, after, axis: np.mean(after - before, axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=10_000,
        rng=np.random.default_rng(1),
    )
    found = found_of(report, name)
    ours = (found.low, found.high)
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=0.03)
    assert found.p_bootstrap is not None
    assert (found.p_bootstrap < 0.05) == found.excludes_zero


def test_the_permutation_p_of_the_reward_is_scipys_over_all_arrangements() -> None:
    report = many(11)
    rewards = {
        stage: np.array([row.verdict.reward for row in report.rows if row.stage == stage])
        for stage in ("before", "after")
    }
    theirs = stats.permutation_test(
        (rewards["after"], rewards["before"]),
        lambda after, before, axis: np.mean(after - before, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    found = found_of(report, "reward")
    assert found.is_exact
    assert found.p_permutation == pytest.approx(theirs.pvalue)


def mean_error(rows: list[tuple[bool, float]]) -> float:
    """The Brier score, written out without our code."""
    return sum((stated - right) ** 2 for right, stated in rows) / len(rows)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_permutation_p_counts_every_swap_of_whole_clusters(seed: int) -> None:
    chance = np.random.default_rng(seed)
    names = ["a", "a", "b", "c", "c", "c", "d", "e", "e", "f"]
    sides = [
        [(bool(y), float(c)) for y, c in zip(chance.random(10) < 0.6, at, strict=True)]
        for at in (chance.choice([0.15, 0.65, 0.95], 10), chance.choice([0.25, 0.65, 0.85], 10))
    ]
    observed = mean_error(sides[1]) - mean_error(sides[0])
    far = 0
    for swap in product((0, 1), repeat=6):
        swapped = dict(zip("abcdef", swap, strict=True))
        mixed = [[sides[side ^ swapped[name]][i] for i, name in enumerate(names)] for side in (0, 1)]
        far += abs(mean_error(mixed[1]) - mean_error(mixed[0])) >= abs(observed) - 1e-9
    rows = [
        judged(stage, [(RIGHT if y else WRONG, c) for y, c in side], names)
        for stage, side in zip(("before", "after"), sides, strict=True)
    ]
    found = found_of(report_of(*rows[0], *rows[1]), "brier")
    assert found.value == pytest.approx(observed)
    assert found.is_exact
    assert found.p_permutation == pytest.approx(far / 64)


def test_accuracy_comes_with_mcnemar_over_the_rows_right_on_one_side() -> None:
    report = many(48)
    right = {
        stage: [row.verdict.verdict == RIGHT for row in report.rows if row.stage == stage]
        for stage in ("before", "after")
    }
    gained = sum(not b and a for b, a in zip(right["before"], right["after"], strict=True))
    lost = sum(b and not a for b, a in zip(right["before"], right["after"], strict=True))
    expected = stats.binomtest(gained, gained + lost).pvalue
    assert found_of(report, "accuracy").p_mcnemar == pytest.approx(expected)
    assert found_of(report, "reward").p_mcnemar is None


def test_questions_of_one_cluster_count_as_one_in_a_test() -> None:
    alone = [
        found_of(report_of(*judged("before", BEFORE, names), *judged("after", AFTER, names)), "reward")
        for names in (None, CLUSTERS)
    ]
    assert alone[0].value == pytest.approx(alone[1].value)
    assert alone[0].p_permutation != alone[1].p_permutation


def test_a_confidence_counts_only_where_its_side_makes_a_claim() -> None:
    found = found_of(report_of(*judged("before", BEFORE), *judged("after", AFTER)), "brier")
    assert found.n == 5
    assert found.first == pytest.approx(np.mean([0.81, 0.64, 0.16, 0.09, 0.25]))
    assert found.second == pytest.approx(np.mean([0.01, 0.09, 0.16, 0.16, 0.01]))


def test_a_stage_against_itself_is_no_difference() -> None:
    (pair,) = compare([((SMALL, "sft"), (SMALL, "sft"))]).comparisons
    for found in pair.differences:
        assert (found.value, found.low, found.note) == (0.0, None, CONSTANT)
        assert (found.p_permutation, found.p_holm) == ((1.0, 1.0) if found.is_tested else (None, None))


def calibrated(n: int, seed: int) -> EvalReport:
    """A report of two perfectly calibrated stages: one always states 50 %, one 5 to 95 %."""
    chance = np.random.default_rng(seed)
    sides = {"before": np.full(n, 0.5), "after": chance.choice(np.arange(0.05, 1, 0.1), n)}
    rows = []
    for stage, stated in sides.items():
        right = chance.random(n) < stated
        outcomes = [(RIGHT if y else WRONG, float(c)) for y, c in zip(right, stated, strict=True)]
        rows += judged(stage, outcomes)
    return report_of(*rows)


def test_two_calibrated_stages_are_never_shown_to_differ_in_ece() -> None:
    found = [found_of(calibrated(60, seed), "ece", draws=300) for seed in range(12)]
    assert any(each.excludes_zero for each in found)
    for each in found:
        assert each.value is not None and each.low is not None
        assert (each.p_bootstrap, each.p_permutation, each.p_holm) == (None, None, None)
        assert not each.is_tested and not each.is_shown


def test_lost_draws_and_few_clusters_are_told_beside_the_interval() -> None:
    auroc = found_of(report_of(*judged("before", BEFORE), *judged("after", AFTER)), "auroc")
    assert auroc.note is not None
    assert re.fullmatch(
        r"undefined in \d+\.\d % of the draws, left out; from 6 clusters: the interval is too narrow",
        auroc.note,
    )
    assert found_of(many(40), "accuracy").note is None


def test_a_difference_that_is_the_same_in_every_draw_has_no_interval() -> None:
    (pair,) = compare([((SMALL, "base"), (SMALL, "sft"))], Pairing(metrics=["stated_share"])).comparisons
    (found,) = pair.differences
    assert (found.value, found.low, found.high, found.note) == (1.0, None, None, CONSTANT)
    assert found.p_bootstrap is None and found.p_permutation is not None


def test_a_difference_that_is_undefined_says_of_which_side_and_is_no_test() -> None:
    found = compare([((SMALL, "base"), (SMALL, "sft"))], Pairing(metrics=["ece", "reward"]))
    ece_of, reward = found.comparisons[0].differences
    assert ece_of.value is None and ece_of.p_permutation is None
    assert ece_of.note == "the first side: no claim with a stated confidence"
    assert found.n_tests == 1
    assert reward.p_holm == reward.p_permutation


def test_what_is_asked_for_at_once_is_corrected_at_once() -> None:
    report = many(30)
    names = ("accuracy", "reward", "brier")
    stages = ("before", "after")
    pairs = [((report, one), (report, other)) for one in stages for other in stages if one != other]
    found = compare(pairs, Pairing(metrics=names, group="all"))
    tests = [d for pair in found.comparisons for d in pair.differences]
    assert found.n_tests == len(tests) == 6
    smallest = min(tests, key=lambda d: d.p_permutation or 0)
    assert smallest.p_holm == pytest.approx(min(1, 6 * (smallest.p_permutation or 0)))
    assert all((d.p_holm or 0) >= (d.p_permutation or 0) for d in tests)


def test_the_same_seed_gives_the_same_comparison_and_it_survives_a_file() -> None:
    pairs = [((SMALL, "base"), (SMALL, "sft"))]
    found = compare(pairs, Pairing(draws=500, seed=4))
    assert found == compare(pairs, Pairing(draws=500, seed=4))
    assert Comparisons.model_validate_json(found.model_dump_json()) == found


def test_reports_of_other_verifiers_are_refused_with_what_to_do() -> None:
    old = SMALL.model_copy(update={"versions": SMALL.versions | {"verifiers": "verifiers-0"}})
    with pytest.raises(IncomparableReports, match=r"verifiers-0.*assay eval rescore") as caught:
        compare([((SMALL, "sft"), (old, "sft"))])
    assert "confidence" not in str(caught.value)


def test_reports_of_another_extractor_are_refused_with_what_to_do() -> None:
    old = SMALL.model_copy(update={"versions": SMALL.versions | {"confidence": "confidence-0"}})
    with pytest.raises(IncomparableReports, match=r"confidence-0.*assay eval rescore"):
        compare([((SMALL, "sft"), (old, "sft"))])


def test_reports_on_other_questions_are_refused_with_what_to_do() -> None:
    other = SMALL.model_copy(update={"data_sha256": "f" * 64, "data_name": "kmp-test"})
    with pytest.raises(IncomparableReports, match=r"kmp-test, ffffff.*assay eval run --data"):
        compare([((SMALL, "sft"), (other, "sft"))])


def without_first(rows: tuple[EvalRow, ...]) -> tuple[EvalRow, ...]:
    return rows[1:]


def with_another_truth(rows: tuple[EvalRow, ...]) -> tuple[EvalRow, ...]:
    example = rows[0].example.model_copy(update={"answer": "something else"})
    return (rows[0].model_copy(update={"example": example}), *rows[1:])


@pytest.mark.parametrize("change", [without_first, with_another_truth])
def test_stages_that_answered_other_rows_are_refused_by_the_name_of_one(change) -> None:
    after = judged("after", AFTER)
    report = report_of(*judged("before", BEFORE), *change(after))
    with pytest.raises(BadConfig, match=rf"{after[0].example.id}.*1 in all"):
        found_of(report, "reward")


@pytest.mark.parametrize(
    ("stages", "name", "group", "complaint"),
    [
        (("base", "dpo"), "reward", "unaided", "dpo.*base, sft"),
        (("base", "sft"), "bleu", "unaided", "bleu.*accuracy"),
        (("base", "sft"), "reward", "count", "count.*unaided"),
    ],
)
def test_an_unknown_stage_metric_or_group_is_named_with_the_known_ones(
    stages: tuple[str, str], name: str, group: str, complaint: str
) -> None:
    pairs = [((SMALL, stages[0]), (SMALL, stages[1]))]
    with pytest.raises(BadConfig, match=complaint):
        compare(pairs, Pairing(metrics=[name], group=group))


def test_reports_with_other_settings_are_compared_with_a_note() -> None:
    other = SMALL.model_copy(update={"settings": {"max_new_tokens": 48}})
    (pair,) = compare([((SMALL, "sft"), (other, "sft"))]).comparisons
    assert pair.notes == ("max_new_tokens: 96 and 48",)


def test_answers_read_in_different_ways_are_compared_with_their_counts_and_a_note_between_reports() -> None:
    line, text = judged("before", BEFORE), judged("after", AFTER, read_by="text")
    pairing = Pairing(metrics=["accuracy"], group="all", draws=50)
    both = report_of(*line, *text)
    (pair,) = compare([((both, "before"), (both, "after"))], pairing).comparisons
    assert (pair.first.read_by, pair.second.read_by) == ({"answer": 6}, {"text": 6})
    assert pair.notes == ()
    reports = report_of(*line), report_of(*text)
    (pair,) = compare([((reports[0], "before"), (reports[1], "after"))], pairing).comparisons
    assert pair.notes == ("answers read by: line 6 and text 6",)
