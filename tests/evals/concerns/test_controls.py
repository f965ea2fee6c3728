"""Controls, thresholds and intervals say what a score is worth."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from evals.errors import LabError
from evals.review.controls import OBJECTION, Index, control_words, copied_sentences, echo, generic, permuted_control
from evals.review.match import CachedEncoder, ReadyVectors, calibrate_threshold, match, partners, similarity_of
from evals.review.score import articles_of, control_rates, micro_rates
from evals.schema.articles import PaperRow
from tests.evals.concerns.rows import WordEncoder, matcher, panel, predicted, reference
from tests.evals.reports import TABLES
from tests.evals.reviewed import paper

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
