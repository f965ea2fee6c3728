"""From verdict to reward: weights, proper scoring, hard inputs, and time."""

import pickle
import time

import pytest

from evals.errors import BadConfig
from evals.questions import DATASETS
from evals.schema import Example, Verdict
from evals.verifiers import DEFAULT_WEIGHTS, verify

KINDS: dict[str, Example] = {
    example.ground_truth.kind: example for name in DATASETS for example in DATASETS[name]()
}
DIRECT = KINDS["direct"]


def answered(example: Example, percent: float) -> Verdict:
    said = example.answer.rpartition("\n")[0]
    return verify(example, f"{said}\nConfidence: {percent}%")


def test_the_reward_is_content_and_confidence_in_their_weights() -> None:
    verdict = answered(DIRECT, 80)
    assert verdict.scores == {"V1": 1.0, "V2": None, "V3": None, "V4": pytest.approx(0.96)}
    assert verdict.reward == pytest.approx(0.6 * 1.0 + 0.4 * 0.96)


def test_weights_are_renormalised_over_what_applies() -> None:
    weights = {"V1": 0.3, "V2": 0.15, "V3": 0.1, "V4": 0.45}
    verdict = verify(DIRECT, answered_text(DIRECT, 80), weights)
    assert verdict.reward == pytest.approx((0.3 + 0.45 * 0.96) / 0.75)
    assert verify(DIRECT, answered_text(DIRECT, 80), {"V3": 1.0}).reward == 0.0


def answered_text(example: Example, percent: int) -> str:
    return f"{example.answer.rpartition(chr(10))[0]}\nConfidence: {percent}%"


@pytest.mark.parametrize("truth", [0.0, 0.2, 0.5, 0.65, 0.9, 1.0])
def test_telling_the_true_probability_pays_best(truth: float) -> None:
    def expected(percent: int) -> float:
        right, wrong = answered(DIRECT, percent), opposite(percent)
        return truth * right.reward + (1 - truth) * wrong.reward

    best = max(range(0, 101, 5), key=expected)
    assert best == round(100 * truth)


def opposite(percent: int) -> Verdict:
    way = "up" if DIRECT.ground_truth.direction == "DOWN" else "down"
    verdict = verify(DIRECT, f"It goes {way}.\nConfidence: {percent}%")
    assert verdict.verdict == "incorrect"
    return verdict


def test_a_missing_or_invalid_confidence_earns_no_confidence_score() -> None:
    said = DIRECT.answer.rpartition("\n")[0]
    for ending in ("", "\nConfidence: 140%", "\nConfidence: 80%\nConfidence: 20%"):
        assert verify(DIRECT, said + ending).scores["V4"] == 0.0


def test_any_correct_answer_beats_any_wrong_one_under_the_default_weights() -> None:
    correct = [answered(DIRECT, percent).reward for percent in range(0, 101, 10)]
    wrong = [opposite(percent).reward for percent in range(0, 101, 10)]
    assert min(correct) > max(wrong)


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        ({"V9": 1.0}, "V9"),
        ({"V1": -1.0}, "-1.0"),
        ({"V1": float("nan")}, "nan"),
        ({"V1": 0.0}, "every weight is 0"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights: dict[str, float], complaint: str) -> None:
    with pytest.raises(BadConfig, match=complaint):
        verify(DIRECT, "Down.", weights)


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
    assert pickle.loads(pickle.dumps(verdict)) == verdict == verify(DIRECT, DIRECT.answer)
    assert sum(DEFAULT_WEIGHTS.values()) > 0
