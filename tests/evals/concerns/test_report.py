"""Reports on reviewers: gates, groups, errors, paired tests, ranks."""

import json

import pytest

from evals.compare import check_comparable
from evals.errors import IncomparableReports, LabError
from evals.report import load_report, save_report
from evals.review.controls import Paper
from evals.review.match import similarity_of
from evals.review.page import report_page
from evals.review.report import boards_of, compared, errors_of, gates_of, mode_of, report_of
from evals.review.score import Library, Measuring, score
from evals.schema.reports import ReviewReport
from evals.schema.reviews import PredictionRow
from tests.evals.concerns.rows import WordEncoder, human, matcher, panel, predicted, reference

SUBJECTS = ("controls", "statistics", "antibody", "sample", "dose", "strain", "imaging", "cohort")


def said(article: int, n: int) -> list[str]:
    return [f"paper{article} lacks {SUBJECTS[k]} word{article}{k}" for k in range(n)]


def scored(name: str, right: int, wrong: int = 0, threshold: float = 0.8, short: int = -1) -> ReviewReport:
    """Return the score of a system that says `right` true concerns and `wrong` others on eight papers, on `short` one less."""
    pairs = []
    for article in range(8):
        source = "f1000" if article % 2 else "elife"
        texts = said(article, 4)
        listed = [human(text, "design_flaw", "major" if k else "minor") for k, text in enumerate(texts)]
        mine = texts[: right - (article == short)] + [f"nothing{article}{k} of use" for k in range(wrong)]
        pairs.append((reference(f"a{article}", *listed, source=source), predicted(f"a{article}", *mine)))
    of = panel(*pairs)
    encoder = WordEncoder()
    measuring = Measuring(similarity_of(of.predicted, of.human, encoder), encoder, matcher(threshold), draws=200)
    return score(name, of, measuring)


@pytest.fixture(scope="module")
def scores() -> tuple[ReviewReport, ReviewReport, ReviewReport]:
    return scored("good", 4), scored("half", 2, 2), scored("none", 0, 4)


def copier(texts: list[str], said: list[str]) -> ReviewReport:
    """Return the score of a system on eight papers of whose text human concerns quote something."""
    papers = [Paper(f"a{n}", "", sections=(("Methods", " ".join(texts).format(n)),)) for n in range(8)]
    pairs = [
        (
            reference(f"a{n}", *(text.format(n) for text in texts)),
            predicted(f"a{n}", *(each.format(n) for each in said)),
        )
        for n in range(8)
    ]
    of, encoder = panel(*pairs), WordEncoder()
    similarity = similarity_of(of.predicted, of.human, encoder)
    return score("x", of, Measuring(similarity, encoder, matcher(0.8), library=Library(tuple(papers), ()), draws=200))


QUOTED = [
    "Mouse{0} lost its group{0} twice.",
    "Nurse{0} saw all labels{0} before.",
    "Half of drug{0} was left{0} over.",
]


def test_a_copier_is_far_above_permuted_papers_and_not_above_the_strongest_control() -> None:
    head = copier(QUOTED, QUOTED).score.headline
    assert (head.f1_above_permuted, head.f1_above_strongest) == (pytest.approx(1.0, abs=0.05), pytest.approx(0.0))
    assert (head.strongest, head.f1_strongest, head.p) == ("echo", 1.0, 1.0)


def test_who_finds_what_no_sentence_says_is_above_the_strongest_control_by_an_exact_test() -> None:
    said = [f"{text} nobody{{0}} masked{{0}} blind{{0}} sham{{0}} dose{{0}} arm{{0}}" for text in QUOTED]
    report = copier(said, said)
    head = report.score.headline
    assert head.f1_above_strongest is not None and head.f1_above_strongest > 0.4
    assert (head.p, head.is_exact) == (pytest.approx(2 / 2**8), True)
    assert any("8 papers are few" in each for each in report.score.warnings)


def test_on_few_papers_a_comparison_gives_no_p_from_draws(scores) -> None:
    (found,) = compared(scores[:2], ("f1",)).comparisons[0].differences
    assert (found.p_bootstrap, found.p_permutation) == (None, pytest.approx(2 / 2**8))


def test_a_score_of_before_copied_sentences_is_read_and_stands_last_without_a_rank(scores, tmp_path) -> None:
    save_report(scores[1], tmp_path / "half.json")
    document = json.loads((tmp_path / "half.json").read_text())
    for row in document["rows"]:
        row.pop("by_control")
    for summary in document["summaries"]:
        del summary["metrics"]["f1_above_strongest"]
        summary["metrics"]["contradicted"] = summary["metrics"]["f1"]
    document["score"]["grounding"] = {"by": "rules"}
    (tmp_path / "half.json").write_text(json.dumps(document))
    old = load_report(tmp_path / "half.json", ReviewReport)
    (board,) = boards_of([scores[0], old])
    assert [(row.stage, row.rank) for row in board.rows] == [("good", 1), ("half", None)]
    assert "score it again" in board.rows[1].metrics["f1_above_strongest"].note


def test_a_system_that_says_nothing_has_no_headline_and_no_rank_above_one_below_its_control(scores) -> None:
    silent = scored("silent", 0)
    assert silent.score.headline.f1_above_strongest is None
    assert any("says nothing" in each for each in silent.score.warnings)
    (board,) = boards_of([silent, scores[2]])
    assert [(row.stage, row.rank) for row in board.rows] == [("none", 1), ("silent", None)]


