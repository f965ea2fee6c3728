"""From verdict to scores and reward: what applies, what it gives, weights, modes, hard inputs."""

import pickle
import time
from itertools import product

import pytest

from evals.errors import BadConfig
from evals.verifiers import (
    DEFAULT_WEIGHTS,
    MODES,
    PRESETS,
    VERIFIERS,
    Scoring,
    applicable,
    instrument,
    judge,
    verify,
    verify_answer,
)
from evals.verifiers.finding import Label
from evals.verifiers.presets import weights
from evals.verifiers.score import LEAST_CREDIT, Faults
from tests.evals.scoring import DIRECT, FAULTY, KINDS, TRUTHS, scored

# ---- what applies and what it gives -----------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("direct", "V1 V2 V3 V4"),
        ("mechanism", "V1 V2 V3 V4"),
        ("direct, no missions", "V1 V3 V4"),
        ("uncertainty", "V1 V2 V3 V4"),
        ("comparison", "V3 V4"),
        ("conservation", "V2 V3 V4"),
        ("count", "V1 V3 V4"),
        ("label", "V1 V3 V4"),
        ("abstain", "V1 V3 V4"),
    ],
)
def test_what_applies_to_a_question_depends_on_its_truth_alone(kind: str, names: str) -> None:
    assert applicable(TRUTHS[kind]) == tuple(names.split())
    for label in ("correct", "incorrect", "contradictory", "no_claim"):
        for confidence in (None, 0.8):
            found = scored(TRUTHS[kind], label, confidence).scores
            assert [name for name in VERIFIERS if found[name] is not None] == names.split()


def test_facts_are_not_scored() -> None:
    verdict = verify(KINDS["facts"], KINDS["facts"].answer)
    assert applicable(KINDS["facts"].ground_truth) == ()
    assert (set(verdict.scores.values()), verdict.reward) == ({None}, 0.0)


def test_the_reward_is_the_weighted_mean_of_what_applies() -> None:
    verdict = scored(TRUTHS["direct"], "correct", 0.8)
    assert verdict.scores == {"V1": 1.0, "V2": 1.0, "V3": 1.0, "V4": pytest.approx(0.96)}
    assert verdict.reward == pytest.approx(0.87 + 0.13 * 0.96)


@pytest.mark.parametrize(("kind", "name"), list(product(TRUTHS, PRESETS)))
def test_weights_are_renormalised_over_what_applies(kind: str, name: str) -> None:
    verdict = scored(TRUTHS[kind], "correct", 0.7, Scoring(PRESETS[name]))
    parts = [(PRESETS[name].get(v, 0.0), s) for v, s in verdict.scores.items() if s is not None]
    total = sum(weight for weight, _ in parts)
    assert verdict.reward == pytest.approx(sum(w * s for w, s in parts) / total)


def test_weights_on_nothing_that_applies_earn_nothing() -> None:
    assert scored(TRUTHS["comparison"], "correct", 1.0, Scoring({"V1": 1.0})).reward == 0.0


def test_a_false_side_statement_costs_v2_and_a_contradiction_v3_but_never_the_verdict() -> None:
    truth = TRUTHS["direct"]
    false = scored(truth, "correct", 1.0, faults=Faults(enrichment=("NES false",)))
    torn = scored(truth, "correct", 1.0, faults=Faults(contradictions=("up and down",)))
    assert (false.verdict, false.scores) == ("correct", {"V1": 1, "V2": 0, "V3": 1, "V4": 1})
    assert (torn.verdict, torn.scores) == ("correct", {"V1": 1, "V2": 1, "V3": 0, "V4": 1})
    assert "NES false" in false.reason
    assert "up and down" in torn.reason


@pytest.mark.parametrize(("kind", "name"), [("conservation", "V2"), ("comparison", "V3")])
def test_a_fault_halves_the_verifier_that_is_all_of_the_content(kind: str, name: str) -> None:
    verdict = scored(TRUTHS[kind], "correct", 1.0, faults=FAULTY)
    assert verdict.scores[name] == LEAST_CREDIT


def test_a_real_answer_with_a_false_figure_beside_it_is_correct_and_earns_less() -> None:
    said, _, confidence = DIRECT.answer.rpartition("\n")
    right = verify(DIRECT, DIRECT.answer)
    wrong = verify(DIRECT, f"{said} Its NES is 9.9 and positive.\n{confidence}")
    assert (right.verdict, right.scores["V2"]) == ("correct", 1.0)
    assert wrong.reward < right.reward


@pytest.mark.parametrize("label", ["incorrect", "contradictory", "no_claim"])
def test_only_a_correct_verdict_earns_content(label: Label) -> None:
    for truth in TRUTHS.values():
        found = scored(truth, label, 0.9).scores
        assert {found[name] for name in ("V1", "V2", "V3")} <= {0.0, None}


@pytest.mark.parametrize("mode", MODES)
def test_without_a_claim_or_a_confidence_v4_is_nothing_in_every_mode(mode: str) -> None:
    for truth, label in product(TRUTHS.values(), ("contradictory", "no_claim")):
        assert scored(truth, label, 0.0, Scoring(v4=mode)).reward == 0.0
    for truth, label in product(TRUTHS.values(), ("correct", "incorrect")):
        assert scored(truth, label, None, Scoring(v4=mode)).scores["V4"] == 0.0


