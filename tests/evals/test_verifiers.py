"""From the last lines of an answer to verdict, scores and reward: what is read, what it earns, what it pays to say."""

from collections import Counter
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from evals.errors import BadConfig
from evals.questions import DATASETS, conversation, kmp_test, load_questions
from evals.questions.kmp import kmp_wordings
from evals.schema import (
    CANNOT_BE_TOLD,
    AbstainTruth,
    ChoiceTruth,
    CountTruth,
    DirectTruth,
    Example,
    GroundTruth,
    LabelTruth,
    NumberTruth,
    SetTruth,
    StatedConfidence,
    Verdict,
)
from evals.verifiers import verifier_versions, verify, verify_answer
from evals.verifiers.expected import AnswerReading, Outcome, expected_answer
from evals.verifiers.score import (
    DEFAULT_WEIGHTS,
    MODES,
    NO_FAULTS,
    PRESETS,
    SCORED,
    VERIFIERS,
    Faults,
    Scoring,
    applicable,
    score,
    weights,
)
from tests.bench._measure import seconds
from tests.evals.reports import TABLES

CASES = Path(__file__).parent / "cases"
TRUTH: TypeAdapter[GroundTruth] = TypeAdapter(GroundTruth)
BANK = tuple(row for make in DATASETS.values() for row in make()) + kmp_wordings()
KINDS: dict[str, Example] = {row.ground_truth.kind: row for row in BANK}
TRUTHS: dict[str, GroundTruth] = {kind: row.ground_truth for kind, row in KINDS.items() if kind in SCORED} | {
    "direct, no missions": DirectTruth(tissue="thymus", pathway="HALLMARK_ADIPOGENESIS", direction="DOWN"),
    "choice": ChoiceTruth(value="hydrolase", options=("hydrolase", "lyase")),
    "number": NumberTruth(value=37.0, unit="°C"),
    "set": SetTruth(values=("UAA", "UAG", "UGA")),
}
DIRECT = KINDS["direct"]
PERCENTS = tuple(share / 100 for share in range(0, 101, 5))
FAULTY = Faults(("NES false",), ("up and down",))
"""The worst that a correct answer can have beside it."""
LEAST = 0.5
"""The least credit of a correct answer."""


# ---- what the lines say -----------------------------------------------------------------------


def test_every_case_of_the_table_of_answer_lines_is_read_right() -> None:
    groups = yaml.safe_load((CASES / "answer_lines.yaml").read_text(encoding="utf-8"))
    cases = [
        (TRUTH.validate_python(each["truth"]), each["question"], each.get("read", "answer"), case)
        for each in groups
        for case in each["cases"]
    ]
    wrong = []
    for truth, question, read, case in cases:
        found = verify_answer(truth, question, case["text"], read=read)
        seen = (found.verdict, found.confidence.value)
        if seen != (case["verdict"], case.get("confidence", seen[1])):
            wrong.append((truth.kind, case, seen, found.reason))
    assert len(cases) >= 150
    assert not wrong, "\n".join(map(str, wrong))


def test_the_banks_own_answers_are_right_and_have_no_fault() -> None:
    wrong = [
        (row.id, row.answer, found.reason)
        for row in BANK
        if row.ground_truth.kind in SCORED
        for found in [verify(row, row.answer, read="answer")]
        if found.verdict != "correct" or {found.scores["V1"], found.scores["V2"], found.scores["V3"]} - {1.0, None}
    ]
    assert not wrong


def test_false_figures_and_missions_cost_v2_and_true_ones_nothing() -> None:
    table = yaml.safe_load((CASES / "explanations.yaml").read_text(encoding="utf-8"))
    by_id = {row.id: row for row in BANK}
    wrong = []
    for group in table:
        row = by_id[group["question"]]
        answer = row.answer.split("\n")[-2:]
        for verifier, kind, value in (("V2", "false", 0.0), ("V2", "true", 1.0), ("V3", "against", 0.0)):
            for said in group.get(kind, ()):
                found = verify(row, "\n".join((said, *answer)), read="answer")
                if found.verdict != "correct" or found.scores[verifier] != value:
                    wrong.append((kind, said, found.scores, found.reason))
    assert not wrong, "\n".join(map(str, wrong))


