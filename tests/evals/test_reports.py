"""Reports, their metrics and files; paired differences, and the leaderboard."""

import json
import math
import re
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from evals.compare import Comparisons, Difference, Pairing, compare
from evals.confidence import Calibrator, fit_calibrator, likelihood, more_confidences, recalibrate
from evals.errors import BadConfig, IncomparableReports, LabError
from evals.leaderboard import LeaderboardRow, has_ranks, leaderboard, questions_needed, shown_ranks, standings
from evals.questions.task import BASELINES, BY_CHANCE, Questions
from evals.report import (
    CONSTANT,
    HEADLINE,
    LOWER_IS_BETTER,
    MEASURES,
    calibration_of,
    cells_of,
    load_report,
    reading,
    save_report,
    summarise,
    tally,
)
from evals.run import RunSettings, rescore, run_task
from evals.schema import ChoiceTruth, CountTruth, EvalReport, EvalRow, GroundTruth, Metric, RubricTruth, TermTruth
from evals.schema.questions import TokenScore
from evals.stats import calibration
from evals.stats.intervals import Units, holm
from lab.commands.terminal import standings_markdown
from tests.evals.reports import TABLES, ScriptedModel, few, judged, report_of, scripted, small_report

METRICS = (*MEASURES, *BY_CHANCE)
REPORT = small_report(24)
RIGHT, WRONG = "correct", "incorrect"
BEFORE = [(WRONG, 0.9), (WRONG, 0.8), (RIGHT, 0.6), (WRONG, None), (RIGHT, 0.7), (WRONG, 0.5)]
AFTER = [(RIGHT, 0.9), (RIGHT, 0.7), (RIGHT, 0.6), (WRONG, 0.4), (RIGHT, 0.9), ("no_claim", 0.5)]


def metric(stage: str, name: str, group: str = "unaided") -> Metric:
    (found,) = (s.metrics[name] for s in REPORT.summaries if (s.stage, s.group) == (stage, group))
    return found


def by_group(rows: list[EvalRow], draws: int = 10) -> dict:
    return {each.group: each for each in summarise(rows, draws=draws)}


# ---- summaries --------------------------------------------------------------------------------


def as_kind(row: EvalRow, truth: GroundTruth) -> EvalRow:
    example = row.example.model_copy(update={"ground_truth": truth, "kind": truth.kind})
    return row.model_copy(update={"example": example})


def test_mechanisms_meanings_and_unscored_rubrics_never_count_in_the_headline() -> None:
    rows = [row for row in REPORT.rows if row.stage == "sft" and row.example.kind != "mechanism"]
    accuracy = metric("sft", "accuracy")
    share = sum(row.verdict.verdict == RIGHT for row in rows) / len(rows)
    assert (accuracy.value, accuracy.n) == (pytest.approx(share), len(rows))
    assert metric("sft", "accuracy", "all").n == len(rows) + metric("sft", "accuracy", "mechanism").n
    direct, one, two = judged("sft", [(RIGHT, 0.9)] * 3)
    own = [as_kind(one, TermTruth(accept=("making fat cells",))), as_kind(two, CountTruth(value=3, subject="heart"))]
    kinds = [[row.example.kind for row in Questions.groups(rows)[HEADLINE]] for rows in ([direct, *own], own)]
    assert kinds == [["direct", "count"], ["term", "count"]]
    free = as_kind(one, RubricTruth(items=("It falls.",)))
    unscored = free.model_copy(update={"verdict": free.verdict.model_copy(update={"reward": None})})
    counted = [{name: s.metrics["reward"].n for name, s in by_group([direct, row]).items()} for row in (unscored, free)]
    assert counted == [{"all": 1, "unaided": 1, "direct": 1}, {"all": 2, "unaided": 2, "direct": 1, "rubric": 1}]


def test_every_summary_counts_how_its_answers_were_read_and_how_many_have_a_readable_line() -> None:
    outcomes = [(RIGHT, 0.9), (WRONG, None), ("contradictory", 0.5), ("no_claim", 0.5)]
    text, unread = judged("sft", [(RIGHT, 0.9)] * 2, read_by="text"), judged("sft", [("no_claim", None)], read_by=None)
    found = by_group([*judged("sft", outcomes), *text, *unread])["all"]
    assert found.read_by == {"answer": 4, "text": 2, "none": 1}
    assert reading(found.read_by) == "line 4, text 2, not read 1"
    assert found.metrics["line_share"].value == pytest.approx(1 / 7)
    old = by_group([*judged("sft", outcomes, read_by=None)])["all"]
    assert (old.read_by, reading(old.read_by)) == ({}, "not recorded")


