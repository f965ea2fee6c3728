"""Scores of reviewers: controls, groups, thresholds, paired tests, ranks."""

from itertools import combinations

import pytest

from evals.compare import Answers, Pairing, check_comparable, compare
from evals.errors import IncomparableReports
from evals.leaderboard import standings
from evals.review.match import similarity_of
from evals.review.score import Library, Scored, ScoreSetup, review_report
from evals.review.task import report_sections
from evals.schema.reports import ReviewReport
from tests.evals.concerns.rows import WordEncoder, human, matcher, panel, predicted, reference
from tests.evals.reviewed import paper

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
    measuring = ScoreSetup(similarity_of(of.predicted, of.human, encoder), encoder, matcher(threshold))
    return review_report({name: Scored(of, measuring)})


def whole(report: ReviewReport) -> dict[str, float | None]:
    """Return the metrics of a report over all its papers."""
    return {name: each.value for name, each in report.summaries[0].metrics.items()}


def pair(*reports: ReviewReport) -> tuple[Answers, Answers]:
    one, two = ((each, each.chain_name) for each in reports)
    return one, two


@pytest.fixture(scope="module")
def scores() -> tuple[ReviewReport, ReviewReport, ReviewReport]:
    return scored("good", 4), scored("half", 2, 2), scored("none", 0, 4)


def copier(texts: list[str], said: list[str]) -> ReviewReport:
    """Return the score of a system on eight papers of whose text human concerns quote something."""
    papers = [paper(f"a{n}", sections={"Methods": " ".join(texts).format(n)}) for n in range(8)]
    pairs = [
        (
            reference(f"a{n}", *(text.format(n) for text in texts)),
            predicted(f"a{n}", *(each.format(n) for each in said)),
        )
        for n in range(8)
    ]
    of, encoder = panel(*pairs), WordEncoder()
    similarity = similarity_of(of.predicted, of.human, encoder)
    measuring = ScoreSetup(similarity, encoder, matcher(0.8), library=Library(tuple(papers), ()))
    return review_report({"x": Scored(of, measuring)})


QUOTED = [
    "Mouse{0} lost its group{0} twice.",
    "Nurse{0} saw all labels{0} before.",
    "Half of drug{0} was left{0} over.",
]


def test_a_copier_is_far_above_permuted_papers_and_not_above_the_strongest_control() -> None:
    report = copier(QUOTED, QUOTED)
    found, stage = whole(report), report.stages["x"]
    assert (found["f1_above_permuted"], found["f1_above_strongest"]) == (pytest.approx(1.0, abs=0.05), 0.0)
    assert (stage.strongest, found["echo"], stage.p) == ("echo", 1.0, 1.0)


def test_who_finds_what_no_sentence_says_is_above_the_strongest_control_by_an_exact_test() -> None:
    said = [f"{text} nobody{{0}} masked{{0}} blind{{0}} sham{{0}} dose{{0}} arm{{0}}" for text in QUOTED]
    report = copier(said, said)
    above, stage = whole(report)["f1_above_strongest"], report.stages["x"]
    assert above is not None and above > 0.4
    assert (stage.p, stage.is_exact) == (pytest.approx(2 / 2**8), True)
    assert any("8 papers are few" in each for each in stage.warnings)


def test_a_system_that_says_nothing_has_no_headline_and_no_rank_above_one_below_its_control(scores) -> None:
    silent = scored("silent", 0)
    assert whole(silent)["f1_above_strongest"] is None
    assert any("says nothing" in each for each in silent.stages["silent"].warnings)
    (board,) = standings([silent, scores[2]])
    assert [(row.stage, row.rank) for row in board.rows] == [("none", 1), ("silent", None)]


def test_a_group_of_one_article_has_no_interval() -> None:
    rare = [(reference("a", human("one two", "other"), source="rare"), predicted("a", "one two"))]
    usual = [
        (reference(f"b{k}", human(f"word{k} thing{k}"), source="usual"), predicted(f"b{k}", "nothing"))
        for k in range(6)
    ]
    of, encoder = panel(*rare, *usual), WordEncoder()
    measuring = ScoreSetup(similarity_of(of.predicted, of.human, encoder), encoder, matcher(0.8))
    report = review_report({"x": Scored(of, measuring)})
    (found,) = (each.metrics["recall"] for each in report.summaries if each.group == "source rare")
    assert (found.value, found.low) == (1, None)


def test_pairs_of_systems_are_tested_exactly_on_few_articles_and_corrected_together(scores) -> None:
    tests = compare([pair(*each) for each in combinations(scores, 2)], Pairing(("f1", "f1_above_permuted")))
    pairs = [(each.first.stage, each.second.stage) for each in tests.comparisons]
    assert pairs == [("good", "half"), ("good", "none"), ("half", "none")]
    first = tests.comparisons[0].differences[0]
    assert first.value == pytest.approx(-0.5)
    assert first.is_exact and first.p_permutation == pytest.approx(2 / 2**8)
    assert first.p_holm == pytest.approx(6 * first.p_permutation)


def test_the_leaderboard_ranks_only_what_is_shown() -> None:
    good = scored("good", 4, short=0)
    same = scored("same", 4, short=0)
    (board,) = standings([good, scored("half", 2, 2, short=1), scored("none", 0, 4), same])
    assert [(row.rank, row.stage) for row in board.rows] == [(1, "good"), (1, "same"), (3, "half"), (4, "none")]
    assert board.rows[0].metrics.keys() >= {"permuted", "generic", "count_bound", "answered"}


def test_scores_of_another_threshold_are_not_compared(scores) -> None:
    with pytest.raises(IncomparableReports, match=r"threshold 0.8000 and 0.7000; score both again"):
        check_comparable([scores[0], scored("other", 4, threshold=0.7)])


def test_a_score_stands_beside_other_thresholds_and_says_how_many_restatements_the_matcher_sees(scores) -> None:
    report = scores[1]
    thresholds = report.stages["half"].thresholds
    used = next(each for each in thresholds if each.is_used)
    assert (used.threshold, used.f1) == (0.8, whole(report)["f1"])
    assert len(thresholds) > 10
    recall = [each.recall for each in thresholds]
    assert recall == sorted(recall, reverse=True)
    assert all(each.f1_permuted is not None for each in thresholds)
    seen = report.matcher_agreement["recall"]
    assert seen.n == 54 and seen.value is not None and 0 <= seen.value <= 1
    figures, over, *_, groups = report_sections(report)
    assert "of 54 concerns that were said again in other words (hand-labelled pairs)" in figures.note
    assert ("0.800 (used)", f"{used.f1:.3f}") in [row[:2] for row in over.rows]
    assert "nearest human concern" in groups.note