def test_an_empty_explanation_earns_no_more_than_a_true_one() -> None:
    for row in KINDS.values():
        if row.ground_truth.kind in SCORED:
            bare = "\n".join(row.answer.split("\n")[-2:])
            assert verify(row, bare).reward == verify(row, row.answer).reward


def test_auto_reads_the_line_where_there_is_one_and_the_text_else() -> None:
    lined, prose = ("It rises.\nAnswer: down\nConfidence: 80%", "Adipogenesis is downregulated in mouse thymus.")
    assert verify(DIRECT, lined).read_by == "answer"
    assert verify(DIRECT, lined).answer == "down"
    assert verify(DIRECT, prose).read_by == "text"
    assert verify(DIRECT, prose, read="answer").verdict == "no_claim"
    assert verify(DIRECT, prose, read="answer").reward == 0.0
    with pytest.raises(BadConfig, match="choose one of auto, answer, text"):
        verify(DIRECT, prose, read="line")  # type: ignore[arg-type]


def test_the_prompt_never_tells_the_truth() -> None:
    """Prompts that differ only in their truth are byte-equal, and each bank question offers to abstain."""

    def other(truth: GroundTruth) -> GroundTruth:
        data = truth.model_dump()
        match truth.kind:
            case "direct" | "mechanism":
                data["direction"] = "UP" if data["direction"] == "DOWN" else "DOWN"
            case "uncertainty":
                return DirectTruth(tissue=data["tissue"], pathway=data["pathway"], direction="UP")
            case "comparison":
                data["is_consistent"] = not data["is_consistent"]
            case "conservation":
                data["level"] = "moderately conserved" if data["level"][0] != "m" else "poorly conserved"
            case "count":
                return AbstainTruth()
            case "abstain":
                return LabelTruth(value="yes", others=("no",))
            case "label":
                return CountTruth(value=7, subject="x")
            case "term":
                data["accept"], data["others"] = data["others"], data["accept"]
        return TRUTH.validate_python(data)

    for row in BANK:
        changed = row.model_copy(update={"ground_truth": other(row.ground_truth)})
        assert conversation(row) == conversation(changed), row.id
        assert CANNOT_BE_TOLD in conversation(row)[0].content
    forms = {kind: {conversation(row)[0].content for row in BANK if row.ground_truth.kind == kind} for kind in KINDS}
    assert all(len(found) == 1 for found in forms.values())
    assert forms["direct"] == forms["uncertainty"]
    assert forms["count"] == forms["label"] == forms["abstain"]


def test_a_term_is_asked_for_in_words_that_the_question_does_not_hold() -> None:
    for row in BANK:
        if row.ground_truth.kind in ("mechanism", "term"):
            echo = f"{row.prompt}\nAnswer: {row.prompt.rstrip('?. ')}\nConfidence: 90%"
            assert verify(row, echo, read="answer").verdict != "correct", row.id
            named = expected_answer(row.ground_truth)
            assert named.accept
            assert named.others


# ---- what it earns ----------------------------------------------------------------------------


def scored(
    truth: GroundTruth,
    outcome: Outcome,
    confidence: float | None,
    scoring: Scoring | None = None,
    *,
    credit: float = 1.0,
    faults: Faults = NO_FAULTS,
) -> Verdict:
    stated = StatedConfidence(value=confidence, status="missing" if confidence is None else "stated")
    reading = AnswerReading(outcome, "", None, (), credit if outcome == "correct" else 0.0)
    return score(truth, reading, stated, "answer", faults, scoring or Scoring())