# ---- modes, presets, weights ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "kind", "label", "confidence", "value"),
    [
        ("proper", "direct", "correct", 0.8, 0.96),
        ("proper", "direct", "incorrect", 0.8, 0.36),
        ("legacy", "direct", "correct", 0.5, 1.0),
        ("legacy", "direct", "incorrect", 0.5, 1.0),
        ("legacy", "direct", "correct", 0.8, 0.55),
        ("legacy", "direct", "correct", 1.0, 0.25),
        ("match_v1", "direct", "correct", 0.9, 0.8),
        ("match_v1", "mechanism", "incorrect", 0.9, 0.2),
        ("match_v1", "direct", "incorrect", 0.1, 0.8),
        ("match_v1", "count", "correct", 0.9, 0.4),
        ("calibration_aware", "count", "correct", 0.9, 0.8),
        ("calibration_aware", "uncertainty", "incorrect", 0.3, 0.4),
        ("calibration_aware", "direct", "correct", 0.5, 0.2),
    ],
)
def test_each_mode_scores_a_confidence_by_its_own_rule(
    mode: str, kind: str, label: Label, confidence: float, value: float
) -> None:
    found = scored(TRUTHS[kind], label, confidence, Scoring(v4=mode)).scores["V4"]
    assert found == pytest.approx(value)


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        (None, dict(DEFAULT_WEIGHTS)),
        ("assay", dict(DEFAULT_WEIGHTS)),
        ("mve", {"V1": 0.6, "V4": 0.4}),
        ("full", {"V1": 0.35, "V2": 0.30, "V3": 0.15, "V4": 0.20}),
        ("phase4", {"V1": 0.30, "V2": 0.15, "V3": 0.10, "V4": 0.45}),
        (" Phase4 ", {"V1": 0.30, "V2": 0.15, "V3": 0.10, "V4": 0.45}),
        ("V1=.3, V4=.45", {"V1": 0.3, "V4": 0.45}),
        ({"V3": 1.0}, {"V3": 1.0}),
    ],
)
def test_weights_come_by_name_list_or_mapping(
    choice: str | dict[str, float] | None, found: dict[str, float]
) -> None:
    assert dict(weights(choice)) == found
    assert verify(DIRECT, DIRECT.answer, choice) == verify(DIRECT, DIRECT.answer, found)


@pytest.mark.parametrize(
    ("choice", "complaint"),
    [
        ({"V9": 1.0}, "V9"),
        ({"V1": -1.0}, "-1.0"),
        ({"V1": float("nan")}, "nan"),
        ({"V1": float("inf")}, "inf"),
        ({"V1": 0.0}, "every weight is 0"),
        ({}, "every weight is 0"),
        ("", "cannot read the weights ''"),
        ("phase5", "assay, mve, full, phase4"),
        ("V1=nan", "nan"),
        ("V1=.5,V1=.4", "twice"),
    ],
)
def test_weights_that_make_no_sense_are_refused(
    choice: str | dict[str, float], complaint: str
) -> None:
    with pytest.raises(BadConfig, match=complaint):
        verify(DIRECT, "Down.", choice)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(BadConfig, match="no mode 'brier'; choose one of proper, legacy"):
        verify(DIRECT, "Down.", v4="brier")
    with pytest.raises(BadConfig, match="no mode"):
        instrument("brier")


def test_the_instrument_names_the_mode_where_it_is_not_the_usual_one() -> None:
    assert instrument() == {"verifiers": "verifiers-5", "confidence": "confidence-3"}
    assert instrument("legacy") == {**instrument(), "v4": "legacy"}


# ---- hard inputs and time ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(
    "text",
    [
        "\x00\x01\ufffd",
        "\ud83e",
        "<script>alert(1)</script>",
        "🧬" * 50,
        "9" * 20_000,
        "NES = " + "9" * 5_000,
        "r = 0." + "1" * 5_000,
        "9" * 400 + "k genes",
        "((((((((((",
        "| --- | --- |",
        "not not not not",
        "\u202eereht",
    ],
    ids=range(12),
)
def test_any_text_gets_a_verdict(kind: str, text: str) -> None:
    verdict = verify(KINDS[kind], text)
    assert verdict.reward == 0.0 or verdict.verdict == "incorrect"


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(
    "piece",
    [
        "down ",
        "not down, ",
        "confidence: 80% ",
        "8,484 genes ",
        "adipogenesis and ",
        "a",
        "é",
        "(",
        "no data ",
    ],
)
def test_the_time_to_judge_grows_with_the_length_only(kind: str, piece: str) -> None:
    def seconds(n: int) -> float:
        text = piece * (n // len(piece))
        begin = time.process_time()
        verify(KINDS[kind], text)
        return time.process_time() - begin

    seconds(1_000)
    short = min(seconds(8_000) for _ in range(3))
    long = min(seconds(64_000) for _ in range(3))
    assert long < 8 * 4 * short + 0.02


def test_a_verdict_survives_pickling_and_repeats() -> None:
    verdict = verify(DIRECT, DIRECT.answer)
    assert pickle.loads(pickle.dumps(verdict)) == verdict
    again = verify_answer(DIRECT.ground_truth, DIRECT.prompt, DIRECT.answer)
    assert again == verdict == judge(DIRECT.ground_truth, DIRECT.prompt, DIRECT.answer)