def test_every_metric_has_n_and_an_interval_around_it_and_shares_add_up() -> None:
    for summary in REPORT.summaries:
        assert tuple(summary.metrics) == METRICS
        for name, found in summary.metrics.items():
            if found.value is None:
                assert found.note and (found.n == 0 or name == "auroc")
            elif found.note == CONSTANT or name in BY_CHANCE:
                assert found.low is None and found.high is None and found.n
            elif name != "ece":  # resampled ECE is biased upward: its interval need not hold it
                assert found.low - 1e-9 <= found.value <= found.high + 1e-9 and found.low < found.high
        shares = {name: summary.metrics[name].value or 0.0 for name in METRICS}
        assert shares["stated_share"] + shares["missing_share"] + shares["invalid_share"] == pytest.approx(1)
        assert shares["accuracy"] + shares["no_claim_share"] + shares["contradictory_share"] <= 1 + 1e-9


def test_what_states_nothing_claims_nothing_or_never_differs_is_told_as_such() -> None:
    assert (metric("base", "ece").value, metric("base", "stated_share").value) == (None, 0.0)
    only = "only a confidence, 50%"
    assert (metric(only, "brier").value, metric(only, "stated_share").value) == (None, 1.0)
    reward, empty = metric(only, "reward"), metric("empty answer", "accuracy")
    assert reward.value is not None and reward.n > 1
    assert (reward.low, reward.high, reward.note) == (None, None, CONSTANT)
    assert (empty.value, empty.low) == (0.0, 0.0) and empty.high > 0.05 and "Wilson" in empty.note
    marks = {summary.stage: summary.is_baseline for summary in REPORT.summaries}
    unknown = {"most frequent in training, 60%"}  # no training rows were given
    assert marks == {"base": False, "sft": False} | dict.fromkeys(BASELINES.keys() - unknown, True)
    few = by_group([*judged("sft", [(RIGHT, 0.9), (WRONG, 0.6), (RIGHT, 0.7)])], 200)["all"].metrics
    assert few["brier"].note == "from 3 clusters: the interval is too narrow"
    rows = judged("sft", [((RIGHT, WRONG)[i % 7 == 0], 0.5 + i / 60) for i in range(24)])
    many = by_group([*rows], 500)["all"].metrics
    assert many["brier"].note is None
    assert re.fullmatch(r"undefined in \d+\.\d % of the draws, left out", many["auroc"].note or "")


def test_the_calibration_of_a_stage_and_the_means_of_its_verifiers_agree_with_its_summary() -> None:
    found = calibration_of(REPORT, "sft")
    for name in ("ece", "brier", "base_rate_brier", "log_loss", "auroc", "aurc"):
        assert getattr(found, name) == pytest.approx(metric("sft", name).value), name
        assert found.n - found.n_missing_confidence == metric("sft", name).n
    assert metric("sft", "ece_if_calibrated").value == pytest.approx(found.ece_if_calibrated.mean, abs=0.003)
    assert metric("sft", "ece_if_calibrated_q95").value == pytest.approx(found.ece_if_calibrated.q95, abs=0.01)
    rows = [row for row in REPORT.rows if row.stage == "sft" and row.example.kind != "mechanism"]
    for name in ("V1", "V2", "V3", "V4"):
        given = [s for row in rows if (s := row.verdict.scores.get(name)) is not None]
        value = pytest.approx(np.mean(given)) if given else None
        assert (metric("sft", name).n, metric("sft", name).value) == (len(given), value)
    for stage, group in (("dpo", "unaided"), ("sft", "count")):
        with pytest.raises(BadConfig, match=rf"{stage}.*{group}.*base, sft.*unaided"):
            calibration_of(REPORT, stage, group)


