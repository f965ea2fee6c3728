"""Whether concerns are right: planted flaws that are named or not, statistics recomputed, matchers held to labels."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml

from evals.errors import LabError
from evals.papers import demonstration
from evals.papers.places import WORD, sentences
from evals.review.controls import generic_concerns
from evals.review.match import LEXICAL_THRESHOLD, labelled_pairs, matcher_agreement
from evals.validity.insertion import is_copied, kinds, make_insertions, names_flaw, paper_text, plant, score_pairs
from evals.validity.pvalues import finding, recompute
from tests.evals.reviewed import example

STATISTICS = yaml.safe_load((Path(__file__).parent / "cases" / "statistics.yaml").read_text(encoding="utf-8"))
ELSEWHERE = STATISTICS.pop("elsewhere")


def test_a_concern_of_the_paper_s_own_words_is_a_copy_and_a_quotation_is_none():
    sentence = "Patients received 400 mg of magnesium glycinate per day or matching placebo."
    article = example([("Methods", f"We met on Mondays. {sentence}")]).article
    assert is_copied(sentence, article) and is_copied(f"It was not stated that {sentence}", article)
    asked = 'Why "matching placebo" was chosen is unclear, and its taste may have told who got it.'
    assert not is_copied(asked, article)


def test_sentences_end_at_full_stops_that_end_them():
    text = "It fell (Fig. 2). The p value was 0.03. Why? E. coli grew"
    found = [text[a:b] for a, b in sentences(text)]
    assert found == ["It fell (Fig. 2).", "The p value was 0.03.", "Why?", "E. coli grew"]


# ---- insertion ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made():
    return make_insertions(demonstration(), 85)


def test_the_papers_that_ship_give_sixty_pairs_over_twelve_kinds_and_the_same_every_time(made):
    pairs, versions = made
    assert len(pairs) >= 60 and len({each.kind for each in pairs}) >= 12
    assert make_insertions(demonstration(), 85) == (pairs, versions)
    assert make_insertions(demonstration(), 85, seed=1)[0] != pairs


def test_the_versions_of_a_pair_differ_where_the_key_says_and_ids_tell_nothing(made):
    pairs, versions = made
    articles = {each.id: each.article for each in versions}
    for pair in pairs:
        planted, mended = paper_text(articles[pair.planted]), paper_text(articles[pair.mended])
        assert planted != mended
        assert pair.sentence in planted and all(each in mended for each in pair.instead.split(". ")[:1])
        apart = {each[0] for each in WORD.finditer(planted)} ^ {each[0] for each in WORD.finditer(mended)}
        assert len(apart) < 60, pair
    first = [pair.planted.endswith("a") for pair in pairs]
    assert 0.25 < sum(first) / len(first) < 0.75
    assert not any(each.concerns or each.flaws for each in versions)


def test_every_kind_of_flaw_is_named_by_its_own_statement_and_by_no_other_local_one(made):
    pairs, _ = made
    told = [(f"{pair.statement} {pair.sentence}", pair) for pair in pairs if not pair.values]
    unnamed = [pair.kind for text, pair in told if not names_flaw(text, pair)]
    assert unnamed == []
    by_kind = {pair.kind: pair for pair in pairs}
    assert set(by_kind) == set(kinds())
    assert not names_flaw(by_kind["no_ethics"].statement, by_kind["no_blinding"])


def test_a_perfect_reviewer_a_generic_list_and_a_copier_are_told_apart(made):
    pairs, versions = made
    articles = {each.id: each.article for each in versions}

    def scored(say):
        return score_pairs(pairs, articles, {each.id: say(each) for each in versions}, draws=200).all

    planted = {pair.planted: [f"{pair.statement} See: {pair.sentence[:30]}"] for pair in pairs}
    perfect = scored(lambda each: planted.get(each.id, ()))
    assert perfect.detection > 0.9 and perfect.false_alarm == 0 and perfect.d_prime > 3
    generic = scored(lambda _: generic_concerns())
    assert generic.hits == generic.false_alarms > 0 and generic.d_prime == 0
    for glue in ("", "It was not stated that "):
        copier = scored(
            lambda each, glue=glue: [glue + each.sections[1].text[a:b] for a, b in sentences(each.sections[1].text)]
        )
        low, high = copier.intervals["d_prime"] or (0, 0)
        assert low <= 0 <= high


def test_pairs_without_both_answers_are_left_out_and_counted_and_none_is_an_error(made):
    pairs, versions = made
    articles = {each.id: each.article for each in versions}
    first = {pairs[0].planted: (), pairs[0].mended: (), pairs[1].planted: ()}
    found = score_pairs(pairs, articles, first, draws=20)
    assert (found.all.pairs, found.unanswered) == (1, len(pairs) - 1)
    with pytest.raises(LabError, match="no pair has an answer"):
        score_pairs(pairs, articles, {"other": ()})


def test_good_practice_is_taken_out_of_the_planted_version_alone():
    text = "Mice were treated with saline or drug. Assessors were blinded to group. Groups were compared."
    rows = example([("Methods", text), ("Results", "It fell.")])
    planted, mended, *_ = plant(rows.article, kinds()["no_blinding"], np.random.default_rng(0))
    assert "blinded" in paper_text(mended) and "blinded" not in paper_text(planted)
    denied = example([("Methods", "Mice were not randomised to groups of treatment.")])
    assert plant(denied.article, kinds()["no_randomisation"], np.random.default_rng(0)) is None


# ---- recomputed statistics ---------------------------------------------------------------------------


def test_p_values_are_recomputed_as_statcheck_does_and_no_sound_sentence_is_called_wrong():
    wrong = []
    for verdict, rows in STATISTICS.items():
        for sentence in rows:
            found = recompute(example([("Results", sentence)]).article)
            seen = ", ".join("one-tailed" if each.is_one_tailed else each.verdict for each in found) or "not read"
            if seen != verdict.replace("_", " "):
                wrong.append((sentence, verdict, seen))
    assert wrong == []


def test_what_the_text_says_of_its_tests_elsewhere_counts_and_a_denial_of_it_does_not():
    wrong = []
    for methods, sentence, verdict in ELSEWHERE:
        (found,) = recompute(example([("Methods", methods), ("Results", sentence)]).article)
        told = "one-tailed" if found.is_one_tailed else found.verdict
        wrong += [] if told == verdict else [(methods, sentence, told)]
    assert not wrong


def test_a_finding_says_what_p_should_be_and_is_major_where_it_crosses_the_line():
    crosses = finding(*recompute(example([("Results", "It fell, t(28) = −2.20, p = .30.")]).article))
    assert crosses.concern.severity == "major" and "should give p = 0.0366" in crosses.concern.text
    halved = finding(*recompute(example([("Results", "It fell, t(28) = 2.20, p = .018.")]).article))
    assert halved.concern.severity == "minor" and "one-tailed, which the text does not say" in halved.concern.text
    zero = finding(*recompute(example([("Results", "It fell, t(28) = 9.20, p = .000.")]).article))
    assert "never exactly 0" in zero.concern.text


# ---- matchers against hand labels ------------------------------------------------------------------


def test_the_labelled_pairs_are_of_concerns_about_papers_that_ship_and_near_misses_are_common():
    pairs = labelled_pairs()
    papers = {each.id: {c.concern_text for c in each.concerns} for each in demonstration()}
    assert len(pairs) >= 200 and len({(each.a, each.b) for each in pairs}) == len(pairs)
    assert not [each for each in pairs if not any(text.endswith(each.a) for text in papers[each.article_id])]
    labels = Counter(each.label for each in pairs)
    assert labels["yes"] >= 50 and labels["partly"] >= 15 and labels["no"] >= 100
    assert all(each.reason and each.labelled_by for each in pairs)


class Labelled:
    """An encoder that gives the two concerns of a pair labelled yes the same vector, and all others one of their own."""

    name, revision = "labelled", "1"

    def encode(self, texts):
        known: dict[str, int] = {}
        for each in labelled_pairs():
            if each.label == "yes":
                known[each.b] = known.setdefault(each.a, len(known))
        places = [known.get(text, len(known) + at) for at, text in enumerate(texts)]
        return np.eye(len(known) + len(texts), dtype=np.float32)[places]


def test_a_matcher_that_follows_the_labels_agrees_fully_and_one_of_words_hardly():
    agreed = {name: each.value for name, each in matcher_agreement(Labelled(), 0.9).items()}
    assert agreed == {"precision": 1.0, "recall": 1.0}
    recall = matcher_agreement(None, LEXICAL_THRESHOLD)["recall"]
    assert recall.n == 54 and recall.value < 0.1 and recall.high < 0.3
