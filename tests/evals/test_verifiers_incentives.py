"""What the reward makes it pay to say: the truth, about the data and about oneself."""

from itertools import product

import pytest

from evals.schema import GroundTruth
from evals.verifiers import (
    CONTENT,
    DEFAULT_WEIGHTS,
    MODES,
    PRESETS,
    Scoring,
    verify,
)
from evals.verifiers.score import LEAST_CREDIT
from tests.evals.scoring import DIRECT, FAULTY, KINDS, PERCENTS, TRUTHS, rewards, scored


def expected(truth: GroundTruth, p: float, confidence: float, scoring: Scoring) -> float:
    """Return the mean reward of a claim that is right with chance p, at a stated confidence."""
    right = scored(truth, "correct", confidence, scoring).reward
    return p * right + (1 - p) * scored(truth, "incorrect", confidence, scoring).reward


@pytest.mark.parametrize(("name", "p"), list(product(PRESETS, PERCENTS)))
def test_telling_the_true_probability_pays_best_under_every_preset(name: str, p: float) -> None:
    for truth in TRUTHS.values():
        earned = {c: expected(truth, p, c, Scoring(PRESETS[name])) for c in PERCENTS}
        best = max(earned, key=lambda c: earned[c])
        assert best == p
        assert sum(value > earned[p] - 1e-9 for value in earned.values()) == 1


@pytest.mark.parametrize("name", PRESETS)
def test_stating_a_true_confidence_pays_more_than_stating_none(name: str) -> None:
    for truth, p in product(TRUTHS.values(), PERCENTS):
        scoring = Scoring(PRESETS[name])
        silent = p * scored(truth, "correct", None, scoring).reward
        assert expected(truth, p, p, scoring) > silent


def test_only_the_proper_mode_makes_the_truth_pay_best() -> None:
    def best(mode: str, p: float) -> float:
        scoring = Scoring({"V4": 1.0}, mode)
        return max(PERCENTS, key=lambda c: expected(TRUTHS["direct"], p, c, scoring))

    found = {mode: [best(mode, p) for p in (0.3, 0.6, 0.8)] for mode in MODES}
    assert found["proper"] == [0.3, 0.6, 0.8]
    assert found["legacy"] == [0.5, 0.5, 0.5]
    assert found["match_v1"] == found["calibration_aware"] == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("kind", TRUTHS)
def test_the_poorest_correct_answer_beats_the_richest_of_all_others(kind: str) -> None:
    worst = min(rewards(TRUTHS[kind], "correct"))
    for label in ("incorrect", "contradictory", "no_claim"):
        assert worst > max(rewards(TRUTHS[kind], label))


def test_the_usual_weights_are_those_that_the_proof_needs() -> None:
    content = {DEFAULT_WEIGHTS[name] for name in CONTENT.values()}
    assert LEAST_CREDIT * min(content) > DEFAULT_WEIGHTS["V4"]
    assert sum(DEFAULT_WEIGHTS.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", TRUTHS)
def test_a_known_falsehood_at_0_percent_never_beats_honest_answering(kind: str) -> None:
    false = scored(TRUTHS[kind], "incorrect", 0.0).reward
    for share in range(1, 101):
        p = share / 100
        right = scored(TRUTHS[kind], "correct", p, credit=LEAST_CREDIT, faults=FAULTY).reward
        wrong = scored(TRUTHS[kind], "incorrect", p).reward
        assert p * right + (1 - p) * wrong > false


HONEST_FROM = {
    ("mve", "comparison"): 1.0,
    ("mve", "conservation"): 1.0,
    ("full", "comparison"): 0.25,
    ("phase4", "comparison"): 1 - 0.10 / 0.45,
    ("phase4", "conservation"): 1 - 0.25 / 0.45,
    ("phase4", "direct, no missions"): 1 - 0.40 / 0.45,
    ("phase4", "count"): 1 - 0.40 / 0.45,
    ("phase4", "label"): 1 - 0.40 / 0.45,
    ("phase4", "abstain"): 1 - 0.40 / 0.45,
}
"""From which chance of being right honesty pays more than a known falsehood at 0 %; else from 0."""


@pytest.mark.parametrize(("name", "kind"), list(product(PRESETS, TRUTHS)))
def test_published_weights_pay_for_falsehoods_where_confidence_outweighs_content(
    name: str, kind: str
) -> None:
    scoring = Scoring(PRESETS[name])
    false = scored(TRUTHS[kind], "incorrect", 0.0, scoring).reward
    start = HONEST_FROM.get((name, kind), 0.0)
    for share in range(1, 100):
        p = share / 100
        honest = expected(TRUTHS[kind], p, p, scoring)
        assert (honest > false) == (p > start + 1e-9)


ANSWERABLE = tuple(kind for kind in KINDS if kind not in ("abstain", "facts", "uncertainty"))
"""Where missions disagree, that no direction can be told is what follows, and right."""


@pytest.mark.parametrize("kind", ANSWERABLE)
def test_abstaining_where_the_data_can_answer_earns_nothing(kind: str) -> None:
    for percent in (0, 50, 100):
        text = f"The data cannot answer this.\nConfidence: {percent}%"
        assert verify(KINDS[kind], text).reward == 0.0


def test_correctness_is_the_same_under_all_weights_and_modes() -> None:
    for text in (DIRECT.answer, "It goes up.\nConfidence: 10%", ""):
        found = {verify(DIRECT, text, name, mode).verdict for name, mode in product(PRESETS, MODES)}
        assert len(found) == 1


def test_a_missing_or_invalid_confidence_earns_no_confidence_score() -> None:
    said = DIRECT.answer.rpartition("\n")[0]
    for ending in ("", "\nConfidence: 140%", "\nConfidence: 80%\nConfidence: 20%"):
        assert verify(DIRECT, said + ending).scores["V4"] == 0.0
