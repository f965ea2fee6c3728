"""Whether concerns are right: planted flaws that are named or not, and claims that a paper bears out or contradicts."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

from evals.errors import LabError
from evals.papers import demonstration
from evals.review.controls import generic_concerns
from evals.review.match import LEXICAL_THRESHOLD, JudgedEncoder, match, panel_of, similarity_of
from evals.review.places import WORD
from evals.schema.reviews import PredictionRow, ReferenceRow
from evals.validity.checks import applying, check
from evals.validity.grounding import PaperSentences, copied, sentences
from evals.validity.insertion import kinds, make_pairs, names_flaw, plant, score_pairs, text_of
from evals.validity.labelled import agreement, labelled_pairs
from tests.evals.reviewed import example

CASES = yaml.safe_load((Path(__file__).parent / "cases" / "grounding.yaml").read_text(encoding="utf-8"))


def paper(name):
    parts = CASES["papers"][name]
    made = example([("Methods", parts["methods"]), ("Results", parts["results"])], title="A trial")
    return made.model_copy(update={"abstract": parts["abstract"]}).article


def test_claims_are_supported_or_contradicted_by_the_sentence_that_says_so():
    papers, wrong = {name: PaperSentences(paper(name)) for name in CASES["papers"]}, []
    for name, concern, status, words in CASES["cases"]:
        found = papers[name].ground(concern)
        told = [each.sentence for each in found.checks if each.status == status]
        if found.status != status or (words and not any(words in each for each in told)):
            wrong.append((name, concern, status, found))
    assert wrong == []


def test_words_in_quotation_marks_are_looked_for_in_the_paper():
    found = [(name, concern, PaperSentences(paper(name)).ground(concern).quote) for name, concern, _ in CASES["quotes"]]
    assert found == [tuple(each) for each in CASES["quotes"]]


def test_a_concern_of_the_paper_s_own_words_is_a_copy_and_a_quotation_is_none():
    article = paper("open")
    sentence = "Patients received 400 mg of magnesium glycinate per day or matching placebo."
    assert copied(sentence, article) and copied(f"It was not stated that {sentence}", article)
    assert not copied('Why "matching placebo" was chosen is unclear, and its taste may have told who got it.', article)


def test_sentences_end_at_full_stops_that_end_them():
    text = "It fell (Fig. 2). The p value was 0.03. Why? E. coli grew"
    assert [text[a:b] for a, b in sentences(text)] == [
        "It fell (Fig. 2).",
        "The p value was 0.03.",
        "Why?",
        "E. coli grew",
    ]


# ---- insertion ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made():
    return make_pairs(demonstration(), 85)


def test_the_papers_that_ship_give_sixty_pairs_over_twelve_kinds_and_the_same_every_time(made):
    pairs, versions = made
    assert len(pairs) >= 60 and len({each.kind for each in pairs}) >= 12
    assert make_pairs(demonstration(), 85) == (pairs, versions)
    assert make_pairs(demonstration(), 85, seed=1)[0] != pairs


def test_the_versions_of_a_pair_differ_where_the_key_says_and_ids_tell_nothing(made):
    pairs, versions = made
    articles = {each.id: each.article for each in versions}
    for pair in pairs:
        planted, mended = text_of(articles[pair.planted]), text_of(articles[pair.mended])
        assert planted != mended
        assert pair.sentence in planted and all(each in mended for each in pair.instead.split(". ")[:1])
        apart = {each[0] for each in WORD.finditer(planted)} ^ {each[0] for each in WORD.finditer(mended)}
        assert len(apart) < 60, pair
    first = [pair.planted.endswith("a") for pair in pairs]
    assert 0.25 < sum(first) / len(first) < 0.75
    assert not any(each.concerns or each.flaws for each in versions)


def test_every_kind_of_flaw_is_named_by_its_own_statement_and_by_no_other_local_one(made):
    pairs, _ = made
    unnamed = [
        pair.kind for pair in pairs if not pair.values and not names_flaw(f"{pair.statement} {pair.sentence}", pair)
    ]
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
    import numpy as np

    text = "Mice were treated with saline or drug. Assessors were blinded to group. Groups were compared."
    rows = example([("Methods", text), ("Results", "It fell.")])
    planted, mended, *_ = plant(rows.article, kinds()["no_blinding"], np.random.default_rng(0))
    assert "blinded" in text_of(mended) and "blinded" not in text_of(planted)
    denied = example([("Methods", "Mice were not randomised to groups of treatment.")])
    assert plant(denied.article, kinds()["no_randomisation"], np.random.default_rng(0)) is None


# ---- rules as a reviewer ----------------------------------------------------------------------------

STATISTICS = (
    ("The groups differed (t(28) = 2.52, p = 0.018).", ""),
    ("The groups differed (t(28) = 2.52, p = .009).", ""),  # one-sided
    ("The groups differed (t(28) = 2.52, p = 0.0018).", "recomputed"),
    ("Dose had an effect, F(2, 57) = 4.10, p < 0.05.", ""),
    ("Dose had an effect, F(2, 57) = 1.10, p < 0.05.", "recomputed"),
    ("Sexes differed (χ2(1, N = 90) = 6.3, p = 0.012).", ""),
    ("Sexes were compared (χ2(1, N = 90) = 6.3, p = 0.12).", "recomputed"),
    ("They correlated (r(40) = 0.35, p = 0.023).", ""),
    ("They correlated (r(40) = 0.15, p = 0.023).", "recomputed"),
    ("It was found (z = 1.96, p = 0.05).", ""),
    ("It was found (z = 1.20, p = 0.01).", "recomputed"),
    ("It was found (t = 5.1, p < 0.0001).", ""),  # no degrees of freedom, nothing to recompute
    ("The mean number of eggs was 3.50 (n = 12).", ""),
    ("The mean number of eggs was 3.47 (n = 12).", "GRIM"),
    ("The mean weight was 3.47 g (n = 12).", ""),
    ("Weight fell more in treated mice (p = 0.47).", "p value"),
    ("Weight did not fall more in treated mice (p = 0.47).", ""),
)


def test_statistics_that_cannot_be_are_found_and_those_that_can_are_not():
    wrong = []
    for sentence, kind in STATISTICS:
        found = check(example([("Results", sentence)]).article)
        seen = [each.source for each in found if each.kind == "statistics"]
        if (seen or [""]) != [kind]:
            wrong.append((sentence, kind, seen))
    assert wrong == []


def test_guidelines_apply_by_the_kind_of_study_and_ask_for_what_is_not_there():
    trial = paper("blind")
    assert applying(trial) == ["CONSORT"]
    items = {each.item for each in check(trial)}
    assert {"allocation concealment", "sample size", "ethics", "harms"} <= items
    assert not items & {"registration", "blinding", "sequence generation", "data availability", "multiple tests"}
    assert {"search", "risk of bias"} <= {each.item for each in check(trial, ("PRISMA",))}
    (concern,) = [each.concern for each in check(trial) if each.item == "sample size"]
    assert (concern.category, concern.severity) == ("statistical_methodology", "major")


def test_words_that_claim_too_much_are_quoted():
    found = check(example([("Discussion", "These results prove beyond doubt that it works.")]).article)
    assert ["These results prove beyond doubt" in each.concern.text for each in found if each.item == "certainty"] == [
        True
    ]


def test_the_rules_find_planted_flaws_and_leave_the_mended_papers_alone(made):
    pairs, versions = made
    said = {each.id: [one.concern.text for one in check(each.article)] for each in versions}
    found = score_pairs(pairs, {each.id: each.article for each in versions}, said, draws=100).all
    assert found.detection > 0.5 and found.false_alarm < 0.1


# ---- matchers against hand labels ------------------------------------------------------------------


def test_the_labelled_pairs_are_of_concerns_about_papers_that_ship_and_near_misses_are_common():
    pairs = labelled_pairs()
    papers = {each.id: {c.concern_text for c in each.concerns} for each in demonstration()}
    assert len(pairs) >= 200 and len({(each.a, each.b) for each in pairs}) == len(pairs)
    assert not [each for each in pairs if not any(text.endswith(each.a) for text in papers[each.article_id])]
    labels = Counter(each.label for each in pairs)
    assert labels["yes"] >= 50 and labels["partly"] >= 15 and labels["no"] >= 100
    assert all(each.reason and each.labelled_by for each in pairs)


def test_a_matcher_that_follows_the_labels_agrees_fully_and_one_of_words_hardly():
    label = {(each.a, each.b): each.label for each in labelled_pairs()}
    judge = JudgedEncoder(
        "judge", None, lambda pairs: [{"yes": 1.0, "partly": 0.5, "no": 0.0}[label[pair]] for pair in pairs]
    )
    perfect = agreement(judge, 0.75, draws=50)
    assert (perfect.precision, perfect.recall, perfect.kappa, perfect.auroc, perfect.partly) == (1, 1, 1, 1, 0)
    words = agreement(None, LEXICAL_THRESHOLD, draws=50)
    assert words.kappa < 0.2 and words.intervals["recall"][1] < 0.3


def test_a_judge_is_asked_about_the_nearest_concerns_alone_and_each_pair_once():
    asked = []

    def same(pairs):
        asked.extend(pairs)
        return [float("arm" in a and "arm" in b) for a, b in pairs]

    humans = [
        "No control arm was used.",
        "Six mice are few.",
        "The diet is not given.",
        "The title is too strong.",
        "Typos abound.",
    ]
    reference = [ReferenceRow(article_id=name, concerns=[{"text": text} for text in humans]) for name in "ab"]
    said = [
        PredictionRow(article_id=name, concerns=("A control arm is missing.", "Nobody was blinded.")) for name in "ab"
    ]
    panel = panel_of(reference, said)
    similarity = similarity_of(panel.predicted, panel.human, JudgedEncoder("judge", None, same))
    found = match(panel, similarity, 0.75)
    assert found.human.tolist() == [0, -1, 5, -1]
    assert len(asked) == len(set(asked)) == 6