def reward(truth: GroundTruth, outcome: Outcome, confidence: float | None, scoring: Scoring | None = None) -> float:
    return scored(truth, outcome, confidence, scoring).reward or 0.0


def test_what_applies_depends_on_the_truth_alone() -> None:
    with_figures = {kind for kind, truth in TRUTHS.items() if applicable(truth) == ("V1", "V2", "V3", "V4")}
    assert with_figures == {"direct", "mechanism", "uncertainty", "conservation"}
    assert {applicable(truth) for kind, truth in TRUTHS.items() if kind not in with_figures} == {("V1", "V3", "V4")}
    for truth, outcome, confidence in product(TRUTHS.values(), ("correct", "incorrect", "no_claim"), (None, 0.8)):
        found = scored(truth, outcome, confidence).scores
        assert tuple(name for name in VERIFIERS if found[name] is not None) == applicable(truth)


def test_a_rubric_has_no_score_and_no_reward_without_a_judge() -> None:
    verdict = verify(KINDS["facts"], KINDS["facts"].answer)
    assert (applicable(KINDS["facts"].ground_truth), set(verdict.scores.values()), verdict.reward) == ((), {None}, None)


def test_the_reward_is_the_weighted_mean_of_what_applies_and_faults_take_away() -> None:
    verdict = scored(TRUTHS["direct"], "correct", 0.8)
    assert verdict.scores == {"V1": 1.0, "V2": 1.0, "V3": 1.0, "V4": pytest.approx(0.96)}
    assert verdict.reward == pytest.approx(0.87 + 0.13 * 0.96)
    faulty = scored(TRUTHS["direct"], "correct", 1.0, faults=FAULTY)
    assert (faulty.verdict, faulty.scores) == ("correct", {"V1": 1, "V2": 0, "V3": 0, "V4": 1})
    assert "NES false; up and down" in faulty.reason
    for truth, name in product(TRUTHS.values(), PRESETS):
        found = scored(truth, "correct", 0.7, Scoring(PRESETS[name]))
        parts = [(PRESETS[name].get(v, 0.0), s) for v, s in found.scores.items() if s is not None]
        assert found.reward == pytest.approx(sum(w * s for w, s in parts) / sum(w for w, _ in parts))


def test_a_correct_answer_beats_every_other_and_a_known_falsehood_never_pays() -> None:
    for kind, truth in TRUTHS.items():
        poorest = min(scored(truth, "correct", c, credit=LEAST, faults=FAULTY).reward or 0.0 for c in (None, *PERCENTS))
        richest = max(
            reward(truth, o, c) for o in ("incorrect", "contradictory", "no_claim") for c in (None, *PERCENTS)
        )
        assert poorest > richest, kind
        for p in (share / 100 for share in range(1, 101)):
            right = scored(truth, "correct", p, credit=LEAST, faults=FAULTY).reward or 0.0
            assert p * right + (1 - p) * reward(truth, "incorrect", p) > reward(truth, "incorrect", 0.0), kind


def test_an_incorrect_set_of_names_earns_less_than_a_correct_one_and_more_the_closer_it_is() -> None:
    truth = SetTruth(values=("UAA", "UAG", "UGA"))
    lines = ("UAA, UAG, UGA", "UAA, UAG", "UAA", "AUG")
    said = [verify_answer(truth, "Which codons stop?", f"Answer: {line}\nConfidence: 0%") for line in lines]
    found = [each.scores["V1"] for each in said]
    assert found == [1.0, pytest.approx(0.4), pytest.approx(0.25), 0.0]