def test_the_two_gates_stand_apart_and_are_joined_both_ways(scores) -> None:
    found = gates_of(scores[1].score)
    assert (found.f1.value, found.f1.passes) == (pytest.approx(0.5), False)
    assert (found.recall.value, found.recall.passes) == (pytest.approx(0.5), True)
    assert found.as_documented
    assert not found.as_coded


def test_a_source_is_shown_with_what_other_papers_of_it_would_give_and_how_often_all_was_found(scores) -> None:
    sources = report_of(scores[:1], {}).systems[0].sources
    assert list(sources) == ["elife", "f1000"]
    known = ("f1", "f1_above_permuted", "answered", "none_found", "all_found")
    assert [sources["elife"][name].value for name in known] == pytest.approx([1, 1, 1, 0, 1])
    assert sources["elife"]["f1"].n == 4


def test_intervals_of_a_group_leave_out_draws_that_hold_none_of_its_articles() -> None:
    rare = [(reference("a", human("one two", "other"), source="rare"), predicted("a", "one two"))]
    usual = [
        (reference(f"b{k}", human(f"word{k} thing{k}"), source="usual"), predicted(f"b{k}", "nothing"))
        for k in range(6)
    ]
    of = panel(*rare, *usual)
    encoder = WordEncoder()
    measuring = Measuring(similarity_of(of.predicted, of.human, encoder), encoder, matcher(0.8), draws=100)
    found = score("x", of, measuring).score
    assert found.per_source["rare"].recall == 1
    assert found.group_intervals["source"]["rare"].recall is None, "one article shows no spread"


def test_pairs_of_systems_are_tested_exactly_on_few_articles_and_corrected_together(scores) -> None:
    tests = compared(scores, ("f1", "f1_above_permuted"))
    pairs = [(each.first.stage, each.second.stage) for each in tests.comparisons]
    assert pairs == [("good", "half"), ("good", "none"), ("half", "none")]
    first = tests.comparisons[0].differences[0]
    assert first.value == pytest.approx(-0.5)
    assert first.is_exact and first.p_permutation == pytest.approx(2 / 2**8)
    assert first.p_holm == pytest.approx(6 * first.p_permutation)


def test_the_leaderboard_ranks_only_what_is_shown() -> None:
    good = scored("good", 4, short=0)
    same = scored("same", 4, short=0)
    (board,) = boards_of([good, scored("half", 2, 2, short=1), scored("none", 0, 4), same])
    assert [(row.rank, row.stage) for row in board.rows] == [(1, "good"), (1, "same"), (3, "half"), (4, "none")]
    assert board.rows[0].metrics.keys() >= {"permuted", "generic", "count_bound", "answered"}


def test_scores_of_another_threshold_stand_in_a_table_of_their_own(scores) -> None:
    other = scored("other", 4, threshold=0.7)
    assert len(boards_of([*scores, other])) == 2
    with pytest.raises(IncomparableReports, match=r"threshold 0.8000 and 0.7000; score both again"):
        check_comparable([scores[0], other])


def test_a_name_nobody_scored_is_refused(scores) -> None:
    with pytest.raises(LabError, match=r"'base'.*good, half, none"):
        report_of(scores, {}, against="base")


def test_what_only_one_system_found_and_what_none_found_is_counted(scores) -> None:
    shared = report_of(scores, {}).shared
    assert shared is not None
    assert shared.n_found_by_one == {"good": 16, "half": 0, "none": 0}
    assert (shared.n_found_by_all, shared.n_found_by_none) == (0, 0)


def row(raw: object = None, *concerns: str, **extra: object) -> PredictionRow:
    known = {"article_id": "a", "concerns": list(concerns), **extra}
    return PredictionRow.model_validate(known if raw is None else known | {"raw_output": raw})


ONE = json.dumps([{"text": "No control arm.", "category": "design_flaw", "severity": "major"}])
MODES = [
    (None, "missing"),
    (row(ONE, "No control arm."), "ok"),
    (row(None, "No control arm."), "ok"),
    (row(ONE[:-4], "No control arm."), "partial"),
    (row(ONE[:-4], "No control arm.", finish_reason="length"), "cut"),
    (row("[]"), "empty"),
    (row("I cannot review this."), "failed"),
    (row("\n".join(["The same sentence over again."] * 12)), "loop"),
    (row(json.dumps([{"text": "The same concern."}] * 12), "The same concern."), "loop"),
    (row("a\n" * 200), "failed"),
    (row("", status="failed"), "failed"),
    (row("", "No control arm.", status="partial"), "partial"),
    (row(f"{ONE}\n[]", "No control arm.", status="ok"), "ok"),
]


@pytest.mark.parametrize(("given", "mode"), MODES)
def test_how_an_answer_ended_is_told(given, mode) -> None:
    assert mode_of(given) == mode


def test_an_article_without_human_concerns_has_no_recall_rather_than_none(scores) -> None:
    articles = [each.model_copy(update={"n_human": 0, "n_matched": 0}) for each in scores[0].rows[:1]]
    found = errors_of(articles, {})
    assert found.recall == {"no human concerns": 1}
    assert found.worst == ()
    assert found.modes == {"missing": 1}


def test_pages_hold_every_system_and_survive_a_bar_in_a_name(scores) -> None:
    page = report_page(report_of([scored("a|b", 4), scores[1]], {}))
    assert "| a\\|b |" in page
    assert "hold (0.500)" in page
    assert "| a\\|b → half | F1 | -0.500" in page
