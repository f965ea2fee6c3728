"""Pairs say what the verifiers say, are labelled so, and follow the rule that the card states."""

import json

import pytest

from evals.errors import BadConfig, LabError
from evals.questions import DATASETS, kmp_test
from evals.questions.pairs import Sample, SampleOrigin, make_pairs
from evals.run import conversation
from evals.schema import Example, RubricTruth

ORIGIN = SampleOrigin(source="embedded", stage="sft", seed=0, temperature=1.0)
DIRECT = next(row for row in DATASETS["pathways-train"]() if row.ground_truth.kind == "direct")


def answer(way: str, confidence: int | None, example: Example = DIRECT) -> str:
    text = f"In mouse {example.tissue}, most missions say so.\nAnswer: {way}"
    return text if confidence is None else f"{text}\nConfidence: {confidence}%"


RIGHT = "up" if DIRECT.ground_truth.direction == "UP" else "down"
WRONG = "down" if RIGHT == "up" else "up"


def sample(text: str, example: Example = DIRECT, **changes: object) -> Sample:
    return Sample(example, conversation(example, "Be brief."), text, ORIGIN, **changes)


def test_a_right_answer_is_preferred_to_a_wrong_one_with_all_that_led_to_it():
    made = make_pairs([sample(answer(WRONG, 90)), sample(answer(RIGHT, 90))], 0.2, 2)
    (row,) = made.rows
    assert row.chosen[0].content == answer(RIGHT, 90)
    assert row.rejected[0].content == answer(WRONG, 90)
    assert [turn.role for turn in row.prompt] == ["system", "user"]
    assert (row.rule, row.label_source) == ("verdict", "synthetic-verifier")
    assert (row.verdict_chosen, row.verdict_rejected) == ("correct", "incorrect")
    assert row.margin == pytest.approx(row.reward_chosen - row.reward_rejected, abs=1e-6)
    assert (row.example_id, row.kind, row.origin_chosen) == (DIRECT.id, "direct", ORIGIN)


def test_of_two_wrong_answers_the_one_that_is_less_sure_is_preferred():
    made = make_pairs([sample(answer(WRONG, 95)), sample(answer(WRONG, 10))], 0.2, 2)
    (row,) = made.rows
    assert (row.rule, row.confidence_chosen, row.confidence_rejected) == ("confidence", 0.10, 0.95)


def test_of_two_right_answers_the_one_that_is_surer_is_preferred():
    made = make_pairs([sample(answer(RIGHT, 5)), sample(answer(RIGHT, 95))], 0.2, 2)
    (row,) = made.rows
    assert (row.rule, row.confidence_chosen) == ("confidence", 0.95)


def test_a_wrong_claim_teaches_before_an_empty_answer_and_confidence_comes_last():
    texts = [
        "Nothing to say.",
        answer(WRONG, 95),
        answer(RIGHT, 90),
        answer(RIGHT, 91) + " ",
        answer(RIGHT, 30),
        answer(RIGHT, 92),
    ]
    made = make_pairs([sample(text) for text in texts], 0.2, 3)
    assert [row.verdict_rejected for row in made.rows] == ["incorrect", "no_claim", "correct"]
    used = [turn[0].content for row in made.rows for turn in (row.chosen, row.rejected)]
    assert len(set(used)) == len(used)


def test_an_answer_that_was_cut_off_is_never_preferred():
    texts = [sample(answer(RIGHT, 90), was_cut=True), sample(answer(WRONG, 90))]
    with pytest.raises(LabError, match="1 margin"):
        make_pairs(texts, 0.2, 2)


NONE = [
    ([answer(RIGHT, 90), answer(RIGHT, 90)], "one answer"),
    ([answer(RIGHT, 90), answer(RIGHT, 91)], "all right"),
    ([answer(WRONG, 90), answer(WRONG, 91)], "none right"),
    ([answer(WRONG, None), answer(WRONG, 5)], "none right"),
]


@pytest.mark.parametrize(("texts", "why"), NONE)
def test_a_question_without_a_clear_difference_gives_no_pair_and_is_counted(texts: list[str], why: str):
    with pytest.raises(LabError, match=f"1 {why}"):
        make_pairs([sample(text) for text in texts], 0.2, 2)


def test_a_held_out_question_gives_no_pair_whatever_its_row_says():
    held_out = kmp_test()[0].model_copy(update={"split": "train", "id": "mine/1"})
    good = [sample(answer(WRONG, 90)), sample(answer(RIGHT, 90))]
    bad = [sample(held_out.answer, held_out), sample("No idea.", held_out)]
    made = make_pairs([*good, *bad], 0.2, 2)
    assert {row.example_id for row in made.rows} == {DIRECT.id}
    assert made.left_out == {"held_out": 1}


def test_verdicts_are_those_of_the_answer_line_and_a_rubric_gives_no_pair():
    said = f"The gene set goes {RIGHT} in mouse {DIRECT.tissue}.\nConfidence: 90%"
    with pytest.raises(LabError, match="1 none right"):
        make_pairs([sample(said), sample(answer(WRONG, 90))], 0.2, 2)
    rubric = RubricTruth(items=("It says so.",))
    free = DIRECT.model_copy(update={"ground_truth": rubric, "prompt": "Why?", "id": "mine/1"})
    with pytest.raises(LabError, match="1 not scored"):
        make_pairs([sample(said, free), sample("No idea.", free)], 0.2, 2)


def test_the_same_answers_in_any_order_make_the_same_pairs():
    texts = [answer(way, sure) for way in (RIGHT, WRONG) for sure in (10, 50, 90)]
    forwards = make_pairs([sample(text) for text in texts], 0.1, 3)
    backwards = make_pairs([sample(text) for text in reversed(texts)], 0.1, 3)
    assert [row.pair_id for row in forwards.rows] == [row.pair_id for row in backwards.rows]


@pytest.mark.parametrize(("margin", "per_question"), [(0.0, 1), (1.5, 1), (0.2, 0)])
def test_settings_that_make_no_sense_are_refused(margin: float, per_question: int):
    with pytest.raises(BadConfig, match=str(margin)):
        make_pairs([], margin, per_question)


def test_the_statistics_tell_the_rule_the_instruments_and_what_was_left_out():
    texts = [answer(WRONG, 90), answer(RIGHT, 90)]
    made = make_pairs([sample(text) for text in texts], 0.2, 2, unknown_questions=3)
    document = json.loads(made.statistics({"margin": 0.2}, "train.jsonl", b"x").model_dump_json())
    assert document["label_source"] == "synthetic-verifier"
    assert document["versions"].keys() >= {"verifiers", "confidence"}
    assert (document["rows"], document["samples"], document["questions"]) == (1, 2, 1)
    assert document["left_out"] == {"unknown_question": 3}
    assert document["by_rule"] == {"verdict": 1}