def test_telling_the_true_probability_pays_best_under_every_preset_and_only_in_the_proper_mode() -> None:
    def earned(truth: GroundTruth, p: float, c: float, scoring: Scoring) -> float:
        return p * reward(truth, "correct", c, scoring) + (1 - p) * reward(truth, "incorrect", c, scoring)

    for truth, name, p in product(TRUTHS.values(), PRESETS, PERCENTS):
        scoring = Scoring(PRESETS[name])
        assert max(PERCENTS, key=lambda c: earned(truth, p, c, scoring)) == p
        assert earned(truth, p, p, scoring) > p * reward(truth, "correct", None, scoring)
    best = {
        mode: [
            max(PERCENTS, key=lambda c: earned(TRUTHS["direct"], p, c, Scoring({"V4": 1.0}, mode))) for p in (0.3, 0.8)
        ]
        for mode in MODES
    }
    assert best == {"proper": [0.3, 0.8], "legacy": [0.5, 0.5], "match_v1": [0, 1], "calibration_aware": [0, 1]}


def test_each_mode_scores_a_confidence_by_its_own_rule() -> None:
    for mode, kind, outcome, confidence, value in TABLES["verifiers: what a confidence earns"]:
        found = scored(TRUTHS[kind], outcome, confidence, Scoring(v4=mode)).scores["V4"]
        assert found == pytest.approx(value), (mode, kind, outcome, confidence)


def test_weights_come_by_name_list_or_mapping_and_those_that_make_no_sense_and_unknown_modes_are_refused() -> None:
    for choice, found in ((None, dict(DEFAULT_WEIGHTS)), *TABLES["verifiers: weights"]):
        assert dict(weights(choice)) == found
        assert verify(DIRECT, DIRECT.answer, choice) == verify(DIRECT, DIRECT.answer, found)
    refused = [({"V9": 1.0}, "V9"), ({"V1": -1.0}, "-1.0"), ({"V1": float("nan")}, "nan"), ({}, "every weight is 0")]
    for choice, complaint in (*refused, ("phase5", "assay, mve, full, phase4"), ("V1=.5,V1=.4", "twice")):
        with pytest.raises(BadConfig, match=complaint):
            verify(DIRECT, "Down.", choice)
    with pytest.raises(BadConfig, match="no mode 'brier'; choose one of proper, legacy"):
        verify(DIRECT, "Down.", v4="brier")
    assert verifier_versions() == {"verifiers": "verifiers-13", "confidence": "confidence-5"}
    assert verifier_versions("legacy") == {**verifier_versions(), "v4": "legacy"}


# ---- hard inputs and time ---------------------------------------------------------------------

HARD = [before + text * times + after for before, text, times, after in TABLES["verifiers: hard answers"]]


def test_any_text_gets_a_verdict_in_every_kind() -> None:
    found = Counter(
        verify(row, text, read=read).verdict
        for row, text, read in product(KINDS.values(), HARD, ("auto", "answer", "text"))
    )
    assert "correct" not in found


def test_the_time_to_judge_grows_with_the_length_only() -> None:
    pieces = ("Answer: up\n", "not down, ", "confidence: 80% ", "8,484 genes ", "<think>", "> a\n", "a")
    slow = []
    for row, piece, read in product((DIRECT, KINDS["count"], KINDS["mechanism"]), pieces, ("answer", "text")):
        texts = [piece * (n // len(piece)) for n in (2_000, 16_000)]
        short, long = (min(seconds(partial(verify, row, text, read=read)) for _ in range(2)) for text in texts)
        slow += [] if long < 8 * 4 * short + 0.02 else [(row.kind, piece, read, short, long)]
    assert not slow


def test_verdicts_on_a_set_of_ones_own_speak_of_the_answer_key_and_those_on_our_tables_of_data():
    own = load_questions("codons-and-enzymes")[0]
    asked = (own, kmp_test()[0])
    reasons = [verify(each, f"Answer: {text}").reason for each in asked for text in ("leucine", "cannot be told")]
    named = [next(name for name in ("answer key", "data") if name in reason) for reason in reasons[:2]]
    assert named == ["answer key"] * 2, reasons
    assert "the answer key says phenylalanine" in reasons[0] and "answer key" not in " ".join(reasons[2:])
