"""Who matches whom and the rates that follow; controls, thresholds and intervals that say what a score is worth; reports."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from evals.compare import Answers, Pairing, check_comparable, compare
from evals.errors import IncomparableReports, LabError
from evals.leaderboard import standings
from evals.review.controls import OBJECTION, Index, control_words, copied_sentences, echo, generic, permuted_control
from evals.review.match import (
    UNATTRIBUTED,
    CachedEncoder,
    ReadyVectors,
    calibrate_threshold,
    greedy,
    match,
    optimal,
    partners,
    similarity_of,
)
from evals.review.score import Library, Scored, ScoreSetup, articles_of, control_rates, micro_rates, review_report
from evals.review.task import Review, report_sections
from evals.schema.articles import PaperRow
from evals.schema.reports import ReviewReport
from tests.evals.concerns.rows import WordEncoder, human, matcher, panel, predicted, ready, reference
from tests.evals.reports import TABLES
from tests.evals.reviewed import paper

TRAP = np.array([[0.9, 0.8], [0.85, 0.1]])
"""The most alike pair first leaves the second row without a partner above 0.5."""


def test_optimal_finds_more_pairs_than_greedy_where_that_is_possible() -> None:
    assert list(zip(*optimal(TRAP, 0.5), strict=True)) == [(0, 1), (1, 0)]
    assert list(zip(*greedy(TRAP, 0.5), strict=True)) == [(0, 0)]


def test_a_pair_at_the_threshold_is_eligible_and_one_below_is_not() -> None:
    for block in (np.array([[0.65]]), np.array([[0.65]], dtype=np.float32)):
        assert len(optimal(block, 0.65)[0]) == len(greedy(block, 0.65)[0]) == 1
        assert len(optimal(block - 0.001, 0.65)[0]) == 0


BLOCKS = arrays.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=st.floats(0, 1, width=16))


@given(BLOCKS, st.floats(0.1, 0.9))
def test_optimal_has_most_pairs_and_then_the_greatest_sum(block: np.ndarray, threshold: float) -> None:
    rows, columns = optimal(block, threshold)
    found = (len(rows), round(float(block[rows, columns].sum()), 9))
    square = block if block.shape[0] <= block.shape[1] else block.T
    best = (0, 0.0)
    for order in itertools.permutations(range(square.shape[1]), square.shape[0]):
        kept = [square[i, j] for i, j in enumerate(order) if square[i, j] >= threshold]
        best = max(best, (len(kept), round(float(sum(kept)), 9)))
    assert found == best


MEANT = (human("a a", "design_flaw", "major"), human("b b", "interpretation"), human("c c", "design_flaw", figure=True))
SAID = ({"text": "x", "category": "design_flaw", "severity": "minor"}, "y", " ")
TWO = panel(
    (reference("elife:1", *MEANT), predicted("elife:1", *SAID)),
    (reference("plos:2", human("d d", "other", "major")), predicted("plos:2", "z", "w")),
    (reference("plos:3"), predicted("plos:3", "v")),
    (reference("plos:4", human("e e", "other", "major")), None),
)
MATRICES = {"elife:1": [[0.9, 0.1, 0.99], [0.2, 0.3, 0.99], [0.0, 0.0, 0.0]], "plos:2": [[0.7], [0.8]], "plos:3": [[]]}


def test_the_counts_of_articles_are_pooled_after_figures_and_blanks_are_left_out() -> None:
    rates = micro_rates(articles_of(TWO, match(TWO, ready(TWO, **MATRICES), 0.65)))
    assert (rates.n_human, rates.n_predicted, rates.n_matched) == (4, 5, 2)
    assert (rates.recall, rates.precision, rates.f1) == (2 / 4, 2 / 5, 4 / 9)
    assert rates.recall_major == pytest.approx(2 / 3)
    assert TWO.coverage.n_figures_left_out == 1
    assert TWO.coverage.n_blank == 1
    assert (TWO.coverage.n_answered, TWO.coverage.missing) == (3, ("plos:4",))


def test_no_group_loses_a_predicted_concern() -> None:
    groups = Review.groups(articles_of(TWO, match(TWO, ready(TWO, **MATRICES), 0.65)))
    for kind in ("category", "severity"):
        rates = [micro_rates(rows) for name, rows in groups.items() if name.startswith(kind)]
        assert sum(each.n_predicted for each in rates) == 5
        assert sum(each.n_human for each in rates) == 4
    assert micro_rates(groups["category design_flaw"]).recall == 1.0
    said = {"interpretation": 1, "other": 2, UNATTRIBUTED: 1}
    assert {name: micro_rates(groups[f"category {name}"]).n_predicted for name in said} == said
    sources = {name: len(rows) for name, rows in groups.items() if "source" in name}
    assert sources == {"source plos": 3, "source elife": 1}


def test_a_flag_or_the_category_says_that_a_concern_is_about_a_figure() -> None:
    row = reference("a", human("x y"), human("x z", "figure_issue"), human("y z", "other", "minor", figure=True))
    assert panel((row, predicted("a", "x"))).human.texts == ("x y",)


def test_similarities_of_the_wrong_shape_are_refused_with_both_shapes() -> None:
    with pytest.raises(LabError, match="3 rows \\(predicted\\) and 3 columns"):
        ready(TWO, **(MATRICES | {"elife:1": [[0.1, 0.2]]}))


def test_predictions_on_other_articles_are_named_and_left_out() -> None:
    found = panel((reference("a", "x y"), predicted("a", "x")), (reference("b", "z"), None))
    assert found.coverage.unknown == ()
    with pytest.raises(LabError, match="no article of the predictions"):
        panel((reference("a", "x y"), predicted("q", "x")))


# ---- controls, thresholds and intervals -----------------------------------------------------------


TOPICS = ("sample size small", "control arm missing", "antibody clone unknown", "novelty overstated")


def knowing(n: int = 12):
    """Return articles each with concerns of its own words, and a system that found them."""
    pairs = []
    for i in range(n):
        name = f"{('elife', 'plos')[i % 2]}:{i}"
        said = [f"{topic} gene{i}{k} tissue{i}{k} assay{i}{k}" for k, topic in enumerate(TOPICS)]
        pairs.append((reference(name, *said), predicted(name, *said[:3])))
    return panel(*pairs)


def test_lists_on_other_papers_of_the_source_get_what_is_left_without_knowledge() -> None:
    of = knowing()
    similarity = similarity_of(of.predicted, of.human, None)
    matched = match(of, similarity, 0.9)
    permuted = [{"permuted": permuted_control(of, similarity, matcher(at))} for at in (0.9, 0.01)]
    strict, loose = (control_rates(articles_of(of, matched, each)) for each in permuted)
    assert strict["permuted"].f1 == 0.0
    assert loose["permuted"].f1 == pytest.approx(loose["count_bound"].f1)
    assert loose["count_bound"].n_matched == 36


@pytest.mark.parametrize(("sources", "is_in"), TABLES["reviews: sources, and which papers have a list"])
def test_every_list_is_held_against_another_paper_once(sources, is_in) -> None:
    for partner in partners(sources, np.array(is_in), 5, seed=1):
        taken = partner[np.array(is_in)]
        assert all(article != other for article, other in enumerate(partner))
        assert sorted(taken) == [i for i, there in enumerate(is_in) if there]
        assert all(partner[~np.array(is_in)] == -1)


def test_one_article_alone_has_no_permuted_control() -> None:
    of = panel((reference("a", "x y z"), predicted("a", "x y z")))
    assert permuted_control(of, similarity_of(of.predicted, of.human, None), matcher(0.5)) is None


def test_the_generic_list_is_as_long_as_each_predicted_one() -> None:
    of = knowing()
    found = generic(of, WordEncoder(), matcher(0.9))
    assert found.said.tolist() == of.predicted.sizes.tolist()
    assert found.matched.sum() == 0


PAPER = paper("a", title="Mice", sections=dict(TABLES["reviews: a paper in sections"]))


def test_a_copier_gets_whole_sentences_of_methods_and_results_evenly_spaced() -> None:
    every = copied_sentences(PAPER, 9)
    assert every[0] == "We bought twelve mice from one dealer."
    assert every[-1] == "Nothing else differed between the groups (p > 0.2)."
    assert (len(every), copied_sentences(PAPER, 2)) == (4, [every[1], every[3]])
    assert copied_sentences(paper("b", "One text of five words."), 3) == ["One text of five words."]


def test_copied_sentences_and_titled_objections_are_as_many_as_were_predicted() -> None:
    of = panel((reference("a", "we bought twelve mice from one dealer."), predicted("a", "x y", "z", "u", "v")))
    encoder = WordEncoder()
    found = echo(of, encoder, matcher(0.2), [PAPER], OBJECTION)
    assert (found.said.tolist(), found.matched.tolist()) == ([4.0], [1.0])
    generic(of, encoder, matcher(0.2), [PAPER])
    assert any(text.startswith("Mice: ") for text in encoder.asked)


def test_the_threshold_lets_the_wanted_share_match_by_chance_and_ignores_the_system() -> None:
    of, encoder = knowing(40), WordEncoder()
    found = calibrate_threshold(of, encoder, 0.05, seed=0)
    assert found == calibrate_threshold(replace(of, predicted=of.human), encoder, 0.05, seed=0)
    similarity = similarity_of(of.predicted, of.human, encoder)
    by_chance = {"permuted": permuted_control(of, similarity, matcher(found.value))}
    rows = articles_of(of, match(of, similarity, found.value), by_chance)
    assert micro_rates(rows).precision == 1.0
    assert control_rates(rows)["permuted"].precision < 0.12
    assert calibrate_threshold(of, encoder, 0.5, seed=0).value < found.value


def test_a_concern_that_two_papers_share_word_for_word_does_not_spoil_the_threshold() -> None:
    of = panel(*((reference(f"a:{i}", "no control", f"gene{i} is odd"), None) for i in range(6)))
    assert calibrate_threshold(of, WordEncoder(), 0.05, seed=0).value < 0.99


def test_a_threshold_cannot_be_calibrated_on_one_paper() -> None:
    with pytest.raises(LabError, match="two papers or more"):
        calibrate_threshold(panel((reference("a", "x"), None)), WordEncoder(), 0.05, seed=0)


PAPERS = [paper(*each) for each in TABLES["reviews: papers by what they are about, with their concerns and family"]]


def by_hand(query: PaperRow, papers: list[PaperRow]) -> list[float]:
    """Return Okapi BM25 as the formula reads, one paper after another."""
    texts = [control_words(each.text) for each in papers]
    mean = sum(map(len, texts)) / len(texts)
    scores = []
    for text in texts:
        counted, total = Counter(text), 0.0
        for word in set(control_words(query.text)):
            holders = sum(word in other for other in texts)
            idf = math.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))
            norm = 1.5 * (1 - 0.75 + 0.75 * len(text) / mean)
            total += idf * counted[word] * 2.5 / (counted[word] + norm)
        scores.append(total)
    return scores


def test_bm25_agrees_with_its_formula() -> None:
    query = paper("q", "fibrosis of the liver after bile duct ligation")
    (found,) = Index(PAPERS).nearest([query], 4)
    wanted = by_hand(query, PAPERS)
    assert dict(found) == pytest.approx({i: s for i, s in enumerate(wanted) if s > 0}, rel=1e-5)
    assert [i for i, _ in found] == sorted(dict(found), key=lambda i: -wanted[i])


def test_bm25_skips_the_paper_itself_and_its_family_and_shares_concerns_by_rank() -> None:
    index = Index(PAPERS)
    own, family = index.nearest([PAPERS[0], paper("x", "liver fibrosis", family="fam")], 8)
    assert 0 not in dict(own)
    assert 3 not in dict(family)
    assert index.concerns([(0, 1.0), (1, 1.0)], 12)[0] == "Small n."
    assert index.concerns([(0, 1.0)], 1) == ["No sham group."]


def test_vectors_are_kept_on_disk_by_revision_and_each_text_is_encoded_once(tmp_path) -> None:
    first_encoder = WordEncoder()
    cached = CachedEncoder(first_encoder, tmp_path)
    before = cached.encode(["a b", "c", "a b"])
    assert sorted(first_encoder.asked) == ["a b", "c"]
    again = WordEncoder()
    assert np.array_equal(CachedEncoder(again, tmp_path).encode(["a b", "c", "a b"]), before)
    assert again.asked == []
    newer = WordEncoder(revision="2")
    CachedEncoder(newer, tmp_path).encode(["c"])
    assert newer.asked == ["c"]


def test_ready_vectors_name_a_text_that_has_none() -> None:
    with pytest.raises(LabError, match="no vector in file, such as 'b'"):
        ReadyVectors("file", {"a": (1.0, 0.0)}).encode(["a", "b"])


# ---- scores of reviewers --------------------------------------------------------------------------


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