def test_draws_of_clusters_give_what_draws_of_rows_give_and_extra_cells_change_nothing() -> None:
    rows = [row for row in small_report(40, "empty answer").rows if row.stage == "sft"]
    claims = [row for row in rows if row.verdict.verdict != "no_claim"]
    table, padded = tally(rows), tally(rows, cells=cells_of(rows) | {(0.01, True), (0.99, False)})
    place = [table.clusters.index(row.example.cluster) for row in claims]
    weights = Units.of(table.clusters).draw(200, np.random.default_rng(0))[:, place]
    c = np.array([row.verdict.confidence.value for row in claims], dtype=np.float64)
    y = np.array([row.verdict.verdict == RIGHT for row in claims], dtype=np.float64)
    for name in ("brier", "base_rate_brier", "log_loss", "auroc", "aurc", "mean_confidence"):
        expected = getattr(calibration, name)(c, y, weights)
        assert table.metric(name, table.bootstrap_sums(200, seed=0)) == pytest.approx(expected, nan_ok=True), name
    silent = tally(judged("silent", [(RIGHT, None), ("no_claim", 0.9)]))
    for name, each in MEASURES.items():
        values = [t.metric(name, t.totals())[0] for t in (table, padded)]
        assert values[0] == pytest.approx(values[1], nan_ok=True), name
        assert np.isnan(silent.metric(name, silent.totals())[0]) == (silent.n(name) == 0), name
        assert each.undefined
    assert silent.metric("stated_share", silent.totals())[0] == 0.5


def test_each_metric_stands_on_the_page_on_metrics_and_errors_are_better_low() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    spelt = page.replace("`V1` … `V4`", "`V1` `V2` `V3` `V4`")
    assert [name for name in METRICS if f"`{name}`" not in spelt] == []
    assert {"ece", "brier", "log_loss", "aurc", "missing_share", "no_claim_share"} <= LOWER_IS_BETTER
    assert not {"accuracy", "reward", "auroc", "line_share", "stated_share"} & LOWER_IS_BETTER
    assert MEASURES["mean_confidence"].better is None


# ---- files ------------------------------------------------------------------------------------


def test_a_report_comes_back_as_it_was_saved_and_its_summary_can_be_recomputed(tmp_path: Path) -> None:
    path = tmp_path / "reports" / "r.json"
    save_report(REPORT, path)
    assert load_report(path) == REPORT and summarise(load_report(path).rows) == REPORT.summaries
    assert [file.name for file in path.parent.iterdir()] == ["r.json"]
    (tmp_path / "file").write_text("kept")
    for unwritable in (tmp_path / "reports", tmp_path / "file" / "x.json"):
        with pytest.raises(LabError, match="cannot write"):
            save_report(REPORT, unwritable)
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["file", "r.json", "reports"]


def test_what_is_no_report_is_refused_with_a_remedy_or_the_field_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    for content in (None, b"", b"{}", b"[1]", b"\xff\xfe"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(LabError, match="assay eval run"):
            load_report(path)
    spoilt = (
        (lambda d: d["rows"][3]["verdict"].update(reward=7), "rows.3.verdict.reward"),
        (lambda d: d["rows"][0].pop("completion"), "rows.0.completion"),
        (lambda d: d.update(extra=1), "extra"),
        (lambda d: d["rows"].append(d["rows"][0]), "rows"),
    )
    for change, field in spoilt:
        document = json.loads(REPORT.model_dump_json())
        change(document)
        path.write_text(json.dumps(document), encoding="utf-8")
        with pytest.raises(LabError, match=f"field '{field}'"):
            load_report(path)


# ---- paired differences -----------------------------------------------------------------------


def found_of(report: EvalReport, name: str, **options: object) -> Difference:
    pairing = Pairing(metrics=[name], group="all", **options)
    return compare([((report, "before"), (report, "after"))], pairing).comparisons[0].differences[0]


def both(before: list, after: list, clusters: list[str] | None = None) -> EvalReport:
    return report_of(*judged("before", before, clusters), *judged("after", after, clusters))


def many(n: int) -> EvalReport:
    chance = np.random.default_rng(3)
    rights = chance.random(n) < 0.4, chance.random(n) < 0.7
    sure = chance.choice([0.6, 0.8, 0.9], n), chance.choice([0.55, 0.75, 0.95], n)
    sides = [
        [(RIGHT if y else WRONG, float(c)) for y, c in zip(*side, strict=True)]
        for side in zip(rights, sure, strict=True)
    ]
    return both(*sides)


def test_the_permutation_p_counts_every_swap_of_whole_clusters() -> None:
    def brier(rows: list[tuple[bool, float]]) -> float:
        return sum((stated - right) ** 2 for right, stated in rows) / len(rows)

    names = ["a", "a", "b", "c", "c", "c", "d", "e", "e", "f"]
    for seed in range(3):
        chance = np.random.default_rng(seed)
        stated = chance.choice([0.15, 0.65, 0.95], 10), chance.choice([0.25, 0.65, 0.85], 10)
        sides = [[(bool(y), float(c)) for y, c in zip(chance.random(10) < 0.6, at, strict=True)] for at in stated]
        observed, far = brier(sides[1]) - brier(sides[0]), 0
        for swap in product((0, 1), repeat=6):
            swapped = dict(zip("abcdef", swap, strict=True))
            mixed = [[sides[side ^ swapped[name]][i] for i, name in enumerate(names)] for side in (0, 1)]
            far += abs(brier(mixed[1]) - brier(mixed[0])) >= abs(observed) - 1e-9
        found = found_of(both(*([(RIGHT if y else WRONG, c) for y, c in side] for side in sides), names), "brier")
        assert found.is_exact and (found.value, found.p_permutation) == pytest.approx((observed, far / 64))
    alone, together = (found_of(both(BEFORE, AFTER, c), "reward") for c in (None, ["a", "a", "b", "c", "c", "d"]))
    assert alone.value == pytest.approx(together.value) and alone.p_permutation != together.p_permutation


def test_a_confidence_counts_only_where_its_side_makes_a_claim_and_what_is_undefined_says_why() -> None:
    found = found_of(both(BEFORE, AFTER), "brier")
    assert found.n == 5
    assert found.first == pytest.approx(np.mean([0.81, 0.64, 0.16, 0.09, 0.25]))
    assert found.second == pytest.approx(np.mean([0.01, 0.09, 0.16, 0.16, 0.01]))
    note = r"undefined in \d+\.\d % of the swaps, left out"
    assert re.fullmatch(note, found_of(both(BEFORE, AFTER), "auroc").note)
    stages = [((REPORT, "base"), (REPORT, "sft"))]
    (same,) = compare(stages, Pairing(metrics=["stated_share"])).comparisons[0].differences
    assert (same.value, same.low, same.high, same.note) == (1.0, None, None, CONSTANT)
    two = compare(stages, Pairing(metrics=["ece", "reward"]))
    ece, reward = two.comparisons[0].differences
    assert (ece.value, ece.p_permutation) == (None, None)
    assert ece.note == "the first side: no claim with a stated confidence"
    assert two.n_tests == 1 and reward.p_holm == reward.p_permutation
    for itself in compare([((REPORT, "sft"), (REPORT, "sft"))]).comparisons[0].differences:
        assert (itself.value, itself.low, itself.note) == (0.0, None, CONSTANT)
        assert (itself.p_permutation, itself.p_holm) == ((1.0, 1.0) if itself.is_tested else (None, None))


def test_what_is_asked_for_at_once_is_corrected_at_once_and_repeats() -> None:
    report = many(30)
    pairs = [((report, "before"), (report, "after")), ((report, "after"), (report, "before"))]
    pairing = Pairing(metrics=("accuracy", "reward", "brier"), group="all", draws=500, seed=4)
    found = compare(pairs, pairing)
    assert found == compare(pairs, pairing) == Comparisons.model_validate_json(found.model_dump_json())
    tests = [d for pair in found.comparisons for d in pair.differences]
    assert [d.metric for d in tests if d.p_mcnemar is not None] == ["accuracy"] * 2
    smallest = min(tests, key=lambda d: d.p_permutation)
    assert found.n_tests == len(tests) == 6
    assert smallest.p_holm == pytest.approx(min(1, 6 * smallest.p_permutation))
    assert all(d.p_holm >= d.p_permutation for d in tests)


def test_a_difference_is_shown_only_by_interval_and_corrected_p() -> None:
    usual = {"first": 0.2, "second": 0.5, "value": 0.3, "low": 0.1, "high": 0.5, "p_holm": 0.01}
    rows = TABLES["reports: differences that are shown and better"]
    found = [(Difference(metric=name, n=9, **usual | changes), shown, better) for name, changes, shown, better in rows]
    assert [each for each, shown, better in found if (each.is_shown, each.is_better) != (shown, better)] == []


def test_reports_of_other_instruments_questions_or_rows_are_refused_with_what_to_do() -> None:
    def other(**changes: object) -> EvalReport:
        return REPORT.model_copy(update=changes)

    refused = (
        (other(versions=REPORT.versions | {"verifiers": "verifiers-0"}), r"verifiers-0.*assay eval rescore"),
        (other(versions=REPORT.versions | {"confidence": "confidence-0"}), r"confidence-0.*assay eval rescore"),
        (other(data_sha256="f" * 64, data_name="kmp-test"), r"kmp-test, ffffff.*assay eval run --data"),
    )
    for report, message in refused:
        with pytest.raises(IncomparableReports, match=message):
            compare([((REPORT, "sft"), (report, "sft"))])
    before, after = judged("before", BEFORE), judged("after", AFTER)
    truth = after[0].example.model_copy(update={"answer": "something else"})
    for rows in (after[1:], (after[0].model_copy(update={"example": truth}), *after[1:])):
        with pytest.raises(BadConfig, match=rf"{truth.id}.*1 in all"):
            found_of(report_of(*before, *rows), "reward")
    unknown = (("dpo", "reward", "unaided", "dpo.*base, sft"), ("sft", "bleu", "unaided", "bleu.*accuracy"))
    for stage, name, group, message in (*unknown, ("sft", "reward", "count", "count.*unaided")):
        with pytest.raises(BadConfig, match=message):
            compare([((REPORT, "base"), (REPORT, stage))], Pairing(metrics=[name], group=group))


def test_other_settings_and_ways_of_reading_are_compared_with_a_note() -> None:
    slower = REPORT.model_copy(update={"settings": {"max_new_tokens": 48}})
    (pair,) = compare([((REPORT, "sft"), (slower, "sft"))]).comparisons
    assert pair.notes == ("max_new_tokens: 96 and 48",)
    line, text = judged("before", BEFORE), judged("after", AFTER, read_by="text")
    pairing = Pairing(metrics=["accuracy"], group="all", draws=50)
    one, apart = report_of(*line, *text), (report_of(*line), report_of(*text))
    (pair,) = compare([((one, "before"), (one, "after"))], pairing).comparisons
    assert (pair.first.read_by, pair.second.read_by, pair.notes) == ({"answer": 6}, {"text": 6}, ())
    (pair,) = compare([((apart[0], "before"), (apart[1], "after"))], pairing).comparisons
    assert pair.notes == ("answers read by: line 6 and text 6",)


# ---- leaderboard ------------------------------------------------------------------------------


def made(**rights: tuple[int, int]) -> EvalReport:
    """Return a report of stages that are right in the first so many, and wrong in the rest."""
    sides = {stage: [(RIGHT, 0.7)] * right + [(WRONG, 0.7)] * wrong for stage, (right, wrong) in rights.items()}
    return report_of(*(row for stage, rows in sides.items() for row in judged(stage, rows)))


def test_models_and_baselines_stand_in_one_table_best_first() -> None:
    other = REPORT.model_copy(update={"chain_name": "another"})
    rows = leaderboard([REPORT, other])
    values = [row.metrics["reward"].value for row in rows]
    assert values == sorted(values, reverse=True)
    assert {row.chain for row in rows if not row.is_baseline} == {"scripted", "another"}
    assert {row.chain for row in rows if row.is_baseline} == {None} and {row.group for row in rows} == {"unaided"}
    assert len({(row.chain, row.stage) for row in rows}) == len(rows)  # a baseline of both appears once
    assert rows[0].rank == 1 and rows[0].from_best is None
    assert [row.from_best.value for row in rows[1:]] == pytest.approx([value - values[0] for value in values[1:]])
    by_brier = leaderboard([REPORT], order="brier")
    values = [row.metrics["brier"].value for row in by_brier]
    defined = [value for value in values if value is not None]
    assert values == sorted(defined) + [None] * (len(values) - len(defined))
    ranks = {row.stage: row.rank for row in by_brier}
    assert ranks["base"] is None and ranks["sft"] is not None
    assert leaderboard([]) == ()


def test_a_rank_is_earned_by_a_clear_difference_and_shared_without_one() -> None:
    def ranks(report: EvalReport) -> dict[str, int | None]:
        return {row.stage: row.rank for row in leaderboard([report], order="accuracy", draws=1000)}

    assert ranks(made(best=(28, 2), close=(27, 3), poor=(3, 27))) == {"best": 1, "close": 1, "poor": 3}
    # Six questions gained and none lost: p = 2 / 64 alone, and not below 0.05 for three pairs.
    assert ranks(made(a=(16, 14), b=(10, 20))) == {"a": 1, "b": 2}
    assert ranks(made(a=(16, 14), b=(10, 20), c=(11, 19))) == {"a": 1, "b": 1, "c": 1}
    for order in ("brier", "ece", "log_loss"):
        first, last = leaderboard([made(sure=(30, 0), wrong=(0, 30))], order=order, draws=1000)
        assert (first.stage, last.stage) == ("sure", "wrong")
        assert order != "ece" or (first.rank, last.rank, last.from_best.p_holm) == (1, 1, None)  # it ranks nobody
    rows = leaderboard([REPORT], group="all", order="reward", draws=1000)
    _, *weaker = [row.stage for row in rows if row.is_baseline]
    assert [row.stage for row in rows if row.rank is None] == weaker, "what no reader asks is not tested"
    assert {row.from_best.p_holm for row in rows if row.rank is None} == {None}
    ranked = [row for row in rows if row.rank]
    pairs = list(combinations([row.stage for row in ranked], 2))
    asked = [((REPORT, one), (REPORT, other)) for one, other in pairs]
    found = [p.differences[0] for p in compare(asked, Pairing(metrics=["reward"], group="all", draws=1000)).comparisons]
    adjusted = holm([d.p_permutation if d.excludes_zero else 1.0 for d in found])
    worse = [d.excludes_zero and d.value < 0 and p < 0.05 for d, p in zip(found, adjusted, strict=True)]
    beaten = {row.stage: sum(w for (_, o), w in zip(pairs, worse, strict=True) if o == row.stage) for row in ranked}
    assert [row.rank for row in ranked] == [1 + beaten[row.stage] for row in ranked]


def test_a_shared_rank_is_marked_whatever_stands_between() -> None:
    cases = TABLES["reports: shared ranks"]
    assert [ranks for ranks, shown in cases if shown_ranks(ranks) != shown] == []


def test_reports_that_cannot_share_a_table_are_refused_with_what_to_do() -> None:
    def other(**changes: object) -> list[EvalReport]:
        return [REPORT, REPORT.model_copy(update=changes)]

    old = {"verifiers": "verifiers-0", "confidence": "confidence-1"}
    mixed = ((other(versions=old), "instruments"), (other(versions={}), "instruments"))
    for reports, message in (*mixed, (other(data_sha256="f" * 64), "different questions")):
        with pytest.raises(IncomparableReports, match=message):
            leaderboard(reports)
    few = tuple(s.model_copy(update={"metrics": {"accuracy": s.metrics["accuracy"]}}) for s in REPORT.summaries)
    refused = [
        ([REPORT], {"group": "count"}, r"'count'; known are all, unaided"),
        ([REPORT], {"order": "bleu"}, r"'bleu'; it can be by accuracy"),
        ([REPORT], {"order": "mean_confidence"}, "mean_confidence"),
        ([REPORT, REPORT], {}, "two reports measure 'base' of 'scripted'"),
        (other(summaries=few)[1:], {}, "assay eval rescore"),
    ]
    for change in ({"value": 0.99}, {"value": None}, {"n": 5}):
        spoilt = [
            s.model_copy(update={"metrics": s.metrics | {"accuracy": s.metrics["accuracy"].model_copy(update=change)}})
            if (s.stage, s.group) == ("sft", "unaided") else s
            for s in REPORT.summaries
        ]  # fmt: skip
        message = r"accuracy .*'sft', its rows give .*assay eval rescore"
        refused.append((other(summaries=tuple(spoilt))[1:], {}, message))
    for reports, options, message in refused:
        with pytest.raises(BadConfig, match=message):
            leaderboard(reports, **options)


def test_each_way_of_reading_has_rows_and_each_set_of_questions_a_table_of_its_own() -> None:
    outcomes = {"sft": [(RIGHT, 0.7)] * 6, "empty answer": [("no_claim", None)] * 6}
    line, text = (
        report_of(*(row for stage, rows in outcomes.items() for row in judged(stage, rows, read_by=way)))
        for way in ("answer", "text")
    )
    rows = leaderboard([line, text], "all", "accuracy", draws=50)
    assert [(row.stage, row.read_by) for row in rows] == [(s, {w: 6}) for s in outcomes for w in ("answer", "text")]
    own, another = (report_of(*judged("sft", [(RIGHT, 0.7)] * n), *judged("base", [(WRONG, 0.7)] * n)) for n in (8, 6))
    another = another.model_copy(update={"data_name": "another"})
    found = standings([own, another])
    assert [board.data_name for board in found] == ["pathways-heldout", "another"]
    assert found[0].rows == leaderboard([own])
    with pytest.raises(IncomparableReports, match="rescore"):
        standings([own, another.model_copy(update={"versions": {"verifiers": "verifiers-0"}})])


def test_reports_of_another_number_type_or_length_of_answers_are_not_ranked_together() -> None:
    told = [{"dtype": "float32", "max_new_tokens": 96}, {"dtype": "bfloat16", "max_new_tokens": 160}, {}]
    rounded, plain, silent = (
        report_of(*judged(name, [(RIGHT, 0.7)] * 6)).model_copy(update={"settings": each, "chain_name": name})
        for name, each in zip(("one", "two", "three"), told, strict=True)
    )
    gap = r"dtype float32 and bfloat16, max_new_tokens 96 and 160; answer again"
    with pytest.raises(IncomparableReports, match=gap):
        leaderboard([rounded, plain], "all")
    assert [row.chain for row in leaderboard([rounded, silent], "all", draws=50)] == ["one", "three"]


def test_a_stage_that_left_answers_out_stands_last_without_a_rank_and_beside_itself_with_all_of_them() -> None:
    whole = made(good=(28, 2), poor=(3, 27))
    kept = [row for row in whole.rows if row.stage == "good"][:20]
    changes = {"settings": whole.settings | {"abstain_below": "60%"}, "data_sha256": whole.data_sha256}
    apart = report_of(*kept).model_copy(update=changes)
    rows = leaderboard([whole, apart], order="accuracy", draws=200)
    ranks = [(row.stage, row.abstains_below, row.rank) for row in rows]
    assert ranks == [("good", None, 1), ("poor", None, 2), ("good", "60%", None)]
    assert rows[-1].from_best is None and rows[-1].metrics["accuracy"].n == 20
    assert "good of made up, abstains below 60% |" in standings_markdown(standings([whole, apart], order="accuracy"))
    with pytest.raises(BadConfig, match="without --abstain-below"):
        compare([((whole, "poor"), (apart, "good"))])


def test_where_nobody_is_shown_to_be_better_it_is_said_how_many_questions_would_show_fifteen_points() -> None:
    chance = np.random.default_rng(0)

    def rows_of(n: int) -> tuple[LeaderboardRow, ...]:
        sides = [[(RIGHT if y else WRONG, 0.7) for y in chance.random(n) < 0.5] for _ in range(2)]
        names = [f"c{k}" for k in range(n)]
        report = report_of(*judged("one", sides[0], names), *judged("two", sides[1], names))
        return leaderboard([report], "all", "accuracy", draws=500)

    needed = [questions_needed(rows) for rows in map(rows_of, (25, 100))]
    assert all(each and 120 <= each <= 260 for each in needed), "(2.8 · .71 / .15)² = 175"
    assert not has_ranks(rows_of(25))


# ---- recalibrated confidences ------------------------------------------------------------------


def too_sure(split: str, first: int, last: int) -> list[EvalRow]:
    """Return rows of a stage that states 90 % and is right in every third, each in a cluster of its own."""
    outcomes = [(WRONG if n % 3 else RIGHT, 0.9) for n in range(48)]
    rows = judged("sft", outcomes)[first:last]
    return [row.model_copy(update={"example": row.example.model_copy(update={"split": split})}) for row in rows]


def fitted(*rows: EvalRow, **options: object) -> Calibrator:
    return fit_calibrator(report_of(*rows), "sft", "platt", **options)


def test_a_calibrator_is_shown_on_other_answers_than_those_it_is_fitted_on() -> None:
    dev, test = too_sure("dev", 0, 24), too_sure("test", 24, 48)
    found = fitted(*dev, *test)
    assert (found.fitted_on, found.n, found.before.n, found.after.n) == ("dev", 24, 24, 24)
    assert found.after.brier < found.before.brier - 0.1
    again = fit_calibrator(report_of(*test), "sft", "platt", report_of(*dev))
    assert again.model_dump(exclude={"data_sha256"}) == found.model_dump(exclude={"data_sha256"})
    crossed = fitted(*test, *(row.model_copy(update={"example": row.example}) for row in too_sure("test", 0, 24)))
    assert (crossed.fitted_on, crossed.n, crossed.after.n) == ("folds", 48, 48)
    held_out = [name for each in crossed.folds for name in each.clusters]
    assert sorted(held_out) == sorted({row.cluster for row in (*dev, *test)}), "each shown by a curve fitted without it"
    with pytest.raises(BadConfig, match="takes 20 answers"):
        fitted(*dev[:19])


def test_recalibrated_answers_are_a_stage_of_their_own_and_other_weights_or_kinds_are_refused() -> None:
    rows = too_sure("test", 0, 48)
    calibrator, sums = fitted(*rows), {"sft": "1" * 64}
    made = recalibrate(rows, [calibrator], sums)
    assert {row.stage for row in made} == {"sft recalibrated"}
    assert all(
        0.2 < row.verdict.confidence.value < 0.5 and row.verdict.verdict == old.verdict.verdict
        for row, old in zip(made, rows, strict=True)
    )
    board = standings([report_of(*rows, *made)], order="brier")[0].rows
    assert [row.stage for row in board if not row.is_baseline] == ["sft recalibrated", "sft"]
    kept = rescore(report_of(*made)).report.rows
    assert [row.given for row in kept] == [row.given for row in made], "a new reading keeps what was given"
    with pytest.raises(BadConfig, match="belongs to other weights"):
        recalibrate(rows, [calibrator], {"sft": "2" * 64})
    of_a_term = rows[0].example.model_copy(update={"ground_truth": TermTruth(accept=("x",))})
    other = rows[0].model_copy(update={"example": of_a_term})
    with pytest.raises(BadConfig, match="about questions of the kinds direct, not term"):
        recalibrate([other], [calibrator], sums)


class Likely(ScriptedModel):
    """The scripted model, with a probability of 0.5 for what it wrote and of 0.125 for each of three other options."""

    def token_scores(self, prompts, stage, texts, sampling):
        assert all("Answer: up" in text for text in texts)
        likeliest = {" u": 0.5, " d": 0.125, " m": 0.125, " c": 0.125, "x": 0.001}
        top = tuple((text, math.log(p)) for text, p in likeliest.items())
        return [[TokenScore(" u", math.log(0.5), top), TokenScore("p", 0.0, (("p", 0.0),))] for _ in texts]


def test_likelihood_and_agreement_of_samples_stand_beside_what_is_stated_as_stages_of_their_own() -> None:
    examples = [each for each in few(24) if each.kind == "direct"][:3]
    model, told = Likely({("sft", each.prompt): "Answer: up\nConfidence: 70%" for each in examples}), []
    rows = run_task(Questions(), model, examples, ("sft",), RunSettings())
    sources = ("stated", "likelihood", "samples:2")
    made = more_confidences(Questions(), model, rows, sources, RunSettings(), lambda *each: told.append(each))
    by = {
        stage: [row.verdict.confidence.value for row in made if row.stage == stage] for stage in {r.stage for r in made}
    }
    assert by == {"sft likelihood": [pytest.approx(0.5 / 0.875)] * 3, "sft samples-2": [1.0] * 3}
    assert told[-1][0] == 1.0
    with pytest.raises(BadConfig, match="choose from stated, likelihood and samples:8"):
        more_confidences(Questions(), model, rows, ("mood",), RunSettings(), lambda *_: None)
    with pytest.raises(BadConfig, match="likelihood"):
        more_confidences(Questions(), scripted(examples), rows, ("likelihood",), RunSettings(), lambda *_: None)


ONE_OF = ("1", "10", "two genes", "two cells")


def token(text: str, others: dict[str, float]) -> TokenScore:
    """Return a token that was written with what is left of 1, and others in its place."""
    mine = 1 - sum(others.values())
    return TokenScore(text, math.log(mine), ((text, math.log(mine)), *((k, math.log(p)) for k, p in others.items())))


def test_a_likelihood_is_the_share_of_the_answer_among_options_and_unknown_where_too_few_tokens_are_told() -> None:
    (row,) = judged("sft", [(RIGHT, 0.9)])
    wrong = []
    for said, lettered, tokens, expected in TABLES["reports: likelihood of an answer among its options"]:
        truth = ChoiceTruth(value="1", options=ONE_OF, answerable=True, lettered=lettered)
        example = row.example.model_copy(update={"ground_truth": truth})
        verdict = row.verdict.model_copy(update={"answer": said})
        asked = row.model_copy(update={"example": example, "verdict": verdict})
        found = likelihood(asked, [token(*each) for each in tokens])
        wrong += [] if found == pytest.approx(expected) else [(said, tokens, found)]
    assert not wrong
